//! Hard links.

use crate::common::*;
use crate::oracle::Pair;
use haul_testkit::proc::Signal;
use haul_testkit::{duplicate, nasty};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Command;
use std::time::Duration;

fn link(scene: &Scene<'_>, first: &str, name: &str) {
    fs::create_dir_all(scene.path(name).parent().expect("below a root")).expect("directories");
    fs::hard_link(scene.path(first), scene.path(name)).expect("linked");
}

/// Puts a copy of `from` in the place of the name `to`.
fn copied(scene: &Scene<'_>, from: &str, to: &str) {
    fs::remove_file(scene.path(to)).expect("removed");
    duplicate(scene.path(from), scene.path(to)).expect("a copy");
}

/// The names of each object in `tree` that has several there.
fn groups(scene: &Scene<'_>, tree: &str) -> Vec<Vec<String>> {
    let mut groups: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for name in scene.list(tree) {
        let path = scene.path(tree).join(&name);
        let metadata = fs::symlink_metadata(path).expect("it is there");
        if !metadata.is_dir() {
            groups.entry(metadata.ino()).or_default().push(name);
        }
    }
    let mut groups: Vec<_> = groups.into_values().filter(|names| names.len() > 1).collect();
    groups.sort();
    groups
}

/// Files, links and a FIFO of several names in `src`.
fn linked(scene: &Scene<'_>) {
    scene.clear(&["src", "dst", "new"]);
    scene.file("src/a", "the content");
    scene.file("src/alone", "alone");
    scene.file("src/m", "another");
    scene.file("src/empty", "");
    scene.file("src/large", vec![b'x'; 3 << 20]);
    scene.symlink("a", "src/link");
    run(Command::new("mkfifo").arg(scene.path("src/fifo")));
    for (first, name) in [
        ("a", "b"),
        ("a", "d/c"),
        ("a", "d/e/f"),
        ("m", "z/n"),
        ("empty", "z/empty"),
        ("large", "z/large"),
        ("link", "z/link"),
        ("fifo", "z/fifo"),
    ] {
        link(scene, &format!("src/{first}"), &format!("src/{name}"));
    }
}

#[test]
fn names_of_one_file_become_names_of_one_file() {
    each_way_by_pipe(|scene| {
        linked(scene);
        let pair = Pair::of(scene);
        pair.run(&["-aH"], &["src/"], "dst");
        assert_eq!(groups(scene, "dst"), groups(scene, "src"));
        assert_eq!(groups(scene, "oracle/dst"), groups(scene, "src"));
        pair.settles(&["-aHi", "--delete"], &["src/"], "dst");
        pair.run(&["-aHii"], &["src/"], "dst");
        assert_no_strays(&scene.path("dst"));
        let plain = pair.run(&["-ai"], &["src/"], "new");
        assert!(groups(scene, "new").is_empty(), "{plain}");
    });
}

#[test]
fn what_is_linked_otherwise_is_linked_as_in_the_source() {
    each_way_by_pipe(|scene| {
        let changes: [(&str, &dyn Fn()); 8] = [
            ("a name is missing", &|| {
                fs::remove_file(scene.path("dst/d/c")).expect("removed");
                fs::remove_file(scene.path("dst/z/link")).expect("removed");
            }),
            ("a name has another file", &|| {
                fs::remove_file(scene.path("dst/b")).expect("removed");
                scene.file("dst/b", "something else");
            }),
            ("a name has a copy", &|| {
                copied(scene, "dst/a", "dst/d/c");
            }),
            ("the destination has a directory with this name", &|| {
                fs::remove_file(scene.path("dst/d/c")).expect("removed");
                scene.mkdir("dst/d/c");
            }),
            ("the content has changed", &|| {
                scene.file("src/a", "the new content");
            }),
            ("the mode has changed", &|| mode(scene.path("src/a"), 0o600)),
            ("a name is gone", &|| fs::remove_file(scene.path("src/b")).expect("removed")),
            ("a name is another file's", &|| {
                fs::remove_file(scene.path("src/d/c")).expect("removed");
                link(scene, "src/m", "src/d/c");
            }),
        ];
        for (what, change) in scene.share(changes) {
            linked(scene);
            Pair::of(scene).run(&["-aH"], &["src/"], "dst");
            change();
            for dir in ["src", "src/d"] {
                nasty::set_mtime(scene.path(dir), 1_500_000_000, 0).expect("a time");
            }
            let pair = Pair::with_times(scene);
            // Of a directory in the way rsync tells as of a file. In a dry run it does not see
            // what it would have done to a file by its first name.
            if !["directory", "content", "mode"].iter().any(|word| what.contains(word)) {
                pair.run(&["-aHin", "--delete"], &["src/"], "dst");
            }
            let flags = if what.contains("directory") { "-aH" } else { "-aHi" };
            let first = pair.run(&[flags, "--delete"], &["src/"], "dst");
            assert_eq!(groups(scene, "dst"), groups(scene, "src"), "{what}: {first}");
            assert_eq!(pair.owners("dst"), pair.owners("oracle/dst"), "{what}");
            pair.settles(&["-aHi", "--delete"], &["src/"], "dst");
        }
    });
}

