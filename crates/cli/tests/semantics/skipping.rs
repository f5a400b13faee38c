//! Entries that are left as they are, and the same command, run again.

use crate::common::*;
use haul_testkit::{assert_same, assert_same_with, nasty, tree};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

#[test]
fn the_same_command_again_copies_nothing_and_finishes_what_was_left() {
    everywhere_by_pipe(|scene| {
        tree::many(scene.path("tree"), 40, 3000, 4, 1).expect("a tree");
        scene.symlink("dir-000", "tree/link");
        let source = scene.snapshot("tree");
        let copy = || scene.copy(&["-r"], &["tree"], "there/").run().expect_ok();
        copy();
        assert_same_with(&source, &scene.snapshot("there/tree"), scene.rules());
        assert!(copy().out().starts_with("copied nothing in "));

        fs::remove_file(scene.path("there/tree/dir-000/file-00000")).expect("removed");
        fs::remove_dir_all(scene.path("there/tree/dir-001")).expect("removed");
        fs::remove_file(scene.path("there/tree/link")).expect("removed");
        fs::write(scene.path("there/tree/dir-002/file-00002"), "shorter").expect("written");
        let touched = scene.path("there/tree/dir-003/file-00003");
        nasty::set_mtime(&touched, 1_600_000_000, 1).expect("a time");
        let run = copy();
        // 1 + 10 + 1 + 1 files, and a link.
        assert!(run.out().starts_with("copied 14 files, "), "{run}");
        assert!(run.out().ends_with("; skipped 27\n"), "{run}");
        assert_same_with(&source, &scene.snapshot("there/tree"), scene.rules());
    });
}

/// The times of the last change of `path` and all below it: nobody can set them.
fn ctimes(path: &Path) -> BTreeMap<PathBuf, (i64, i64)> {
    let meta = fs::symlink_metadata(path).expect("it is there");
    let mut found = BTreeMap::from([(path.into(), (meta.ctime(), meta.ctime_nsec()))]);
    if meta.is_dir() {
        for entry in fs::read_dir(path).expect("readable") {
            found.extend(ctimes(&entry.expect("an entry").path()));
        }
    }
    found
}

#[test]
fn nothing_is_written_to_what_is_unchanged() {
    everywhere_by_pipe(|scene| {
        for name in ["tree/a", "tree/sub/b", "tree/sub/deep/c", "tree/other/d", "tree/other/e"] {
            scene.file(name, name);
        }
        scene.symlink("a", "tree/sub/link");
        scene.mkdir("tree/empty");
        mode(scene.path("tree/a"), 0o4751);
        mode(scene.path("tree/empty"), 0o1711);
        mode(scene.path("tree/sub/deep"), 0o555);
        let copy = || scene.copy(&["-r"], &["tree"], "there/").run().expect_ok();
        copy();
        let there = scene.path("there");
        let first = ctimes(&there);
        copy();
        assert_eq!(ctimes(&there), first);

        // A file that is another one changes itself and its directory, and none else.
        scene.file("tree/other/d", "changed");
        copy();
        let mut second = ctimes(&there);
        for changed in ["tree/other", "tree/other/d"] {
            let path = there.join(changed);
            assert_ne!(second.insert(path.clone(), first[&path]), Some(first[&path]), "{changed}");
        }
        assert_eq!(second, first);

        // One that has another mode changes nothing but itself.
        mode(scene.path("tree/other/e"), 0o600);
        let before = ctimes(&there);
        copy();
        let mut third = ctimes(&there);
        let path = there.join("tree/other/e");
        assert_ne!(third.insert(path.clone(), before[&path]), Some(before[&path]));
        assert_eq!(third, before);
    });
}

