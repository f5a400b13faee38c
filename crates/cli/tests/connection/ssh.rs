//! How ssh is called.

use crate::common::*;
use haul_testkit::Sshd;
use std::fs;

/// A PATH with an `ssh` in front that writes its words to `log`, one call a line.
fn logging_ssh(scene: &Scene<'_>, server: &Sshd) -> String {
    path_with_ssh(scene, server, &format!("echo \"$*\" >> '{}'", scene.path("log").display()))
}

/// The words of each ssh so far: of those that only told their settings, and of
/// those that connected.
fn calls(scene: &Scene<'_>) -> (Vec<String>, Vec<String>) {
    let log = fs::read_to_string(scene.path("log")).expect("ssh was started");
    // Its version is no matter of the host's.
    let asked = log.lines().filter(|words| *words != "-V");
    asked.map(str::to_owned).partition(|words| words.contains(" -G "))
}

/// The words of the one ssh that connected.
fn words(scene: &Scene<'_>) -> String {
    let (_, mut connected) = calls(scene);
    assert_eq!(connected.len(), 1, "{connected:?}");
    connected.remove(0)
}

fn cpu_has_aes() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("aes")
        && std::arch::is_x86_feature_detected!("pclmulqdq");
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("aes")
        && std::arch::is_aarch64_feature_detected!("pmull");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    return false;
}

#[test]
fn aes_gcm_comes_first_unless_the_user_has_chosen_ciphers() {
    let world = World::new();
    let chosen = Sshd::builder().ciphers("aes256-ctr").start().expect("sshd starts");
    for (server, way, is_chosen) in
        [(world.sshd(), Way::Upload, false), (&chosen, Way::Download, true)]
    {
        let scene = world.scene(way);
        let a = scene.file("a", "a");
        let path = logging_ssh(&scene, server);
        let haul = scene.haul().env("PATH", path).args(["copy", "--remote-haul", HAUL]);
        haul.arg(scene.there(a)).arg("b").run().expect_ok();
        assert_eq!(scene.read("b"), "a");
        let words = words(&scene);
        let first = words.contains(" -oCiphers=aes128-gcm@openssh.com,aes256-gcm@openssh.com,");
        assert_eq!(first, cpu_has_aes() && !is_chosen, "{words}");
        assert_eq!(words.contains("Ciphers"), first, "{words}");
    }
}

#[test]
fn ssh_is_asked_for_its_settings_once_for_all_connections_to_a_host() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    scene.file("a", "a");
    let path = logging_ssh(&scene, world.sshd());
    // The agent isn't found, and three connections follow through SFTP.
    let haul = scene.haul().env("PATH", path).args(["copy", "-q", "--parallel", "3", "a"]);
    haul.arg(scene.there(scene.path("b"))).run().expect_ok();
    assert_eq!(scene.read("b"), "a");
    let (asked, connected) = calls(&scene);
    assert_eq!(asked.len(), usize::from(cpu_has_aes()), "{asked:?}");
    assert_eq!(connected.len(), 4, "{connected:?}");
    let with_list = connected.iter().filter(|words| words.contains(" -oCiphers=aes128-gcm@"));
    assert_eq!(with_list.count(), 4 * usize::from(cpu_has_aes()), "{connected:?}");
}

#[test]
fn nothing_stands_before_a_login_that_carries_no_contents() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    scene.file("a", "a");
    let path = logging_ssh(&scene, world.sshd());
    let there = scene.there(scene.path("b"));
    for words in [
        &["copy", "-q", "a"][..],
        &["ls"],
        &["stat"],
        &["hash"],
        &["check", "--content", "a"],
        &["copy", "-n", "-q", "a"],
    ] {
        let haul = scene.haul().env("PATH", &path).args(words);
        haul.args(["--remote-haul", HAUL]).arg(&there).run().expect_ok();
        let (asked, connected) = calls(&scene);
        assert_eq!(connected.len(), 1, "{words:?}: {connected:?}");
        let is_asked = words == ["copy", "-q", "a"] && cpu_has_aes();
        assert_eq!(asked.len(), usize::from(is_asked), "{words:?}: {asked:?}");
        fs::remove_file(scene.path("log")).expect("removed");
    }
}

#[test]
fn ssh_gets_the_users_words_and_no_others() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    scene.file("a", "a");
    let path = logging_ssh(&scene, world.sshd());
    let user = std::process::Command::new("id").arg("-un").output().expect("id").stdout;
    let user = String::from_utf8_lossy(&user).trim().to_owned();
    // The name of a file is never part of a command.
    let dest = scene.path("$(touch pwned); b 'c'");
    let port = world.sshd().port();
    let dest = dest.display().to_string().replace(' ', "%20");
    let haul = scene.haul().env("PATH", path).args(["copy", "a", "--remote-haul", HAUL]);
    haul.arg(format!("ssh://{user}@haul-test:{port}{dest}")).run().expect_ok();
    assert_eq!(scene.read("$(touch pwned); b 'c'"), "a");
    let words = words(&scene);
    assert!(words.ends_with(&format!(" -- haul-test '{HAUL}' serve")), "{words}");
    assert!(words.contains(&format!(" -p {port} -l {user} ")), "{words}");
    for kept in ["-T", "-oForwardAgent=no", "-oClearAllForwardings=yes"] {
        assert!(words.split(' ').any(|word| word == kept), "{kept}: {words}");
    }
    assert!(!scene.exists("pwned"));
}

#[test]
fn paths_of_a_host_are_completed_over_a_shared_connection_and_no_other() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    scene.file("dir/a", "a");
    scene.file("dir/ab/x", "x");
    scene.file("dir/.hidden", "h");
    let rsh = format!("{} -oControlPath={}", world.sshd().rsh(), scene.path("control").display());
    let places = |path: &str| {
        let location = scene.there(scene.path(path));
        let haul = scene.haul().env("HAUL_RSH", &rsh).env("HAUL_REMOTE_HAUL", HAUL);
        haul.args(["__places", "--"]).arg(location).run().expect_ok().out()
    };
    assert_eq!(places("dir/a"), "");
    let shared = |words: &str| {
        let line = format!("exec {rsh} {words} {}", world.sshd().host());
        haul_testkit::Haul::new("sh").args(["-c", &line]).run().expect_ok()
    };
    shared("-M -N -f");
    let at = |path: &str| format!("{}\n", scene.there(scene.path(path)).display());
    assert_eq!(places("dir/a"), at("dir/a") + &at("dir/ab/"));
    assert_eq!(places("dir/.h"), at("dir/.hidden"));
    assert_eq!(places("dir/none"), "");
    shared("-O exit");
    assert_eq!(places("dir/a"), "");
}
