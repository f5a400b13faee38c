//! Files that killed uploads of small files leave at a host, and who removes them.

use crate::common::*;
use crate::killed::kills;
use crate::resuming::{SOON, haul, servers_of};
use crate::{copy, rules, strays};
use haul_testkit::campaign;
use haul_testkit::content::Stream;
use haul_testkit::haul::Running;
use haul_testkit::proc::{self, Signal};
use haul_testkit::{Haul, assert_same_with, holds_within, tree};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Files of one copy: more than are on their way at a time.
const MANY: u64 = 1_500;

/// The records of what jobs may have left at hosts.
fn records(scene: &Scene<'_>) -> usize {
    let entries = fs::read_dir(scene.path("state/haul/uploads")).into_iter().flatten().flatten();
    entries.filter(|entry| entry.path().extension().is_some_and(|end| end == "stages")).count()
}

/// Waits until stages of a copy are at the host that were not there `before`, does
/// `what`, and gives what is there when the server has done all that was asked. On a
/// busy machine a copy may end without having been seen; it leaves nothing.
fn catch(
    scene: &Scene<'_>,
    running: &Running,
    before: &[PathBuf],
    what: impl Fn(&Running),
) -> Vec<PathBuf> {
    let new = || {
        let mut found = strays(&scene.path("to"));
        found.retain(|stray| !before.contains(stray));
        found
    };
    // Many of them: those that are on their way get their names at once.
    running.until(SOON, || new().len() >= 20);
    what(running);
    // A server is still at it for a moment when its client does nothing more, on a busy
    // machine for a long one.
    let is_idle = || {
        let mut at_work = scene.sshd().sessions();
        at_work.extend(proc::descendants(running.pid()));
        at_work.into_iter().all(proc::is_idle)
    };
    let mut left = new();
    loop {
        std::thread::sleep(Duration::from_millis(100));
        let (idle, now) = (is_idle(), new());
        if idle && now == left {
            return left;
        }
        left = now;
    }
}

/// Runs a copy until it has stages at the host, and kills it.
fn kill_amid(scene: &Scene<'_>, haul: &Haul) -> Vec<PathBuf> {
    for _ in 0..10 {
        let before = strays(&scene.path("to"));
        let running = haul.spawn().expect("it starts");
        let left = catch(scene, &running, &before, |running| running.signal(Signal::KILL));
        running.wait().expect("it ends");
        if !left.is_empty() {
            return left;
        }
        remove_files(&scene.path("to/tree"), &before);
    }
    panic!("no kill has left a stage");
}

/// Removes all files below `dir` but these.
fn remove_files(dir: &Path, kept: &[PathBuf]) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_type().expect("a type").is_dir() {
            remove_files(&path, kept);
        } else if !kept.contains(&path) {
            fs::remove_file(&path).expect("removed");
        }
    }
}

#[test]
fn the_next_run_removes_what_killed_ones_have_left() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    tree::many(scene.path("tree"), MANY, 2_000, 6, 4).expect("made");
    scene.mkdir("to");
    let upload = haul(&scene, &["-rq"], &["tree"]);
    let mut random = Stream::new(campaign::seed(77));
    for _ in 0..kills() / 2 {
        kill_amid(&scene, &upload);
        // Another at a random moment, which may find what the one before has left.
        let running = upload.spawn().expect("it starts");
        running.until(SOON, || !servers_of(&scene).is_empty());
        std::thread::sleep(Duration::from_millis(random.below(200)));
        running.signal(Signal::KILL);
        running.wait().expect("it ends");
        std::thread::sleep(Duration::from_millis(200));
        assert!(records(&scene) > 0);
        upload.run().expect_ok();
        assert_eq!(strays(&scene.path("to")), [""; 0].map(PathBuf::from));
        let source = scene.snapshot("tree");
        let rules = rules().ignoring_dir_mtimes();
        assert_same_with(&source, &scene.snapshot("to/tree"), rules);
        fs::remove_dir_all(scene.path("to/tree")).expect("removed");
    }
    // What has ended in order is not kept in mind.
    let known = records(&scene);
    upload.run().expect_ok();
    assert_eq!(records(&scene), known);
}

