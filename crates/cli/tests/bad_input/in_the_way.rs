//! Something else stands at the destination already.

use crate::common::*;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::process::Command;

#[test]
fn a_file_is_not_replaced_by_a_directory_nor_the_reverse() {
    everywhere(|scene| {
        scene.file("tree/becomes-dir/x/y", "new");
        scene.file("tree/becomes-file", "new");
        scene.file("tree/fine", "new");
        scene.file("there/tree/becomes-dir", "old");
        scene.file("there/tree/becomes-file/x", "old");
        for flags in [&["-r"][..], &["-r", "--force"]] {
            let run = scene.copy(flags, &["tree"], "there").run().expect_code(1);
            let host = matches!(scene.way, Way::Upload | Way::SftpUpload | Way::Between);
            let host = if host { "haul-test:" } else { "" };
            let there = format!("{host}{}", scene.path("there").display());
            assert!(errors(&run).iter().all(|error| error.starts_with(&there)), "{there} {run}");
            assert_errors_end(
                &run,
                &[
                    "tree/becomes-dir: the destination has a file where a directory is needed",
                    "tree/becomes-file: the destination has a directory with this name",
                ],
            );
            assert_eq!(run.err().matches("  hint: ").count(), 2, "{run}");
        }
        assert_eq!(scene.read("there/tree/becomes-dir"), "old");
        assert_eq!(scene.read("there/tree/becomes-file/x"), "old");
        assert_eq!(scene.read("there/tree/fine"), "new");
    });
}

#[test]
fn the_destination_itself_can_be_of_the_wrong_kind() {
    everywhere_by_pipe(|scene| {
        scene.file("tree/x", "new");
        scene.file("file", "old");
        let run = scene.copy(&["-r"], &["tree"], "file").run().expect_code(1);
        let cause = "the destination has a file where a directory is needed";
        assert_one_error(&run, "file: ", cause, "remove or rename the entry at the destination");
        assert_eq!(scene.read("file"), "old");
    });
}

#[test]
fn nothing_is_written_through_a_link_where_a_directory_should_be() {
    everywhere_by_pipe(|scene| {
        scene.file("tree/sub/x", "new");
        scene.file("tree/sub/deeper/y", "new");
        scene.file("elsewhere/x", "old");
        scene.mkdir("there/tree");
        scene.symlink("../../elsewhere", "there/tree/sub");
        mode(scene.path("elsewhere"), 0o711);
        let before = scene.snapshot("elsewhere");
        let run = scene.copy(&["-r"], &["tree"], "there").run().expect_code(1);
        let cause = "the destination has a symbolic link where a directory is needed";
        assert_one_error(
            &run,
            "tree/sub",
            cause,
            "remove the symbolic link, or copy to its target: haul does not write through links",
        );
        haul_testkit::assert_same(&before, &scene.snapshot("elsewhere"));
        let link = fs::symlink_metadata(scene.path("there/tree/sub")).expect("it is there");
        assert!(link.is_symlink());
    });
}

#[test]
fn nothing_is_written_through_a_link_where_a_file_should_be() {
    everywhere_by_pipe(|scene| {
        scene.file("tree/x", "new");
        scene.file("tree/y", "new");
        scene.file("elsewhere", "old");
        scene.mkdir("there/tree");
        scene.symlink("../../elsewhere", "there/tree/x");
        scene.symlink("../../missing", "there/tree/y");
        scene.copy(&["-r"], &["tree"], "there").run().expect_ok();
        assert_eq!(scene.read("elsewhere"), "old");
        assert!(!scene.exists("missing"));
        for name in ["x", "y"] {
            let meta = fs::symlink_metadata(scene.path("there/tree").join(name));
            assert!(meta.expect("it is there").is_file(), "the link itself is replaced");
        }
    });
}

