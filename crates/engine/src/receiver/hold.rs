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

use super::dirs::{DirState, RecvDir};
use super::work::{self, Settled};
use super::{Pending, Receiver};
use crate::JobError;
use crate::copy;
use crate::crew::share_out;
use crate::dirs::{DirNode, HANDLES_ELSEWHERE, open_dirs_max};
use crate::workers::workers;
use haul_model::words;
use haul_model::{ContentHash, Fault, FaultKind, Name, Outcome, Side};
use haul_store::RESUME_LEN_MIN;
use haul_sys::Loss;
use haul_tree::{SealedFile, StagedFile};
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// A failure at this ends the job.
const NAMES: &str = "flush the directory";

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

/// Files that are held, and the file systems to which the job writes.
pub(super) struct Holding {
    held: Mutex<(Vec<Held>, u64)>,
    files_max: usize,
    /// File systems that are written to, by device, if they can be made durable as a whole.
    file_systems: Mutex<HashMap<u64, Option<Arc<Volume>>>>,
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

/// A file system that can be made durable as a whole, through one handle that is
/// opened before anything is written.
///
/// The system reports a failure once per handle, without naming the file. So
/// one thread at a time asks, and after a failure nobody believes a
/// success any more: what it was about may belong to anyone.
struct Volume {
    sync: Box<dyn Fn() -> io::Result<()> + Send + Sync>,
    /// Held while the system is asked, and until its answer is known to all.
    turn: Mutex<()>,
    failed: OnceLock<io::ErrorKind>,
    /// Something is left to the last time.
    is_relied_on: AtomicBool,
}

impl Volume {
    fn new(sync: Box<dyn Fn() -> io::Result<()> + Send + Sync>) -> Self {
        let (failed, is_relied_on) = (OnceLock::new(), AtomicBool::new(false));
        Self { sync, turn: Mutex::default(), failed, is_relied_on }
    }

    /// Makes all durable that was written before this is called; `false` if it is
    /// not known to be, and each file has to be synced alone.
    fn sync(&self) -> bool {
        let _turn = self.turn.lock();
        self.failed.get().is_none() && self.ask().is_ok()
    }

    fn ask(&self) -> io::Result<()> {
        (self.sync)().inspect_err(|error| {
            // Only the first matters.
            let _ = self.failed.set(error.kind());
        })
    }

    /// True if what is there already can be left to [`Self::sync_at_last`].
    fn will_cover(&self) -> bool {
        if self.failed.get().is_some() {
            return false;
        }
        self.is_relied_on.store(true, Ordering::SeqCst);
        // It may have failed meanwhile; then both are done.
        self.failed.get().is_none()
    }

    /// Makes all durable that is left, at the end of a job.
    ///
    /// # Errors
    /// Those of now, and one of before, if it may have been about what was left to
    /// this moment.
    fn sync_at_last(&self) -> io::Result<()> {
        let _turn = self.turn.lock();
        let before = self.failed.get().copied();
        self.ask()?;
        match before {
            Some(kind) if self.is_relied_on.load(Ordering::SeqCst) => Err(kind.into()),
            _ => Ok(()),
        }
    }
}

impl Default for Holding {
    fn default() -> Self {
        let files_max = held_files_max(haul_sys::open_files_max(), workers());
        Self { held: Mutex::default(), files_max, file_systems: Mutex::default() }
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

    /// The file system of `node`, if it can be made durable as a whole. It must be
    /// asked about before anything is written there: a failure that
    /// was reported to another process before is not reported to later handles.
    fn file_system(&self, node: &Arc<DirNode>) -> Option<(u64, Arc<Volume>)> {
        let device = node.id()?.dev;
        let mut known = self.file_systems.lock();
        let found = match known.get(&device) {
            Some(found) => found.clone(),
            None => {
                let handle = node.handle().ok()?;
                let found = handle
                    .syncs_as_a_whole()
                    .then(|| Arc::new(Volume::new(Box::new(move || handle.sync_all()))));
                known.insert(device, found.clone());
                found
            }
        };
        found.map(|handle| (device, handle))
    }
}

/// True if a file could not be opened because of its rights, or because it was removed: what
/// has come of its content is not known.
pub(super) fn may_not_be_opened(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound)
}

fn make_durable(sealed: &dyn SealedFile) -> Result<(), Fault> {
    let action = "flush the file to stable storage";
    sealed.sync().map_err(|error| Fault::from_io(Side::Destination, action, &error))
}

impl Receiver<'_> {
    /// True if a file is durable before it is published.
    fn holds(&self) -> bool {
        self.policy.sync || self.policy.verify
    }

