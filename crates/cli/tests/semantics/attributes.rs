//! Attributes besides modes and times: kept where that is asked for, as rsync keeps them.

use crate::common::*;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// When anything of each entry below `dir` last changed.
pub(crate) fn changed_at(dir: &Path) -> BTreeMap<PathBuf, (i64, i64)> {
    let mut found = BTreeMap::new();
    let mut left = vec![dir.to_owned()];
    while let Some(path) = left.pop() {
        let meta = path.symlink_metadata().expect("it is there");
        if meta.is_dir() {
            left.extend(fs::read_dir(&path).expect("read").map(|e| e.expect("read").path()));
        }
        found.insert(path, (meta.ctime(), meta.ctime_nsec()));
    }
    found
}

/// A tree with attributes that a user can give, as far as that user may.
const OF_USERS: &str = "
    mkdir -p tree/dir tree/open
    echo one > tree/one; echo two > tree/two; echo three > tree/dir/three
    setfacl -m u:1234:rw,g:4321:r tree/one
    setfacl -m u:1234:--- tree/two
    setfacl -d -m u:1234:rwx tree/open
    echo four > tree/open/four
    setfattr -n user.colour -v blue tree/one
    setfattr -n user.empty tree/dir
    setfattr -n user.colour -v red tree/dir/three
    chmod 750 tree/dir
    ln -s one tree/link
";

/// The same with what only root can give.
const OF_ROOT: &str = "
    cp /bin/true tree/lends; chown 1234:4321 tree/lends; chmod 6755 tree/lends
    chown 1234:4321 tree/dir/three
    chown -h 1234:4321 tree/link
    mkdir tree/shared; chgrp 4321 tree/shared; chmod 2770 tree/shared
    setfattr -n trusted.secret -v yes tree/two
    setfattr -n security.capability -v 0x0100000200200000000000000000000000000000 tree/dir/three
";

#[test]
fn an_archive_of_root_has_what_rsync_keeps() {
    if !is_root() {
        return;
    }
    each_way_by_pipe(|scene| {
        sh(scene, OF_USERS);
        sh(scene, OF_ROOT);
        sh(scene, "rsync -aAX --numeric-ids tree/ rsynced");
        let expected = attributes(&scene.path("tree"));
        assert_eq!(attributes(&scene.path("rsynced")), expected, "rsync keeps them");
        scene.copy(&["-a"], &["tree"], "to/").run().expect_ok();
        assert_eq!(attributes(&scene.path("to/tree")), expected);
        // Nothing is written where nothing is to change.
        let before = changed_at(&scene.path("to/tree"));
        scene.copy(&["-a"], &["tree"], "to/").run().expect_ok();
        assert_eq!(changed_at(&scene.path("to/tree")), before);
        scene.transfer("check", &scene.route(), &["-a"], &["tree"], "to/").run().expect_ok();

        // What has changed since is set, and no content is copied for it.
        sh(
            scene,
            "chown 77:88 tree/one; setfacl -b tree/two; setfacl -x u:1234 tree/one
             setfattr -x user.colour tree/dir/three; setfattr -n user.new -v 1 tree/dir
             chmod 4755 tree/lends; setfacl -k tree/open; setfacl -m g:5:x tree/dir",
        );
        let again = scene.copy(&["-a"], &["tree"], "to/").run().expect_ok();
        assert!(again.out().starts_with("copied nothing in "), "{again}");
        assert_eq!(attributes(&scene.path("to/tree")), attributes(&scene.path("tree")));
    });
}

#[test]
fn a_copy_that_is_not_asked_keeps_no_owner_and_no_attribute() {
    if !is_root() {
        return;
    }
    each_way_by_pipe(|scene| {
        sh(scene, "mkdir tree; echo one > tree/one; chown 12:34 tree/one; chmod 4755 tree/one");
        sh(scene, "setfattr -n user.colour -v blue tree/one; setfacl -m u:1234:rw tree/one");
        scene.copy(&["-r"], &["tree"], "to/").run().expect_ok();
        let found = attributes(&scene.path("to/tree"));
        assert!(found.contains("./one 0:0 775 f") && !found.contains("1234"), "{found}");
        assert!(!found.contains("colour"), "{found}");

        // Each by itself.
        scene.copy(&["-r", "--group"], &["tree"], "group/").run().expect_ok();
        assert!(attributes(&scene.path("group/tree")).contains("./one 0:34 775 f"));
        scene.copy(&["-r", "--owner"], &["tree"], "owner/").run().expect_ok();
        assert!(attributes(&scene.path("owner/tree")).contains("./one 12:0 4775 f"));
        scene.copy(&["-rX"], &["tree"], "xattrs/").run().expect_ok();
        let found = attributes(&scene.path("xattrs/tree"));
        assert!(found.contains("user.colour") && !found.contains("1234"), "{found}");
        scene.copy(&["-rA"], &["tree"], "acls/").run().expect_ok();
        let found = attributes(&scene.path("acls/tree"));
        assert!(found.contains("user:1234:rw-") && !found.contains("colour"), "{found}");
    });
}

