//! Several directories that become one: what one of them has brought is not replaced
//! by another.

use crate::common::*;
use haul_testkit::nasty;
use std::fs;
use std::os::unix::fs::MetadataExt;

#[test]
fn no_source_replaces_what_another_has_brought() {
    everywhere_by_pipe(|scene| {
        scene.file("a/x", "first");
        scene.file("a/sub/y", "first");
        scene.file("b/x", "second");
        scene.file("b/sub/y", "the second");
        scene.file("b/sub/z", "other");
        scene.file("c/sub/z", "the last");
        scene.file("to/x", "before");
        let told = |run: &haul_testkit::haul::Outcome, one: &str, other: &str| {
            let [one, other] = [one, other].map(|path| scene.path(path).display().to_string());
            let line = format!("{one} and {other} have the same destination");
            assert_eq!(run.err().matches(&line).count(), 1, "{line}\n{run}");
        };
        // The second time nothing is new.
        for flags in [&["-r"][..], &["-r"], &["-r", "-f"], &["-rn"]] {
            let run = scene.copy(flags, &["a/.", "b/.", "c/."], "to").run().expect_code(1);
            assert_eq!(errors(&run).len(), 3, "{run}");
            told(&run, "a/x", "b/x");
            told(&run, "a/sub/y", "b/sub/y");
            told(&run, "b/sub/z", "c/sub/z");
            assert_eq!(scene.list("to"), ["sub", "sub/y", "sub/z", "x"]);
            let there = ["to/x", "to/sub/y", "to/sub/z"].map(|path| scene.read(path));
            assert_eq!(there, ["first", "first", "other"], "{run}");
        }
    });
}

#[test]
fn what_the_policy_would_leave_of_another_source_is_no_failure() {
    everywhere_by_pipe(|scene| {
        // Each file is a second younger than the one before.
        scene.file("a/kept", "first");
        scene.file("b/older", "older");
        scene.file("a/older", "younger");
        let copy = |flags: &[&str], to: &str| scene.copy(flags, &["a/.", "b/."], to).run();
        let run = copy(&["-r", "--update"], "updated/").expect_ok();
        assert_eq!(scene.read("updated/older"), "younger", "{run}");
        scene.file("b/kept", "second");
        let run = copy(&["-r", "--no-clobber"], "kept/").expect_ok();
        assert_eq!(scene.read("kept/kept"), "first", "{run}");
        // One that is younger than the first would replace it.
        let run = copy(&["-r", "--update"], "updated/").expect_code(1);
        assert_eq!((errors(&run).len(), &*scene.read("updated/kept")), (1, "first"), "{run}");
    });
}

#[test]
fn one_object_is_not_two_whatever_is_to_be_replaced() {
    everywhere_by_pipe(|scene| {
        scene.file("a/same", "same");
        scene.mkdir("b");
        fs::hard_link(scene.path("a/same"), scene.path("b/same")).expect("a link");
        for flags in ["--update", "--no-clobber", "--force"] {
            let run = scene.copy(&["-r", flags], &["a/.", "b/."], format!("to{flags}/")).run();
            run.expect_ok();
        }
    });
}

#[test]
fn sources_with_names_and_other_kinds_stand_in_the_way_of_each_other_too() {
    everywhere_by_pipe(|scene| {
        scene.file("a/file", "first");
        scene.file("a/dir/x", "first");
        scene.symlink("one", "a/link");
        scene.file("file", "second");
        scene.file("dir/x", "second");
        scene.file("b/dir", "a file");
        scene.file("b/file/x", "in a directory");
        scene.symlink("two", "b/link");
        let sources = ["a/.", "file", "dir", "b/."];
        let run = scene.copy(&["-r"], &sources, "to/").run().expect_code(1);
        assert_eq!(errors(&run).len(), 5, "{run}");
        assert_eq!(scene.list("to"), ["dir", "dir/x", "file", "link"]);
        let there = ["to/file", "to/dir/x"].map(|path| scene.read(path));
        assert_eq!(there, ["first", "first"], "{run}");
        let target = fs::read_link(scene.path("to/link")).expect("a link");
        assert_eq!(target.to_str(), Some("one"));
        // The other way round, and with a directory that is given twice.
        let run = scene.copy(&["-r"], &["file", "dir", "a/.", "a/."], "too/").run();
        let run = run.expect_code(1);
        let there = ["too/file", "too/dir/x"].map(|path| scene.read(path));
        assert_eq!(there, ["second", "second"], "{run}");
        assert_eq!(errors(&run).len(), 4, "{run}");
        // Without leave to copy directories, they have brought nothing.
        let run = scene.copy(&[], &["a/.", "file"], "flat/").run().expect_code(1);
        assert_eq!(scene.read("flat/file"), "second", "{run}");
    });
}

#[test]
fn a_directory_without_a_name_takes_no_sources_of_another_place_beside_it() {
    let world = World::new();
    let scene = world.scene(Way::Local);
    scene.file("a/x", "here");
    scene.mkdir("to");
    let sources = [scene.path("a/.").into_os_string(), scene.there(scene.path("b"))];
    let run = scene.haul().arg("copy").arg("-r").args(sources).arg("to").run().expect_code(2);
    assert!(run.err().contains("would replace them\n  hint: copy them separately"), "{run}");
    assert_eq!(scene.list("to"), [""; 0]);
}

#[test]
fn a_directory_of_several_sources_is_counted_once_and_is_like_the_first() {
    everywhere_by_pipe(|scene| {
        for file in ["a/d/1", "a/d/in/1", "b/d/2", "b/d/in/2", "b/e/2"] {
            scene.file(file, file);
        }
        mode(scene.path("a/d"), 0o750);
        nasty::set_mtime(scene.path("a/d"), 1_500_000_000, 0).expect("a time");
        scene.mkdir("to");
        let figures = |flags: &[&str]| {
            let run = scene.copy(flags, &["a/.", "b/."], "to/").run().expect_ok();
            let out = run.out();
            let line = out.lines().find(|line| line.contains("\"summary\"")).expect("a summary");
            let figure = |name: &str| {
                let (_, rest) = line.split_once(&format!("\"{name}\":")).expect("a figure");
                rest.split(',').next().expect("a number").to_owned()
            };
            ["copied", "dirs", "updated"].map(figure)
        };
        assert_eq!(figures(&["-r", "-n", "--json"]), ["5", "3", "0"]);
        assert_eq!(figures(&["-r", "--json"]), ["5", "3", "0"]);
        let there = fs::metadata(scene.path("to/d")).expect("there");
        assert_eq!((there.mode() & 0o777, there.mtime()), (0o750, 1_500_000_000));
        assert_eq!(figures(&["-r", "--json"]), ["0", "0", "0"]);
    });
}