#[test]
fn what_is_not_known_to_be_dead_stays() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    for (source, seed) in [("a/tree", 1), ("b/tree", 2), ("c/tree", 3)] {
        tree::many(scene.path(source), MANY, 2_000, 6, seed).expect("made");
    }
    scene.mkdir("to");
    let of = |source: &str| haul(&scene, &["-rq", "--force"], &[source]);
    // Nothing on this side knows what was begun with another state.
    let elsewhere =
        copy(&scene, &["-rq"], &["a/tree"], "to").env("XDG_STATE_HOME", scene.path("other state"));
    let foreign = kill_amid(&scene, &elsewhere);
    let own = kill_amid(&scene, &of("b/tree"));
    // Stopped with something on its way, at one of some tries.
    let stopped = (0..10).find_map(|_| {
        let before = strays(&scene.path("to"));
        let living = of("c/tree").spawn().expect("it starts");
        let stopped = catch(&scene, &living, &before, |running| running.signal(Signal::STOP));
        if stopped.is_empty() {
            living.signal(Signal::KILL);
            living.wait().expect("it ends");
            return None;
        }
        Some((living, stopped))
    });
    let (living, stopped) = stopped.expect("each time it was stopped with nothing on its way");
    of("b/tree").run().expect_ok();
    let left = strays(&scene.path("to"));
    assert!(foreign.iter().all(|stage| left.contains(stage)), "another machine's went");
    assert!(stopped.iter().all(|stage| left.contains(stage)), "those of a living copy went");
    assert!(!own.iter().any(|stage| left.contains(stage)), "dead ones are left");
    living.signal(Signal::CONT);
    living.wait().expect("it ends").expect_ok();
    assert_eq!(strays(&scene.path("to")).len(), foreign.len());
    // Who has that state removes them.
    elsewhere.run().expect_ok();
    assert_eq!(strays(&scene.path("to")), [""; 0].map(PathBuf::from));
}

/// True if a file that is larger than a small one is on its way.
fn has_begun(scene: &Scene<'_>) -> bool {
    strays(&scene.path("to")).iter().any(|stray| stray.metadata().is_ok_and(|m| m.len() > 1 << 20))
}

#[test]
fn what_a_single_file_has_left_goes_when_it_is_copied_again() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    // It is no small one, and none that is continued.
    tree::random_file(scene.path("middle"), 48 << 20, 3).expect("made");
    scene.file("to/other", "stays");
    let upload = haul(&scene, &["-q"], &["middle"]);
    for victim in ["haul", "server"] {
        let running = upload.spawn().expect("it starts");
        assert!(running.until(SOON, || has_begun(&scene)), "it does not begin");
        match victim {
            "haul" => running.signal(Signal::KILL),
            _ => servers_of(&scene).into_iter().for_each(|pid| proc::signal(pid, Signal::KILL)),
        }
        running.wait().expect("it ends");
        std::thread::sleep(Duration::from_millis(200));
        assert!(!scene.exists("to/middle"), "it was done before");
        assert_eq!(strays(&scene.path("to")).len(), 1, "{victim}");
        upload.run().expect_ok();
        assert_eq!(scene.list("to"), ["middle", "other"], "{victim}");
        fs::remove_file(scene.path("to/middle")).expect("removed");
    }
    assert_eq!(scene.read("to/other"), "stays");
}

#[test]
fn what_was_left_in_a_directory_that_the_killed_job_made_goes_with_the_next() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    scene.mkdir("tree");
    tree::random_file(scene.path("tree/middle"), 48 << 20, 3).expect("made");
    scene.mkdir("to");
    // With a slash it is made as the destination, and without it a tree gets its name.
    for (flags, source, dest) in [("-q", "tree/middle", "to/new/"), ("-rq", "tree", "to/renamed")] {
        let upload =
            copy(&scene, &[flags], &[source], dest).env("XDG_STATE_HOME", scene.path("state"));
        let running = upload.spawn().expect("it starts");
        assert!(running.until(SOON, || has_begun(&scene)), "it does not begin");
        running.signal(Signal::KILL);
        running.wait().expect("it ends");
        std::thread::sleep(Duration::from_millis(200));
        // One that was made as a new name has what tells that in it, too.
        let left = strays(&scene.path("to"));
        assert_eq!(left.len(), if dest.ends_with('/') { 1 } else { 2 }, "{dest}");
        let made = scene.path(dest.trim_end_matches('/'));
        assert!(left.iter().all(|path| path.parent() == Some(&*made)), "{dest}: {left:?}");
        upload.run().expect_ok();
        assert_eq!(strays(&scene.path("to")), [""; 0].map(PathBuf::from), "{dest}");
    }
    assert_eq!(scene.list("to/new"), ["middle"]);
    assert_eq!(scene.list("to/renamed"), ["middle"]);
}

