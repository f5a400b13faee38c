//! Files that must be durable, or are read back, before they get their names:
//! they are held until there are enough of them to be waited for in one go.
//!
//! 1. A file that is held is durable before it is published. A name that is
//!    found after a crash leads to the whole content.
//! 2. With `sync`, the names are durable before the job's end is told.
//! 3. A failure to make something durable is final: the file fails, and its
//!    stage is given up.

use super::dirs::{DirState, RecvDir};
use super::work::{self, Settled};
use super::{Pending, Receiver};
use crate::copy;
use crate::dirs::{DirNode, OPEN_DIRS_MAX, lock};
use crate::tree::{SealedFile, StagedFile, TreeDir};
use crate::workers::workers;
use crate::{JobError, words};
use haul_model::{ContentHash, Fault, FaultKind, Name, Outcome, Side};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Files that are held before they are waited for, at most; fewer where the
/// process may not have as many files open, see [`held_files_max`].
const HELD_FILES_MAX: u64 = 512;

/// Files that are held at least, however few may be open.
const HELD_FILES_MIN: u64 = 4;

/// Handles that a held file keeps open: its own, and its directory's.
const HANDLES_PER_HELD: u64 = 2;

/// Handles that are left to all else: directories of both roles, and what the
/// workers, the connection and the program have open.
const HANDLES_ELSEWHERE: u64 = 2 * OPEN_DIRS_MAX as u64 + 64;

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
}

/// A file that waits to be published.
struct Held {
    pending: Pending,
    moved: u64,
    whole: Whole,
}

/// What is held, and where the job writes.
pub(super) struct Holding {
    held: Mutex<(Vec<Held>, u64)>,
    files_max: usize,
    /// The file systems that are written to, by device: one of the directories
    /// there, if it can be made durable as a whole.
    file_systems: Mutex<HashMap<u64, Option<Arc<dyn TreeDir>>>>,
}

/// Files that are held before they are waited for, where a process may have
/// `open_max` files open. Each worker may wait for as many while more are held.
fn held_files_max(open_max: Option<u64>, workers: usize) -> usize {
    let handles = open_max.map_or(u64::MAX, |max| max.saturating_sub(HANDLES_ELSEWHERE));
    let files = handles / HANDLES_PER_HELD / (workers as u64 + 1);
    files.clamp(HELD_FILES_MIN, HELD_FILES_MAX) as usize
}

impl Default for Holding {
    fn default() -> Self {
        let files_max = held_files_max(haul_sys::open_files_max(), workers());
        Self { held: Mutex::default(), files_max, file_systems: Mutex::default() }
    }
}

impl Holding {
    /// Whether something waits.
    pub(super) fn is_empty(&self) -> bool {
        lock(&self.held).0.is_empty()
    }

    fn is_full(&self) -> bool {
        let held = lock(&self.held);
        held.0.len() >= self.files_max || held.1 >= HELD_BYTES_MAX
    }

    /// The file system of `node`, if it can be made durable as a whole.
    fn file_system(&self, node: &Arc<DirNode>) -> Option<(u64, Arc<dyn TreeDir>)> {
        let device = node.id()?.dev;
        let mut known = lock(&self.file_systems);
        let found = match known.get(&device) {
            Some(found) => found.clone(),
            None => {
                let handle = node.handle().ok()?;
                let found = handle.syncs_as_a_whole().then_some(handle);
                known.insert(device, found.clone());
                found
            }
        };
        found.map(|handle| (device, handle))
    }
}