#[test]
fn a_nanosecond_makes_a_file_another_one() {
    everywhere_by_pipe(|scene| {
        let (a, b) = (scene.file("a", "new"), scene.file("b", "old"));
        nasty::set_mtime(&a, 1_600_000_000, 5).expect("a time");
        nasty::set_mtime(&b, 1_600_000_000, 5).expect("a time");
        scene.copy(&[], &["a"], "b").run().expect_ok();
        assert_eq!(scene.read("b"), "old", "the same size and time");
        nasty::set_mtime(&b, 1_600_000_000, 4).expect("a time");
        scene.copy(&[], &["a"], "b").run().expect_ok();
        assert_eq!(scene.read("b"), "new");
    });
}

#[test]
fn a_file_whose_content_is_left_gets_the_rights_of_the_source() {
    everywhere_by_pipe(|scene| {
        for (name, rights) in [("a", 0o600), ("b", 0o644)] {
            let (source, there) = (format!("tree/{name}"), format!("there/tree/{name}"));
            for file in [scene.file(&source, "x"), scene.file(&there, "x")] {
                nasty::set_mtime(file, 100, 0).expect("a time");
            }
            mode(scene.path(source), rights);
        }
        let read_only = scene.path("there/tree/b");
        mode(&read_only, 0o444);
        // Two times in one second are the same to a server that tells seconds alone.
        for (directory, second) in [("tree", 200), ("there/tree", 300)] {
            nasty::set_mtime(scene.path(directory), second, 0).expect("a time");
        }
        let before = scene.snapshot("");
        scene.copy(&["-rn"], &["tree"], "there").run().expect_ok();
        assert_same(&before, &scene.snapshot(""));
        let run = scene.copy(&["-r"], &["tree"], "there").run().expect_ok();
        assert!(run.out().ends_with("; updated 3\n"), "{run}");
        assert_same(&scene.snapshot("tree"), &scene.snapshot("there/tree"));
        // What is to be kept is kept as it is.
        mode(&read_only, 0o444);
        scene.copy(&["-r", "--no-clobber"], &["tree"], "there").run().expect_ok();
        assert_eq!(mode_of(&read_only), 0o444);
    });
}

#[test]
fn attributes_that_are_set_are_reported_and_counted() {
    everywhere_by_pipe(|scene| {
        scene.file("tree/file", "content");
        scene.file("tree/dir/other", "content");
        let copy = |flags: &[&str]| scene.copy(flags, &["tree"], "there/").run().expect_ok();
        copy(&["-r"]);
        mode(scene.path("tree/file"), 0o640);
        mode(scene.path("tree/dir"), 0o750);
        nasty::set_mtime(scene.path("tree"), 1_500_000_000, 0).expect("set");
        let lines = |out: &str| {
            let mut lines: Vec<_> = out.lines().map(str::to_owned).collect();
            lines.sort_unstable();
            lines
        };
        let would = lines(&copy(&["-rn"]).out());
        assert_eq!(
            would,
            [
                "would copy nothing; would update 3; skipped 1",
                "would update tree/ (time)",
                "would update tree/dir/ (mode)",
                "would update tree/file (mode)",
            ]
        );
        assert_ne!(mode_of(scene.path("there/tree/file")), 0o640);
        let out = copy(&["-r", "--json"]).out();
        let told = |path: &str, word: &str| {
            let ends = format!("\"outcome\":\"updated\",\"differed\":[\"{word}\"]}}");
            let path = format!("\"path\":\"{path}\"");
            out.lines().filter(|line| line.contains(&path) && line.ends_with(&ends)).count()
        };
        assert_eq!(
            [told("tree", "time"), told("tree/dir", "mode"), told("tree/file", "mode")],
            [1; 3]
        );
        assert!(out.contains("\"updated\":3,"), "{out}");
        assert_eq!(mode_of(scene.path("there/tree/file")), 0o640);
        let again = copy(&["-r"]).out();
        assert!(again.ends_with("; skipped 2\n") && !again.contains("updated"), "{again}");
    });
}

