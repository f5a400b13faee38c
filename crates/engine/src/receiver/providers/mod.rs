//! Content that this machine already has.
//!
//! "Is this content here?" is one question with several answers. Each answer is a [`Provider`].
//! A file whose content is wanted is shown to the providers in the order of their cost, and the
//! Sender is asked for what none of them has:
//!
//! | provider | has | finds it by |
//! |---|---|---|
//! | [`BaseDirs`] | the whole file, in a base directory | metadata, or the hashes of both sides |
//! | [`Renames`] | the whole file, under a name that is to be removed | the hashes of both sides |
//! | [`Unfinished`] | the beginning, or with delays all of it | what an earlier job left |
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

pub(crate) use bases::{BaseDirs, Bring, report_missing, roots};
pub(crate) use begun::{Begun, stands};
pub(crate) use chunks::Chunks;
pub(super) use renamed::is_like_new;
pub(crate) use renamed::{Old, Renames};
pub(crate) use versions::{Version, Versions};

use super::dirs::DirState;
use super::{Filler, Pending};
use crate::Job;
use haul_model::{BlockRanges, Outcome};
use haul_proto::{How, Reuse, Want};
use haul_tree::SourceFile;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use unfinished::Unfinished;

/// A place on this machine that may have content of a wanted file.
pub(crate) trait Provider {
    /// True if it may have some of `file`, by what is known without looking.
    fn may_have(&self, filler: &Filler<'_>, file: &Pending) -> bool;

    /// Looks for the content of `file`. Called only if [`Self::may_have`] is true.
    fn look(&self, filler: &Filler<'_>, file: Box<Pending>, wants: &mut Vec<Want>) -> Looked;

    /// Where the part `reuse`, which the Sender left out, can be read; `None` if it is not here.
    fn parts(&self, _: &Filler<'_>, _: &mut Pending, _: &Reuse) -> Option<Vec<Part>> {
        None
    }

    /// Forgets `file`, which is sent whole after all.
    fn forget(&self, _: &mut Pending) {}
}

/// The result of looking for content.
pub(crate) enum Looked {
    /// The file goes on to the next provider: there is nothing, or not all of it.
    PassedOn(Box<Pending>),
    /// The provider has the file. It reports the outcome, or passes the file on later.
    Kept,
    /// The file has its outcome.
    Settled(Outcome),
}

/// Content that can be read from any offset.
pub(crate) trait Content: Send + Sync {
    /// Fills `buf` with the bytes at `offset`; false if they are not there.
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

/// A part of a file that can be read here.
pub(crate) struct Part {
    pub(crate) content: Arc<dyn Content>,
    /// Where the part begins there, in bytes.
    pub(crate) from: u64,
    pub(crate) len: u64,
}

/// The providers of a job.
pub(crate) struct Providers {
    renames: Renames,
    pub(super) versions: Versions,
    /// `None` without a cache.
    pub(super) chunks: Option<Arc<Chunks>>,
}

impl Providers {
    /// The providers of `job`. `reads_own`: both roles hash files on their own machine.
    pub(crate) fn of(job: &Job, reads_own: bool, chunks: Option<Arc<Chunks>>) -> Self {
        Self { renames: Renames::of(job, reads_own), versions: Versions::default(), chunks }
    }

    /// The providers that have a file whole or not at all.
    fn of_files(&self) -> [&dyn Provider; 2] {
        [&BaseDirs, &self.renames]
    }

    /// The providers that may have parts of a file. They are asked when its stage can begin.
    fn of_parts(&self) -> impl Iterator<Item = &dyn Provider> {
        [&Unfinished as &dyn Provider, &self.versions].into_iter().chain(self.behind_versions())
    }

    /// The providers that are asked after [`Versions`].
    fn behind_versions(&self) -> impl Iterator<Item = &dyn Provider> {
        self.chunks.iter().map(|chunks| &**chunks as &dyn Provider)
    }
}

impl Filler<'_> {
    /// Gets a file's content from where it costs least; returns its outcome if it has
    /// one already.
    pub(crate) fn provide(&self, file: Pending, wants: &mut Vec<Want>) -> Option<Outcome> {
        match self.show(self.providers.of_files().into_iter(), Box::new(file), wants) {
            Looked::PassedOn(file) => self.want_file(file, wants),
            Looked::Kept => None,
            Looked::Settled(outcome) => Some(outcome),
        }
    }

    /// Requests the missing parts of a file that no provider has whole; returns its outcome
    /// if it has one already.
    pub(crate) fn want_file(
        &self,
        mut file: Box<Pending>,
        wants: &mut Vec<Want>,
    ) -> Option<Outcome> {
        file.dir.expect_change();
        if let DirState::Open(node) = &file.dir.state {
            self.publisher.durability.expect_writing(node);
        }
        file.dir.expect_one();
        file.reserves = self.job.plan.preallocates;
        file.leaves_zeros = self.job.leaves_zeros(&file.entry);
        self.want_parts(self.providers.of_parts(), file, wants)
    }

    /// The same for a file that [`Versions`] passes on: asks the providers behind it.
    fn want_behind_versions(&self, file: Box<Pending>, wants: &mut Vec<Want>) {
        let outcome = self.want_parts(self.providers.behind_versions(), file, wants);
        debug_assert!(outcome.is_none(), "those that come behind pass each file on");
    }

    /// Asks `providers` for parts of a file, and the Sender for the rest.
    fn want_parts<'p>(
        &'p self,
        providers: impl Iterator<Item = &'p dyn Provider>,
        file: Box<Pending>,
        wants: &mut Vec<Want>,
    ) -> Option<Outcome> {
        let mut file = match self.show(providers, file, wants) {
            Looked::PassedOn(file) => file,
            Looked::Kept => return None,
            Looked::Settled(outcome) => return Some(outcome),
        };
        let how = How::whole_hash_if(file.resumed > 0 && self.job.proves(&file.entry))
            .delta_if(file.old.is_some())
            .in_order_if(file.is_in_order())
            .chunks_if(file.is_chunked)
            .unhashed_if(file.is_unhashed(self));
        let into = self.publisher.naming.tell_into(&mut file);
        wants.push(Want { index: file.index, how, blocks: BlockRanges::from(file.resumed), into });
        self.wanted.lock().insert(file.index, file);
        None
    }

    /// Shows a file to `providers`, one after the other.
    fn show<'p>(
        &self,
        providers: impl Iterator<Item = &'p dyn Provider>,
        mut file: Box<Pending>,
        wants: &mut Vec<Want>,
    ) -> Looked {
        for provider in providers {
            if !provider.may_have(self, &file) {
                continue;
            }
            match provider.look(self, file, wants) {
                Looked::PassedOn(passed) => file = passed,
                looked => return looked,
            }
        }
        Looked::PassedOn(file)
    }

    /// Where a part that the Sender left out can be read.
    pub(crate) fn parts_of(&self, file: &mut Pending, reuse: &Reuse) -> Option<Vec<Part>> {
        self.providers.of_parts().find_map(|provider| provider.parts(self, file, reuse))
    }

    /// Forgets what providers have of a file, which is sent whole after all.
    pub(crate) fn forget_parts(&self, file: &mut Pending) {
        file.takes_parts = false;
        self.providers.of_parts().for_each(|provider| provider.forget(file));
    }
}
