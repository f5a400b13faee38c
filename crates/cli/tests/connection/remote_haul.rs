//! Programs that are found on the host under the name of haul.

use crate::common::*;
use haul_testkit::haul::Outcome;
use haul_testkit::{Sshd, fixture};
use std::path::Path;
use std::time::Duration;

/// Uploads with `lines` as the program on the host, and expects exit code 3.
fn upload_to(scene: &Scene<'_>, lines: &str) -> Outcome {
    upload_to_program(scene, &script(&scene.path("their-haul"), lines))
}

fn upload_to_program(scene: &Scene<'_>, program: &Path) -> Outcome {
    scene.file("a", "a");
    let haul = scene.haul().args(["copy", "a", "haul-test:/nowhere/b", "--rsh"]);
    let haul = haul.arg(scene.sshd().rsh()).arg("--remote-haul").arg(program);
    haul.limit(Duration::from_secs(20)).run().expect_code(3)
}

#[track_caller]
fn assert_says(run: &Outcome, error: &str, hint: &str) {
    let lines = run.err();
    let mut lines = lines.lines().filter(|line| !line.starts_with("ssh: "));
    assert_eq!(lines.next(), Some(&*format!("haul: {error}")), "{run}");
    match hint {
        "" => {}
        _ => assert_eq!(lines.next(), Some(&*format!("  hint: {hint}")), "{run}"),
    }
    assert_eq!(lines.next(), None, "{run}");
}

#[test]
fn a_host_without_haul_is_reported_where_it_was_looked_for() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    let run = upload_to_program(&scene, Path::new("/nowhere/haul"));
    assert_says(
        &run,
        "haul was not found on haul-test at '/nowhere/haul'",
        "correct --remote-haul ('ssh haul-test ls -l PATH' must find it), or leave it out and run 'haul deploy haul-test'",
    );
    let directory = scene.mkdir("directory");
    let run = upload_to_program(&scene, &directory);
    assert!(run.err().contains("haul: can't run haul on haul-test: "), "{run}");

    if ["/usr/local/bin/haul", "/opt/homebrew/bin/haul"].iter().any(|p| Path::new(p).exists()) {
        return fixture::skip("this machine has haul in a usual place");
    }
    let home = scene.mkdir("home");
    let bare = Sshd::builder().env("PATH", "/usr/bin:/bin").env("HOME", home.display().to_string());
    let bare = bare.start().expect("sshd starts");
    for words in [["copy", "a", "haul-test:b"], ["copy", "haul-test:b", "b"]] {
        let haul = scene.haul().args(words).args(["--transport", "haul"]);
        let run = haul.arg("--rsh").arg(bare.rsh()).run().expect_code(3);
        assert_says(
            &run,
            "haul was not found on haul-test",
            "run 'haul deploy haul-test' to install it, or name an installed haul with --remote-haul PATH",
        );
    }
}

#[test]
fn haul_is_found_on_the_path_of_the_host_and_in_the_usual_places() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    scene.file("a", "a");
    let bin = scene.mkdir("bin");
    std::os::unix::fs::symlink(HAUL, bin.join("haul")).expect("a link");
    let path = format!("{}:/usr/bin:/bin", bin.display());
    let on_path = Sshd::builder().env("PATH", path).start().expect("sshd starts");
    let home = scene.mkdir("home");
    scene.mkdir("home/.local/bin");
    scene.symlink(HAUL, "home/.local/bin/haul");
    let in_home =
        Sshd::builder().env("PATH", "/usr/bin:/bin").env("HOME", home.display().to_string());
    let in_home = in_home.start().expect("sshd starts");
    for (server, dest) in [(on_path, "by-path"), (in_home, "in-home")] {
        let haul = scene.haul().args(["copy", "a", "--rsh", &server.rsh()]);
        haul.arg(scene.there(scene.path(dest))).run().expect_ok();
        assert_eq!(scene.read(dest), "a");
    }
}

#[test]
fn another_version_there_is_an_error_that_names_both() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    // A greeting as it will always begin: length, type, magic, version,
    // capabilities, silence, and the program's version.
    let welcome =
        r"\027\000\000\000\002haul\016\000\000\000\000\000\000\000\000\000\074\000\000\0007.8.9";
    let run = upload_to(&scene, &format!("printf '{welcome}'\nexec cat >/dev/null"));
    assert_says(
        &run,
        "haul-test: the haul there (7.8.9) has protocol version 14, this one has version 13",
        "run 'haul deploy haul-test' to install this version there, or use --transport sftp",
    );
}

#[test]
fn a_shell_that_talks_is_reported_with_its_words() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    let run = upload_to(&scene, &format!("echo 'Welcome to the machine!'\nexec '{HAUL}' serve"));
    assert!(
        run.err().starts_with(
            "haul: haul-test sent text instead of haul's greeting: \"Welcome to the machine!"
        ),
        "{run}"
    );
    assert!(run.err().contains("'ssh haul-test true' must print nothing"), "{run}");
    // What the shell says on standard error is no harm, and is shown.
    let talking = script(
        &scene.path("talking"),
        &format!("printf 'disk is \\033[31malmost full\\n' >&2\nexec '{HAUL}' serve"),
    );
    let haul = scene.haul().args(["copy", "a", "--rsh"]).arg(scene.sshd().rsh());
    let haul = haul.arg("--remote-haul").arg(talking).arg(scene.there(scene.path("b")));
    let run = haul.run().expect_ok();
    assert_eq!(run.err(), "ssh: disk is \\x1b[31malmost full\n");
    assert_eq!(scene.read("b"), "a");
}

#[test]
fn a_program_there_that_is_not_haul_is_reported() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    let run = upload_to(&scene, "echo 'no such option: serve' >&2\nexit 7");
    assert_says(
        &run,
        "the remote command on haul-test exited with status 7: no such option: serve",
        "",
    );
    let run = upload_to(&scene, "exit 0");
    let program = scene.path("their-haul").display().to_string();
    assert_says(
        &run,
        &format!("'{program}' on haul-test is not haul: it exited without a message"),
        &format!(
            "correct --remote-haul, until 'ssh haul-test {program} --version' prints haul's version"
        ),
    );
    let not_executable = scene.file("plain-file", "");
    mode(&not_executable, 0o644);
    let run = upload_to_program(&scene, &not_executable);
    assert!(run.err().contains("haul: can't run haul on haul-test: "), "{run}");
    assert!(run.err().contains("  hint: check that the haul on haul-test is executable"), "{run}");
}

#[test]
fn a_host_that_never_answers_can_be_left() {
    use haul_testkit::proc::Signal;
    let world = World::new();
    let scene = world.scene(Way::Upload);
    scene.file("a", "a");
    let silent = script(&scene.path("silent"), "exec sleep 60");
    let haul = scene.haul().args(["copy", "a", "haul-test:b", "--rsh"]).arg(scene.sshd().rsh());
    let running = haul.arg("--remote-haul").arg(silent).spawn().expect("it starts");
    // The login works, and then there is silence.
    assert!(running.until(Duration::from_secs(20), || !scene.sshd().sessions().is_empty()));
    std::thread::sleep(Duration::from_millis(300));
    running.signal(Signal::INT);
    let run = running.wait().expect("it ends").expect_code(130);
    assert_eq!(errors(&run), ["interrupted"], "{run}");
}
