//! Moves of what has more than a name, a mode and a time: all of it comes along, and what
//! the destination can't hold stays, unless the user does without.

use super::common::*;
use super::{Stage, To, each_target};
use haul_testkit::haul::Outcome;
use haul_testkit::nasty::{set_acl, set_attribute, set_mode, set_mtime};
use haul_testkit::odd::{Errno, OddMount, Quirks};
use haul_testkit::{FileSystem, Mount, fixture};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, chown, lchown};
use std::path::Path;
use std::process::Command;

/// Gives a file something, and what is said where that can't be kept.
type Case = (&'static str, fn(&Path) -> std::io::Result<()>, &'static str);

const CASES: &[Case] = &[
    ("owner", |path| chown(path, Some(12), None), "its owner (12) would be lost"),
    ("group", |path| chown(path, None, Some(12)), "its group (12) would be lost"),
    ("set-id", |path| set_mode(path, 0o4755), "its set-ID bits would be lost"),
    ("acl", |path| set_acl(path, false), "its ACL would be lost"),
    ("xattr", |path| set_attribute(path, "user.a", b"1"), "its extended attributes would be lost"),
    (
        "trusted",
        |path| set_attribute(path, "trusted.a", b"1"),
        "its extended attributes would be lost",
    ),
];

/// A tree with all that can be had, as a script.
const RICH: &str = "
    mkdir -p tree/dir tree/open tree/shared
    echo one > tree/one; echo two > tree/two; echo three > tree/dir/three
    ln tree/one tree/dir/again; ln tree/one tree/open/again
    cp /bin/true tree/lends; chown 1234:4321 tree/lends; chmod 6755 tree/lends
    chown 1234:4321 tree/dir/three tree/open
    chown 77:88 tree/one
    setfacl -m u:1234:rw,g:4321:r tree/one
    setfacl -d -m u:1234:rwx tree/open
    setfattr -n user.colour -v blue tree/one
    setfattr -n user.empty tree/dir
    setfattr -n trusted.secret -v yes tree/two
    setfattr -n security.capability -v 0x0100000200200000000000000000000000000000 tree/dir/three
    chgrp 4321 tree/shared; chmod 2770 tree/shared
    ln -s one tree/link; chown -h 12:34 tree/link; ln tree/link tree/dir/link
    mkfifo tree/fifo; chown 12:34 tree/fifo; mknod tree/null c 1 3; mknod tree/dir/disk b 7 9
    touch -h -d 2001-02-03T04:05:06.7Z tree/link tree/fifo
";

/// Where it takes a copy to move something: the source is on a file system with
/// attributes and ACLs, and root moves it.
fn each_copying_target(test: impl Fn(&Stage<'_, '_>) + Sync) {
    each_target(|stage| {
        let probe = stage.scene.file("probe", "");
        for (what, give, _) in CASES {
            if let Err(error) = give(&probe) {
                return fixture::missing(format_args!("{what} of a file ({error})"));
            }
        }
        fs::remove_file(probe).expect("removed");
        if stage.to != To::Here {
            test(stage);
        }
    });
}

/// The objects that are named so below `root`.
fn objects(root: &Path, names: &[&str]) -> Vec<u64> {
    let inode = |name: &&str| root.join(name).symlink_metadata().expect("it is there").ino();
    names.iter().map(inode).collect()
}

/// True if all of them are one.
fn is_one(root: &Path, names: &[&str]) -> bool {
    objects(root, names).windows(2).all(|pair| pair[0] == pair[1])
}

/// A file system here that has no extended attributes and no ACLs.
fn without_attributes() -> Option<Mount> {
    fixture::made("a ramfs", Mount::try_ramfs())
}

#[test]
fn all_that_a_tree_has_is_copied() {
    each_copying_target(|stage| {
        let scene = stage.scene;
        for (dest, at) in [("to", "to/tree"), ("renamed", "renamed")] {
            sh(scene, RICH);
            let before = attributes(&scene.path("tree"));
            let times = |root: &Path| {
                let times = ["link", "fifo", "one", "dir", "null"].map(|name| {
                    root.join(name).symlink_metadata().map(|m| (m.mtime(), m.mtime_nsec())).ok()
                });
                times.to_vec()
            };
            let times_before = times(&scene.path("tree"));
            stage.run(&[], &["tree"], dest).expect_ok();
            assert!(!scene.exists("tree"), "{:?}", stage.to);
            let there = stage.there(at);
            assert_eq!(attributes(&there), before, "{:?}", stage.to);
            assert_eq!(times(&there), times_before, "{:?}", stage.to);
            assert!(is_one(&there, &["one", "dir/again", "open/again"]), "{:?}", stage.to);
            assert!(is_one(&there, &["link", "dir/link"]), "{:?}", stage.to);
            let device = fs::metadata(there.join("null")).expect("a device");
            assert_eq!((device.rdev(), device.file_type().is_char_device()), (0x103, true));
            fs::remove_dir_all(there).expect("removed");
        }
    });
}

