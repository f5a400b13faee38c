//! Where the sources end up.

use crate::common::*;
use std::fs;

#[test]
fn a_directory_receives_the_sources_under_their_names() {
    everywhere(|scene| {
        scene.file("a.txt", "a");
        scene.file("tree/sub/b.txt", "b");
        scene.mkdir("there");
        scene.copy(&["-r"], &["a.txt", "tree"], "there").run().expect_ok();
        assert_eq!(scene.list("there"), ["a.txt", "tree", "tree/sub", "tree/sub/b.txt"]);

        scene.symlink("there", "link");
        scene.file("c.txt", "c");
        scene.copy(&[], &["c.txt"], "link").run().expect_ok();
        assert_eq!(scene.read("there/c.txt"), "c");
        assert!(fs::symlink_metadata(scene.path("link")).expect("it is there").is_symlink());
    });
}

#[test]
fn a_dry_run_counts_a_missing_destination_as_the_real_one_does() {
    everywhere_by_pipe(|scene| {
        scene.file("one/a", "a");
        scene.file("two/b/b", "b");
        for sources in [&["one/.", "two/."][..], &["one/."], &["two"]] {
            let figures = ["-rn", "-r"].map(|flag| {
                let run = scene.copy(&[flag, "--json"], sources, "to/").run().expect_ok();
                let out = run.out();
                let last = out.lines().last().expect("a summary");
                let (_, dirs) = last.split_once("\"dirs\":").expect("directories");
                dirs.split(',').next().map(str::to_owned)
            });
            assert_eq!(figures[0], figures[1], "{sources:?}");
            scene.clear(&["to"]);
        }
    });
}

#[test]
fn a_missing_directory_is_made_if_it_ends_with_a_slash() {
    everywhere_by_pipe(|scene| {
        scene.file("a", "a");
        scene.file("b", "b");
        scene.copy(&[], &["a", "b"], "two//").run().expect_ok();
        assert_eq!(scene.list("two"), ["a", "b"]);
        scene.file("tree/c", "c");
        scene.copy(&["-r"], &["tree"], "one/").run().expect_ok();
        assert_eq!(scene.list("one"), ["tree", "tree/c"]);
    });
}

#[test]
fn a_slash_has_all_directories_above_made_too_and_a_new_name_has_none() {
    everywhere_by_pipe(|scene| {
        scene.file("a", "a");
        let run = scene.copy(&[], &["a"], "no/name").run().expect_code(4);
        let error = errors(&run).concat();
        assert!(error.contains("no/name: can't open the directory above it: "), "{run}");
        assert!(
            run.err().contains(
                "create the directory first, or end the destination with a slash to create it"
            ),
            "{run}"
        );
        scene.copy(&["-n"], &["a"], "x/y/z/").run().expect_ok();
        assert!(!scene.exists("no") && !scene.exists("x"));
        scene.copy(&[], &["a"], "x/y//z/").run().expect_ok();
        assert_eq!(scene.list("x"), ["y", "y/z", "y/z/a"]);
        // What is in the way stays, and so does what is above.
        let run = scene.copy(&[], &["a"], "x/y/z/a/new/").run().expect_code(4);
        assert!(errors(&run).concat().contains("x/y/z/a/new/: can't open the directory"), "{run}");
        assert_eq!(scene.list("x"), ["y", "y/z", "y/z/a"]);
    });
}

#[test]
fn any_other_destination_is_the_new_name() {
    everywhere_by_pipe(|scene| {
        scene.file("a", "a");
        scene.file("tree/sub/b", "b");
        scene.copy(&[], &["a"], "file").run().expect_ok();
        assert_eq!(scene.read("file"), "a");
        scene.copy(&["-r"], &["tree"], "copy").run().expect_ok();
        assert_eq!(scene.list("copy"), ["sub", "sub/b"]);
        // It is a directory now.
        scene.copy(&["-r"], &["tree/sub"], "copy").run().expect_ok();
        assert_eq!(scene.list("copy"), ["sub", "sub/b"]);
    });
}

