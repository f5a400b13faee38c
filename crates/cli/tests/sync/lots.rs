//! Files that wait for the end of their job, in lots: how many there are and which, and jobs that
//! are killed while some wait.

use crate::common::*;
use haul_testkit::proc::Signal;
use haul_testkit::{Haul, holds_within};
use std::collections::BTreeSet;
use std::fs::{self, DirEntry};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// The word that has files wait.
pub(super) const DELAY: &str = "--delay-updates";

/// The longest time until files wait, and until a job that was killed is gone.
pub(super) const SOON: Duration = Duration::from_secs(30);

/// How many files wait in `dir` and below.
pub(super) fn waiting_in(dir: &Path) -> usize {
    // Lots, and directories in them, may go meanwhile.
    let entries = |dir: &Path| fs::read_dir(dir).into_iter().flatten().flatten();
    let of = |entry: DirEntry| match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
        true if entry.file_name().as_encoded_bytes().ends_with(b".late") => {
            entries(&entry.path()).map(|row| entries(&row.path()).count()).sum()
        }
        true => waiting_in(&entry.path()),
        false => 0,
    };
    entries(dir).map(of).sum()
}

/// The small files below the destination that wait, as objects: by their numbers, which are
/// given again, and when they were made.
pub(super) fn that_wait(scene: &Scene<'_>) -> BTreeSet<(u64, Option<SystemTime>)> {
    small(scene, |path| path.contains(".late/"))
}

/// Those that have their names.
pub(super) fn that_are_named(scene: &Scene<'_>) -> BTreeSet<(u64, Option<SystemTime>)> {
    small(scene, |path| !path.contains(".late/"))
}

fn small(scene: &Scene<'_>, is_it: fn(&str) -> bool) -> BTreeSet<(u64, Option<SystemTime>)> {
    let found = scene.list("dst").into_iter().filter(|path| is_it(path));
    let found = found.filter_map(|path| fs::symlink_metadata(scene.path("dst").join(path)).ok());
    let found = found.filter(|meta| meta.is_file() && meta.len() < 100);
    found.map(|meta| (meta.ino(), meta.created().ok())).collect()
}

/// Kills `job` when `waits` says that enough waits, and waits until no agent of it is left.
#[track_caller]
pub(super) fn kill_when(scene: &Scene<'_>, job: &Haul, waits: impl FnMut() -> bool) {
    let running = job.spawn().expect("it starts");
    assert!(running.until(SOON, waits), "nothing waits");
    running.signal(Signal::KILL);
    running.wait().expect("it ends");
    assert!(holds_within(SOON, || !scene.is_at_work()), "the agent is still there");
}