#[test]
fn each_thing_that_a_file_has_is_copied() {
    each_copying_target(|stage| {
        let scene = stage.scene;
        for (name, give, _) in CASES {
            for source in ["tree", "tree/rich"] {
                give(&scene.file("tree/rich", "y")).expect("given");
                let before = attributes(&scene.path("tree"));
                stage.run(&[], &[source], "to").expect_ok();
                assert!(!scene.exists("tree/rich"), "{name} {:?}", stage.to);
                let there = stage.there(if source == "tree" { "to/tree" } else { "to" });
                if source == "tree" {
                    assert_eq!(attributes(&there), before, "{name} {:?}", stage.to);
                }
                fs::remove_dir_all(there).expect("removed");
                fs::create_dir_all(stage.there("to")).expect("made");
            }
        }
    });
}

#[test]
fn what_an_sftp_server_cannot_hold_stays_and_is_not_copied() {
    each_copying_target(|stage| {
        if stage.scene.way != Way::SftpUpload {
            return;
        }
        let scene = stage.scene;
        for (name, give, said) in CASES {
            scene.file("tree/dir/plain", "x");
            give(&scene.file("tree/dir/rich", "y")).expect("given");
            let run = stage.run(&["-q"], &["tree"], "to").expect_code(1);
            assert_one_lossy(&run, "tree/dir/rich: not moved: ", said);
            assert_eq!(scene.list("tree"), ["dir", "dir/rich"], "{name}");
            assert!(stage.there("to/tree/dir/plain").exists());
            assert!(!stage.there("to/tree/dir/rich").exists());
            let run = stage.run(&["-q"], &["tree/dir/rich"], "to").expect_code(1);
            assert_one_lossy(&run, "rich: not moved: ", said);
            stage.run(&["--lossy"], &["tree"], "to").expect_ok();
            assert!(!scene.exists("tree"), "{name}");
            assert_eq!(fs::read(stage.there("to/tree/dir/rich")).expect("moved"), b"y");
            fs::remove_dir_all(stage.there("to/tree")).expect("removed");
        }
        for (give, said) in [
            ((|path| set_acl(path, true)) as fn(&Path) -> _, "its ACL would be lost"),
            (|path| set_mode(path, 0o2755), "its set-ID bits would be lost"),
            (|path| chown(path, Some(12), None), "its owner (12) would be lost"),
        ] {
            scene.file("tree/plain", "x");
            scene.file("tree/rich/sub/f", "y");
            give(&scene.path("tree/rich")).expect("given");
            let run = stage.run(&["-q"], &["tree"], "to").expect_code(1);
            assert_one_lossy(&run, "tree/rich: not moved, with its content: ", said);
            assert_eq!(scene.list("tree"), ["rich", "rich/sub", "rich/sub/f"]);
            assert!(!stage.there("to/tree/rich").exists());
            stage.run(&[], &["tree/rich"], "to/new").expect_code(1);
            assert!(!stage.there("to/new").exists());
            stage.run(&["--lossy"], &["tree"], "to").expect_ok();
            assert!(!scene.exists("tree"));
            fs::remove_dir_all(stage.there("to/tree")).expect("removed");
        }
        // What has all of it says so in one line. A link has an owner.
        let all = scene.file("all", "x");
        CASES.iter().for_each(|(_, give, _)| give(&all).expect("given"));
        let run = stage.run(&["-q"], &["all"], "to").expect_code(1);
        let said = "its owner (12) and its group (12) and its set-ID bits and its ACL";
        assert_one_lossy(&run, "all: not moved: ", said);
        scene.symlink("nowhere", "link");
        lchown(scene.path("link"), Some(12), None).expect("given");
        stage.run(&[], &["link"], "to").expect_code(1);
        assert!(scene.path("link").is_symlink());
        sh(scene, "mkfifo fifo");
        let run = stage.run(&["-q"], &["fifo"], "to").expect_code(1);
        assert!(run.err().contains("fifo: not moved: the destination can't hold FIFOs"), "{run}");
    });
}

