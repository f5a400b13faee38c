//! Small files on a tree where each request takes a round trip. One thread for each lane keeps many
//! files in flight, so that no file costs a round trip of its own.

use crate::control::CopyStep;
use crate::link::SourceHandle;
use crate::receiver::filling::take_files;
use crate::receiver::work::SMALL_MAX;
use crate::receiver::{DirState, Filler, Pending};
use haul_model::{
    Attributes, ContentHash, Fault, FaultKind, Kind, OrFault, Outcome, Side, Timestamp,
};
use haul_store::{OnExisting, Publication};
use haul_tree::{Downloads, Lane, PutError, SmallFile, Uploads, changed, check_size};

/// A small file that was fetched.
pub(crate) struct Fetched {
    pub(crate) index: u64,
    /// The listed length, in bytes.
    pub(crate) size: u64,
    pub(crate) file: haul_tree::Fetched,
}

/// Uploads small files over `lane`, until the queue is closed or the job ends.
pub(crate) fn run_uploads(
    filler: &Filler<'_>,
    files: &crossbeam_channel::Receiver<SourceHandle>,
    lane: Lane<'_>,
) {
    let mut uploading = Uploading { filler, lane: Uploads::new(lane), refused: Vec::new() };
    while !filler.job.control.stopped() {
        while let Ok(file) = files.try_recv() {
            uploading.begin(&file);
            // Files may come without end, so outcomes are reported in between.
            while let Some((sent, result)) = uploading.lane.next_done(false) {
                uploading.end(sent, result);
            }
        }
        match uploading.lane.next_done(true) {
            Some((sent, result)) => uploading.end(sent, result),
            None if !uploading.refused.is_empty() => uploading.queue_refused(),
            None => match files.recv() {
                Ok(file) => uploading.begin(&file),
                Err(_) => break,
            },
        }
    }
}

/// The uploads of one lane.
struct Uploading<'r, 'a, 't> {
    filler: &'r Filler<'a>,
    lane: Uploads<'t, (Pending, SourceHandle)>,
    /// Files for which there was no space, or that the server refused without a reason. Files in
    /// flight take more space than in the end, so these are retried after them.
    refused: Vec<(Pending, SourceHandle)>,
}

