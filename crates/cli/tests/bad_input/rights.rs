//! Sources that the user may not read, and places where the user may not write.

use crate::common::*;
use haul_testkit::{FileSystem, Mount, fixture, nasty, tree};
use std::os::unix::fs::MetadataExt;

#[test]
fn what_cannot_be_read_is_reported_and_the_others_are_copied() {
    everywhere_as_nobody(|scene| {
        for name in ["tree/a", "tree/closed/x", "tree/listed/x", "tree/secret", "tree/z"] {
            scene.file(name, "x");
        }
        scene.give_to_nobody("tree");
        mode(scene.path("tree/secret"), 0o000);
        mode(scene.path("tree/closed"), 0o000);
        // It can be opened, and not entered.
        mode(scene.path("tree/listed"), 0o400);
        let run = scene.copy(&["-r"], &["tree"], "copy").run().expect_code(1);
        mode(scene.path("copy/listed"), 0o700);
        mode(scene.path("tree/closed"), 0o700);
        // SFTP opens a directory to read it.
        let closed = if scene.way == Way::SftpDownload { "read" } else { "open" };
        assert_errors_end(
            &run,
            &[
                &format!("tree/closed: can't {closed} the directory: permission denied"),
                "tree/listed: can't read the directory: permission denied",
                "tree/secret: can't open: permission denied",
            ],
        );
        assert_eq!(run.err().matches("  hint: ").count(), 1, "{run}");
        assert!(run.err().contains("  hint: you need read permission there"), "{run}");
        // A host without haul keeps in mind which copy the directory was made for.
        let mut there = scene.list("copy");
        there.retain(|name| !(scene.way == Way::SftpUpload && name.starts_with(".haul-")));
        // SFTP tells what can't be entered when its directory has been made.
        there.retain(|name| !(scene.way == Way::SftpDownload && name == "closed"));
        assert_eq!(there, ["a", "listed", "z"]);
        assert!(run.out().ends_with("; failed 3\n"), "{run}");
    });
}

#[test]
fn a_source_that_cannot_be_read_replaces_nothing() {
    everywhere_as_nobody(|scene| {
        mode(scene.file("secret", "new"), 0o000);
        scene.file("dest", "old");
        scene.give_to_nobody("");
        let run = scene.copy(&[], &["secret"], "dest").run().expect_code(1);
        let cause = "ermission denied";
        assert_one_error(
            &run,
            "secret",
            cause,
            "you need read permission there, and search permission on the directories above",
        );
        assert_eq!(scene.read("dest"), "old");
    });
}

#[test]
fn a_destination_without_leave_to_write_stays_as_it_is() {
    everywhere_as_nobody(|scene| {
        scene.file("a", "new");
        scene.file("tree/sub/b", "b");
        scene.give_to_nobody("");
        // Another user's directory: nobody's own would be made writable.
        scene.file("locked/a", "old");
        if scene.path("locked").metadata().expect("it is there").uid() == 0 {
            mode(scene.path("locked"), 0o755);
        } else {
            mode(scene.path("locked"), 0o555);
        }
        let hint = "get read, write and search permission on the directory";

        let run = scene.copy(&[], &["a"], "locked").run().expect_code(1);
        let cause = match scene.way {
            Way::SftpUpload => "can't make the file: permission denied",
            _ => "can't create a file in the directory: Permission denied",
        };
        assert_one_error(&run, "locked/a: ", cause, hint);
        // A whole tree fails with its top, and says so once.
        let run = scene.copy(&["-r"], &["tree"], "locked").run().expect_code(1);
        let cause = match scene.way {
            Way::SftpUpload => "can't create the directory: permission denied",
            _ => "can't create the directory: Permission denied",
        };
        assert_one_error(&run, "locked/tree: ", cause, hint);
        // So does one that gets another name, and that is the name that is told.
        let run = scene.copy(&["-r"], &["tree"], "locked/new").run().expect_code(1);
        assert_one_error(&run, "locked/new: ", cause, hint);
        assert!(run.out().ends_with("; failed 3\n"), "{run}");
        // The destination itself can't be made.
        let run = scene.copy(&[], &["a"], "locked/new/").run().expect_code(4);
        assert_one_error(&run, &format!("{}", scene.path("locked/new/").display()), cause, hint);

        mode(scene.path("locked"), 0o755);
        assert_eq!(scene.list("locked"), ["a"]);
        assert_eq!(scene.read("locked/a"), "old");
    });
}

