//! A move, from finding the sources to removing them. Sources are renamed where possible. The
//! others are copied, compared with their copies by content, and removed.

mod not_copied;
mod removing;
mod running_move;
#[cfg(test)]
mod tests;

pub use self::not_copied::NotCopied;
pub use self::running_move::run_move;

use crate::monitor::{Event, FaultLocation};
use crate::{HostPath, Job, JobError, Monitor, RequestError, Requests, RoutedJob};
use haul_model::{Fault, Policy, Summary};
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
