//! Large files through a host's SFTP server that are continued where they were
//! interrupted.

use crate::common::*;
use crate::{copy, strays, summary};
use haul_testkit::haul::Running;
use haul_testkit::proc::{self, Signal};
use haul_testkit::{Haul, Mount, tree};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Length of the block of a file that is continued.
const BLOCK: u64 = 4 << 20;

/// A file that is large enough to be continued; its last block is a short one.
const LEN: u64 = 72 * (1 << 20) + 4321;

/// Copies that may be done before somebody has filled their disk.
const TRIES: u32 = 5;

/// How long a copy may take until it has done something.
pub(crate) const SOON: Duration = Duration::from_secs(20);

pub(crate) fn make_big(scene: &Scene<'_>) {
    tree::random_file(scene.path("big"), LEN, 7).expect("a file");
    scene.mkdir("to");
}

/// A copy that finds what an earlier one has left on this machine.
pub(crate) fn haul(scene: &Scene<'_>, flags: &[&str], sources: &[&str]) -> Haul {
    copy(scene, flags, sources, "to").env("XDG_STATE_HOME", scene.path("state"))
}

/// The journals of uploads.
pub(crate) fn journals(scene: &Scene<'_>) -> Vec<PathBuf> {
    let entries = fs::read_dir(scene.path("state/haul/uploads")).into_iter().flatten();
    let paths = entries.map(|entry| entry.expect("an entry").path());
    // The id of the directory itself stays.
    paths.filter(|path| path.extension().is_some_and(|end| end == "journal")).collect()
}

/// The stages that can be continued.
pub(crate) fn parts(scene: &Scene<'_>) -> Vec<PathBuf> {
    let mut found = strays(&scene.path("to"));
    found.retain(|path| path.to_string_lossy().ends_with(".part"));
    found
}

/// Bytes of them that were written.
fn written(scene: &Scene<'_>) -> u64 {
    const UNIT: u64 = 512;
    parts(scene).iter().map(|part| fs::metadata(part).map_or(0, |m| m.blocks() * UNIT)).sum()
}

/// Starts a copy and waits until `len` bytes have arrived.
fn start(scene: &Scene<'_>, flags: &[&str], len: u64) -> Running {
    let running = haul(scene, flags, &["big"]).spawn().expect("it starts");
    assert!(running.until(SOON, || written(scene) >= len), "it does not come to {len}");
    running
}

/// Interrupts a copy in an orderly way when a part has arrived.
#[track_caller]
fn interrupt(scene: &Scene<'_>, flags: &[&str]) {
    let running = start(scene, flags, 6 * BLOCK);
    running.signal(Signal::INT);
    running.wait().expect("it ends").expect_code(130);
    assert!(!scene.exists("to/big"), "it was done before");
}

/// Runs the copy to its end, checks that all is well, and gives the bytes that
/// were moved and those that were there.
#[track_caller]
pub(crate) fn finish(scene: &Scene<'_>, flags: &[&str]) -> [u64; 2] {
    let flags = [flags, &["--json"]].concat();
    let run = haul(scene, &flags, &["big"]).run().expect_ok();
    let same =
        fs::read(scene.path("big")).expect("read") == fs::read(scene.path("to/big")).expect("read");
    assert!(same, "the copy differs");
    assert_eq!(scene.list("to"), ["big"], "something of haul's is left");
    assert_eq!(journals(scene), [""; 0].map(PathBuf::from), "a journal is left");
    let summary = summary(&run);
    ["moved", "resumed"].map(|figure| summary[figure].as_u64().unwrap_or(0))
}

/// Turns a bit of a file over.
fn flip(path: &Path, at: u64) {
    let file = File::options().read(true).write(true).open(path).expect("opened");
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).expect("read");
    file.write_all_at(&[byte[0] ^ 1], at).expect("written");
}

#[test]
fn after_ctrl_c_a_copy_goes_on_where_it_was() {
    each_remote_way(|scene| {
        for flags in [&[][..], &["--strict"], &["--parallel", "3"]] {
            make_big(scene);
            interrupt(scene, flags);
            assert_eq!(parts(scene).len(), 1);
            assert_eq!(journals(scene).len(), usize::from(scene.way == Way::Upload));
            let [moved, resumed] = finish(scene, flags);
            // To read back what is there costs what it costs to send it anew.
            let is_anew = scene.way == Way::Upload && flags == ["--strict"];
            let least = if is_anew { 0 } else { BLOCK };
            assert!(resumed >= least && moved + resumed == LEN, "{flags:?}: {moved} {resumed}");
            fs::remove_file(scene.path("to/big")).expect("removed");
        }
    });
}

