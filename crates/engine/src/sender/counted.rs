//! Content that counts as sent.

use super::{Item, Sender};
use crate::control::Step;
use crate::link::wire::Counted;
use haul_model::{Fault, Policy, Resume};
use haul_proto::FileSeal;

impl Sender<'_> {
    /// Bytes of that file that count when they leave, if anybody looks at it.
    pub(crate) fn counts(&self, index: u64, len: u64) -> Option<Counted> {
        (self.reporter.is_some() && len > 0).then_some(Counted { index, len, tally: None })
    }

    /// The seal of a file has the hash of its content, unless only a part was sent.
    pub(super) fn hashed(&self, item: &Item, result: &Result<FileSeal, Fault>) {
        let is_part = !item.blocks.is_empty() && !item.blocks.is_all();
        let is_whole = |seal: &FileSeal| !is_part || item.how.wants_whole_hash() || seal.grew;
        if let (Some(reporter), Ok(seal)) = (self.reporter, result)
            && is_whole(seal)
        {
            reporter.hashed(item.index, seal.hash);
        }
    }

    /// Counts content of a file as sent: it is given to a connection. What only waits for
    /// one may wait for long, and is lost with it.
    pub(crate) fn leaves(&self, index: u64, len: u64) {
        self.came_by(index, Step::Moved(len));
    }

    /// Counts content of a file, or a hole in it, as sent, up to its length. Its
    /// outcome counts what is left then, and what comes later does not.
    pub(crate) fn came_by(&self, index: u64, step: Step) {
        let Some(reporter) = self.reporter else { return };
        reporter.took(step);
        if let Some(item) = self.in_flight.lock().items.get_mut(&index) {
            let counted = step.len().min(item.size().saturating_sub(item.counted));
            reporter.is_done(counted);
            reporter.at(|| item.path());
            item.counted += counted;
            item.matched += step.matched();
            let keeps = |policy: &Policy| policy.resume != Resume::Never && policy.wants_hashes();
            if item.size() >= self.resume_len_min() && self.task.copies().is_some_and(keeps) {
                // It was sent: how much of it is there only the Receiver knows.
                reporter.keeps(index, None, || item.path());
            }
        }
    }
}
