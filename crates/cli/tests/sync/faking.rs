//! Attributes of root that are written down: in the form of `rsync --fake-super`, so that
//! each program reads what the other wrote.

use crate::common::*;
use haul_testkit::{Mount, duplicate, fixture, nasty};
use std::fs;
use std::process::Command;

/// The words by which one side alone has them written down.
fn of_dest(way: Way) -> &'static [&'static str] {
    if way == Way::Download { &["--fake-super"] } else { &["-M--fake-super"] }
}

fn of_source(way: Way) -> &'static [&'static str] {
    match way {
        Way::Local => &["--fake-super", "-M--super"],
        Way::Download => &["-M--fake-super"],
        _ => &["--fake-super"],
    }
}

fn of_both(way: Way) -> &'static [&'static str] {
    if way == Way::Local { &["--fake-super"] } else { &["--fake-super", "-M--fake-super"] }
}

/// A tree with all that only root can give.
fn build(scene: &Scene<'_>) {
    for (name, mode_bits, owner) in [
        ("plain", 0o644, (0, 0)),
        ("lends", 0o6755, (0, 0)),
        ("theirs", 0o640, (12345, 23456)),
        ("unread", 0o000, (12345, 0)),
        ("listed", 0o664, (0, 0)),
        ("d/more", 0o444, (7, 8)),
    ] {
        let path = scene.file(format!("src/{name}"), format!("content of {name}"));
        own(&path, owner);
        mode(&path, mode_bits);
    }
    fs::hard_link(scene.path("src/theirs"), scene.path("src/d/twin")).expect("linked");
    let listed = scene.path("src/listed");
    run(Command::new("setfacl").args(["-m", "u:77:rw,g:88:r"]).arg(&listed));
    run(Command::new("setfacl").args(["-d", "-m", "u:77:rwx"]).arg(scene.path("src/d")));
    for (name, value) in [("user.k", "v"), ("trusted.t", "w")] {
        run(Command::new("setfattr").args(["-n", name, "-v", value]).arg(&listed));
    }
    let link = scene.symlink("away/nowhere", "src/link");
    own(link, (55, 66));
    run(Command::new("mkfifo").arg(scene.path("src/fifo")));
    run(Command::new("mknod").arg(scene.path("src/device")).args(["b", "7", "5"]));
    run(Command::new("setfacl").args(["-m", "u:77:rw"]).arg(scene.path("src/device")));
    mode(scene.path("src/d"), 0o3755);
    for name in scene.list("src").iter().map(String::as_str).chain([""]) {
        nasty::set_mtime(scene.path("src").join(name), 1_500_000_000, 0).expect("a time");
    }
}

/// All that is really there: paths, modes, owners, lengths and attributes.
fn facts(scene: &Scene<'_>, tree: &str) -> String {
    let at = scene.path(tree);
    let output = |program: &str, words: &[&str]| {
        let mut command = Command::new(program);
        let output = command.args(words).current_dir(&at).output().expect("it runs");
        let text = String::from_utf8(output.stdout).expect("text");
        let mut parts: Vec<_> = text.split("\n\n").map(str::to_owned).collect();
        if program == "find" {
            parts = text.lines().map(str::to_owned).collect();
        }
        parts.sort();
        parts.join("\n")
    };
    let found = output("find", &[".", "-printf", "%p %y %m %U %G %T@ %n %l\n"]);
    let attributes = output("getfattr", &["-R", "-h", "-d", "-m", "-", "-e", "hex", "."]);
    // A list of access that is gone rsync writes down as one with nothing in it.
    let none = "user.rsync.%aacl=0x80000000800000008000000080000000\n";
    found + &attributes.replace(none, "")
}

fn sync(scene: &Scene<'_>, words: &[&str], sides: &[&str], source: &str, dest: &str) -> String {
    let words = [words, sides].concat();
    let done = scene.transfer("sync", &scene.route(), &words, &[source], dest).run();
    assert_eq!(done.code, Some(0), "{words:?}: {done}");
    done.out()
}

fn rsync(scene: &Scene<'_>, words: &[&str], sides: &[&str], source: &str, dest: &str) -> String {
    let done = scene.program("rsync").args(words).args(sides).arg(source).arg(dest).run();
    assert_eq!(done.code, Some(0), "{words:?}: {done}");
    done.out()
}

const ALL: &[&str] = &["-aHAX", "--numeric-ids"];

