//! A move from its first look to its last removal. Sources get their new names where
//! they can; the others are copied, compared with their copies by content, and removed.

mod course;
mod not_copied;
mod removing;
#[cfg(test)]
mod tests;

pub use self::course::run_move;
pub use self::not_copied::NotCopied;

use crate::{CachePlace, JobError, Leg, LinkEvent, Monitor, RequestError, Requests, Spot};
use haul_model::{Compression, Fault, Naming, Policy, Ports, Summary, Via};
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

/// An event of a move.
#[derive(Debug)]
pub enum MoveEvent<'a> {
    /// A source, or a file or link of one, is at its new place and removed from the old.
    Moved {
        /// Its path, raw.
        path: &'a [u8],
        /// It has got a new name, and was not copied.
        renamed: bool,
    },
    /// Something stays, and counts as failed.
    Failed {
        /// Its path, raw.
        path: &'a [u8],
        /// The place that the fault is about.
        at: At<'a>,
        /// Why.
        fault: &'a Fault,
    },
    /// The destination has it, and it can't be removed; counts as failed.
    NotRemoved {
        /// Its path, raw.
        path: &'a [u8],
        /// The place that the fault is about.
        at: At<'a>,
        /// Why.
        fault: &'a Fault,
    },
    /// News of the connection.
    Link(LinkEvent<'a>),
    /// Worth telling, though nothing failed.
    Warning {
        /// The path that it is about, raw.
        path: &'a [u8],
        /// The words.
        message: &'a str,
    },
}

/// The place that a fault is about.
#[derive(Debug, Clone, Copy)]
pub enum At<'a> {
    /// On that host, or here.
    Named {
        /// Its name, safe to show.
        host: Option<&'a str>,
        /// The path there, raw, as the user's words make it.
        path: &'a [u8],
    },
    /// The entry of the event, on the fault's side of the job that removes: the last of
    /// [`Machines::remove`].
    Entry(Naming),
}

/// Receives the events of a move. Called from several threads at once.
pub trait MoveMonitor: Sync {
    /// Takes an event; must be quick.
    fn tell(&self, event: MoveEvent<'_>);

    /// True for good once the user has interrupted.
    fn cancelled(&self) -> bool;
}
