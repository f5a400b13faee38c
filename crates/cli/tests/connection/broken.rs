//! A connection that breaks in the middle of a copy: exit code 3 within
//! seconds, nothing half done, and the same command again does the rest.

use crate::common::*;
use crate::transfer::{Transfer, agent_of, is_whole_or_absent};
use haul_testkit::haul::Outcome;
use haul_testkit::proc::{self, Signal};
use haul_testkit::{assert_same, tree};
use std::ffi::OsStr;
use std::fs;
use std::time::{Duration, Instant};

#[track_caller]
fn assert_lost(run: &Outcome) {
    let errors = errors(run);
    assert!(
        matches!(&errors[..], [error] if error.starts_with("the connection to haul-test was lost")),
        "{run}"
    );
    let hint = "  hint: run the same command again: finished files are skipped\n";
    assert!(run.err().ends_with(hint), "{run}");
}

#[test]
fn an_agent_that_is_killed_breaks_the_copy_and_no_more() {
    each_remote_way(|scene| {
        let transfer = Transfer::start(scene);
        proc::signal(transfer.agent(), Signal::KILL);
        assert_lost(&transfer.ends_with(3));
    });
}

#[test]
fn a_command_ends_when_its_agent_holds_nothing_of_the_host_any_more() {
    each_remote_way(|scene| {
        tree::many(scene.path("tree"), 20, 3000, 2, 1).expect("a tree");
        for command in ["copy", "check"] {
            scene.transfer(command, &scene.remote(), &["-r"], &["tree"], "there").run().expect_ok();
            assert_eq!(agent_of(scene), None, "{command}");
        }
    });
}

#[test]
fn an_ssh_that_is_killed_breaks_the_copy_and_no_more() {
    each_remote_way(|scene| {
        let transfer = Transfer::start(scene);
        proc::signal(transfer.ssh(), Signal::KILL);
        let run = transfer.ends_with(3);
        assert_lost(&run);
        assert!(run.err().contains("ssh was killed by signal 9"), "{run}");
    });
}

#[test]
fn a_host_that_goes_away_breaks_the_copy_and_no_more() {
    for way in Way::REMOTE {
        let world = World::new();
        let scene = world.scene(way);
        let transfer = Transfer::start(&scene);
        world.sshd().cut();
        assert_lost(&transfer.ends_with(3));
    }
}

#[test]
fn an_agent_ends_when_its_client_is_killed() {
    each_remote_way(|scene| {
        let transfer = Transfer::start(scene);
        transfer.running.signal(Signal::KILL);
        transfer.was_killed();
    });
}

#[test]
fn an_agent_ends_when_its_client_is_killed_with_all_its_ssh() {
    each_remote_way(|scene| {
        let transfer = Transfer::start(scene);
        transfer.running.kill_group();
        transfer.was_killed();
    });
}

#[test]
fn a_connection_that_breaks_at_any_byte_is_reported_and_leaves_nothing_half_done() {
    each_remote_way(|scene| {
        tree::sizes(scene.path("tree"), 1).expect("a tree");
        let source = scene.snapshot("tree");
        // What one direction carries before it ends: so many reads of so much.
        let bytes = [0, 1, 4, 5, 6, 23, 24, 25, 60, 200, 1000, 5000].map(|count| (count, 1));
        for (count, len) in bytes.into_iter().chain([(20, 4096), (300, 4096)]) {
            let part = format!("dd count={count} bs={len} status=none");
            for lines in [
                format!("shift\nsh -c \"$*\" | {{ {part}; kill $$; }}"),
                format!("shift\n{part} | sh -c \"$*\""),
            ] {
                let rsh = script(&scene.path("rsh"), &lines);
                let remote = ["--rsh".as_ref(), rsh.as_os_str(), "--remote-haul".as_ref()];
                let remote = [&remote[..], &[OsStr::new(HAUL)]].concat();
                let copy = scene.copy_by(&remote, &["-r"], &["tree"], "there/");
                let run = copy.limit(Duration::from_secs(20)).run();
                if run.code == Some(0) {
                    // That direction carries less.
                    assert_same(&source, &scene.snapshot("there/tree"));
                } else {
                    assert_eq!(run.code, Some(3), "{lines}\n{run}");
                    assert_eq!(errors(&run).len(), 1, "{lines}\n{run}");
                }
                if scene.exists("there/tree") {
                    is_whole_or_absent(scene, &source);
                }
                let _ = fs::remove_dir_all(scene.path("there"));
            }
        }
    });
}

#[test]
fn what_the_login_leaves_running_on_the_host_holds_nobody_up() {
    each_remote_way(|scene| {
        tree::many(scene.path("src"), 20, 1000, 2, 1).expect("a tree");
        // It has the session's streams, so ssh does not end when the agent does.
        let haul = script(&scene.path("haul"), &format!("sleep 60 &\nexec {HAUL} \"$@\""));
        let rsh = scene.sshd().rsh();
        let remote = [OsStr::new("--rsh"), OsStr::new(&rsh), OsStr::new("--remote-haul")];
        let remote = [&remote[..], &[haul.as_os_str()]].concat();
        let begin = Instant::now();
        scene.copy_by(&remote, &["-r"], &["src"], "to").run().expect_ok();
        assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
        assert_same(&scene.snapshot("src"), &scene.snapshot("to"));
    });
}
