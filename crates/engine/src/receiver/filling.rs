//! Copies a file of this machine or of a host's server into a staged file: resumed, block by block,
//! shared, or in one go.

use super::hold::Filling;
use super::{Filler, Pending, Resumed};
use crate::control::CopyStep;
use crate::copy::{self, not_assembled};
use haul_model::{BLOCK_LEN, Fault, FaultKind, OrFault, Side};
use haul_store::{Assembler, Moved, Mover, RESUME_LEN_MIN, Verified, VerifyResult};
use haul_tree::{SourceFile, StagedFile, changed};

/// A file whose content is copied into a staged file.
pub(super) struct Copying<'c, 'a> {
    pub(super) filler: &'c Filler<'a>,
    pub(super) source: &'c dyn SourceFile,
    /// The length of the source when it was opened, in bytes.
    pub(super) size: u64,
    /// Hash all content: to verify it, or to see whether a changing source has only grown.
    pub(super) hashes: bool,
}

/// A staged file with all its content.
pub(super) struct Filled {
    pub(super) verified: Verified,
    pub(super) filling: Filling,
}

/// A verified staged file, or one with a mismatch.
/// Counts the progress of a copy.
type Count<'c> = dyn FnMut(CopyStep) + Send + 'c;

impl Copying<'_, '_> {
    /// Resumes a partial file of an earlier job.
    pub(super) fn resume(
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
    pub(super) fn by_blocks(
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
    pub(super) fn copy_whole(
        &self,
        pending: &mut Pending,
        scratch: &mut copy::Scratch,
        count: &mut Count<'_>,
    ) -> Result<Filled, Fault> {
        let tries_sharing =
            self.size > copy::WHOLE_MAX && pending.may_share(self.filler, self.source);
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
pub(super) fn abandon_stage(stage: Box<dyn StagedFile>, fault: Fault) -> Fault {
    if fault.kind == FaultKind::Changed {
        stage.discard();
    }
    fault
}
