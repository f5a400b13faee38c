//! No more than so much is moved in a second.

use crate::common::*;
use haul_testkit::tree;
use std::time::{Duration, Instant};

/// The words of a command that moves no more than 1 MiB a second.
fn flags(command: &str) -> Vec<&'static str> {
    let all = if command == "move" { &[][..] } else { &["-a"] };
    [all, &["--bwlimit=1m"]].concat()
}

#[test]
fn content_comes_no_faster_than_it_may() {
    everywhere_by_pipe(|scene| {
        if matches!(scene.way, Way::SftpUpload | Way::SftpDownload) {
            let route = scene.route();
            scene.file("src/a", "a");
            for (command, source) in [("sync", "src/"), ("copy", "src/."), ("move", "src/a")] {
                let run = scene.transfer(command, &route, &flags(command), &[source], "dst");
                assert!(run.run().err().contains("SFTP can't limit the rate"));
            }
            for (command, source) in [("sync", "src/"), ("copy", "src/."), ("move", "src/a")] {
                let flags =
                    if command == "move" { &["--via=tcp"][..] } else { &["-a", "--via=tcp"] };
                let run = scene.transfer(command, &route, flags, &[source], "dst").run();
                assert!(run.err().contains(": SFTP can't use direct connections"), "{run}");
                assert_eq!(run.code, Some(if command == "sync" { 1 } else { 2 }), "{run}");
            }
            // A setting is no wish for this one.
            let run = scene.transfer("copy", &route, &["-r"], &["src/."], "dst");
            let run = run.env("HAUL_BWLIMIT", "1m").env("HAUL_VIA", "tcp").run().expect_ok();
            let warning = "warning: bwlimit: SFTP can't limit the rate";
            assert!(run.err().contains(warning), "{run}");
            assert_eq!(scene.read("dst/a"), "a");
            return;
        }
        // One that travels by itself, and some that travel together.
        let make = |name: String, len: u64, seed| {
            tree::random_file(scene.path(format!("src/{name}")), len, seed).expect("a file");
        };
        scene.mkdir("src");
        make("large".to_owned(), 1 << 20, 0);
        (1..=32).for_each(|seed| make(seed.to_string(), 32 << 10, seed));
        let route = scene.route();
        // Each is a copy, as far as contents go.
        let (command, source) = match scene.way {
            Way::Upload => ("sync", "src/"),
            Way::Download => ("move", "src"),
            _ => ("copy", "src/."),
        };
        let job = scene.transfer(command, &route, &flags(command), &[source], "dst");
        let before = scene.snapshot("src");
        let begin = Instant::now();
        let run = job.run().expect_ok();
        let time = begin.elapsed();
        // 2 MiB, and a moment of credit.
        assert!(time > Duration::from_millis(1800), "{run}");
        assert!(time < Duration::from_secs(20), "{run}");
        assert_eq!(before.differences(&scene.snapshot("dst"), scene.rules()), []);
    });
}

#[test]
fn progress_on_one_machine_moves_in_small_steps() {
    const LEN: u64 = 10 << 20;
    let world = World::new();
    let scene = world.scene(Way::Local);
    scene.mkdir("src");
    tree::random_file(scene.path("src/large"), LEN, 0).expect("a file");
    let route = scene.route();
    let flags = ["-a", "--bwlimit=4m", "--json"];
    let run = scene.transfer("sync", &route, &flags, &["src/"], "dst").run().expect_ok();
    let done = |line: &str| -> Option<u64> {
        let (_, done) = line.split_once("\"bytes_done\":")?;
        done.split(',').next()?.parse().ok()
    };
    let between = run.out().lines().filter_map(done).filter(|done| (1..LEN).contains(done)).count();
    assert!(between > 1, "{run}");
}