#[test]
fn a_further_name_is_reported_with_that_to_which_it_is_linked() {
    each_way_by_pipe(|scene| {
        linked(scene);
        let route = scene.route();
        let sync = |flags: &[&str]| scene.transfer("sync", &route, flags, &["src/"], "dst").run();
        let dry = sync(&["-aHin"]).expect_ok();
        let run = sync(&["-aHi"]).expect_ok();
        for run in [&dry, &run] {
            for line in ["b => a", "d/c => a", "d/e/f => a", "z/n => m", "z/empty => empty"] {
                assert!(run.out().contains(&format!("\nhf+++++++++ {line}\n")), "{line}: {run}");
            }
            assert!(run.out().contains("hL+++++++++ z/link => link\n"), "{run}");
            assert!(run.out().contains("hS+++++++++ z/fifo => fifo\n"), "{run}");
        }
    });
}

#[test]
fn what_a_further_name_led_to_before_is_not_reported() {
    each_way_by_pipe(|scene| {
        scene.file("src/a", "new");
        scene.symlink("here", "src/x");
        scene.mkdir("dst");
        sh(scene, "cp -a src/. dst; ln src/a src/b; ln -P src/x src/y");
        scene.file("dst/b", "old");
        scene.symlink("there", "dst/y");
        sh(scene, "touch -h -d @1500000000 src/* src dst/* dst");
        let run = Pair::with_times(scene).run(&["-aHic"], &["src/"], "dst");
        assert!(run.out().contains("hf          b => a\n"), "{run}");
    });
}

#[test]
fn a_copy_keeps_hard_links_where_that_is_asked_for() {
    each_way_by_pipe(|scene| {
        linked(scene);
        scene.copy(&["-r"], &["src/."], "new/").run().expect_ok();
        assert!(groups(scene, "new").is_empty());
        let run = scene.copy(&["-a", "-v"], &["src/."], "dst/").run().expect_ok();
        assert!(run.out().contains("linked d/c (the same file as a)\n"), "{run}");
        assert_eq!(groups(scene, "dst"), groups(scene, "src"));
        let again = scene.copy(&["-a"], &["src/."], "dst/").run().expect_ok();
        assert!(again.out().starts_with("copied nothing"), "{again}");
        let route = scene.route();
        let check = || scene.transfer("check", &route, &["-a"], &["src/."], "dst").run();
        check().expect_ok();
        copied(scene, "dst/a", "dst/d/c");
        let found = check().expect_code(1);
        assert!(found.out().contains("hard link"), "{found}");
        scene.copy(&["-rH"], &["src/."], "dst/").run().expect_ok();
        assert_eq!(groups(scene, "dst"), groups(scene, "src"));
    });
}

#[test]
fn a_server_that_can_link_is_asked_to() {
    each_of(
        &[Way::SftpUpload],
        |scene| scene.reach_by_pipe(),
        |scene| {
            linked(scene);
            fs::remove_file(scene.path("src/fifo")).expect("removed");
            fs::remove_file(scene.path("src/z/fifo")).expect("removed");
            let route = scene.route();
            let sync =
                |flags: &[&str]| scene.transfer("sync", &route, flags, &["src/"], "dst").run();
            let first = sync(&["-rltHi"]).expect_ok();
            assert!(first.out().contains("hf+++++++++ d/e/f => a\n"), "{first}");
            assert_eq!(groups(scene, "dst"), groups(scene, "src"), "{first}");
            let second = sync(&["-rltHi"]).expect_ok();
            assert_eq!((second.out(), second.err()), (String::new(), String::new()));
            scene.file("src/a", "the new content");
            fs::remove_file(scene.path("dst/z/n")).expect("removed");
            let third = sync(&["-rltHi"]).expect_ok();
            assert_eq!(groups(scene, "dst"), groups(scene, "src"), "{third}");
            assert_eq!(scene.read("dst/d/e/f"), "the new content");
            assert_no_strays(&scene.path("dst"));
        },
    );
}

#[test]
fn where_no_hard_links_are_reported_that_is_a_warning() {
    each_of(
        &[Way::SftpDownload],
        |scene| scene.reach_by_pipe(),
        |scene| {
            scene.file("src/a", "a");
            link(scene, "src/a", "src/b");
            let route = scene.route();
            let run =
                scene.transfer("sync", &route, &["-rltH"], &["src/"], "dst").run().expect_ok();
            assert!(
                run.err().contains(
                    "hard links can't be preserved there: copying each name as a separate file"
                ),
                "{run}"
            );
            assert!(groups(scene, "dst").is_empty());
        },
    );
}

