//! A destination whose files are hard links to files of the source, or that holds the source.

use crate::common::*;
use haul_testkit::assert_same;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Command;

/// A source, and DEST as `cp -al` makes it.
fn prepare(scene: &Scene<'_>) {
    scene.clear(&["src", "dst"]);
    scene.file("src/a", "content");
    scene.file("src/d/b", "more");
    fs::hard_link(scene.path("src/a"), scene.path("src/d/c")).expect("linked");
    scene.symlink("a", "src/link");
    run(Command::new("mkfifo").arg(scene.path("src/fifo")));
    run(Command::new("cp").arg("-al").args(["src", "dst"].map(|name| scene.path(name))));
}

fn inode(scene: &Scene<'_>, name: &str) -> u64 {
    fs::symlink_metadata(scene.path(name)).expect("it is there").ino()
}

#[test]
fn a_hard_link_to_the_source_is_up_to_date_and_nothing_is_written_to_it() {
    each_way_by_pipe(|scene| {
        for flags in scene.share([
            &["-a"][..],
            &["-aH"],
            &["-ac"],
            &["-aI", "--inplace"],
            &["-aI", "--append"],
            &["-aIb"],
            &["-au", "--delete"],
            &["-a", "--delay-updates"],
            &["-a", "--link-dest=../src"],
        ]) {
            prepare(scene);
            let before = scene.snapshot("src");
            let run = scene.transfer("sync", &scene.route(), flags, &["src/"], "dst").run();
            run.expect_ok();
            assert_same(&before, &scene.snapshot("src"));
            assert_same(&before, &scene.snapshot("dst"));
            for name in ["a", "d/b", "d/c", "link", "fifo"] {
                let [from, to] = ["src", "dst"].map(|tree| inode(scene, &format!("{tree}/{name}")));
                assert_eq!(from, to, "{flags:?} {name}");
            }
        }
    });
}

#[test]
fn attributes_that_the_source_would_get_too_are_refused() {
    each_way_by_pipe(|scene| {
        prepare(scene);
        let before = scene.snapshot("src");
        let flags = ["-a", "--chmod=F600"];
        let run = scene.transfer("sync", &scene.route(), &flags, &["src/"], "dst").run();
        let run = run.expect_code(23);
        assert!(run.err().contains("source and destination are the same file"), "{run}");
        assert_same(&before, &scene.snapshot("src"));
    });
}

#[test]
fn a_source_that_dest_has_only_as_a_link_to_it_is_not_removed() {
    each_way_by_pipe(|scene| {
        prepare(scene);
        let before = scene.snapshot("src");
        let flags = ["-a", "--remove-source-files"];
        scene.transfer("sync", &scene.route(), &flags, &["src/"], "dst").run().expect_code(23);
        assert_same(&before, &scene.snapshot("src"));
        // A file that is DEST itself stays, too.
        scene.transfer("sync", &scene.route(), &flags, &["src/a"], "src/").run().expect_code(23);
        assert_same(&before, &scene.snapshot("src"));
    });
}

#[test]
fn a_source_that_is_in_dest_is_not_removed() {
    each_way_by_pipe(|scene| {
        let flags = ["--delete-before", "--delete-during", "--delete-after", "--delete"];
        for flag in scene.share(flags) {
            scene.clear(&["dst"]);
            scene.file("dst/kept/src/a", "content");
            scene.file("dst/kept/src/d/b", "more");
            let before = scene.snapshot("dst/kept/src");
            let (flags, source) = (["-a", flag], ["dst/kept/src/"]);
            let run = scene.transfer("sync", &scene.route(), &flags, &source, "dst").run();
            let run = run.expect_code(23);
            assert!(run.err().contains("it is a source of this command"), "{run}");
            assert_same(&before, &scene.snapshot("dst/kept/src"));
            assert_eq!(scene.read("dst/d/b"), "more");
        }
    });
}

#[test]
fn the_second_run_with_its_source_as_a_base_finds_nothing_to_do() {
    each_way_by_pipe(|scene| {
        scene.file("src/a", "content");
        let flags = ["-ai", "--link-dest=../src"];
        let sync = || scene.transfer("sync", &scene.route(), &flags, &["src/"], "dst").run();
        sync().expect_ok();
        assert_eq!(inode(scene, "src/a"), inode(scene, "dst/a"));
        let run = sync().expect_ok();
        assert_eq!(run.out(), "", "{run}");
    });
}