#[test]
fn an_end_before_a_server_that_hangs_leaves_nothing_for_good() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    tree::random_file(scene.path("middle"), 48 << 20, 3).expect("made");
    scene.mkdir("to");
    let upload = haul(&scene, &["-q"], &["middle"]);
    let running = upload.spawn().expect("it starts");
    assert!(running.until(SOON, || has_begun(&scene)), "it does not begin");
    let servers = servers_of(&scene);
    servers.iter().for_each(|&pid| proc::signal(pid, Signal::STOP));
    running.signal(Signal::TERM);
    let run = running.wait().expect("it ends");
    servers.iter().for_each(|&pid| proc::signal(pid, Signal::KILL));
    run.expect_code(130);
    assert!(!scene.exists("to/middle"), "it was done before");
    assert_eq!((strays(&scene.path("to")).len(), records(&scene)), (1, 1));
    upload.run().expect_ok();
    assert_eq!(scene.list("to"), ["middle"]);
}

#[test]
fn a_lost_connection_leaves_nothing_for_good() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    tree::many(scene.path("tree"), MANY, 2_000, 6, 4).expect("made");
    scene.mkdir("to");
    let upload = haul(&scene, &["-rq"], &["tree"]);
    let running = upload.spawn().expect("it starts");
    catch(&scene, &running, &[], |_| {
        for server in servers_of(&scene) {
            proc::signal(server, Signal::KILL);
        }
    });
    let run = running.wait().expect("it ends");
    if run.code != Some(0) {
        run.expect_code(3);
        assert_eq!(records(&scene), 1);
    }
    upload.run().expect_ok();
    assert_eq!(strays(&scene.path("to")), [""; 0].map(PathBuf::from));
}

#[test]
fn a_link_whose_stage_is_taken_for_left_behind_is_made_again() {
    /// So often in a row it may be.
    const REMOVED_MAX: usize = 5;
    let world = World::new();
    let scene = world.scene(Way::Upload);
    scene.mkdir("from");
    scene.mkdir("to/from");
    for n in 0..300 {
        scene.symlink(format!("old-{n}"), format!("to/from/link-{n}"));
        scene.symlink(format!("new-{n}"), format!("from/link-{n}"));
    }
    let dest = scene.path("to/from");
    let running = copy(&scene, &["-r"], &["from"], "to/").spawn().expect("started");
    let mut removed = 0;
    while removed < REMOVED_MAX && running.is_running() {
        removed += strays(&dest).iter().filter(|stage| fs::remove_file(stage).is_ok()).count();
    }
    running.wait().expect("ended").expect_ok();
    assert!(removed > 0, "no stage was seen");
    assert_same_with(&scene.snapshot("from"), &scene.snapshot("to/from"), rules());
}

#[test]
fn what_an_upload_is_writing_is_not_cleaned_away_on_the_host() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    // One that can be continued, one that can't, and small ones.
    scene.mkdir("tree");
    tree::random_file(scene.path("tree/large"), 80 << 20, 1).expect("a file");
    tree::random_file(scene.path("tree/middle"), 60 << 20, 2).expect("a file");
    tree::many(scene.path("tree/small"), 200, 20_000, 3, 3).expect("made");
    scene.mkdir("to");
    let home = scene.mkdir("home");
    let running = copy(&scene, &["-r"], &["tree"], "to").home(&home).spawn().expect("it starts");
    let both = || strays(&scene.path("to")).len() >= 2;
    assert!(running.until(Duration::from_secs(20), both), "it does not begin");
    running.signal(Signal::STOP);
    let sorted = || {
        let mut found = strays(&scene.path("to"));
        found.sort();
        found
    };
    // What the server has still to do, it does.
    let has_settled = || {
        let seen = sorted();
        std::thread::sleep(Duration::from_secs(1));
        seen == sorted()
    };
    assert!(holds_within(Duration::from_secs(60), has_settled), "the server comes to no end");
    let before = sorted();
    for flags in [&["-r"][..], &["-r", "--all"]] {
        let run = scene.haul().arg("clean").args(flags).arg("to").run().expect_ok();
        assert!(run.out().contains("removed nothing; recent "), "{run}");
    }
    assert!(!before.is_empty() && sorted() == before, "{before:?}");
    running.signal(Signal::CONT);
    running.wait().expect("it ends").expect_ok();
    assert_eq!(strays(&scene.path("to")).len(), 0);
    assert_same_with(&scene.snapshot("tree"), &scene.snapshot("to/tree"), rules());
}
