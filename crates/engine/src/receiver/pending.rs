//! A listed entry that is no directory, on its way to its outcome.

use super::dirs::Base;
use super::providers::{Begun, Version};
use super::{Bring, DirState, Filler, RecvDir};
use crate::digest;
use haul_model::{BLOCK_LEN, Changes, ContentHash, Entry, Fault, FileId, Name, Outcome};
use haul_proto::FileSeal;
use haul_store::{Assembler, OnExisting};
use haul_sys::Dir;
use haul_tree::{SourceFile, StagedFile};
use std::sync::Arc;

/// A listed file, link or special, until it has its outcome.
pub(crate) struct Pending {
    pub(crate) index: u64,
    pub(super) dir: Arc<RecvDir>,
    pub(super) name: Name,
    pub(super) entry: Entry,
    /// Its length when it was listed, in bytes.
    pub(super) listed: u64,
    pub(super) on_existing: OnExisting,
    pub(super) cost: u64,
    /// Whole blocks that an earlier job has left of it.
    pub(super) resumed: u64,
    /// Bytes on record of a stage that was given up, from which a later job continues.
    pub(super) on_record: Option<u64>,
    /// In a mirror: how the existing entry differs.
    pub(super) found: Changes,
    pub(super) reading: Reading,
    /// The base directory that has its content, and how that is brought.
    pub(super) base: Option<(Base, Bring)>,
    /// Its chunks are offered.
    pub(super) is_chunked: bool,
    /// Some of it was taken from other files.
    pub(super) takes_parts: bool,
    /// The old version whose sums were sent.
    pub(super) old: Option<Version>,
    /// Its stage, where that begins with the old version.
    pub(super) begun: Option<Box<Begun>>,
    /// The file into which it will be written, if the Want named one.
    pub(super) into: Option<FileId>,
    /// Room for it is reserved first.
    pub(super) reserves: bool,
    /// Runs of zeros in it become holes.
    pub(super) leaves_zeros: bool,
    /// Where it is staged, if not where it will appear.
    pub(super) staging: Option<Arc<Dir>>,
}

impl Pending {
    /// Keeps in mind how much of it is on record, before its stage may be given up.
    pub(super) fn records(&mut self, into: &Assembler<Box<dyn StagedFile>>) {
        self.on_record = Some(into.recorded() * BLOCK_LEN);
    }

    /// An entry as it was listed, with no content yet.
    pub(super) fn new(
        index: u64,
        dir: Arc<RecvDir>,
        name: Name,
        entry: Entry,
        on_existing: OnExisting,
        cost: u64,
    ) -> Self {
        let (resumed, on_record) = (0, None);
        let (found, reading) = (Changes::default(), Reading::default());
        let (base, old, begun, into) = (None, None, None, None);
        let (reserves, leaves_zeros, staging, listed) = (false, false, None, entry.size());
        let (is_chunked, takes_parts) = (false, false);
        Self {
            index,
            dir,
            name,
            entry,
            listed,
            on_existing,
            cost,
            resumed,
            on_record,
            found,
            reading,
            base,
            old,
            is_chunked,
            takes_parts,
            begun,
            into,
            reserves,
            leaves_zeros,
            staging,
        }
    }

    /// True if the source was hashed as it was listed.
    pub(super) fn is_as_listed(&self, source: &FileSeal) -> bool {
        (source.size, source.mtime) == (self.entry.size(), self.entry.attributes.mtime)
    }

    /// Looks at a source again of which the content with the hash `copied` was copied;
    /// that is asked for only if it matters.
    ///
    /// # Errors
    /// If it has changed, but for having grown.
    pub(super) fn look_again(
        &mut self,
        filler: &Filler<'_>,
        source: &dyn SourceFile,
        copied: impl FnOnce() -> Result<Option<ContentHash>, Fault>,
    ) -> Result<(), Fault> {
        let strict = filler.job.policy.strict_source;
        self.reading.has_grown = digest::has_grown(source, strict, copied, filler.job.control)?;
        Ok(())
    }

    /// True if nobody has to look at the bytes of `source`, and they are where the
    /// copy will be.
    pub(super) fn may_share(&self, filler: &Filler<'_>, source: &dyn SourceFile) -> bool {
        let DirState::Open(node) = &self.dir.state else { return false };
        !(filler.job.looks_at_bytes() || self.reading.is_second || self.staging.is_some())
            && source.handle().is_some()
            && node.handle().is_ok_and(|dir| dir.capabilities().shares_content)
    }
}

/// The course of reading a source.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Reading {
    /// It changed while it was read, and is read once more.
    pub(super) is_second: bool,
    /// It has grown since it was opened.
    pub(super) has_grown: bool,
}

impl Reading {
    /// The outcome of a file whose outcome is `outcome` as far as the destination goes.
    pub(super) fn outcome(self, outcome: Outcome) -> Outcome {
        match outcome {
            Outcome::Copied if self.has_grown => Outcome::Grew,
            outcome => outcome,
        }
    }
}
