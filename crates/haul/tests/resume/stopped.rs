//! Copies that are stopped in an orderly way, or stand in each other's.

use crate::common::*;
use crate::{
    BLOCK, LEN, finish, interrupt, journals, left, make_big, on_record, one_by_one, start,
};
use haul_testkit::proc::Signal;
use haul_testkit::{Mount, same_content, tree};
use std::fs;
use std::process::Command;

#[test]
fn after_ctrl_c_nothing_is_moved_twice() {
    everywhere(|scene| {
        make_big(scene);
        let running = start(scene, &["-q"], 4);
        running.signal(Signal::INT);
        running.wait().expect("it ends").expect_code(130);
        std::thread::sleep(std::time::Duration::from_millis(100));
        let blocks = on_record(scene);
        assert!(blocks >= 4);
        assert_eq!(finish(scene, &[]), LEN - blocks * BLOCK);
    });
}

#[test]
fn a_file_with_holes_goes_on_and_keeps_them() {
    everywhere(|scene| {
        make_big(scene);
        // Within a block, a whole block, and at the end.
        let holes = [(BLOCK / 2, BLOCK / 4), (8 * BLOCK, 2 * BLOCK), (LEN - BLOCK, BLOCK)];
        for (at, len) in holes {
            let words = ["-p", "-o", &at.to_string(), "-l", &len.to_string()].map(str::to_owned);
            run(Command::new("fallocate").args(words).arg(scene.path("big")));
        }
        let blocks = interrupt(scene, 4);
        finish(scene, &[]);
        assert!(blocks >= 4);
        let allocated = |name: &str| {
            let stat = fs::metadata(scene.path(name)).expect("there");
            std::os::unix::fs::MetadataExt::blocks(&stat) * 512
        };
        assert!(allocated("to/big") <= allocated("big") + BLOCK / 4, "{}", allocated("to/big"));
    });
}

#[test]
fn no_resume_begins_anew_and_leaves_nothing() {
    everywhere(|scene| {
        make_big(scene);
        interrupt(scene, 4);
        assert_eq!(finish(scene, &["--no-resume"]), LEN);
        fs::remove_file(scene.path("to/big")).expect("removed");
        let running = scene
            .copy(&one_by_one(scene, &["-q", "--no-resume"]), &["big"], "to")
            .spawn()
            .expect("starts");
        std::thread::sleep(std::time::Duration::from_millis(300));
        running.kill_group();
        running.wait().expect("it ends");
        std::thread::sleep(std::time::Duration::from_millis(100));
        assert!(journals(scene).is_empty() && left(scene, ".part").is_empty());
    });
}

#[test]
fn a_second_haul_on_the_same_file_is_told_so() {
    everywhere(|scene| {
        make_big(scene);
        let first = start(scene, &["-q"], 1);
        if scene.way == Way::Upload {
            scene
                .sshd()
                .agents()
                .into_iter()
                .for_each(|a| haul_testkit::proc::signal(a, Signal::STOP));
        }
        first.signal(Signal::STOP);
        let second = scene.copy(&[], &["big"], "to").run();
        assert_eq!(second.code, Some(1), "{second}");
        assert_one_error(&second, "big", "another haul is writing", "wait until the other haul");
        scene.sshd().agents().into_iter().for_each(|a| haul_testkit::proc::signal(a, Signal::CONT));
        first.signal(Signal::CONT);
        first.wait().expect("it ends").expect_ok();
        assert_eq!(scene.list("to"), ["big"]);
        assert_eq!(finish(scene, &[]), 0);
    });
}

#[test]
fn a_full_disk_keeps_what_is_there_and_the_next_run_goes_on() {
    everywhere(|scene| {
        // What comes over a wire is refused beforehand where there is no room for it: there
        // is for each of two, which come one after the other.
        let (room, sources) = match scene.way {
            Way::Upload | Way::Download => (100 << 20, &["a", "big"][..]),
            _ => (60 << 20, &["big"][..]),
        };
        let Some(small) = Mount::tmpfs(room) else { return };
        tree::random_file(scene.path("a"), 40 << 20, 8).expect("a file");
        tree::random_file(scene.path("big"), LEN, 7).expect("a file");
        fs::write(small.join("big"), "old").expect("written");
        scene.symlink(small.path(), "to");
        let run = scene.copy(&one_by_one(scene, &[]), sources, "to").run().expect_code(4);
        assert!(run.err().contains("No space left on device"), "{run}");
        assert_eq!(scene.read("to/big"), "old");
        let grown = format!("remount,size={}", 300 << 20);
        run_command(Command::new("mount").args(["-o", &grown]).arg(small.path()));
        let run = scene.copy(&["--json"], &["big"], "to").run().expect_ok();
        // 15 blocks have room; the last ones may have been on their way.
        assert!(crate::moved(&run) <= LEN - 8 * BLOCK, "{run}");
        assert!(same_content(scene.path("big"), small.join("big")).expect("read"));
        assert_eq!(fs::read_dir(small.path()).expect("read").count(), sources.len());
    });
}

fn run_command(command: &mut Command) {
    crate::common::run(command);
}

#[test]
fn a_stage_that_nothing_continues_is_removed_by_the_next_copy() {
    everywhere(|scene| {
        make_big(scene);
        interrupt(scene, 4);
        fs::remove_file(scene.path("big")).expect("removed");
        tree::random_file(scene.path("big"), LEN - 1, 9).expect("a file");
        assert_eq!(finish(scene, &[]), LEN - 1);
    });
}
