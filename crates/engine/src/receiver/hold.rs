//! Files that must be durable, or are read back, before they get their names:
//! they are held until there are enough of them to be waited for in one go.
//!
//! 1. A file that is held is durable before it is published. A name that is
//!    found after a crash leads to the whole content.
//! 2. With `sync`, the names are durable before the job's end is reported.
//! 3. A failure to make something durable is final: the file fails, and its
//!    stage is given up.
//! 4. The system reports once that something of a whole file system was lost, and not
//!    what. From then on nothing counts as durable by that: each file is asked about
//!    alone, through the handle that it was written with.

use super::durable::Volume;
use super::work::Settled;
use super::{DirState, Pending, Publisher};
use crate::copy;
use crate::crew::share_out;
use crate::dirs::{HANDLES_ELSEWHERE, open_dirs_max};
use crate::workers::workers;
use haul_model::{ContentHash, Fault, FaultKind, Outcome, Side};
use haul_store::RESUME_LEN_MIN;
use haul_sys::Loss;
use haul_tree::{SealedFile, StagedFile};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Files that are held before they are waited for, at most; fewer where the
/// process may not have as many files open, see [`held_files_max`].
const HELD_FILES_MAX: u64 = 512;

/// Files that are held at least, however few may be open.
const HELD_FILES_MIN: u64 = 4;

/// Handles that a held file keeps open: its own, and its directory's.
const HANDLES_PER_HELD: u64 = 2;

/// Bytes of files that are held; the last file comes on top.
const HELD_BYTES_MAX: u64 = 64 << 20;

/// How long files are held when no more come.
pub(super) const HOLD_MAX: Duration = Duration::from_millis(20);

/// From this number of files on, the file system is made durable as a whole
/// instead of each file by itself.
const WHOLE_FILES_MIN: usize = 4;

/// Threads that wait for files at the same time.
const WAITERS_MAX: usize = 8;

/// A file that has its content and its metadata.
pub(super) struct Whole {
    pub(super) sealed: Box<dyn SealedFile>,
    /// The hash of what was written, if it was hashed.
    pub(super) hash: Option<ContentHash>,
    /// It is made durable before it gets its name, also if nobody asks for that:
    /// nothing would show that its content was lost.
    pub(super) durable_first: bool,
}

/// How the content of a file came into its stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Filling {
    /// It was written, all of it.
    Dense,
    /// It was written, but for its holes.
    WithHoles,
    /// It was written over another version of it, where it differs from that.
    OverOther,
    /// It is shared with its source, which a file system does in one go.
    Reflinked,
}

impl Filling {
    /// True if a file of `size` bytes is made durable before it gets its name, though nobody
    /// asks for it, so that a later job never takes it for whole when it has lost content. What
    /// is small is not: that would cost as much as `sync`, and is written in one go.
    pub(super) fn is_durable_first(self, size: u64, stage: &dyn StagedFile) -> bool {
        match self {
            Filling::Reflinked => false,
            Filling::WithHoles | Filling::OverOther => stage.loss() != Loss::Whole,
            Filling::Dense => size >= RESUME_LEN_MIN && stage.loss() == Loss::Unknown,
        }
    }
}

/// A file that waits to be published.
struct Held {
    pending: Pending,
    moved: u64,
    whole: Whole,
}

/// Files that are held, and their bytes.
pub(super) struct Holding {
    held: Mutex<(Vec<Held>, u64)>,
    files_max: usize,
}

/// Files that are held before they are waited for, where a process may have
/// `open_max` files open. Each worker may wait for as many while more are held.
fn held_files_max(open_max: Option<u64>, workers: usize) -> usize {
    // The directories of both roles, and all else.
    let elsewhere = 2 * open_dirs_max(open_max) + HANDLES_ELSEWHERE;
    let handles = open_max.map_or(u64::MAX, |max| max.saturating_sub(elsewhere));
    let files = handles / HANDLES_PER_HELD / (workers as u64 + 1);
    files.clamp(HELD_FILES_MIN, HELD_FILES_MAX) as usize
}

impl Default for Holding {
    fn default() -> Self {
        let files_max = held_files_max(haul_sys::open_files_max(), workers());
        Self { held: Mutex::default(), files_max }
    }
}

impl Holding {
    /// True if something waits.
    pub(super) fn is_empty(&self) -> bool {
        self.held.lock().0.is_empty()
    }

    fn is_full(&self) -> bool {
        let held = self.held.lock();
        held.0.len() >= self.files_max || held.1 >= HELD_BYTES_MAX
    }
}

fn make_durable(sealed: &dyn SealedFile) -> Result<(), Fault> {
    let action = "flush the file to stable storage";
    sealed.sync().map_err(|error| Fault::from_io(Side::Destination, action, &error))
}