#[test]
fn what_is_said_to_be_kept_after_ctrl_c_is_gone_on_with() {
    each_of(
        &[Way::Upload],
        |_| {},
        |scene| {
            make_big(scene);
            for takes_ssh_along in [true, false] {
                let running = start(scene, &[], 6 * BLOCK);
                if takes_ssh_along {
                    // As on a terminal, where all that was started gets it.
                    running.signal_group(Signal::INT);
                } else {
                    running.signal(Signal::INT);
                }
                let run = running.wait().expect("it ends").expect_code(130);
                assert!(!scene.exists("to/big"), "it was done before");
                let [_, resumed] = finish(scene, &[]);
                assert_eq!(run.err().contains("and kept"), resumed > 0, "{resumed}: {run}");
                fs::remove_file(scene.path("to/big")).expect("removed");
            }
        },
    );
}

#[test]
fn whoever_dies_the_next_run_completes() {
    each_remote_way(|scene| {
        make_big(scene);
        for victim in ["haul", "ssh", "sftp-server"] {
            let running = start(scene, &[], 6 * BLOCK);
            match victim {
                "haul" => running.signal(Signal::KILL),
                "ssh" => ssh_of(&running).into_iter().for_each(kill),
                _ => servers_of(scene).into_iter().for_each(kill),
            }
            let run = running.wait().expect("it ends");
            if victim != "haul" && !scene.exists("to/big") {
                let run = run.expect_code(3);
                assert!(errors(&run)[0].starts_with("the connection to haul-test"), "{run}");
            }
            // A server is still at it for a moment when its client has gone.
            std::thread::sleep(Duration::from_millis(100));
            let [moved, resumed] = finish(scene, &[]);
            assert_eq!(moved + resumed, LEN, "{victim}");
            fs::remove_file(scene.path("to/big")).expect("removed");
        }
    });
}

fn kill(pid: u32) {
    proc::signal(pid, Signal::KILL);
}

/// The ssh processes of a run.
pub(crate) fn ssh_of(running: &Running) -> Vec<u32> {
    proc::descendants(running.pid())
}

/// The SFTP servers whose destination or source is this scene's: those that have
/// one of its files open.
pub(crate) fn servers_of(scene: &Scene<'_>) -> Vec<u32> {
    let mut servers = scene.sshd().sessions();
    servers.retain(|&pid| {
        let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let is_here = |fd: fs::DirEntry| {
            fs::read_link(fd.path()).is_ok_and(|path| path.starts_with(scene.path("")))
        };
        open.into_iter().any(is_here)
    });
    servers
}

#[test]
fn what_was_damaged_meanwhile_is_copied_anew() {
    each_remote_way(|scene| {
        make_big(scene);
        interrupt(scene, &[]);
        let (part, journal) = (parts(scene).remove(0), journals(scene));
        // All that is there may have been confirmed: the last block on record is
        // hit if each is.
        let blocks = written(scene).div_ceil(BLOCK);
        (0..blocks).for_each(|block| flip(&part, block * BLOCK + 77));
        assert_eq!(finish(scene, &[]), [LEN, 0]);
        assert_eq!(journal.len(), usize::from(scene.way == Way::Upload));
        // What --strict reads again is all of it.
        fs::remove_file(scene.path("to/big")).expect("removed");
        interrupt(scene, &[]);
        flip(&parts(scene)[0], 5);
        let run = haul(scene, &["--strict", "--json"], &["big"]).run().expect_ok();
        assert_eq!(summary(&run)["moved"], LEN, "{run}");
        let same = fs::read(scene.path("big")).expect("read")
            == fs::read(scene.path("to/big")).expect("read");
        assert!(same, "the copy differs");
    });
}

#[test]
fn a_stage_that_went_or_was_cut_is_not_continued() {
    each_remote_way(|scene| {
        for cut in [true, false] {
            make_big(scene);
            interrupt(scene, &[]);
            let part = parts(scene).remove(0);
            if cut {
                let file = File::options().write(true).open(&part).expect("opened");
                file.set_len(BLOCK).expect("cut");
            } else {
                fs::remove_file(&part).expect("removed");
            }
            assert_eq!(finish(scene, &[]), [LEN, 0], "{cut}");
            fs::remove_file(scene.path("to/big")).expect("removed");
        }
    });
}

