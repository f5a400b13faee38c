//! A monitor that keeps what it is told.

use haul_engine::{Event, Monitor, Outcome, Progress};
use haul_model::escape_bytes;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

/// Of longer paths only the end is kept, and how much was in front of it: in a deep
/// tree many end alike.
const PATH_KEPT_MAX: usize = 1000;

fn shown(path: &[u8]) -> String {
    let (front, end) = path.split_at(path.len().saturating_sub(PATH_KEPT_MAX));
    match front.len() {
        0 => escape_bytes(end),
        len => format!("({len} bytes){}", escape_bytes(end)),
    }
}

/// A record of all that was told about a job.
#[derive(Default)]
pub(crate) struct Watch {
    progress: Progress,
    outcomes: Mutex<BTreeMap<String, Outcome>>,
    warnings: Mutex<Vec<String>>,
    cancelled: AtomicBool,
}

impl Watch {
    /// The outcomes of all entries, by their paths, escaped.
    pub(crate) fn outcomes(&self) -> BTreeMap<String, Outcome> {
        self.outcomes.lock().clone()
    }

    /// All warnings, with their paths.
    #[allow(dead_code, reason = "not every test program asks")]
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.warnings.lock().clone()
    }

    /// Interrupts the job.
    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }
}

impl Monitor for Watch {
    fn progress(&self) -> &Progress {
        &self.progress
    }

    fn event(&self, event: Event<'_>) {
        match event {
            Event::Entry { path, outcome, .. } => {
                let mut outcomes = self.outcomes.lock();
                outcomes.insert(shown(path), outcome.clone());
            }
            Event::Extra { .. }
            | Event::Deleted { .. }
            | Event::Listed { .. }
            | Event::Removed { .. }
            | Event::Made { .. }
            | Event::Moved { .. }
            | Event::Stays { .. }
            | Event::Link(_) => {}
            Event::Warning { path, message, .. } => {
                let warning = format!("{}: {message}", shown(path));
                self.warnings.lock().push(warning);
            }
        }
    }

    fn cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }
}
