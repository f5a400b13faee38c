//! Copies that are stopped in an orderly way, or stand in each other's.

use crate::common::*;
use crate::{
    BLOCK, LEN, finish, interrupt, journals, left, make_big, one_by_one, recorded_at_end, start,
};
use haul_testkit::proc::Signal;
use haul_testkit::{Mount, holds_within, same_content, tree};
use std::fs;
use std::process::Command;

#[test]
fn after_ctrl_c_nothing_is_moved_twice() {
    everywhere(|scene| {
        make_big(scene);
        let running = start(scene, &["-q"], 4);
        running.signal(Signal::INT);
        running.wait().expect("it ends").expect_code(130);
        let mut blocks = 0;
        let is_on_record = || {
            blocks = recorded_at_end(scene);
            blocks >= 4
        };
        assert!(holds_within(std::time::Duration::from_secs(5), is_on_record));
        assert_eq!(finish(scene, &[]), LEN - blocks * BLOCK);
    });
}

#[test]
fn a_file_with_holes_continues_and_keeps_them() {
    everywhere(|scene| {
        make_big(scene);
        // Within a block, whole blocks, and at the end; each can be one in a file system of
        // large pages, too.
        let end = LEN / BLOCK * BLOCK - BLOCK;
        let holes = [(BLOCK / 2, BLOCK / 2), (8 * BLOCK, 2 * BLOCK), (end, LEN - end)];
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
fn no_resume_begins_again_and_leaves_nothing() {
    everywhere_by_pipe(|scene| {
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
fn a_second_haul_on_the_same_file_is_reported_so() {
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
        assert_one_error(
            &second,
            "big",
            "another haul is writing",
            "run the same command again when the other haul has ended; one without a connection ends within a minute, or after its --timeout",
        );
        scene.sshd().agents().into_iter().for_each(|a| haul_testkit::proc::signal(a, Signal::CONT));
        first.signal(Signal::CONT);
        first.wait().expect("it ends").expect_ok();
        assert_eq!(scene.list("to"), ["big"]);
        assert_eq!(finish(scene, &[]), 0);
    });
}

#[test]
fn a_full_disk_keeps_what_is_there_and_the_next_run_continues() {
    everywhere_by_pipe(|scene| {
        // What comes over a wire is refused beforehand where there is no room for it: there
        // is for each of two, and not for both. Which of them is done by then is a matter
        // of chance.
        let (room, names) = match scene.way {
            Way::Upload | Way::Download => (25 * BLOCK, &["a", "big"][..]),
            _ => (15 * BLOCK, &["big"][..]),
        };
        let Some(small) = Mount::tmpfs(room) else { return };
        for (number, name) in names.iter().enumerate() {
            tree::random_file(scene.path(name), LEN, number as u64).expect("a file");
            fs::write(small.join(name), "old").expect("written");
        }
        scene.symlink(small.path(), "to");
        let is_old = |name: &&&str| fs::read(small.join(name)).expect("read") == b"old";
        let is_new = |name: &&str| same_content(scene.path(name), small.join(name)).expect("read");
        let run = scene.copy(&one_by_one(scene, &[]), names, "to").run().expect_code(4);
        assert!(run.err().contains("No space left on device"), "{run}");
        let old: Vec<_> = names.iter().filter(is_old).collect();
        assert!(!old.is_empty() && names.iter().all(|name| old.contains(&name) || is_new(name)));
        let grown = format!("remount,size={}", 300 << 20);
        run_command(Command::new("mount").args(["-o", &grown]).arg(small.path()));
        let run = scene.copy(&["--json"], names, "to").run().expect_ok();
        // The last blocks that there was room for may have been on their way.
        let moved_max = names.len() as u64 * LEN - (room - 7 * BLOCK);
        assert!(crate::moved(&run) <= moved_max, "{run}");
        assert!(names.iter().all(is_new));
        assert_eq!(scene.list("to/."), names, "something of haul's is left");
    });
}

fn run_command(command: &mut Command) {
    crate::common::run(command);
}

#[test]
fn a_stage_that_nothing_continues_is_removed_by_the_next_copy() {
    everywhere_by_pipe(|scene| {
        make_big(scene);
        interrupt(scene, 4);
        fs::remove_file(scene.path("big")).expect("removed");
        tree::random_file(scene.path("big"), LEN - 1, 9).expect("a file");
        assert_eq!(finish(scene, &[]), LEN - 1);
    });
}