#[test]
fn the_same_words_again_mean_the_same_place() {
    everywhere_by_pipe(|scene| {
        scene.file("many/sub/a", "a");
        scene.file("many/b", "b");
        scene.copy(&["-r"], &["many"], "bak").run().expect_ok();
        let again = || scene.copy(&["-r"], &["many"], "bak").run().expect_ok();
        assert!(again().out().starts_with("copied nothing"));
        scene.file("many/c", "c");
        scene.copy(&["-rn"], &["many"], "bak").run().expect_ok();
        let run = again();
        assert_eq!(scene.list("bak"), ["b", "c", "sub", "sub/a"], "{run}");
        // Also of what is made anew.
        fs::remove_dir_all(scene.path("many")).expect("removed");
        scene.file("many/d", "d");
        again();
        assert_eq!(scene.list("bak"), ["b", "c", "d", "sub", "sub/a"]);
        let checked = scene.transfer("check", &scene.route(), &["-r"], &["many"], "bak").run();
        assert!(!checked.out().contains("missing"), "{checked}");
        // Other words mean a directory in it, and so does a directory that is
        // somebody else's, though it is a copy of that one with its attributes.
        scene.file("other/many/e", "e");
        scene.copy(&["-r"], &["other/many"], "bak").run().expect_ok();
        assert_eq!(scene.list("bak/many"), ["e"]);
        scene.copy(&["-r"], &["many"], "slash/").run().expect_ok();
        scene.copy(&["-r"], &["many"], "slash/").run().expect_ok();
        assert_eq!(scene.list("slash"), ["many", "many/d"]);
        run_cp(scene, "bak", "bak-2");
        fs::rename(scene.path("bak"), scene.path("away")).expect("renamed");
        fs::rename(scene.path("bak-2"), scene.path("bak")).expect("renamed");
        fs::remove_dir_all(scene.path("bak/many")).expect("removed");
        again();
        if scene.way == Way::SftpUpload {
            // Of a host without haul only the path is known: it is taken for the same.
            assert!(!scene.exists("bak/many") && scene.exists("bak/d"));
        } else {
            assert_eq!(scene.list("bak/many"), ["d"]);
        }
    });
}

fn run_cp(scene: &Scene<'_>, from: &str, to: &str) {
    run(std::process::Command::new("cp").arg("-a").arg(scene.path(from)).arg(scene.path(to)));
}

#[test]
fn a_directory_in_itself_is_compared_with_what_was_made_of_it() {
    everywhere_by_pipe(|scene| {
        scene.file("many/many/a", "a");
        scene.file("many/b", "b");
        scene.copy(&["-r"], &["many"], "bak").run().expect_ok();
        scene.file("beside", "");
        let check = || scene.transfer("check", &scene.route(), &["-r"], &["many"], "bak").run();
        check().expect_ok();
        scene.file("many/many/a", "other");
        scene.file("bak/more", "");
        let run = check().expect_code(1);
        assert_eq!(run.out().lines().count(), 3, "{run}");
        for line in ["many/many/a", "many/more"] {
            assert!(run.out().contains(line), "{run}");
        }
    });
}

#[test]
fn a_killed_copy_continues_where_it_was_under_its_new_name() {
    everywhere_by_pipe(|scene| {
        haul_testkit::tree::many(scene.path("many"), 400, 20_000, 3, 7).expect("a tree");
        // Not the second in which the copy is made, which is all that SFTP tells.
        haul_testkit::nasty::set_mtime(scene.path("many"), 1_600_000_000, 0).expect("a time");
        let before = scene.snapshot("many");
        let copy = |flags: &[&str]| scene.copy(flags, &["many"], "new/bak");
        scene.mkdir("new");
        let running = copy(&["-rq"]).spawn().expect("it starts");
        let soon = std::time::Duration::from_secs(30);
        running.until(soon, || scene.exists("new/bak"));
        running.signal(haul_testkit::proc::Signal::KILL);
        running.wait().expect("it ends");
        let run = copy(&["-r"]).run().expect_ok();
        haul_testkit::assert_same_with(&before, &scene.snapshot("new/bak"), scene.rules());
        let strays = scene.list("new").iter().any(|name| name.contains(".haul-"));
        assert!(!strays, "{run}");
    });
}

#[test]
fn a_slash_after_a_file_is_no_new_name() {
    everywhere_by_pipe(|scene| {
        scene.file("a", "new content");
        scene.file("file", "old");
        let run = scene.copy(&[], &["a"], "file/").run().expect_code(4);
        let path = format!("{}", scene.path("file/").display());
        let (cause, hint) = match scene.way {
            Way::SftpUpload => ("not a directory", "remove or rename the entry at the destination"),
            _ => ("Not a directory", ""),
        };
        assert_one_error(&run, &path, cause, hint);
        assert_eq!(scene.read("file"), "old");
    });
}

