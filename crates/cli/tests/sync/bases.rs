//! Directories besides the destination, in which what it has not is looked for.

use crate::common::*;
use crate::oracle::Pair;
use haul_testkit::{duplicate, nasty};
use std::fs;
use std::os::unix::fs::MetadataExt;

/// A source, and an earlier state of it in `prev`.
fn prepare(scene: &Scene<'_>) {
    scene.clear(&["src", "dst", "prev", "older"]);
    for dir in ["", "d/", "d/e/"] {
        scene.file(format!("src/{dir}same"), format!("the same in {dir}"));
        scene.file(format!("src/{dir}changed"), format!("new in {dir}"));
        scene.file(format!("src/{dir}other-mode"), format!("the same, with a mode, in {dir}"));
        scene.file(format!("src/{dir}other-time"), format!("the same, at a time, in {dir}"));
    }
    scene.file("src/large", vec![7; 3 << 20]);
    scene.file("src/empty", "");
    scene.symlink("same", "src/link");
    scene.symlink("same", "src/other-link");
    Pair::of(scene);
    for tree in ["prev", "older"] {
        duplicate(scene.path("src"), scene.path(tree)).expect("a copy");
    }
    scene.file("src/fresh", "fresh");
    scene.file("src/new/in", "fresh below");
    for dir in ["", "d/", "d/e/"] {
        scene.file(format!("prev/{dir}changed"), "old");
        scene.file(format!("prev/{dir}gone"), "extra");
        mode(scene.path(format!("prev/{dir}other-mode")), 0o600);
        let other = scene.path(format!("prev/{dir}other-time"));
        nasty::set_mtime(other, 1_500_000_000, 0).expect("a time");
    }
    mode(scene.path("prev/d/e"), 0o700);
    fs::remove_file(scene.path("prev/other-link")).expect("removed");
    scene.symlink("elsewhere", "prev/other-link");
    let link = fs::symlink_metadata(scene.path("src/other-link")).expect("there");
    nasty::set_mtime(scene.path("prev/other-link"), link.mtime(), 0).expect("a time");
    for (name, time) in [
        ("prev/d/e", 1_300_000_000),
        ("src/fresh", 1_650_000_000),
        ("src/new/in", 1_650_000_000),
        ("src", 1_650_000_001),
        ("src/new", 1_650_000_001),
    ] {
        nasty::set_mtime(scene.path(name), time, 0).expect("a time");
    }
}

#[test]
fn where_times_do_not_count_a_base_has_nothing_by_its_time() {
    let world = World::new();
    let scene = world.scene(Way::Local);
    for how in ["--link-dest=../prev", "--copy-dest=../prev", "--compare-dest=../prev"] {
        for flags in [&["-ai", "-I"][..], &["-ai", "-I", "--ignore-existing"]] {
            scene.clear(&["src", "dst", "prev"]);
            scene.file("src/a", "11111");
            scene.file("prev/a", "77777");
            for path in ["src/a", "prev/a", "src", "prev"] {
                nasty::set_mtime(scene.path(path), 1_600_000_000, 0).expect("a time");
            }
            Pair::with_times(&scene).run(&[flags, &[how]].concat(), &["src/"], "dst");
            assert_eq!(scene.read("dst/a"), "11111");
        }
    }
}

#[test]
fn other_content_that_a_link_to_a_base_replaces_has_a_backup() {
    each_way_by_pipe(|scene| {
        scene.file("src/a", "11111");
        scene.file("prev/a", "11111");
        scene.file("dst/a", "77777");
        for path in ["src/a", "prev/a", "dst/a"] {
            nasty::set_mtime(scene.path(path), 1_600_000_000, 0).expect("a time");
        }
        let flags = ["-abc", "--link-dest=../prev"];
        scene.transfer("sync", &scene.route(), &flags, &["src/"], "dst").run().expect_ok();
        assert_eq!((&*scene.read("dst/a"), &*scene.read("dst/a~")), ("11111", "77777"));
        // What is the same has none.
        scene.clear(&["dst"]);
        scene.file("dst/a", "11111");
        nasty::set_mtime(scene.path("dst/a"), 1_600_000_000, 0).expect("a time");
        scene.transfer("sync", &scene.route(), &flags, &["src/"], "dst").run().expect_ok();
        assert_eq!(scene.list("dst"), ["a"]);
    });
}

