//! File systems that are mounted in a destination.

use crate::common::*;
use haul_testkit::{Mount, fixture, holds_within, snapshot};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// How many files wait in lots of `dir`.
pub(super) fn waiting_in(dir: &Path) -> usize {
    let lots = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let lots = lots.filter(|path| path.extension().is_some_and(|end| end == "late"));
    let rows = lots.flat_map(|lot| fs::read_dir(lot).into_iter().flatten().flatten());
    rows.map(|row| fs::read_dir(row.path()).into_iter().flatten().count()).sum()
}

/// A mirror of `src` with these `flags`, which sees `k` and `m` of `mount` in `dst`, as two
/// places of one file system; `None` if it may not.
pub(super) fn in_mounts(scene: &Scene<'_>, mount: &Mount, flags: &str) -> Option<Command> {
    let can = Command::new("unshare").args(["-m", "true"]).status();
    if !can.is_ok_and(|status| status.success()) {
        fixture::missing("the right to mount");
        return None;
    }
    for dir in ["k", "m"] {
        scene.mkdir(format!("dst/{dir}"));
        fs::create_dir_all(mount.join(dir)).expect("made");
    }
    let (at, to) = (mount.path().display(), scene.path("dst"));
    let binds = ["k", "m"].map(|dir| format!("mount --bind {at}/{dir} {}/{dir}", to.display()));
    let haul = format!("exec {HAUL} sync -a --delay-updates {flags} src/ dst");
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &format!("{} && {haul}", binds.join(" && "))]);
    command.current_dir(scene.path("")).env("HOME", scene.path(""));
    Some(command)
}

#[test]
fn what_waits_stays_where_its_file_system_has_files_of_before_in_another_place() {
    const FILES: usize = 50;
    let world = World::new();
    let scene = world.scene(Way::Local);
    let Some(mount) = Mount::tmpfs(64 << 20) else { return };
    for file in 0..FILES {
        scene.file(format!("src/k/{file}"), format!("file {file}"));
    }
    scene.file("src/k/large", vec![7; 8 << 20]);
    scene.file("src/m/file", "in m");
    let Some(mut sync) = in_mounts(&scene, &mount, "--bwlimit=1m --exclude=/m/") else { return };
    let mut running = sync.spawn().expect("it starts");
    let waits = || waiting_in(&mount.join("k")) >= FILES;
    let has_begun = holds_within(Duration::from_secs(30), waits);
    running.kill().expect("killed");
    running.wait().expect("it ends");
    assert!(has_begun, "nothing waits");
    let other = mount.join("m/.haul-0123456789abcdef.late");
    fs::create_dir_all(other.join("0-new")).expect("made");
    fs::write(other.join("0-new/file"), "left").expect("written");
    mode(&other, 0o700);
    let Some(mut sync) = in_mounts(&scene, &mount, "") else { return };
    let done = sync.output().expect("it runs");
    assert!(done.status.success(), "{done:?}");
    for dir in ["k", "m"] {
        let rules = scene.rules().ignoring_dir_mtimes();
        let ours = snapshot(scene.path(format!("src/{dir}"))).expect("read");
        let theirs = snapshot(mount.join(dir)).expect("read");
        let differences = ours.differences(&theirs, rules);
        assert!(differences.is_empty(), "{dir}: {differences:?}");
        assert_no_strays(&mount.join(dir));
    }
}