impl Uploading<'_, '_, '_> {
    fn begin(&mut self, file: &SourceHandle) {
        if self.filler.job.control.stopped() {
            return;
        }
        let Some(mut pending) = self.filler.claim(file.index) else { return };
        if pending.on_existing == OnExisting::Replace && self.filler.publisher.backups.is_enabled()
        {
            // A worker makes the backup first.
            return self.queue_for_worker(pending, file.clone());
        }
        match self.read(&mut pending, file) {
            Ok(Some((content, mtime))) => self.send(pending, file, content, mtime),
            // It has grown.
            Ok(None) => self.queue_for_worker(pending, file.clone()),
            Err(_) if self.filler.job.control.stopped() => {}
            Err(fault) if self.filler.restart_file(&mut pending, &fault, (0, 0)) => {
                self.queue_for_worker(pending, file.clone());
            }
            Err(fault) => self.fail(pending, fault),
        }
    }

    /// Reads a file and its time; `None` if it is not small.
    fn read(
        &self,
        pending: &mut Pending,
        file: &SourceHandle,
    ) -> Result<Option<(Vec<u8>, Timestamp)>, Fault> {
        let source = file.open()?;
        let seal = source.seal();
        if seal.size > SMALL_MAX {
            return Ok(None);
        }
        if seal.size == 0 {
            check_size(&*source)?;
        }
        let mut content = vec![0; seal.size as usize];
        let read = source.read_at(&mut content, 0).or_fault(Side::Source, "read")?;
        if read < content.len() {
            return Err(changed());
        }
        pending
            .recheck_source(&self.filler.job, &*source, || Ok(Some(ContentHash::of(&content))))?;
        pending.entry.kind = Kind::File { size: seal.size };
        Ok(Some((content, seal.mtime)))
    }

    /// Sends the content of a file.
    fn send(&mut self, pending: Pending, file: &SourceHandle, content: Vec<u8>, mtime: Timestamp) {
        let dir = match &pending.dir.state {
            DirState::Open(node) => {
                node.handle().or_fault(Side::Destination, "create a file in the directory")
            }
            _ => Err(crate::receiver::parent_fault()),
        };
        let dir = match dir {
            Ok(dir) => dir,
            Err(fault) => return self.fail(pending, fault),
        };
        let plan = &self.filler.job.plan;
        let small = SmallFile {
            name: &pending.name.clone(),
            content,
            attributes: &Attributes { mtime, ..pending.entry.attributes.clone() },
            kept: plan.keeps,
            on_existing: pending.on_existing,
            sync: plan.sync,
            verify: plan.verify,
        };
        if let Err((pending, _)) = self.lane.push((pending, file.clone()), &*dir, small) {
            // The fault is reported for the directory.
            self.fail(pending, crate::receiver::parent_fault());
        }
    }

    fn end(
        &mut self,
        (pending, file): (Pending, SourceHandle),
        result: Result<Publication, PutError>,
    ) {
        let size = pending.entry.size();
        let fault = match result {
            Ok(Publication::Published) => {
                self.filler.job.reporter.count_progress(CopyStep::Moved(size));
                pending.dir.remove_stale(&pending.name);
                return self.report(pending, size, Outcome::Copied);
            }
            // A worker finds out which entry has the name. That takes further requests.
            Ok(Publication::Kept) => return self.queue_for_worker(pending, file),
            Err(PutError::Corrupt(message)) => {
                Fault::new(Side::Destination, FaultKind::Corrupt, message)
            }
            Err(PutError::Failed { .. }) if self.filler.job.control.stopped() => return,
            Err(PutError::Failed { error, .. })
                if matches!(FaultKind::of(&error), FaultKind::NoSpace | FaultKind::Io) =>
            {
                return self.refused.push((pending, file));
            }
            Err(PutError::Failed { operation, error }) => {
                Fault::from_io(Side::Destination, &format!("{operation} the file"), &error)
            }
        };
        self.report(pending, 0, Outcome::Failed(fault));
    }

    /// Queues a file for a worker.
    fn queue_for_worker(&self, pending: Pending, file: SourceHandle) {
        self.filler.put_back(pending);
        self.filler.job.enqueue(take_files(vec![file]));
    }

    /// Queues the refused files for workers, once the others are done.
    fn queue_refused(&mut self) {
        for (pending, file) in std::mem::take(&mut self.refused) {
            self.queue_for_worker(pending, file);
        }
    }

    fn fail(&self, pending: Pending, fault: Fault) {
        if !self.filler.job.control.stopped() {
            self.report(pending, 0, Outcome::Failed(fault));
        }
    }

    fn report(&self, pending: Pending, moved: u64, outcome: Outcome) {
        self.filler.linker.report_one(pending, moved, outcome);
    }
}

/// Downloads small files over `lane` and queues them for the workers, until the queue is closed or
/// the job ends.
pub(crate) fn run_downloads(
    filler: &Filler<'_>,
    files: &crossbeam_channel::Receiver<SourceHandle>,
    lane: Lane<'_>,
) {
    let mut fetching = Fetching { filler, lane: Downloads::new(lane) };
    let mut next = None;
    while !filler.job.control.stopped() {
        while let Some(file) = next.take().or_else(|| files.try_recv().ok()) {
            next = fetching.begin(file);
            while let Some((source, fetched)) = fetching.lane.next_done(false) {
                fetching.end(source, fetched);
            }
            if next.is_some() || filler.job.control.stopped() {
                break;
            }
        }
        match fetching.lane.next_done(true) {
            Some((source, fetched)) => fetching.end(source, fetched),
            None => match files.recv() {
                Ok(file) => next = Some(file),
                Err(_) => return,
            },
        }
    }
}

/// The downloads of one lane.
struct Fetching<'r, 'a, 't> {
    filler: &'r Filler<'a>,
    lane: Downloads<'t, SourceHandle>,
}

impl Fetching<'_, '_, '_> {
    /// Requests a file. Returns it if there is no room for it now, or the job ends.
    fn begin(&mut self, file: SourceHandle) -> Option<SourceHandle> {
        let dir = file.dir.handle().ok().filter(|dir| dir.remote_path().is_some());
        let Some(dir) = dir else {
            // A worker reports the fault, or copies from this machine.
            self.filler.job.enqueue(take_files(vec![file]));
            return None;
        };
        let (control, name, size) = (self.filler.job.control, file.name.clone(), file.size);
        self.lane.push(file, (&*dir, &name), size, &|| control.stopped())
    }

    fn end(&mut self, source: SourceHandle, fetched: Option<haul_tree::Fetched>) {
        let Some(file) = fetched else {
            // A worker opens it again, and reports the fault.
            return self.filler.job.enqueue(take_files(vec![source]));
        };
        let fetched = Fetched { index: source.index, size: source.size, file };
        self.filler.job.enqueue(move |receiver, _| receiver.filler.take_fetched(fetched));
    }
}
