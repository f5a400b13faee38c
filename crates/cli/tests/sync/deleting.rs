//! Entries that only the destination has.

use crate::common::*;
use crate::oracle::Pair;
use std::fs;
use std::process::Command;

#[test]
fn what_the_source_does_not_have_goes() {
    everywhere_by_pipe(|scene| {
        let pair = Pair::usual(scene);
        pair.run(&["-ain", "--delete"], &["src/"], "dst");
        pair.run(&["-ai", "--delete"], &["src/"], "dst");
        assert!(!scene.exists("dst/x") && !scene.exists("dst/d/e/extra"));
        pair.settles(&["-ai", "--delete"], &["src/"], "dst");
    });
}

#[test]
fn it_goes_when_it_is_to_go() {
    everywhere_by_pipe(|scene| {
        for when in
            scene.share(["--delete-before", "--delete-after", "--delete-delay", "--delete-during"])
        {
            scene.clear(&["src", "dst"]);
            let pair = Pair::usual(scene);
            pair.run(&["-ain", when], &["src/"], "dst");
            pair.run(&["-ai", when], &["src/"], "dst");
            pair.settles(&["-ai", when], &["src/"], "dst");
        }
    });
}

#[test]
fn a_new_name_that_is_not_ascii_holds_nothing_back() {
    everywhere_by_pipe(|scene| {
        for when in ["--delete-before", "--delete-during", "--delete-after"] {
            scene.clear(&["src", "dst"]);
            for name in
                ["src/caf\u{e9}", "src/new", "src/d\u{e9}/a", "dst/extra", "dst/\u{e8}", "dst/NEW"]
            {
                scene.file(name, name);
            }
            let flags = ["-a", when];
            scene.transfer("sync", &scene.route(), &flags, &["src/"], "dst").run().expect_ok();
            let names = ["caf\u{e9}", "d\u{e9}", "new", "extra", "\u{e8}", "NEW"];
            let there = names.map(|name| scene.exists(format!("dst/{name}")));
            assert_eq!(there, [true, true, true, false, false, false], "{when}");
        }
    });
}

#[test]
fn a_destination_that_is_missing_is_reported_once() {
    everywhere_by_pipe(|scene| {
        scene.file("src/a", "a");
        scene.file("src/d/b", "b");
        let pair = Pair::of(scene);
        let backups = (&["-ai", "-b", "--backup-dir=../kept"][..], "new");
        let dests = [(&["-ai"][..], "new"), (&["-ai"], "new/"), backups];
        let whens = ["--delete-before", "--delete-after", "--delete-during"];
        let cases =
            whens.into_iter().flat_map(|when| dests.map(|(flags, dest)| (when, flags, dest)));
        for (when, flags, dest) in scene.share(cases) {
            if scene.way == Way::SftpUpload && flags.contains(&"-b") {
                continue;
            }
            let _ = fs::remove_dir_all(scene.path("new"));
            pair.run(&[flags, &["-n", when]].concat(), &["src/"], dest);
            assert!(!scene.exists("new"));
            pair.run(&[flags, &[when]].concat(), &["src/"], dest);
        }
    });
}

#[test]
fn a_directory_in_which_something_stays_keeps_its_mode() {
    everywhere_as_nobody(|scene| {
        scene.file("src/a", "a");
        scene.file("dst/x/gone", "x");
        scene.file("dst/x/y/gone", "x");
        scene.file("dst/x/y/kept", "x");
        scene.give_to_nobody("src");
        scene.give_to_nobody("dst");
        mode(scene.path("dst/x/y"), 0o500);
        mode(scene.path("dst/x"), 0o555);
        let route = scene.route();
        let flags = ["-a", "--delete", "--filter=P kept"];
        scene.transfer("sync", &route, &flags, &["src/"], "dst").run().expect_ok();
        assert_eq!(scene.list("dst/x"), ["y", "y/kept"]);
        assert_eq!([mode_of(scene.path("dst/x")), mode_of(scene.path("dst/x/y"))], [0o555, 0o500]);
        let flags = ["-a", "--delete"];
        scene.transfer("sync", &route, &flags, &["src/"], "dst").run().expect_ok();
        assert!(!scene.exists("dst/x"));
    });
}

