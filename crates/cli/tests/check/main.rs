//! `haul check` as a user sees it: after a copy the same words find nothing,
//! and every kind of difference is found and named.

#[path = "../common/mod.rs"]
mod common;

use common::*;
use haul_testkit::{Compare, Haul, assert_same_with, nasty, tree};
use std::ffi::OsStr;
use std::fs;

/// A check with `flags`, with the words that the copy has.
fn check<S: AsRef<OsStr>>(scene: &Scene<'_>, flags: &[&str], sources: &[S], dest: &str) -> Haul {
    scene.transfer("check", &scene.route(), flags, sources, dest)
}

/// The lines of a check that is expected to find differences.
#[track_caller]
fn found<S: AsRef<OsStr>>(
    scene: &Scene<'_>,
    flags: &[&str],
    sources: &[S],
    dest: &str,
) -> Vec<String> {
    let run = check(scene, flags, sources, dest).run().expect_code(1);
    assert_eq!(run.err(), "", "{run}");
    let out = run.out();
    let (lines, last) = out.trim_end().rsplit_once('\n').expect("differences and a summary");
    assert!(last.contains(" in "), "{last}");
    lines.lines().map(str::to_owned).collect()
}

/// A tree with all kinds of things in it.
fn a_tree(scene: &Scene<'_>) {
    scene.file("tree/a", "aaaa");
    scene.file("tree/b", "bbbb");
    scene.file("tree/empty", "");
    scene.file("tree/dir/deep/c", vec![7; 5 << 20]);
    scene.file("tree/dir/d", vec![8; 600 << 10]);
    scene.file(os(b"tree/odd\xff\n"), "odd");
    scene.mkdir("tree/hollow");
    scene.symlink("a", "tree/link");
    scene.symlink("nowhere", "tree/dangling");
    mode(scene.path("tree/dir"), 0o700);
}

fn copied(scene: &Scene<'_>) {
    a_tree(scene);
    scene.copy(&["-r"], &["tree"], "to/").run().expect_ok();
}

/// A copy, and a check with the same words.
fn copied_and_checked(scene: &Scene<'_>, flags: &[&str], sources: &[&str], dest: &str) {
    scene.copy(flags, sources, dest).run().expect_ok();
    for more in [&[][..], &["--content"]] {
        let flags = [flags, more].concat();
        let run = check(scene, &flags, sources, dest).run().expect_ok();
        assert!(run.out().starts_with("no difference in "), "{run}");
        assert_eq!(run.out().lines().count(), 1, "{run}");
        let run = check(scene, &[&flags[..], &["-q"]].concat(), sources, dest).run();
        assert_eq!(run.expect_ok().out(), "");
    }
}

#[test]
fn after_a_copy_through_ssh_the_same_words_find_no_difference() {
    everywhere(|scene| {
        a_tree(scene);
        scene.file("file", "one");
        copied_and_checked(scene, &["-r"], &["tree", "file"], "there/");
    });
}

#[test]
fn after_a_copy_the_same_words_find_no_difference() {
    everywhere_by_pipe(|scene| {
        a_tree(scene);
        scene.mkdir("there");
        scene.file("file", "one");
        let cases: [(&[&str], &[&str], &str); 6] = [
            (&["-r"], &["tree"], "there"),
            (&["-r"], &["tree"], "made/"),
            (&["-r"], &["tree"], "renamed"),
            (&["-r"], &["tree", "file"], "there/"),
            (&[], &["file"], "other"),
            (&["-r"], &["tree/."], "flat/"),
        ];
        for (flags, sources, dest) in cases {
            copied_and_checked(scene, flags, sources, dest);
        }
        // Links that are followed are compared with what they lead to.
        fs::remove_file(scene.path("tree/dangling")).expect("removed");
        scene.copy(&["-rL"], &["tree"], "followed").run().expect_ok();
        check(scene, &["-rL", "-c"], &["tree"], "followed").run().expect_ok();
        let lines = found(scene, &["-r"], &["tree"], "followed");
        assert_eq!(lines, ["differs   tree/link (kind)"]);
    });
}