#[test]
fn a_link_that_replaces_a_file_is_reported_whatever_a_base_has() {
    each_way_by_pipe(|scene| {
        for flags in [&["-ai"][..], &["-ain"]] {
            scene.clear(&["src", "dst", "prev"]);
            scene.mkdir("src");
            scene.mkdir("prev");
            scene.symlink("a", "src/link");
            scene.file("dst/link", "a file");
            let pair = Pair::of(scene);
            duplicate(scene.path("src/link"), scene.path("prev/link")).expect("a copy");
            let told = pair.run(&[flags, &["--link-dest=../prev"]].concat(), &["src/"], "dst");
            assert!(told.out().contains("cL+++++++++ link -> a"), "{told}");
        }
    });
}

#[test]
fn a_link_that_a_base_has_with_another_time_is_reported_as_changed() {
    each_way_by_pipe(|scene| {
        for how in ["--link-dest=../prev", "--copy-dest=../prev", "--compare-dest=../prev"] {
            scene.clear(&["src", "dst", "prev"]);
            for tree in ["src", "dst", "prev"] {
                scene.mkdir(tree);
            }
            scene.symlink("a", "src/link");
            scene.symlink("a", "prev/link");
            nasty::set_mtime(scene.path("prev/link"), 1_500_000_000, 0).expect("a time");
            let told = Pair::of(scene).run(&["-ai", how], &["src/"], "dst");
            assert!(told.out().contains("cLc.t...... link -> a"), "{told}");
        }
    });
}

#[test]
fn what_a_base_has_is_not_sent() {
    everywhere_by_pipe(|scene| {
        let hows = ["--link-dest=../prev", "--copy-dest=../prev", "--compare-dest=../prev"];
        let all =
            [&["-ain"][..], &["-ai"], &["-aii"], &["-rpti"], &["-rpi"], &["-ai", "--size-only"]];
        let cases = hows.into_iter().flat_map(|how| all.map(|flags| (how, flags)));
        // rsync reports another time for each file that it copies then.
        let cases = cases.filter(|(how, flags)| *flags != ["-rpi"] || !how.contains("copy"));
        for (how, flags) in scene.share(cases) {
            prepare(scene);
            scene.mkdir("dst");
            Pair::with_times(scene).run(&[flags, &[how]].concat(), &["src/"], "dst");
        }
    });
}

/// A source of which the bases have contents that only reading tells.
fn prepare_contents(scene: &Scene<'_>) {
    for tree in ["src", "dst", "prev", "older"] {
        let _ = fs::remove_dir_all(scene.path(tree));
        scene.mkdir(tree);
    }
    let cases = [
        ("same", ["same", "same", ""]),
        ("touched", ["with another time", "with another time", ""]),
        ("lies", ["as long", "no, not", ""]),
        ("second", ["in the second", "not the first", "in the second"]),
        ("shorter", ["of another size", "short", ""]),
        ("only-new", ["in no base", "", ""]),
        ("d/same", ["the same below", "the same below", "the same below"]),
    ];
    for (name, contents) in cases {
        for (tree, content) in ["src", "prev", "older"].into_iter().zip(contents) {
            if !content.is_empty() {
                let path = scene.file(format!("{tree}/{name}"), content);
                let later = if name == "touched" { tree.len() as i64 } else { 5 };
                nasty::set_mtime(path, 1_600_000_000 + later, 0).expect("a time");
            }
        }
    }
    scene.file("src/empty", "");
    scene.file("prev/empty", "");
    mode(scene.path("prev/d/same"), 0o600);
    for dir in ["src", "src/d"] {
        nasty::set_mtime(scene.path(dir), 1_600_000_007, 0).expect("a time");
    }
}

#[test]
fn with_checksums_contents_are_looked_for_in_bases() {
    everywhere_by_pipe(|scene| {
        let hows = ["--link-dest", "--copy-dest", "--compare-dest"];
        let all = [&["-acin"][..], &["-aci"], &["-rtci"]];
        let cases = hows.into_iter().flat_map(|how| all.map(|flags| (how, flags)));
        for (how, flags) in scene.share(cases) {
            let bases = [format!("{how}=../prev"), format!("{how}=../older")];
            prepare_contents(scene);
            let flags = [flags, &[&*bases[0], &*bases[1]]].concat();
            let pair = Pair::with_times(scene);
            let first = pair.run(&flags, &["src/"], "dst");
            if how == "--link-dest" && flags[0] == "-aci" {
                let number = |path: &str| fs::metadata(scene.path(path)).expect("there").ino();
                assert_eq!(number("dst/same"), number("prev/same"), "{first}");
                assert_eq!(number("dst/second"), number("older/second"), "{first}");
                assert_eq!(number("dst/d/same"), number("older/d/same"), "{first}");
                assert_ne!(number("dst/lies"), number("prev/lies"), "{first}");
            }
        }
    });
}

