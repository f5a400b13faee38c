//! Times that are coarse, or not taken.

use super::*;

const SECS: i64 = 1_600_000_001;
const NANOS: u32 = 987_654_321;

/// Told by who assumes that times are kept in even seconds.
const ASSUMED: &str = "all mtimes there are multiples of two seconds: treating entries up to two seconds older as unchanged; compare contents to be sure";

fn quirks(unit_nanos: u64) -> Quirks {
    Quirks { time_unit: Duration::from_nanos(unit_nanos), ..Quirks::default() }
}

/// A file with a time that no coarse file system keeps.
fn file(scene: &Scene<'_>, name: &str, content: &str) {
    fs::write(scene.path(name), content).expect("written");
    nasty::set_mtime(scene.path(name), SECS, NANOS).expect("set");
}

#[test]
fn what_was_kept_as_exactly_as_it_can_be_is_unchanged() {
    for unit in [100, 1_000, 1_000_000, 10_000_000, 1_000_000_000] {
        is_unchanged_where_times_have(unit);
    }
}

#[test]
fn what_was_kept_to_two_seconds_is_unchanged() {
    is_unchanged_where_times_have(2_000_000_000);
}

/// A copy to where times are whole numbers of this unit, in nanoseconds.
fn is_unchanged_where_times_have(unit: u64) {
    each_way_to(&quirks(unit), |scene, mount| {
        fs::create_dir(scene.path("tree")).expect("made");
        file(scene, "tree/file", "content");
        scene.copy(&["-r"], &["tree"], "to/").run().expect_ok();
        let before = fs::metadata(mount.join("tree/file")).expect("there");
        let dir = fs::metadata(mount.join("tree")).expect("there");
        let run = scene.copy(&["-r", "--json"], &["tree"], "to/").run().expect_ok();
        assert_eq!(moved(&run), 0, "{run}");
        let after = fs::metadata(mount.join("tree/file")).expect("there");
        assert_eq!(before.ino(), after.ino(), "it was copied again");
        assert_eq!(dir.mtime(), fs::metadata(mount.join("tree")).expect("there").mtime());
        // What makes nothing there finds too few times to tell, and says what it assumes.
        let run = check(scene, &["-r"], &["tree"], "to/").run().expect_ok();
        let assumes = scene.way == Way::SftpUpload && unit > 1_000_000_000;
        assert_eq!(run.err().matches(ASSUMED).count(), usize::from(assumes), "{run}");
        scene.copy(&["-r", "--dry-run"], &["tree"], "to/").run().expect_ok();
        // Of another second, it is another.
        nasty::set_mtime(scene.path("tree/file"), SECS + 2, NANOS).expect("set");
        check(scene, &["-r"], &["tree"], "to/").run().expect_code(1);
        let run = scene.copy(&["-r", "--json"], &["tree"], "to/").run().expect_ok();
        assert_eq!(moved(&run), 7, "{run}");
        assert_eq!(left(scene), [""; 0]);
    });
}

#[test]
fn a_move_to_where_times_are_coarse_is_a_move() {
    each_way_to(&quirks(2_000_000_000), |scene, _| {
        file(scene, "file", "content");
        moves(scene, &[], &["file"], "to/").run().expect_ok();
        assert!(!scene.path("file").exists());
        assert_eq!(scene.read("to/file"), "content");
    });
}

#[test]
fn where_times_are_exact_another_time_in_the_same_second_is_a_change() {
    each_way_to(&quirks(1), |scene, mount| {
        file(scene, "file", "content");
        fs::write(mount.join("file"), "CONTENT").expect("written");
        for (secs, nanos) in [(SECS, 0), (SECS - 1, 0), (SECS, 987_654_300)] {
            nasty::set_mtime(mount.join("file"), secs, nanos).expect("set");
            check(scene, &[], &["file"], "to/").run().expect_code(1);
            let run = scene.copy(&["--json"], &["file"], "to/").run().expect_ok();
            assert_eq!(moved(&run), 7, "{run}");
            assert_eq!(scene.read("to/file"), "content");
            fs::write(mount.join("file"), "CONTENT").expect("written");
        }
    });
}

