//! Files of several names that wait, and lots in a directory that may not be written to, behind a
//! kill.

use crate::common::*;
use crate::mounted::waiting_in;
use haul_testkit::nasty;
use haul_testkit::proc::Signal;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(30);

const DELAY: &str = "--delay-updates";

#[test]
fn names_that_waited_as_one_file_and_are_two_by_now_become_two() {
    each_of(
        &[Way::Local, Way::Upload, Way::Download],
        |scene| scene.reach_by_pipe(),
        |scene| {
            // In this order they are listed: the first of both are those that waited.
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
            scene.file("src/z", vec![3; 32 << 20]);
            let sync = |flags: &[&str]| {
                let flags = [&["-aH", DELAY], flags].concat();
                scene.transfer("sync", &scene.route(), &flags, &["src/"], "dst")
            };
            let running = sync(&["--bwlimit=4m"]).spawn().expect("it starts");
            let wait = || waiting_in(&scene.path("dst")) >= 2;
            assert!(running.until(SOON, wait), "nothing waits");
            running.signal(Signal::KILL);
            running.wait().expect("it ends");
            let is_quiet = haul_testkit::holds_within(SOON, || !scene.is_at_work());
            assert!(is_quiet, "the agent is still there");
            fs::remove_file(scene.path(&two)).expect("removed");
            file(&two);
            link(&one, &with_one);
            link(&two, &with_two);
            sync(&[]).run().expect_ok();
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
