//! Destinations that take nothing more.

use crate::common::*;
use haul_testkit::{Mount, assert_same_with, nasty, tree};
use std::fs;
use std::path::Path;

/// Room on the small file systems of these tests.
const ROOM: u64 = 2 << 20;

/// Runs `test` in every way with a small file system at `small`, if the
/// machine lets one mount.
fn each_way_on_a_small_file_system(test: impl Fn(&Scene<'_>, &Mount) + Sync) {
    everywhere_by_pipe(|scene| {
        let Some(mount) = Mount::tmpfs(ROOM) else { return };
        scene.symlink(mount.path(), "small");
        test(scene, &mount);
    });
}

/// How a full destination is told. A server has no word for it, and haul its own.
fn no_space(scene: &Scene<'_>) -> &'static str {
    match scene.way {
        Way::SftpUpload => "no space is left on the host",
        _ => "No space left on device",
    }
}

/// The way to remove what is kept there, as it is told: an SFTP server has no haul.
fn removal(scene: &Scene<'_>) -> &'static str {
    if scene.way == Way::SftpUpload { "with sftp's 'rm'" } else { "'haul clean -a DIR'" }
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).expect("a directory");
    let name = |entry: std::io::Result<fs::DirEntry>| entry.expect("an entry").file_name();
    let mut names: Vec<String> =
        entries.map(|entry| name(entry).to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_full_destination_ends_the_copy_and_keeps_the_old_file() {
    each_way_on_a_small_file_system(|scene, mount| {
        fs::write(mount.join("big"), "old").expect("written");
        tree::random_file(scene.path("big"), 3 * ROOM, 1).expect("a file");
        let run = scene.copy(&[], &["big"], "small").run().expect_code(4);
        let cause = no_space(scene);
        assert_one_error(&run, "big", cause, "free space at the destination, then run the same");
        assert_eq!(fs::read(mount.join("big")).expect("a file"), b"old");
        assert_eq!(names(mount.path()), ["big"]);
        // Nothing holds the room that was taken for it.
        fs::write(mount.join("filler"), vec![1; ROOM as usize * 3 / 4]).expect("there is room");
    });
}

#[test]
fn with_more_room_the_same_command_finishes() {
    each_way_on_a_small_file_system(|scene, mount| {
        let made = tree::many(scene.path("tree"), 100, 10_000, 3, 2).expect("a tree");
        // What was made in the same second is the same to a server that keeps whole ones.
        for dir in ["tree", "tree/dir-000", "tree/dir-001", "tree/dir-002"] {
            nasty::set_mtime(scene.path(dir), 1_600_000_000, 0).expect("a time");
        }
        fs::write(mount.join("filler"), vec![1; ROOM as usize / 2 + 300_000]).expect("written");
        assert!(made.bytes + ROOM / 2 + 300_000 > ROOM);
        let run = scene.copy(&["-r"], &["tree"], "small").run().expect_code(4);
        let cause = no_space(scene);
        assert_one_error(&run, "tree", cause, "free space at the destination");
        assert_no_strays(mount.path());
        let copied = tree::count(mount.join("tree")).expect("counted").files;
        assert!((1..100).contains(&copied), "{copied} files\n{run}");
        assert!(run.out().starts_with(&format!("copied {copied} files, ")), "{copied}: {run}");

        fs::remove_file(mount.join("filler")).expect("removed");
        let run = scene.copy(&["-r"], &["tree"], "small").run().expect_ok();
        assert!(run.out().contains(&format!("; skipped {copied}")), "{copied}: {run}");
        let (source, there) = (scene.snapshot("tree"), scene.snapshot("small/tree"));
        assert_same_with(&source, &there, scene.rules());
    });
}

#[test]
fn a_path_in_the_message_of_a_full_destination_is_escaped_once() {
    each_way_on_a_small_file_system(|scene, _| {
        tree::random_file(scene.path("a\nb\\c"), 2 * ROOM, 1).expect("a file");
        let run = scene.copy(&[], &["a\nb\\c"], "small").run().expect_code(4);
        let needed = format!(": the file needs {}.0 MiB, but ", (2 * ROOM) >> 20);
        assert!(run.err().contains(&needed), "{run}");
        assert!(run.err().contains(removal(scene)), "{run}");
        assert!(is_about(&run.err(), "small/a\\nb\\\\c: can't "), "{run}");
    });
}

#[test]
fn what_is_kept_of_a_large_file_on_a_full_disk_is_reported_and_can_be_removed() {
    everywhere(|scene| {
        let Some(mount) = Mount::tmpfs(40 << 20) else { return };
        scene.symlink(mount.path(), "small");
        tree::random_file(scene.path("big"), 70 << 20, 1).expect("a file");
        // In the order of the file, so that its beginning is there.
        let is_wire = matches!(scene.way, Way::Upload | Way::Download);
        let in_order: &[&str] = &["--via", "ssh", "--parallel", "1"];
        let flags = if is_wire { in_order } else { &[] };
        let run = scene.copy(flags, &["big"], "small").run().expect_code(4);
        let told = run.err();
        if scene.way != Way::Local && scene.way != Way::SftpDownload {
            // There is a look at the room before, and nothing is sent.
            let on = if scene.way == Way::SftpUpload { " on the host" } else { "" };
            let room =
                format!("not enough space{on}: the file needs 70.0 MiB, but 40.0 MiB are free\n");
            assert!(told.contains(&room) && told.contains(removal(scene)), "{run}");
            assert!(names(mount.path()).is_empty(), "{run}");
            return;
        }
        assert!(told.contains("the file needs 70.0 MiB, but 0 B are free; "), "{run}");
        assert!(told.contains(" MiB are kept for resuming,"), "{run}");
        assert!(!names(mount.path()).is_empty());
        scene.haul().args(["clean", "-a"]).arg(mount.path()).run().expect_ok();
        assert!(names(mount.path()).is_empty());
    });
}

/// Blocks come over several connections in no order, and those in front are on record.
#[test]
fn what_is_reported_to_be_kept_of_several_connections_is_what_the_next_run_finds() {
    each_of(
        &[Way::Upload, Way::Download],
        |_| {},
        |scene| {
            let Some(mount) = Mount::tmpfs(90 << 20) else { return };
            scene.symlink(mount.path(), "small");
            // With a hole, so that nobody knows beforehand that there is no room.
            tree::random_file(scene.path("big"), 70 << 20, 1).expect("a file");
            let file = fs::File::options().write(true).open(scene.path("big")).expect("a file");
            file.set_len(74 << 20).expect("longer");
            fs::write(mount.join("filler"), vec![1; 50 << 20]).expect("written");
            let flags = ["-v", "--via", "tcp", "--parallel", "4"];
            let run = scene.copy(&flags, &["big"], "small").run().expect_code(4);
            let told = run.err();
            // Where the first block was not there yet, nothing is.
            let kept = told.split_once(" MiB are kept");
            let kept = kept.and_then(|(before, _)| before.rsplit("; ").next());
            fs::remove_file(mount.join("filler")).expect("removed");
            let again = scene.copy(&flags, &["big"], "small").run().expect_ok();
            let found = " MiB already there";
            match kept {
                Some(kept) => {
                    assert!(again.out().contains(&format!("; {kept}{found}")), "{run}\n{again}");
                }
                None => assert!(!again.out().contains(found), "{run}\n{again}"),
            }
            assert!(
                fs::read(mount.join("big")).expect("read")
                    == fs::read(scene.path("big")).expect("read")
            );
        },
    );
}

#[test]
fn a_destination_without_inodes_is_reported_as_that_and_has_what_found_room() {
    const INODES: u64 = 40;
    everywhere_by_pipe(|scene| {
        let Some(mount) = Mount::tmpfs_of_inodes(INODES) else { return };
        scene.symlink(mount.path(), "small");
        for number in 0..2 * INODES {
            scene.file(format!("tree/{number}"), "content");
        }
        let run = scene.copy(&["-r"], &["tree"], "small").run().expect_code(4);
        assert_one_error(&run, "small/tree/", "each file needs an inode, but ", "free space");
        // The root, the directory, and, for a moment, what is on its way.
        let copied = scene.list("small/tree").len() as u64;
        assert!(copied >= INODES / 2, "{copied}\n{run}");
        assert!(run.out().starts_with(&format!("copied {copied} files, ")), "{copied}: {run}");
        assert_no_strays(mount.path());
    });
}

#[test]
fn a_file_beyond_the_limit_on_sizes_fails_alone() {
    const LIMIT: u64 = 1 << 20;
    each_of(
        &[Way::Local, Way::Upload, Way::Download, Way::SftpDownload],
        |scene| {
            // The agent that it starts has the same limit.
            let limited = format!("exec prlimit --fsize={LIMIT} {HAUL} \"$@\"");
            scene.run_as(script(&scene.path("haul-limited"), &limited));
            scene.reach_by_pipe();
        },
        |scene| {
            scene.mkdir("tree");
            for (name, len) in [("a", LIMIT), ("b", LIMIT + 1), ("c", 9 << 20), ("d", 70 << 20)] {
                tree::random_file(scene.path(format!("tree/{name}")), len, 1).expect("a file");
            }
            scene.file("tree/e", "small");
            let run = scene.copy(&["-r"], &["tree"], "to/").run().expect_code(1);
            for name in ["b", "c", "d"] {
                let told = errors(&run).iter().any(|error| {
                    is_about(error, &format!("tree/{name}:")) && error.contains("File too large")
                });
                assert!(told, "{name}\n{run}");
            }
            assert_eq!(scene.list("to/tree"), ["a", "e"]);
            let run = scene.copy(&["-r", "--json"], &["tree"], "to/").run().expect_code(1);
            assert_eq!(run.out().matches("\"kind\":\"too_large\"").count(), 3, "{run}");
        },
    );
}

#[test]
fn a_read_only_destination_ends_the_copy() {
    each_way_on_a_small_file_system(|scene, mount| {
        fs::write(mount.join("a"), "old").expect("written");
        mount.remount_read_only().expect("remounted");
        scene.file("a", "new content");
        scene.file("tree/x", "x");
        let hint = "remount the destination writable, or choose another one";
        for (source, dest, path) in [
            ("a", "small", "a".to_owned()),
            ("tree", "small", "tree".to_owned()),
            ("tree", "small/new/", format!("{}", scene.path("small/new/").display())),
        ] {
            let run = scene.copy(&["-r"], &[source], dest).run().expect_code(4);
            let cause = match scene.way {
                Way::SftpUpload => "mounted read-only",
                _ => "Read-only file system",
            };
            assert_one_error(&run, &path, cause, hint);
        }
        assert_eq!(names(mount.path()), ["a"]);
        assert_eq!(fs::read(mount.join("a")).expect("a file"), b"old");
    });
}

#[test]
fn a_read_only_destination_that_has_it_all_is_fine() {
    each_way_on_a_small_file_system(|scene, mount| {
        scene.file("tree/x", "x");
        scene.copy(&["-r"], &["tree"], "small").run().expect_ok();
        mount.remount_read_only().expect("remounted");
        let run = scene.copy(&[], &["tree/x"], "small/tree").run().expect_ok();
        assert!(run.out().starts_with("copied nothing"), "{run}");
    });
}