impl Receiver<'_> {
    /// Whether a file is durable before it is published.
    fn holds(&self) -> bool {
        self.policy.sync || self.policy.verify
    }

    /// Has a large stage written out while it is filled, if it is to be waited
    /// for: medium and processor work at the same time then.
    pub(super) fn written_out(&self, mut stage: Box<dyn StagedFile>) -> Box<dyn StagedFile> {
        if self.holds() {
            stage.write_out();
        }
        stage
    }

    /// Publishes a file, or holds it until it is durable; what is settled by
    /// that is returned, to be told.
    fn place(&self, pending: Pending, moved: u64, whole: Whole) -> Option<Settled> {
        if !self.holds() {
            let outcome = pending.publish(whole.sealed);
            return Some((pending, moved, outcome.unwrap_or_else(Outcome::Failed)));
        }
        whole.sealed.start_write_back();
        {
            let mut held = lock(&self.holding.held);
            held.1 += pending.entry.size();
            held.0.push(Held { pending, moved, whole });
        }
        // At once: a single pack can bring more files than may be open.
        if self.holding.is_full() {
            self.publish_held();
        }
        None
    }

    /// Publishes a file or holds it, as [`Self::place`], or settles its fault.
    pub(super) fn conclude(
        &self,
        pending: Pending,
        moved: u64,
        whole: Result<Whole, Fault>,
    ) -> Option<Settled> {
        match whole {
            Ok(whole) => self.place(pending, moved, whole),
            Err(fault) => Some((pending, moved, Outcome::Failed(fault))),
        }
    }

    /// Makes what is held durable, reads it back if that is asked for, and
    /// publishes it.
    pub(super) fn publish_held(&self) {
        let (held, _) = std::mem::take(&mut *lock(&self.holding.held));
        if held.is_empty() || self.control.stopped() {
            return;
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
                *lock(&results[at]) = self.make_sure(file, durable[at], at_once);
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..at_once {
                scope.spawn(work);
            }
            work();
        });
        let mut settled = Vec::with_capacity(held.len());
        for (Held { pending, moved, whole }, result) in held.into_iter().zip(results) {
            let result = result.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
            if self.control.stopped() {
                return;
            }
            let outcome = match result {
                Ok(()) => pending.publish(whole.sealed),
                Err(fault) => {
                    whole.sealed.discard();
                    Err(fault)
                }
            };
            settled.push((pending, moved, outcome.unwrap_or_else(Outcome::Failed)));
        }
        work::tell(self, settled);
    }

    /// Makes whole file systems durable, where many files are held on one and
    /// it can be; tells which files that covers.
    fn sync_whole(&self, held: &[Held]) -> Vec<bool> {
        let mut groups: BTreeMap<u64, (Arc<dyn TreeDir>, Vec<usize>)> = BTreeMap::new();
        for (at, file) in held.iter().enumerate() {
            let DirState::Open(node) = &file.pending.dir.state else { continue };
            if let Some((device, handle)) = self.holding.file_system(node) {
                groups.entry(device).or_insert_with(|| (handle, Vec::new())).1.push(at);
            }
        }
        let mut durable = vec![false; held.len()];
        for (handle, files) in groups.into_values() {
            // If it fails, whose file it was shows when each is synced.
            if files.len() >= WHOLE_FILES_MIN && handle.sync_all().is_ok() {
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
            sealed.sync().map_err(|error| {
                Fault::from_io(Side::Destination, "make the file durable", &error)
            })?;
        }
        let (true, Some(expected)) = (self.policy.verify, &file.whole.hash) else { return Ok(()) };
        let found = copy::read_back(sealed, file.pending.entry.size(), at_once, self.control)?;
        if found != *expected {
            let message = format!(
                "what is read back from the medium has the hash {found}, what was written has {expected}"
            );
            return Err(Fault::new(Side::Destination, FaultKind::Corrupt, message));
        }
        Ok(())
    }

    /// Makes a file durable whose content is left as it is: an earlier job,
    /// without `sync`, may have put it there a moment ago, and its mode may be new.
    /// Nothing is done where the whole file system will be.
    pub(super) fn sync_unchanged(&self, node: &Arc<DirNode>, name: &Name) -> Result<(), Fault> {
        if !self.policy.sync || self.policy.dry_run || self.holding.file_system(node).is_some() {
            return Ok(());
        }
        let synced = node.handle().and_then(|handle| handle.sync_file(name));
        synced.map_err(|error| Fault::from_io(Side::Destination, "make the file durable", &error))
    }

    /// Makes the names in `dir` durable, unless the whole file system will be.
    pub(super) fn sync_dir(&self, dir: &RecvDir) {
        let DirState::Open(node) = &dir.state else { return };
        if !self.policy.sync || self.policy.dry_run || self.control.stopped() {
            return;
        }
        if self.holding.file_system(node).is_none()
            && let Err(error) = node.handle().and_then(|handle| handle.sync())
        {
            match dir.parent {
                Some(_) => self.not_durable(&dir.path_of(None), &error),
                None => self.not_durable(&self.dest, &error),
            }
        }
    }

    /// Makes the names of the whole job durable.
    pub(super) fn sync_names(&self) {
        if !self.policy.sync || self.policy.dry_run || self.control.stopped() {
            return;
        }
        let known = lock(&self.holding.file_systems);
        let whole = known.values().flatten().map(|handle| handle.sync_all());
        for synced in whole {
            if let Err(error) = synced {
                self.not_durable(&self.dest, &error);
            }
        }
    }

    /// Ends the job: what it has published may be lost.
    fn not_durable(&self, path: &[u8], error: &std::io::Error) {
        let fault = Fault::from_io(Side::Destination, "make the names in it durable", error);
        let path = haul_model::escape_bytes(&words::shown(path.to_vec()));
        self.control.fail(JobError::Destination { path, fault });
    }
}
