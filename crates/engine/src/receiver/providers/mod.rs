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

mod bases;
mod begun;
mod chunked;
mod chunks;
mod renamed;
mod similar;
mod unfinished;
mod versions;

pub(crate) use bases::{BaseDirs, BaseMethod, report_missing, roots};
pub(crate) use begun::{PrefilledStage, is_in_place};
pub(crate) use chunks::Chunks;
pub(super) use renamed::is_like_new;
pub(crate) use renamed::{OldFile, Renames};
pub(crate) use versions::{Version, Versions};

use super::{Filler, Pending};
use crate::Job;
use haul_model::Outcome;
use haul_proto::{Reuse, Want};
use haul_tree::SourceFile;
use std::fs::File;
use std::os::unix::fs::FileExt;
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

/// Content that can be read from any offset.
pub(crate) trait Content: Send + Sync {
    /// Fills `buf` with the bytes at `offset`; false if there are too few.
    fn fill(&self, buf: &mut [u8], offset: u64) -> bool;
}

impl Content for File {
    fn fill(&self, buf: &mut [u8], offset: u64) -> bool {
        self.read_exact_at(buf, offset).is_ok()
    }
}

impl Content for Box<dyn SourceFile> {
    fn fill(&self, buf: &mut [u8], offset: u64) -> bool {
        self.read_at(buf, offset).is_ok_and(|read| read == buf.len())
    }
}

/// A part of a file that can be read on this machine.
pub(crate) struct Part {
    pub(crate) content: Arc<dyn Content>,
    /// The offset of the part in `content`, in bytes.
    pub(crate) from: u64,
    pub(crate) len: u64,
}

/// The providers of a job.
pub(crate) struct Providers {
    pub(super) renames: Renames,
    pub(super) versions: Versions,
    /// The chunk lookup; `None` without a cache.
    pub(super) chunks: Option<Arc<Chunks>>,
}

impl Providers {
    /// Creates the providers of `job`. `reads_own`: each role hashes files on its own machine.
    pub(crate) fn of(job: &Job, reads_own: bool, chunks: Option<Arc<Chunks>>) -> Self {
        Self { renames: Renames::of(job, reads_own), versions: Versions::default(), chunks }
    }

    /// The providers that have either the whole file or nothing.
    pub(super) fn whole_file_providers(&self) -> [&dyn Provider; 2] {
        [&BaseDirs, &self.renames]
    }

    /// The providers that may have parts of a file. They are asked when the file can be staged.
    pub(super) fn part_providers(&self) -> impl Iterator<Item = &dyn Provider> {
        [&Unfinished as &dyn Provider, &self.versions].into_iter().chain(self.after_versions())
    }

    /// The providers that are asked after [`Versions`].
    pub(super) fn after_versions(&self) -> impl Iterator<Item = &dyn Provider> {
        self.chunks.iter().map(|chunks| &**chunks as &dyn Provider)
    }
}
