//! The early end of a job, caused by a fault of the destination. All finished entries report their
//! outcomes first, so that the Sender counts them. The end is sent after the outcomes of its batch,
//! and other threads get a moment to report theirs.

use crate::JobError;
use crate::receiver::{JobContext, RecvDir};
use haul_model::{Entry, Kind, Outcome, escape_bytes};
use haul_proto::OutcomeItem;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long the end waits for busy threads: one may hang in a file system.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// The pause between two checks.
const POLL: Duration = Duration::from_millis(2);

/// The reason for an early end, and the batches that it waits for.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    /// The reason, until it is reported.
    reason: Mutex<Option<JobError>>,
    /// The number of open batches: entries that threads work on, with outcomes to report.
    batches: AtomicUsize,
}

/// A batch of one thread. Its outcomes are reported before it is dropped.
pub(crate) struct Batch<'e>(&'e Ending);

impl Ending {
    /// Opens a batch.
    pub(crate) fn begin_batch(&self) -> Batch<'_> {
        self.batches.fetch_add(1, Ordering::SeqCst);
        Batch(self)
    }

    /// Waits until all batches are reported, or [`WAIT_MAX`] has passed. No new ones may begin.
    pub(crate) fn wait_for_batches(&self) {
        let begin = Instant::now();
        while self.batches.load(Ordering::SeqCst) > 0 && begin.elapsed() < WAIT_MAX {
            thread::sleep(POLL);
        }
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        self.0.batches.fetch_sub(1, Ordering::SeqCst);
    }
}

impl JobContext<'_> {
    /// True if no new work may begin: the job ends, or is about to.
    pub(crate) fn is_ending(&self) -> bool {
        self.control.stopped() || self.ending.reason.lock().is_some()
    }

    /// Reports the outcome of entry `index` (0: none) to the user, before [`Self::send_outcomes`].
    /// An outcome that ends the job is kept as the reason. `path` is called only if it is needed.
    pub(crate) fn report(
        &self,
        index: u64,
        path: impl Fn() -> Vec<u8>,
        kind: &Kind,
        moved: u64,
        outcome: &Outcome,
    ) {
        match outcome {
            Outcome::Failed(fault) if fault.ends_the_job() => {
                let path = escape_bytes(&self.path_at_destination(&path()));
                let error = JobError::Destination { path, fault: fault.clone() };
                self.ending.reason.lock().get_or_insert(error);
            }
            _ => self.reporter.outcome(index, path, kind, moved, outcome),
        }
    }

    /// Reports the outcome of an entry of `dir` that was settled when it was listed, and gives its
    /// cost back to the window.
    pub(crate) fn settle_entry(
        &self,
        index: u64,
        dir: &RecvDir,
        entry: &Entry,
        cost: u64,
        outcome: &Outcome,
    ) {
        self.report(index, || dir.path_of(entry.name.as_ref()), &entry.kind, 0, outcome);
        self.close(cost);
    }

    /// Sends outcomes to the Sender. An outcome that ends the job follows as the job's end.
    pub(crate) fn send_outcomes(&self, mut outcomes: Vec<OutcomeItem>) {
        let ends = |item: &OutcomeItem| match &item.outcome {
            Outcome::Failed(fault) => fault.ends_the_job(),
            _ => false,
        };
        let count = outcomes.len();
        outcomes.retain(|item| !ends(item));
        let has_end = outcomes.len() < count;
        if !outcomes.is_empty() {
            self.sender.outcomes(outcomes);
        }
        if has_end {
            self.end_early();
        }
    }

    /// Ends the job, if a reason was recorded.
    pub(crate) fn end_early(&self) {
        if let Some(error) = self.ending.reason.lock().take() {
            self.control.fail(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_waits_for_open_batches_but_not_for_ever() {
        let ending = Ending::default();
        ending.wait_for_batches();
        let open = ending.begin_batch();
        thread::scope(|scope| {
            let ends = scope.spawn(|| ending.wait_for_batches());
            thread::sleep(POLL * 5);
            assert!(!ends.is_finished());
            drop(open);
        });
        let _stuck = ending.begin_batch();
        let begin = Instant::now();
        ending.wait_for_batches();
        assert!(begin.elapsed() >= WAIT_MAX);
    }
}
