//! Copies through a host's SFTP server that can't be done, or not to the end.

use crate::common::*;
use crate::resuming::servers_of;
use crate::{copy, strays, summary};
use haul_testkit::proc::{self, Signal};
use haul_testkit::{TempDir, tree};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// How long a copy may take until it has done something.
const SOON: Duration = Duration::from_secs(20);

#[test]
fn what_is_not_there_is_reported_and_what_is_no_file_left_out() {
    each_remote_way(|scene| {
        scene.mkdir("tree");
        run(std::process::Command::new("mkfifo").arg(scene.path("tree/fifo")));
        scene.file("a", "abc");
        scene.mkdir("to");
        let run = copy(scene, &["-r"], &["missing", "a", "tree"], "to").run().expect_code(1);
        assert_eq!(scene.list("to"), ["a", "tree"], "{run}");
        assert_eq!(scene.list("to/tree"), [""; 0], "{run}");
        assert_eq!(errors(&run).len(), 1, "{run}");
        assert!(errors(&run)[0].contains("missing"), "{run}");
        let into = copy(scene, &[], &["a"], "no/such/dir").run().expect_code(4);
        assert!(into.err().contains("no/such"), "{into}");
        let no_dir = copy(scene, &[], &["a"], "a/").run().expect_code(4);
        assert!(no_dir.err().starts_with("haul: "), "{no_dir}");
    });
}

#[test]
fn a_host_that_dies_is_reported_and_the_next_run_completes() {
    each_remote_way(|scene| {
        tree::many(scene.path("tree"), 400, 3_000, 7, 4).expect("made");
        tree::random_file(scene.path("tree/large"), 90 << 20, 4).expect("made");
        let home = scene.mkdir("home");
        let haul = || copy(scene, &["-r"], &["tree"], "to/").home(&home).limit(SOON * 3);
        let running = haul().spawn().expect("it starts");
        assert!(running.until(SOON, || scene.exists("to")), "it does not begin");
        std::thread::sleep(Duration::from_millis(60));
        // The server of this way alone: others have theirs on the same sshd.
        for pid in proc::descendants(running.pid()) {
            proc::signal(pid, Signal::KILL);
        }
        let run = running.wait().expect("it ends");
        if run.code != Some(0) {
            let run = run.expect_code(3);
            assert!(errors(&run)[0].starts_with("the connection to haul-test was lost"), "{run}");
            assert!(run.err().contains("  hint: run the same command again"), "{run}");
        }
        haul().run().expect_ok();
        // Small files that were on their way have left their stages.
        for stray in strays(&scene.path("to")) {
            assert!(!stray.to_string_lossy().ends_with(".part"), "{}", stray.display());
            fs::remove_file(stray).expect("removed");
        }
        let rules = crate::rules().ignoring_dir_mtimes();
        haul_testkit::assert_same_with(&scene.snapshot("tree"), &scene.snapshot("to/tree"), rules);
    });
}

#[test]
fn a_server_or_a_host_that_falls_silent_is_left() {
    let large = TempDir::with_prefix("haul-test-").expect("a temporary directory");
    let large = &large.path().join("large");
    tree::random_file(large, 400 << 20, 4).expect("made");
    std::thread::scope(|scope| {
        // The server hangs, or all of the host.
        for (name, stops_host) in [("server", false), ("host", true)] {
            for way in Way::REMOTE {
                scope.spawn(move || is_left(name, stops_host, way, large));
            }
        }
    });
}

fn is_left(name: &str, stops_host: bool, way: Way, large: &Path) {
    let world = World::new();
    let scene = world.scene_called(name, way);
    fs::hard_link(large, scene.path("big")).expect("linked");
    scene.mkdir("to");
    let home = scene.mkdir("home");
    let haul = copy(&scene, &["--timeout", "2"], &["big"], "to/").home(&home);
    let running = haul.limit(SOON * 3).spawn().expect("it starts");
    let servers = || servers_of(&scene);
    assert!(running.until(SOON, || !servers().is_empty()), "it does not begin");
    let stopped = if stops_host { scene.sshd().sessions() } else { servers() };
    stopped.iter().for_each(|&pid| proc::signal(pid, Signal::STOP));
    let run = running.wait().expect("it ends");
    stopped.iter().for_each(|&pid| proc::signal(pid, Signal::KILL));
    let run = run.expect_code(3);
    assert!(errors(&run)[0].contains("haul-test"), "{run}");
    assert!(run.err().contains("  hint: run the same command again"), "{run}");
}

/// Files that fill what may be on its way at a time several times over.
const MANY: u64 = 3_000;

#[test]
fn small_files_are_reported_as_they_are_done_and_ctrl_c_leaves_none_half_there() {
    each_remote_way(|scene| {
        tree::many(scene.path("tree"), MANY, 2_000, 7, 4).expect("made");
        scene.mkdir("to");
        let home = scene.mkdir("home");
        let haul = || copy(scene, &["-r", "--json"], &["tree"], "to/").home(&home);
        let running = haul().spawn().expect("it starts");
        let arrived = || tree::count(scene.path("to")).map_or(0, |made| made.files);
        assert!(running.until(SOON, || arrived() >= MANY / 2), "it does not come to the half");
        running.signal(Signal::INT);
        let run = running.wait().expect("it ends").expect_code(130);
        assert_eq!(strays(&scene.path("to")), [""; 0].map(std::path::PathBuf::from), "{run}");
        let (told, there) = (summary(&run)["copied"].as_u64().unwrap_or(0), arrived());
        // Those that were on their way last are not waited for.
        assert!(told <= there && told * 3 >= there, "{told} of {there}");
    });
}

#[test]
fn a_name_that_the_host_does_not_take_is_reported_as_too_long() {
    each_remote_way(|scene| {
        scene.file("a", "abc");
        let dest = format!("{}/", "n".repeat(300));
        let run = copy(scene, &[], &["a"], &dest).run();
        let run = run.expect_code(4);
        assert!(!run.err().contains("understand"), "{run}");
        assert!(run.err().contains("long"), "{run}");
    });
}
