//! How ssh is called.

use crate::common::*;
use std::fs;

/// A directory to be first on the PATH, with an `ssh` that writes its words to
/// `log`, one call a line, and becomes the real one with the test's own
/// configuration.
fn logging_ssh(scene: &Scene<'_>, config: &str) -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    let real = std::env::split_paths(&path).map(|dir| dir.join("ssh")).find(|ssh| ssh.is_file());
    let log = scene.path("log");
    let bin = scene.mkdir("bin");
    let lines = format!(
        "echo \"$*\" >> '{}'\nexec '{}' -F '{config}' \"$@\"",
        log.display(),
        real.expect("an ssh").display()
    );
    script(&bin.join("ssh"), &lines);
    format!("{}:{path}", bin.display())
}

/// The words that ssh was started with to connect.
fn words(scene: &Scene<'_>) -> String {
    let log = fs::read_to_string(scene.path("log")).expect("ssh was started");
    let calls: Vec<&str> = log.lines().filter(|line| !line.contains(" -G ")).collect();
    assert_eq!(calls.len(), 1, "{log}");
    calls[0].to_owned()
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
    let chosen = quick_sshd().ciphers("aes256-ctr").start().expect("sshd starts");
    for (server, way, is_chosen) in
        [(world.sshd(), Way::Upload, false), (&chosen, Way::Download, true)]
    {
        let scene = world.scene(way);
        let a = scene.file("a", "a");
        let config = server.ssh_config().display().to_string();
        let path = logging_ssh(&scene, &config);
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
    let config = world.sshd().ssh_config().display().to_string();
    let path = logging_ssh(&scene, &config);
    // The agent isn't found, and three connections follow through SFTP.
    let haul = scene.haul().env("PATH", path).args(["copy", "-q", "--parallel", "3", "a"]);
    haul.arg(scene.there(scene.path("b"))).run().expect_ok();
    assert_eq!(scene.read("b"), "a");
    let log = fs::read_to_string(scene.path("log")).expect("ssh was started");
    let (asked, calls): (Vec<&str>, Vec<&str>) =
        log.lines().partition(|line| line.contains(" -G "));
    assert_eq!(asked.len(), usize::from(cpu_has_aes()), "{log}");
    assert_eq!(calls.len(), 4, "{log}");
    let with_list = calls.iter().filter(|line| line.contains(" -oCiphers=aes128-gcm@"));
    assert_eq!(with_list.count(), calls.len() * usize::from(cpu_has_aes()), "{log}");
}

#[test]
fn ssh_gets_the_users_words_and_no_others() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    scene.file("a", "a");
    let config = world.sshd().ssh_config().display().to_string();
    let path = logging_ssh(&scene, &config);
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
