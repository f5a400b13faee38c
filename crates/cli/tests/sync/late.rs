//! Files that wait for the end of their job where something else is done in the destination
//! meanwhile, or where not every directory of it may be written to.

use crate::common::*;
use crate::lots::{DELAY, SOON, kill_when, that_are_named, that_wait, waiting_in};
use crate::oracle::Pair;
use haul_testkit::tree;
use std::fs;

/// The small files of [`prepare`].
const FILES: usize = 30;

/// Trees with small files and one that takes a while.
fn prepare(scene: &Scene<'_>) {
    for file in 0..FILES {
        scene.file(format!("src/a/{file}"), format!("file {file}"));
    }
    scene.mkdir("src/z");
    // It can't be compressed, and takes as long as the rate says.
    tree::random_file(scene.path("src/z/z"), 16 << 20, 3).expect("a file");
    scene.file("dst/a/0", "the old one");
    scene.file("dst/extra", "extra");
    let _ = Pair::of(scene);
}

#[test]
fn removing_first_leaves_waiting_files_to_the_copying_that_follows() {
    each_of(
        &[Way::Local, Way::Upload, Way::Download],
        |scene| scene.reach_by_pipe(),
        |scene| {
            prepare(scene);
            let sync = |flags: &[&str]| {
                let flags = [&["-a", DELAY, "--delete-before"], flags].concat();
                scene.transfer("sync", &scene.route(), &flags, &["src/"], "dst")
            };
            let slow = sync(&["--bwlimit=2m"]);
            kill_when(scene, &slow, || that_wait(scene).len() >= FILES);
            let left = that_wait(scene);
            assert_eq!(left.len(), FILES);
            sync(&[]).run().expect_ok();
            assert!(left.is_subset(&that_are_named(scene)), "some were sent again");
            let differences =
                scene.snapshot("src").differences(&scene.snapshot("dst"), scene.rules());
            assert!(differences.is_empty(), "{differences:?}");
            assert_no_strays(&scene.path("dst"));
        },
    );
}

#[test]
fn what_another_program_has_made_meanwhile_has_a_backup() {
    each_of(
        &[Way::Local, Way::Upload, Way::Download],
        |scene| scene.reach_by_pipe(),
        |scene| {
            for (flags, kept) in scene.share([
                (&["-b"][..], "dst/a/1~"),
                (&["--backup-dir=../kept"], "kept/a/1"),
                (&["--backup-dir=../kept", "--suffix=.old"], "kept/a/1.old"),
            ]) {
                scene.clear(&["src", "dst", "kept"]);
                prepare(scene);
                let flags = [&["-a", DELAY, "--bwlimit=4m"], flags].concat();
                let job = scene.transfer("sync", &scene.route(), &flags, &["src/"], "dst");
                let running = job.spawn().expect("it starts");
                let wait = || waiting_in(&scene.path("dst")) >= FILES;
                assert!(running.until(SOON, wait), "nothing waits");
                scene.file("dst/a/1", "of another program");
                running.wait().expect("it ends").expect_ok();
                assert_eq!(scene.read("dst/a/1"), "file 1");
                assert_eq!(scene.read(kept), "of another program");
            }
        },
    );
}

#[test]
fn files_that_another_program_removes_while_they_wait_fail() {
    each_of(
        &[Way::Local, Way::Upload, Way::Download],
        |scene| scene.reach_by_pipe(),
        |scene| {
            prepare(scene);
            let flags = ["-a", DELAY, "--bwlimit=4m"];
            let job = scene.transfer("sync", &scene.route(), &flags, &["src/"], "dst");
            let running = job.spawn().expect("it starts");
            assert!(running.until(SOON, || waiting_in(&scene.path("dst")) >= FILES));
            let waiting = scene.list("dst").into_iter().filter(|path| path.contains(".late/"));
            for path in waiting.filter(|path| path.ends_with("/0") || path.ends_with("/1")) {
                fs::remove_file(scene.path("dst").join(path)).expect("removed");
            }
            let ended = running.wait().expect("it ends").expect_code(23);
            let message = "another program removed 2 of its new files while they waited";
            assert!(ended.err().contains(message), "{}", ended.err());
            assert_eq!([scene.read("dst/a/0"), scene.read("dst/a/2")], ["the old one", "file 2"]);
            assert!(!scene.path("dst/a/1").exists());
        },
    );
}

#[test]
fn files_wait_in_a_directory_below_one_that_may_not_be_written_to() {
    let world = World::new();
    let mut scene = world.scene(Way::Local);
    if !is_root() {
        return haul_testkit::fixture::missing("the right to run as another user");
    }
    scene.become_nobody();
    prepare(&scene);
    scene.mkdir("dst/z");
    scene.file("src/b/in", "in b");
    scene.file("dst/b/in", "in b, the old one");
    let names = ["a", "b", "z"];
    names.iter().for_each(|name| scene.give_to_nobody(&format!("dst/{name}")));
    let sync = |flags: &[&str]| {
        let flags = [&["-rpt", "-O", DELAY], flags].concat();
        scene.transfer("sync", &[""; 0], &flags, &["src/"], "dst")
    };
    kill_when(&scene, &sync(&["--bwlimit=2m"]), || waiting_in(&scene.path("dst")) > FILES);
    assert_eq!(scene.read("dst/a/0"), "the old one");
    let left = that_wait(&scene);
    assert_eq!(left.len(), FILES + 1);
    sync(&[]).run().expect_ok();
    assert!(left.is_subset(&that_are_named(&scene)), "some were sent again");
    assert_eq!(scene.read("dst/a/0"), "file 0");
    assert_eq!(scene.read("dst/b/in"), "in b");
    assert_no_strays(&scene.path("dst"));
}