    /// Learns of the file system that `node` is on, before anything is written there.
    pub(super) fn expect_writing(&self, node: &Arc<DirNode>) {
        if self.holds() && !self.policy.dry_run {
            self.holding.file_system(node);
        }
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
    /// that is returned, to be reported.
    fn place(&self, pending: Pending, moved: u64, whole: Whole) -> Option<Settled> {
        if !self.holds() {
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
            return Some((pending, moved, outcome.unwrap_or_else(Outcome::Failed)));
        }
        whole.sealed.start_write_back();
        {
            let mut held = self.holding.held.lock();
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
        mut pending: Pending,
        moved: u64,
        whole: Result<Whole, Fault>,
    ) -> Option<Settled> {
        // A file that is held keeps no more open than its stage and its directory.
        pending.old = None;
        match whole {
            Ok(whole) => {
                self.reporter.hashed(pending.index, whole.hash);
                self.place(pending, moved, whole)
            }
            Err(fault) => Some((pending, moved, Outcome::Failed(fault))),
        }
    }

    /// Makes what is held durable, reads it back if that is asked for, and
    /// publishes it.
    pub(super) fn publish_held(&self) {
        let (held, _) = std::mem::take(&mut *self.holding.held.lock());
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
                *results[at].lock() = self.make_sure(file, durable[at], at_once);
            }
        };
        share_out(self.control, "waiting", at_once - 1, work);
        let mut settled = Vec::with_capacity(held.len());
        for (Held { pending, moved, whole }, result) in held.into_iter().zip(results) {
            let result = result.into_inner();
            if self.control.stopped() {
                return;
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
        work::tell(self, settled);
    }

    /// Makes whole file systems durable, where many files are held on one and
    /// it can be; returns which files that covers.
    fn sync_whole(&self, held: &[Held]) -> Vec<bool> {
        let mut groups: BTreeMap<u64, (Arc<Volume>, Vec<usize>)> = BTreeMap::new();
        for (at, file) in held.iter().enumerate() {
            let DirState::Open(node) = &file.pending.dir.state else { continue };
            if let Some((device, volume)) = self.holding.file_system(node) {
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
        let (true, Some(expected)) = (self.policy.verify, &file.whole.hash) else { return Ok(()) };
        let found = copy::read_back(sealed, file.pending.entry.size(), at_once, self.control)?;
        if found != *expected {
            let message =
                format!("the disk returned a file with hash {found} instead of {expected}");
            return Err(Fault::new(Side::Destination, FaultKind::Corrupt, message));
        }
        Ok(())
    }

    /// Makes a file durable whose content is left as it is: an earlier job,
    /// without `sync`, may have put it there a moment ago, and its mode may be new.
    /// Nothing is done where the whole file system will be.
    ///
    /// The system reports a failure once, so in a move one ends the job: its second part
    /// would see no failure, and remove the source. The report may have gone to an earlier
    /// move or another process. So the second part is made to read the file from its medium.
    pub(super) fn sync_left(
        &self,
        dir: &RecvDir,
        node: &Arc<DirNode>,
        name: &Name,
    ) -> Result<(), Fault> {
        if !self.policy.sync || self.policy.dry_run {
            return Ok(());
        }
        let (is_moving, what) = (self.policy.moving.is_some(), "flush the file to stable storage");
        let left = || {
            let handle = node.handle()?;
            // What fails to be written from now on shows when all of it is synced.
            let volume = self.holding.file_system(node);
            if !volume.is_some_and(|(_, volume)| volume.will_cover()) {
                handle.sync(Some(name))?;
            }
            if is_moving { handle.forget_cached(name) } else { Ok(()) }
        };
        match left() {
            // What can't be opened is not known to be lost.
            Err(error) if is_moving && !may_not_be_opened(&error) => {
                // The job's error reports it, and the file has no other outcome.
                self.not_durable(&dir.path_of(Some(name)), what, &error);
                Ok(())
            }
            left => left.map_err(|error| Fault::from_io(Side::Destination, what, &error)),
        }
    }

    /// Makes the names in `dir` durable, unless the whole file system will be.
    pub(super) fn sync_dir(&self, dir: &RecvDir) {
        let DirState::Open(node) = &dir.state else { return };
        if !self.policy.sync || self.policy.dry_run || self.control.stopped() {
            return;
        }
        // Names are a matter of the file system's own journal: what is wrong with that
        // is reported each time.
        if self.holding.file_system(node).is_none()
            && let Err(error) = node.handle().and_then(|handle| handle.sync(None))
        {
            let is_below = dir.parent.is_some();
            let path = if is_below { dir.path_of(None) } else { self.dest.clone() };
            self.not_durable(&path, NAMES, &error);
        }
    }

    /// Makes the names of the whole job durable.
    pub(super) fn sync_names(&self) {
        if !self.policy.sync || self.policy.dry_run || self.control.stopped() {
            return;
        }
        let known = self.holding.file_systems.lock();
        let whole = known.values().flatten().map(|volume| volume.sync_at_last());
        for synced in whole {
            if let Err(error) = synced {
                self.not_durable(&self.dest, NAMES, &error);
            }
        }
    }

    /// Ends the job, which could not do `what`: what is there may be lost.
    fn not_durable(&self, path: &[u8], what: &str, error: &std::io::Error) {
        let fault = Fault::from_io(Side::Destination, what, error);
        let path = haul_model::escape_bytes(&words::shown(path.to_vec()));
        self.control.fail(JobError::Destination { path, fault });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;
    use std::thread;
    use std::time::Instant;

    /// A file system that reports its one failure to the `nth` caller, and
    /// takes its time to answer.
    fn failing_once(nth: u64) -> Volume {
        let asked = AtomicU64::new(0);
        Volume::new(Box::new(move || {
            let at = asked.fetch_add(1, Ordering::SeqCst) + 1;
            thread::sleep(Duration::from_millis(2));
            if at == nth { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
        }))
    }

    #[test]
    fn a_failure_that_one_thread_is_told_is_believed_by_all() {
        for nth in 1..=4 {
            let volume = failing_once(nth);
            let results = Mutex::new(Vec::new());
            thread::scope(|scope| {
                for _ in 0..8 {
                    scope.spawn(|| {
                        let began = Instant::now();
                        let durable = volume.sync();
                        results.lock().push((began, Instant::now(), durable));
                    });
                }
            });
            let results = results.into_inner();
            let believed = results.iter().filter(|(.., durable)| *durable).count() as u64;
            assert_eq!(believed, nth - 1, "{results:?}");
            assert!(!volume.sync(), "a success after a failure counts");
        }
    }

    #[test]
    fn what_was_left_to_the_end_fails_with_a_failure_of_before() {
        let volume = failing_once(1);
        assert!(volume.will_cover());
        assert!(!volume.sync());
        assert!(!volume.will_cover());
        let error = volume.sync_at_last().expect_err("it may have been about what was left");
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);

        let volume = failing_once(1);
        assert!(!volume.sync());
        volume.sync_at_last().expect("nothing was left to it");
    }
}
