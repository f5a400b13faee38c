//! A move from its first look to its last removal. Sources get their new names where
//! they can; the others are copied, compared with their copies by content, and removed.

mod course;
mod not_copied;
mod removing;
#[cfg(test)]
mod tests;

pub use self::course::run_move;
pub use self::not_copied::NotCopied;

use crate::monitor::{At, Event};
use crate::{CachePlace, JobError, Leg, Monitor, RequestError, Requests, Spot};
use haul_model::{Compression, Fault, Policy, Ports, Summary, Via};
use std::fmt;
use std::num::NonZeroU64;
use std::path::PathBuf;

/// A move in plain words.
#[derive(Debug, Clone)]
pub struct MoveJob<H> {
    /// The sources. Each has a name of its own; where the destination is on a host,
    /// all are on this machine.
    pub sources: Vec<Spot<H>>,
    /// The directory that they are moved into, or the new name of the one source.
    pub dest: Spot<H>,
    /// The destination in the user's words, safe to show.
    pub dest_shown: String,
    /// The rules of the copy. Contents are removed as its `moving` allows.
    pub policy: Policy,
    /// See [`crate::Job::state`].
    pub state: Option<PathBuf>,
    /// See [`crate::Job::rate`].
    pub rate: Option<NonZeroU64>,
    /// See [`crate::Job::compression`].
    pub compression: Compression,
    /// See [`crate::Job::via`].
    pub via: Via,
    /// See [`crate::Job::ports`].
    pub ports: Option<Ports>,
    /// See [`crate::Job::cache`].
    pub cache: Option<CachePlace>,
}

/// The machines of a move, and the ways to them.
pub trait Machines {
    /// A host, by its name.
    type Host: Clone + PartialEq + fmt::Display;
    /// Why a move as a whole ends early.
    type Error: From<JobError>;

    /// Asks `host`, or this machine. If the connection is lost meanwhile, the same `question`
    /// may be asked again over another. The one that answers may be kept until
    /// [`Self::hang_up`].
    ///
    /// # Errors
    /// When there is no way to it, or none any more.
    fn ask<T>(
        &mut self,
        host: Option<&Self::Host>,
        question: impl FnMut(&mut Requests) -> Result<T, RequestError>,
    ) -> Result<Result<T, Fault>, Self::Error>;

    /// Closes the connections for requests: a job comes next, or the end.
    fn hang_up(&mut self);

    /// Copies, one leg after the other, and tells of it. What fails is told to
    /// `not_copied` as well: see [`NotCopied::watch`].
    ///
    /// # Errors
    /// When a leg as a whole has failed: nothing is removed then.
    fn copy(
        &mut self,
        legs: Vec<Leg<Self::Host>>,
        not_copied: &NotCopied,
    ) -> Result<Summary, Self::Error>;

    /// Runs the leg that removes sources.
    ///
    /// # Errors
    /// When it fails as a whole.
    fn remove(&mut self, leg: &Leg<Self::Host>, monitor: &dyn Monitor) -> Result<(), Self::Error>;
}
