//! The monitor of a job that a command runs beside or after its own jobs.

use haul_engine::{Event, Monitor, Outcome, Progress};
use haul_model::Kind;

/// Passes warnings and events of connections on to the monitor of the command, and all other events
/// to a function.
pub(crate) struct SideMonitor<'m, F> {
    monitor: &'m dyn Monitor,
    progress: &'m Progress,
    shows: fn(&Outcome) -> bool,
    on_event: F,
}

impl<'m, F: Fn(Event<'_>) + Sync> SideMonitor<'m, F> {
    /// Creates the monitor of a job that counts in `progress`. `shows` selects the outcomes that are
    /// events.
    pub(crate) fn new(
        monitor: &'m dyn Monitor,
        progress: &'m Progress,
        shows: fn(&Outcome) -> bool,
        on_event: F,
    ) -> Self {
        Self { monitor, progress, shows, on_event }
    }
}

impl<F: Fn(Event<'_>) + Sync> Monitor for SideMonitor<'_, F> {
    fn progress(&self) -> &Progress {
        self.progress
    }

    fn event(&self, event: Event<'_>) {
        match event {
            Event::Warning { .. } | Event::Link(_) => self.monitor.event(event),
            event => (self.on_event)(event),
        }
    }

    fn shows(&self, _: &Kind, outcome: &Outcome) -> bool {
        (self.shows)(outcome)
    }

    fn cancelled(&self) -> bool {
        self.monitor.cancelled()
    }
}
