//! Durability: flushes what the job wrote, file by file or a whole file system at once.

use crate::JobError;
use crate::dirs::DirNode;
use crate::receiver::context::is_denied_or_missing;
use crate::receiver::{DirState, JobContext, RecvDir};
use haul_model::{Fault, Name, OrFault, Side, words};
use haul_tree::StagedFile;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// The action that a failed flush of names reports. Such a failure ends the job.
const NAMES: &str = "flush the directory";

/// The file systems to which the job writes.
pub(crate) struct Durability<'a> {
    job: Arc<JobContext<'a>>,
    /// By device; `None` if it can't be flushed as a whole.
    file_systems: Mutex<HashMap<u64, Option<Arc<Volume>>>>,
}

/// A file system that is flushed as a whole, through one handle that is opened before anything is
/// written.
///
/// The system reports a failure once per handle, without naming the file. So one thread at a time
/// flushes. After a failure no later success counts, since any file may be affected.
pub(crate) struct Volume {
    sync: Box<dyn Fn() -> io::Result<()> + Send + Sync>,
    /// Held during a flush, until all threads know the result.
    flush_lock: Mutex<()>,
    failed: OnceLock<io::ErrorKind>,
    /// Some files rely on the last flush.
    is_relied_on: AtomicBool,
}

impl Volume {
    fn new(sync: Box<dyn Fn() -> io::Result<()> + Send + Sync>) -> Self {
        let (failed, is_relied_on) = (OnceLock::new(), AtomicBool::new(false));
        Self { sync, flush_lock: Mutex::default(), failed, is_relied_on }
    }

    /// Flushes everything that was written before the call; `false` if that may have failed, and
    /// each file must be synced alone.
    pub(crate) fn sync(&self) -> bool {
        let _flush_lock = self.flush_lock.lock();
        self.failed.get().is_none() && self.flush().is_ok()
    }

    fn flush(&self) -> io::Result<()> {
        (self.sync)().inspect_err(|error| {
            // Only the first failure matters.
            let _ = self.failed.set(error.kind());
        })
    }

    /// True if existing content can be left to [`Self::sync_at_end`].
    fn will_cover(&self) -> bool {
        if self.failed.get().is_some() {
            return false;
        }
        self.is_relied_on.store(true, Ordering::SeqCst);
        // A flush may have failed meanwhile. Then the caller syncs the file, too.
        self.failed.get().is_none()
    }

    /// Flushes everything else at the end of a job.
    ///
    /// # Errors
    /// A failure of this flush, or an earlier one if files relied on this flush.
    fn sync_at_end(&self) -> io::Result<()> {
        let _flush_lock = self.flush_lock.lock();
        let before = self.failed.get().copied();
        self.flush()?;
        match before {
            Some(kind) if self.is_relied_on.load(Ordering::SeqCst) => Err(kind.into()),
            _ => Ok(()),
        }
    }
}

impl<'a> Durability<'a> {
    pub(crate) fn of(context: &Arc<JobContext<'a>>) -> Arc<Self> {
        Arc::new(Self { job: Arc::clone(context), file_systems: Mutex::default() })
    }
}

