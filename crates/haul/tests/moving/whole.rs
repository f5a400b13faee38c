//! Moves of what has something that haul does not keep: it stays, unless the user
//! does without.

use super::common::*;
use super::{Stage, To, each_target};
use haul_testkit::fixture;
use haul_testkit::nasty::{set_acl, set_attribute, set_mode};
use std::fs;
use std::os::unix::fs::{chown, lchown};
use std::path::Path;

/// Gives a file something, and what is said of it.
type Case = (&'static str, fn(&Path) -> std::io::Result<()>, &'static str);

const CASES: &[Case] = &[
    ("owner", |path| chown(path, Some(12), None), "its owner (12) would be lost"),
    ("group", |path| chown(path, None, Some(12)), "its group (12) would be lost"),
    ("set-id", |path| set_mode(path, 0o4755), "its set-ID bits would be lost"),
    ("acl", |path| set_acl(path, false), "its ACL would be lost"),
    ("xattr", |path| set_attribute(path, "user.a", b"1"), "its extended attributes would be lost"),
    (
        "trusted",
        |path| set_attribute(path, "trusted.a", b"1"),
        "its extended attributes would be lost",
    ),
];

/// Where it takes a copy to move something: the source is on a file system with
/// attributes and ACLs, and root moves it.
fn each_copying_target(test: impl Fn(&Stage<'_, '_>) + Sync) {
    each_target(|stage| {
        let probe = stage.scene.file("probe", "");
        for (what, give, _) in CASES {
            if let Err(error) = give(&probe) {
                return fixture::missing(format_args!("{what} of a file ({error})"));
            }
        }
        fs::remove_file(probe).expect("removed");
        if stage.to != To::Here {
            test(stage);
        }
    });
}

#[test]
fn a_file_that_would_lose_something_stays_and_is_not_copied() {
    each_copying_target(|stage| {
        let scene = stage.scene;
        for (name, give, said) in CASES {
            scene.file("tree/dir/plain", "x");
            give(&scene.file("tree/dir/rich", "y")).expect("given");
            let run = stage.run(&["-q"], &["tree"], "to").expect_code(1);
            assert_one_error(&run, "tree/dir/rich: it stays: ", said, "--lossy moves it");
            assert_eq!(scene.list("tree"), ["dir", "dir/rich"], "{name} {:?}", stage.to);
            assert!(stage.there("to/tree/dir/plain").exists());
            assert!(!stage.there("to/tree/dir/rich").exists());
            // The same for a source that is named.
            let run = stage.run(&["-q"], &["tree/dir/rich"], "to").expect_code(1);
            assert_one_error(&run, "rich: it stays: ", said, "--lossy moves it");
            stage.run(&["--lossy"], &["tree"], "to").expect_ok();
            assert!(!scene.exists("tree"), "{name} {:?}", stage.to);
            assert_eq!(fs::read(stage.there("to/tree/dir/rich")).expect("moved"), b"y");
            fs::remove_dir_all(stage.there("to/tree")).expect("removed");
        }
        // What has all of it says so in one line.
        let all = scene.file("all", "x");
        CASES.iter().for_each(|(_, give, _)| give(&all).expect("given"));
        let run = stage.run(&["-q"], &["all"], "to").expect_code(1);
        let said = "its owner (12) and its group (12) and its set-ID bits and its ACL";
        assert_one_error(&run, "all: it stays: ", said, "");
        stage.run(&["--lossy"], &["all"], "to").expect_ok();
        // A link has an owner.
        scene.symlink("nowhere", "link");
        lchown(scene.path("link"), Some(12), None).expect("given");
        stage.run(&[], &["link"], "to").expect_code(1);
        assert!(scene.path("link").is_symlink());
    });
}

#[test]
fn a_directory_that_would_lose_something_stays_with_all_that_is_in_it() {
    each_copying_target(|stage| {
        let scene = stage.scene;
        for (give, said) in [
            ((|path| set_acl(path, true)) as fn(&Path) -> _, "its ACL would be lost"),
            (|path| set_mode(path, 0o2755), "its set-ID bits would be lost"),
            (|path| chown(path, Some(12), None), "its owner (12) would be lost"),
        ] {
            scene.file("tree/plain", "x");
            scene.file("tree/rich/f", "y");
            give(&scene.path("tree/rich")).expect("given");
            let run = stage.run(&["-q"], &["tree"], "to").expect_code(1);
            let path = "tree/rich: it stays with all that is in it: ";
            assert_one_error(&run, path, said, "--lossy moves it");
            assert_eq!(scene.list("tree"), ["rich", "rich/f"], "{:?}", stage.to);
            assert!(!stage.there("to/tree/rich").exists());
            stage.run(&[], &["tree/rich"], "to/new").expect_code(1);
            assert!(!stage.there("to/new").exists());
            stage.run(&["--lossy"], &["tree"], "to").expect_ok();
            assert!(!scene.exists("tree"), "{:?}", stage.to);
            fs::remove_dir_all(stage.there("to/tree")).expect("removed");
        }
    });
}

#[test]
fn names_of_one_file_that_would_become_two_files_stay() {
    each_copying_target(|stage| {
        let scene = stage.scene;
        scene.file("tree/one", "x");
        scene.mkdir("tree/sub");
        fs::hard_link(scene.path("tree/one"), scene.path("tree/sub/other")).expect("linked");
        // The other name of this one is not moved.
        scene.file("tree/alone", "y");
        fs::hard_link(scene.path("tree/alone"), scene.path("outside")).expect("linked");
        let run = stage.run(&[], &["tree"], "to").expect_code(1);
        assert_eq!(run.err().matches("one file under several names").count(), 2, "{run}");
        assert_eq!(scene.list("tree"), ["one", "sub", "sub/other"], "{:?}: {run}", stage.to);
        assert_eq!(fs::read(stage.there("to/tree/alone")).expect("moved"), b"y");
        assert!(run.out().contains("moved 1 in ") && run.out().contains("failed 2"), "{run}");
        stage.run(&["--lossy"], &["tree"], "to").expect_ok();
        assert!(!scene.exists("tree"));
        assert_eq!(fs::read(stage.there("to/tree/sub/other")).expect("moved"), b"x");
    });
}

#[test]
fn a_file_whose_copy_belongs_to_somebody_else_stays() {
    each_copying_target(|stage| {
        if stage.to != To::Elsewhere {
            return;
        }
        stage.scene.file("f", "x");
        fs::copy(stage.scene.path("f"), stage.there("to/f")).expect("copied");
        haul_testkit::nasty::set_mtime(stage.scene.path("f"), 5, 0).expect("a time");
        haul_testkit::nasty::set_mtime(stage.there("to/f"), 5, 0).expect("a time");
        chown(stage.there("to/f"), Some(12), Some(12)).expect("given");
        let run = stage.run(&["-q"], &["f"], "to").expect_code(1);
        assert_one_error(&run, "f: it stays: ", "are 0:0, and those of the destination's", "");
        assert!(stage.scene.exists("f"));
        stage.run(&["--lossy"], &["f"], "to").expect_ok();
    });
}

#[test]
fn on_one_file_system_all_is_kept() {
    each_target(|stage| {
        if stage.to == To::Here {
            let rich = stage.scene.file("rich", "x");
            CASES.iter().for_each(|(_, give, _)| give(&rich).expect("given"));
            stage.run(&[], &["rich"], "to").expect_ok();
            assert_eq!(mode_of(stage.there("to/rich")) & 0o4000, 0o4000);
        }
    });
}