#[test]
fn what_waits_for_a_name_that_fails_fails_with_it() {
    everywhere_as_nobody(|scene| {
        if scene.is_sftp() {
            return;
        }
        scene.file("src/a", vec![b'x'; 1 << 20]);
        for name in ["src/b", "src/d/c", "src/d/e"] {
            link(scene, "src/a", name);
        }
        scene.file("src/z", "z");
        scene.mkdir("dst");
        scene.give_to_nobody("");
        mode(scene.path("src/a"), 0);
        let route = scene.route();
        let run = scene.transfer("sync", &route, &["-aHi"], &["src/"], "dst").run();
        let run = run.expect_code(23);
        assert_eq!(errors(&run).len(), 4, "{run}");
        assert_eq!(scene.list("dst"), ["d", "z"]);
        mode(scene.path("src/a"), 0o600);
        let run = scene.transfer("sync", &route, &["-aHi"], &["src/"], "dst").run();
        assert_eq!(groups(scene, "dst"), groups(scene, "src"), "{run}");
    });
}

#[test]
fn names_of_one_file_that_wait_are_linked_whatever_a_base_has_of_it() {
    each_way_by_pipe(|scene| {
        for base in ["--link-dest=../prev", "--copy-dest=../prev"] {
            scene.clear(&["src", "prev", "dst"]);
            scene.file("src/a", "one file");
            scene.file("src/m", "another");
            for (first, name) in [("a", "b"), ("a", "d/c"), ("m", "d/n")] {
                link(scene, &format!("src/{first}"), &format!("src/{name}"));
            }
            Pair::of(scene).run(&["-aH"], &["src/"], "prev");
            mode(scene.path("src/a"), 0o600);
            let pair = Pair::with_times(scene);
            let flags = ["-aH", "--delay-updates", base];
            let run = pair.run(&flags, &["src/"], "dst");
            assert_eq!(groups(scene, "dst"), groups(scene, "src"), "{base}: {run}");
        }
    });
}

#[test]
fn a_dry_run_links_what_a_base_has_in_a_directory_that_is_missing() {
    each_way_by_pipe(|scene| {
        scene.file("src/a", "one file");
        scene.mkdir("src/d");
        fs::hard_link(scene.path("src/a"), scene.path("src/d/b")).expect("linked");
        scene.file("prev/d/b", "one file");
        scene.mkdir("dst");
        let route = scene.route();
        let flags = ["-aH", "-n", "--copy-dest=../prev"];
        scene.transfer("sync", &route, &flags, &["src/"], "dst").run().expect_ok();
        assert!(!scene.exists("dst/a"));
    });
}

#[test]
fn another_name_of_a_link_that_is_made_again_stays_what_it_was() {
    each_way_by_pipe(|scene| {
        scene.clear(&["src", "dst"]);
        scene.mkdir("src");
        scene.symlink("somewhere", "src/a");
        scene.mkdir("dst");
        let old = scene.symlink("somewhere", "dst/a");
        fs::hard_link(&old, scene.path("dst/b")).expect("linked");
        for (link, time) in [("dst/b", 1_500_000_000), ("src/a", 1_600_000_000)] {
            nasty::set_mtime(scene.path(link), time, 0).expect("a time");
        }
        let route = scene.route();
        scene.transfer("sync", &route, &["-rlptH"], &["src/"], "dst").run().expect_ok();
        let time = |name| fs::symlink_metadata(scene.path(name)).expect("it is there").mtime();
        assert_eq!((time("dst/a"), time("dst/b")), (1_600_000_000, 1_500_000_000));
    });
}

#[test]
fn other_names_of_a_file_that_is_not_asked_for_in_the_end_fail_with_it() {
    const LEN: usize = 65 << 20;
    let world = World::new();
    let scene = world.scene(Way::Local);
    scene.file("src/a", vec![1; LEN]);
    for name in ["src/b", "one/a"] {
        link(&scene, "src/a", name);
    }
    scene.file("dst/a", vec![2; LEN]);
    let sync =
        |flags: &[&str], source| scene.transfer("sync", &scene.route(), flags, &[source], "dst");
    let first = sync(&["-ac", "--bwlimit=2m"], "one/").spawn().expect("it starts");
    let is_at_it = || scene.list("dst").iter().any(|name| name.ends_with(".part"));
    assert!(first.until(Duration::from_secs(30), is_at_it), "it is not begun");
    // The content is compared first.
    let run = sync(&["-acH"], "src/").run();
    assert_eq!(run.code, Some(23), "{run}");
    for name in ["dst/a", "dst/b"] {
        assert!(run.err().lines().any(|line| line.contains(name)), "{name}: {run}");
    }
    assert!(run.err().contains("another haul is writing"), "{run}");
    first.signal(Signal::KILL);
    first.wait().expect("it ends");
}
