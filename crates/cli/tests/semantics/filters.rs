//! Entries that are left out, by patterns with the meaning that they have in rsync.

use crate::common::*;
use haul_testkit::content::Stream;
use std::fs;
use std::process::Command;

fn sources(scene: &Scene<'_>) {
    for name in ["a.c", "a.o", "sub/b.c", "sub/b.o", "cache/x", "sub/cache/y", "sub/z/cache"] {
        scene.file(format!("tree/{name}"), name);
    }
    scene.symlink("nowhere", "tree/link.o");
    scene.file("one.o", "1");
    scene.file("two.c", "2");
}

#[test]
fn what_patterns_match_is_left_out() {
    everywhere_by_pipe(|scene| {
        sources(scene);
        let flags = &["-r", "--exclude", "*.o", "--exclude", "cache/"];
        let run = scene.copy(flags, &["tree", "one.o", "two.c"], "there/").run().expect_ok();
        let there = [
            "tree",
            "tree/a.c",
            "tree/sub",
            "tree/sub/b.c",
            "tree/sub/z",
            "tree/sub/z/cache",
            "two.c",
        ];
        assert_eq!(scene.list("there"), there);
        assert!(run.out().contains("copied 4 files"), "{run}");
        // What was left out and is there is no extra.
        scene.file("there/tree/more.o", "own");
        scene.file("there/tree/cache/more", "own");
        let route = scene.route();
        let check = |flags: &[&str]| {
            scene.transfer("check", &route, flags, &["tree", "one.o", "two.c"], "there/").run()
        };
        check(flags).expect_ok();
        let run = check(&["-r"]).expect_code(1);
        assert!(run.out().contains("missing"), "{run}");
        assert!(run.out().contains("more.o"), "{run}");
        // What is there stays, and what is a directory is what a slash is for.
        scene.copy(&["-r", "--exclude=cache"], &["tree"], "there/").run().expect_ok();
        assert_eq!(scene.read("there/tree/more.o"), "own");
        assert!(!scene.list("there").contains(&"tree/cache/x".to_owned()));
    });
}

#[test]
fn the_first_pattern_that_matches_decides() {
    everywhere_by_pipe(|scene| {
        sources(scene);
        let list = scene.file("list", "; a comment\n# another\n\n+ *.c\n- *\n");
        let only_c = format!("--exclude-from={}", list.display());
        let copy = |flags: &[&str], dest| scene.copy(flags, &["tree/."], dest).run().expect_ok();
        copy(&["-r", "--exclude", "z", "--include", "*/", &only_c], "only-c/");
        assert_eq!(scene.list("only-c"), ["a.c", "cache", "sub", "sub/b.c", "sub/cache"]);
        // Lines end as they do on any system.
        for (dest, lines) in
            [("dos/", "; x\r\n\r\n+ *.c\r\n- *\r\n"), ("old/", "# x\r+ *.c\r- *\r")]
        {
            let list = scene.file(format!("of-{dest}list"), lines);
            copy(&["-r", "--include-from", &list.display().to_string()], dest);
            assert_eq!(scene.list(dest), ["a.c"], "{dest}");
        }
        copy(&["-r", &only_c, "--include", "*/"], "top/");
        assert_eq!(scene.list("top"), ["a.c"]);
        copy(&["-r", "--exclude", "*", "--exclude=!", "--exclude", "/sub"], "cleared/");
        assert_eq!(scene.list("cleared"), ["a.c", "a.o", "cache", "cache/x", "link.o"]);
    });
}

#[test]
fn sources_of_one_name_that_are_left_out_are_in_nobodys_way() {
    everywhere_by_pipe(|scene| {
        for name in ["one/x", "one/y", "two/x", "two/z"] {
            scene.file(name, name);
        }
        let all = ["one/x", "one/y", "two/x", "two/z"];
        scene.mkdir("there");
        scene.copy(&["-r", "--exclude", "x"], &all, "there/").run().expect_ok();
        assert_eq!(scene.list("there"), ["y", "z"]);
        // It is for what is a directory, and these are none.
        let run = scene.copy(&["-r", "--exclude", "x/"], &all, "there/").run().expect_code(2);
        assert!(run.err().contains("have the same destination: x"), "{run}");
    });
}

#[test]
fn nothing_of_a_directory_that_is_left_out_is_looked_at() {
    everywhere_as_nobody(|scene| {
        scene.file("tree/open", "1");
        scene.file("tree/closed/secret", "2");
        scene.give_to_nobody("");
        mode(scene.path("tree/closed"), 0);
        let run = scene.copy(&["-r"], &["tree"], "with/").run().expect_code(1);
        assert!(run.err().contains("closed"), "{run}");
        scene.copy(&["-r", "--exclude", "closed"], &["tree"], "there/").run().expect_ok();
        assert_eq!(scene.list("there"), ["tree", "tree/open"]);
    });
}

#[test]
fn a_place_is_not_taken_by_what_an_earlier_source_leaves_out() {
    each_way_by_pipe(|scene| {
        scene.file("one/x/in", "1");
        scene.file("one/y", "1");
        scene.file("two/x", "2");
        scene.file("two/y", "2");
        let run = scene.copy(&["-r", "--exclude", "x/"], &["one/.", "two/."], "there/").run();
        run.expect_code(1);
        assert_eq!(scene.list("there"), ["x", "y"]);
        assert_eq!((scene.read("there/x"), scene.read("there/y")), ("2".into(), "1".into()));
    });
}

/// Rules at random, over a tree of all short paths, against rsync.
#[test]
fn patterns_leave_out_what_rsync_leaves_out() {
    let world = World::new();
    let scene = world.scene(Way::Local);
    for dir in ["", "a/", "b/", "ab/", "a/a/", "a/b/", "a/ab/", "b/a/b/"] {
        for name in ["a.o", "b", "ab.c", "-", "*", "a\\b"] {
            scene.file(format!("tree/{dir}x{name}"), "x");
            if name == "ab.c" {
                scene.file(format!("tree/{dir}{name}"), "x");
            }
        }
    }
    let parts =
        ["a", "b", "x", "*", "**", "***", "?", "/", "/", ".o", ".c", "[ab]", "[!a]", "\\", "-"];
    let mut numbers = Stream::new(20_261);
    for round in 0..60 {
        let mut words = Vec::new();
        for _ in 0..1 + numbers.below(4) {
            let len = 1 + numbers.below(5);
            let part = |numbers: &mut Stream| parts[numbers.below(parts.len() as u64) as usize];
            let pattern: String = (0..len).map(|_| part(&mut numbers)).collect();
            let word = ["--exclude", "--include", "--exclude"][numbers.below(3) as usize];
            words.push(format!("{word}={pattern}"));
        }
        let (by_haul, by_rsync) = (format!("haul-{round}/"), format!("rsync-{round}/"));
        scene.mkdir(&by_rsync);
        let mut rsync = Command::new("rsync");
        rsync.arg("-r").args(&words).arg(scene.path("tree/")).arg(scene.path(&by_rsync));
        run(&mut rsync);
        let mut flags = vec!["-r"];
        flags.extend(words.iter().map(String::as_str));
        scene.copy(&flags, &["tree/."], &by_haul).run().expect_ok();
        assert_eq!(scene.list(&by_haul), scene.list(&by_rsync), "{words:?}");
        for name in [by_haul, by_rsync] {
            fs::remove_dir_all(scene.path(name)).expect("removed");
        }
    }
}