#[test]
fn what_rules_leave_out_stays_unless_that_is_to_go() {
    everywhere_by_pipe(|scene| {
        let prepare = || {
            scene.clear(&["src", "dst"]);
            scene.file("src/a", "a");
            scene.file("src/keep.o", "of the source");
            for name in ["keep.o", "x/keep.o", "x/y/gone", "z/gone", "b"] {
                scene.file(format!("dst/{name}"), name);
            }
        };
        prepare();
        Pair::of(scene).run(&["-ai", "--delete", "--exclude=*.o"], &["src/"], "dst");
        assert!(scene.exists("dst/x/keep.o") && !scene.exists("dst/x/y"));
        prepare();
        Pair::of(scene).run(&["-ai", "--delete-excluded", "--exclude=*.o"], &["src/"], "dst");
        assert!(!scene.exists("dst/keep.o"));
    });
}

#[test]
fn nothing_outside_of_what_is_covered_goes() {
    everywhere_by_pipe(|scene| {
        scene.file("src/one/a", "a");
        scene.file("src/two/b", "b");
        for name in ["one/extra", "two/extra", "three/extra", "extra"] {
            scene.file(format!("dst/{name}"), name);
        }
        scene.file("beside/x", "x");
        scene.symlink("../beside", "dst/one/link");
        Pair::of(scene).run(&["-ai", "--delete"], &["src/one", "src/two"], "dst");
        assert_eq!(
            scene.list("dst"),
            ["extra", "one", "one/a", "three", "three/extra", "two", "two/b"]
        );
        assert!(scene.exists("beside/x"));
    });
}

#[test]
fn no_more_is_removed_than_may_be() {
    everywhere_by_pipe(|scene| {
        scene.file("src/a", "a");
        for n in 0..5 {
            scene.file(format!("dst/extra{n}"), "x");
        }
        let run = Pair::of(scene).run(&["-ai", "--delete", "--max-delete=3"], &["src/"], "dst");
        assert!(run.err().contains("2 entries stay: --max-delete reached"), "{run}");
        assert_eq!(scene.list("dst").len(), 3);
        // The last directory goes first, and "d/" is behind "d.x/".
        scene.clear(&["dst"]);
        for extra in ["dst/d/one", "dst/d/two", "dst/d.x/three"] {
            scene.file(extra, extra);
        }
        scene.file("dst/e/f/four", "x");
        scene.mkdir("dst/e/f.x");
        for max in ["--max-delete=3", "--max-delete=4"] {
            Pair::of(scene).run(&["-ri", "--delete", max], &["src/"], "dst");
        }
    });
}

#[test]
fn an_error_of_the_source_holds_back_what_comes_after_it() {
    everywhere_as_nobody(|scene| {
        scene.file("src/a/closed/x", "x");
        scene.file("src/b/y", "y");
        scene.file("dst/a/closed/kept", "kept");
        scene.file("dst/b/kept", "kept");
        scene.give_to_nobody("");
        mode(scene.path("src/a/closed"), 0);
        let route = scene.route();
        let run = scene.transfer("sync", &route, &["-a", "--delete"], &["src/"], "dst").run();
        let run = run.expect_code(23);
        assert!(run.err().contains("skipping all further removals"), "{run}");
        assert!(scene.exists("dst/a/closed/kept") && scene.exists("dst/b/kept"));
        assert_eq!(scene.read("dst/b/y"), "y");
        let flags = ["-a", "--delete", "--ignore-errors"];
        let run = scene.transfer("sync", &route, &flags, &["src/"], "dst").run();
        run.expect_code(23);
        assert!(scene.exists("dst/a/closed/kept") && !scene.exists("dst/b/kept"));
        mode(scene.path("src/a/closed"), 0o700);
    });
}

