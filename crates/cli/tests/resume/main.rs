//! Resuming as a user sees it: a copy of a large file that was stopped, in
//! whatever way, goes on where it was when the same command runs again.

#[path = "../common/mod.rs"]
mod common;

mod behind;
mod damaged;
mod killed;
mod replaced;
mod stopped;

use common::*;
use haul_testkit::haul::Running;
use haul_testkit::{same_content, tree};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// Length of the block, the journal's header and its records, as documented.
const BLOCK: u64 = 4 << 20;
const HEADER: u64 = 256;
const RECORD: u64 = 32;

/// A file that is large enough to be resumed; its last block is a short one.
const LEN: u64 = 72 * (1 << 20) + 4321;

/// How long a copy may take until it has done something.
const SOON: Duration = Duration::from_secs(20);

/// Makes the source `big`.
fn make_big(scene: &Scene<'_>) {
    tree::random_file(scene.path("big"), LEN, 7).expect("a file");
    scene.mkdir("to");
}

/// The files in `to` whose names end so.
fn left(scene: &Scene<'_>, ending: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(scene.path("to")).expect("a directory");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths.filter(|path| path.to_string_lossy().ends_with(ending)).collect()
}

/// The journals of copies to `to`. Those of uploads through SFTP are on this side.
fn journals(scene: &Scene<'_>) -> Vec<PathBuf> {
    if scene.way != Way::SftpUpload {
        return left(scene, ".journal");
    }
    upload_journals(&scene.state())
}

/// Blocks that the journal claims.
fn on_record(scene: &Scene<'_>) -> u64 {
    match &journals(scene)[..] {
        [] => 0,
        [journal] => {
            let len = fs::metadata(journal).map_or(HEADER, |stat| stat.len());
            len.saturating_sub(HEADER) / RECORD
        }
        several => panic!("{several:?}"),
    }
}

/// How often a copy is begun that is to be interrupted: in memory one is done in some 20 ms.
const ATTEMPTS: usize = 40;

/// Starts a copy and waits until `blocks` are on record.
fn start(scene: &Scene<'_>, flags: &[&str], blocks: u64) -> Running {
    start_from(scene, "big", flags, blocks)
}

/// `flags` for a copy whose blocks come one after the other: lanes are ahead of each other,
/// and soon done.
fn one_by_one<'f>(scene: &Scene<'_>, flags: &[&'f str]) -> Vec<&'f str> {
    let alone: &[&str] = match scene.way {
        Way::Local => &[],
        _ if scene.is_sftp() => &["--parallel", "1"],
        _ => &["--via", "ssh", "--parallel", "1"],
    };
    [flags, alone].concat()
}

/// The same for a file called `big` elsewhere.
fn start_from(scene: &Scene<'_>, source: &str, flags: &[&str], blocks: u64) -> Running {
    let flags = one_by_one(scene, flags);
    let running = scene.copy(&flags, &[source], "to").spawn().expect("it starts");
    let done = running.until(SOON, || on_record(scene) >= blocks || !left(scene, "big").is_empty());
    assert!(done, "it does not come to block {blocks}");
    running
}

/// Starts a copy and kills it when `blocks` are on record.
fn interrupt(scene: &Scene<'_>, blocks: u64) -> u64 {
    interrupt_from(scene, "big", blocks)
}

/// The same for a file called `big` elsewhere. On a busy machine a copy can be done
/// before it is interrupted: then it is begun again.
fn interrupt_from(scene: &Scene<'_>, source: &str, blocks: u64) -> u64 {
    for _ in 0..ATTEMPTS {
        let there = try_interrupt(scene, source, blocks);
        if left(scene, "big").is_empty() {
            return there;
        }
        fs::remove_file(scene.path("to/big")).expect("removed");
    }
    panic!("it was done {ATTEMPTS} times before it could be interrupted");
}

fn try_interrupt(scene: &Scene<'_>, source: &str, blocks: u64) -> u64 {
    let running = start_from(scene, source, &["-q"], blocks);
    running.kill_group();
    running.wait().expect("it ends");
    recorded_at_end(scene)
}

/// Blocks on record once the host's agent has ended, which notices the end a little later.
fn recorded_at_end(scene: &Scene<'_>) -> u64 {
    let mut before = u64::MAX;
    while on_record(scene) != before {
        before = on_record(scene);
        std::thread::sleep(Duration::from_millis(60));
    }
    before
}

/// Runs the copy to its end, checks that all is well, and gives the bytes that
/// were moved.
#[track_caller]
fn finish(scene: &Scene<'_>, flags: &[&str]) -> u64 {
    let flags: Vec<&str> = flags.iter().copied().chain(["--json"]).collect();
    let run = scene.copy(&flags, &["big"], "to").run().expect_ok();
    let same = same_content(scene.path("big"), scene.path("to/big")).expect("read");
    assert!(same, "the copy differs");
    assert_eq!(scene.list("to"), ["big"], "something of haul's is left");
    assert_eq!(journals(scene), [""; 0].map(PathBuf::from), "a journal is left");
    moved(&run)
}