#[test]
fn a_time_is_kept_where_a_call_that_sets_it_alone_does_nothing() {
    let quirks = Quirks { times: Times::OnlyBoth, ..Quirks::default() };
    each_way_to(&quirks, |scene, mount| {
        fs::create_dir(scene.path("tree")).expect("made");
        scene.symlink("nowhere", "tree/link");
        nasty::set_mtime(scene.path("tree/link"), SECS, NANOS).expect("set");
        for (name, len) in SIZES {
            let path = format!("tree/{name}");
            tree::random_file(scene.path(&path), len, 3).expect("a file");
            nasty::set_mtime(scene.path(&path), SECS, NANOS).expect("set");
        }
        nasty::set_mtime(scene.path("tree"), SECS, NANOS).expect("set");
        scene.copy(&["-r"], &["tree"], "to/").run().expect_ok();
        for path in ["tree", "tree/link", "tree/small", "tree/middle", "tree/large"] {
            let stat = fs::symlink_metadata(mount.join(path)).expect("there");
            let nanos = if scene.is_sftp() { 0 } else { NANOS };
            assert_eq!((stat.mtime(), stat.mtime_nsec()), (SECS, nanos.into()), "{path}");
        }
    });
}

#[test]
fn a_file_whose_time_is_never_taken_fails_and_a_move_keeps_it() {
    let quirks = Quirks { times: Times::Never, ..Quirks::default() };
    each_way_to(&quirks, |scene, _| {
        file(scene, "file", "content");
        let run = scene.copy(&[], &["file"], "to/").run().expect_code(1);
        assert!(run.err().contains("does not store the given time"), "{run}");
        assert_eq!(scene.list("to/"), [""; 0]);
        moves(scene, &[], &["file"], "to/").run().expect_code(1);
        assert_eq!(scene.read("file"), "content");
    });
}

#[test]
fn a_check_that_finds_even_seconds_alone_takes_them_for_what_is_kept() {
    each_way_to(&quirks(2_000_000_000), |scene, mount| {
        for number in 0..20 {
            let name = format!("tree/{number}");
            scene.file(&name, "content");
            nasty::set_mtime(scene.path(&name), SECS + 4 * number, NANOS).expect("set");
        }
        scene.copy(&["-r"], &["tree"], "to/").run().expect_ok();
        check(scene, &["-r"], &["tree"], "to/").run().expect_ok();
        // Times that are all the same show nothing by themselves.
        for number in 0..20 {
            nasty::set_mtime(scene.path(format!("tree/{number}")), SECS, 0).expect("set");
            nasty::set_mtime(mount.join(format!("tree/{number}")), SECS - 1, 0).expect("set");
        }
        let run = check(scene, &["-r"], &["tree"], "to/").run().expect_ok();
        let told = run.err().matches(ASSUMED).count();
        assert_eq!(told, usize::from(scene.way == Way::SftpUpload), "{run}");
        // What differs by more does, and so does one second where one time is odd.
        nasty::set_mtime(mount.join("tree/3"), SECS - 3, 0).expect("set");
        let run = check(scene, &["-r"], &["tree"], "to/").run().expect_code(1);
        assert_eq!(run.out().matches("tree/").count(), 1, "{run}");
    });
}

#[test]
fn one_odd_second_at_a_server_shows_that_each_second_counts_there() {
    let world = World::new();
    let mut scene = world.scene(Way::SftpUpload);
    scene.reach_by_pipe();
    for (name, secs) in [("a", SECS), ("b", SECS + 4), ("sub/c", SECS + 8)] {
        scene.file(format!("tree/{name}"), "content");
        nasty::set_mtime(scene.path(format!("tree/{name}")), secs, 0).expect("set");
    }
    let at = |name: &str, secs| {
        nasty::set_mtime(scene.path(format!("to/tree/{name}")), secs, 0).expect("set");
    };
    run(std::process::Command::new("cp").arg("-r").arg(scene.path("tree")).arg(scene.mkdir("to")));
    // All are even: one second may be what a coarse file system has cut off.
    for (name, secs) in
        [("", SECS), ("sub", SECS), ("a", SECS), ("b", SECS + 4), ("sub/c", SECS + 8)]
    {
        at(name, secs - 1);
    }
    let differing = |expected: &[&str]| {
        let run = check(&scene, &["-r"], &["tree"], "to/").run();
        let out = run.out();
        let mut found: Vec<_> = ["tree/a", "tree/b", "tree/sub/c"]
            .into_iter()
            .filter(|path| out.contains(path))
            .collect();
        found.sort_unstable();
        assert_eq!(found, expected, "{run}");
        run
    };
    assert_eq!(differing(&[]).err().matches(ASSUMED).count(), 1);
    // It is not.
    at("b", SECS + 4);
    assert_eq!(differing(&["tree/a", "tree/sub/c"]).err().matches(ASSUMED).count(), 0);
}

