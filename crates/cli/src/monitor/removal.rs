//! Reports how the sources of a mirror are removed.

use super::JobMonitor;
use haul_engine::{Event, FaultLocation, Monitor, Outcome, Progress, Skip};
use haul_model::{Changes, Conflict, Fault, FaultKind, Kind, Side};
use std::sync::atomic::{AtomicU64, Ordering};

/// The monitor of the job that compares sources with the destination and removes them.
pub(crate) struct SourceRemoval<'m, 'r> {
    /// The monitor to which it reports.
    pub(crate) monitor: &'m JobMonitor<'r>,
    /// The number of sources that could not be removed.
    pub(crate) failed: AtomicU64,
}

impl SourceRemoval<'_, '_> {
    /// True if a source that differs by `found` was most likely left unchanged by the mirror's
    /// rules.
    fn is_kept_by_rules(&self, found: Changes) -> bool {
        let (Some(mirror), Some(policy)) =
            (self.monitor.task.mirrors(), self.monitor.task.copies())
        else {
            return false;
        };
        match found.has(Changes::MISSING) {
            true => mirror.existing_only || mirror.bases.is_some(),
            false => mirror.skips_newer || policy.conflict == Conflict::Keep,
        }
    }

    fn entry(&self, path: &[u8], kind: &Kind, outcome: &Outcome) {
        let stays = |kind, message: &str| Fault::new(Side::Source, kind, message);
        let fault = match outcome {
            Outcome::Failed(fault) => fault.clone(),
            Outcome::Differs(_) if *kind == Kind::Dir || outcome.is_there() => return,
            Outcome::Differs(found) if self.is_kept_by_rules(*found) => return,
            Outcome::Differs(found) if found.has(Changes::MISSING) => {
                stays(FaultKind::NotFound, "not removed: the destination does not have it")
            }
            Outcome::Differs(_) => {
                let message = "not removed: its copy differs, or has changed since";
                stays(FaultKind::Changed, message)
            }
            _ => return,
        };
        self.failed.fetch_add(1, Ordering::Relaxed);
        self.monitor.report_fault(path, &fault);
    }
}

impl Monitor for SourceRemoval<'_, '_> {
    fn progress(&self) -> &Progress {
        self.monitor.progress()
    }

    fn event(&self, event: Event<'_>) {
        match event {
            Event::Entry { path, kind, outcome, .. } => self.entry(path, kind, outcome),
            Event::Removed { path, result: Ok(()), .. } => {
                self.monitor.print_moved(path, false);
            }
            Event::Removed { path, result: Err(fault), .. } => {
                self.failed.fetch_add(1, Ordering::Relaxed);
                let naming = FaultLocation::Entry(self.monitor.progress.naming());
                let at = self.monitor.fault_location(path, naming, fault.side);
                self.monitor.report.not_removed(path, &at, fault);
            }
            Event::Warning { .. } | Event::Link(_) => self.monitor.event(event),
            Event::Extra { .. }
            | Event::Deleted { .. }
            | Event::Listed { .. }
            | Event::Moved { .. }
            | Event::Stays { .. }
            | Event::Made { .. } => {}
        }
    }

    fn shows(&self, _: &Kind, outcome: &Outcome) -> bool {
        !matches!(outcome, Outcome::Skipped(Skip::Unchanged))
    }

    fn cancelled(&self) -> bool {
        self.monitor.cancelled()
    }
}