#[test]
fn devices_and_fifos_are_neither_replaced_nor_written_to() {
    everywhere_by_pipe(|scene| {
        scene.file("a", "new");
        run(Command::new("mkfifo").arg(scene.path("fifo")));
        let mut dests = vec!["fifo"];
        let device = scene.path("null");
        let made = Command::new("mknod").arg(&device).args(["c", "1", "3"]).output();
        if made.is_ok_and(|made| made.status.success()) {
            dests.push("null");
        }
        for dest in dests {
            for flags in [&[][..], &["--force"]] {
                let run = scene.copy(flags, &["a"], dest).run().expect_code(1);
                assert_one_error(
                    &run,
                    dest,
                    "the destination has a device, FIFO or socket with this name, which haul does not replace",
                    "",
                );
                let meta = fs::symlink_metadata(scene.path(dest)).expect("it is there");
                assert!(meta.file_type().is_fifo() || meta.file_type().is_char_device());
            }
        }
    });
}

#[test]
fn a_way_to_the_destination_that_cannot_be_made_names_what_stops_it() {
    everywhere_by_pipe(|scene| {
        scene.file("a", "a");
        scene.file("tree/b", "b");
        let (file, none) = (scene.file("file", "in the way"), scene.path("none"));
        let [file, none] = [file, none].map(|path| path.display().to_string());
        let in_the_way = "remove or rename the entry at the destination";
        let opened = |part: &str| format!("can't open {part} above it: ");
        for (dest, cause, hint) in [
            ("/proc/none/", "can't create the directory: ".to_owned(), ""),
            ("/proc/none/deep/er/", "can't create /proc/none above it: ".to_owned(), ""),
            (&format!("{file}/"), "can't open the directory: ".to_owned(), in_the_way),
            (&format!("{file}/x"), "can't open the directory above it: ".to_owned(), in_the_way),
            (&format!("{file}/x/y"), opened(&file), in_the_way),
            (&format!("{file}/x/y/z/"), opened(&file), in_the_way),
            (
                &format!("{none}/x/y"),
                opened(&none),
                "create the directory first, or end the destination with a slash to create it",
            ),
        ] {
            // Others than root may not even try that there.
            if dest.starts_with("/proc") && !is_root() {
                continue;
            }
            for (flags, source) in [(&[][..], "a"), (&["-r"], "tree")] {
                let run = scene.copy(flags, &[source], dest).run().expect_code(4);
                assert_one_error(&run, dest, &format!("{dest}: {cause}"), hint);
                let why = [
                    "o such file or directory",
                    "ot a directory",
                    "the kernel generates its content, as in /proc: nothing can be added",
                ];
                assert!(why.iter().any(|why| run.err().contains(why)), "{run}");
            }
        }
        assert!(scene.read("file") == "in the way" && !scene.exists("none"));
    });
}

#[test]
fn directories_above_a_mirror_that_are_missing_have_a_word_of_its_own() {
    each_way_by_pipe(|scene| {
        scene.file("tree/b", "b");
        let sync = |flags: &[&str]| {
            let words = [&["-r"], flags].concat();
            scene.transfer("sync", &scene.route(), &words, &["tree"], "no/such/").run()
        };
        let run = sync(&[]).expect_code(11);
        assert!(run.err().contains("can't open the directory above it: "), "{run}");
        assert!(
            run.err().contains("create the directories above it first, or use --mkpath"),
            "{run}"
        );
        sync(&["--mkpath"]).expect_ok();
        // A file gets a new name there.
        let named = |flags: &[&str]| {
            let words = [&["-i", "--mkpath"], flags].concat();
            let run = scene.transfer("sync", &scene.route(), &words, &["tree/b"], "new/dir/c");
            let run = run.run().expect_ok();
            // Directories that were created have a line before it.
            run.out().lines().last().map(|line| line[1..].to_owned()).expect("a line")
        };
        assert_eq!(named(&["-n"]), "f+++++++++ b");
        assert!(!scene.exists("new"));
        assert_eq!(named(&[]), "f+++++++++ b");
        assert_eq!((&*scene.list("new")[1], &*scene.read("new/dir/c")), ("dir/c", "b"));
    });
}
