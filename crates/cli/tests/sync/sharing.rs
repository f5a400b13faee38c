//! Large files on file systems that let files share their content: what stays the same of
//! one is neither sent nor written, and only what was proven gets its name.

use crate::common::*;
use crate::differences::{MIB, change_meanwhile, noise, place, sync, versions};
use haul_testkit::campaign;
use haul_testkit::content::Stream;
use haul_testkit::wait::holds_within;
use haul_testkit::{FileSystem, Mount};
use rustix::fs::{SeekFrom, seek};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

const KINDS: [FileSystem; 2] = [FileSystem::Btrfs, FileSystem::Xfs];

/// Length of an image, in bytes.
const IMAGE_LEN: u64 = 640 << 20;

/// Bytes that a file system may take besides for what it has to tell of a file.
const TOLD_LEN: u64 = 1 << 20;

/// Kills in each way, in the short form of the campaign.
const KILLS: u64 = 2;

/// Runs `test` to and from a host with a `dst` on a file system of each kind.
fn on_each(prepare: impl Fn(&mut Scene<'_>) + Sync, test: impl Fn(&Scene<'_>, &Mount) + Sync) {
    let on = |kind| {
        let Some(disk) = Mount::image(kind, IMAGE_LEN) else { return };
        let prepare = |scene: &mut Scene<'_>| {
            scene.symlink(dir_of(&disk, scene), "dst");
            fs::create_dir(dir_of(&disk, scene)).expect("made");
            scene.reach_by_pipe();
            prepare(scene);
        };
        // One after the other: each looks at the room that is left.
        for way in Way::REMOTE {
            each_of(&[way], prepare, |scene| test(scene, &disk));
        }
    };
    // Each has a disk of its own, and much of the time waits for it.
    thread::scope(|scope| KINDS.map(|kind| scope.spawn(move || on(kind))).map(join));
}

