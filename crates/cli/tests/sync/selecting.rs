//! The choice of sources, by the words of the command and their names.

use crate::common::*;
use crate::oracle::Pair;
use std::fs;
use std::process::Command;

#[test]
fn a_tree_becomes_like_its_source() {
    everywhere(|scene| {
        let pair = Pair::usual(scene);
        pair.run(&["-ain"], &["src/"], "dst");
        pair.run(&["-ai"], &["src/"], "dst");
        pair.settles(&["-ai"], &["src/"], "dst");
    });
}

#[test]
fn a_directory_that_is_skipped_without_r_is_reported_as_one() {
    everywhere_by_pipe(|scene| {
        scene.file("src/dir/in", "in");
        scene.mkdir("dst");
        let sync = scene.transfer("sync", &scene.route(), &["-t"], &["src/dir"], "dst/");
        let run = sync.run().expect_ok();
        assert!(run.err().contains("dir: skipped: use -r for directories"), "{run}");
    });
}

#[test]
fn a_slash_at_the_end_of_a_source_is_what_is_in_it() {
    everywhere_by_pipe(|scene| {
        let pair = Pair::usual(scene);
        for (sources, dest) in scene.share([
            (&["src"][..], "new"),
            (&["src/"], "other"),
            (&["src/d/e/same"], "third"),
            (&["src/d/e/same"], "fourth/"),
            (&["src/d", "src/z", "src/same"], "fifth"),
            (&["src/d/", "src/z"], "sixth"),
            (&["src/."], "seventh/"),
        ]) {
            pair.run(&["-ai"], sources, dest);
        }
    });
}

#[test]
fn what_stands_in_the_way_goes_as_it_does_with_rsync() {
    everywhere_by_pipe(|scene| {
        let prepare = || {
            scene.clear(&["src", "dst"]);
            scene.file("src/file", "file");
            scene.file("src/over-empty", "file");
            scene.file("src/dir/in", "in");
            scene.file("src/over-link/in", "in");
            scene.symlink("file", "src/link");
            scene.file("dst/file/in/it", "it");
            scene.mkdir("dst/over-empty");
            scene.file("dst/dir", "a file");
            scene.symlink("nowhere", "dst/over-link");
            scene.file("dst/link", "a file");
        };
        for flags in scene.share([
            &["-ai"][..],
            &["-ai", "--force"],
            &["-ai", "--delete"],
            &["-ai", "--delete-after"],
            &["-ain"],
        ]) {
            prepare();
            Pair::of(scene).run(flags, &["src/"], "dst");
        }
    });
}

#[test]
fn a_dry_run_reports_nothing_that_rules_leave_unmade() {
    each_way_by_pipe(|scene| {
        Pair::usual(scene);
        for flags in [&["-ain", "--existing"][..], &["-ai", "--existing"]] {
            let told = Pair::of(scene).run(flags, &["src"], "new/");
            let out = told.out();
            let told_of = out.lines().filter(|line| !line.starts_with("created directory"));
            assert_eq!(told_of.count(), 0, "{told}");
            fs::remove_dir(scene.path("new")).ok();
        }
    });
}

#[test]
fn directories_for_partial_files_are_neither_sent_nor_removed() {
    everywhere_by_pipe(|scene| {
        for (flags, last) in scene.share([
            (&["-ai", "--delete", "--partial-dir=.part"][..], "--partial-dir=.part"),
            (&["-ai", "--delete", "--partial-dir=.part/"], "-u"),
            (&["-ai", "--delete-excluded", "--partial-dir=.part"], "-u"),
            (&["-ai", "--delete", "--partial-dir=.part"], "--filter=R .part/"),
            (&["-ai", "--delete", "--partial-dir=/nowhere/.part"], "-u"),
            (&["-ai", "--delete", "--partial-dir=./.part"], "-u"),
            (&["-ai", "--delete", "--partial-dir=x/..//.part/"], "-u"),
            (&["-ai", "--delete", "--partial-dir=./"], "-u"),
        ]) {
            scene.clear(&["src", "dst"]);
            scene.file("src/.part/x", "sent by nobody");
            scene.file("src/d/y", "y");
            for dir in ["d", "gone"] {
                scene.file(format!("dst/{dir}/.part/z"), "left by another run");
            }
            Pair::of(scene).run(&[flags, &[last]].concat(), &["src/"], "dst");
        }
    });
}