#[test]
fn what_is_written_down_is_read_by_rsync_and_the_other_way_round() {
    if !is_root() {
        return fixture::missing("root");
    }
    each_way_by_pipe(|scene| {
        build(scene);
        // rsync keeps no attribute of one that has a list, too, or comes with a base.
        let set = ["-n", "trusted.t", "-v", "w"];
        run(Command::new("setfattr").args(set).arg(scene.path("src/fifo")));
        let listing = &["-aHAXi", "--numeric-ids", "--delete"];
        rsync(scene, ALL, of_dest(Way::Local), "src/", "theirs/");
        sync(scene, ALL, of_dest(scene.way), "src/", "ours/");
        assert_eq!(facts(scene, "ours"), facts(scene, "theirs"));
        // A second run finds nothing, whoever has written it.
        for dest in ["ours/", "theirs/"] {
            assert_eq!(sync(scene, listing, of_dest(scene.way), "src/", dest), "", "{dest}");
        }
        let dry = &["-aHAXni", "--numeric-ids", "--delete"];
        assert_eq!(rsync(scene, dry, of_dest(Way::Local), "src/", "ours/"), "");
        // Real attributes are found again in those that are written down.
        assert_eq!(sync(scene, dry, of_source(scene.way), "ours/", "src/"), "");
        // What rsync has written becomes what it was.
        sync(scene, ALL, of_source(scene.way), "theirs/", "back/");
        assert_eq!(facts(scene, "back"), facts(scene, "src"));
        // Something changes, and only that.
        own(scene.path("src/plain"), (1, 2));
        mode(scene.path("src/lends"), 0o755);
        run(Command::new("setfacl").arg("-b").arg(scene.path("src/listed")));
        let changed = sync(scene, listing, of_dest(scene.way), "src/", "ours/");
        assert_eq!(changed.lines().count(), 3, "{changed}");
        rsync(scene, ALL, of_dest(Way::Local), "src/", "theirs/");
        assert_eq!(facts(scene, "ours"), facts(scene, "theirs"));
    });
}

/// Has both programs make `dst` of changed sources, with words that say how files come there:
/// each in a directory of its own, beside `prev`, which rsync has made of the old sources.
fn made_otherwise(scene: &Scene<'_>, words: &[&str], has_old: bool) {
    scene.clear(&["src", "ours", "theirs"]);
    build(scene);
    for dir in ["theirs/prev/", "theirs/dst/"] {
        if has_old || dir.contains("prev") {
            scene.mkdir(dir);
            rsync(scene, ALL, of_dest(Way::Local), "src/", dir);
        }
    }
    duplicate(scene.path("theirs"), scene.path("ours")).expect("a copy");
    let change = |words: &[&str], name: &str| {
        run(Command::new(words[0]).args(&words[1..]).arg(scene.path("src").join(name)));
    };
    change(&["chown", "1:2"], "plain");
    change(&["chmod", "0711"], "lends");
    change(&["chmod", "02444"], "theirs");
    change(&["setfacl", "-m", "u:99:r"], "listed");
    change(&["setfattr", "-n", "trusted.t", "-v", "other"], "plain");
    change(&["chown", "-h", "9:9"], "link");
    change(&["chown", "4:4"], "device");
    change(&["chmod", "0700"], "d");
    for name in ["lends", "unread", "d/more"] {
        fs::write(scene.path("src").join(name), "content that is another").expect("written");
        change(&["touch", "-d", "@1600000000"], name);
    }
    change(&["touch", "-d", "@1500000000"], "");
    let words = [ALL, words].concat();
    rsync(scene, &words, of_dest(Way::Local), "src/", "theirs/dst/");
    sync(scene, &words, of_dest(scene.way), "src/", "ours/dst/");
    for tree in ["dst", "prev"] {
        let [ours, theirs] = ["ours", "theirs"].map(|side| facts(scene, &format!("{side}/{tree}")));
        assert_eq!(ours, theirs, "{words:?}: {tree}");
    }
    let again = [&words[..], &["-i", "--delete"]].concat();
    assert_eq!(sync(scene, &again, of_dest(scene.way), "src/", "ours/dst/"), "", "{words:?}");
}

