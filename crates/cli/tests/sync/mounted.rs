//! File systems that are mounted in a destination.

use crate::common::*;
use crate::lots::{kill_when, waiting_in};
use haul_testkit::{Haul, Mount, fixture, snapshot};
use std::fs;
use std::process::Command;

/// A mirror of `src` with these `flags`, which sees `k` and `m` of `mount` in `dst`, as two
/// places of one file system; `None` if nothing may be mounted.
fn in_mounts(scene: &Scene<'_>, mount: &Mount, flags: &str) -> Option<Haul> {
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
    let lines = format!("{} && {haul}", binds.join(" && "));
    Some(scene.program("unshare").args(["-m", "sh", "-c", &lines]))
}

/// Nothing differs from the source, and nothing was left.
fn assert_mirrored(scene: &Scene<'_>, mount: &Mount) {
    for dir in ["k", "m"] {
        let rules = scene.rules().ignoring_dir_mtimes();
        let theirs = snapshot(mount.join(dir)).expect("read");
        let differences = scene.snapshot(format!("src/{dir}")).differences(&theirs, rules);
        assert!(differences.is_empty(), "{dir}: {differences:?}");
        assert_no_strays(&mount.join(dir));
    }
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
    let Some(slow) = in_mounts(&scene, &mount, "--bwlimit=1m --exclude=/m/") else { return };
    kill_when(&scene, &slow, || waiting_in(&mount.join("k")) >= FILES);
    let other = mount.join("m/.haul-0123456789abcdef.late");
    fs::create_dir_all(other.join("0-new")).expect("made");
    fs::write(other.join("0-new/file"), "left").expect("written");
    mode(&other, 0o700);
    let Some(sync) = in_mounts(&scene, &mount, "") else { return };
    sync.run().expect_ok();
    assert_mirrored(&scene, &mount);
}

#[test]
fn a_large_file_waits_where_its_file_system_is_mounted_in_another_place() {
    let world = World::new();
    let scene = world.scene(Way::Local);
    let Some(mount) = Mount::tmpfs(256 << 20) else { return };
    scene.file("src/k/first", "has a lot made");
    // Long enough to be continued.
    scene.file("src/m/large", vec![7; 65 << 20]);
    let Some(sync) = in_mounts(&scene, &mount, "") else { return };
    sync.run().expect_ok();
    assert_mirrored(&scene, &mount);
}
