//! The modes and owners that entries get.

use crate::common::*;
use crate::oracle::Pair;
use haul_testkit::nasty;
use std::fs;
use std::process::Command;
use std::time::{Duration, SystemTime};

fn again(scene: &Scene<'_>) {
    scene.clear(&["src", "dst", "new"]);
}

/// Files and directories of many modes, some of which the destination has with others.
fn many_modes(scene: &Scene<'_>) {
    again(scene);
    let modes = [0o644, 0o755, 0o710, 0o200];
    for (at, of_source) in modes.into_iter().enumerate() {
        mode(scene.file(format!("src/new{at}"), "new"), of_source);
        mode(scene.file(format!("src/in/new{at}"), "new"), of_source);
        mode(scene.mkdir(format!("src/dir{at}")), of_source | 0o500);
        for (to, of_dest) in modes.into_iter().enumerate() {
            let (same, other) = (format!("same{at}{to}"), format!("other{at}{to}"));
            mode(scene.file(format!("src/{same}"), &same), of_source);
            mode(scene.file(format!("dst/{same}"), &same), of_dest);
            mode(scene.file(format!("src/{other}"), &other), of_source);
            mode(scene.file(format!("dst/{other}"), "it differs"), of_dest);
        }
        mode(scene.mkdir(format!("dst/dir{at}")), modes[modes.len() - 1 - at] | 0o500);
    }
    scene.symlink("new0", "src/link");
    scene.symlink("new1", "dst/new0");
    mode(scene.path("src"), 0o751);
}

#[test]
fn entries_have_modes_of_their_own_unless_those_of_the_source_are_kept() {
    everywhere_by_pipe(|scene| {
        for (flags, makes) in scene.share([
            (&["-rlti"][..], true),
            (&["-rltiE"], true),
            (&["-ai", "--no-p"], true),
            (&["-rltiEp"], true),
            (&["-rti", "--existing"], false),
        ]) {
            many_modes(scene);
            let pair = Pair::of(scene);
            pair.run(&[flags, &["-in"]].concat(), &["src/"], "dst");
            pair.run(flags, &["src/"], "dst");
            pair.settles(flags, &["src/"], "dst");
            if makes {
                pair.run(flags, &["src"], "new");
            }
        }
    });
}

#[test]
fn what_is_new_gets_what_the_default_list_of_its_directory_says() {
    each_way_by_pipe(|scene| {
        for list in ["d:u::rwx,d:g::rx,d:o::---", "d:u::rwx,d:g::rx,d:u:12345:rwx,d:o::r"] {
            many_modes(scene);
            run(Command::new("setfacl").args(["-R", "-m", list]).arg(scene.path("dst")));
            let pair = Pair::of(scene);
            pair.run(&["-rlti"], &["src/"], "dst");
            let [ours, theirs] = ["dst", "oracle/dst"].map(|tree| attributes(&scene.path(tree)));
            assert_eq!(ours, theirs);
        }
    });
}

#[test]
fn the_mask_of_the_side_that_receives_takes_rights_away() {
    let masked = |scene: &mut Scene<'_>| {
        scene.reach_by_pipe();
        let lines = format!("umask 027\nexec '{HAUL}' \"$@\"");
        scene.run_as(script(&scene.path("masked"), &lines));
    };
    each_of(&Way::ALL, masked, |scene| {
        mode(scene.file("src/open", "x"), 0o666);
        mode(scene.file("src/kept", "x"), 0o666);
        mode(scene.file("dst/kept", "other"), 0o606);
        mode(scene.mkdir("src/dir"), 0o3777);
        let route = scene.route();
        scene.transfer("sync", &route, &["-rt"], &["src/"], "dst").run().expect_ok();
        let modes = ["open", "kept", "dir"].map(|name| mode_of(scene.path("dst").join(name)));
        assert_eq!(modes.map(|mode| format!("{mode:o}")), ["640", "606", "750"]);
    });
}

