//! Content that need not be sent: parts of files that can be read on this machine.

use crate::copy::Blocks;
use haul_model::{BlockHash, Name};
use haul_store::{AHEAD_MAX, Assembler};
use haul_tree::{SourceFile, StagedFile};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

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
