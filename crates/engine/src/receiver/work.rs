//! The Receiver's workers: they write the content of wanted files, and publish them. They block;
//! one task is one file or one pack.

use super::filling::{Copying, Filled, abandon_stage};
use super::hold::{Filling, HOLD_MAX, Whole};
use super::small::SMALL_MAX;
use super::{DirState, Filler, Pending, Receiver, RecvDir, loss_check};
use crate::control::CopyStep;
use crate::link::SourceHandle;
use crate::{copy, digest};
use crossbeam_channel::RecvTimeoutError;
use haul_model::{
    Attributes, BLOCK_LEN, ContentHash, Entry, Fault, FaultKind, Kind, OrFault, Outcome, Side,
    Timestamp,
};
use haul_plan::Plan;
use haul_proto::{PackItem, PackView};
use haul_store::{Mover, Verified, Written};
use haul_tree::{SourceFile, StagedFile, TreeDir, changed};
use std::io;
use std::sync::Arc;

/// A task for one worker.
pub(crate) type Work = Box<dyn FnOnce(&Receiver<'_>, &mut Buffers) + Send>;

/// The buffers of one worker, for one task after another.
#[derive(Default)]
pub(crate) struct Buffers {
    scratch: copy::Scratch,
    /// A part of a file that is hashed.
    pub(super) part: Vec<u8>,
}

/// The queues of the workers.
#[derive(Clone)]
pub(crate) struct Tasks {
    all: crossbeam_channel::Sender<Work>,
    /// Small files that are fetched from or sent to a host's server, many at a time.
    small: Option<crossbeam_channel::Sender<SourceHandle>>,
}

impl Tasks {
    /// All tasks go to one queue.
    pub(crate) fn to_all(all: crossbeam_channel::Sender<Work>) -> Self {
        Self { all, small: None }
    }

    /// Files of at most [`SMALL_MAX`] bytes go to the `small` queue, whose workers have many in
    /// flight. Neither queue may be bounded: workers put tasks into them.
    pub(crate) fn with_small(
        all: crossbeam_channel::Sender<Work>,
        small: crossbeam_channel::Sender<SourceHandle>,
    ) -> Self {
        Self { all, small: Some(small) }
    }

    pub(super) fn enqueue(&self, task: impl FnOnce(&Receiver<'_>, &mut Buffers) + Send + 'static) {
        // Fails only if the workers have ended because the job has.
        let _ = self.all.send(Box::new(task));
    }

    pub(super) fn enqueue_files(&self, files: Vec<SourceHandle>) {
        let Some(small) = &self.small else { return self.enqueue(take_files(files)) };
        for file in files {
            if file.size <= SMALL_MAX && !file.hashes {
                // As above.
                let _ = small.send(file);
            } else {
                self.enqueue(take_files(vec![file]));
            }
        }
    }
}

/// A wanted file, the bytes of it that were counted as done, and its outcome.
pub(super) type Settled = (Pending, u64, Outcome);

/// Runs tasks until the queue is closed or the job ends.
pub(crate) fn run_worker(receiver: &Receiver<'_>, tasks: &crossbeam_channel::Receiver<Work>) {
    let (job, publisher) = (&receiver.job, &receiver.publisher);
    let mut buffers = Buffers::default();
    loop {
        // While files are held, the wait has a limit, so that no file is held for ever.
        let task = if publisher.holding.is_empty() {
            tasks.recv().map_err(RecvTimeoutError::from)
        } else {
            tasks.recv_timeout(HOLD_MAX)
        };
        let _batch = job.ending.begin_batch();
        if job.control.stopped() {
            return;
        }
        match task {
            Ok(task) => task(receiver, &mut buffers),
            Err(RecvTimeoutError::Timeout) => {
                receiver.linker.report_settled(publisher.publish_held())
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// The task to copy files of this machine, or to hash them.
pub(super) fn take_files(
    files: Vec<SourceHandle>,
) -> impl FnOnce(&Receiver<'_>, &mut Buffers) + Send + 'static {
    |receiver, buffers| {
        let filler = &receiver.filler;
        let (hashed, copied) = files.into_iter().partition(|file| file.hashes);
        filler.hash_sources(hashed, &mut buffers.part);
        copy_files(filler, copied, &mut buffers.scratch);
    }
}

fn copy_files(filler: &Filler<'_>, files: Vec<SourceHandle>, scratch: &mut copy::Scratch) {
    let mut settled = Vec::with_capacity(files.len());
    for file in files {
        if filler.job.control.stopped() {
            break;
        }
        let Some(mut pending) = filler.claim(file.index) else { continue };
        let mut counted = 0;
        let mut copied = copy_file(filler, &mut pending, &file, scratch, &mut counted);
        if let Err(fault) = &copied
            && filler.restart_file(&mut pending, fault, counted)
        {
            copied = copy_file(filler, &mut pending, &file, scratch, &mut counted);
        }
        if let Err(fault) = &copied
            && filler.decider.falls_back_to_sender(&mut pending, fault)
        {
            filler.want_now(pending, counted);
            continue;
        }
        if copied.is_err() && filler.job.control.stopped() {
            // The job was stopped; the file is not at fault.
            break;
        }
        filler.conclude(pending, counted, copied, &mut settled);
    }
    filler.linker.report_settled(settled);
}

/// Publishes small files that arrived whole.
pub(super) fn take_pack(filler: &Filler<'_>, bytes: &[u8], view: PackView) {
    let mut settled = Vec::with_capacity(view.items.len());
    for (item, range) in view.items {
        if filler.job.control.stopped() {
            break;
        }
        let (index, result) = match item {
            PackItem::File { grew: true, index, .. } if filler.job.plan.strict_source => {
                (index, Err(changed()))
            }
            PackItem::File { index, mtime, hash, grew, .. } => (index, Ok((mtime, hash, grew))),
            PackItem::Fault { index, fault } => (index, Err(super::as_source_fault(fault))),
        };
        let Some(mut pending) = filler.claim(index) else {
            filler.job.fail_protocol("it sent a file that was not requested");
            break;
        };
        let content = &bytes[range];
        let whole = result.and_then(|(mtime, hash, grew)| {
            pending.reading.has_grown = grew;
            pending.take_whole(filler, content, mtime, hash)
        });
        let moved = if whole.is_ok() { content.len() as u64 } else { 0 };
        filler.job.reporter.count_progress(CopyStep::Moved(moved));
        filler.conclude(pending, moved, whole, &mut settled);
    }
    filler.linker.report_settled(settled);
}

/// Copies a file of this machine.
fn copy_file(
    filler: &Filler<'_>,
    pending: &mut Pending,
    handle: &SourceHandle,
    scratch: &mut copy::Scratch,
    counted: &mut u64,
) -> Result<Whole, Fault> {
    let precedence = filler.job.control.precedence(pending.index);
    let source = handle
        .dir
        .handle()
        .and_then(|dir| dir.open_file(&handle.name, handle.follow))
        .or_fault(Side::Source, "open")?;
    let seal = source.seal();
    *counted = pending.resumed * BLOCK_LEN;
    let resumed = pending.open_partial_of(filler, &*source)?;
    *counted = pending.resumed * BLOCK_LEN;
    let (dir, index, entry) = (Arc::clone(&pending.dir), pending.index, pending.entry.clone());
    let is_based = pending.base.is_some();
    let as_listed = matches_listing(&*source, &pending.entry, resumed.is_some());
    let by_blocks = as_listed && !source.is_mostly_holes();
    let is_resumable = filler.job.resumable(&pending.entry).is_some() && !is_based;
    let is_recorded = resumed.is_some() || is_resumable && by_blocks;
    let mut count = |step: CopyStep| {
        *counted += step.len();
        filler.job.reporter.count_progress(step);
        let recorded = if is_recorded { min_recorded(filler, *counted) } else { 0 };
        filler.job.report_recorded(&dir, index, &entry, recorded);
        if let (CopyStep::Moved(len), false) = (step, is_based) {
            filler.job.control.throttle(len, 0);
        }
    };
    let in_lanes = !is_resumable && filler.lanes > 1 && seal.size > 2 * BLOCK_LEN;
    let hashes = filler.job.hashes_content() || pending.reading.is_retry;
    let copying = Copying { filler, source: &*source, size: seal.size, hashes };
    let filled = match resumed {
        Some(resumed) => copying.resume(pending, resumed, &mut count)?,
        None if (is_resumable || in_lanes) && by_blocks => {
            copying.by_blocks(pending, scratch, &mut count)?
        }
        None => copying.copy_whole(pending, scratch, &mut count)?,
    };
    drop(precedence);
    let Filled { verified, filling } = filled;
    // The staged file may use pages of the source until it is sealed.
    let uses_source_pages = verified.stage().sends_live_pages();
    if !uses_source_pages {
        let copied = || match verified.hash() {
            Some(hash) => Ok(Some(hash)),
            None => digest::hash_of_stage(verified.stage(), filler.job.control),
        };
        if let Err(fault) = pending.recheck_source(filler, &*source, copied) {
            return Err(abandon_stage(verified.into_stage(), fault));
        }
    }
    pending.entry.kind = Kind::File { size: seal.size };
    let filling = match filling {
        Filling::Dense if has_holes(&*source)? => Filling::WithHoles,
        filling => filling,
    };
    let mtime = if pending.base.is_some() { pending.entry.attributes.mtime } else { seal.mtime };
    let whole = pending.seal(&filler.job.plan, verified, mtime, filling)?;
    if uses_source_pages
        && let Err(fault) = pending.recheck_source(filler, &*source, || Ok(whole.hash))
    {
        whole.sealed.discard();
        return Err(fault);
    }
    Ok(whole)
}

/// A lower bound of the bytes that are on record, if `counted` bytes were counted. On this machine
/// several threads copy blocks, which are recorded in order.
fn min_recorded(filler: &Filler<'_>, counted: u64) -> u64 {
    (counted / BLOCK_LEN).saturating_sub(filler.job.ends.record_lag_max) * BLOCK_LEN
}

/// True if a source is the listed file. For a file that is resumed, the change time must match,
/// too: nobody can set it back.
pub(super) fn matches_listing(source: &dyn SourceFile, listed: &Entry, is_continued: bool) -> bool {
    let seal = source.seal();
    let is_same = (seal.size, seal.mtime) == (listed.size(), listed.attributes.mtime);
    let is_there = |ctime| source.ctime() == Some(ctime);
    is_same && (!is_continued || listed.ctime.is_none_or(is_there))
}

impl Pending {
    /// The directory of the file.
    pub(crate) fn dir(&self) -> Arc<RecvDir> {
        Arc::clone(&self.dir)
    }

    /// Creates the staged file.
    pub(super) fn stage(&self) -> Result<Box<dyn StagedFile>, Fault> {
        let stage = |dir: &dyn TreeDir| match &self.target.staging {
            Some(at) => dir.stage_at(at),
            None => dir.stage(),
        };
        self.prepared(self.begin(stage)?)
    }

    /// Prepares the staged file: reserves space and turns zeros into holes, as its file needs.
    fn prepared(&self, stage: Box<dyn StagedFile>) -> Result<Box<dyn StagedFile>, Fault> {
        let stage = self.with_zeros(stage);
        if self.target.preallocates {
            stage
                .reserve(self.entry.size())
                .or_fault(Side::Destination, "allocate space for the file")?;
        }
        Ok(stage)
    }

    /// Makes the staged file turn zeros into holes, if its file wants that.
    pub(super) fn with_zeros(&self, mut stage: Box<dyn StagedFile>) -> Box<dyn StagedFile> {
        if self.target.writes_sparse {
            stage.write_sparse();
        }
        stage
    }

    /// True if `fault`, from writing blocks in any order, may not occur when writing in order: the
    /// file system may accept only that.
    pub(super) fn should_retry_in_order(&self, fault: &Fault) -> bool {
        fault.side == Side::Destination && fault.kind == FaultKind::Io && self.is_sequential()
    }

    /// True if the file is large and the file system may accept only writes in order.
    pub(super) fn needs_order(&self) -> bool {
        self.entry.size() > BLOCK_LEN && self.is_sequential()
    }

    /// True if the content is accepted without a hash. A file that is read again is hashed: the
    /// hash shows whether it has only grown.
    pub(super) fn is_unhashed(&self, filler: &Filler<'_>) -> bool {
        let is_plain = self.resumed == 0 && self.reused.old.is_none() && !self.reading.is_retry;
        is_plain && filler.job.ends.accepts_unhashed
    }

    fn is_sequential(&self) -> bool {
        let DirState::Open(node) = &self.dir.state else { return false };
        node.handle().is_ok_and(|dir| !dir.supports_random_writes())
    }

    /// Creates the staged file. A large one can be resumed by a later job.
    pub(super) fn stage_for(&self, filler: &Filler<'_>) -> Result<Box<dyn StagedFile>, Fault> {
        // Content that is read again is not the listed content.
        let source = filler.job.resumable(&self.entry).filter(|_| !self.reading.is_retry);
        let (Some(source), DirState::Open(node)) = (source, &self.dir.state) else {
            return self.stage();
        };
        let begun = node.handle().and_then(|dir| dir.resume(&self.name, &source));
        match begun {
            // There is a partial file now that did not exist at the listing: another process wrote
            // it.
            Ok((stage, blocks)) if !blocks.is_empty() => {
                drop(stage);
                Err(written_meanwhile())
            }
            Ok((stage, _)) => {
                self.prepared(filler.publisher.durability.with_early_write_out(stage))
            }
            Err(error) if affects_all_files(&error) => {
                Err(destination_fault("create a file in the directory", &error))
            }
            // The file system has no locks, or reports no owners. The copy continues, but can't be
            // resumed.
            Err(_) => self.stage(),
        }
    }

    /// Stages and publishes content that arrived whole.
    pub(super) fn take_whole(
        &mut self,
        filler: &Filler<'_>,
        content: &[u8],
        mtime: Timestamp,
        hash: Option<ContentHash>,
    ) -> Result<Whole, Fault> {
        let len = content.len() as u64;
        let write = |error: io::Error| destination_fault("write", &error);
        let verified = match hash {
            Some(hash) => Written::of(self.stage()?, content).map_err(write)?.verify_hash(&hash),
            None if self.is_unhashed(filler) => {
                let mut into = Mover::new(self.stage()?);
                into.write(content).map_err(write)?;
                into.finish().map_err(write)?.verify_len(len)
            }
            None => return Err(missing_hash()),
        };
        let verified = verified.map_err(|(_, error)| {
            Fault::new(Side::Destination, FaultKind::Corrupt, error.to_string())
        })?;
        self.entry.kind = Kind::File { size: len };
        // The content arrives without its holes, but a later job only knows that there are some.
        let filling = if self.entry.has_holes { Filling::WithHoles } else { Filling::Dense };
        self.seal(&filler.job.plan, verified, mtime, filling)
    }

    /// Creates a staged file that shares the content of `source`. `None` if the file system can't
    /// do that, or the content must be read.
    pub(super) fn shared(
        &self,
        filler: &Filler<'_>,
        source: &dyn SourceFile,
    ) -> Result<Option<Box<dyn StagedFile>>, Fault> {
        if !self.may_share(filler, source) {
            return Ok(None);
        }
        let (stage, shares) = self.stage_sharing(source)?;
        Ok(shares.then_some(stage))
    }

    /// Creates a staged file, which shares the content of `source` if possible. Returns whether it
    /// does.
    pub(super) fn stage_sharing(
        &self,
        source: &dyn SourceFile,
    ) -> Result<(Box<dyn StagedFile>, bool), Fault> {
        let (stage, shares) = self.begin(|dir| dir.stage_sharing(source))?;
        Ok((if shares { stage } else { self.prepared(stage)? }, shares))
    }

    fn begin<T>(&self, begin: impl FnOnce(&dyn TreeDir) -> io::Result<T>) -> Result<T, Fault> {
        let DirState::Open(node) = &self.dir.state else {
            return Err(super::parent_fault());
        };
        node.handle()
            .and_then(|dir| begin(&*dir))
            .or_fault(Side::Destination, "create a file in the directory")
    }

    /// Sets the attributes of a verified staged file.
    pub(super) fn seal(
        &self,
        plan: &Plan,
        verified: Verified,
        mtime: Timestamp,
        filling: Filling,
    ) -> Result<Whole, Fault> {
        // A later job can't distinguish a lost block from a hole.
        let filling = match filling {
            Filling::Dense if self.target.writes_sparse => Filling::WithHoles,
            filling => filling,
        };
        let sync_first = filling.needs_sync_first(self.entry.size(), verified.stage());
        if sync_first {
            verified.stage().expect_sync();
        }
        let hash = verified.hash();
        let attributes = Attributes { mtime, ..self.entry.attributes.clone() };
        let sealed = verified.seal(&attributes, plan.keeps);
        let sealed =
            sealed.map_err(|error| loss_check::not_kept(plan.moving, "finish the file", &error))?;
        Ok(Whole { sealed, hash, sync_first })
    }
}

fn has_holes(source: &dyn SourceFile) -> Result<bool, Fault> {
    source.has_holes().or_fault(Side::Source, "read")
}

/// The fault of a partial file that changed since its file was listed.
pub(super) fn written_meanwhile() -> Fault {
    let message = "another haul wrote to it meanwhile";
    Fault::new(Side::Destination, FaultKind::Busy, message)
}

/// The fault of content that was sent without the requested hash.
pub(super) fn missing_hash() -> Fault {
    Fault::new(Side::Destination, FaultKind::Corrupt, "it was sent without its hash")
}

pub(super) fn destination_fault(action: &str, error: &io::Error) -> Fault {
    Fault::from_io(Side::Destination, action, error)
}

/// True if an error of a resumable staged file would occur with any other, too.
pub(super) fn affects_all_files(error: &io::Error) -> bool {
    matches!(FaultKind::of(error), FaultKind::Busy | FaultKind::NoSpace | FaultKind::ReadOnly)
}