#[test]
fn bits_that_lend_rights_are_kept_with_the_permissions_whoever_the_owner_is() {
    each_way_by_pipe(|scene| {
        for flags in scene.share([&["-rlpti"][..], &["-ai"], &["-rlti"], &["-rptgi"]]) {
            again(scene);
            for (name, bits) in [("suid", 0o4755), ("sgid", 0o2711), ("both", 0o6755)] {
                let new = scene.file(format!("src/{name}"), name);
                let same = scene.file(format!("src/same-{name}"), name);
                for path in [&new, &same] {
                    own(path, (12345, 12346));
                    mode(path, bits);
                }
                mode(scene.file(format!("dst/same-{name}"), name), 0o644);
            }
            mode(scene.file("src/own", "new"), 0o755);
            mode(scene.file("dst/own", "old, and longer"), 0o6755);
            mode(scene.mkdir("src/dir"), 0o7755);
            mode(scene.mkdir("dst/dir"), 0o755);
            let pair = Pair::of(scene);
            pair.run(flags, &["src/"], "dst");
            assert_eq!(pair.owners("dst"), pair.owners("oracle/dst"), "{flags:?}");
            pair.settles(flags, &["src/"], "dst");
        }
    });
}

#[test]
fn what_is_replaced_lends_no_rights_of_another_owner() {
    each_way_by_pipe(|scene| {
        scene.file("src/a", "new");
        let there = scene.file("dst/a", "old, and longer");
        own(&there, (12345, 12346));
        mode(&there, 0o6755);
        let route = scene.route();
        scene.transfer("sync", &route, &["-rt"], &["src/"], "dst").run().expect_ok();
        assert_eq!(mode_of(&there), 0o755);
    });
}

#[test]
fn modes_are_changed_before_anything_is_compared() {
    everywhere_by_pipe(|scene| {
        // A server keeps no set-group-ID bit of a directory.
        for flags in scene.share([
            &["-rlpti", "--chmod=Du=rwx,Dgo=rx,Fu=rw,Fgo=r"][..],
            &["-rlpti", "--chmod=D2755,F640"],
            &["-rlti", "--chmod=ugo=rwX"],
            &["-rltEi", "--chmod=F+X,Fu-x"],
            &["-rlti", "--chmod=go-rwx", "--chmod=F+x"],
            &["-ai", "--chmod=+t,-w"],
        ]) {
            if scene.is_sftp() && flags.iter().any(|flag| flag.contains("D2755")) {
                continue;
            }
            many_modes(scene);
            let pair = Pair::of(scene);
            pair.run(&[flags, &["-in"]].concat(), &["src/"], "dst");
            pair.run(flags, &["src/"], "dst");
            assert_eq!(pair.owners("dst"), pair.owners("oracle/dst"), "{flags:?}");
            pair.settles(flags, &["src/"], "dst");
        }
    });
}

#[test]
fn a_mode_that_is_changed_is_also_that_of_the_access_list() {
    let world = World::new();
    let scene = world.scene(Way::Local);
    mode(scene.file("src/d/a", "a"), 0o664);
    sh(&scene, "setfacl -m u:12345:rwx src/d src/d/a");
    let pair = Pair::of(&scene);
    // The second run changes nothing.
    for _ in 0..2 {
        pair.run(&["-aA", "--chmod=a-w"], &["src/"], "dst");
        let [ours, theirs] = ["dst", "oracle/dst"].map(|tree| attributes(&scene.path(tree)));
        assert_eq!(ours, theirs);
    }
    let route = scene.route();
    let third = scene.transfer("sync", &route, &["-aAi", "--chmod=a-w"], &["src/"], "dst").run();
    assert_eq!(third.expect_ok().out(), "");
}

