//! No more than so much is moved in a second.

use crate::common::*;
use haul_testkit::tree;
use std::time::{Duration, Instant};

#[test]
fn content_comes_no_faster_than_it_may() {
    everywhere_by_pipe(|scene| {
        if matches!(scene.way, Way::SftpUpload | Way::SftpDownload) {
            let route = scene.route();
            scene.file("src/a", "a");
            let run = scene.transfer("sync", &route, &["-a", "--bwlimit=1m"], &["src/"], "dst");
            assert!(run.run().err().contains("the rate can't be bounded"));
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
        let sync = scene.transfer("sync", &route, &["-a", "--bwlimit=1m"], &["src/"], "dst");
        let begin = Instant::now();
        let run = sync.run().expect_ok();
        let time = begin.elapsed();
        // 2 MiB, and a moment of credit.
        assert!(time > Duration::from_millis(1800), "{run}");
        assert!(time < Duration::from_secs(20), "{run}");
        assert_eq!(scene.snapshot("src").differences(&scene.snapshot("dst"), scene.rules()), []);
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