/// Panics unless one source stays, with the words that are to be said of it.
#[track_caller]
fn assert_one_lossy(run: &Outcome, path: &str, said: &str) {
    assert_one_error(
        run,
        path,
        said,
        "use --lossy to drop it, or copy with a tool that preserves it (cp -a, rsync -aHAX)",
    );
}

#[test]
fn names_of_one_file_go_together_or_stay_together() {
    each_copying_target(|stage| {
        let scene = stage.scene;
        let is_proven = stage.scene.way != Way::SftpUpload;
        scene.file("tree/one", "x");
        scene.mkdir("tree/sub");
        fs::hard_link(scene.path("tree/one"), scene.path("tree/sub/other")).expect("linked");
        // The other name of this one is not moved.
        scene.file("tree/alone", "y");
        fs::hard_link(scene.path("tree/alone"), scene.path("outside")).expect("linked");
        let run = stage.run(&[], &["tree"], "to");
        assert_eq!(fs::read(stage.there("to/tree/alone")).expect("moved"), b"y");
        if is_proven {
            let run = run.expect_ok();
            assert!(run.out().contains("moved 3 in "), "{run}");
            assert!(!scene.exists("tree"), "{:?}: {run}", stage.to);
            assert!(is_one(&stage.there("to/tree"), &["one", "sub/other"]));
            assert_eq!(scene.read("outside"), "y");
        } else {
            let run = run.expect_code(1);
            assert!(run.err().contains("sub/other: not removed: "), "{run}");
            assert_eq!(scene.list("tree"), ["one", "sub", "sub/other"], "{run}");
            stage.run(&["--lossy"], &["tree"], "to").expect_ok();
            assert!(!scene.exists("tree"));
        }
        fs::remove_dir_all(stage.there("to/tree")).expect("removed");

        // One of the names can't be had there.
        scene.file("tree/one", "x");
        fs::hard_link(scene.path("tree/one"), scene.path("tree/two")).expect("linked");
        fs::hard_link(scene.path("tree/one"), scene.path("tree/three")).expect("linked");
        fs::create_dir_all(stage.there("to/tree/two/in the way")).expect("made");
        let run = stage.run(&[], &["tree"], "to").expect_code(1);
        assert_eq!(scene.list("tree"), ["one", "three", "two"], "{:?}: {run}", stage.to);
        assert!(is_one(&scene.path("tree"), &["one", "two", "three"]), "{run}");
        assert!(run.err().contains("not removed: not all of its hard links were moved"), "{run}");
        if is_proven {
            // Then they are one file again.
            fs::remove_dir_all(stage.there("to/tree/two")).expect("removed");
            stage.run(&[], &["tree"], "to").expect_ok();
            assert!(!scene.exists("tree"), "{:?}", stage.to);
            assert!(is_one(&stage.there("to/tree"), &["one", "two", "three"]));
        }
    });
}

#[test]
fn names_that_are_two_files_at_the_destination_become_one() {
    each_copying_target(|stage| {
        let scene = stage.scene;
        if scene.is_sftp() {
            return;
        }
        scene.file("tree/one", "same");
        set_mtime(scene.path("tree/one"), 5, 0).expect("a time");
        fs::hard_link(scene.path("tree/one"), scene.path("tree/two")).expect("linked");
        fs::create_dir_all(stage.there("to/tree")).expect("made");
        for name in ["to/tree/one", "to/tree/two"] {
            fs::write(stage.there(name), "same").expect("written");
            set_mtime(stage.there(name), 5, 0).expect("a time");
        }
        // What is to be left alone there is no copy of such a file.
        let run = stage.run(&["--no-clobber"], &["tree"], "to");
        assert!(scene.exists("tree/one") && scene.exists("tree/two"), "{:?}: {run}", stage.to);
        stage.run(&[], &["tree"], "to").expect_ok();
        assert!(!scene.exists("tree"));
        assert!(is_one(&stage.there("to/tree"), &["one", "two"]), "{:?}", stage.to);
    });
}

