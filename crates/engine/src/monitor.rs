//! What a job tells while it runs. The engine never prints: it counts into
//! [`Progress`] and hands [`Event`]s to the [`Monitor`] that the caller gave.

use haul_model::{Fault, Kind, Outcome};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Something that the monitor may show.
#[derive(Debug)]
pub enum Event<'a> {
    /// The fate of an entry is known. `path` is relative to the destination
    /// and raw: escape it before showing it.
    Entry {
        /// The entry's path, beginning with the source's own name; empty if
        /// [`Monitor::shows`] said that it is not needed.
        path: &'a [u8],
        /// What it is.
        kind: &'a Kind,
        /// What became of it.
        outcome: &'a Outcome,
    },
    /// In a check: only the destination has it. What is in a directory that only
    /// the destination has is not told of.
    Extra {
        /// Its path, as that of an entry would be, raw.
        path: &'a [u8],
        /// What it is.
        kind: &'a Kind,
    },
    /// In a move: what the destination has now was removed from the source, or
    /// could not be.
    Removed {
        /// Its path, raw.
        path: &'a [u8],
        /// What it is.
        kind: &'a Kind,
        /// Why it stays, if it does.
        result: Result<(), &'a Fault>,
    },
    /// Worth telling, though nothing failed.
    Warning {
        /// What it is about, raw.
        path: &'a [u8],
        /// The words.
        message: &'a str,
    },
}

/// Figures of a running job; every number only grows.
#[derive(Debug, Default)]
pub struct Progress {
    /// Regular files found so far.
    pub files_total: AtomicU64,
    /// Bytes in them.
    pub bytes_total: AtomicU64,
    /// All entries were found: the totals are final.
    pub listed_all: AtomicBool,
    /// Regular files whose fate is known.
    pub files_done: AtomicU64,
    /// Bytes of content copied, skipped or given up, holes included.
    pub bytes_done: AtomicU64,
    /// Bytes of content that were moved in this run, without holes, for the rate.
    pub bytes_moved: AtomicU64,
    /// More connections are being made: ssh may be asking for a password on the
    /// terminal.
    pub asking: AtomicBool,
}

impl Progress {
    /// Adds `n` to a counter.
    pub(crate) fn add(counter: &AtomicU64, n: u64) {
        counter.fetch_add(n, Ordering::Relaxed);
    }
}

/// Receives what a job tells. Called from several threads at once.
pub trait Monitor: Sync {
    /// The counters that the job updates and that the monitor may read any time.
    fn progress(&self) -> &Progress;

    /// Takes an event; must be quick, the job waits for it.
    fn event(&self, event: Event<'_>);

    /// False if [`Event::Entry`] of such an entry is counted only: its path may be left
    /// empty then. Must be as quick as possible.
    fn shows(&self, _kind: &Kind, _outcome: &Outcome) -> bool {
        true
    }

    /// Whether the job shall stop: asked often, and answered `true` for good
    /// once the user has interrupted.
    fn cancelled(&self) -> bool;
}

/// A monitor for the side where nobody watches.
pub(crate) struct Silent(Progress);

impl Silent {
    pub(crate) const fn new() -> Self {
        Self(Progress {
            files_total: AtomicU64::new(0),
            bytes_total: AtomicU64::new(0),
            listed_all: AtomicBool::new(false),
            files_done: AtomicU64::new(0),
            bytes_done: AtomicU64::new(0),
            bytes_moved: AtomicU64::new(0),
            asking: AtomicBool::new(false),
        })
    }
}

impl Monitor for Silent {
    fn progress(&self) -> &Progress {
        &self.0
    }

    fn event(&self, _: Event<'_>) {}

    fn shows(&self, _: &Kind, _: &Outcome) -> bool {
        false
    }

    fn cancelled(&self) -> bool {
        false
    }
}