impl Publisher<'_> {
    /// Publishes a file, or holds it until it is durable. Returns the files that are settled by
    /// that, to be reported.
    fn place(&self, pending: Pending, moved: u64, whole: Whole) -> Vec<Settled> {
        if !self.durability.holds() {
            let durable = match whole.durable_first {
                true => make_durable(&*whole.sealed),
                false => Ok(()),
            };
            let outcome = match durable {
                Ok(()) => self.publish(&pending, whole.sealed),
                Err(fault) => {
                    whole.sealed.discard();
                    Err(fault)
                }
            };
            return vec![(pending, moved, outcome.unwrap_or_else(Outcome::Failed))];
        }
        whole.sealed.start_write_back();
        {
            let mut held = self.holding.held.lock();
            held.1 += pending.entry.size();
            held.0.push(Held { pending, moved, whole });
        }
        // At once: a single pack can bring more files than may be open.
        if self.holding.is_full() { self.publish_held() } else { Vec::new() }
    }

    /// Publishes a file or holds it, as [`Self::place`], or settles its fault.
    pub(super) fn conclude(
        &self,
        mut pending: Pending,
        moved: u64,
        whole: Result<Whole, Fault>,
    ) -> Vec<Settled> {
        // A file that is held keeps no more open than its stage and its directory.
        pending.old = None;
        match whole {
            Ok(whole) => {
                self.job.reporter.hashed(pending.index, whole.hash);
                self.place(pending, moved, whole)
            }
            Err(fault) => vec![(pending, moved, Outcome::Failed(fault))],
        }
    }

    /// Makes the files that are held durable, reads them back if that is asked for, and
    /// publishes them. Returns them, to be reported.
    pub(super) fn publish_held(&self) -> Vec<Settled> {
        let (held, _) = std::mem::take(&mut *self.holding.held.lock());
        if held.is_empty() || self.job.control.stopped() {
            return Vec::new();
        }
        let durable = self.sync_whole(&held);
        let results: Vec<Mutex<Result<(), Fault>>> =
            held.iter().map(|_| Mutex::new(Ok(()))).collect();
        let at_once = held.len().min(WAITERS_MAX);
        let next = AtomicUsize::new(0);
        let work = || {
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(file) = held.get(at) else { return };
                *results[at].lock() = self.make_sure(file, durable[at], at_once);
            }
        };
        share_out(self.job.control, "waiting", at_once - 1, work);
        let mut settled = Vec::with_capacity(held.len());
        for (Held { pending, moved, whole }, result) in held.into_iter().zip(results) {
            let result = result.into_inner();
            if self.job.control.stopped() {
                return Vec::new();
            }
            let outcome = match result {
                Ok(()) => self.publish(&pending, whole.sealed),
                Err(fault) => {
                    whole.sealed.discard();
                    Err(fault)
                }
            };
            settled.push((pending, moved, outcome.unwrap_or_else(Outcome::Failed)));
        }
        settled
    }

    /// Makes whole file systems durable, where many files are held on one and
    /// it can be; returns which files that covers.
    fn sync_whole(&self, held: &[Held]) -> Vec<bool> {
        let mut groups: BTreeMap<u64, (Arc<Volume>, Vec<usize>)> = BTreeMap::new();
        for (at, file) in held.iter().enumerate() {
            let DirState::Open(node) = &file.pending.dir.state else { continue };
            if let Some((device, volume)) = self.durability.file_system(node) {
                groups.entry(device).or_insert_with(|| (volume, Vec::new())).1.push(at);
            }
        }
        let mut durable = vec![false; held.len()];
        for (volume, files) in groups.into_values() {
            // If it fails, whose file it was shows when each is synced.
            if files.len() >= WHOLE_FILES_MIN && volume.sync() {
                files.into_iter().for_each(|at| durable[at] = true);
            }
        }
        durable
    }

    /// Makes one file durable, if it isn't yet, and reads it back; so many are
    /// treated `at_once`.
    fn make_sure(&self, file: &Held, durable: bool, at_once: usize) -> Result<(), Fault> {
        let sealed = &*file.whole.sealed;
        if !durable {
            make_durable(sealed)?;
        }
        let (true, Some(expected)) = (self.job.policy.verify, &file.whole.hash) else {
            return Ok(());
        };
        let found = copy::read_back(sealed, file.pending.entry.size(), at_once, self.job.control)?;
        if found != *expected {
            let message =
                format!("the disk returned a file with hash {found} instead of {expected}");
            return Err(Fault::new(Side::Destination, FaultKind::Corrupt, message));
        }
        Ok(())
    }
}