#[test]
fn files_that_come_in_another_way_have_the_same_written_down() {
    if !is_root() {
        return fixture::missing("root");
    }
    each_way_by_pipe(|scene| {
        // rsync takes no path for it that leads up.
        let staging = scene.mkdir("staging").display().to_string();
        for (words, has_old) in scene.share([
            (&["--link-dest=../prev"][..], false),
            (&["--copy-dest=../prev"], false),
            (&["--link-dest=../prev", "--delay-updates"], false),
            (&["--inplace"], true),
            (&["--inplace", "--no-whole-file"], true),
            (&["--delay-updates"], true),
            (&["-T", &*staging], true),
            (&["-T", &*staging, "--delay-updates"], true),
        ]) {
            made_otherwise(scene, words, has_old);
            assert_eq!(scene.list("staging"), Vec::<String>::new(), "{words:?}");
        }
    });
}

#[test]
fn a_user_keeps_what_only_root_can_give() {
    if !is_root() {
        return fixture::missing("root");
    }
    everywhere_as_nobody(|scene| {
        if scene.is_sftp() {
            return;
        }
        build(scene);
        let root = Command::new("rsync")
            .args(ALL)
            .arg("-M--fake-super")
            .args([scene.path("src/"), scene.path("kept/")])
            .status();
        assert!(root.expect("it runs").success());
        scene.give_to_nobody("kept");
        sync(scene, ALL, of_both(scene.way), "kept/", "ours/");
        rsync(scene, ALL, of_both(Way::Local), "kept/", "theirs/");
        assert_eq!(facts(scene, "ours"), facts(scene, "theirs"));
        // Root finds in it what it finds in that of rsync, which tells of attributes that
        // are the same, of its own trees, too.
        let found = |tree: &str| {
            let found = Command::new("rsync")
                .args(["-aHAXni", "--numeric-ids", "--fake-super", "-M--super", "--delete"])
                .args([scene.path(tree), scene.path("src/")])
                .output();
            String::from_utf8(found.expect("it runs").stdout).expect("text")
        };
        assert_eq!(found("ours/"), found("theirs/"));
        assert!(!found("ours/").contains("device"), "{}", found("ours/"));
    });
}

#[test]
fn a_record_that_is_damaged_fails_its_entry_alone() {
    each_way_by_pipe(|scene| {
        let bad = scene.file("src/bad", "content");
        scene.file("src/good", "content");
        for record in ["nonsense", "40755 0,0 1:1", "100644 0,0 4294967295:1"] {
            run(Command::new("setfattr").args(["-n", "user.rsync.%stat", "-v", record]).arg(&bad));
            scene.clear(&["dst"]);
            let words = [&["-a"], of_source(scene.way)].concat();
            let done = scene.transfer("sync", &scene.route(), &words, &["src/"], "dst/").run();
            assert_eq!(done.code, Some(23), "{done}");
            assert!(done.err().contains("user.rsync.%stat"), "{done}");
            assert_eq!(scene.list("dst"), ["good"]);
        }
    });
}

#[test]
fn what_cannot_be_done_with_it_is_refused() {
    everywhere_by_pipe(|scene| {
        scene.file("src/a", "content");
        let refused = |words: &[&str]| {
            let done = scene.transfer("sync", &scene.route(), words, &["src/"], "dst/").run();
            assert_ne!(done.code, Some(0), "{words:?}: {done}");
            done.err()
        };
        if scene.way == Way::Local {
            let hosts = ["sync", "-a", "--fake-super", "one:a", "two:b"];
            let between = scene.haul().args(hosts).run().expect_code(1);
            assert!(between.err().contains("fake-super is not possible"), "{between}");
        }
        assert!(
            refused(&["-a", "-M--fsync"])
                .contains("use only --fake-super, --super or --insecure-links with -M")
        );
        let both = refused(&["-a", "--fake-super", "--remove-source-files"]);
        assert!(both.contains("--remove-source-files and --fake-super exclude each other: haul could not verify the copies"), "{both}");
        if scene.is_sftp() {
            let far = refused(&["-a", "-M--fake-super"]);
            assert!(
                far.contains(
                    "SFTP can't store or read privileged attributes: install haul on the host"
                ),
                "{far}"
            );
        }
    });
}

#[test]
fn what_would_be_read_as_another_attribute_fails_its_entry() {
    each_way_by_pipe(|scene| {
        scene.file("src/good", "content");
        for name in ["user.rsync.%stat", "user.rsync.%aacl", "user.rsync.trusted.a"] {
            let odd = scene.file(format!("src/{name}"), "content");
            run(Command::new("setfattr").args(["-n", name, "-v", "100644 0,0 1:1"]).arg(odd));
        }
        let words = [&["-aX"], of_dest(scene.way)].concat();
        let done = scene.transfer("sync", &scene.route(), &words, &["src/"], "dst/").run();
        assert_eq!(done.code, Some(23), "{done}");
        assert_eq!(done.err().matches("would be read as a stored one").count(), 3);
        assert_eq!(scene.list("dst"), ["good"]);
    });
}

