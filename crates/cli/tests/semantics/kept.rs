//! A tree as it arrives: with everything that is promised to be kept.

use crate::attributes::changed_at;
use crate::common::*;
use haul_testkit::{FileSystem, Mount, assert_same, assert_same_with, nasty, tree};
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::process::Command;

#[test]
fn a_nasty_tree_arrives_as_it_is_and_again_nothing_is_copied() {
    everywhere(|scene| {
        nasty::nasty(scene.path("nasty"), 1).expect("a nasty tree");
        if scene.is_sftp() {
            // It has no time before 1970.
            nasty::set_mtime(scene.path("nasty/times/before-1970"), 0, 0).expect("a time");
        }
        let source = scene.snapshot("nasty");
        scene.copy(&["-r"], &["nasty"], "copy").run().expect_ok();
        assert_same_with(&source, &scene.snapshot("copy"), scene.rules());
        assert_no_strays(&scene.path("copy"));

        let again = scene.copy(&["-r"], &["nasty/."], "copy").run().expect_ok();
        assert!(again.out().starts_with("copied nothing in "), "{again}");
        assert!(!again.out().contains("failed"), "{again}");
        assert_same_with(&source, &scene.snapshot("copy"), scene.rules().ignoring_root());
    });
}

#[test]
fn nothing_is_written_to_what_is_unchanged() {
    everywhere_by_pipe(|scene| {
        tree::sizes(scene.path("tree"), 1).expect("a tree");
        scene.symlink("one", "tree/link");
        mode(scene.mkdir("tree/closed"), 0o555);
        scene.copy(&["-r"], &["tree"], "to/").run().expect_ok();
        let before = (changed_at(&scene.path("tree")), changed_at(&scene.path("to/tree")));
        scene.copy(&["-r"], &["tree"], "to/").run().expect_ok();
        let after = (changed_at(&scene.path("tree")), changed_at(&scene.path("to/tree")));
        assert_eq!(before, after);
    });
}

#[test]
fn a_user_who_is_not_root_gets_the_same() {
    everywhere_as_nobody(|scene| {
        nasty::nasty(scene.path("nasty"), 2).expect("a nasty tree");
        for unreadable in ["file-000", "file-200"] {
            // Made only for root, who can read them.
            let _ = fs::remove_file(scene.path("nasty/modes").join(unreadable));
        }
        if scene.is_sftp() {
            // It has no time before 1970.
            nasty::set_mtime(scene.path("nasty/times/before-1970"), 0, 0).expect("a time");
        }
        scene.give_to_nobody("nasty");
        let source = scene.snapshot("nasty");
        scene.copy(&["-r"], &["nasty"], "copy").run().expect_ok();
        assert_same_with(&source, &scene.snapshot("copy"), scene.rules());

        // What is left is finished, in directories without leave to write too.
        let gone = scene.path("copy/modes/dir-555");
        mode(&gone, 0o755);
        fs::remove_file(gone.join("inside")).expect("removed");
        mode(&gone, 0o555);
        nasty::set_mtime(&gone, 5, 5).expect("a time");
        let again = scene.copy(&["-r"], &["nasty/modes"], "copy").run().expect_ok();
        assert!(again.out().starts_with("copied 1 file, 6 B in "), "{again}");
        assert_same_with(&source, &scene.snapshot("copy"), scene.rules().ignoring_root());
    });
}

#[test]
fn files_of_every_size_arrive_whole() {
    everywhere(|scene| {
        let made = tree::sizes(scene.path("sizes"), 3).expect("a tree");
        // On both sides of what goes in one piece, and of several pieces.
        for (seed, len) in [(512 << 10) - 1, 512 << 10, (512 << 10) + 1, (4 << 20) - 1, 9 << 20]
            .into_iter()
            .enumerate()
        {
            let path = scene.path("sizes").join(format!("more-{len}"));
            tree::random_file(path, len, seed as u64).expect("a file");
        }
        assert_eq!(made.files, 12);
        scene.copy(&["-r"], &["sizes"], "copy").run().expect_ok();
        assert_same_with(&scene.snapshot("sizes"), &scene.snapshot("copy"), scene.rules());
    });
}

#[test]
fn hundreds_of_directories_arrive() {
    everywhere_by_pipe(|scene| {
        tree::many(scene.path("many"), 700, 500, 350, 4).expect("a tree");
        let run = scene.copy(&["-r"], &["many"], "copy").run().expect_ok();
        assert!(run.out().starts_with("copied 700 files, 341.8 KiB in "), "{run}");
        assert_same_with(&scene.snapshot("many"), &scene.snapshot("copy"), scene.rules());
    });
}

