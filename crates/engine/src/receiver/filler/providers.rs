//! Content that this machine already has.
//!
//! "Is this content here?" is one question with several answers. Each answer is a [`Provider`]. A
//! wanted file is offered to the providers in the order of their cost. The Sender is asked for the
//! content that none of them has:
//!
//! | provider | has | finds it by |
//! |---|---|---|
//! | [`BaseDirs`] | the whole file, in a base directory | metadata, or the hashes of both sides |
//! | [`Renames`] | the whole file, under a name that will be removed | the hashes of both sides |
//! | [`Unfinished`] | the beginning, or with delays the whole file | leftovers of an earlier job |
//! | [`Versions`] | parts, in the old version or a file with a similar name | sums of its blocks |
//! | [`Chunks`] | parts, in any file that haul published here | the hashes of chunks |
//!
//! A new provider implements the trait and gets its place in [`Providers`].

pub(crate) mod bases;
pub(crate) mod begun;
mod chunks;
pub(crate) mod renamed;
mod similar;
mod unfinished;
pub(crate) mod versions;

pub(crate) use bases::{BaseDirs, report_missing, roots};
pub(crate) use begun::is_in_place;
pub(crate) use renamed::Renames;
pub(crate) use versions::Versions;

use crate::Job;
use crate::receiver::chunks::Chunks;
use crate::receiver::content::Part;
use crate::receiver::{Filler, Pending};
use haul_model::Outcome;
use haul_proto::{Reuse, Want};
use std::sync::Arc;
use unfinished::Unfinished;

/// A place on this machine that may have content of a wanted file.
pub(crate) trait Provider {
    /// True if the provider may have content of `file`. Does no I/O.
    fn may_have(&self, filler: &Filler<'_>, file: &Pending) -> bool;

    /// Looks for the content of `file`. Called only if [`Self::may_have`] is true.
    fn probe(&self, filler: &Filler<'_>, file: Box<Pending>, wants: &mut Vec<Want>) -> ProbeResult;

    /// The local copy of the part `reuse`, which the Sender left out; `None` if this provider has
    /// none.
    fn parts(&self, _: &Filler<'_>, _: &mut Pending, _: &Reuse) -> Option<Vec<Part>> {
        None
    }

    /// Forgets the parts of `file`, which is sent whole after all.
    fn forget(&self, _: &mut Pending) {}
}

/// The answer of a provider.
pub(crate) enum ProbeResult {
    /// The provider lacks some or all of the content. The next one is asked.
    PassedOn(Box<Pending>),
    /// The provider keeps the file. It reports the outcome, or passes the file on later.
    Kept,
    /// The file is settled.
    Settled(Outcome),
}

/// The providers of a job.
pub(crate) struct Providers {
    pub(crate) renames: Renames,
    pub(crate) versions: Versions,
    /// The chunk lookup; `None` without a cache.
    pub(crate) chunks: Option<Arc<Chunks>>,
}

impl Providers {
    /// Creates the providers of `job`. `reads_own`: each role hashes files on its own machine.
    pub(crate) fn of(job: &Job, reads_own: bool, chunks: Option<Arc<Chunks>>) -> Self {
        Self { renames: Renames::of(job, reads_own), versions: Versions::default(), chunks }
    }

    /// The providers that have either the whole file or nothing.
    pub(crate) fn whole_file_providers(&self) -> [&dyn Provider; 2] {
        [&BaseDirs, &self.renames]
    }

    /// The providers that may have parts of a file. They are asked when the file can be staged.
    pub(crate) fn part_providers(&self) -> impl Iterator<Item = &dyn Provider> {
        [&Unfinished as &dyn Provider, &self.versions].into_iter().chain(self.after_versions())
    }

    /// The providers that are asked after [`Versions`].
    pub(crate) fn after_versions(&self) -> impl Iterator<Item = &dyn Provider> {
        self.chunks.iter().map(|chunks| &**chunks as &dyn Provider)
    }
}
