//! Making what was written durable, file by file or a whole file system at once.

use super::{DirState, JobContext, RecvDir};
use crate::JobError;
use crate::dirs::DirNode;
use haul_model::{Fault, Name, Side, words};
use haul_tree::StagedFile;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// A failure at this ends the job.
const NAMES: &str = "flush the directory";

/// The file systems to which the job writes.
pub(super) struct Durability<'a> {
    job: Arc<JobContext<'a>>,
    /// By device, if they can be made durable as a whole.
    file_systems: Mutex<HashMap<u64, Option<Arc<Volume>>>>,
}

/// A file system that can be made durable as a whole, through one handle that is
/// opened before anything is written.
///
/// The system reports a failure once per handle, without naming the file. So
/// one thread at a time asks, and after a failure nobody believes a
/// success any more: what it was about may belong to anyone.
pub(super) struct Volume {
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
    pub(super) fn sync(&self) -> bool {
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

/// True if a file could not be opened because of its rights, or because it was removed: what
/// has come of its content is not known.
pub(super) fn may_not_be_opened(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound)
}

impl<'a> Durability<'a> {
    pub(super) fn of(context: &Arc<JobContext<'a>>) -> Arc<Self> {
        Arc::new(Self { job: Arc::clone(context), file_systems: Mutex::default() })
    }
}

impl Durability<'_> {
    /// True if a file is durable before it is published.
    pub(super) fn holds(&self) -> bool {
        self.job.policy.sync || self.job.policy.verify
    }

    /// Learns of the file system that `node` is on, before anything is written there.
    pub(super) fn expect_writing(&self, node: &Arc<DirNode>) {
        if self.holds() && !self.job.policy.dry_run {
            self.file_system(node);
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
        if !self.job.policy.sync || self.job.policy.dry_run {
            return Ok(());
        }
        let (is_moving, what) =
            (self.job.policy.moving.is_some(), "flush the file to stable storage");
        let left = || {
            let handle = node.handle()?;
            // What fails to be written from now on shows when all of it is synced.
            let volume = self.file_system(node);
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
        if !self.job.policy.sync || self.job.policy.dry_run || self.job.control.stopped() {
            return;
        }
        // Names are a matter of the file system's own journal: what is wrong with that
        // is reported each time.
        if self.file_system(node).is_none()
            && let Err(error) = node.handle().and_then(|handle| handle.sync(None))
        {
            let is_below = dir.parent.is_some();
            let path = if is_below { dir.path_of(None) } else { self.job.dest.clone() };
            self.not_durable(&path, NAMES, &error);
        }
    }

    /// Makes the names of the whole job durable.
    pub(super) fn sync_names(&self) {
        if !self.job.policy.sync || self.job.policy.dry_run || self.job.control.stopped() {
            return;
        }
        let known = self.file_systems.lock();
        let whole = known.values().flatten().map(|volume| volume.sync_at_last());
        for synced in whole {
            if let Err(error) = synced {
                self.not_durable(&self.job.dest, NAMES, &error);
            }
        }
    }

    /// Ends the job, which could not do `what`: what is there may be lost.
    pub(super) fn not_durable(&self, path: &[u8], what: &str, error: &std::io::Error) {
        let fault = Fault::from_io(Side::Destination, what, error);
        let path = haul_model::escape_bytes(&words::shown(path.to_vec()));
        self.job.control.fail(JobError::Destination { path, fault });
    }

    /// The file system of `node`, if it can be made durable as a whole. It must be
    /// asked about before anything is written there: a failure that
    /// was reported to another process before is not reported to later handles.
    pub(super) fn file_system(&self, node: &Arc<DirNode>) -> Option<(u64, Arc<Volume>)> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;
    use std::thread;
    use std::time::{Duration, Instant};

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