#[test]
fn a_dry_run_reports_everything_and_changes_nothing() {
    everywhere(|scene| {
        scene.file("tree/sub/new", "new");
        scene.file("tree/changed", "changed");
        scene.symlink("new", "tree/link");
        let same = scene.file("tree/same", "same");
        nasty::set_mtime(same, 100, 0).expect("a time");
        scene.file("there/tree/changed", "as it was");
        let same = scene.file("there/tree/same", "same");
        nasty::set_mtime(same, 100, 0).expect("a time");
        mode(scene.path("there/tree"), 0o500);
        let before = scene.snapshot("");
        let dry = |dest| scene.copy(&["-rn"], &["tree"], dest).run().expect_ok();

        let run = dry("there");
        let mut lines: Vec<String> = run.out().lines().map(str::to_owned).collect();
        let summary = lines.pop().expect("a summary");
        // Whether its time differs, too, a server with whole seconds can't tell.
        lines.retain(|line| !line.starts_with("would update tree/ ("));
        lines.sort();
        assert_eq!(
            lines,
            [
                "would copy tree/changed",
                "would copy tree/link",
                "would copy tree/sub/",
                "would copy tree/sub/new"
            ]
        );
        assert_eq!(summary, "would copy 3 files, 10 B; would update 1; skipped 1");
        assert_eq!(run.err(), "");
        for dest in ["new", "new/"] {
            let run = dry(dest);
            assert!(run.out().ends_with("would copy 4 files, 14 B\n"), "{run}");
        }
        assert_same(&before, &scene.snapshot(""));
    });
}

#[test]
fn a_dry_run_finds_what_would_fail() {
    everywhere_by_pipe(|scene| {
        scene.file("tree/dir/x", "x");
        scene.file("tree/file", "x");
        scene.file("there/tree/dir", "a file");
        scene.file("there/tree/file/x", "in a directory");
        let before = scene.snapshot("");
        let run = scene.copy(&["-rn"], &["tree"], "there").run().expect_code(1);
        assert_eq!(errors(&run).len(), 2, "{run}");
        assert_same(&before, &scene.snapshot(""));
    });
}

#[test]
fn a_tree_is_merged_into_one_that_is_there() {
    everywhere_by_pipe(|scene| {
        scene.file("tree/both/new", "new");
        scene.file("there/tree/both/old", "old");
        scene.file("there/tree/only/old", "old");
        mode(scene.path("tree/both"), 0o711);
        scene.copy(&["-r"], &["tree"], "there").run().expect_ok();
        assert_eq!(scene.list("there/tree"), ["both", "both/new", "both/old", "only", "only/old"]);
        // Directories of the tree get its modes and times, the others stay.
        let (source, copy) = (scene.snapshot("tree/both"), scene.snapshot("there/tree/both"));
        let root = |tree: &haul_testkit::Snapshot| {
            let root = tree.get("").expect("a root");
            // Through SFTP times are whole seconds.
            let unit_ns = if scene.is_sftp() { 1_000_000_000 } else { 1 };
            (root.mode, root.mtime_ns.div_euclid(unit_ns))
        };
        assert_eq!(root(&source), root(&copy));
        fs::remove_file(scene.path("there/tree/both/old")).expect("removed");
        let rules = scene.rules().ignoring_root();
        assert_same_with(&source, &scene.snapshot("there/tree/both"), rules);
    });
}

#[test]
fn holes_of_a_large_file_cost_no_time() {
    let world = World::new();
    let scene = world.scene(Way::Local);
    let file = std::fs::File::create(scene.path("holes")).expect("a file");
    file.set_len(1 << 40).expect("a length");
    std::os::unix::fs::FileExt::write_all_at(&file, b"data", 1 << 39).expect("written");
    scene.copy(&[], &["holes"], "copy").limit(std::time::Duration::from_secs(20)).run().expect_ok();
    let copy = std::fs::metadata(scene.path("copy")).expect("a copy");
    assert_eq!(copy.len(), 1 << 40);
    assert!(std::os::unix::fs::MetadataExt::blocks(&copy) * 512 < 1 << 20, "{copy:?}");
}
