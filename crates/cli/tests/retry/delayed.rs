//! Files that wait for the end of a job whose connection is cut: they go on waiting.

use crate::common::*;
use crate::link::*;
use haul_testkit::{Link, assert_same, tree};
use std::fs;
use std::os::unix::fs::MetadataExt;

/// Files, and the length of each, in bytes.
const SMALL: [u64; 2] = [800, 64 << 10];

/// Bytes between two cuts: more than a cut costs.
const BETWEEN: u64 = 15 << 20;

/// A cut costs at most what was on the way, in pipes, sockets and ssh's window.
const LOST_MAX: u64 = 6 << 20;

const CUTS: u64 = 3;

/// The files of `tree` that have their names.
fn named(scene: &Scene<'_>, tree: &str) -> usize {
    let is_named = |path: &String| {
        !path.contains(".haul-")
            && fs::metadata(scene.path(tree).join(path)).is_ok_and(|m| m.is_file())
    };
    scene.list(tree).iter().filter(|path| is_named(path)).count()
}

#[test]
fn files_that_wait_are_not_sent_again_behind_a_cut() {
    each_remote_way(|scene| {
        for flags in [&["-aH"][..], &["-rt", "--delete"]] {
            scene.clear(&["tree", "new"]);
            tree::many(scene.path("tree"), SMALL[0], SMALL[1], 8, 1).expect("a tree");
            let names = ["tree/one", "tree/dir-003/two", "tree/dir-007/three"];
            scene.file(names[0], "of three names");
            for name in &names[1..] {
                fs::hard_link(scene.path(names[0]), scene.path(name)).expect("linked");
            }
            let link = Link::to(scene.sshd()).expect("a link");
            link.limit(30 << 20);
            let flags = [flags, &["-i", "--delay-updates"]].concat();
            let running = retrying(scene, &link, "sync", &flags, "tree/", "new").spawn();
            let running = running.expect("it starts");
            for cut in 0..CUTS {
                if !wait_for(&running, &link, BETWEEN) {
                    panic!("it was done too soon: {cut}: {}", running.wait().expect("it ends"));
                }
                assert_eq!(named(scene, "new"), 0, "{cut}");
                link.cut();
            }
            let run = running.wait().expect("it ends").expect_ok();
            assert_eq!(told(&run), [CUTS as usize; 2], "{run}");
            assert_same(&scene.snapshot("tree"), &scene.snapshot("new"));
            assert_no_strays(&scene.path(""));
            let (all, sent) = (SMALL[0] * SMALL[1], link.passed());
            let sent = sent.into_iter().max().expect("two directions");
            assert!(sent < all + CUTS * LOST_MAX, "{sent} of {all}: {run}");
            let is_file = |line: &&str| matches!(line.as_bytes(), [b'<' | b'>', b'f', ..]);
            let lines: Vec<_> = run.out().lines().filter(is_file).map(str::to_owned).collect();
            let names_apart = if flags.contains(&"-aH") { 1 } else { 3 };
            assert_eq!(lines.len() as u64, SMALL[0] + names_apart, "{run}");
            let links = fs::metadata(scene.path("new/one")).expect("there").nlink();
            assert_eq!(links, 4 - names_apart);
        }
    });
}