#[test]
fn a_file_whose_copy_belongs_to_somebody_else_gets_its_owner_there() {
    each_copying_target(|stage| {
        if stage.scene.is_sftp() {
            return;
        }
        stage.scene.file("f", "x");
        fs::copy(stage.scene.path("f"), stage.there("to/f")).expect("copied");
        set_mtime(stage.scene.path("f"), 5, 0).expect("a time");
        set_mtime(stage.there("to/f"), 5, 0).expect("a time");
        chown(stage.there("to/f"), Some(12), Some(12)).expect("given");
        set_acl(stage.there("to/f"), false).expect("given");
        // To be left alone, it is not the same.
        stage.run(&["--no-clobber"], &["f"], "to").expect_ok();
        assert!(stage.scene.exists("f"));
        stage.run(&[], &["f"], "to").expect_ok();
        assert!(!stage.scene.exists("f"));
        let there = stage.there("to/f").metadata().expect("there");
        assert_eq!((there.uid(), there.gid()), (0, 0), "{:?}", stage.to);
    });
}

#[test]
fn what_a_file_system_cannot_hold_stays_and_is_reported() {
    each_copying_target(|stage| {
        if stage.to != To::Elsewhere {
            return;
        }
        let Some(poor) = without_attributes() else { return };
        let scene = stage.scene;
        let run = |flags: &[&str]| {
            let haul = scene.haul().arg("move").args(flags).arg(scene.path("tree"));
            haul.arg(poor.path()).run()
        };
        for (name, give, cause) in [
            ("acl", CASES[3].1, "does not support access control lists"),
            ("xattr", CASES[4].1, "does not support the extended attribute user.a"),
        ] {
            scene.file("tree/plain", "x");
            give(&scene.file("tree/rich", "y")).expect("given");
            let told = run(&["-q"]).expect_code(1);
            assert_one_lossy(&told, "rich: ", cause);
            assert_eq!(scene.list("tree"), ["rich"], "{name}");
            assert!(!poor.join("tree/rich").exists(), "{name}");
            // Another time it stays as well, also where its content is there.
            fs::write(poor.join("tree/rich"), "y").expect("written");
            let time = scene.path("tree/rich").metadata().expect("there");
            set_mtime(poor.join("tree/rich"), time.mtime(), time.mtime_nsec() as u32)
                .expect("a time");
            let told = run(&["-q"]).expect_code(1);
            assert!(told.err().contains("rich: "), "{told}");
            assert_eq!(scene.list("tree"), ["rich"], "{name}");
            run(&["--no-clobber"]);
            assert_eq!(scene.list("tree"), ["rich"], "{name}");
            // A directory, too.
            fs::remove_file(scene.path("tree/rich")).expect("removed");
            scene.mkdir("tree/dir");
            give(&scene.path("tree/dir")).expect("given");
            let told = run(&["-q"]).expect_code(1);
            assert!(told.err().contains("dir: ") && told.err().contains(cause), "{told}");
            assert_eq!(scene.list("tree"), ["dir"], "{name}");
            run(&["--lossy"]).expect_ok();
            assert!(!scene.exists("tree"), "{name}");
            fs::remove_dir_all(poor.join("tree")).expect("removed");
        }
        // What has nothing of that is moved, with its owner and its other names.
        scene.file("tree/a", "x");
        fs::hard_link(scene.path("tree/a"), scene.path("tree/b")).expect("linked");
        chown(scene.path("tree/a"), Some(12), Some(34)).expect("given");
        run(&[]).expect_ok();
        let there = poor.join("tree/b").metadata().expect("there");
        assert_eq!((there.uid(), there.gid(), there.nlink()), (12, 34, 2));
    });
}

#[test]
fn an_attribute_for_which_there_is_no_room_fails_its_file_alone() {
    each_copying_target(|stage| {
        if stage.to != To::Elsewhere {
            return;
        }
        let Some(disk) = Mount::image(FileSystem::Ext4, 16 << 20) else { return };
        let scene = stage.scene;
        let root = stage.there("from");
        fs::create_dir_all(root.join("tree")).expect("made");
        for name in ["a", "b", "c"] {
            fs::write(root.join("tree").join(name), name).expect("written");
        }
        if set_attribute(root.join("tree/b"), "user.much", &[7; 20_000]).is_err() {
            return fixture::missing("a tmpfs with extended attributes of users");
        }
        let run = |flags: &[&str]| {
            scene.haul().arg("move").args(flags).arg(root.join("tree")).arg(disk.path()).run()
        };
        let told = run(&["-q"]).expect_code(1);
        assert_one_lossy(&told, "b: ", "no room for the extended attribute user.much");
        assert!(root.join("tree/b").exists() && !root.join("tree/c").exists(), "{told}");
        run(&["--lossy"]).expect_ok();
        assert!(!root.join("tree").exists());
        assert_eq!(fs::read(disk.join("tree/b")).expect("moved"), b"b");
    });
}

