//! Large files through a host's SFTP server that are continued where they were
//! interrupted: what only SFTP has. The rest is in the program `resume`.

use crate::common::*;
use crate::{copy, strays, summary};
use haul_testkit::haul::Running;
use haul_testkit::proc::{self, Signal};
use haul_testkit::{Haul, Mount, same_content, tree};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
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
    upload_journals(&scene.path("state"))
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
    let same = same_content(scene.path("big"), scene.path("to/big")).expect("read");
    assert!(same, "the copy differs");
    assert_eq!(scene.list("to"), ["big"], "something of haul's is left");
    assert_eq!(journals(scene), [""; 0].map(PathBuf::from), "a journal is left");
    let summary = summary(&run);
    ["moved", "resumed"].map(|figure| summary[figure].as_u64().unwrap_or(0))
}

#[test]
fn after_ctrl_c_a_copy_continues_where_it_was() {
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
fn what_is_said_to_be_kept_after_ctrl_c_is_resumed() {
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
                assert_eq!(run.err().contains("are kept"), resumed > 0, "{resumed}: {run}");
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
fn a_disk_that_was_full_is_resumed() {
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
        assert!(taken > 0 && run.err().contains("space at the destination"), "{run}");
        drop(filler);
        fs::remove_file(small.join("filler")).expect("removed");
        let run = haul(scene, &["--json"], &["big"]).run().expect_ok();
        assert!(summary(&run)["resumed"].as_u64() > Some(0), "{run}");
        assert_eq!(fs::read_dir(small.path()).expect("read").count(), 1);
        assert!(journals(scene).is_empty());
    });
}

#[test]
fn what_is_kept_on_a_full_host_is_named_and_can_be_removed() {
    let Some(small) = Mount::tmpfs(100 << 20) else { return };
    let world = World::new();
    let scene = world.scene(Way::Upload);
    tree::random_file(scene.path("big"), LEN, 7).expect("a file");
    scene.symlink(small.path(), "to");
    let running = start_into(&scene, &small);
    running.signal(Signal::INT);
    running.wait().expect("it ends").expect_code(130);
    fill(&File::create(small.join("filler")).expect("made"));

    let run = haul(&scene, &[], &["big"]).run().expect_code(4);
    let told = run.err();
    assert!(told.contains(&format!(": the file needs {}.0 MiB, but ", LEN >> 20)), "{run}");
    assert!(
        told.contains("free space at the destination, then run the same command again: finished files are skipped; remove partial files there with sftp's 'rm'")
    );
    let words = " MiB are kept for resuming, and occupy space as ";
    let (before, place) = told.split_once(words).expect("what is kept is told");
    let kept: f64 = before.rsplit(' ').next().and_then(|len| len.parse().ok()).expect("a number");
    let kept = (kept * 1024.0 * 1024.0) as u64;
    assert!((BLOCK..LEN).contains(&kept) && kept.is_multiple_of(BLOCK), "{run}");
    let place = PathBuf::from(place.lines().next().expect("a path"));
    assert_eq!(strays(small.path()), std::slice::from_ref(&place), "{run}");

    // It is what the next run goes on with, and one without it begins anew.
    fs::remove_file(small.join("filler")).expect("removed");
    let run = haul(&scene, &["-n", "--json"], &["big"]).run().expect_ok();
    assert!(!run.out().contains("error"), "{run}");
    fs::remove_file(place).expect("removed");
    let run = haul(&scene, &["--json"], &["big"]).run().expect_ok();
    assert_eq!(summary(&run)["moved"].as_u64(), Some(LEN), "{run}");
    assert_eq!(fs::read_dir(small.path()).expect("read").count(), 1);
    assert!(journals(&scene).is_empty());

    // Without a place for journals nothing is kept.
    fs::remove_file(small.join("big")).expect("removed");
    fs::write(small.join("filler"), vec![1; 60 << 20]).expect("written");
    let upload = haul(&scene, &[], &["big"]).env("XDG_STATE_HOME", "state").env_remove("HOME");
    let told = upload.run().expect_code(4).err();
    assert!(
        told.contains(": the file needs ")
            && !told.contains("are kept for resuming, and occupy space"),
        "{told}"
    );
    assert_eq!(strays(small.path()), [""; 0].map(PathBuf::from));
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