#[test]
fn every_kind_of_difference_is_named() {
    everywhere_by_pipe(|scene| {
        copied(scene);
        let at = |name: &str| scene.path(format!("to/tree/{name}"));
        fs::write(at("a"), "longer than before").expect("written");
        nasty::set_mtime(at("b"), 5, 6).expect("a time");
        mode(at("empty"), 0o600);
        mode(scene.path("tree/empty"), 0o644);
        mode(at("dir"), 0o750);
        fs::remove_file(at("link")).expect("removed");
        scene.symlink("elsewhere", "to/tree/link");
        fs::remove_file(at("dangling")).expect("removed");
        fs::create_dir(at("dangling")).expect("made");
        scene.file("to/tree/dangling/in it", "x");
        fs::remove_dir_all(at("dir/deep")).expect("removed");
        fs::remove_file(scene.path(os(b"to/tree/odd\xff\n"))).expect("removed");
        scene.file("to/tree/hollow/extra", "x");
        scene.file("to/tree/more/in it", "x");
        scene.file("to/beside", "is no part of it");
        let before = scene.snapshot("to");
        let lines = found(scene, &["-r"], &["tree"], "to/");
        let mut expected = vec![
            "differs   tree/a (size, time)",
            "differs   tree/b (time)",
            "differs   tree/dangling (kind)",
            "differs   tree/dir/ (mode)",
            "differs   tree/empty (mode)",
            "differs   tree/link (target)",
            "extra     tree/hollow/extra",
            "extra     tree/more/",
            "missing   tree/dir/deep/",
            "missing   tree/dir/deep/c",
            "missing   tree/odd\\xff\\n",
        ];
        let mut lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        lines.sort_unstable();
        expected.sort_unstable();
        assert_eq!(lines, expected);
        // All of what is missing is told where it is asked for.
        let lines = found(scene, &["-rv"], &["tree"], "to/");
        assert!(lines.contains(&"missing   tree/dir/deep/c".to_owned()), "{lines:?}");
        assert!(lines.contains(&"same      tree/dir/d".to_owned()), "{lines:?}");
        let lines = found(scene, &["-r", "--content"], &["tree"], "to/");
        assert_eq!(lines.len(), expected.len());
        assert_same_with(&before, &scene.snapshot("to"), Compare::everything());
    });
}

#[test]
fn contents_are_compared_only_when_that_is_asked_for() {
    everywhere_by_pipe(|scene| {
        copied(scene);
        // One byte, with size and time as they were; one behind the first block.
        for (name, at) in [("dir/deep/c", 4 << 20), ("a", 2), ("dir/d", 0)] {
            let path = scene.path(format!("to/tree/{name}"));
            let stat = fs::metadata(&path).expect("it is there");
            let mut content = fs::read(&path).expect("read");
            content[at] ^= 1;
            fs::write(&path, content).expect("written");
            let mtime = stat.modified().expect("a time");
            fs::File::options()
                .write(true)
                .open(&path)
                .expect("opened")
                .set_modified(mtime)
                .expect("set");
        }
        check(scene, &["-r"], &["tree"], "to/").run().expect_ok();
        let mut lines = found(scene, &["-r", "--content"], &["tree"], "to/");
        lines.sort_unstable();
        let expected =
            ["a", "dir/d", "dir/deep/c"].map(|name| format!("differs   tree/{name} (content)"));
        assert_eq!(lines, expected);
    });
}

#[test]
fn many_files_are_compared_by_content_without_sending_it() {
    everywhere_by_pipe(|scene| {
        for n in 0..700 {
            scene.file(format!("tree/{:02}/{n}", n % 9), vec![n as u8; 3000 + n]);
        }
        tree::random_file(scene.path("tree/large"), 9 << 20, 3).expect("a file");
        scene.copy(&["-r"], &["tree"], "to").run().expect_ok();
        let run = check(scene, &["-rc", "--json"], &["tree"], "to").run().expect_ok();
        let last = run.out().lines().last().expect("a summary").to_owned();
        assert!(last.contains("\"same\":701,\"different\":0,\"missing\":0,\"extra\":0"), "{last}");
    });
}

#[test]
fn what_cannot_be_compared_is_an_error_and_no_extra() {
    everywhere_as_nobody(|scene| {
        a_tree(scene);
        scene.give_to_nobody("");
        scene.copy(&["-r"], &["tree"], "to").run().expect_ok();
        mode(scene.path("tree/a"), 0o000);
        mode(scene.path("to/b"), 0o000);
        mode(scene.path("tree/dir"), 0o000);
        let run = check(scene, &["-rc"], &["tree"], "to").run().expect_code(1);
        let errors = errors(&run);
        assert_eq!(errors.len(), 3, "{run}");
        // SFTP opens a directory to read it.
        let dir = if scene.way == Way::SftpDownload { "read" } else { "open" };
        for (path, cause) in [("tree/a", "open"), ("b", "open"), ("tree/dir", dir)] {
            let told = errors.iter().any(|e| is_about(e, &format!("{path}: can't {cause}")));
            assert!(told, "{path}: {run}");
        }
        assert!(!run.out().contains("extra"), "{run}");
    });
}

