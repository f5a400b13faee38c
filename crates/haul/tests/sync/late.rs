//! Files that wait, where others come and go at the destination meanwhile: entries that are to be
//! removed first, those that another program makes, and file systems in several places.

use crate::common::*;
use crate::mounted::{in_mounts, waiting_in};
use crate::oracle::Pair;
use haul_testkit::Mount;
use haul_testkit::proc::Signal;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(30);

const DELAY: &str = "--delay-updates";

const FILES: usize = 30;

/// Files, and one that takes a while.
fn prepare(scene: &Scene<'_>) {
    for file in 0..FILES {
        scene.file(format!("src/a/{file}"), format!("file {file}"));
    }
    scene.file("src/z/z", vec![3; 16 << 20]);
    scene.file("dst/a/0", "the old one");
    scene.file("dst/extra", "extra");
    let _ = Pair::of(scene);
}

/// Files in the lots of the destination, as objects.
fn numbers(scene: &Scene<'_>, are_late: bool) -> Vec<u64> {
    let all = scene.list("dst").into_iter();
    let found = all.filter(|path| path.contains(".late/") == are_late);
    let found = found.filter_map(|path| fs::metadata(scene.path("dst").join(path)).ok());
    found.filter(|meta| meta.is_file() && meta.len() < 100).map(|meta| meta.ino()).collect()
}

#[test]
fn what_is_removed_first_leaves_what_waits_to_what_is_copied_then() {
    each_of(
        &[Way::Local, Way::Upload, Way::Download],
        |scene| scene.reach_by_pipe(),
        |scene| {
            prepare(scene);
            let sync = |flags: &[&str]| {
                let flags = [&["-a", DELAY, "--delete-before"], flags].concat();
                scene.transfer("sync", &scene.route(), &flags, &["src/"], "dst")
            };
            let running = sync(&["--bwlimit=2m"]).spawn().expect("it starts");
            let wait = || waiting_in(&scene.path("dst")) >= FILES;
            assert!(running.until(SOON, wait), "nothing waits");
            running.signal(Signal::KILL);
            running.wait().expect("it ends");
            let is_quiet = haul_testkit::holds_within(SOON, || !scene.is_at_work());
            assert!(is_quiet, "the agent is still there");
            let left = numbers(scene, true);
            assert_eq!(left.len(), FILES);
            sync(&[]).run().expect_ok();
            let there = numbers(scene, false);
            assert!(left.iter().all(|number| there.contains(number)), "some were sent again");
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
            for (flags, kept) in
                [(&["-b"][..], "dst/a/1~"), (&["--backup-dir=../kept"], "kept/a/1")]
            {
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
fn a_large_file_waits_where_its_file_system_is_mounted_in_another_place() {
    let world = World::new();
    let scene = world.scene(Way::Local);
    let Some(mount) = Mount::tmpfs(256 << 20) else { return };
    scene.file("src/k/first", "has a lot made");
    // Long enough to be continued.
    scene.file("src/m/large", vec![7; 65 << 20]);
    let Some(mut sync) = in_mounts(&scene, &mount, "") else { return };
    let done = sync.output().expect("it runs");
    assert!(done.status.success(), "{done:?}");
    for dir in ["k", "m"] {
        let rules = scene.rules().ignoring_dir_mtimes();
        let theirs = haul_testkit::snapshot(mount.join(dir)).expect("read");
        let differences = scene.snapshot(format!("src/{dir}")).differences(&theirs, rules);
        assert!(differences.is_empty(), "{dir}: {differences:?}");
        assert_no_strays(&mount.join(dir));
    }
}

#[test]
fn files_wait_below_a_directory_in_which_others_may_make_nothing() {
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
    let running = sync(&["--bwlimit=2m"]).spawn().expect("it starts");
    let wait = || names.iter().any(|name| waiting_in(&scene.path("dst").join(name)) > FILES);
    assert!(running.until(SOON, wait), "nothing waits");
    running.signal(Signal::KILL);
    running.wait().expect("it ends");
    assert_eq!(scene.read("dst/a/0"), "the old one");
    let left = numbers(&scene, true);
    sync(&[]).run().expect_ok();
    let there = numbers(&scene, false);
    assert!(left.iter().all(|number| there.contains(number)), "some were sent again");
    assert_eq!(scene.read("dst/a/0"), "file 0");
    assert_eq!(scene.read("dst/b/in"), "in b");
    assert_no_strays(&scene.path("dst"));
}
