//! Leftovers of copies: those that `haul clean` removes, those that it leaves, those that a
//! later copy removes by itself, and what a copy of a directory with such files
//! in it does.

use crate::common::*;
use crate::{LEN, SOON, interrupt, journals, left, make_big};
use haul_testkit::{Haul, nasty, tree};
use std::fs;

/// A stage without a journal, of a process that was killed.
const STRAY: &str = ".haul-0123456789abcdef";

fn interrupted(scene: &Scene<'_>) {
    make_big(scene);
    interrupt(scene, 3);
}

fn clean(scene: &Scene<'_>, flags: &[&str], dirs: &[&str]) -> Haul {
    scene.haul().arg("clean").args(flags).args(dirs)
}

fn here(test: impl Fn(&Scene<'_>) + Sync) {
    each_of(&[Way::Local], |_| {}, test);
}

#[test]
fn what_could_be_continued_stays_unless_all_is_asked_for() {
    here(|scene| {
        interrupted(scene);
        fs::write(scene.path("to").join(STRAY), "lost").expect("a file");
        let run = clean(scene, &[], &["to"]).run().expect_ok();
        let out = run.out();
        assert!(out.contains(&format!("removed to/{STRAY} (")), "{run}");
        assert!(out.contains("kept to/.haul-") && out.contains(" are there"), "{run}");
        assert!(
            out.contains("removed 1 temporary file, ") && out.contains("; kept 1 partial file, "),
            "{run}"
        );
        assert_eq!(scene.list("to").len(), 2);
        // It can still be continued, and what is left then is nothing.
        let run = scene.copy(&["--json"], &["big"], "to").run().expect_ok();
        assert!(!run.out().contains("\"resumed\":0"), "{run}");

        fs::remove_file(scene.path("to/big")).expect("removed");
        interrupt(scene, 3);
        let dry = clean(scene, &["--all", "-n"], &["to"]).run().expect_ok();
        assert!(dry.out().contains("would remove to/.haul-"), "{dry}");
        assert_eq!(scene.list("to").len(), 2);
        let run = clean(scene, &["--all"], &["to"]).run().expect_ok();
        assert!(run.out().contains("removed 1 temporary file, "), "{run}");
        assert_eq!(scene.list("to"), [""; 0]);
        let run = clean(scene, &["--all"], &["to"]).run().expect_ok();
        assert_eq!(run.out(), "removed nothing\n");
    });
}

#[test]
fn what_a_running_copy_writes_is_left_alone() {
    here(|scene| {
        tree::random_file(scene.path("big"), 3 * LEN, 7).expect("a file");
        scene.mkdir("to");
        let running = scene.copy(&[], &["big"], "to").spawn().expect("it starts");
        assert!(running.until(SOON, || !left(scene, ".part").is_empty()));
        let run = clean(scene, &["--all"], &["to"]).run().expect_ok();
        running.wait().expect("waited").expect_ok();
        // It may have been done before; if it was not, it was left.
        assert!(!run.out().contains("removed to/"), "{run}");
        assert_eq!(scene.list("to"), ["big"]);
        assert_eq!(
            fs::read(scene.path("big")).expect("read"),
            fs::read(scene.path("to/big")).expect("read")
        );
    });
}

#[test]
fn directories_below_are_for_recursive_and_links_are_not_followed() {
    here(|scene| {
        for dir in ["to", "to/below/deep", "elsewhere"] {
            scene.mkdir(dir);
            fs::write(scene.path(dir).join(STRAY), "lost").expect("a file");
        }
        scene.symlink("../elsewhere", "to/link");
        scene.symlink("precious", "to/below/.haul-00000000000000aa");
        scene.file("to/below/precious", "x");
        scene.file("to/.haul-notes", "mine");
        clean(scene, &[], &["to"]).run().expect_ok();
        assert!(!scene.exists(format!("to/{STRAY}")));
        assert!(scene.exists(format!("to/below/deep/{STRAY}")));
        // A directory under a private name with something in it is none of ours to judge:
        // it is told.
        scene.file("to/below/.haul-00000000000000bb/x", "x");
        let run = clean(scene, &["-r"], &["to/"]).run().expect_code(1);
        assert!(run.out().contains(&format!("removed to/below/deep/{STRAY} (")), "{run}");
        let staged = "to/below/.haul-00000000000000aa";
        assert!(run.out().contains(&format!("removed {staged} (")), "{run}");
        assert!(scene.path(staged).symlink_metadata().is_err());
        let error = "to/below/.haul-00000000000000bb: ";
        assert_one_error(&run, error, "can't remove it: it is not empty", "");
        assert!(scene.exists(format!("elsewhere/{STRAY}")));
        assert!(scene.exists("to/.haul-notes") && scene.exists("to/below/precious"));
    });
}

#[test]
fn a_link_that_was_in_transit_goes_with_the_next_copy_of_it() {
    everywhere_by_pipe(|scene| {
        scene.mkdir("tree");
        scene.mkdir("to/tree");
        scene.symlink("target", "tree/link");
        // As a process leaves them that is killed before it can rename them.
        scene.symlink("target", format!("to/tree/{STRAY}").as_str());
        scene.symlink("another", "to/tree/.haul-00000000000000aa");
        scene.copy(&["-r"], &["tree"], "to").run().expect_ok();
        let mut left = scene.list("to/tree");
        left.sort();
        assert_eq!(left, [".haul-00000000000000aa", "link"]);
    });
}

#[test]
fn json_reports_what_was_found() {
    here(|scene| {
        interrupted(scene);
        let run = clean(scene, &["--json", "-n", "--all"], &["to"]).run().expect_ok();
        let line = run.out();
        for field in [
            "{\"type\":\"stage\",\"path\":\"to/.haul-",
            &format!("\"size\":{LEN}"),
            "\"there\":",
            "\"outcome\":\"would_remove\"}",
        ] {
            assert!(line.contains(field), "{field} in {line}");
        }
        assert_eq!(line.lines().count(), 1);
    });
}

#[test]
fn what_cannot_be_cleaned_is_said() {
    here(|scene| {
        let run = clean(scene, &[], &["missing"]).run().expect_code(1);
        assert!(run.err().starts_with("haul: missing: no such file or directory"), "{run}");
        let run = clean(scene, &[], &["host:dir"]).run().expect_code(2);
        assert_one_error(
            &run,
            "host:dir: ",
            "haul cleans only local directories",
            "run 'haul clean' on the host, for example with ssh",
        );
        scene.file("file", "x");
        clean(scene, &[], &["file"]).run().expect_code(1);
        clean(scene, &[], &[]).run().expect_code(2);
    });
}

/// A copy that publishes `big` in a way that needs no stage that can be
/// continued leaves none of an earlier one.
fn leaves_nothing(flags: &'static [&'static str], change: impl Fn(&Scene<'_>) + Sync) {
    everywhere_by_pipe(|scene| {
        interrupted(scene);
        change(scene);
        scene.copy(flags, &["big"], "to").run().expect_ok();
        assert_eq!(scene.list("to"), ["big"]);
    });
}

#[test]
fn a_source_that_has_become_small_leaves_no_stage_of_the_large_one() {
    leaves_nothing(&[], |scene| fs::write(scene.path("big"), "small now").expect("written"));
}

#[test]
fn a_changed_source_that_is_not_to_be_resumed_leaves_none() {
    leaves_nothing(&["--no-resume"], |scene| {
        nasty::set_mtime(scene.path("big"), 1_500_000_000, 0).expect("a time");
    });
}

#[test]
fn a_link_in_place_of_the_source_leaves_none() {
    leaves_nothing(&["-P"], |scene| {
        fs::remove_file(scene.path("big")).expect("removed");
        scene.symlink("nowhere", "big");
    });
}

#[test]
fn stages_of_other_names_stay() {
    everywhere_by_pipe(|scene| {
        interrupted(scene);
        scene.file("small", "x");
        scene.copy(&[], &["small"], "to").run().expect_ok();
        assert!(scene.exists("to/small"));
        assert_eq!((left(scene, ".part").len(), journals(scene).len()), (1, 1));
    });
}

#[test]
fn a_tree_with_stages_in_it_is_copied_without_them() {
    everywhere_by_pipe(|scene| {
        scene.file("tree/a", "a");
        scene.file(format!("tree/{STRAY}"), "part of something");
        scene.file("tree/.haul-0123456789ab-0123456789ab.part", "part");
        scene.file("tree/.haul-0123456789ab-0123456789ab.journal", "journal");
        scene.symlink("a", "tree/.haul-fedcba9876543210");
        scene.file("tree/.haul-notes", "mine");
        let run = scene.copy(&["-r"], &["tree"], "to").run().expect_ok();
        assert_eq!(scene.list("to"), [".haul-notes", "a"]);
        assert_eq!(run.err().matches("a temporary file of haul: not copied").count(), 4);
        assert!(run.out().contains("; left out 4"), "{run}");
        // Who names it gets it.
        scene.copy(&[], &[format!("tree/{STRAY}")], "one").run().expect_ok();
        assert_eq!(scene.read("one"), "part of something");
    });
}