#[test]
fn haul_s_own_files_and_special_ones_are_no_differences() {
    everywhere_by_pipe(|scene| {
        copied(scene);
        run(std::process::Command::new("mkfifo").arg(scene.path("tree/pipe")));
        scene.file("tree/.haul-0123456789abcdef", "left");
        scene.file("to/tree/.haul-0123456789abcdee", "left");
        let run = check(scene, &["-r"], &["tree"], "to/").run().expect_ok();
        assert!(run.out().contains("; left out 2"), "{run}");
        assert_eq!(run.err().matches("haul: warning: ").count(), 2, "{run}");
    });
}

#[test]
fn json_reports_each_difference() {
    everywhere_by_pipe(|scene| {
        copied(scene);
        fs::write(scene.path("to/tree/a"), "x").expect("written");
        scene.file("to/tree/more", "x");
        let run = check(scene, &["-r", "--json"], &["tree"], "to/").run().expect_code(1);
        let out = run.out();
        for line in [
            "{\"type\":\"start\",",
            "{\"type\":\"difference\",\"path\":\"tree/a\",\"kind\":\"file\",\"size\":4,\"differs\":[\"size\",\"time\"]}",
            "{\"type\":\"difference\",\"path\":\"tree/more\",\"kind\":\"file\",\"size\":1,\"differs\":[\"extra\"]}",
            "{\"type\":\"check_summary\",",
        ] {
            assert!(out.contains(line), "{line} in {out}");
        }
        assert!(out.contains("\"different\":1,\"missing\":0,\"extra\":1"), "{out}");
    });
}

#[test]
fn what_is_not_there_at_all() {
    everywhere(|scene| {
        scene.file("file", "x");
        assert_eq!(found(scene, &[], &["file"], "gone"), ["missing   file"]);
        scene.file("tree/a", "x");
        let all = ["missing   tree/", "missing   tree/a"];
        assert_eq!(found(scene, &["-r"], &["tree"], "gone/"), all);
        assert_eq!(found(scene, &["-r"], &["tree/."], "gone/"), ["missing   ./", "missing   a"]);
        assert!(!scene.exists("gone"), "it was made");
        assert_eq!(found(scene, &["-r"], &["tree"], "gone/deeper/"), all);
        (0..30).for_each(|n| drop(scene.file(format!("tree/{n}"), "x")));
        let lines = found(scene, &["-r"], &["tree"], "gone/");
        assert_eq!(lines.len(), 20 + 1, "{lines:?}");
        assert_eq!(lines[20], "and 12 more; -v lists all");
        assert_eq!(found(scene, &["-rv"], &["tree"], "gone/").len(), 1 + 31);
        check(scene, &["-r"], &["tree"], "gone/deeper").run().expect_code(4);
        let run = check(scene, &[], &["lost"], "file").run().expect_code(1);
        assert!(run.err().contains("no such file or directory"), "{run}");
        let run = check(scene, &[], &["tree"], "file").run().expect_code(1);
        assert!(run.err().contains("use -r"), "{run}");
    });
}

#[test]
fn words_that_mean_nothing_are_refused() {
    let world = World::new();
    let scene = world.scene(Way::Local);
    scene.file("a", "x");
    let run = scene.haul().args(["check", "-r", "a", ".", "to"]).run().expect_code(2);
    assert_one_error(&run, ".: it has no name of its own", "all of to", "alone");
    scene.haul().args(["check", "a"]).run().expect_code(2);
}

#[test]
fn an_empty_copy_of_a_file_that_shows_no_size_is_not_the_same() {
    const SOURCE: &str = "/proc/version";
    let Ok(source) = fs::metadata(SOURCE) else { return };
    each_way_by_pipe(|scene| {
        let copy = scene.file("to/version", "");
        mode(&copy, 0o444);
        let file = fs::File::open(&copy).expect("opened");
        file.set_modified(source.modified().expect("a time")).expect("set");
        check(scene, &[], &[SOURCE], "to/").run().expect_ok();
        check(scene, &["--content"], &[SOURCE], "to/").run().expect_code(1);
    });
}
