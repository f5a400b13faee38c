//! What only the destination has.

use crate::common::*;
use crate::oracle::Pair;
use std::fs;

#[test]
fn what_the_source_does_not_have_goes() {
    everywhere(|scene| {
        let pair = Pair::usual(scene);
        pair.run(&["-ain", "--delete"], &["src/"], "dst");
        pair.run(&["-ai", "--delete"], &["src/"], "dst");
        assert!(!scene.exists("dst/x") && !scene.exists("dst/d/e/extra"));
        let second = pair.run(&["-ai", "--delete"], &["src/"], "dst");
        assert_eq!(second.out(), "", "{second}");
    });
}

#[test]
fn it_goes_when_it_is_to_go() {
    everywhere(|scene| {
        for when in ["--delete-before", "--delete-after", "--delete-delay", "--delete-during"] {
            for tree in ["src", "dst"] {
                let _ = fs::remove_dir_all(scene.path(tree));
            }
            let pair = Pair::usual(scene);
            pair.run(&["-ain", when], &["src/"], "dst");
            pair.run(&["-ai", when], &["src/"], "dst");
            let second = pair.run(&["-ai", when], &["src/"], "dst");
            assert_eq!(second.out(), "", "{second}");
        }
    });
}

#[test]
fn what_rules_leave_out_stays_unless_that_is_to_go() {
    everywhere(|scene| {
        let prepare = || {
            for tree in ["src", "dst"] {
                let _ = fs::remove_dir_all(scene.path(tree));
            }
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
    everywhere(|scene| {
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
    everywhere(|scene| {
        scene.file("src/a", "a");
        for n in 0..5 {
            scene.file(format!("dst/extra{n}"), "x");
        }
        Pair::of(scene).run(&["-ai", "--delete", "--max-delete=3"], &["src/"], "dst");
        assert_eq!(scene.list("dst").len(), 3);
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
        assert!(run.err().contains("nothing is removed"), "{run}");
        assert!(scene.exists("dst/a/closed/kept") && scene.exists("dst/b/kept"));
        assert_eq!(scene.read("dst/b/y"), "y");
        let flags = ["-a", "--delete", "--ignore-errors"];
        let run = scene.transfer("sync", &route, &flags, &["src/"], "dst").run();
        run.expect_code(23);
        assert!(scene.exists("dst/a/closed/kept") && !scene.exists("dst/b/kept"));
        mode(scene.path("src/a/closed"), 0o700);
    });
}