impl Durability<'_> {
    /// True if files must be durable before they are published.
    pub(crate) fn is_required(&self) -> bool {
        self.job.plan.sync || self.job.plan.verify
    }

    /// Registers the file system of `node`, before anything is written to it.
    pub(crate) fn register_file_system(&self, node: &Arc<DirNode>) {
        if self.is_required() && !self.job.plan.dry_run {
            self.file_system(node);
        }
    }

    /// Starts to write out a large staged file while it is filled, if it must be durable. Medium
    /// and processor then work at the same time.
    pub(crate) fn with_early_write_out(
        &self,
        mut stage: Box<dyn StagedFile>,
    ) -> Box<dyn StagedFile> {
        if self.is_required() {
            stage.write_out();
        }
        stage
    }

    /// Flushes a file whose content is kept. An earlier job without `sync` may have written it a
    /// moment ago, and its mode may be new. Nothing is done if the last flush covers the file.
    ///
    /// The system reports a failure only once. In a move a failure therefore ends the job:
    /// otherwise the second part would see no failure, and remove the source. The report may also
    /// have gone to an earlier move or another process. So the second part must read the file from
    /// its medium.
    pub(crate) fn sync_kept(
        &self,
        dir: &RecvDir,
        node: &Arc<DirNode>,
        name: &Name,
    ) -> Result<(), Fault> {
        if !self.job.plan.sync || self.job.plan.dry_run {
            return Ok(());
        }
        let (is_moving, what) =
            (self.job.plan.moving.is_some(), "flush the file to stable storage");
        let left = || {
            let handle = node.handle()?;
            // Later write failures show in the last flush.
            let volume = self.file_system(node);
            if !volume.is_some_and(|(_, volume)| volume.will_cover()) {
                handle.sync(Some(name))?;
            }
            if is_moving { handle.forget_cached(name) } else { Ok(()) }
        };
        match left() {
            // A file that can't be opened is not known to be lost.
            Err(error) if is_moving && !is_denied_or_missing(&error) => {
                // The job's error reports the failure. The file has no other outcome.
                self.fail_flush(&dir.path_of(Some(name)), what, &error);
                Ok(())
            }
            left => left.or_fault(Side::Destination, what),
        }
    }

    /// Flushes the names in `dir`, unless the last flush covers them.
    pub(crate) fn sync_dir(&self, dir: &RecvDir) {
        let DirState::Open(node) = &dir.state else { return };
        if !self.job.plan.sync || self.job.plan.dry_run || self.job.control.stopped() {
            return;
        }
        // Names are in the file system's journal, whose failures are reported every time.
        if self.file_system(node).is_none()
            && let Err(error) = node.handle().and_then(|handle| handle.sync(None))
        {
            let is_below = dir.parent.is_some();
            let path = if is_below { dir.path_of(None) } else { self.job.dest.clone() };
            self.fail_flush(&path, NAMES, &error);
        }
    }

    /// Flushes the names of the whole job.
    pub(crate) fn sync_names(&self) {
        if !self.job.plan.sync || self.job.plan.dry_run || self.job.control.stopped() {
            return;
        }
        let known = self.file_systems.lock();
        let whole = known.values().flatten().map(|volume| volume.sync_at_end());
        for synced in whole {
            if let Err(error) = synced {
                self.fail_flush(&self.job.dest, NAMES, &error);
            }
        }
    }

    /// Fails the job because `what` failed at `path`: content may be lost.
    pub(crate) fn fail_flush(&self, path: &[u8], what: &str, error: &std::io::Error) {
        let fault = Fault::from_io(Side::Destination, what, error);
        let path = haul_model::escape_bytes(&words::shown(path.to_vec()));
        self.job.control.fail(JobError::Destination { path, fault });
    }

    /// The file system of `node`, if it can be flushed as a whole. It must be registered before
    /// anything is written: a failure that was already reported to another process is not reported
    /// to later handles.
    pub(crate) fn file_system(&self, node: &Arc<DirNode>) -> Option<(u64, Arc<Volume>)> {
        let device = node.id()?.dev;
        let mut known = self.file_systems.lock();
        let found = match known.get(&device) {
            Some(found) => found.clone(),
            None => {
                let handle = node.handle().ok()?;
                let found = handle
                    .supports_sync_all()
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

    /// A slow file system that reports its one failure to the `nth` caller.
    fn failing_once(nth: u64) -> Volume {
        let requested = AtomicU64::new(0);
        Volume::new(Box::new(move || {
            let at = requested.fetch_add(1, Ordering::SeqCst) + 1;
            thread::sleep(Duration::from_millis(2));
            if at == nth { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
        }))
    }

    #[test]
    fn a_failure_reported_to_one_thread_counts_for_all() {
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
    fn the_last_flush_reports_an_earlier_failure_if_files_rely_on_it() {
        let volume = failing_once(1);
        assert!(volume.will_cover());
        assert!(!volume.sync());
        assert!(!volume.will_cover());
        let error = volume.sync_at_end().expect_err("it may have been about what was left");
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);

        let volume = failing_once(1);
        assert!(!volume.sync());
        volume.sync_at_end().expect("nothing was left to it");
    }
}
