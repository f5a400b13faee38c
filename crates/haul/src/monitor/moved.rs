//! Shows how sources are removed at the end of a move.

use crate::args::Detail;
use crate::interrupt::Interrupt;
use crate::json::{DifferenceWord, Line, MovedLine, Path};
use crate::monitor::Found;
use crate::report::Report;
use haul_engine::{Event, Monitor, Outcome, Progress, Skip};
use haul_model::{Differences, Fault, FaultKind, Kind, Side, escape_bytes};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The monitor of the job that compares and removes.
pub(crate) struct MoveMonitor {
    detail: Detail,
    interrupt: Interrupt,
    progress: Progress,
    /// What is missing or can't be read was told when it was to be copied.
    was_told: bool,
    /// What is another at the destination was to be left.
    keeps: bool,
    state: Mutex<(Report, Removed)>,
}

/// Directories that stay, of which is told at the end; others are told at once.
const LEFT_DIRS_MAX: usize = 1024;

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Removed {
    /// Files and links that are gone from the source.
    pub(crate) moved: u64,
    /// Those that stay because the destination's were to stay.
    pub(crate) kept: u64,
    /// Entries that stay though they should not.
    pub(crate) failed: u64,
    /// Sources that are directories and could not be removed, and why.
    pub(crate) left_dirs: Vec<(Vec<u8>, Fault)>,
}

impl MoveMonitor {
    pub(crate) fn new(
        report: Report,
        detail: Detail,
        interrupt: Interrupt,
        was_told: bool,
        keeps: bool,
    ) -> Self {
        let state = Mutex::new((report, Removed::default()));
        Self { detail, interrupt, progress: Progress::default(), was_told, keeps, state }
    }

    /// Tells that a source has moved.
    pub(crate) fn tell_moved(report: &mut Report, detail: Detail, path: &[u8], renamed: bool) {
        match detail {
            Detail::Quiet | Detail::Normal => {}
            Detail::Verbose => {
                report.print(format!("moved {}\n", escape_bytes(path)).as_bytes());
            }
            Detail::Json => {
                report.json(&Line::Moved(MovedLine { path: Path::of(path), renamed }));
            }
        }
    }

    /// The report back, and what came of it.
    pub(crate) fn end(self) -> (Report, Removed) {
        self.state.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, (Report, Removed)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stays(&self, path: &[u8], fault: &Fault, was_told: bool) {
        let (report, removed) = &mut *self.state();
        removed.failed += 1;
        if !(was_told && self.was_told) {
            report.fault(path, fault);
        }
    }

    fn entry(&self, path: &[u8], kind: &Kind, outcome: &Outcome) {
        let source = |kind, message: &str| Fault::new(Side::Source, kind, message);
        match outcome {
            Outcome::Failed(fault) => self.stays(path, fault, true),
            Outcome::Skipped(Skip::Special) => {
                let message = "it stays: a FIFO, socket, device or unfinished copy is not copied";
                self.stays(path, &source(FaultKind::Special, message), false);
            }
            Outcome::Differs(found) if found.has(Differences::MISSING) => {
                let message = "it stays: the destination does not have it";
                self.stays(path, &source(FaultKind::NotFound, message), true);
            }
            Outcome::Differs(_) if self.keeps && *kind != Kind::Dir => self.state().1.kept += 1,
            Outcome::Differs(found) if !outcome.is_there() => {
                let words = DifferenceWord::all_of(Found::Differs(*found));
                let words: Vec<_> = words.into_iter().map(DifferenceWord::text).collect();
                let words = words.join(", ");
                let message = format!("it stays: what the destination has is another ({words})");
                self.stays(path, &source(FaultKind::Changed, &message), false);
            }
            _ => {}
        }
    }
}

impl Monitor for MoveMonitor {
    fn progress(&self) -> &Progress {
        &self.progress
    }

    fn event(&self, event: Event<'_>) {
        match event {
            Event::Entry { path, kind, outcome } => self.entry(path, kind, outcome),
            Event::Removed { path, result: Ok(()), .. } => {
                let (report, removed) = &mut *self.state();
                removed.moved += 1;
                Self::tell_moved(report, self.detail, path, false);
            }
            Event::Removed { path, kind, result: Err(fault) } => {
                let (report, removed) = &mut *self.state();
                if *kind == Kind::Dir && removed.left_dirs.len() < LEFT_DIRS_MAX {
                    removed.left_dirs.push((path.to_vec(), fault.clone()));
                    return;
                }
                removed.failed += 1;
                report.not_removed(path, fault);
            }
            // What else the destination has is no matter.
            Event::Extra { .. } => {}
            Event::Warning { path, message } => self.state().0.warning(path, message),
        }
    }

    fn cancelled(&self) -> bool {
        self.interrupt.happened()
    }
}
