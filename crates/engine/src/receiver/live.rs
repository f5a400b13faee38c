//! Files that others write to while they are copied. One that only grows is published
//! as it was when it was opened; one that changes otherwise is begun once more, and
//! fails then.

use super::{Filler, Pending};
use crate::digest;
use haul_model::{BLOCK_LEN, BlockRanges, ContentHash, Fault, FaultKind, Outcome, Side};
use haul_proto::{How, Want};
use haul_tree::SourceFile;

/// The course of reading a source.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Reading {
    /// It changed while it was read, and is read once more.
    pub(super) is_second: bool,
    /// It has grown since it was opened.
    pub(super) has_grown: bool,
}

impl Reading {
    /// The outcome of a file whose outcome is `outcome` as far as the destination goes.
    pub(super) fn outcome(self, outcome: Outcome) -> Outcome {
        match outcome {
            Outcome::Copied if self.has_grown => Outcome::Grew,
            outcome => outcome,
        }
    }
}

impl Pending {
    /// Looks at a source again of which the content with the hash `copied` was copied;
    /// that is asked for only if it matters.
    ///
    /// # Errors
    /// If it has changed, but for having grown.
    pub(super) fn look_again(
        &mut self,
        filler: &Filler<'_>,
        source: &dyn SourceFile,
        copied: impl FnOnce() -> Result<Option<ContentHash>, Fault>,
    ) -> Result<(), Fault> {
        let strict = filler.job.policy.strict_source;
        self.reading.has_grown = digest::has_grown(source, strict, copied, filler.job.control)?;
        Ok(())
    }
}

impl Filler<'_> {
    /// True if a file with that fault is begun once more, because its source changed while
    /// it was read: the first time, unless the source has to be still. Of what was done,
    /// `counted` bytes were counted.
    pub(super) fn begins_again(&self, pending: &mut Pending, fault: &Fault, counted: u64) -> bool {
        let has_changed = (fault.side, fault.kind) == (Side::Source, FaultKind::Changed);
        let is_over = self.job.policy.strict_source || self.job.control.stopped();
        if !has_changed || is_over || pending.reading.is_second {
            return false;
        }
        self.job.reporter.begins_again(counted, pending.resumed * BLOCK_LEN);
        pending.reading.is_second = true;
        pending.resumed = 0;
        self.forget_parts(pending);
        true
    }

    /// True if a file is begun once more, and sent whole then, because what was here did not
    /// make it: the old version or a file with its chunks has changed meanwhile, or sums are
    /// of other blocks. So much was `counted`, and `matched` of it.
    pub(super) fn takes_whole(&self, pending: &mut Pending, counted: u64, matched: u64) -> bool {
        let is_whole = !pending.takes_parts && pending.old.is_none();
        if is_whole || self.job.control.stopped() {
            return false;
        }
        self.job.reporter.begins_again(counted, pending.resumed * BLOCK_LEN);
        self.job.reporter.not_matched(matched);
        pending.reading.is_second = true;
        pending.resumed = 0;
        self.forget_parts(pending);
        true
    }

    /// Asks for the content of a file that is begun once more.
    pub(super) fn want_again(&self, mut pending: Pending) {
        let how = How::PLAIN.in_order_if(pending.is_in_order());
        let into = self.publisher.naming.tell_into(&mut pending);
        let want = Want { index: pending.index, how, blocks: BlockRanges::all(), into };
        self.wanted.lock().insert(pending.index, Box::new(pending));
        self.job.sender.want(vec![want]);
    }
}
