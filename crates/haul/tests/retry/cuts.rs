//! Many cuts in one job, half of them silent: the job ends well by itself, and sends
//! little twice.

use crate::common::*;
use crate::link::*;
use haul_testkit::{Link, assert_same, holds_within, tree};

/// Content of the tree, in bytes: many files, and two that have journals.
const SMALL: [u64; 2] = [400, 32 << 10];
const LARGE: u64 = 24 << 20;

/// A cut costs at most what was on the way, in pipes, sockets and ssh's window, and
/// then the blocks and small files that were not whole.
const LOST_MAX: u64 = 12 << 20;

const CUTS: u64 = 10;

#[test]
fn ten_cuts_of_which_five_are_silent_end_in_a_whole_tree() {
    each_remote_way(|scene| {
        tree::many(scene.path("tree/small"), SMALL[0], SMALL[1], 8, 1).expect("a tree");
        for name in ["tree/a-large", "tree/small/dir-004/large"] {
            tree::random_file(scene.path(name), LARGE, 2).expect("a file");
        }
        let all = SMALL[0] * SMALL[1] + 2 * LARGE;
        let link = Link::to(scene.sshd()).expect("a link");
        link.limit(12 << 20);
        let flags = ["-r", "--timeout", "1", "--compress", "none"];
        let running =
            retrying(scene, &link, "copy", &flags, "tree", "new").spawn().expect("it starts");
        for cut in 0..CUTS {
            let connections = link.connections();
            assert!(wait_for(&running, &link, all / (CUTS + 1)), "it was done too soon: {cut}");
            match cut % 2 {
                0 => link.cut(),
                _ => link.silence(),
            }
            let is_again = || link.connections() > connections || !running.is_running();
            assert!(holds_within(LONG, is_again), "it does not connect again");
        }
        let run = running.wait().expect("it ends").expect_ok();
        assert_eq!(told(&run), [CUTS as usize; 2], "{run}");
        assert_same(&scene.snapshot("tree"), &scene.snapshot("new"));
        assert_no_strays(&scene.path(""));
        let sent = link.passed().into_iter().max().expect("two directions");
        assert!(sent < all + CUTS * LOST_MAX, "{sent} of {all} with {CUTS} cuts: {run}");
        let files = SMALL[0] + 2;
        assert!(run.out().starts_with(&format!("copied {files} files, 60.5 MiB")), "{run}");
        assert!(!run.out().contains("skipped"), "{run}");
    });
}

#[test]
fn the_next_agent_takes_over_from_one_that_has_noticed_nothing() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    tree::random_file(scene.path("big"), 96 << 20, 1).expect("a file");
    let link = Link::to(scene.sshd()).expect("a link");
    link.limit(40 << 20);
    // The host's agent waits for as long as its client says.
    let flags = ["--timeout", "60", "--compress", "none"];
    let running = retrying(&scene, &link, "copy", &flags, "big", "there/").spawn();
    let running = running.expect("it starts");
    assert!(wait_for(&running, &link, 30 << 20), "it was done too soon");
    let [before] = scene.sshd().agents()[..] else { panic!("one agent is at work") };
    // The client alone loses its connection, as where an address changes.
    link.cut_near();
    let run = running.wait().expect("it ends").expect_ok();
    assert!(run.usage.wall < LONG / 2, "it waited for the agent before: {run}");
    assert!(!haul_testkit::proc::is_alive(before), "{run}");
    assert_eq!(told(&run), [1, 1], "{run}");
    assert_same(&scene.snapshot("big"), &scene.snapshot("there/big"));
    assert_no_strays(&scene.path("there"));
    let sent = link.passed()[0];
    assert!(sent < (96 + 24) << 20, "it was not gone on with: {sent}");
}
