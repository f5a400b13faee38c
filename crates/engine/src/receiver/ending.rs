//! The end of a job before its time, by a fault of the destination. All that was done until
//! then has its outcome reported first, so that the other side counts it: the end of the job is
//! sent behind the outcomes of its batch, and other threads get a moment to report theirs.

use super::JobContext;
use crate::JobError;
use haul_model::{Kind, Outcome, escape_bytes};
use haul_proto::OutcomeItem;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long the end waits for threads that are at work: one may be stuck in a file system.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// The pause between two looks.
const POLL: Duration = Duration::from_millis(2);

/// The reason for an early end, and the batches that it waits for.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    /// The reason, until it is reported.
    reason: Mutex<Option<JobError>>,
    /// Batches of entries that threads work on, whose outcomes they report at the end.
    batches: AtomicUsize,
}

/// A batch that a thread works on; it is reported when this is dropped.
pub(crate) struct Batch<'e>(&'e Ending);

impl Ending {
    /// Opens a batch.
    pub(super) fn begin_batch(&self) -> Batch<'_> {
        self.batches.fetch_add(1, Ordering::SeqCst);
        Batch(self)
    }

    /// The job ends, and nothing more is begun: waits until all batches are reported.
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
    /// True if nothing more is begun: the job ends, or is about to.
    pub(super) fn is_ending(&self) -> bool {
        self.control.stopped() || self.ending.reason.lock().is_some()
    }

    /// Tells the user the outcome of the entry of that number, 0 if it has none, before
    /// [`Self::tell_outcomes`]; its `path` is made only where somebody needs it.
    pub(super) fn report(
        &self,
        index: u64,
        path: impl Fn() -> Vec<u8>,
        kind: &Kind,
        moved: u64,
        outcome: &Outcome,
    ) {
        match outcome {
            Outcome::Failed(fault) if fault.ends_the_job() => {
                let path = escape_bytes(&self.path_there(&path()));
                let error = JobError::Destination { path, fault: fault.clone() };
                self.ending.reason.lock().get_or_insert(error);
            }
            _ => self.reporter.outcome(index, path, kind, moved, outcome),
        }
    }

    /// Tells outcomes to the Sender; behind the others one that ends the job, as its end.
    pub(crate) fn tell_outcomes(&self, mut outcomes: Vec<OutcomeItem>) {
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

    /// Ends the job, if there is a reason that was reported.
    pub(super) fn end_early(&self) {
        if let Some(error) = self.ending.reason.lock().take() {
            self.control.fail(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_waits_for_what_is_open_and_for_nothing_that_hangs() {
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
