//! Held files: files that must be durable, or are read back, before they are published. They are
//! held until there are enough to flush in one go.
//!
//! 1. A held file is durable before it is published. A name that is found after a crash leads to
//!    the whole content.
//! 2. With `sync`, the names are durable before the end of the job is reported.
//! 3. A failed flush is final: the file fails, and its staged content is discarded.
//! 4. For a whole file system, the system reports a loss once, and names no file. From then on each
//!    file is flushed alone, through the handle that wrote it.

use super::durable::Volume;
use crate::copy;
use crate::dirs::{HANDLES_ELSEWHERE, open_dirs_max};
use crate::receiver::pending::Settled;
use crate::receiver::{DirState, Pending, Publisher};
use crate::threads::run_shared;
use crate::workers::workers;
use haul_model::{ContentHash, Fault, FaultKind, OrFault, Outcome, Side};
use haul_store::RESUME_LEN_MIN;
use haul_sys::Loss;
use haul_tree::{SealedFile, StagedFile};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Maximum number of held files. It is lower if the process may open fewer files; see
/// [`held_files_max`].
const HELD_FILES_MAX: u64 = 512;

/// Minimum for the number of held files, however few may be open.
const HELD_FILES_MIN: u64 = 4;

/// Handles that a held file keeps open: its own and its directory's.
const HANDLES_PER_HELD: u64 = 2;

/// Maximum number of held bytes; the last file may exceed it.
const HELD_BYTES_MAX: u64 = 64 << 20;

/// How long files are held if no more arrive.
pub(crate) const HOLD_MAX: Duration = Duration::from_millis(20);

/// From this number of files on, the whole file system is flushed instead of each file.
const WHOLE_FILES_MIN: usize = 4;

/// Maximum number of threads that flush files at the same time.
const WAITERS_MAX: usize = 8;

/// A staged file with its content and its metadata.
pub(crate) struct Whole {
    pub(crate) sealed: Box<dyn SealedFile>,
    /// The hash of the written content, if it was hashed.
    pub(crate) hash: Option<ContentHash>,
    /// It is flushed before it is published even without `sync`: a later job could not detect lost
    /// content.
    pub(crate) sync_first: bool,
}

/// The way in which the content of a file was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Filling {
    /// All of it was written.
    Dense,
    /// All of it was written, except its holes.
    WithHoles,
    /// The parts that differ were written over another version of it.
    OverOldVersion,
    /// The file system shares the content with the source, in one operation.
    Reflinked,
}

impl Filling {
    /// True if a file of `size` bytes is flushed before it is published even without `sync`.
    /// Otherwise a later job could take it for whole although content was lost. Small dense files
    /// are not flushed: they are written in one go, and it would cost as much as `sync`.
    pub(crate) fn needs_sync_first(self, size: u64, stage: &dyn StagedFile) -> bool {
        match self {
            Filling::Reflinked => false,
            Filling::WithHoles | Filling::OverOldVersion => stage.loss() != Loss::Whole,
            Filling::Dense => size >= RESUME_LEN_MIN && stage.loss() == Loss::Unknown,
        }
    }
}

/// A file that waits until it is durable.
struct Held {
    pending: Pending,
    moved: u64,
    whole: Whole,
}

/// The held files, and their total bytes.
pub(crate) struct Holding {
    held: Mutex<(Vec<Held>, u64)>,
    files_max: usize,
}

/// Maximum number of held files, if the process may open `open_max` files. Each worker may flush as
/// many while more are held.
fn held_files_max(open_max: Option<u64>, workers: usize) -> usize {
    // Handles of the directories of both roles, and of everything else.
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
    pub(crate) fn is_empty(&self) -> bool {
        self.held.lock().0.is_empty()
    }

    fn is_full(&self) -> bool {
        let held = self.held.lock();
        held.0.len() >= self.files_max || held.1 >= HELD_BYTES_MAX
    }
}

