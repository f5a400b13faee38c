//! Copies a file of this machine or of a host's server into a staged file: resumed, block by block,
//! shared, or in one go.

use crate::control::CopyStep;
use crate::copy::not_assembled;
use crate::link::SourceHandle;
use crate::receiver::publish::hold::{Filling, Whole};
use crate::receiver::work::{Buffers, SMALL_MAX, Tasks};
use crate::receiver::{Filler, Pending, Receiver, Resumed};
use crate::{copy, digest};
use haul_model::{BLOCK_LEN, Entry, Fault, FaultKind, Kind, OrFault, Side};
use haul_proto::{PackItem, PackView};
use haul_store::{Assembler, Moved, Mover, RESUME_LEN_MIN, Verified, VerifyResult};
use haul_tree::{SourceFile, StagedFile, changed};
use std::sync::Arc;

pub(crate) fn copy_files(
    filler: &Filler<'_>,
    files: Vec<SourceHandle>,
    scratch: &mut copy::Scratch,
) {
    let mut settled = Vec::with_capacity(files.len());
    for file in files {
        if filler.job.control.stopped() {
            break;
        }
        let Some(mut pending) = filler.claim(file.index) else { continue };
        let mut counted = 0;
        let mut copied = copy_file(filler, &mut pending, &file, scratch, &mut counted);
        if let Err(fault) = &copied
            && filler.restart_file(&mut pending, fault, (counted, 0))
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

/// Copies a file of this machine.
fn copy_file(
    filler: &Filler<'_>,
    pending: &mut Pending,
    handle: &SourceHandle,
    scratch: &mut copy::Scratch,
    counted: &mut u64,
) -> Result<Whole, Fault> {
    let precedence = filler.job.control.precedence(pending.index);
    let source = handle.open()?;
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
        if let Err(fault) = pending.recheck_source(&filler.job, &*source, copied) {
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
        && let Err(fault) = pending.recheck_source(&filler.job, &*source, || Ok(whole.hash))
    {
        whole.sealed.discard();
        return Err(fault);
    }
    Ok(whole)
}

/// A file whose content is copied into a staged file.
pub(crate) struct Copying<'c, 'a> {
    pub(crate) filler: &'c Filler<'a>,
    pub(crate) source: &'c dyn SourceFile,
    /// The length of the source when it was opened, in bytes.
    pub(crate) size: u64,
    /// Hash all content: to verify it, or to see whether a changing source has only grown.
    pub(crate) hashes: bool,
}

/// A staged file with all its content.
pub(crate) struct Filled {
    pub(crate) verified: Verified,
    pub(crate) filling: Filling,
}

/// A verified staged file, or one with a mismatch.
/// Counts the progress of a copy.
type Count<'c> = dyn FnMut(CopyStep) + Send + 'c;

impl Copying<'_, '_> {
    /// Resumes a partial file of an earlier job.
    pub(crate) fn resume(
        &self,
        pending: &mut Pending,
        (stage, blocks): Resumed,
        count: &mut Count<'_>,
    ) -> Result<Filled, Fault> {
        if let Some(shared) = pending.shared(self.filler, self.source)? {
            // The earlier job copied instead of sharing because the content had to be read.
            stage.discard();
            let there = pending.resumed * BLOCK_LEN;
            count(CopyStep::Moved(self.size.saturating_sub(there)));
            return self.shared(shared);
        }
        let into = copy::assembler(stage, blocks);
        let copied = copy::blocks(self.source, &into, self.filler.job.control, count);
        pending.update_recorded_len(&into);
        self.finish(into, copied)
    }

    /// Copies block by block, into a file that can be resumed, or over several lanes.
    pub(crate) fn by_blocks(
        &self,
        pending: &mut Pending,
        scratch: &mut copy::Scratch,
        count: &mut Count<'_>,
    ) -> Result<Filled, Fault> {
        let (source, control) = (self.source, self.filler.job.control);
        if let Some(shared) = pending.shared(self.filler, source)? {
            count(CopyStep::Moved(self.size));
            return self.shared(shared);
        }
        let into = copy::assembler(pending.stage_for(self.filler)?, Vec::new());
        match copy::blocks(source, &into, control, count) {
            Err(fault) if into.stage().is_sound() && pending.should_retry_in_order(&fault) => {
                into.into_stage().discard();
                // Some of the content is counted already.
                self.in_order(pending.stage()?, scratch, &mut |_| {})
            }
            copied => {
                pending.update_recorded_len(&into);
                self.finish(into, copied)
            }
        }
    }

    /// Copies in one go, or shares the content if possible.
    pub(crate) fn copy_whole(
        &self,
        pending: &mut Pending,
        scratch: &mut copy::Scratch,
        count: &mut Count<'_>,
    ) -> Result<Filled, Fault> {
        let tries_sharing =
            self.size > copy::WHOLE_MAX && pending.may_share(&self.filler.job, self.source);
        let (stage, shares) = if tries_sharing {
            pending.stage_sharing(self.source)?
        } else {
            (pending.stage()?, false)
        };
        let is_large = self.size >= RESUME_LEN_MIN;
        let stage = if is_large {
            self.filler.publisher.durability.with_early_write_out(stage)
        } else {
            stage
        };
        if shares {
            count(CopyStep::Moved(self.size));
            return self.shared(stage);
        }
        self.in_order(stage, scratch, count)
    }

    /// Copies from the beginning to the end.
    fn in_order(
        &self,
        stage: Box<dyn StagedFile>,
        scratch: &mut copy::Scratch,
        count: &mut Count<'_>,
    ) -> Result<Filled, Fault> {
        let control = self.filler.job.control;
        if self.hashes {
            let into = copy::assembler(stage, Vec::new());
            let copied = copy::hashed(self.source, &into, scratch, control, count);
            return self.finish(into, copied);
        }
        let mut into = Mover::new(stage);
        if let Err(fault) = copy::content(self.source, &mut into, scratch, control, count) {
            return Err(abandon_stage(into.into_stage(), fault));
        }
        let moved = into.finish().or_fault(Side::Destination, "write")?;
        self.verify(moved.verify_len(self.size), Filling::Dense)
    }

    /// Ends a staged file that shares all content of the source. Cuts off what the source gained
    /// since it was opened.
    fn shared(&self, stage: Box<dyn StagedFile>) -> Result<Filled, Fault> {
        let len = stage.handle().map_or(Ok(0), |file| file.metadata().map(|found| found.len()));
        if len.or_fault(Side::Destination, "read the metadata of")? > self.size {
            // If it can't be cut, the file is copied again.
            stage.set_len(self.size).map_err(|_| changed())?;
        }
        let moved = Moved::shared(stage).or_fault(Side::Destination, "read the metadata of")?;
        self.verify(moved.verify_len(self.size), Filling::Reflinked)
    }

    /// Ends a staged file whose blocks were `copied`.
    fn finish(&self, into: Assembler, copied: Result<(), Fault>) -> Result<Filled, Fault> {
        if let Err(fault) = copied {
            return Err(abandon_stage(into.into_stage(), fault));
        }
        let written = into.finish(self.size);
        let written =
            written.map_err(|(stage, error)| abandon_stage(stage, not_assembled(&error)))?;
        self.verify(written.verify_len(self.size), Filling::Dense)
    }

    /// Checks that the staged file has the length of the source.
    fn verify(&self, whole: VerifyResult, filling: Filling) -> Result<Filled, Fault> {
        match whole {
            Ok(verified) => Ok(Filled { verified, filling }),
            Err((stage, _)) => Err(abandon_stage(stage, changed())),
        }
    }
}

/// Closes a staged file after `fault`. It is discarded if its source has changed, and can be
/// resumed otherwise.
pub(crate) fn abandon_stage(stage: Box<dyn StagedFile>, fault: Fault) -> Fault {
    if fault.kind == FaultKind::Changed {
        stage.discard();
    }
    fault
}

/// Queues files of this machine, or of a host's server, to be copied or hashed.
pub(crate) fn enqueue_files(tasks: &Tasks, files: Vec<SourceHandle>) {
    let Some(small) = &tasks.small else { return tasks.enqueue(take_files(files)) };
    for file in files {
        if file.size <= SMALL_MAX && !file.hashes {
            // Fails only if the workers have ended because the job has.
            let _ = small.send(file);
        } else {
            tasks.enqueue(take_files(vec![file]));
        }
    }
}

/// The task to copy files of this machine, or to hash them.
pub(crate) fn take_files(
    files: Vec<SourceHandle>,
) -> impl FnOnce(&Receiver<'_>, &mut Buffers) + Send + 'static {
    |receiver, buffers| {
        let filler = &receiver.filler;
        let (hashed, copied) = files.into_iter().partition(|file| file.hashes);
        filler.hash_sources(hashed, &mut buffers.part);
        copy_files(filler, copied, &mut buffers.scratch);
    }
}

/// Publishes small files that arrived whole.
pub(crate) fn take_pack(filler: &Filler<'_>, bytes: &[u8], view: PackView) {
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
            PackItem::Fault { index, fault } => {
                (index, Err(crate::receiver::as_source_fault(fault)))
            }
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

fn has_holes(source: &dyn SourceFile) -> Result<bool, Fault> {
    source.has_holes().or_fault(Side::Source, "read")
}

/// A lower bound of the bytes that are on record, if `counted` bytes were counted. On this machine
/// several threads copy blocks, which are recorded in order.
fn min_recorded(filler: &Filler<'_>, counted: u64) -> u64 {
    (counted / BLOCK_LEN).saturating_sub(filler.job.ends.record_lag_max) * BLOCK_LEN
}

/// True if a source is the listed file. For a file that is resumed, the change time must match,
/// too: nobody can set it back.
pub(crate) fn matches_listing(source: &dyn SourceFile, listed: &Entry, is_continued: bool) -> bool {
    let seal = source.seal();
    let is_same = (seal.size, seal.mtime) == (listed.size(), listed.attributes.mtime);
    let is_there = |ctime| source.ctime() == Some(ctime);
    is_same && (!is_continued || listed.ctime.is_none_or(is_there))
}
