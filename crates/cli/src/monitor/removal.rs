//! Reports how the sources of a mirror are removed.

use super::JobMonitor;
use haul_engine::{Event, FaultLocation, Outcome};
use haul_model::{Changes, Conflict, Fault, FaultKind, Kind, Side};

impl JobMonitor {
    /// Reports an event of the job that compares sources with the destination and removes them.
    /// Returns true if a source could not be removed.
    pub(crate) fn report_removal(&self, event: Event<'_>) -> bool {
        match event {
            Event::Entry { path, kind, outcome, .. } => {
                let fault = self.reason_to_stay(kind, outcome);
                fault.iter().for_each(|fault| self.report_fault(path, fault));
                fault.is_some()
            }
            Event::Removed { path, result: Ok(()), .. } => {
                self.print_moved(path, false);
                false
            }
            Event::Removed { path, result: Err(fault), .. } => {
                let naming = FaultLocation::Entry(self.progress.naming());
                let at = self.fault_location(path, naming, fault.side);
                self.report.not_removed(path, &at, fault);
                true
            }
            _ => false,
        }
    }

    /// The reason why a source with this outcome is not removed; `None` if it is, or need not be.
    fn reason_to_stay(&self, kind: &Kind, outcome: &Outcome) -> Option<Fault> {
        let stays = |kind, message: &str| Some(Fault::new(Side::Source, kind, message));
        match outcome {
            Outcome::Failed(fault) => Some(fault.clone()),
            Outcome::Differs(_) if *kind == Kind::Dir || outcome.is_there() => None,
            Outcome::Differs(found) if self.is_kept_by_rules(*found) => None,
            Outcome::Differs(found) if found.has(Changes::MISSING) => {
                stays(FaultKind::NotFound, "not removed: the destination does not have it")
            }
            Outcome::Differs(_) => {
                stays(FaultKind::Changed, "not removed: its copy differs, or has changed since")
            }
            _ => None,
        }
    }

    /// True if a source that differs by `found` was most likely left unchanged by the mirror's
    /// rules.
    fn is_kept_by_rules(&self, found: Changes) -> bool {
        let (Some(mirror), Some(policy)) = (self.task.mirrors(), self.task.copies()) else {
            return false;
        };
        match found.has(Changes::MISSING) {
            true => mirror.existing_only || mirror.bases.is_some(),
            false => mirror.skips_newer || policy.conflict == Conflict::Keep,
        }
    }
}