#[test]
fn several_sources_need_a_directory() {
    everywhere_by_pipe(|scene| {
        scene.file("a", "a");
        scene.file("b", "b");
        scene.file("file", "old");
        for dest in ["missing", "file"] {
            let run = scene.copy(&[], &["a", "b"], dest).run().expect_code(2);
            let path = format!("{}", scene.path(dest).display());
            let cause = "not a directory, which several sources need; add a slash to create it";
            assert_one_error(&run, &path, cause, "");
        }
        assert!(!scene.exists("missing"));
        assert_eq!(scene.read("file"), "old");
    });
}

#[test]
fn sources_that_would_replace_each_other_are_refused() {
    everywhere_by_pipe(|scene| {
        scene.file("one/x", "1");
        scene.file("two/x", "2");
        scene.mkdir("there");
        let run = scene.copy(&["-r"], &["one/x", "two/x/"], "there").run().expect_code(2);
        assert!(run.err().contains("have the same destination: x\n  hint: "), "{run}");
        assert_eq!(scene.list("there"), [""; 0]);
    });
}

#[test]
fn a_directory_needs_leave_and_the_others_are_copied() {
    everywhere_by_pipe(|scene| {
        scene.file("tree/a", "a");
        scene.file("b", "b");
        scene.mkdir("there");
        let run = scene.copy(&[], &["tree", "b"], "there").run().expect_code(1);
        let path = format!("{}", scene.path("tree").display());
        assert_one_error(&run, &path, "it is a directory", "use -r");
        assert_eq!(scene.list("there"), ["b"]);
    });
}

#[test]
fn the_content_of_a_dot_goes_straight_into_the_destination() {
    everywhere_by_pipe(|scene| {
        scene.file("tree/sub/a", "a");
        scene.file("tree/.hidden", "h");
        mode(scene.path("tree"), 0o700);
        let there = scene.file("there/kept", "k").with_file_name("");
        mode(&there, 0o755);
        scene.copy(&["-r"], &["tree/."], "there").run().expect_ok();
        assert_eq!(scene.list("there"), [".hidden", "kept", "sub", "sub/a"]);
        assert_eq!(mode_of(there), 0o755, "the mode of a directory that stood before");
        // "sub/.." is the same directory.
        scene.copy(&["-r"], &["tree/sub/.."], "new/").run().expect_ok();
        assert_eq!(scene.list("new"), [".hidden", "sub", "sub/a"]);
    });
}

#[test]
fn a_slash_after_a_source_changes_nothing_but_follows_a_link() {
    everywhere_by_pipe(|scene| {
        scene.file("tree/a", "a");
        scene.symlink("tree", "link");
        scene.mkdir("there");
        scene.copy(&["-r"], &["tree//", "link/"], "there").run().expect_ok();
        assert_eq!(scene.list("there"), ["link", "link/a", "tree", "tree/a"]);
        scene.mkdir("again");
        scene.copy(&["-r"], &["tree", "link"], "again").run().expect_ok();
        assert_eq!(scene.list("again"), ["link", "tree", "tree/a"]);
        let link = fs::read_link(scene.path("again/link")).expect("a symbolic link");
        assert_eq!(link.to_str(), Some("tree"));
    });
}

#[test]
fn paths_here_start_in_the_working_directory() {
    let world = World::new();
    let scene = world.scene(Way::Local);
    scene.file("a:b", "a");
    scene.file("-x", "x");
    scene.file("sub/c", "c");
    let haul = || scene.haul().cwd(scene.path("sub")).arg("copy");
    haul().args(["c", "d"]).run().expect_ok();
    haul().args(["../a:b", "."]).run().expect_ok();
    haul().args(["-r", ".", "../all"]).run().expect_ok();
    assert_eq!(scene.list("all"), ["a:b", "c", "d"]);
    // A colon makes a host, unless a slash stands before it; a dash an option,
    // unless "--" does.
    scene.haul().args(["copy", "./a:b", "--", "-x", "sub"]).run().expect_ok();
    assert_eq!(scene.list("sub"), ["-x", "a:b", "c", "d"]);
}