#[test]
fn a_source_that_is_in_the_destination_stays() {
    let world = World::new();
    let scene = world.scene(Way::Local);
    scene.file("dst/deep/src/a", "a");
    scene.file("dst/deep/beside", "x");
    scene.file("dst/extra/x", "x");
    let sync = scene.haul().args(["sync", "-a", "--delete", "dst/deep/src/", "dst"]).run();
    let run = sync.expect_code(23);
    assert!(run.err().contains("it is a source of this command, or contains one"), "{run}");
    assert_eq!(scene.read("dst/deep/src/a"), "a");
    assert_eq!(scene.read("dst/a"), "a");
    assert!(!scene.exists("dst/extra"));
}

#[test]
fn many_are_removed_and_all_are_reported() {
    each_way_by_pipe(|scene| {
        scene.file("src/a", "a");
        for n in 0..700 {
            scene.file(format!("dst/x/{}/{n}", n % 3), "x");
        }
        let run = Pair::of(scene).run(&["-ai", "--delete"], &["src/"], "dst");
        assert_eq!(run.out().matches("*deleting").count(), 704);
        assert_eq!(scene.list("dst"), ["a"]);
    });
}

#[test]
fn what_goes_is_reported_in_its_turn() {
    each_way_by_pipe(|scene| {
        for dir in ["a/s", "b/s", "c"] {
            scene.file(format!("src/{dir}/../f"), "new");
            scene.file(format!("src/{dir}/f"), "new");
            scene.file(format!("dst/{dir}/../extra"), "extra");
            scene.file(format!("dst/{dir}/extra"), "extra");
        }
        let route = scene.route();
        let run = scene.transfer("sync", &route, &["-rin", "--delete"], &["src/"], "dst").run();
        let told = run.out().replace('<', ">");
        let found: Vec<_> = told.lines().filter_map(|line| line.split(' ').next_back()).collect();
        let expected =
            "f extra a/f a/extra a/s/f a/s/extra b/f b/extra b/s/f b/s/extra c/f c/extra";
        assert_eq!(found.join(" "), expected, "{run}");
    });
}

#[test]
fn a_source_that_is_not_there_holds_nothing_back() {
    everywhere_by_pipe(|scene| {
        scene.file("src/one/a", "a");
        for when in ["--delete", "--delete-before", "--delete-after", "--delete-delay"] {
            scene.file("dst/one/extra", "extra");
            Pair::of(scene).run(&["-ai", when], &["src/missing", "src/one"], "dst");
            assert!(!scene.exists("dst/one/extra"), "{when}");
        }
    });
}

#[test]
fn a_source_that_cannot_even_be_begun_is_reported_and_holds_removals_back() {
    everywhere_by_pipe(|scene| {
        scene.file("src/one/a", "a");
        scene.file("dst/extra", "extra");
        for source in ["nope/", "nope/x", "src/none/../one/"] {
            let route = scene.route();
            let run = scene.transfer("sync", &route, &["-a", "--delete"], &[source], "dst").run();
            let run = run.expect_code(23);
            assert!(run.err().contains(source.trim_end_matches('/')), "{run}");
            assert!(scene.exists("dst/extra"), "{run}");
        }
    });
}

#[test]
fn what_an_earlier_copy_has_named_is_no_mirror_of_its_own() {
    each_way_by_pipe(|scene| {
        scene.file("data/a", "a");
        scene.copy(&["-r"], &["data"], "backup").run().expect_ok();
        scene.file("backup/own", "own");
        let route = scene.route();
        let run = scene.transfer("sync", &route, &["-r", "--delete"], &["data"], "backup").run();
        run.expect_ok();
        assert_eq!(scene.list("backup"), ["a", "data", "data/a", "own"]);
    });
}

#[test]
fn what_is_mounted_in_the_destination_stays_with_what_is_in_it() {
    each_way_by_pipe(|scene| {
        scene.file("src/a", "a");
        scene.file("precious/x", "x");
        scene.mkdir("dst/deep/extra");
        run(Command::new("mount")
            .arg("--bind")
            .args([scene.path("precious"), scene.path("dst/deep/extra")]));
        let route = scene.route();
        let run_it = scene.transfer("sync", &route, &["-a", "--delete"], &["src/"], "dst").run();
        run(Command::new("umount").arg(scene.path("dst/deep/extra")));
        assert!(scene.exists("precious/x"), "{run_it}");
        let run_it = run_it.expect_code(23);
        assert!(!run_it.err().contains("another haul"), "{run_it}");
    });
}

