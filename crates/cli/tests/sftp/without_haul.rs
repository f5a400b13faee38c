//! Hosts on which no haul is found.

use crate::common::logins::{counting, logins};
use crate::common::*;
use haul_testkit::{Haul, Sshd, SshdBuilder, fixture};
use std::path::Path;

/// A server on which no haul is found; `None` where this machine has one in a
/// usual place.
#[track_caller]
pub(crate) fn bare(scene: &Scene<'_>, builder: SshdBuilder) -> Option<Sshd> {
    if ["/usr/local/bin/haul", "/opt/homebrew/bin/haul"].iter().any(|p| Path::new(p).exists()) {
        fixture::skip("this machine has haul in a usual place");
        return None;
    }
    let home = scene.mkdir("home").display().to_string();
    Some(builder.env("PATH", "/usr/bin:/bin").env("HOME", home).start().expect("sshd starts"))
}

fn ask(scene: &Scene<'_>, server: &Sshd, words: &[&str]) -> Haul {
    let location = scene.there(scene.path("a"));
    scene.haul().args(words).args(["--rsh", &server.rsh()]).arg(location)
}

const TOLD: &str = "haul: warning: haul-test: no haul there: using SFTP\n";

#[test]
fn ls_stat_and_hash_continue_through_sftp_and_report_it_once() {
    let world = World::new();
    let scene = world.scene(Way::Download);
    let path = scene.file("a", "abc");
    let Some(server) = bare(&scene, Sshd::builder()) else { return };
    let hash = "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85";
    for (words, answer) in [
        (&["ls"][..], format!("{}\n", path.display())),
        (&["stat"], "kind      file, 3 bytes\n".to_owned()),
        (&["hash"], format!("{hash}  {}\n", path.display())),
    ] {
        // Twice the same place: one connection, told once.
        let twice = ask(&scene, &server, words).arg(scene.there(&path)).run().expect_ok();
        assert_eq!(twice.out().matches(&answer).count(), 2, "{twice}");
        let warnings: String = twice
            .err()
            .lines()
            .filter(|l| !l.starts_with("ssh: "))
            .map(|l| format!("{l}\n"))
            .collect();
        assert_eq!(warnings, TOLD, "{twice}");
        let quiet = ask(&scene, &server, &[words, &["-q"]].concat()).run().expect_ok();
        assert!(quiet.out().contains(&answer) && !quiet.err().contains("haul: "), "{quiet}");
    }
    let json = ask(&scene, &server, &["stat", "--json"]).run().expect_ok();
    let lines: Vec<serde_json::Value> =
        json.out().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!((&lines[0]["type"], &lines[0]["path"]), (&"warning".into(), &"haul-test".into()));
    assert_eq!((&lines[1]["type"], &lines[1]["size"]), (&"entry".into(), &3.into()));
}

#[test]
fn a_host_that_allows_sftp_alone_is_asked_through_it() {
    let world = World::new();
    let scene = world.scene(Way::Download);
    scene.file("a", "abc");
    let server = Sshd::builder().server_line("ForceCommand internal-sftp").sftp("internal-sftp");
    let server = server.start().expect("sshd starts");
    let run = ask(&scene, &server, &["stat"]).run().expect_ok();
    assert_eq!(run.err(), TOLD, "{run}");
    assert!(run.out().contains("file, 3 bytes"), "{run}");
    let copy = scene.haul().args(["copy", "--rsh", &server.rsh(), "a"]);
    let run = copy.arg(scene.there(scene.path("b"))).run().expect_ok();
    assert_eq!((scene.read("b").as_str(), run.err().lines().count()), ("abc", 1), "{run}");
}

#[test]
fn who_asks_for_haul_gets_haul_or_an_error() {
    let world = World::new();
    let scene = world.scene(Way::Download);
    scene.file("a", "abc");
    let Some(server) = bare(&scene, Sshd::builder()) else { return };
    let run = ask(&scene, &server, &["stat", "--transport", "haul"]).run().expect_code(3);
    assert_eq!(errors(&run), ["haul was not found on haul-test"], "{run}");
    let named = ["stat", "--remote-haul", "/nowhere/haul"];
    let run = ask(&scene, &server, &named).run().expect_code(3);
    assert_eq!(errors(&run), ["haul was not found on haul-test at '/nowhere/haul'"], "{run}");
    // And who asks for SFTP gets that, with haul there or not.
    let run = ask(&scene, &server, &["stat", "--transport", "sftp"]).run().expect_ok();
    assert_eq!(run.err(), "", "{run}");
    let run = scene.haul().args(["stat", "--transport", "haul", "sftp://haul-test/a"]).run();
    assert_eq!(
        errors(&run.expect_code(2)),
        ["sftp://haul-test/a and --transport haul exclude each other"]
    );
}

#[test]
fn without_haul_and_without_sftp_the_missing_haul_is_the_error() {
    let world = World::new();
    let scene = world.scene(Way::Download);
    let Some(server) = bare(&scene, Sshd::builder().without_sftp()) else { return };
    let run = ask(&scene, &server, &["stat"]).run().expect_code(3);
    assert_eq!(errors(&run), ["haul was not found on haul-test"], "{run}");
    assert!(run.err().contains("  hint: run 'haul deploy haul-test' to install it"), "{run}");
    assert!(run.err().contains("; SFTP does not work either: haul-test offers no sftp\n"), "{run}");
}

#[test]
fn a_pattern_has_the_host_asked_for_haul_once() {
    let world = World::new();
    let scene = world.scene(Way::Download);
    let Some(server) = bare(&scene, Sshd::builder()) else { return };
    for name in ["1.gz", "2.gz", "3.txt"] {
        scene.file(format!("logs/{name}"), name);
    }
    scene.mkdir("there");
    let rsh = counting(&scene, &server.rsh());
    let copy = |flags: &[&str]| {
        let remote = ["--rsh".as_ref(), rsh.as_os_str()];
        scene.copy_by(&remote, flags, &["logs/*.gz"], "there").run()
    };
    let run = copy(&[]).expect_ok();
    assert_eq!(run.err().matches("no haul there: using SFTP; ").count(), 1, "{run}");
    assert_eq!((scene.list("there"), logins(&scene)), (vec!["1.gz".into(), "2.gz".into()], 2));
    // As often as the user wants, one of them being that by which it was asked.
    copy(&["-f", "--parallel", "3"]).expect_ok();
    assert_eq!(logins(&scene), 4);
}
