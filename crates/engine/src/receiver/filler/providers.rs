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
pub(crate) mod renamed;
pub(crate) mod versions;

use crate::Job;
use crate::receiver::chunks::{Chunks, FILE_LEN_MIN};
use crate::receiver::disk_space::with_space_details;
use crate::receiver::filler::resume::find_resumed;
use crate::receiver::pending::{Part, PrefilledStage};
use crate::receiver::{DirState, Filler, Pending};
pub(crate) use bases::{BaseDirs, report_missing, roots};
use haul_model::{BLOCK_LEN, Fault, FaultKind, Name, Outcome, Side, Updating};
use haul_proto::{Reuse, Want};
use haul_store::RESUME_LEN_MIN_REMOTE;
use haul_tree::{Meta, MetaKind, SourceFile, TreeEntry};
pub(crate) use renamed::Renames;
use std::cmp::Reverse;
use std::ops::Range;
use std::sync::Arc;
pub(crate) use versions::Versions;

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

/// Leftovers of an earlier job: a whole file that waits for publication, or the first blocks of a
/// file.
pub(crate) struct Unfinished;

impl Provider for Unfinished {
    fn may_have(&self, filler: &Filler<'_>, file: &Pending) -> bool {
        filler.job.delays_updates() || filler.job.source_id(&file.entry).is_some()
    }

    fn probe(&self, filler: &Filler<'_>, mut file: Box<Pending>, _: &mut Vec<Want>) -> ProbeResult {
        // If the waiting file of an earlier job can't be used, the file is sent again.
        let settled = if filler.job.delays_updates()
            && filler.publisher.reuse_waiting(&file).unwrap_or(false)
        {
            Some(Outcome::Copied)
        } else {
            let Pending { index, dir, name, entry, .. } = &*file;
            let resumed = find_resumed(&filler.job, *index, dir, name, entry);
            let refused = match resumed {
                Ok(blocks) => {
                    file.resumed = blocks;
                    no_space_fault(filler, &file)
                }
                Err(fault) => Some(fault),
            };
            refused.map(Outcome::Failed)
        };
        let Some(outcome) = settled else { return ProbeResult::PassedOn(file) };
        file.dir.settle_one();
        ProbeResult::Settled(filler.linker.settle_listed(&file, outcome))
    }
}

/// The fault of a large file for which there is clearly no space, before any of it is sent. `None`
/// if space may become free, or the file is updated in place or may share an old version.
fn no_space_fault(filler: &Filler<'_>, file: &Pending) -> Option<Fault> {
    let Pending { dir, entry, resumed, target, .. } = file;
    let may_take_less = filler.job.plan.delete.is_some()
        || filler.publisher.removals.replaces_dirs()
        || filler.job.plan.updating != Updating::Replaces;
    let is_plain = filler.job.ends.saves_sending
        && filler.job.resumable(entry).is_some()
        && !filler.job.may_have_holes(entry)
        && target.staging.is_none()
        && !filler.providers.versions.may_have(filler, file)
        && !may_take_less;
    let (true, DirState::Open(node)) = (is_plain, &dir.state) else { return None };
    let there = node.handle().ok()?.local_dir().ok()?;
    let missing = entry.size().saturating_sub(resumed.saturating_mul(BLOCK_LEN));
    haul_sys::is_out_of_space(&there, missing).then(|| {
        let fault = Fault::new(Side::Destination, FaultKind::NoSpace, "not enough space");
        with_space_details(&filler.job, fault, file, 0)
    })
}

impl Provider for Chunks {
    fn may_have(&self, filler: &Filler<'_>, file: &Pending) -> bool {
        file.entry.size() >= FILE_LEN_MIN
            && filler.job.plan.updating == Updating::Replaces
            && filler.job.plan.wants_hashes
            && filler.job.sender.offers_chunks()
    }

    /// Requests offers for the chunks of a file.
    fn probe(&self, _: &Filler<'_>, mut file: Box<Pending>, _: &mut Vec<Want>) -> ProbeResult {
        file.reused.is_chunked = true;
        self.begin(file.index);
        ProbeResult::PassedOn(file)
    }

    fn parts(&self, _: &Filler<'_>, _: &mut Pending, reuse: &Reuse) -> Option<Vec<Part>> {
        if reuse.from.is_some() { None } else { self.parts_of(reuse) }
    }

    fn forget(&self, file: &mut Pending) {
        if std::mem::take(&mut file.reused.is_chunked) {
            self.forget(file.index);
        }
    }
}

/// Maximum number of such files that are open at the same time.
pub(crate) const PREFILLED_MAX: usize = 16;

