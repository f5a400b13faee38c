//! The Sender's ledger: the entries from listing to outcome, the room in the listing's window, and
//! the progress of contents that are sent.

use super::Item;
use super::item::Repeat;
use crate::control::{CANCEL_POLL, Control, CopyStep, Reporter};
use crate::in_flight::InFlight;
use crate::link::wire::Counted;
use haul_model::{Fault, Kind, Resume};
use haul_plan::Plan;
use haul_proto::{FileSeal, How};
use parking_lot::{Condvar, Mutex};

/// The ledger of one job.
pub(crate) struct Ledger<'a> {
    control: &'a Control<'a>,
    /// Set where the user is on this side and the Receiver is not.
    reporter: Option<&'a Reporter<'a>>,
    /// The Receiver keeps the arrived part of a large file for a later job.
    keeps_partial: bool,
    /// See [`super::Sender::resume_len_min`].
    pub(super) resume_len_min: u64,
    pub(super) in_flight: Mutex<InFlight<Item>>,
    pub(super) released: Condvar,
}

impl<'a> Ledger<'a> {
    pub(super) fn of(
        plan: &Plan,
        control: &'a Control<'a>,
        reporter: Option<&'a Reporter<'a>>,
        resume_len_min: u64,
    ) -> Self {
        let (in_flight, released) = (Mutex::default(), Condvar::new());
        let keeps_partial = plan.copies && plan.resume != Resume::Never && plan.wants_hashes;
        Self { control, reporter, keeps_partial, resume_len_min, in_flight, released }
    }
}

impl Ledger<'_> {
    /// Lets the Receiver request a file again.
    pub(super) fn allow_repeat(&self, index: u64) {
        if let Some(item) = self.in_flight.lock().get_mut(index)
            && item.repeat == Repeat::No
        {
            item.repeat = Repeat::Offered;
        }
    }

    /// Records that a wanted file was opened with a length of `size` bytes.
    pub(super) fn record_opened(&self, index: u64, size: u64) {
        if self.reporter.is_some()
            && let Some(item) = self.in_flight.lock().get_mut(index)
        {
            item.kind = Kind::File { size };
        }
    }

    /// Resets the counts of a file that the Receiver requests again.
    pub(super) fn restart_item(&self, item: &mut Item) {
        if item.wanted {
            item.repeat = Repeat::Requested;
        }
        let (counted, resumed) = (std::mem::take(&mut item.counted), item.unwanted_len());
        if let Some(reporter) = self.reporter {
            reporter.restart_file(counted, resumed);
            reporter.uncount_matched(std::mem::take(&mut item.matched));
        }
    }

    /// Bytes of a file that count as sent when they leave. `None` if progress is not shown here.
    pub(crate) fn counts(&self, index: u64, len: u64) -> Option<Counted> {
        (self.reporter.is_some() && len > 0).then_some(Counted { index, len, tally: None })
    }

    /// Reports the hash of a file, unless only a part of the file was sent.
    pub(super) fn hashed(&self, item: &Item, result: &Result<FileSeal, Fault>) {
        let is_part = !item.want.blocks.is_empty() && !item.want.blocks.is_all();
        let is_whole =
            |seal: &FileSeal| !is_part || item.want.how.has(How::WHOLE_HASH) || seal.grew;
        if let (Some(reporter), Ok(seal)) = (self.reporter, result)
            && is_whole(seal)
        {
            reporter.hashed(item.index, seal.hash);
        }
    }

    /// Counts content of a file as sent, once it is written to a connection. Queued content does
    /// not count: it may wait for long, and is lost with the connection.
    pub(crate) fn count_sent(&self, index: u64, len: u64) {
        self.count_progress(index, CopyStep::Moved(len));
    }

    /// Counts content of a file, or a hole in it, up to the length of the file. The outcome counts
    /// the rest; content after the outcome does not count.
    pub(crate) fn count_progress(&self, index: u64, step: CopyStep) {
        let Some(reporter) = self.reporter else { return };
        reporter.count_work(step);
        if let Some(item) = self.in_flight.lock().get_mut(index) {
            let counted = step.len().min(item.size().saturating_sub(item.counted));
            reporter.is_done(counted);
            reporter.at(|| item.path());
            item.counted += counted;
            item.matched += step.matched();
            if item.size() >= self.resume_len_min && self.keeps_partial {
                // Only the Receiver knows how much of the sent content it keeps.
                reporter.keeps(index, None, || item.path());
            }
        }
    }

    /// True if all listed entries are processed.
    pub(crate) fn is_empty(&self) -> bool {
        self.in_flight.lock().cost == 0
    }

    /// Waits for released costs. Returns false if the job ends.
    pub(super) fn wait_while(&self, should_wait: impl Fn(&InFlight<Item>) -> bool) -> bool {
        let mut in_flight = self.in_flight.lock();
        while should_wait(&in_flight) {
            if self.control.stopped() {
                return false;
            }
            self.released.wait_for(&mut in_flight, CANCEL_POLL);
        }
        true
    }

    /// Adds an item that is about to be listed.
    pub(super) fn insert(&self, item: Item) {
        self.in_flight.lock().add(item.index, item.cost, item);
    }

    /// True if the Receiver still waits for a file.
    pub(crate) fn is_awaited(&self, index: u64) -> bool {
        self.in_flight.lock().has(index)
    }

    /// Removes the cost of a processed entry, so that others can be listed.
    pub(super) fn release_cost(&self, cost: u64) {
        self.in_flight.lock().cost -= cost;
        self.released.notify_all();
    }
}