#[test]
fn who_is_not_root_keeps_what_users_can_give() {
    everywhere_as_nobody(|scene| {
        sh(scene, OF_USERS);
        if is_root() {
            scene.give_to_nobody("tree");
            sh(scene, "chown 1234:4321 tree/one; chmod 6750 tree/dir/three; chmod a+r tree/one");
        }
        scene.copy(&["-a"], &["tree"], "to/").run().expect_ok();
        let expected = attributes(&scene.path("tree"));
        let owner = format!("./one {NOBODY}:{NOBODY} ");
        let expected = expected.replace("./one 1234:4321 ", &owner);
        let found = attributes(&scene.path("to/tree"));
        let heads = |text: &str| {
            let lines = text.lines().filter(|line| !line.starts_with("# "));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(heads(&found), heads(&expected));
        let before = changed_at(&scene.path("to/tree"));
        scene.copy(&["-a"], &["tree"], "to/").run().expect_ok();
        assert_eq!(changed_at(&scene.path("to/tree")), before);
    });
}

#[test]
fn a_directory_that_hands_down_rights_gives_a_copy_no_more_than_its_source_has() {
    if !is_root() {
        return;
    }
    each_way_by_pipe(|scene| {
        sh(scene, "mkdir tree; echo secret > tree/secret; chmod 640 tree/secret; mkdir tree/dir");
        sh(scene, "mkdir to; setfacl -d -m u:1234:rwx,g:4321:rwx to");
        scene.copy(&["-rA"], &["tree"], "to/").run().expect_ok();
        let found = attributes(&scene.path("to/tree"));
        assert_eq!(found, attributes(&scene.path("tree")));
        assert!(!found.contains("1234"), "{found}");
    });
}

/// A tree with a FIFO and a socket that a user can make.
const SPECIALS: &str = "
    mkdir tree; mkfifo -m 640 tree/fifo; touch -d @1500000000.5 tree/fifo
    python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"tree/socket\")' ||
        perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Local => \"tree/socket\", Listen => 1)'
    echo x > tree/file
";

/// All that `find` tells of what is in `dir`, with times and the numbers of devices.
fn listing(dir: &Path) -> String {
    let script =
        "find . -mindepth 1 -printf '%p %y %m %U:%G %T@ ' -exec stat -c %t:%T {} \\; | sort";
    let output = Command::new("sh").args(["-c", script]).current_dir(dir).output();
    String::from_utf8(output.expect("find runs").stdout).expect("plain names")
}

#[test]
fn devices_fifos_and_sockets_are_made_again() {
    if !is_root() {
        return;
    }
    each_way_by_pipe(|scene| {
        sh(scene, SPECIALS);
        sh(
            scene,
            "mknod tree/char c 1 3; mknod tree/block b 7 9; chmod 604 tree/char
             chown 12:34 tree/block tree/fifo; ln -s file tree/link
             setfacl -m u:1234:rw,g:4321:r tree/fifo tree/socket tree/char tree/block
             setfattr -h -n trusted.secret -v yes tree/fifo tree/socket tree/char tree/link
             touch -h -d @1400000000 tree/char tree/block tree/socket tree/link",
        );
        let all = |tree: &str| [listing(&scene.path(tree)), attributes(&scene.path(tree))];
        let expected = all("tree");
        sh(scene, "rsync -aAX tree/ rsynced");
        assert_eq!(all("rsynced"), expected, "rsync makes the same");
        scene.copy(&["-a"], &["tree"], "to/").run().expect_ok();
        assert_eq!(all("to/tree"), expected);
        let before = changed_at(&scene.path("to/tree"));
        let again = scene.copy(&["-a"], &["tree"], "to/").run().expect_ok();
        assert!(again.out().starts_with("copied nothing in "), "{again}");
        assert_eq!(changed_at(&scene.path("to/tree")), before);

        // What a link leads to is copied with all that it has.
        sh(
            scene,
            "mkdir led; cd led; ln -s ../tree/fifo ../tree/socket ../tree/char ../tree/block .",
        );
        sh(scene, "mkdir led/real; cd tree; rsync -aAX fifo socket char block ../led/real");
        let expected = attributes(&scene.path("led/real"));
        assert_eq!(expected.matches("user:1234:rw-").count(), 4);
        sh(scene, "rm -r led/real");
        scene.copy(&["-aL"], &["led"], "to/").run().expect_ok();
        assert_eq!(attributes(&scene.path("to/led")), expected);
        let route = scene.route();
        scene.transfer("sync", &route, &["-aAXL"], &["led/"], "synced").run().expect_ok();
        assert_eq!(attributes(&scene.path("synced")), expected);
        sh(scene, "setfacl -b synced/fifo");
        let again =
            scene.transfer("sync", &route, &["-aAXLi"], &["led/"], "synced").run().expect_ok();
        assert_eq!(again.out(), "cS...p...a. fifo\n", "{again}");
        let check = || scene.transfer("check", &route, &["-aL"], &["led"], "to/led").run();
        check().expect_ok();
        sh(scene, "setfattr -hx trusted.secret to/led/char");
        assert!(check().expect_code(1).out().contains("char"), "{}", check());

        // One that is another by now is replaced, and what is no directory makes way.
        sh(scene, "rm tree/char; mknod tree/char c 1 5; chmod 600 tree/fifo; rm tree/socket");
        sh(
            scene,
            "mkfifo tree/socket; setfacl -b tree/block; setfattr -hx trusted.secret tree/link",
        );
        scene.copy(&["-a"], &["tree"], "to/").run().expect_ok();
        assert_eq!(all("to/tree"), all("tree"));
        assert_no_strays(&scene.path("to/tree"));

        // Each by itself, and neither without a word.
        scene.copy(&["-r", "--specials"], &["tree"], "specials/").run().expect_ok();
        assert_eq!(scene.list("specials/tree"), ["fifo", "file", "link", "socket"]);
        scene.copy(&["-r", "--devices"], &["tree"], "devices/").run().expect_ok();
        assert_eq!(scene.list("devices/tree"), ["block", "char", "file", "link"]);
        scene.copy(&["-r"], &["tree"], "none/").run().expect_ok();
        assert_eq!(scene.list("none/tree"), ["file", "link"]);
    });
}

#[test]
fn who_is_not_root_makes_fifos_and_sockets() {
    everywhere_as_nobody(|scene| {
        sh(scene, SPECIALS);
        scene.give_to_nobody("tree");
        if is_root() {
            sh(scene, "mknod tree/char c 1 3");
        }
        scene.copy(&["-a"], &["tree"], "to/").run().expect_ok();
        let listed = listing(&scene.path("tree"));
        let made: Vec<_> = listed.lines().filter(|line| !line.starts_with("./char ")).collect();
        assert_eq!(listing(&scene.path("to/tree")).lines().collect::<Vec<_>>(), made);
    });
}

#[test]
fn a_directory_that_is_not_done_can_be_read_by_those_whom_it_is_meant_for() {
    const MODES: [(u32, u32, u32); 5] = [
        // Of the source, of a copy on its way, and where an owner is still to be set.
        (0o755, 0o755, 0o755),
        (0o750, 0o750, 0o700),
        (0o1777, 0o755, 0o755),
        (0o711, 0o711, 0o711),
        (0o700, 0o700, 0o700),
    ];
    each_way_by_pipe(|scene| {
        for (of, _, _) in MODES {
            let file = scene.path(format!("src/{of:o}/file"));
            std::fs::create_dir_all(file.parent().expect("a directory")).expect("made");
            haul_testkit::tree::random_file(file, 4 << 20, u64::from(of)).expect("a file");
            mode(scene.path(format!("src/{of:o}")), of);
        }
        for (flags, dest, kept) in [("-r", "to", false), ("-a", "all", true)] {
            let of_made = |of: u32| mode_of(scene.path(format!("{dest}/{of:o}")));
            let flags = [flags, "--bwlimit", "128k"];
            let route = scene.route();
            let slow = scene.transfer("sync", &route, &flags, &["src/"], dest);
            let running = slow.spawn().expect("it starts");
            let is_made = |of: u32| scene.exists(format!("{dest}/{of:o}"));
            let all_made = || MODES.iter().all(|(of, ..)| is_made(*of));
            let are_made = running.until(Duration::from_secs(20), all_made);
            running.kill_group();
            let run = running.wait().expect("it has ended");
            assert!(are_made, "{run}");
            for (of, copied, owned) in MODES {
                assert_eq!(of_made(of), if kept { owned } else { copied }, "{of:o} {flags:?}");
            }
            scene.transfer("sync", &route, &flags[..1], &["src/"], dest).run().expect_ok();
        }
    });
}

#[test]
fn a_fifo_that_a_killed_copy_has_left_is_not_copied() {
    each_way_by_pipe(|scene| {
        sh(scene, "mkdir tree; mkfifo tree/.haul-0123456789abcdef tree/fifo");
        let run = scene.copy(&["-a"], &["tree"], "copy").run().expect_ok();
        assert_eq!(scene.list("copy"), ["fifo"], "{run}");
        assert_eq!(run.err().matches("not copied").count(), 1, "{run}");
    });
}
