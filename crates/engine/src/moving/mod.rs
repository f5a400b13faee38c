//! A move, from finding the sources to removing them. Sources are renamed where possible. The
//! others are copied, compared with their copies by content, and removed.

mod not_copied;
mod running_move;
#[cfg(test)]
mod tests;

pub use self::not_copied::NotCopied;
pub use self::running_move::run_move;
use crate::monitor::{Event, FaultLocation};
use crate::{HostPath, Job, JobError, Monitor, Progress, RequestError, Requests, RoutedJob};
use haul_model::{
    Changes, Fault, FaultKind, Kind, Naming, Outcome, Policy, Remove, Side, Skip, Summary,
};
use parking_lot::Mutex;
use std::fmt;

/// The description of a move.
#[derive(Debug, Clone)]
pub struct MoveJob<H> {
    /// The sources. Each has a name of its own. If the destination is on a host, all of them are on
    /// this machine.
    pub sources: Vec<HostPath<H>>,
    /// The directory that they are moved into, or the new name of a single source.
    pub dest: HostPath<H>,
    /// The destination as the user wrote it, safe to show.
    pub dest_shown: String,
    /// The rules of the copy. Its `moving` decides which sources are removed.
    pub policy: Policy,
    /// A job with the settings that all jobs of the move share: how contents are transferred,
    /// and [`Job::state`].
    pub like: Job,
}

/// The machines of a move, and the connections to them.
pub trait Machines {
    /// A host, by its name.
    type Host: Clone + PartialEq + fmt::Display;
    /// The error that ends a move as a whole.
    type Error: From<JobError>;

    /// Sends a question to `host`, or to this machine. If the connection is lost, the same
    /// `question` may be asked again on another one. The connection may be kept until
    /// [`Self::hang_up`].
    ///
    /// # Errors
    /// When the host can't be reached, or no longer.
    fn ask<T>(
        &mut self,
        host: Option<&Self::Host>,
        question: impl FnMut(&mut Requests) -> Result<T, RequestError>,
    ) -> Result<Result<T, Fault>, Self::Error>;

    /// Closes the connections for requests, before a job or at the end.
    fn hang_up(&mut self);

    /// Runs the jobs that copy, one after the other, and reports them. Failures are also passed to
    /// `not_copied`: see [`NotCopied::watch`].
    ///
    /// # Errors
    /// When a job as a whole has failed. Then nothing is removed.
    fn copy(
        &mut self,
        routed_jobs: Vec<RoutedJob<Self::Host>>,
        not_copied: &NotCopied,
    ) -> Result<Summary, Self::Error>;

    /// Runs the job that removes sources.
    ///
    /// # Errors
    /// When it fails as a whole.
    fn remove(
        &mut self,
        routed_job: &RoutedJob<Self::Host>,
        monitor: &dyn Monitor,
    ) -> Result<(), Self::Error>;
}

/// The most directories that are collected and reported at the end. Further ones are reported at
/// once.
const LEFT_DIRS_MAX: usize = 1024;

/// The result of the removal.
#[derive(Debug, Default)]
struct Removed {
    /// Files and links that were removed from the source.
    moved: u64,
    /// Entries that stay because existing entries at the destination were kept.
    kept: u64,
    /// Entries that stay because of a failure.
    failed: u64,
    /// Source directories that could not be removed, and the reasons.
    left_dirs: Vec<(Vec<u8>, Fault)>,
}

/// The monitor of the job that compares and removes.
struct Removing<'m> {
    monitor: &'m dyn Monitor,
    progress: Progress,
    /// Existing entries that differ were to be kept at the destination.
    keeps: bool,
    removed: Mutex<Removed>,
}

impl<'m> Removing<'m> {
    /// A monitor that reports to `monitor`.
    fn new(monitor: &'m dyn Monitor, rule: Remove) -> Self {
        let (progress, removed) = (Progress::default(), Mutex::default());
        Self { monitor, progress, keeps: rule == Remove::Same, removed }
    }

    /// The result.
    fn end(self) -> Removed {
        self.removed.into_inner()
    }

    fn report_not_removed(&self, path: &[u8], fault: &Fault) {
        self.removed.lock().failed += 1;
        self.monitor.event(Event::Stays { path, at: self.at(), fault, is_copied: false });
    }

    /// The names of entries at the destination.
    fn naming(&self) -> Naming {
        self.progress.naming()
    }

    fn at(&self) -> FaultLocation<'_> {
        FaultLocation::Entry(self.naming())
    }

    fn entry(&self, path: &[u8], kind: &Kind, outcome: &Outcome) {
        let source = |kind, message: &str| Fault::new(Side::Source, kind, message);
        match outcome {
            Outcome::Failed(fault) => self.report_not_removed(path, fault),
            Outcome::Skipped(Skip::Special) => {
                let message = "not moved: a FIFO, socket, device or partial file is not copied";
                self.report_not_removed(path, &source(FaultKind::Special, message));
            }
            Outcome::Differs(found) if found.has(Changes::MISSING) => {
                let message = "not removed: the destination does not have it";
                self.report_not_removed(path, &source(FaultKind::NotFound, message));
            }
            Outcome::Differs(_) if self.keeps && *kind != Kind::Dir => {
                self.removed.lock().kept += 1;
            }
            Outcome::Differs(found) if !outcome.is_there() => {
                let words: Vec<_> = found.words().collect();
                let words = words.join(", ");
                // The content is the same, but not all attributes could be kept.
                let attributes = Changes::OF_ATTRIBUTES.with(Changes::LINKED);
                let is_lossy = found.without(attributes).is_empty();
                let fault = match is_lossy {
                    true => source(
                        FaultKind::Lossy,
                        &format!("not removed: its copy differs ({words})"),
                    ),
                    false => source(
                        FaultKind::Changed,
                        &format!(
                            "not removed: the destination has another entry with this name ({words})"
                        ),
                    ),
                };
                self.report_not_removed(path, &fault);
            }
            _ => {}
        }
    }

    fn moved(&self, path: &[u8]) {
        self.removed.lock().moved += 1;
        self.monitor.event(Event::Moved { path, renamed: false });
    }

    fn not_removed(&self, path: &[u8], kind: &Kind, fault: &Fault) {
        let mut removed = self.removed.lock();
        if *kind == Kind::Dir && removed.left_dirs.len() < LEFT_DIRS_MAX {
            removed.left_dirs.push((path.to_vec(), fault.clone()));
            return;
        }
        removed.failed += 1;
        drop(removed);
        self.monitor.event(Event::Stays { path, at: self.at(), fault, is_copied: true });
    }
}

impl Monitor for Removing<'_> {
    fn progress(&self) -> &Progress {
        &self.progress
    }

    fn event(&self, event: Event<'_>) {
        match event {
            Event::Entry { path, kind, outcome, .. } => self.entry(path, kind, outcome),
            Event::Removed { path, result: Ok(()), .. } => self.moved(path),
            Event::Removed { path, kind, result: Err(fault) } => {
                self.not_removed(path, kind, fault);
            }
            Event::Link(event) => self.monitor.event(Event::Link(event)),
            // Further entries of the destination are irrelevant.
            Event::Extra { .. }
            | Event::Deleted { .. }
            | Event::Listed { .. }
            | Event::Moved { .. }
            | Event::Stays { .. }
            | Event::Made { .. } => {}
            Event::Warning { path, message, .. } => {
                self.monitor.event(Event::Warning { side: None, path, message });
            }
        }
    }

    fn cancelled(&self) -> bool {
        self.monitor.cancelled()
    }
}
