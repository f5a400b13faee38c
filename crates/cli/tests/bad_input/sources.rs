//! Sources that are not there.

use crate::common::*;

#[test]
fn a_missing_source_is_reported_and_the_others_are_copied() {
    everywhere(|scene| {
        scene.file("a", "a");
        scene.file("b", "b");
        scene.mkdir("there");
        let run = scene.copy(&[], &["a", "missing", "b"], "there").run().expect_code(1);
        let path = format!("{}", scene.path("missing").display());
        assert_one_error(&run, &path, "no such file or directory", "");
        assert_eq!(scene.list("there"), ["a", "b"]);
        assert!(run.out().starts_with("copied 2 files, 2 B in "), "{run}");
        assert!(run.out().ends_with("; failed 1\n"), "{run}");
    });
}

#[test]
fn the_path_to_a_source_can_be_missing_or_lead_through_a_file() {
    each_way_by_pipe(|scene| {
        scene.file("a", "a");
        for (source, cause) in [
            ("no/such/file", "no such file or directory"),
            ("a/b", "can't open: Not a directory"),
            ("no/.", "no such file or directory"),
        ] {
            let run = scene.copy(&["-r"], &[source], "dest").run().expect_code(1);
            let expected = format!("{}: {cause}", scene.path(source).display());
            assert_errors_end(&run, &[expected]);
            assert!(!scene.exists("dest"));
        }
    });
}

#[test]
fn a_missing_source_leaves_an_existing_destination_alone() {
    everywhere_by_pipe(|scene| {
        scene.file("dest", "old");
        for flags in [&[][..], &["--force"]] {
            scene.copy(flags, &["missing"], "dest").run().expect_code(1);
            assert_eq!(scene.read("dest"), "old");
        }
        scene.symlink("missing", "dangling");
        let run = scene.copy(&["-L"], &["dangling"], "dest").run().expect_code(1);
        assert!(run.err().contains("it is a dangling symbolic link"), "{run}");
        assert_eq!(scene.read("dest"), "old");
    });
}

#[test]
fn an_error_in_one_copy_does_not_hide_in_many() {
    each_way_by_pipe(|scene| {
        for n in 0..300 {
            scene.file(format!("tree/{n:03}"), "x");
        }
        scene.symlink("missing", "tree/150-dangling");
        let run = scene.copy(&["-rL"], &["tree"], "copy").run().expect_code(1);
        assert_one_error(&run, "tree/150-dangling", "dangling", "");
        assert_eq!(scene.list("copy").len(), 300);
    });
}

#[test]
fn signs_for_a_shell_that_is_not_there_are_reported_where_nothing_has_that_name() {
    each_of(
        &[Way::Local, Way::Download, Way::SftpDownload],
        |_| {},
        |scene| {
            scene.file("a", "a");
            let signs = [
                ("{a,b}", "write braces outside of quotes"),
                ("\"a\"", "quote the path once"),
                ("$HOME", "write the path without variables"),
                ("{a,b}*", "write braces outside of quotes"),
            ];
            for (name, hint) in signs {
                let is_here = scene.way == Way::Local;
                let hint = if is_here { "" } else { hint };
                let run = scene.copy(&[], &[name], "new").run().expect_code(1);
                assert_one_error(&run, &format!("{}", scene.path(name).display()), "no", hint);
                let json = scene.copy(&["--json"], &[name], "new").run().expect_code(1);
                assert_eq!(json.out().contains("\"hint\":"), !is_here, "{json}");
            }
            // A name that is there is that.
            scene.file("{a,b}", "braces");
            scene.copy(&[], &["{a,b}"], "new").run().expect_ok();
            assert_eq!(scene.read("new"), "braces");
        },
    );
}