#[test]
fn with_checksums_existing_files_become_links_to_bases() {
    everywhere_by_pipe(|scene| {
        prepare_contents(scene);
        for (name, content) in
            [("same", "same"), ("lies", "as long"), ("second", "of no base"), ("only-new", "older")]
        {
            let path = scene.file(format!("dst/{name}"), content);
            nasty::set_mtime(path, 1_600_000_005, 0).expect("a time");
        }
        let pair = Pair::with_times(scene);
        let flags = ["-ac", "--link-dest=../prev", "--link-dest=../older"];
        pair.run(&flags, &["src/"], "dst");
        let number = |path: &str| fs::metadata(scene.path(path)).expect("there").ino();
        for (name, base) in [("same", "prev"), ("second", "older"), ("d/same", "older")] {
            if scene.way == Way::SftpUpload && name == "same" {
                // No objects are told: what looks like it is taken for it.
                continue;
            }
            assert_eq!(number(&format!("dst/{name}")), number(&format!("{base}/{name}")));
        }
        assert_eq!(scene.read("prev/lies"), "no, not");
        let second = pair.run(&["-aci", flags[1], flags[2]], &["src/"], "dst");
        assert!(!second.out().contains("second"), "{second}");
    });
}

#[test]
fn a_mode_that_is_not_kept_is_that_of_the_base() {
    everywhere_by_pipe(|scene| {
        let hows = ["--link-dest=../prev", "--copy-dest=../prev", "--compare-dest=../prev"];
        let cases = ["-rlti", "-rltiE"].into_iter().flat_map(|flag| hows.map(|how| [flag, how]));
        for flags in scene.share(cases) {
            prepare(scene);
            mode(scene.path("prev/d/same"), 0o755);
            scene.mkdir("dst");
            let pair = Pair::with_times(scene);
            pair.run(&[&flags[..], &["-n"]].concat(), &["src/"], "dst");
            pair.run(&flags, &["src/"], "dst");
        }
    });
}

#[test]
fn what_is_newer_in_the_destination_stays_whatever_a_base_has() {
    everywhere_by_pipe(|scene| {
        for how in scene.share(["--link-dest", "--copy-dest", "--compare-dest"]) {
            prepare(scene);
            scene.file("dst/same", "newer");
            scene.file("dst/d/changed", "newer");
            scene.file("dst/d/same", "older");
            for (name, time) in
                [("same", 1_900_000_000), ("d/changed", 1_900_000_000), ("d/same", 1_100_000_000)]
            {
                let path = scene.path(format!("dst/{name}"));
                nasty::set_mtime(path, time, 0).expect("a time");
            }
            let flag = format!("{how}=../prev");
            let pair = Pair::with_times(scene);
            match how {
                // It removes what is the same in the base.
                "--compare-dest" => {
                    let haul =
                        scene.transfer("sync", &scene.route(), &["-au", &flag], &["src/"], "dst");
                    haul.run().expect_ok();
                }
                _ => drop(pair.run(&["-aui", &flag], &["src/"], "dst")),
            }
            assert_eq!(scene.read("dst/same"), "newer");
            assert_eq!(scene.read("dst/d/changed"), "newer");
        }
    });
}

#[test]
fn a_dry_run_finds_the_base_beside_a_destination_that_is_missing() {
    everywhere_by_pipe(|scene| {
        let dests = [("new", "../prev"), ("new/", "../prev"), ("new/x", "../../prev")];
        let hows = ["--link-dest", "--copy-dest", "--compare-dest"];
        let cases = dests.into_iter().flat_map(|dest| hows.map(|how| (dest, how)));
        for ((dest, base), how) in scene.share(cases) {
            prepare(scene);
            let flag = format!("{how}={base}");
            let flags = ["-a", "--mkpath", &flag];
            let route = scene.route();
            let sync = |more: &[&str]| {
                let flags = [&flags[..], more].concat();
                scene.transfer("sync", &route, &flags, &["src/"], dest).run().expect_ok()
            };
            let dry = sync(&["-in"]);
            assert!(!dry.err().contains("can't open it"), "{dry}");
            assert!(!scene.exists("new"));
            let lines = |text: String| {
                let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
                lines.sort();
                lines
            };
            assert_eq!(lines(dry.out()), lines(sync(&["-i"]).out()), "{flags:?}");
            let _ = fs::remove_dir_all(scene.path("new"));
        }
    });
}