#[test]
fn users_and_groups_become_others_by_the_words_of_rsync() {
    each_way_by_pipe(|scene| {
        for flags in scene.share([
            &["-rlpti", "--chown=daemon:bin"][..],
            &["-rlpti", "--chown=:2"],
            &["-ai", "--chown=12345"],
            &["-ai", "--usermap=root:daemon,12345:sys,*:bin", "--groupmap=:3,*:4"],
            &["-ai", "--usermap=0-1:7,12000-13000:8", "--groupmap=d*:5,12346:0"],
            &["-ai", "--usermap=:9", "--groupmap=root:1"],
            &["-ai", "--numeric-ids", "--usermap=*:9,daemon:1", "--groupmap=12346:daemon"],
            &["-ai", "--usermap=12345:no-such-user,12345:6", "--groupmap=*:no-such-group"],
            &["-aAi", "--usermap=12345:777", "--groupmap=12346:778"],
        ]) {
            again(scene);
            for (name, owner) in [
                ("root", (0, 0)),
                ("daemon", (1, 1)),
                ("bin", (2, 2)),
                ("nameless", (12345, 12346)),
            ] {
                for path in [
                    scene.file(format!("src/{name}"), name),
                    scene.mkdir(format!("src/{name}-dir")),
                    scene.symlink("x", format!("src/{name}-link")),
                ] {
                    own(path, owner);
                }
                scene.file(format!("dst/{name}"), name);
            }
            run(Command::new("setfacl").args(["-m", "u:12345:r"]).arg(scene.path("src/daemon")));
            let pair = Pair::of(scene);
            let first = pair.run(flags, &["src/"], "dst");
            assert_eq!(pair.owners("dst"), pair.owners("oracle/dst"), "{flags:?}");
            let names_none = flags.iter().any(|flag| flag.contains("no-such"));
            assert_eq!(names_none, first.err().contains("no user no-such-user here"));
            pair.settles(flags, &["src/"], "dst");
        }
    });
}

#[test]
fn words_about_owners_and_modes_that_rsync_refuses_are_refused() {
    let world = World::new();
    let scene = world.scene(Way::Local);
    scene.file("src/a", "a");
    scene.file("dst/b", "b");
    let pair = Pair::of(&scene);
    for flags in [
        &["-r", "--chmod=u+q"][..],
        &["-r", "--chmod="],
        &["-r", "--usermap=a"],
        &["-r", "--usermap=a:"],
        &["-r", "--groupmap=1-2-3:a"],
        &["-r", "--usermap=0:1", "--usermap=2:3"],
        &["-r", "--chown=1", "--chown=2"],
        &["-r", "--chown=1", "--usermap=2:3"],
        &["-r", "--usermap=2:3", "--chown=1"],
        &["-r", "--chown=:", "--usermap=2:3"],
        &["-r", "--chown="],
        &["-r", "--chown=1", "--chown=:2"],
    ] {
        pair.run(flags, &["src"], "dst");
    }
}

#[test]
fn links_have_the_time_at_which_they_are_made_where_theirs_is_not_kept() {
    each_way_by_pipe(|scene| {
        for flags in
            scene.share([&["-ai"][..], &["-aJi"], &["-rli"], &["-rlJi"], &["-aOi"], &["-aJpi"]])
        {
            again(scene);
            scene.mkdir("src/d");
            scene.mkdir("dst/d");
            scene.symlink("new", "src/new");
            scene.symlink("d/new", "src/d/new");
            scene.symlink("same", "src/same");
            scene.symlink("same", "dst/same");
            scene.symlink("other", "src/changed");
            scene.symlink("one", "dst/changed");
            scene.symlink("other", "src/d/changed-with-its-time");
            scene.symlink("one", "dst/d/changed-with-its-time");
            let pair = Pair::of(scene);
            for tree in ["src", "dst"] {
                for link in ["same", "d/changed-with-its-time"] {
                    let link = scene.path(format!("{tree}/{link}"));
                    nasty::set_mtime(link, 1_500_000_000, 0).expect("a time");
                }
            }
            pair.run(&[flags, &["-n"]].concat(), &["src/"], "dst");
            let before = SystemTime::now() - Duration::from_secs(2);
            pair.run(flags, &["src/"], "dst");
            let keeps = flags[0].contains('a') && !flags[0].contains('J');
            for tree in ["dst", "oracle/dst"] {
                for link in ["new", "d/new", "changed"] {
                    let path = scene.path(format!("{tree}/{link}"));
                    let time = fs::symlink_metadata(path).expect("there").modified();
                    let is_new = time.expect("it has one") >= before;
                    assert_eq!(is_new, !keeps, "{flags:?}: {tree}/{link}");
                }
            }
            pair.settles(flags, &["src/"], "dst");
        }
    });
}

