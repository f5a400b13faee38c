//! The contents that were sent over a lane and not confirmed yet.

use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::time::Duration;

/// The most unconfirmed parts of a lane. A Receiver that confirms in time leaves far fewer.
const PARTS_MAX: usize = 64 << 10;

/// Called once the receiver has reported whether a part has arrived.
pub(crate) type OnFate = Box<dyn FnOnce(bool) + Send>;

/// Instead of a number of frames, for a part that never leaves.
const NEVER: u64 = u64::MAX;

/// The ledger of one lane.
#[derive(Default)]
pub(crate) struct Ledger {
    state: Mutex<LedgerState>,
    changed: Condvar,
}

#[derive(Default)]
struct LedgerState {
    /// Frames that were written to the connection.
    written: u64,
    /// The unconfirmed parts, each with the number of frames written up to its end.
    parts: VecDeque<(u64, OnFate)>,
    /// Frames that are confirmed.
    arrived: u64,
    /// The confirmed frames at the time when the Receiver reported that no more will arrive.
    taken: Option<u64>,
    /// All losses were reported.
    is_settled: bool,
}

/// A confirmation that can't be true.
pub(crate) struct Implausible(pub(crate) &'static str);

impl Ledger {
    /// Counts a frame that is about to be written.
    pub(super) fn write(&self) {
        self.state.lock().written += 1;
    }

    /// Ends a part with the frames written so far. It is lost unless they arrive.
    ///
    /// # Errors
    /// When there are too many unconfirmed parts.
    pub(super) fn part(&self, on_fate: OnFate) -> Result<(), Implausible> {
        let mut state = self.state.lock();
        if state.parts.len() >= PARTS_MAX {
            return Err(Implausible("it did not acknowledge the data of a lane"));
        }
        let written = state.written;
        if written > 0 && written <= state.arrived {
            // The Receiver was faster, and does not confirm it again.
            drop(state);
            on_fate(true);
            return Ok(());
        }
        state.parts.push_back((written, on_fate));
        Ok(())
    }

    /// Adds a part that never leaves. Returns it if all losses were already reported.
    pub(crate) fn unsent(&self, on_fate: OnFate) -> Option<OnFate> {
        let mut state = self.state.lock();
        if state.is_settled {
            return Some(on_fate);
        }
        state.parts.push_back((NEVER, on_fate));
        None
    }

    /// Confirms `frames` frames. No more will arrive if `is_over`.
    ///
    /// # Errors
    /// When more frames are confirmed than were sent.
    pub(crate) fn taken(&self, frames: u64, is_over: bool) -> Result<(), Implausible> {
        let mut state = self.state.lock();
        if frames > state.written {
            return Err(Implausible("it acknowledged more data than a lane carried"));
        }
        state.arrived = state.arrived.max(frames);
        let mut arrived = VecDeque::new();
        if state.taken.is_none() {
            let unconfirmed = state.parts.partition_point(|(end, _)| *end <= frames);
            let rest = state.parts.split_off(unconfirmed);
            arrived = std::mem::replace(&mut state.parts, rest);
            state.taken = is_over.then_some(frames);
        }
        drop(state);
        self.changed.notify_all();
        arrived.into_iter().for_each(|(_, on_fate)| on_fate(true));
        Ok(())
    }

    /// The number of unconfirmed contents, including queued ones.
    pub(super) fn unconfirmed(&self) -> usize {
        self.state.lock().parts.len()
    }

    /// Waits up to `timeout` for the Receiver's last confirmation. Returns true if it has arrived.
    pub(crate) fn is_over_within(&self, timeout: Duration) -> bool {
        let mut state = self.state.lock();
        if state.taken.is_none() {
            self.changed.wait_for(&mut state, timeout);
        }
        state.taken.is_some()
    }

    /// Reports all losses, after the last confirmation and when no more is sent.
    pub(crate) fn settle(&self) {
        loop {
            let parts = {
                let mut state = self.state.lock();
                state.is_settled = state.parts.is_empty();
                std::mem::take(&mut state.parts)
            };
            if parts.is_empty() {
                return;
            }
            parts.into_iter().for_each(|(_, on_fate)| on_fate(false));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn part(fates: &Arc<Mutex<Vec<(u32, bool)>>>, number: u32) -> OnFate {
        let fates = Arc::clone(fates);
        Box::new(move |has_arrived| fates.lock().push((number, has_arrived)))
    }

    #[test]
    fn unconfirmed_parts_are_lost_and_no_others() {
        let (ledger, fates) = (Ledger::default(), Arc::default());
        for number in 0..5 {
            ledger.write();
            ledger.write();
            assert!(ledger.part(part(&fates, number)).is_ok());
        }
        assert!(ledger.taken(11, false).is_err(), "more than was sent");
        assert!(ledger.taken(3, false).is_ok());
        assert!(!ledger.is_over_within(Duration::ZERO));
        assert!(ledger.taken(5, true).is_ok());
        assert!(ledger.is_over_within(Duration::ZERO));
        assert!(ledger.unsent(part(&fates, 9)).is_none());
        ledger.settle();
        let lost = [2, 3, 4, 9].map(|number| (number, false));
        assert_eq!(*fates.lock(), [&[(0, true), (1, true)], &lost[..]].concat());
        let late = ledger.unsent(part(&fates, 10)).expect("it is too late for that");
        late(false);
        assert_eq!(fates.lock().last(), Some(&(10, false)));
    }

    #[test]
    fn a_part_confirmed_before_its_end_is_known_has_arrived() {
        let (ledger, fates) = (Ledger::default(), Arc::default());
        ledger.write();
        ledger.write();
        assert!(ledger.taken(2, false).is_ok());
        assert!(ledger.part(part(&fates, 1)).is_ok());
        assert_eq!(*fates.lock(), [(1, true)]);
        ledger.write();
        assert!(ledger.part(part(&fates, 2)).is_ok());
        assert_eq!(fates.lock().len(), 1, "it is on its way");
        assert!(ledger.taken(3, false).is_ok());
        assert_eq!(fates.lock().last(), Some(&(2, true)));
    }

    #[test]
    fn a_receiver_that_confirms_nothing_is_an_error() {
        let ledger = Ledger::default();
        let on_its_way = (0..=PARTS_MAX).filter(|_| ledger.part(Box::new(|_| ())).is_ok());
        assert_eq!(on_its_way.count(), PARTS_MAX);
    }
}
