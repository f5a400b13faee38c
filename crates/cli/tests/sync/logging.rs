//! The file that tells of a command.

use crate::common::*;
use crate::oracle::Pair;
use haul_testkit::duplicate;
use std::fs;
use std::process::Command;

/// The lines of a log that are of entries, in any order, without their time; checks that
/// each begins with one.
fn entries(log: &str) -> Vec<String> {
    let without_time = |line: &str| {
        let (head, text) = line.split_once("] ").expect("a time and a number in front");
        let shape: String =
            head.chars().map(|c| if c.is_ascii_digit() { '9' } else { c }).collect();
        assert!(shape.starts_with("9999/99/99 99:99:99 [9"), "{line}");
        text.to_owned()
    };
    let is_entry = |line: &String| {
        let is_of_rsync = line.starts_with("building file list") || line.starts_with("sent ");
        !(is_of_rsync
            || line.starts_with("rsync")
            || line.starts_with("haul: ")
            || line.starts_with("ended "))
    };
    let mut lines: Vec<_> = log.lines().map(without_time).filter(is_entry).collect();
    lines.iter_mut().for_each(|line| *line = line.replacen('<', ">", 1));
    lines.sort();
    lines
}

#[test]
fn a_log_has_the_lines_of_rsync() {
    everywhere_by_pipe(|scene| {
        for flags in scene.share([
            &["-a", "--delete"][..],
            &["-rlt", "--delete", "--log-file-format=%i|%n%L|"],
            &["-a"],
        ]) {
            scene.clear(&["src", "dst", "oracle"]);
            let _ = Pair::usual(scene);
            mode(scene.path("src/d/same"), 0o600);
            duplicate(scene.path("dst"), scene.path("oracle")).expect("a copy");
            for log in ["ours", "theirs"] {
                let _ = fs::remove_file(scene.path(log));
            }
            let mut rsync = Command::new("rsync");
            rsync.current_dir(scene.path("")).args(flags).args([
                "--log-file=theirs",
                "src/",
                "oracle",
            ]);
            run(&mut rsync);
            let log = format!("--log-file={}", scene.path("ours").display());
            let flags = [flags, &[&*log]].concat();
            let run = scene.transfer("sync", &scene.route(), &flags, &["src/"], "dst").run();
            assert_eq!(run.expect_ok().out(), "");
            let (ours, theirs) = (scene.read("ours"), scene.read("theirs"));
            assert_eq!(entries(&ours), entries(&theirs), "{flags:?}");
            assert!(ours.ends_with("ended with exit code 0\n"), "{ours}");
            // It is appended to, and what is unchanged is not told.
            let again = scene.transfer("sync", &scene.route(), &flags, &["src/"], "dst").run();
            again.expect_ok();
            assert!(scene.read("ours").starts_with(&ours));
            assert_eq!(entries(&scene.read("ours")).len(), entries(&ours).len());
        }
    });
}

#[test]
fn a_log_reports_what_fails() {
    let world = World::new();
    let scene = world.scene(Way::Local);
    scene.file("src/a\n", "new");
    scene.file("dst/a\n/in", "in the way");
    let run = scene.haul().args(["sync", "-a", "--log-file=log", "src/", "nope", "dst"]).run();
    assert_eq!(run.code, Some(23), "{run}");
    let log = scene.read("log");
    assert!(log.contains("nope: "), "{log}");
    assert!(log.contains("a\\n: the destination has a non-empty directory"), "{log}");
    assert!(log.ends_with("ended with exit code 23\n"), "{log}");
    // Each line has its time.
    let _ = entries(&log);
}

#[test]
fn a_log_that_cannot_be_written_is_an_error() {
    let world = World::new();
    let scene = world.scene(Way::Local);
    scene.file("src/a", "new");
    let run = scene.haul().args(["sync", "-a", "--log-file=missing/log", "src/", "dst"]).run();
    assert_eq!(run.code, Some(1), "{run}");
    assert!(run.err().contains("missing/log: can't open the log"), "{run}");
    assert!(!scene.exists("dst"));
    let run = scene.haul().args(["sync", "-a", "--log-file=/dev/full", "src/", "dst"]).run();
    assert_eq!(run.code, Some(23), "{run}");
    assert!(run.err().contains("/dev/full: can't write to the log"), "{run}");
    assert_eq!(scene.read("dst/a"), "new");
    // A link that somebody else has put there.
    if is_root() {
        scene.symlink("elsewhere", "log");
        std::os::unix::fs::lchown(scene.path("log"), Some(NOBODY), Some(NOBODY)).expect("given");
        let run = scene.haul().args(["sync", "-a", "--log-file=log", "src/", "dst"]).run();
        assert_eq!(run.code, Some(1), "{run}");
        assert!(run.err().contains("log is a symbolic link of another user"), "{run}");
        assert!(!scene.exists("elsewhere"));
    }
}

#[test]
fn flags_of_debug_are_those_of_rsync() {
    let world = World::new();
    let scene = world.scene(Way::Local);
    scene.file("src/a", "new");
    for (flags, code) in [("del2,FLIST4,all0", 0), ("none", 0), ("foo", 1), ("", 1)] {
        let run =
            scene.haul().args(["sync", "-an", &format!("--debug={flags}"), "src/", "dst"]).run();
        assert_eq!(run.code, Some(code), "{run}");
        let mut rsync = Command::new("rsync");
        rsync.current_dir(scene.path("")).args(["-an", &format!("--debug={flags}"), "src/", "dst"]);
        let expected = rsync.output().expect("it runs").status.code();
        assert!(flags.is_empty() || expected == Some(code), "{flags} {expected:?}");
    }
    let run = scene.haul().args(["sync", "-a", "--log-file-format=%Q", "src/", "dst"]).run();
    assert_eq!(run.code, Some(1), "{run}");
    assert!(run.err().contains("--log-file-format: unknown %Q"), "{run}");
}