#[test]
fn that_a_server_takes_no_times_is_reported_once_and_a_move_leaves_the_sources() {
    let world = World::new();
    let mut scene = world.scene(Way::SftpUpload);
    scene.reach_by_pipe();
    let quirks = Quirks { times: Times::Never, ..Quirks::default() };
    let Some(mount) = OddMount::new(quirks) else { return };
    scene.symlink(mount.path(), "to");
    for (name, len) in SIZES {
        tree::random_file(scene.path(name), len, 3).expect("a file");
        nasty::set_mtime(scene.path(name), SECS, NANOS).expect("set");
    }
    let names = SIZES.map(|(name, _)| name);
    let told = "the server does not store mtimes: files have the time of the copy, and the next copy sends them again, unless it replaces only older files";
    let run = scene.copy(&[], &names, "to/").run().expect_ok();
    assert_eq!(run.err().matches(told).count(), 1, "{run}");
    // What it says to do helps.
    let run = scene.copy(&["--update", "--json"], &names, "to/").run().expect_ok();
    assert_eq!(moved(&run), 0, "{run}");
    for (name, _) in SIZES {
        fs::remove_file(mount.join(name)).expect("removed");
    }
    let run = moves(&scene, &[], &names, "to/").run().expect_code(1);
    let cause = "the server does not store the given time";
    assert_eq!(run.err().matches(cause).count(), names.len(), "{run}");
    assert!(names.iter().all(|name| scene.exists(name) && !mount.join(name).exists()), "{run}");
    assert_eq!(left(&scene), [""; 0]);
}

#[test]
fn a_time_that_cant_be_held_is_reported_and_is_a_difference_and_a_move_keeps_the_source() {
    const WARNING: &str = "can't store its mtime";
    // One through SFTP, which begins with 1970, and one on a file system that ends in 2038.
    for (way, date) in [(Way::SftpUpload, "1901-12-31"), (Way::Local, "2200-01-01")] {
        let world = World::new();
        let mut scene = world.scene(way);
        scene.reach_by_pipe();
        let Some(mount) = Mount::image(FileSystem::Ext4Until2038, 64 << 20) else { return };
        scene.symlink(mount.path(), "to");
        scene.mkdir("tree");
        for (name, len) in [("small", 1000), ("middle", 3 << 20)] {
            tree::random_file(scene.path(format!("tree/{name}")), len, 3).expect("a file");
        }
        scene.file("tree/usual", "of today");
        sh(&scene, &format!("touch -d {date} tree/small tree/middle"));
        let run = scene.copy(&["-r"], &["tree"], "to/").run().expect_ok();
        assert_eq!(run.err().matches(WARNING).count(), 2, "{run}");
        let run = check(&scene, &["-r"], &["tree"], "to/").run().expect_code(1);
        assert_eq!(run.out().matches("(time)").count(), 2, "{run}");
        // A file of the same length may have other content.
        fs::write(scene.path("tree/small"), [7; 1000]).expect("written");
        sh(&scene, &format!("touch -d {date} tree/small"));
        scene.copy(&["-r"], &["tree"], "to/").run().expect_ok();
        assert_eq!(scene.read("to/tree/small"), String::from_utf8_lossy(&[7; 1000]));
        let run = moves(&scene, &[], &["tree"], "to/").run().expect_code(1);
        assert_eq!(run.err().matches(WARNING).count(), 2, "{run}");
        assert!(["small", "middle"].iter().all(|name| scene.exists(format!("tree/{name}"))));
        assert!(!scene.exists("tree/usual"), "{run}");
        moves(&scene, &["--lossy"], &["tree"], "to/").run().expect_ok();
        assert!(!scene.exists("tree"));
    }
}

#[test]
fn a_warning_of_one_of_several_destinations_names_that() {
    let world = World::new();
    let mut scene = world.scene(Way::Upload);
    scene.reach_by_pipe();
    let Some(mount) = Mount::image(FileSystem::Ext4Until2038, 64 << 20) else { return };
    scene.symlink(mount.path(), "to");
    scene.file("tree/late", "of a later century");
    sh(&scene, "touch -d 2200-01-01 tree/late; mkdir to/one to/two");
    let dests = ["to/one", "to/two"].map(|dest| scene.there(scene.path(dest)));
    let words = ["copy", "-r", "--to-all", "tree"];
    let words = scene.haul().args(words).args(scene.remote()).args(&dests);
    let run = words.run().expect_ok();
    for dest in dests.map(|dest| dest.to_string_lossy().into_owned()) {
        let warning = format!("warning: {dest}: tree/late: the destination can't store its mtime");
        assert_eq!(run.err().matches(&warning).count(), 1, "{run}");
    }
}