#[test]
fn a_directory_for_partial_files_may_be_in_the_environment() {
    let world = World::new();
    let scene = world.scene(Way::Local);
    scene.file("src/.part/x", "sent by nobody");
    scene.file("src/y", "y");
    scene.file("dst/.part/z", "left by another run");
    for words in [
        &["--partial"][..],
        &["-P"],
        &["-P", "--no-partial"],
        &["-P", "--inplace"],
        &["-P", "--delay-updates"],
        &["-P", "--partial-dir=other"],
        &["-u"],
    ] {
        let args = [&["-ain", "--delete"], words, &["src/", "dst"]].concat();
        let rsync = scene.program("rsync");
        let theirs = rsync.env("RSYNC_PARTIAL_DIR", ".part").args(&args).run().expect_ok();
        let haul = scene.haul().env("RSYNC_PARTIAL_DIR", ".part");
        let ours = haul.arg("sync").args(&args).run().expect_ok();
        let changes = |out: String| {
            let lines = out.lines().filter(|line| line.starts_with(['>', '*', 'c', '.']));
            lines.map(str::to_owned).collect::<std::collections::BTreeSet<_>>()
        };
        assert_eq!(changes(ours.out()), changes(theirs.out()), "{words:?}");
    }
}

#[test]
fn directories_for_delayed_files_are_neither_sent_nor_removed() {
    each_way_by_pipe(|scene| {
        // rsync itself makes files in it.
        let no_times = "--exclude=nothing";
        for flags in scene.share([
            &["-ai", "--delete", "--delay-updates", no_times][..],
            &["-ai", "--delete", "--delay-updates", "--partial-dir=.part", no_times],
            &["-ai", "--delete"],
        ]) {
            scene.clear(&["src", "dst"]);
            scene.file("src/.~tmp~/x", "sent by nobody");
            scene.file("src/y", "y");
            scene.file("dst/.~tmp~/z", "left by another run");
            Pair::of(scene).run(flags, &["src/"], "dst");
        }
    });
}

#[test]
fn a_file_of_rules_is_read_as_words_in_front_of_it_say() {
    let world = World::new();
    let scene = world.scene(Way::Local);
    for (flags, has_lines) in [
        (&["-0", "--exclude-from=rules"][..], false),
        (&["--exclude-from=rules", "-0"], true),
        (&["-0", "--no-from0", "--exclude-from=rules", "-0"], true),
        (&["--filter=merge rules", "-0"], true),
        (&["-0", "--filter=merge rules"], false),
        (&["--filter=dir-merge .rules", "-0"], false),
    ] {
        scene.clear(&["src", "dst"]);
        let end = if has_lines { "\n" } else { "\0" };
        let rules = format!("- *.o{end}- *.p{end}");
        for file in ["src/a.o", "src/b.p", "src/c", "dst/a.o", "dst/d.p"] {
            scene.file(file, file);
        }
        scene.file("rules", rules);
        scene.file("src/.rules", "- *.o\0- *.p\0");
        let flags = [&["-ai", "--delete"], flags].concat();
        Pair::of(&scene).with_files(&["rules"]).run(&flags, &["src/"], "dst");
    }
}

#[test]
fn what_exists_is_left_or_made_anew_as_with_rsync() {
    everywhere_by_pipe(|scene| {
        // What other words decide is in the tests of the plan.
        for flags in scene.share([
            &["-aiu", "--existing"][..],
            &["-ain", "--max-size=6"],
            &["-rpti", "--copy-links"],
            &["-rlptiO"],
            &["-ai", "--exclude=d", "--exclude", "fresh"],
            &["-ai", "--no-l"],
        ]) {
            scene.clear(&["src", "dst"]);
            Pair::usual(scene).run(flags, &["src/"], "dst");
        }
    });
}

#[test]
fn owners_attributes_and_access_lists_are_kept() {
    each_way_by_pipe(|scene| {
        scene.mkdir("src/d");
        run(Command::new("mkfifo").arg(scene.path("src/d/fifo")));
        for name in ["a", "b", "d/c", "same"] {
            scene.file(format!("src/{name}"), name);
            scene.file(format!("dst/{name}"), if name == "same" { "same" } else { "other" });
        }
        let src = |name: &str| scene.path(format!("src/{name}"));
        for name in ["a", "d", "same"] {
            own(src(name), (12345, 12346));
        }
        run(Command::new("setfattr").args(["-n", "user.x", "-v", "1"]).arg(src("b")));
        run(Command::new("setfacl").args(["-m", "u:12345:rw"]).arg(src("d/c")));
        mode(src("a"), 0o4755);
        let pair = Pair::of(scene);
        for flags in [&["-aiX"][..], &["-aiAX"], &["-aiAXI"], &["-rlptiX"]] {
            pair.run(flags, &["src/"], "dst");
            let [ours, theirs] = ["dst", "oracle/dst"].map(|tree| attributes(&scene.path(tree)));
            assert_eq!(ours, theirs, "{flags:?}");
        }
        pair.settles(&["-aiAX"], &["src/"], "dst");
    });
}

#[test]
fn without_r_directories_are_left_out_and_that_is_reported() {
    everywhere_by_pipe(|scene| {
        let pair = Pair::usual(scene);
        let run = pair.run(&["-ti"], &["src/d", "src/same"], "dst");
        assert!(run.err().contains("skipped"), "{run}");
    });
}