#[test]
fn rights_that_cannot_be_tightened_fail_the_entry() {
    if !is_root() {
        return fixture::missing("root, who can give files away");
    }
    everywhere_as_nobody(|scene| {
        for name in ["tree/a", "tree/b", "tree/sub/c"] {
            scene.file(name, "x");
        }
        mode(scene.path("tree/sub"), 0o777);
        scene.give_to_nobody("tree");
        scene.copy(&["-r"], &["tree"], "copy/").run().expect_ok();
        // What another user's became: it can be read and entered, and is the same.
        for (name, rights) in [("copy/tree/a", 0o644), ("copy/tree/sub", 0o777)] {
            std::os::unix::fs::chown(scene.path(name), Some(0), Some(0)).expect("given away");
            mode(scene.path(name), rights);
        }
        mode(scene.path("tree/a"), 0o600);
        mode(scene.path("tree/sub"), 0o700);
        for flags in [&["-r"][..], &["-rq"]] {
            let run = scene.copy(flags, &["tree"], "copy/").run().expect_code(1);
            let why = match scene.way {
                Way::SftpUpload => "permission denied",
                _ => "operation not permitted",
            };
            assert_errors_end(
                &run,
                &[
                    format!("copy/tree/a: can't set the file's attributes: {why}"),
                    format!("copy/tree/sub: can't set the directory's attributes: {why}"),
                ],
            );
        }
        // Where nothing is to be set there is nothing to fail.
        mode(scene.path("tree/a"), 0o644);
        mode(scene.path("tree/sub"), 0o777);
        let time = scene.path("copy/tree/sub").metadata().expect("it is there");
        let nanos = u32::try_from(time.mtime_nsec()).expect("less than a second");
        nasty::set_mtime(scene.path("tree/sub"), time.mtime(), nanos).expect("a time");
        scene.copy(&["-r"], &["tree"], "copy/").run().expect_ok();
    });
}

/// A move begun anew finds copies that nobody may write to, and makes them durable.
#[test]
fn what_may_only_be_read_is_moved_where_it_is_there_already() {
    everywhere_as_nobody(|scene| {
        scene.file("src/read-only", "1");
        scene.file("src/other", "2");
        scene.give_to_nobody("");
        mode(scene.path("src/read-only"), 0o444);
        scene.copy(&["-r"], &["src"], "there/").run().expect_ok();
        let run = scene.transfer("move", &scene.route(), &[], &["src"], "there/").run().expect_ok();
        assert!(run.out().contains("moved 2"), "{run}");
        assert_eq!((scene.exists("src"), scene.read("there/src/read-only")), (false, "1".into()));
    });
}

#[test]
fn nothing_is_left_where_nothing_can_be_removed() {
    each_of(
        &[Way::Local, Way::Upload, Way::Download],
        |scene| scene.reach_by_pipe(),
        |scene| {
            let Some(mount) = Mount::image(FileSystem::Ext4, 256 << 20) else { return };
            scene.symlink(mount.path(), "to");
            scene.file("tree/new", "new");
            scene.file("tree/old", "changed");
            tree::random_file(scene.path("tree/large"), 65 << 20, 1).expect("a file");
            sh(scene, "mkdir to/tree; echo old > to/tree/old; chattr +a to/tree");
            let files = ["tree/new", "tree/old", "tree/large"];
            let run = scene.copy(&[], &files, "to/tree").run();
            let names = scene.list("to/tree");
            sh(scene, "chattr -a to/tree");
            assert_one_error(&run.expect_code(1), "tree/old", "the directory is append-only", "");
            assert_eq!(names, ["large", "new", "old"]);
            assert_eq!(scene.read("to/tree/old"), "old\n");
        },
    );
}
