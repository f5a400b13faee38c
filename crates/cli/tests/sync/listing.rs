//! Sources that are listed, and no more.

use crate::common::*;
use crate::oracle::Pair;
use std::process::Command;

/// The lines, in any order, without the lengths of directories: these are a matter of the
/// file system.
fn lines(text: &str) -> Vec<String> {
    let without_len = |line: &str| match line.strip_prefix('d') {
        None => line.to_owned(),
        Some(dir) => {
            let (mode, rest) = dir.split_once(' ').expect("columns");
            format!("d{mode} {}", rest.trim_start().split_once(' ').expect("columns").1)
        }
    };
    let mut lines: Vec<_> = text.lines().map(without_len).collect();
    lines.sort();
    lines
}

#[test]
fn lists_are_those_of_rsync() {
    everywhere_by_pipe(|scene| {
        let _ = Pair::usual(scene);
        scene.file("src/large", vec![0; 1_234_567]);
        scene.symlink("d", "src/to-d");
        mode(scene.path("src/d/e"), 0o2711);
        mode(scene.path("src/d/changed"), 0o4755);
        if !scene.is_sftp() {
            run(Command::new("mkfifo").arg(scene.path("src/pipe")));
        }
        let before = scene.snapshot("dst");
        for (flags, sources) in scene.share([
            (&["--list-only"][..], &["src/"][..]),
            (&["--list-only"], &["src"]),
            (&["-a", "--list-only"], &["src/"]),
            (&["-rh", "--list-only"], &["src"]),
            (&["-rhh", "--list-only"], &["src/"]),
            (&["-a", "--no-human-readable", "--list-only"], &["src/large", "src/link"]),
            (&["-aL", "--list-only"], &["src/"]),
            (&["-aR", "--list-only", "--exclude=e"], &["src/./d", "src/./same"]),
            (&["-a", "--list-only", "--delete"], &["src/d/", "src/z/"]),
        ]) {
            let mut rsync = Command::new("rsync");
            rsync.current_dir(scene.path("")).args(flags).args(sources).arg("dst");
            let expected = rsync.output().expect("rsync is installed");
            let run = scene.transfer("sync", &scene.route(), flags, sources, "dst").run();
            let run = run.expect_ok();
            let expected = lines(&String::from_utf8_lossy(&expected.stdout));
            assert_eq!(lines(&run.out()), expected, "{flags:?} {sources:?}");
        }
        let after = scene.snapshot("dst");
        assert!(before.differences(&after, scene.rules()).is_empty());
    });
}

#[test]
fn a_source_alone_is_listed() {
    let world = World::new();
    let scene = world.scene(Way::Download);
    let _ = Pair::usual(&scene);
    // Each who looks where it leads has read it.
    std::fs::remove_file(scene.path("src/link")).expect("removed");
    let order = |text: &str| {
        text.lines().map(|line| line.split(' ').next_back().map(str::to_owned)).collect::<Vec<_>>()
    };
    for source in ["src", "src/", "src/d/same"] {
        let mut rsync = Command::new("rsync");
        let expected = rsync.arg("-rU").arg(scene.path(source)).output().expect("it runs");
        let text = String::from_utf8_lossy(&expected.stdout).into_owned();
        let here = scene.haul().args(["sync", "-rU"]).arg(scene.path(source)).run().expect_ok();
        assert_eq!(lines(&here.out()), lines(&text));
        // Where no directory's name begins as a file's, also in the same order.
        assert_eq!(order(&here.out()), order(&text));
        let there = scene.haul().args(["sync", "-rU"]).args(scene.remote());
        let there = there.arg(scene.there(scene.path(source))).run().expect_ok();
        assert_eq!(lines(&there.out()), lines(&text));
    }
    let run = scene.haul().args(["sync", "-r", "missing"]).run();
    assert_eq!(run.code, Some(23), "{run}");
    let json = scene.haul().args(["sync", "-r", "--json", "src/d/same"]).run().expect_ok();
    assert!(json.out().contains(r#""path":"same""#), "{json}");
}

#[test]
fn times_are_those_of_the_zone() {
    let world = World::new();
    let scene = world.scene(Way::Local);
    scene.file("a", "a");
    haul_testkit::nasty::set_mtime(scene.path("a"), 1_700_000_000, 0).expect("a time");
    for (zone, time) in [("UTC0", "2023/11/14 22:13:20"), ("XYZ-5:30", "2023/11/15 03:43:20")] {
        let run = scene.haul().env("TZ", zone).args(["sync", "a"]).run().expect_ok();
        assert_eq!(run.out(), format!("-rw-r--r--              1 {time} a\n"));
    }
}
