//! Tells of entries: the outcomes of wanted files, and what is no failure.

use super::{Pending, Receiver};
use crate::Event;
use haul_model::words;
use haul_model::{FaultKind, Outcome, Side};
use haul_proto::{OutcomeItem, Warning};

impl Receiver<'_> {
    /// A wanted file has its outcome; `moved` bytes were counted as done.
    pub(crate) fn finish(&self, pending: Pending, moved: u64, outcome: Outcome) -> OutcomeItem {
        let outcome = match outcome {
            Outcome::Failed(fault) if fault.kind == FaultKind::NoSpace => {
                Outcome::Failed(self.with_room(fault, &pending, moved))
            }
            outcome => outcome,
        };
        let path = || pending.dir.path_of(pending.entry.name.as_ref());
        if let Outcome::Failed(fault) = &outcome {
            self.withhold_deletions(fault);
        }
        self.end_chunks(&pending, &outcome);
        let outcome = self.as_synced(pending.reading.outcome(outcome), pending.found);
        self.report(pending.index, path, &pending.entry.kind, moved, &outcome);
        self.close(pending.cost);
        OutcomeItem { index: pending.index, outcome }
    }

    /// The path of an entry at the destination, in the user's words for that.
    pub(super) fn path_there(&self, entry: &[u8]) -> Vec<u8> {
        let below = match (&self.rename, entry.iter().position(|byte| *byte == b'/')) {
            (None, _) => entry,
            (Some(_), Some(slash)) => &entry[slash + 1..],
            (Some(_), None) => b"",
        };
        words::join(&self.dest, below)
    }

    /// Tells the users of both sides of something that is no failure.
    pub(super) fn warn(&self, path: &[u8], message: &str) {
        self.control.monitor().event(Event::Warning {
            side: Some(Side::Destination),
            path,
            message,
        });
        let path = words::shown(path.to_vec());
        self.sender.warning(Warning { path, message: message.to_owned() });
    }
}