/// True if the staged file already has this part of the old version in its place.
pub(crate) fn is_in_place(shared: &Range<u64>, reuse: &Reuse) -> bool {
    let Reuse { at, from, len, .. } = *reuse;
    from == Some(at) && shared.start <= at && at + u64::from(len) <= shared.end
}

/// True if the file should begin with the content of its old version.
fn can_prefill(file: &Pending, old: &dyn SourceFile) -> bool {
    let DirState::Open(node) = &file.dir.state else { return false };
    old.seal().size >= RESUME_LEN_MIN_REMOTE
        && !file.target.preallocates
        && file.target.staging.is_none()
        && old.handle().is_some()
        && node.handle().is_ok_and(|dir| dir.capabilities().can_share_content)
}

/// Starts the staged file with the content of `old`, if the file system can share it. Unchanged
/// parts are neither sent nor written. If no file can be staged, the error shows again when content
/// arrives.
///
/// The shared part is also a snapshot that nobody else can change. The sums are computed from it,
/// and kept parts are hashed from the staged file. So the verified content is the published
/// content.
fn begin_with(filler: &Filler<'_>, file: &mut Pending, old: &dyn SourceFile) {
    let begun = match file.resumed {
        0 => file.stage_for(filler).ok().map(|stage| (stage, Vec::new())),
        _ => file.open_partial(filler).ok().flatten(),
    };
    let Some((stage, done)) = begun else { return };
    let from = done.len() as u64 * BLOCK_LEN;
    let shared = from..old.seal().size.max(from);
    let begins_with = |old| stage.begin_with(old, shared.clone());
    let shared = match old.handle().is_some_and(begins_with) {
        true => shared,
        // Nothing may follow the blocks that are done.
        false if stage.set_len(from).is_err() => return,
        false => from..from,
    };
    file.reused.begun = Some(Box::new(PrefilledStage { stage, done, shared }));
}

/// Maximum number of files that are examined: those with the most similar names.
const CANDIDATES_MAX: usize = 64;

/// Minimum length, in bytes, of a useful file.
const LEN_MIN: u64 = 16 << 10;

/// The name of a file beside `file` that may have much of its content. A file with the same length
/// and time is preferred: it may be the same file before a renaming. Otherwise the most similar
/// name is used.
fn find_similar(file: &Pending) -> Option<Name> {
    let DirState::Open(node) = &file.dir.state else { return None };
    let dir = node.handle().ok()?;
    let may_be = |entry: &TreeEntry| {
        entry.is_dir != Some(true)
            && entry.name != file.name
            && !haul_store::is_private(&entry.name)
    };
    let similarity = |entry: TreeEntry| {
        let like = similarity(entry.name.as_bytes(), file.name.as_bytes());
        (Reverse(like), entry.name)
    };
    let mut names: Vec<_> =
        dir.entries().ok()?.into_iter().filter(may_be).map(similarity).collect();
    names.sort_unstable();
    names.truncate(CANDIDATES_MAX);
    let is_it = |meta: &Meta| {
        meta.kind == MetaKind::File { size: file.entry.size() }
            && meta.attributes.mtime.secs == file.entry.attributes.mtime.secs
    };
    let mut best = None;
    for (Reverse(similarity), name) in names {
        let Ok(Some(meta)) = dir.stat(&name, false) else { continue };
        if is_it(&meta) {
            return Some(name);
        }
        let is_useful = matches!(meta.kind, MetaKind::File { size: LEN_MIN.. });
        if is_useful && is_similar(similarity, &name, &file.name) && best.is_none() {
            best = Some(name);
        }
    }
    best
}

/// The number of bytes that two names share at their beginnings and ends.
fn similarity(one: &[u8], other: &[u8]) -> usize {
    let same = |(one, other): &(&u8, &u8)| one == other;
    let head = one.iter().zip(other).take_while(same).count();
    let (one, other) = (&one[head..], &other[head..]);
    head + one.iter().rev().zip(other.iter().rev()).take_while(same).count()
}

/// True if names with this likeness may belong to versions of one file.
fn is_similar(similarity: usize, one: &Name, other: &Name) -> bool {
    similarity * 2 > one.as_bytes().len().max(other.as_bytes().len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_versions_are_alike() {
        let name = |name: &str| Name::new(name.as_bytes()).expect("a name");
        let are = |one: &str, other: &str| {
            let like = similarity(one.as_bytes(), other.as_bytes());
            is_similar(like, &name(one), &name(other))
        };
        assert!(
            are("linux-6.1.tar", "linux-6.2.tar")
                && are("log.1", "log.22")
                && are("a.iso", "a2.iso")
        );
        assert!(!are("photos.tar", "letters.txt") && !are("a", "b") && !are("x.iso", "longer.iso"));
        assert_eq!((similarity(b"aaa", b"aa"), similarity(b"", b"x")), (2, 0));
    }
}
