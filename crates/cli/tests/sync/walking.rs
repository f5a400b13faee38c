//! How the sources are walked: not into what is mounted, not where nothing is, and not
//! below directories that are wanted alone.

use crate::common::*;
use crate::oracle::Pair;
use haul_testkit::duplicate;
use std::fs;
use std::process::Command;

/// Trees with directories in which nothing is.
fn trees(scene: &Scene<'_>) {
    scene.clear(&["src", "dst"]);
    for name in ["a", "d/b", "d/e/c", "z/deep/er/x.o"] {
        scene.file(format!("src/{name}"), name);
    }
    for dir in ["empty/deep/er", "d/void", "z/none"] {
        scene.mkdir(format!("src/{dir}"));
    }
    for name in ["a", "old", "d/old", "empty/deep/old", "z/none/old", "gone/old"] {
        scene.file(format!("dst/{name}"), format!("old {name}"));
    }
}

#[test]
fn empty_directories_are_pruned() {
    everywhere_by_pipe(|scene| {
        let named = &["src/a", "src/d", "src/empty"][..];
        for (flags, sources) in scene.share([
            (&["-aim"][..], &["src/"][..]),
            (&["-aim", "--delete"], &["src/"]),
            (&["-aim", "--delete", "--exclude=*.o"], &["src/"]),
            (&["-aim", "--delete"], named),
            (&["-aim", "--delete-after"], named),
            (&["-aim", "--no-m"], &["src/"]),
            (&["-ainm", "--delete"], &["src/"]),
            (&["-aim"], named),
        ]) {
            trees(scene);
            Pair::of(scene).run(flags, sources, "dst");
        }
    });
}

#[test]
fn directories_come_alone() {
    everywhere_by_pipe(|scene| {
        let named = &["src/a", "src/d", "src/empty"][..];
        for (flags, sources) in scene.share([
            (&["-lptgoDid"][..], &["src/"][..]),
            (&["-lptgoDid", "--delete"], named),
            (&["-lptgoDid", "--delete"], &["src/"]),
            (&["-lptgoDidm"], &["src/"]),
            (&["-aid", "--delete"], &["src/"]),
            (&["-lptgoDid", "--delete-before"], &["src/"]),
            (&["-lptgoDid", "--delete-before"], &["src/d/"]),
            (&["-lptgoDid"], named),
            (&["-lptgoDidn", "--delete"], &["src/"]),
        ]) {
            trees(scene);
            Pair::of(scene).run(flags, sources, "dst");
        }
    });
}

#[test]
fn sources_that_are_not_there_are_passed_over_or_removed() {
    everywhere_by_pipe(|scene| {
        let sources = ["src/a", "src/gone", "src/old", "src/nowhere"];
        for flags in scene.share([
            &["-ai", "--ignore-missing-args"][..],
            &["-ai", "--delete-missing-args"],
            &["-ai", "--delete-missing-args", "--force"],
            &["-ai", "--delete-missing-args", "--delete"],
            &["-ain", "--delete-missing-args", "--force"],
            &["-ai", "--delete-missing-args", "--max-delete=0"],
        ]) {
            trees(scene);
            Pair::of(scene).run(flags, &sources, "dst");
        }
        trees(scene);
        Pair::of(scene).run(&["-ai", "--ignore-missing-args"], &["src/nowhere", "src/no"], "dst");
        assert!(scene.exists("dst/old"));
    });
}

#[test]
fn what_is_mounted_is_left_alone_on_both_sides() {
    each_way_by_pipe(|scene| {
        for flags in scene.share([
            &["-a", "-x", "--delete"][..],
            &["-a", "-xx", "--delete"],
            &["-a", "-xm"],
            &["-a", "-xx", "-m"],
        ]) {
            trees(scene);
            scene.mkdir("src/d/mounted");
            scene.file("dst/d/mounted/kept", "kept");
            let mount = |path: &str| {
                run(Command::new("mount").args(["-t", "tmpfs", "none"]).arg(scene.path(path)));
            };
            mount("src/d/mounted");
            scene.file("src/d/mounted/x", "x");
            // Both programs have the same sources.
            let rsync = scene.path("theirs");
            let _ = fs::remove_dir_all(&rsync);
            duplicate(scene.path("dst"), &rsync).expect("a copy");
            let mut theirs = Command::new("rsync");
            theirs.args(flags).arg(scene.path("src/")).arg(&rsync);
            let theirs = theirs.output().expect("rsync is installed");
            let route = scene.route();
            let ours = scene.transfer("sync", &route, flags, &["src/"], "dst").run();
            run(Command::new("umount").arg(scene.path("src/d/mounted")));
            assert_eq!(ours.code, theirs.status.code(), "{flags:?}: {ours}\n{theirs:?}");
            assert_eq!(scene.list("dst"), scene.list("theirs"), "{flags:?}: {ours}");
        }
    });
}

#[test]
fn what_is_mounted_at_the_destination_keeps_what_is_in_it() {
    each_way_by_pipe(|scene| {
        trees(scene);
        for dir in ["dst/d", "dst/extra"] {
            scene.mkdir(dir);
            run(Command::new("mount").args(["-t", "tmpfs", "none"]).arg(scene.path(dir)));
            scene.file(format!("{dir}/own"), "own");
        }
        scene.mkdir("dst/d/e");
        scene.file("dst/d/e/own", "own");
        let route = scene.route();
        let flags = ["-a", "-x", "--delete"];
        let ours = scene.transfer("sync", &route, &flags, &["src/"], "dst").run();
        let there = scene.list("dst");
        run(Command::new("umount").args([scene.path("dst/d"), scene.path("dst/extra")]));
        let has = |name: &str| there.iter().any(|there| there == name);
        assert!(has("extra/own") && ours.code == Some(0), "{ours}: {there:?}");
        assert!(has("d/own") && has("d/e/own") && has("d/b") && !has("gone"), "{ours}: {there:?}");
    });
}

#[test]
fn rules_in_files_may_end_with_zeros() {
    everywhere_by_pipe(|scene| {
        scene.file("rules", "- x\ny\0- *.o\0\0# none\0P old");
        scene.file("patterns", "*.o\0b\0");
        for flags in [
            &["-ai0", "--delete", "--filter=. rules"][..],
            &["-ai", "--from0", "--exclude-from=patterns"],
        ] {
            trees(scene);
            let pair = Pair::of(scene).with_files(&["rules", "patterns"]);
            pair.run(flags, &["src/"], "dst");
        }
    });
}