#[test]
fn names_stay_where_no_file_has_several() {
    each_copying_target(|stage| {
        if stage.to != To::Elsewhere {
            return;
        }
        let Some(odd) = OddMount::new(Quirks { link: Some(Errno::PERM), ..Quirks::default() })
        else {
            return;
        };
        let scene = stage.scene;
        let run = |flags: &[&str]| {
            let haul = scene.haul().arg("move").args(flags).arg(scene.path("tree"));
            haul.arg(odd.path()).run()
        };
        scene.file("tree/one", "x");
        scene.file("tree/plain", "z");
        fs::hard_link(scene.path("tree/one"), scene.path("tree/two")).expect("linked");
        let told = run(&["-q"]).expect_code(1);
        assert!(told.err().contains("two: can't hard-link it to another name"), "{told}");
        assert!(told.err().contains("one: not removed"), "{told}");
        assert_eq!(scene.list("tree"), ["one", "two"], "{told}");
        run(&["--lossy"]).expect_ok();
        assert!(!scene.exists("tree"));
        assert_eq!(fs::read(odd.join("tree/two")).expect("moved"), b"x");
    });
}

#[test]
fn on_one_file_system_all_is_kept() {
    each_target(|stage| {
        if stage.to == To::Here {
            let rich = stage.scene.file("rich", "x");
            CASES.iter().for_each(|(_, give, _)| give(&rich).expect("given"));
            stage.run(&[], &["rich"], "to").expect_ok();
            assert_eq!(mode_of(stage.there("to/rich")) & 0o4000, 0o4000);
        }
    });
}