#[test]
fn a_tree_deeper_than_any_path_can_say_arrives() {
    const LEVELS: usize = 300;
    everywhere_by_pipe(|scene| {
        tree::deep(scene.path("deep"), LEVELS, 5).expect("a tree");
        scene.copy(&["-r"], &["deep"], "copy").run().expect_ok();
        assert_eq!(tree::depth(scene.path("copy"), 5).expect("a tree"), LEVELS);
    });
}

#[test]
fn set_user_id_is_not_lent_to_the_new_owner() {
    everywhere_by_pipe(|scene| {
        scene.file("tree/dir/inside", "x");
        for (name, bits) in [("suid", 0o4755), ("sgid", 0o2711), ("both", 0o6755)] {
            mode(scene.file(format!("tree/{name}"), name), bits);
        }
        mode(scene.path("tree/dir"), 0o2755);
        scene.copy(&["-r"], &["tree"], "copy").run().expect_ok();
        scene.copy(&[], &["tree/suid"], "alone").run().expect_ok();
        let kept = ["copy/suid", "copy/sgid", "copy/both", "copy/dir", "alone"]
            .map(|name| mode_of(scene.path(name)));
        assert_eq!(kept.map(|mode| format!("{mode:o}")), ["755", "711", "755", "755", "755"]);
    });
}

#[test]
fn the_mask_takes_no_rights_away() {
    let masked = |scene: &mut Scene<'_>| {
        scene.reach_by_pipe();
        let lines = format!("umask 077\nexec '{HAUL}' \"$@\"");
        scene.run_as(script(&scene.path("masked"), &lines));
    };
    each_of(&Way::ALL, masked, |scene| {
        mode(scene.file("open", "x"), 0o666);
        mode(scene.file("secret", "x"), 0o600);
        mode(scene.mkdir("tree"), 0o777);
        scene.mkdir("there");
        scene.copy(&["-r"], &["open", "secret", "tree"], "there").run().expect_ok();
        let modes = ["open", "secret", "tree"].map(|name| mode_of(scene.path("there").join(name)));
        assert_eq!(modes, [0o666, 0o600, 0o777]);
    });
}

#[test]
fn a_directory_that_lends_its_group_continues_doing_so() {
    everywhere_by_pipe(|scene| {
        scene.file("tree/dir/x", "x");
        scene.mkdir("tree/dir/deeper");
        mode(scene.path("tree/dir"), 0o750);
        mode(scene.mkdir("there"), 0o2775);
        scene.copy(&["-r"], &["tree"], "there").run().expect_ok();
        assert_eq!(mode_of(scene.path("there/tree/dir")), 0o2750);
        for dir in ["there/tree", "there/tree/dir/deeper"] {
            assert_eq!(mode_of(scene.path(dir)) & 0o2000, 0o2000, "{dir}");
        }
        assert_eq!(mode_of(scene.path("there")), 0o2775);
    });
}

#[test]
fn root_is_reported_once_that_owners_are_not_kept() {
    if !is_root() {
        return;
    }
    everywhere_by_pipe(|scene| {
        for name in ["tree/a", "tree/b"] {
            let file = scene.file(name, "x");
            std::os::unix::fs::chown(file, Some(NOBODY), Some(NOBODY)).expect("given away");
        }
        let run = scene.copy(&["-r"], &["tree"], "to/").run().expect_ok();
        let owner = format!("owner {NOBODY} and group {NOBODY} are not preserved");
        assert_eq!(run.err().matches(&owner).count(), 1, "{run}");
        fs::remove_dir_all(scene.path("to")).expect("removed");
        let run = scene.copy(&["-rq"], &["tree"], "to/").run().expect_ok();
        assert_eq!(run.err(), "");
    });
}

#[test]
fn what_is_no_file_in_a_tree_is_passed_over_with_a_warning() {
    everywhere_by_pipe(|scene| {
        scene.file("tree/file", "x");
        run(Command::new("mkfifo").arg(scene.path("tree/fifo")));
        let _socket = UnixListener::bind(scene.path("tree/sock")).expect("a socket");
        let all = scene.copy(&["-r"], &["tree"], "copy").run().expect_ok();
        assert_eq!(scene.list("copy"), ["file"]);
        let warning =
            |name| format!("haul: warning: tree/{name}: a FIFO, socket or device: not copied\n");
        assert_eq!(all.err(), warning("fifo") + &warning("sock"));
        assert!(all.out().ends_with("; left out 2\n"), "{all}");
    });
}