#[test]
fn the_first_base_that_has_it_whole_is_taken() {
    everywhere_by_pipe(|scene| {
        prepare(scene);
        Pair::with_times(scene).run(
            &["-ai", "--link-dest=../prev", "--link-dest=../older", "--delete"],
            &["src/"],
            "new",
        );
        let inode = |path: &str| fs::symlink_metadata(scene.path(path)).expect("there").ino();
        assert_eq!(inode("new/same"), inode("prev/same"));
        assert_eq!(inode("new/d/e/other-mode"), inode("older/d/e/other-mode"));
        assert_eq!(inode("new/link"), inode("prev/link"));
        assert_ne!(inode("new/fresh"), inode("src/fresh"));
        // Nothing is linked to what differs, and what was there stays.
        assert_eq!(scene.read("prev/changed"), "old");
        assert_eq!(scene.read("new/changed"), "new in ");
    });
}

#[test]
fn a_base_that_is_missing_is_reported() {
    everywhere_by_pipe(|scene| {
        prepare(scene);
        let run = Pair::with_times(scene).run(&["-ai", "--link-dest=../missing"], &["src/"], "dst");
        assert!(run.err().contains("missing: can't open it"), "{run}");
    });
}

#[test]
fn what_is_in_the_destination_is_compared_with_that_alone() {
    everywhere_by_pipe(|scene| {
        prepare(scene);
        scene.file("dst/same", "another");
        scene.file("dst/d/changed", "old");
        scene.file("dst/extra", "extra");
        Pair::with_times(scene).run(&["-ai", "--link-dest=../prev", "--delete"], &["src/"], "dst");
        assert_eq!(scene.read("prev/same"), "the same in ");
    });
}

#[test]
fn bases_of_two_kinds_exclude_each_other() {
    let world = World::new();
    let scene = world.scene(Way::Local);
    scene.file("src/a", "a");
    let flags = ["-a", "--link-dest=x", "--copy-dest=y"];
    let run = scene.haul().arg("sync").args(flags).args(["src/", "dst"]).run();
    assert!(run.expect_code(1).err().contains("exclude each other"));
    assert!(!scene.exists("dst"));
}

#[test]
fn what_a_base_has_replaces_something_else() {
    everywhere_by_pipe(|scene| {
        let hows = ["--link-dest=../prev", "--copy-dest=../prev"];
        let all = [&["-ai"][..], &["-aiin"], &["-ai", "--delete"], &["-aic", "--force"]];
        let cases = hows.into_iter().flat_map(|how| all.map(|flags| (how, flags)));
        for (how, flags) in scene.share(cases) {
            scene.clear(&["src", "dst", "prev"]);
            for name in ["empty-dir", "full-dir", "link", "other"] {
                scene.file(format!("src/{name}"), format!("content of {name}"));
            }
            scene.symlink("somewhere", "src/dir-for-link");
            Pair::of(scene);
            duplicate(scene.path("src"), scene.path("prev")).expect("a copy");
            mode(scene.path("prev/other"), 0o600);
            for dir in ["empty-dir", "full-dir", "other", "dir-for-link"] {
                scene.mkdir(format!("dst/{dir}"));
            }
            if flags.len() > 1 {
                scene.file("dst/full-dir/extra", "x");
            }
            scene.symlink("somewhere", "dst/link");
            Pair::with_times(scene).run(&[flags, &[how]].concat(), &["src/"], "dst");
        }
    });
}

#[test]
fn what_is_linked_to_a_base_counts_as_linked() {
    each_way_by_pipe(|scene| {
        for file in 0..5 {
            scene.file(format!("src/{file}"), "content");
        }
        sh(scene, "cp -a src prev");
        scene.file("src/new", "12345");
        let figures = "\"copied\":1,\"linked\":5,\"updated\":0,";
        for dry in [&["-n"][..], &[]] {
            let flags = [&["-a", "--json", "--link-dest=../prev"], dry].concat();
            let run = scene.transfer("sync", &scene.route(), &flags, &["src/"], "dst").run();
            let out = run.expect_ok().out();
            assert!(out.contains(figures) && out.contains("\"bytes\":5,"), "{out}");
        }
        let route = scene.route();
        let run = scene.transfer("sync", &route, &["-av", "--link-dest=../prev"], &["src/"], "new");
        let out = run.run().expect_ok().out();
        assert!(out.contains(" bytes; 1 copied, 5 linked, 1 directories made; 5 B in "), "{out}");
    });
}