#[test]
fn an_attribute_that_no_fifo_or_link_can_have_fails_its_entry() {
    each_way_by_pipe(|scene| {
        for (name, record) in [("fifo", "10644 0,0 0:0"), ("link", "120777 0,0 0:0")] {
            let path = scene.file(format!("src/{name}"), "target");
            for (name, value) in [("user.a", "x"), ("user.rsync.%stat", record)] {
                run(Command::new("setfattr").args(["-n", name, "-v", value]).arg(&path));
            }
        }
        scene.file("src/good", "content");
        let words = [&["-rltDX"], of_source(scene.way)].concat();
        let done = scene.transfer("sync", &scene.route(), &words, &["src/"], "dst/").run();
        assert_eq!(done.code, Some(23), "{done}");
        assert_eq!(done.err().matches("can't set the extended attribute user.a").count(), 2);
        assert_eq!(scene.list("dst"), ["good"]);
        // They are kept where they are written down, too.
        let words = [&["-rltDXi"], of_both(scene.way)].concat();
        let sync = || scene.transfer("sync", &scene.route(), &words, &["src/"], "kept/").run();
        assert_eq!(sync().code, Some(0));
        for name in ["fifo", "link"] {
            run(Command::new("getfattr").args(["-n", "user.a"]).arg(scene.path("kept").join(name)));
        }
        assert_eq!(sync().out(), "");
    });
}

#[test]
fn what_cannot_be_written_down_fails_its_entry() {
    if !is_root() {
        return fixture::missing("root");
    }
    each_way_by_pipe(|scene| {
        let Some(mount) = fixture::made("a ramfs", Mount::try_ramfs()) else { return };
        for name in ["plain", "theirs", "link"] {
            let path = match name {
                "link" => scene.symlink("plain", "src/link"),
                name => scene.file(format!("src/{name}"), name),
            };
            own(path, (if name == "theirs" { 12345 } else { 0 }, 0));
        }
        let dest = format!("{}/", mount.path().join("dst").display());
        let words = [&["-a"], of_dest(scene.way)].concat();
        let done = scene.transfer("sync", &scene.route(), &words, &["src/"], &dest).run();
        assert_eq!(done.code, Some(23), "{done}");
        for name in ["theirs", "link"] {
            let line = done.err().lines().find(|line| line.contains(name)).map(str::to_owned);
            let line = line.unwrap_or_else(|| panic!("{name}: {done}"));
            assert!(
                line.contains("does not support the extended attribute user.rsync.%stat"),
                "{line}"
            );
        }
        let there: Vec<_> = fs::read_dir(mount.path().join("dst")).expect("it is there").collect();
        assert!(matches!(&there[..], [Ok(plain)] if plain.file_name() == "plain"), "{there:?}");
    });
}

#[test]
fn without_proc_nothing_is_taken_for_gone() {
    let can = Command::new("unshare").args(["-m", "true"]).status();
    if !is_root() || !can.is_ok_and(|status| status.success()) {
        return fixture::missing("the right to mount");
    }
    let world = World::new();
    let mut scene = world.scene(Way::Local);
    scene.file("src/a", "content");
    scene.file("dst/a", "content");
    scene.file("dst/extra", "content");
    run(Command::new("setfattr")
        .args(["-n", "user.rsync.%stat", "-v", "100644 0,0 5:6"])
        .arg(scene.path("src/a")));
    let lines = format!(
        "exec unshare -m sh -c 'mount -t tmpfs none /proc && exec \"$0\" \"$@\"' {HAUL} \"$@\""
    );
    scene.run_as(script(&scene.path("alone"), &lines));
    for sides in [["--fake-super", "-M--super"], ["-t", "-M--fake-super"]] {
        let words = [&["-a", "--delete"], &sides[..]].concat();
        let done = scene.transfer("sync", &scene.route(), &words, &["src/"], "dst/").run();
        assert_eq!(done.code, Some(23), "{done}");
        assert!(done.err().contains("is /proc mounted?"), "{done}");
        assert_eq!(scene.list("dst"), ["a", "extra"]);
    }
}