#[test]
fn a_file_that_is_read_only_its_owner_may_copy_and_replace() {
    everywhere_as_nobody(|scene| {
        mode(scene.file("a", "new content"), 0o400);
        mode(scene.file("b", "old"), 0o444);
        scene.give_to_nobody("");
        scene.copy(&[], &["a"], "b").run().expect_ok();
        assert_eq!((scene.read("b").as_str(), mode_of(scene.path("b"))), ("new content", 0o400));
    });
}

#[test]
fn holes_stay_holes_and_a_hole_at_the_end_counts() {
    everywhere_by_pipe(|scene| {
        let file = fs::File::create(scene.path("a")).expect("a file");
        file.write_all_at(b"data", 3 << 20).expect("written");
        file.set_len(40 << 20).expect("extended");
        scene.copy(&[], &["a"], "b").run().expect_ok();
        assert_same_with(&scene.snapshot("a"), &scene.snapshot("b"), scene.rules());
        let meta = fs::metadata(scene.path("b")).expect("it is there");
        assert_eq!(meta.len(), 40 << 20);
        assert!(meta.blocks() * 512 < 1 << 20, "{} blocks", meta.blocks());
    });
}

#[test]
fn a_file_of_more_than_4_gib_arrives_whole() {
    const LEN: u64 = (5 << 30) + 1;
    let world = World::new();
    let scene = world.scene(Way::Local);
    let file = fs::File::create(scene.path("a")).expect("a file");
    file.set_len(LEN).expect("extended");
    for (content, at) in [(b"first", 7), (b"later", (4 << 30) + 3), (b"ended", LEN - 5)] {
        file.write_all_at(content, at).expect("written");
    }
    scene.copy(&[], &["a"], "b").run().expect_ok();
    let copy = fs::File::open(scene.path("b")).expect("a file");
    let meta = copy.metadata().expect("it is open");
    assert_eq!(meta.len(), LEN);
    assert!(meta.blocks() * 512 < 1 << 20, "{} blocks", meta.blocks());
    for (content, at) in [(b"first", 7), (b"later", (4 << 30) + 3), (b"ended", LEN - 5)] {
        let mut there = [0; 5];
        copy.read_exact_at(&mut there, at).expect("read");
        assert_eq!(&there, content);
    }
}

#[test]
fn a_single_name_may_be_any_bytes() {
    everywhere(|scene| {
        let name = os(b"\xff\n -\x1b[2J");
        scene.file(name, "x");
        scene.mkdir("there");
        scene.copy(&[], &[name], "there").run().expect_ok();
        assert_eq!(fs::read(scene.path("there").join(name)).expect("a file"), b"x");
        let other = os(b"\xfe:\r'$(id)'");
        scene.copy(&[], &[name], other).run().expect_ok();
        assert_eq!(fs::read(scene.path(other)).expect("a file"), b"x");
    });
}

#[test]
fn where_files_can_share_their_content_a_copy_takes_no_room() {
    each_of(
        &[Way::Local],
        |_| {},
        |scene| {
            let Some(mount) = Mount::image(FileSystem::Xfs, 300 << 20) else { return };
            scene.symlink(mount.path(), "disk");
            scene.mkdir("disk/from");
            // One that can be continued, and one that can't.
            tree::random_file(scene.path("disk/from/large"), 70 << 20, 1).expect("a file");
            tree::random_file(scene.path("disk/from/middling"), 5 << 20, 2).expect("a file");
            let taken = || {
                let told = Command::new("df").arg("--output=used").arg(mount.path()).output();
                let told = String::from_utf8(told.expect("df runs").stdout).expect("UTF-8");
                told.lines()
                    .last()
                    .and_then(|kib| kib.trim().parse::<u64>().ok())
                    .expect("a number")
            };
            let before = taken();
            scene.copy(&["-r"], &["disk/from"], "disk/to").run().expect_ok();
            assert_same(&scene.snapshot("disk/from"), &scene.snapshot("disk/to"));
            let more = taken().saturating_sub(before);
            assert!(more < 4 << 10, "{more} KiB were taken");
        },
    );
}

#[test]
fn a_named_file_is_copied_from_a_directory_that_can_only_be_searched() {
    everywhere_as_nobody(|scene| {
        scene.file("src/only-searched/file", "content");
        scene.give_to_nobody("src/only-searched");
        mode(scene.path("src/only-searched"), 0o311);
        scene.copy(&[], &["src/only-searched/file"], "dst").run().expect_ok();
        assert_eq!(scene.read("dst"), "content");
        mode(scene.path("src/only-searched"), 0o755);
    });
}
