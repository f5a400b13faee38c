//! `haul ls`, `haul stat` and `haul hash` through a host's SFTP server, where that is
//! another thing than with haul there.

use crate::common::*;
use haul_testkit::{Haul, Sshd};
use std::ffi::OsString;
use std::time::Duration;

/// haul on a path of the scene's directory, as an `sftp://` location.
fn ask(scene: &Scene<'_>, words: &[&str], paths: &[&str]) -> Haul {
    let paths = paths.iter().map(|path| url(scene, path));
    scene.haul().args(words).args(["--rsh", &scene.sshd().rsh(), "--"]).args(paths)
}

fn url(scene: &Scene<'_>, path: &str) -> OsString {
    let mut url = OsString::from("sftp://haul-test");
    url.push(scene.path(path));
    url
}

#[test]
fn relative_paths_begin_where_the_session_does_and_so_does_a_tilde() {
    let world = World::new();
    let scene = world.scene(Way::Download);
    let start = scene.mkdir("start");
    scene.file("start/marker-of-the-start", "abc");
    scene.file("start/~other", "");
    let server = Sshd::builder().sftp(format!("internal-sftp -d {}", start.display()));
    let server = server.start().expect("sshd starts");
    let ask = |server: &Sshd, words: &[&str]| {
        scene.haul().args(words).args(["--rsh", &server.rsh()]).run().expect_ok().out()
    };
    for place in ["sftp://haul-test", "sftp://haul-test/~/"] {
        assert_eq!(ask(&server, &["ls", place]), "marker-of-the-start\n~other\n");
    }
    let by_option = ["ls", "--transport", "sftp", "haul-test:marker-of-the-start"];
    assert_eq!(ask(&server, &by_option), "marker-of-the-start\n");
    assert_eq!(ask(&server, &["ls", "--transport=sftp", "haul-test:./~other"]), "./~other\n");
    for place in ["haul-test:~", "haul-test:~/", "haul-test:"] {
        let names = ask(&server, &["ls", "--transport", "sftp", place]);
        assert_eq!(names, "marker-of-the-start\n~other\n");
    }
}

#[test]
fn an_sftp_server_that_is_none_or_not_there_is_reported_with_what_to_do() {
    let world = World::new();
    let scene = world.scene(Way::Download);
    let says = |server: &Sshd, error: &str, hint: &str| {
        let haul = scene.haul().args(["ls", "sftp://haul-test/x", "--rsh", &server.rsh()]);
        let run = haul.run().expect_code(3);
        assert!(run.err().contains(&format!("haul: {error}")), "{run}");
        assert!(run.err().contains("  hint: ") && run.err().contains(hint), "{run}");
    };
    let bare = Sshd::builder().without_sftp().start().expect("sshd starts");
    says(&bare, "haul-test offers no sftp\n", "'Subsystem sftp'");
    let talking = Sshd::builder().sftp("/bin/echo Welcome to the machine").start();
    says(
        &talking.expect("sshd starts"),
        "haul-test: the host sent text instead of SFTP: \"Welcome to the machine\"\n",
        "'internal-sftp'",
    );
    let pipe = script(&scene.path("pipe"), "exec cat");
    let haul = scene.haul().args(["ls", "sftp://haul-test/x", "--rsh"]).arg(pipe);
    let run = haul.run().expect_code(2);
    assert!(run.err().contains("remote shell"), "{run}");
}

#[test]
fn a_connection_that_breaks_while_a_file_is_hashed_is_reported() {
    let world = World::new();
    let scene = world.scene(Way::Download);
    let large = std::fs::File::create(scene.path("large")).expect("a file");
    large.set_len(1 << 40).expect("a length");
    let running = ask(&scene, &["hash"], &["large"]).limit(Duration::from_secs(30)).spawn();
    let running = running.expect("it starts");
    assert!(running.until(Duration::from_secs(20), || !scene.sshd().sessions().is_empty()));
    // The login, and then some of the content.
    std::thread::sleep(Duration::from_secs(1));
    scene.sshd().cut();
    let run = running.wait().expect("it ends").expect_code(3);
    assert!(errors(&run)[0].starts_with("the connection to haul-test was lost"), "{run}");
    assert!(run.err().contains("  hint: run the same command again"), "{run}");
    assert_eq!(run.out(), "");
}