fn make_durable(sealed: &dyn SealedFile) -> Result<(), Fault> {
    let action = "flush the file to stable storage";
    sealed.sync().or_fault(Side::Destination, action)
}

impl Publisher<'_> {
    /// Publishes a file, or holds it until it is durable. Returns the files that are settled, for
    /// reporting.
    fn publish_or_hold(&self, pending: Pending, moved: u64, whole: Whole) -> Vec<Settled> {
        if !self.durability.is_required() {
            let durable = match whole.sync_first {
                true => make_durable(&*whole.sealed),
                false => Ok(()),
            };
            return vec![self.publish_if(durable, Held { pending, moved, whole })];
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

    /// Publishes a file if it is `durable`, and discards it otherwise.
    fn publish_if(&self, durable: Result<(), Fault>, file: Held) -> Settled {
        let Held { pending, moved, whole } = file;
        let outcome = match durable {
            Ok(()) => self.publish(&pending, whole.sealed),
            Err(fault) => {
                whole.sealed.discard();
                Err(fault)
            }
        };
        (pending, moved, outcome.unwrap_or_else(Outcome::Failed))
    }

    /// Settles the fault of a file, or publishes or holds it as [`Self::publish_or_hold`] does.
    pub(crate) fn conclude(
        &self,
        mut pending: Pending,
        moved: u64,
        whole: Result<Whole, Fault>,
    ) -> Vec<Settled> {
        // A held file keeps only its staged file and its directory open.
        pending.reused.old = None;
        match whole {
            Ok(whole) => {
                self.job.reporter.hashed(pending.index, whole.hash);
                self.publish_or_hold(pending, moved, whole)
            }
            Err(fault) => vec![(pending, moved, Outcome::Failed(fault))],
        }
    }

    /// Flushes the held files, reads them back if the policy asks for that, and publishes them.
    /// Returns them for reporting.
    pub(crate) fn publish_held(&self) -> Vec<Settled> {
        let (held, _) = std::mem::take(&mut *self.holding.held.lock());
        if held.is_empty() || self.job.control.stopped() {
            return Vec::new();
        }
        let durable = self.sync_whole(&held);
        let results: Vec<Mutex<Result<(), Fault>>> =
            held.iter().map(|_| Mutex::new(Ok(()))).collect();
        let concurrency = held.len().min(WAITERS_MAX);
        let next = AtomicUsize::new(0);
        let work = || {
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(file) = held.get(at) else { return };
                *results[at].lock() = self.sync_and_verify(file, durable[at], concurrency);
            }
        };
        run_shared(self.job.control, "waiting", concurrency - 1, work);
        let mut settled = Vec::with_capacity(held.len());
        for (file, result) in held.into_iter().zip(results) {
            if self.job.control.stopped() {
                return Vec::new();
            }
            settled.push(self.publish_if(result.into_inner(), file));
        }
        settled
    }

    /// Flushes each file system that has many held files. Returns which files that covers.
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
            // If that fails, syncing each file shows which one is affected.
            if files.len() >= WHOLE_FILES_MIN && volume.sync() {
                files.into_iter().for_each(|at| durable[at] = true);
            }
        }
        durable
    }

    /// Flushes one file unless it is `durable`, and reads it back. `concurrency` files are handled
    /// at the same time.
    fn sync_and_verify(&self, file: &Held, durable: bool, concurrency: usize) -> Result<(), Fault> {
        let sealed = &*file.whole.sealed;
        if !durable {
            make_durable(sealed)?;
        }
        let (true, Some(expected)) = (self.job.plan.verify, &file.whole.hash) else {
            return Ok(());
        };
        let found =
            copy::read_back(sealed, file.pending.entry.size(), concurrency, self.job.control)?;
        if found != *expected {
            let message =
                format!("the disk returned a file with hash {found} instead of {expected}");
            return Err(Fault::new(Side::Destination, FaultKind::Corrupt, message));
        }
        Ok(())
    }
}