/// Runs `test` with both sides as a user who is not root, where it takes a copy; with a
/// directory of the destination.
fn each_copying_target_as_nobody(test: impl Fn(&Scene<'_>, &Path) + Sync) {
    everywhere_as_nobody(|scene| {
        if scene.way != Way::Local {
            return test(scene, &scene.mkdir("to"));
        }
        let mount = fixture::made("a tmpfs for all", Mount::try_tmpfs_for_all());
        let Some(mount) = mount else { return };
        test(scene, mount.path());
    });
}

#[test]
fn what_may_not_leave_its_directory_is_named_where_it_is() {
    if !is_root() {
        return;
    }
    everywhere_as_nobody(|scene| {
        if scene.way != Way::Local {
            return;
        }
        scene.file("closed/file", "content");
        scene.mkdir("to");
        scene.give_to_nobody("to");
        mode(scene.path("closed"), 0o755);
        let run = move_to(scene, &[], "closed/file", &scene.path("to")).expect_code(1);
        assert!(run.err().contains("closed/file: can't rename it: "), "{run}");
        assert!(run.err().contains(": you need write permission on its directory"), "{run}");
        // And the other way round.
        scene.file("to/own", "content");
        scene.give_to_nobody("to");
        let run = move_to(scene, &[], "to/own", &scene.path("closed")).expect_code(1);
        assert!(run.err().contains("closed/own: can't rename it: "), "{run}");
        assert!(scene.exists("to/own") && scene.exists("closed/file"), "{run}");
    });
}

#[test]
fn who_is_not_root_moves_the_own_files_whole_and_leaves_those_of_others() {
    each_copying_target_as_nobody(|scene, to| {
        let has_host = scene.way == Way::SftpUpload;
        sh(scene, "mkdir tree tree/dir; echo 1 > tree/own; ln tree/own tree/dir/again");
        sh(scene, "setfattr -n user.a -v 1 tree/own; setfacl -m u:1234:r tree/own");
        sh(scene, "echo 2 > tree/plain; mkfifo tree/dir/fifo; echo 3 > tree/lends");
        scene.give_to_nobody("tree");
        if scene.way != Way::Local {
            scene.give_to_nobody("to");
        }
        sh(scene, "chmod 4755 tree/lends");
        let before = attributes(&scene.path("tree"));
        let run = move_to(scene, &[], "tree", to);
        if has_host {
            run.expect_code(1);
            let left = ["dir", "dir/again", "dir/fifo", "lends", "own"];
            assert_eq!(scene.list("tree"), left);
        } else {
            run.expect_ok();
            assert!(!scene.exists("tree"));
            assert_eq!(attributes(&to.join("tree")), before);
            assert!(is_one(&to.join("tree"), &["own", "dir/again"]));
        }
        if !is_root() {
            return;
        }
        // Those of others.
        for (script, said) in [
            ("chown 1234 strange/f", "its owner (1234) would be lost"),
            ("chgrp 4321 strange/f", "its group (4321) would be lost"),
            (
                "chmod 644 strange/f; mknod strange/dev c 1 3",
                "not moved: only root can create devices at the destination",
            ),
        ] {
            sh(scene, "rm -rf strange; mkdir strange; echo 1 > strange/f");
            scene.give_to_nobody("strange");
            sh(scene, script);
            if script.contains("mknod") {
                sh(scene, "chown 65534:65534 strange/dev");
            }
            let run = move_to(scene, &["-q"], "strange", to).expect_code(1);
            assert!(run.err().contains(said), "{script}: {run}");
            let stays = if script.contains("mknod") { "dev" } else { "f" };
            assert_eq!(scene.list("strange"), [stays], "{run}");
            assert!(!to.join("strange").join(stays).exists(), "{run}");
        }
        // A file there that is somebody else's is no copy of the own one.
        sh(scene, "rm -rf mine; mkdir mine; echo 1 > mine/f; touch -d @5 mine/f");
        scene.give_to_nobody("mine");
        fs::create_dir_all(to.join("mine")).expect("made");
        fs::copy(scene.path("mine/f"), to.join("mine/f")).expect("copied");
        set_mtime(to.join("mine/f"), 5, 0).expect("a time");
        run_chown("1234", &to.join("mine/f"));
        run_chown("65534:65534", &to.join("mine"));
        let run = move_to(scene, &["-q"], "mine", to);
        if !scene.is_sftp() {
            let run = run.expect_code(1);
            assert!(run.err().contains("mine/f: can't set"), "{run}");
            assert!(run.err().contains("owner"), "{run}");
            assert_eq!(scene.list("mine"), ["f"], "{run}");
        }
    });
}

fn run_chown(owner: &str, path: &Path) {
    run(Command::new("chown").arg(owner).arg(path));
}

fn move_to(scene: &Scene<'_>, flags: &[&str], source: &str, to: &Path) -> Outcome {
    scene.transfer("move", &scene.route(), flags, &[source], to).run()
}

#[test]
fn to_a_user_who_is_not_root_go_the_files_of_the_mover() {
    if !is_root() {
        return;
    }
    each_of(
        &[Way::Upload],
        |scene| scene.reach_by_pipe(),
        |scene| {
            let program = scene.path("haul");
            run(Command::new("cp").arg(HAUL).arg(&program));
            let as_nobody = "exec setpriv --reuid=65534 --regid=65534 --clear-groups";
            let lines = format!("{as_nobody} {} \"$@\"", program.display());
            let agent = script(&scene.path("agent"), &lines);
            let to = scene.mkdir("to");
            scene.give_to_nobody("to");
            let mut route = scene.route();
            *route.last_mut().expect("the program") = agent.into();
            let moved = |flags: &[&str], source: &str| {
                scene.transfer("move", &route, flags, &[source], &to).run()
            };
            sh(scene, "mkdir -p tree/dir; echo 1 > tree/own; echo 2 > tree/dir/f");
            sh(scene, "setfattr -n user.a -v 1 tree/own; ln tree/own tree/dir/again");
            moved(&[], "tree").expect_ok();
            assert!(!scene.exists("tree"));
            assert_eq!(to.join("tree/own").metadata().expect("there").uid(), 65534);
            assert!(is_one(&to.join("tree"), &["own", "dir/again"]));
            for (give, said) in [
                ("chown 12 f", "its owner (12) would be lost"),
                ("chgrp 12 f", "its group (12) would be lost"),
                ("chmod 4755 f", "its set-ID bits would be lost"),
                ("setfattr -n trusted.a -v 1 f", "its extended attributes would be lost"),
                ("chown 12 .", "its owner (12) would be lost"),
            ] {
                sh(scene, "rm -rf rich; mkdir rich; echo 3 > rich/f");
                sh(scene, &format!("cd rich; {give}"));
                let run = moved(&["-q"], "rich").expect_code(1);
                assert!(run.err().contains(said), "{give}: {run}");
                assert_eq!(scene.list("rich"), ["f"], "{give}: {run}");
                assert!(!to.join("rich/f").exists(), "{give}");
                moved(&["--lossy"], "rich").expect_ok();
                assert!(!scene.exists("rich"), "{give}");
                fs::remove_dir_all(to.join("rich")).expect("removed");
            }
        },
    );
}
