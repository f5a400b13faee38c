//! A listed entry, other than a directory, that has no outcome yet.

use super::context::JobContext;
use super::decision::Base;
use super::{BaseMethod, DirState, RecvDir};
use crate::copy::Blocks;
use crate::digest;
use haul_model::{BLOCK_LEN, BlockHash, Changes, ContentHash, Entry, Fault, FileId, Name, Outcome};
use haul_proto::FileSeal;
use haul_store::{AHEAD_MAX, Assembler, OnExisting};
use haul_sys::Dir;
use haul_tree::{SourceFile, StagedFile};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// An entry as it was listed. Nothing is decided about it yet.
pub(super) struct Listed {
    pub(super) index: u64,
    /// The directory that contains it.
    pub(super) dir: Arc<RecvDir>,
    /// The name that it gets; `None` for the destination itself.
    pub(super) name: Option<Name>,
    pub(super) entry: Entry,
    /// The cost in the listing's window.
    pub(super) cost: u64,
}

/// A listed file, link or special file without an outcome.
pub(crate) struct Pending {
    pub(crate) index: u64,
    pub(super) dir: Arc<RecvDir>,
    pub(super) name: Name,
    pub(super) entry: Entry,
    /// The listed length, in bytes.
    pub(super) listed: u64,
    pub(super) on_existing: OnExisting,
    pub(super) cost: u64,
    /// Whole blocks that an earlier job received.
    pub(super) resumed: u64,
    /// Bytes on record in a staged file that was given up. A later job can resume there.
    pub(super) recorded_len: Option<u64>,
    /// In a mirror: the differences of the existing entry.
    pub(super) found: Changes,
    pub(super) reading: Reading,
    /// The base directory that has the content, and how the file gets it.
    pub(super) base: Option<(Base, BaseMethod)>,
    pub(super) reused: Reused,
    pub(super) target: Target,
}

/// Where and how the content of a file is written.
#[derive(Default)]
pub(super) struct Target {
    /// The file into which the content will be written, if the Want named one.
    pub(super) into: Option<FileId>,
    /// Space is reserved before the file is written.
    pub(super) preallocates: bool,
    /// Runs of zeros in it become holes.
    pub(super) writes_sparse: bool,
    /// The directory of the staged file, if it is not staged beside its final name.
    pub(super) staging: Option<Arc<Dir>>,
}

/// A wanted file, the bytes of it that were counted as done, and its outcome.
pub(super) type Settled = (Pending, u64, Outcome);

impl Pending {
    /// Records how much is on record, before the staged file may be given up.
    pub(super) fn update_recorded_len(&mut self, into: &Assembler) {
        self.recorded_len = Some(into.recorded() * BLOCK_LEN);
    }

    /// Creates an entry as it was listed, without content.
    pub(super) fn new(listed: Listed) -> Self {
        let Listed { index, dir, name, entry, cost } = listed;
        let name = name.expect("only directories have no name");
        let listed = entry.size();
        Self {
            index,
            dir,
            name,
            entry,
            listed,
            on_existing: OnExisting::Keep,
            cost,
            resumed: 0,
            recorded_len: None,
            found: Changes::default(),
            reading: Reading::default(),
            base: None,
            reused: Reused::default(),
            target: Target::default(),
        }
    }

    /// True if the hashed source has the listed size and time.
    pub(super) fn matches_listing(&self, source: &FileSeal) -> bool {
        (source.size, source.mtime) == (self.entry.size(), self.entry.attributes.mtime)
    }

    /// Checks a source again after it was copied. `copied` returns the hash of the copied content,
    /// and is called only if that matters.
    ///
    /// # Errors
    /// If the source has changed, unless it has only grown.
    pub(super) fn recheck_source(
        &mut self,
        job: &JobContext<'_>,
        source: &dyn SourceFile,
        copied: impl FnOnce() -> Result<Option<ContentHash>, Fault>,
    ) -> Result<(), Fault> {
        let strict = job.plan.strict_source;
        self.reading.has_grown = digest::has_grown(source, strict, copied, job.control)?;
        Ok(())
    }

    /// True if the file may share the content of `source`: the bytes need not be read, and the file
    /// is staged on a file system that shares content.
    pub(super) fn may_share(&self, job: &JobContext<'_>, source: &dyn SourceFile) -> bool {
        let DirState::Open(node) = &self.dir.state else { return false };
        !(job.hashes_content() || self.reading.is_retry || self.target.staging.is_some())
            && source.handle().is_some()
            && node.handle().is_ok_and(|dir| dir.capabilities().can_share_content)
    }
}

/// The state of reading a source.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Reading {
    /// The source changed while it was read, and is read again.
    pub(super) is_retry: bool,
    /// The source has grown since it was opened.
    pub(super) has_grown: bool,
}

impl Reading {
    /// The final outcome of a file with this `outcome` at the destination.
    pub(super) fn outcome(self, outcome: Outcome) -> Outcome {
        match outcome {
            Outcome::Copied if self.has_grown => Outcome::Grew,
            outcome => outcome,
        }
    }
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

/// Content of a file that need not be sent.
#[derive(Default)]
pub(super) struct Reused {
    /// The chunks of the file are offered.
    pub(super) is_chunked: bool,
    /// Parts of it were taken from other files.
    pub(super) has_parts: bool,
    /// The old version whose sums were sent.
    pub(super) old: Option<Version>,
    /// The staged file, if it begins with the old version.
    pub(super) begun: Option<Box<PrefilledStage>>,
}

/// An old version whose sums were sent: the file of the same name, or a similar one.
pub(crate) struct Version {
    /// Its length in bytes.
    pub(crate) len: u64,
    pub(super) name: Name,
    /// The content, opened at its first use.
    pub(super) content: Option<Arc<dyn Content>>,
}

/// A staged file that already has some content.
pub(crate) struct PrefilledStage {
    pub(super) stage: Box<dyn StagedFile>,
    /// The hashes of the new version's blocks that an earlier job received.
    pub(super) done: Vec<BlockHash>,
    /// The range, in bytes, that is shared with the old version. It is behind `done`, and empty if
    /// nothing is shared.
    pub(super) shared: Range<u64>,
}

impl PrefilledStage {
    /// The old version, for computing its sums. The shared part is read from the staged file.
    pub(crate) fn basis(&self, old: Box<dyn SourceFile>) -> io::Result<Box<dyn Content>> {
        let stage = match self.shared.is_empty() {
            true => None,
            false => haul_tree::written(&*self.stage)?,
        };
        Ok(match stage {
            Some(stage) => Box::new(Basis { old, stage, from: self.shared.start }),
            None => Box::new(old),
        })
    }

    pub(crate) fn discard(self) {
        self.stage.discard();
    }

    /// The content to assemble, and the range that is shared with the old version.
    pub(crate) fn into_blocks(self) -> (Blocks, Range<u64>) {
        let Self { stage, done, shared } = self;
        (Assembler::begun(stage, done, AHEAD_MAX, shared.end), shared)
    }
}

/// The old version, whose end is read from the staged file.
struct Basis {
    old: Box<dyn SourceFile>,
    stage: Box<dyn SourceFile>,
    /// The start of the shared part, in bytes.
    from: u64,
}

impl Content for Basis {
    fn fill(&self, buf: &mut [u8], offset: u64) -> bool {
        let before = self.from.saturating_sub(offset).min(buf.len() as u64);
        let (before, behind) = buf.split_at_mut(before as usize);
        let at = offset + before.len() as u64;
        self.old.fill(before, offset) && self.stage.fill(behind, at)
    }
}
