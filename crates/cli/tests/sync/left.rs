//! Files that killed jobs have left waiting, and that the next job can't simply use: names of one
//! file that are two files by now, and lots in a directory that may not be written to.

use crate::common::*;
use crate::lots::{DELAY, kill_when, that_are_named, that_wait, waiting_in};
use haul_testkit::nasty;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

#[test]
fn names_that_waited_as_one_file_and_are_two_by_now_become_two() {
    each_of(
        &[Way::Local, Way::Upload, Way::Download],
        |scene| scene.reach_by_pipe(),
        |scene| {
            // They are listed in this order: of each file, the first name is one that waited.
            let [one, two, with_one, with_two] =
                ["one", "two", "with-one", "with-two"].map(|name| format!("src/a/{name}"));
            let file = |name: &str| {
                let path = scene.file(name, "of several names");
                nasty::set_mtime(path, 1_500_000_000, 0).expect("a time");
            };
            let link = |from: &str, to: &str| {
                fs::hard_link(scene.path(from), scene.path(to)).expect("linked");
            };
            file(&one);
            link(&one, &two);
            // Locally a worker that copies slowly has a portion of 4 MiB: this ends the first.
            scene.file("src/a/z", vec![3; 4 << 20]);
            scene.file("src/z/z", vec![3; 32 << 20]);
            let sync = |flags: &[&str]| {
                let flags = [&["-aH", DELAY], flags].concat();
                scene.transfer("sync", &scene.route(), &flags, &["src/"], "dst")
            };
            let slow = sync(&["--bwlimit=4m"]);
            kill_when(scene, &slow, || waiting_in(&scene.path("dst")) >= 3);
            let left = that_wait(scene);
            assert_eq!(left.len(), 1);
            fs::remove_file(scene.path(&two)).expect("removed");
            file(&two);
            link(&one, &with_one);
            link(&two, &with_two);
            sync(&[]).run().expect_ok();
            assert!(left.is_subset(&that_are_named(scene)), "both were sent again");
            let number = |name: &str| {
                fs::metadata(scene.path(format!("dst/a/{name}"))).expect("there").ino()
            };
            assert_eq!(number("one"), number("with-one"));
            assert_eq!(number("two"), number("with-two"));
            assert_ne!(number("one"), number("two"));
            assert_no_strays(&scene.path("dst"));
        },
    );
}

#[test]
fn all_that_was_left_goes_from_a_directory_that_its_owner_may_not_write_to() {
    let world = World::new();
    let mut scene = world.scene(Way::Local);
    scene.become_nobody();
    for file in ["src/file", "dst/other"] {
        scene.file(file, file);
    }
    let ids = ["0123456789abcdef", "5555555555555555", "fedcba9876543210"];
    let lots = ids.map(|id| format!("dst/.haul-{id}.late"));
    for lot in &lots {
        scene.file(format!("{lot}/0-new/file"), "left");
        mode(scene.path(lot), 0o700);
    }
    for root in ["src", "dst"] {
        scene.give_to_nobody(root);
        mode(scene.path(root), 0o555);
    }
    scene.transfer("sync", &[""; 0], &["-a", DELAY], &["src/"], "dst").run().expect_ok();
    assert_no_strays(&scene.path("dst"));
    assert_eq!(scene.list("dst"), ["file", "other"]);
    let dst = fs::metadata(scene.path("dst")).expect("there");
    assert_eq!(dst.permissions().mode() & 0o7777, 0o555);
}