#[test]
fn files_have_the_time_at_which_they_are_made_where_theirs_is_not_kept() {
    everywhere_by_pipe(|scene| {
        let names = [("empty", 0), ("small", 9), ("large", 3 << 20)];
        for (name, len) in names {
            let path = scene.file(format!("src/{name}"), "x".repeat(len));
            nasty::set_mtime(path, 1_500_000_000, 0).expect("a time");
        }
        let before = SystemTime::now() - Duration::from_secs(2);
        scene.transfer("sync", &scene.route(), &["-r"], &["src/"], "dst").run().expect_ok();
        for (name, _) in names {
            let found = fs::metadata(scene.path("dst").join(name)).expect("there");
            assert!(found.modified().expect("it has one") >= before, "{name}");
        }
    });
}

#[test]
fn what_is_no_file_has_its_bits_that_lend_rights() {
    each_way_by_pipe(|scene| {
        for flags in scene.share([&["-a"][..], &["-rptD"], &["-rlD"], &["-rpD", "--chmod=u-s"]]) {
            again(scene);
            for (name, bits) in [("suid", 0o4755), ("sgid", 0o2710), ("sticky", 0o1644)] {
                let fifo = scene.path(format!("src/{name}"));
                fs::create_dir_all(scene.path("src")).expect("made");
                run(Command::new("mkfifo").arg(&fifo));
                own(&fifo, (12345, 12346));
                mode(&fifo, bits);
                let node = scene.path(format!("src/{name}-device"));
                run(Command::new("mknod").arg(&node).args(["c", "1", "3"]));
                mode(&node, bits);
            }
            scene.mkdir("dst");
            let pair = Pair::of(scene);
            pair.run(flags, &["src/"], "dst");
            assert_eq!(pair.owners("dst"), pair.owners("oracle/dst"), "{flags:?}");
            pair.settles(&[flags, &["-i"]].concat(), &["src/"], "dst");
        }
    });
}

#[test]
fn the_time_at_which_a_directory_was_read_is_left_alone() {
    each_way_by_pipe(|scene| {
        again(scene);
        scene.mkdir("src/d");
        scene.mkdir("dst/d");
        let pair = Pair::of(scene);
        for (name, time) in [("src/d", "@1200000000"), ("dst/d", "@1100000000")] {
            run(Command::new("touch").args(["-a", "-d", time]).arg(scene.path(name)));
        }
        pair.run(&["-aUi"], &["src/"], "dst");
        pair.settles(&["-aUi"], &["src/"], "dst");
    });
}

#[test]
fn sources_are_read_and_keep_the_times_of_their_last_reading() {
    each_of(
        &[Way::Local, Way::Upload, Way::Download],
        |scene| scene.reach_by_pipe(),
        |scene| {
            // Long before its content changed: then the system notes a reading.
            let read = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
            for (flags, keeps) in scene.share([
                (&["-a"][..], false),
                (&["-a", "--open-noatime"], true),
                (&["-aUU", "--no-U"], true),
                (&["-a", "--open-noatime", "-c"], true),
            ]) {
                again(scene);
                for name in ["small", "large"] {
                    let len = if name == "small" { 10 } else { 2 << 20 };
                    let path = scene.file(format!("src/{name}"), vec![b'x'; len]);
                    let times = fs::FileTimes::new().set_accessed(read);
                    fs::File::open(&path).unwrap().set_times(times).expect("set");
                }
                scene.transfer("sync", &scene.route(), flags, &["src/"], "dst").run().expect_ok();
                for name in ["small", "large"] {
                    let meta = fs::metadata(scene.path(format!("src/{name}"))).expect("there");
                    let is_kept = meta.accessed().expect("a time") == read;
                    // Some file systems are mounted to note nothing.
                    assert!(is_kept || !keeps, "{flags:?}: {name}");
                }
            }
        },
    );
}