fn join(thread: ScopedJoinHandle<'_, ()>) {
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

fn dir_of(disk: &Mount, scene: &Scene<'_>) -> PathBuf {
    disk.join(format!("{:?}", scene.way))
}

/// Bytes that are free when all is written.
fn free(disk: &Mount) -> u64 {
    run(Command::new("sync").arg("-f").arg(disk.path()));
    let stat = rustix::fs::statvfs(disk.path()).expect("looked at");
    stat.f_bfree * stat.f_frsize
}

/// Bytes of a file that are no hole.
fn data_len(path: &Path) -> u64 {
    let file = fs::File::open(path).expect("opened");
    let (mut at, mut len) = (0, 0);
    while let Ok(start) = seek(&file, SeekFrom::Data(at)) {
        at = seek(&file, SeekFrom::Hole(start)).expect("it ends");
        len += at - start;
    }
    len
}

#[track_caller]
fn assert_copied(scene: &Scene<'_>) {
    let [source, dest] = ["src/f", "dst/f"].map(|name| fs::read(scene.path(name)).expect("read"));
    assert!(source == dest);
    assert_eq!(scene.list("dst/.").iter().filter(|name| name.contains(".haul-")).count(), 0);
}

#[test]
fn what_stays_the_same_of_a_large_file_is_not_written() {
    on_each(
        |_| {},
        |scene, disk| {
            for (what, old, new) in versions(scene) {
                let kept = scene.path("dst/kept");
                let _ = fs::remove_file(&kept);
                place(scene, &old, &new);
                // So its content stays.
                fs::hard_link(scene.path("dst/f"), &kept).expect("linked");
                let before = free(disk);
                let run = sync(scene, &[]).expect_ok();
                assert_copied(scene);
                let taken = before.saturating_sub(free(disk));
                let is_in_place = ["pages", "truncated", "appended", "touched"].contains(&what);
                let new_len = new.len() as u64;
                let may_be = if is_in_place { figure(&run, "moved") } else { new_len };
                assert!(taken <= may_be + TOLD_LEN, "{what}: {taken} bytes, {run}");
                assert!(fs::read(&kept).expect("read") == old, "{what}");
            }
        },
    );
}

#[test]
fn what_becomes_a_hole_is_one() {
    on_each(
        |_| {},
        |scene, disk| {
            // Of these the source has holes of any length, too.
            let from = disk.join(format!("from-{:?}", scene.way));
            fs::create_dir(&from).expect("made");
            scene.symlink(from, "src");
            let old = noise(scene, 24 * MIB, 4);
            place(scene, &old, b"");
            let file = fs::File::create(scene.path("src/f")).expect("made");
            file.write_all_at(&old[..MIB], 0).expect("written");
            file.write_all_at(&old[9 * MIB..10 * MIB], 9 * MIB as u64).expect("written");
            file.write_all_at(b"end", 30 * MIB as u64 + 123).expect("written");
            drop(file);
            let run = sync(scene, &[]).expect_ok();
            assert_copied(scene);
            assert!(figure(&run, "matched") >= 2 * MIB as u64 - 64_000, "{run}");
            assert!(data_len(&scene.path("dst/f")) <= 2 * MIB as u64 + (64 << 10), "{run}");
        },
    );
}

#[test]
fn an_old_version_that_changes_meanwhile_is_of_no_matter() {
    let change = "printf changed | dd conv=notrunc status=none bs=1 seek=3000000 of=OLD";
    on_each(
        |scene| change_meanwhile(scene, change),
        |scene, _| {
            let old = noise(scene, 16 * MIB, 5);
            place(scene, &old, &[&old[..], b"and more"].concat());
            let run = sync(scene, &[]).expect_ok();
            assert_copied(scene);
            assert_eq!(figure(&run, "matched"), old.len() as u64, "{run}");
        },
    );
}

/// Changes one of two pages in the middle of `old`.
fn half_changed(scene: &Scene<'_>, old: &[u8]) -> Vec<u8> {
    let fresh = noise(scene, old.len(), 9);
    let mut new = old.to_vec();
    let middle = old.len() / 4..old.len() / 4 * 3;
    for at in middle.step_by(2 << 16) {
        new[at..at + (1 << 16)].copy_from_slice(&fresh[at..at + (1 << 16)]);
    }
    new
}

#[test]
fn a_kill_leaves_the_old_file_or_the_new_one() {
    on_each(
        |_| {},
        |scene, disk| {
            let old = noise(scene, 16 * MIB, 11);
            let new = half_changed(scene, &old);
            let mut random = Stream::new(campaign::seed(77 + scene.way as u64));
            let mut was_begun = 0;
            let is_left = |name: &String| name.ends_with(".part");
            let rounds = campaign::rounds(KILLS);
            // On a busy machine a kill may come too early or too late.
            for round in 0..4 * rounds {
                if round >= rounds && was_begun > 0 {
                    break;
                }
                place(scene, &old, &new);
                let running = scene
                    .transfer("sync", &scene.route(), &["-aq", "--bwlimit=4000"], &["src/"], "dst")
                    .spawn()
                    .expect("it starts");
                // From when the sums of the old one are told, what differs takes a second.
                let parts = || scene.list("dst/.").into_iter().filter(|name| is_left(name)).count();
                let _ = running.until(Duration::from_secs(20), || parts() > 0);
                thread::sleep(Duration::from_millis(random.below(900)));
                running.signal(haul_testkit::proc::Signal::KILL);
                running.wait().expect("it ends");
                until_idle(disk);
                let there = fs::read(scene.path("dst/f")).expect("read");
                assert!(there == old || there == new);
                was_begun += parts();
                let before = free(disk);
                sync(scene, &[]).expect_ok();
                assert_copied(scene);
                let taken = before.saturating_sub(free(disk));
                // Some of what changed, and what the file system sets aside for more.
                assert!(taken <= 8 * MIB as u64, "{taken} bytes");
            }
            assert!(was_begun > 0, "no kill came in the middle");
        },
    );
}

/// The other side of one that was killed is gone.
fn until_idle(disk: &Mount) {
    let is_idle = || !is_open_below(disk.path());
    assert!(holds_within(Duration::from_secs(20), is_idle), "it does not end");
}
