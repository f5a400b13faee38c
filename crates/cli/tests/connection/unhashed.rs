//! Contents that travel without their hashes, since that is asked for.

use crate::common::*;
use crate::transfer::{HELD, RATE};
use haul_testkit::{Link, tree};
use std::fs;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::time::Duration;

const FAST: &[&str] = &["-r", "--fast"];

/// The end of the figures.
const SAID: &str = "; contents not hashed\n";

#[test]
fn all_arrives_as_it_was_and_the_figures_say_that_nobody_hashed() {
    everywhere_by_pipe(|scene| {
        tree::mixed(scene.path("src"), 1).expect("a tree");
        tree::random_file(scene.path("src/huge"), (13 << 20) + 5, 2).expect("a file");
        let holes = fs::File::create(scene.path("src/holes")).expect("a file");
        holes.set_len((41 << 20) + 3).expect("a hole");
        holes.write_all_at(b"in the middle", 22 << 20).expect("written");
        scene.file("src/empty", "");
        let run = scene.copy(FAST, &["src"], "dst").run().expect_ok();
        assert!(run.out().ends_with(SAID), "{run}");
        assert_eq!(scene.snapshot("src").differences(&scene.snapshot("dst"), scene.rules()), []);
        // Nothing was copied, and nothing is claimed.
        let run = scene.copy(FAST, &["src/."], "dst").run().expect_ok();
        assert!(!run.out().contains("hashed"), "{run}");
        let run = scene.copy(&[], &["src/holes"], "plain").run().expect_ok();
        assert!(!run.out().contains("hashed"), "{run}");
    });
}

#[test]
fn large_files_arrive_whole_over_direct_connections() {
    each_remote_way(|scene| {
        scene.mkdir("src");
        tree::random_file(scene.path("src/large"), (70 << 20) + 5, 2).expect("a file");
        let holes = fs::File::create(scene.path("src/holes")).expect("a file");
        holes.set_len((90 << 20) + 3).expect("a hole");
        holes.write_all_at(b"in the middle", 50 << 20).expect("written");
        let run = scene.copy(&["-r", "--fast", "--via", "tcp"], &["src"], "dst").run();
        assert!(run.expect_ok().out().ends_with(SAID));
        assert_eq!(scene.snapshot("src").differences(&scene.snapshot("dst"), scene.rules()), []);
    });
}

#[test]
fn a_change_on_the_way_is_found_by_hashes_alone() {
    const LEN: usize = 3 << 20;
    /// More than comes before the content.
    const BEFORE: usize = 300 << 10;
    let changing = |scene: &mut Scene<'_>| {
        let lines = format!(
            "shift\n{{ stdbuf -o0 head -c {BEFORE}; LC_ALL=C exec stdbuf -o0 tr '\\356' '\\357'; }} | sh -c \"$*\""
        );
        let rsh = script(&scene.path("changing"), &lines);
        scene.reach_by(rsh);
    };
    each_of(&[Way::Upload], changing, |scene| {
        scene.file("a", vec![0xee; LEN]);
        let flags = ["--compress", "none", "--via", "ssh"];
        let run = scene.copy(&flags, &["a"], "hashed").run().expect_code(1);
        assert!(run.err().contains("arrived with hash"), "{run}");
        assert!(!scene.exists("hashed"));
        let flags = [&flags[..], &["--fast"]].concat();
        scene.copy(&flags, &["a"], "fast").run().expect_ok();
        let copy = fs::read(scene.path("fast")).expect("it is there");
        assert_eq!(copy.len(), LEN);
        assert!(copy.contains(&0xef), "the connection has changed nothing");
    });
}

#[test]
fn a_file_that_grows_is_sent_again_with_its_hash() {
    each_of(
        &Way::REMOTE,
        |_| {},
        |scene| {
            tree::random_file(scene.path("log"), 32 << 20, 1).expect("a file");
            let link = Link::to(scene.sshd()).expect("a link");
            link.limit_behind(RATE, 4 << 20, HELD);
            let remote = ["--rsh", &link.rsh(scene.sshd()), "--remote-haul", HAUL];
            let words = ["--fast", "--via", "ssh", "--compress", "none", "-v"];
            let running = scene.copy_by(&remote, &words, &["log"], "copy").spawn();
            let running = running.expect("it starts");
            let moved = || link.passed().iter().any(|&bytes| bytes >= 4 << 20);
            assert!(
                running.until(Duration::from_secs(20), moved),
                "it does not come to its middle"
            );
            let log = fs::OpenOptions::new().append(true).open(scene.path("log"));
            log.expect("open").write_all(b"one line more\n").expect("grown");
            link.limit(0);
            let run = running.wait().expect("it ends").expect_ok();
            assert!(run.out().ends_with(SAID), "{run}");
            let (log, copy) = (fs::read(scene.path("log")), fs::read(scene.path("copy")));
            let (log, copy) = (log.expect("a file"), copy.expect("a copy"));
            assert!(copy.len() >= 32 << 20 && log.starts_with(&copy));
        },
    );
}

#[test]
fn nothing_is_left_to_continue_with_and_nothing_verified() {
    let world = World::new();
    let scene = world.scene(Way::Local);
    scene.file("a", "a");
    for (more, why) in [("-V", "--verify"), ("--strict", "--strict")] {
        let run = scene.copy(&["--fast", more], &["a"], "b").run().expect_code(2);
        assert!(run.err().contains(why), "{run}");
    }
    scene.file("config/haul/config.toml", "verify = true\n");
    let copy = scene.copy(&["--fast"], &["a"], "b").env("XDG_CONFIG_HOME", scene.path("config"));
    let run = copy.run().expect_code(2);
    assert!(run.err().contains("--no-verify"), "{run}");
    assert!(!scene.exists("b"));
}
