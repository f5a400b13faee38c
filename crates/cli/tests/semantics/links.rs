//! Symbolic links: kept as they are, or followed with -L.

use crate::common::*;
use haul_testkit::assert_same_with;
use std::fs;
use std::time::Duration;

#[test]
fn with_r_a_link_is_kept_as_a_link_wherever_it_leads() {
    everywhere_by_pipe(|scene| {
        scene.file("target", "x");
        scene.symlink("target", "to-file");
        scene.symlink("missing", "dangling");
        scene.symlink("/etc", "to-dir");
        scene.mkdir("there");
        scene.copy(&["-r"], &["to-file", "dangling", "to-dir"], "there").run().expect_ok();
        for (name, leads) in [("to-file", "target"), ("dangling", "missing"), ("to-dir", "/etc")] {
            let target = fs::read_link(scene.path("there").join(name)).expect("a link");
            assert_eq!(target.to_str(), Some(leads));
        }
        assert_eq!(scene.list("there").len(), 3);
    });
}

#[test]
fn a_named_link_is_followed_as_cp_does() {
    everywhere_by_pipe(|scene| {
        let file = scene.file("elsewhere/file", "content");
        mode(&file, 0o640);
        scene.symlink("elsewhere/file", "to-file");
        scene.symlink("to-file", "to-link");
        scene.symlink("elsewhere", "to-dir");
        scene.symlink("missing", "dangling");
        scene.copy(&[], &["to-file"], "new").run().expect_ok();
        let is_copy = |name: &str| {
            let path = scene.path(name);
            assert!(fs::symlink_metadata(&path).expect("it is there").is_file(), "{name}");
            assert_eq!((scene.read(name), mode_of(path)), ("content".to_owned(), 0o640), "{name}");
        };
        is_copy("new");
        scene.mkdir("there");
        let copy = || scene.copy(&[], &["to-file", "to-link", "to-dir", "dangling"], "there").run();
        let run = copy().expect_code(1);
        assert_eq!(scene.list("there"), ["to-file", "to-link"]);
        is_copy("there/to-file");
        is_copy("there/to-link");
        let failed = errors(&run);
        assert_eq!(failed.len(), 2, "{run}");
        assert!(failed[0].ends_with("to-dir: it is a directory"), "{run}");
        assert!(failed[1].contains("it is a dangling symbolic link"), "{run}");
        // Nothing is left to do, and there is no difference.
        assert!(copy().expect_code(1).out().contains("skipped 2"));
        let remote = if scene.way == Way::Local { Vec::new() } else { scene.remote() };
        scene.transfer("check", &remote, &[], &["to-file"], "new").run().expect_ok();
    });
}

#[test]
fn a_file_or_a_link_to_one_with_a_slash_behind_it_is_no_source() {
    everywhere_by_pipe(|scene| {
        scene.file("elsewhere/file", "content");
        scene.symlink("elsewhere/file", "to-file");
        for source in ["to-file/", "elsewhere/file/"] {
            for flags in [&["-r"][..], &[], &["-L"], &["-rL"]] {
                let run = scene.copy(flags, &[source], "new").run().expect_code(1);
                assert_one_error(&run, source, ": it is not a directory", "");
                assert!(!scene.exists("new"), "{run}");
            }
        }
        scene.copy(&[], &["to-file"], "new").run().expect_ok();
        let remote = if scene.way == Way::Local { Vec::new() } else { scene.remote() };
        let check = scene.transfer("check", &remote, &[], &["to-file/"], "new");
        assert_one_error(&check.run().expect_code(1), "to-file/", ": it is not a directory", "");
    });
}

#[test]
fn with_l_what_links_lead_to_is_copied() {
    everywhere_by_pipe(|scene| {
        scene.file("elsewhere/dir/deep", "deep");
        let file = scene.file("elsewhere/file", "content");
        mode(&file, 0o640);
        scene.symlink(scene.path("elsewhere/dir"), "to-dir");
        scene.mkdir("tree/sub");
        scene.symlink(&file, "tree/to-file");
        scene.symlink("../elsewhere/dir", "tree/to-dir");
        scene.symlink("../to-dir", "tree/to-a-link");
        scene.mkdir("there");
        scene.copy(&["-rL"], &["tree", "to-dir"], "there").run().expect_ok();
        assert_eq!(
            scene.list("there"),
            [
                "to-dir",
                "to-dir/deep",
                "tree",
                "tree/sub",
                "tree/to-a-link",
                "tree/to-a-link/deep",
                "tree/to-dir",
                "tree/to-dir/deep",
                "tree/to-file"
            ]
        );
        for (source, copy) in [("elsewhere/file", "to-file"), ("elsewhere/dir", "to-dir")] {
            let copy = scene.snapshot(format!("there/tree/{copy}"));
            assert_same_with(&scene.snapshot(source), &copy, scene.rules());
        }
    });
}

#[test]
fn with_l_links_that_lead_nowhere_or_in_a_circle_fail_alone() {
    everywhere_by_pipe(|scene| {
        scene.file("tree/sub/file", "x");
        for (target, name) in [
            ("missing", "dangling"),
            ("b", "a"),
            ("a", "b"),
            ("..", "sub/up"),
            (".", "sub/itself"),
            ("../../tree", "sub/top"),
        ] {
            scene.symlink(target, format!("tree/{name}"));
        }
        let copy = scene.copy(&["-rL"], &["tree"], "copy").limit(Duration::from_secs(20));
        let run = copy.run().expect_code(1);
        let mut there = scene.list("copy");
        if scene.way == Way::SftpUpload {
            // Not all has arrived: the mark by which the next run knows it again stays.
            assert!(there.remove(0).starts_with(".haul-"), "{run}");
        }
        assert_eq!(there, ["sub", "sub/file"]);
        let nowhere = "it is a dangling symbolic link";
        let circle = match scene.way {
            // Its server says no more of it than that.
            Way::SftpDownload => nowhere,
            _ => "can't read its metadata: Too many levels of symbolic links",
        };
        let above = "the symbolic link points to a directory above it";
        assert_errors_end(
            &run,
            &[
                format!("tree/a: {circle}"),
                format!("tree/b: {circle}"),
                format!("tree/dangling: {nowhere}"),
                format!("tree/sub/itself: {above}"),
                format!("tree/sub/top: {above}"),
                format!("tree/sub/up: {above}"),
            ],
        );
    });
}

#[test]
fn a_link_at_the_destination_is_replaced_and_not_followed() {
    everywhere_by_pipe(|scene| {
        scene.file("a", "new");
        scene.file("target", "untouched");
        scene.symlink("target", "to-file");
        scene.symlink("missing", "dangling");
        for dest in ["to-file", "dangling"] {
            scene.copy(&[], &["a"], dest).run().expect_ok();
            assert!(fs::symlink_metadata(scene.path(dest)).expect("it is there").is_file());
            assert_eq!(scene.read(dest), "new");
        }
        assert_eq!(scene.read("target"), "untouched");
        assert!(!scene.exists("missing"));
        // A link replaces a file, and a link that leads elsewhere.
        scene.symlink("a", "link");
        scene.copy(&["-r"], &["link"], "to-file").run().expect_ok();
        scene.symlink("elsewhere", "other");
        scene.copy(&["-r"], &["link"], "other").run().expect_ok();
        for name in ["to-file", "other"] {
            let target = fs::read_link(scene.path(name)).expect("a link");
            assert_eq!(target.to_str(), Some("a"), "{name}");
        }
        assert_no_strays(&scene.path(""));
    });
}