#[test]
fn no_more_is_removed_in_all_parts_of_a_command_than_may_be() {
    each_way_by_pipe(|scene| {
        for when in scene.share(["--delete", "--delete-before", "--delete-after", "--delete-delay"])
        {
            scene.clear(&["src", "dst"]);
            scene.file("src/x", "a file now");
            for at in 0..3 {
                scene.file(format!("dst/x/{at}"), "makes way");
                scene.file(format!("dst/extra-{at}"), "extra");
            }
            let (route, flags) = (scene.route(), ["-a", when, "--max-delete=3"]);
            let run = scene.transfer("sync", &route, &flags, &["src/"], "dst").run();
            assert!(matches!(run.code, Some(23 | 25)), "{run}");
            let left = ["extra-0", "extra-1", "extra-2", "x/0", "x/1", "x/2"];
            let left = left.iter().filter(|name| scene.exists(format!("dst/{name}"))).count();
            assert!(left >= 3, "{when}: {left}");
        }
    });
}

#[test]
fn rules_protect_what_a_missing_source_is_called() {
    each_way_by_pipe(|scene| {
        scene.mkdir("src");
        scene.file("dst/y", "protected");
        for rule in ["--filter=P y", "--exclude=y"] {
            let pair = Pair::with_times(scene);
            pair.run(&["-ai", "--delete-missing-args", rule], &["src/y"], "dst");
            assert_eq!(scene.read("dst/y"), "protected");
        }
        Pair::with_times(scene).run(&["-ai", "--delete-missing-args"], &["src/y"], "dst");
        assert!(!scene.exists("dst/y"));
    });
}

#[test]
fn where_rules_cannot_be_read_nothing_is_removed() {
    each_way_by_pipe(|scene| {
        let prepare = || {
            scene.clear(&["src", "dst"]);
            scene.file("src/a/b/new", "new");
            scene.file("src/c", "beside it");
            scene.file("dst/a/b/extra", "extra");
            scene.file("dst/a/extra", "extra");
        };
        let bad = |scene: &Scene<'_>, copies: bool| {
            let route = scene.route();
            let run = scene.transfer("sync", &route, &["-a", "-F", "--delete"], &["src/"], "dst");
            let run = run.run().expect_code(23);
            assert!(run.err().contains(".rsync-filter"), "{run}");
            assert!(scene.exists("dst/a/b/extra") && scene.exists("dst/a/extra"), "{run}");
            assert_eq!(scene.exists("dst/a/b/new"), copies, "{run}");
        };
        prepare();
        scene.file("dst/a/.rsync-filter", "P x\nno rule\n");
        bad(scene, false);
        assert_eq!(scene.read("dst/c"), "beside it");
        prepare();
        scene.file("rules", "P extra\n");
        // A link of the user is followed. One of another user does not stop the copy.
        scene.symlink("../../rules", "dst/a/.rsync-filter");
        sh(scene, "chown -h 1234 dst/a/.rsync-filter");
        bad(scene, true);
        prepare();
        scene.symlink("../../rules", "src/a/.rsync-filter");
        sh(scene, "chown -h 1234 src/a/.rsync-filter");
        bad(scene, true);
    });
}

#[test]
fn a_dry_run_finds_out_what_would_make_way() {
    everywhere_by_pipe(|scene| {
        for flags in scene.share([
            &["-ain", "--delete"][..],
            &["-ain", "--force"],
            &["-ain"],
            &["-ain", "--delete", "--filter=P kept"],
            &["-aiHn", "--delete", "--link-dest=../prev"],
        ]) {
            scene.clear(&["src", "dst", "prev"]);
            scene.file("src/a", "a file");
            scene.symlink("a", "src/link");
            scene.mkdir("prev");
            for dir in ["a", "link"] {
                for name in ["kept", "d/e", "z"] {
                    scene.file(format!("dst/{dir}/{name}"), "x");
                }
            }
            let before = scene.list("dst");
            Pair::of(scene).run(flags, &["src/"], "dst");
            assert_eq!(scene.list("dst"), before, "{flags:?}");
        }
    });
}
