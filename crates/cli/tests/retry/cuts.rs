//! Many cuts in one job, half of them silent: the job ends well by itself, and sends
//! little twice.

use crate::common::*;
use crate::link::*;
use haul_testkit::{Link, Sshd, Tcp, assert_same, holds_within, proc, tree};
use std::time::Duration;

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
        // A busy machine may be silent for a second of its own accord.
        let [lost, again] = told(&run);
        assert!(lost == again && (CUTS as usize..CUTS as usize + 4).contains(&lost), "{run}");
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
fn as_many_cuts_of_all_connections_cost_the_blocks_that_were_in_transit() {
    /// The block that a connection has on its way, and what is small beside all of them.
    const BLOCK: u64 = 4 << 20;
    const SMALL: u64 = 1 << 20;
    /// A job goes on for so long between two cuts: some blocks come whole.
    const BETWEEN: Duration = Duration::from_millis(600);
    each_remote_way(|scene| {
        scene.mkdir("tree");
        let large = 120 << 20;
        tree::random_file(scene.path("tree/large"), large, 2).expect("a file");
        tree::many(scene.path("tree/small"), 50, 4 << 10, 8, 1).expect("a tree");
        let sshd = Sshd::builder().start().expect("sshd starts");
        let rsh = script(&scene.path("ssh"), &format!("exec {} \"$@\"", sshd.rsh()));
        let mut reached = scene.another(&format!("{:?}-reached", scene.way));
        reached.reach_by(rsh);
        let flags = ["-r", "--json", "--via", "tcp", "--bwlimit", "16m"];
        let flags = [&flags[..], &["--timeout", "1", "--retries", "8"]].concat();
        let tree = scene.path("tree");
        let copy = reached.transfer("copy", &reached.route(), &flags, &[tree], "new");
        let copy = copy.env_remove("HAUL_RETRIES").limit(LONG * 2);
        let running = copy.spawn().expect("it starts");
        let (mut before, mut lost_max) = (Vec::new(), 0);
        for cut in 0..CUTS {
            let is_new = |agent: &u32| !before.contains(agent);
            let own = || Tcp::of(running.pid());
            let stands = || sshd.agents().iter().any(is_new) && !own().is_empty();
            if !running.until(LONG, stands) {
                panic!("it does not connect again: {cut}: {}", running.wait().expect("it ends"));
            }
            std::thread::sleep(BETWEEN);
            before = sshd.agents();
            let mut connections = own();
            assert!(!connections.is_empty(), "it was done too soon: {cut}");
            lost_max += connections.len() as u64 * BLOCK + SMALL;
            connections.extend(proc::descendants(running.pid()).into_iter().flat_map(Tcp::of));
            for connection in connections {
                let _ = if cut % 2 == 0 { connection.cut() } else { connection.silence() };
            }
        }
        let run = running.wait().expect("it ends").expect_ok();
        assert_eq!(run.out().matches("\"connection_lost\"").count(), CUTS as usize, "{run}");
        assert_same(&scene.snapshot("tree"), &reached.snapshot("new"));
        assert_no_strays(&reached.path(""));
        let all = large + 50 * (4 << 10);
        assert!(moved(&run) < all + lost_max, "{} of {all} and {lost_max}: {run}", moved(&run));
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
    link.cut_client_side();
    let run = running.wait().expect("it ends").expect_ok();
    assert!(run.usage.wall < LONG / 2, "it waited for the agent before: {run}");
    assert!(!haul_testkit::proc::is_alive(before), "{run}");
    assert_eq!(told(&run), [1, 1], "{run}");
    assert_same(&scene.snapshot("big"), &scene.snapshot("there/big"));
    assert_no_strays(&scene.path("there"));
    let sent = link.passed()[0];
    assert!(sent < (96 + 24) << 20, "it was not gone on with: {sent}");
}