#[test]
fn a_source_that_changed_is_copied_anew() {
    each_remote_way(|scene| {
        make_big(scene);
        interrupt(scene, &[]);
        flip(&scene.path("big"), LEN - 1);
        haul_testkit::nasty::set_mtime(scene.path("big"), 1_600_000_000, 0).expect("a time");
        let run = haul(scene, &["--json"], &["big"]).run().expect_ok();
        assert_eq!(summary(&run)["moved"], LEN, "{run}");
        let same = fs::read(scene.path("big")).expect("read")
            == fs::read(scene.path("to/big")).expect("read");
        assert!(same, "the copy differs");
        assert_eq!(scene.list("to"), ["big"], "something of haul's is left");
    });
}

#[test]
fn a_source_that_was_replaced_with_its_old_size_and_time_is_copied_anew() {
    each_remote_way(|scene| {
        for flags in [&[][..], &["-V"], &["--strict"]] {
            make_big(scene);
            interrupt(scene, &[]);
            let before = fs::metadata(scene.path("big")).expect("it is there");
            // In its first block, which nobody would look at again.
            flip(&scene.path("big"), 5);
            let nanos = u32::try_from(before.mtime_nsec()).expect("less than a second");
            haul_testkit::nasty::set_mtime(scene.path("big"), before.mtime(), nanos)
                .expect("a time");
            let run = haul(scene, flags, &["big"]).run().expect_ok();
            let same = fs::read(scene.path("big")).expect("read")
                == fs::read(scene.path("to/big")).expect("read");
            assert!(same, "{flags:?}: half old, half new");
            assert_eq!(scene.list("to"), ["big"], "something of haul's is left");
            // Where --strict begins anew in any case, nothing is found out.
            let is_seen = scene.way == Way::Download || flags != ["--strict"];
            if is_seen {
                assert!(run.err().contains("the source was replaced since"), "{run}");
            }
            fs::remove_file(scene.path("to/big")).expect("removed");
        }
    });
}

#[test]
fn no_resume_leaves_nothing() {
    each_remote_way(|scene| {
        make_big(scene);
        let running = haul(scene, &["--no-resume"], &["big"]).spawn().expect("it starts");
        let is_begun = || {
            !strays(&scene.path("to")).is_empty()
                || scene.way == Way::Download && !ssh_of(&running).is_empty()
        };
        assert!(running.until(SOON, is_begun), "it does not begin");
        std::thread::sleep(Duration::from_millis(100));
        running.signal(Signal::INT);
        running.wait().expect("it ends").expect_code(130);
        assert_eq!(scene.list("to"), [""; 0]);
        assert_eq!(journals(scene).len(), 0);
        // What was left before is not gone on with, and goes.
        interrupt(scene, &[]);
        assert_eq!(finish(scene, &["--no-resume"]), [LEN, 0]);
    });
}

#[test]
fn a_disk_that_was_full_is_gone_on_with() {
    each_remote_way(|scene| {
        let Some(small) = Mount::tmpfs(150 << 20) else { return };
        tree::random_file(scene.path("big"), LEN, 7).expect("a file");
        scene.symlink(small.path(), "to");
        // There is room when it begins, and somebody takes it. The copy can be
        // done before all is taken.
        let full = (0..TRIES).find_map(|_| {
            let running = start_into(scene, &small);
            let filler = File::create(small.join("filler")).expect("made");
            let taken = fill(&filler);
            let run = running.wait().expect("it ends");
            if run.code != Some(0) {
                return Some((run, filler, taken));
            }
            fs::remove_file(small.join("filler")).expect("removed");
            fs::remove_file(small.join("big")).expect("removed");
            None
        });
        let (run, filler, taken) = full.expect("a copy that is slower than filling a disk");
        let run = run.expect_code(4);
        assert!(taken > 0 && run.err().contains("room at the destination"), "{run}");
        drop(filler);
        fs::remove_file(small.join("filler")).expect("removed");
        let run = haul(scene, &["--json"], &["big"]).run().expect_ok();
        assert!(summary(&run)["resumed"].as_u64() > Some(0), "{run}");
        assert_eq!(fs::read_dir(small.path()).expect("read").count(), 1);
        assert!(journals(scene).is_empty());
    });
}

fn start_into(scene: &Scene<'_>, small: &Mount) -> Running {
    let running = haul(scene, &[], &["big"]).spawn().expect("it starts");
    let blocks = |path: PathBuf| fs::metadata(path).map_or(0, |meta| meta.blocks() * 512);
    let arrived = || strays(small.path()).into_iter().map(blocks).sum::<u64>() > 6 * BLOCK;
    assert!(running.until(SOON, arrived), "it does not begin");
    running
}

/// Takes all the room that there is.
pub(crate) fn fill(file: &File) -> u64 {
    let piece = vec![1; 1 << 20];
    let mut at = 0;
    while file.write_all_at(&piece, at).is_ok() {
        at += piece.len() as u64;
    }
    at
}
