//! Stages of large files that begin with what the old version has, where the file system lets
//! files share their content: what stays the same is neither sent nor written.
//!
//! It is also a snapshot that nobody else can change. Its sums are sent, and what is kept of
//! it is read from the stage when it is hashed: so what is proven is what gets the name.

use super::Content;
use crate::copy::Blocks;
use crate::receiver::{DirState, Filler, Pending};
use haul_model::{BLOCK_LEN, BlockHash};
use haul_proto::Reuse;
use haul_store::{AHEAD_MAX, Assembler, RESUME_LEN_MIN_FAR};
use haul_tree::{SourceFile, StagedFile};
use std::io;
use std::ops::Range;

/// Such stages that are open at the same time, at most.
pub(crate) const BEGUN_MAX: usize = 16;

/// A stage in which something is already.
pub(crate) struct Begun {
    stage: Box<dyn StagedFile>,
    /// Blocks that an earlier job has left of the new version.
    done: Vec<BlockHash>,
    /// Where it has what the old version has, in bytes: behind those. Empty where nothing is
    /// shared.
    shared: Range<u64>,
}

impl Begun {
    /// The old version as its sums are computed: from the stage, where that has it.
    pub(crate) fn basis(&self, old: Box<dyn SourceFile>) -> io::Result<Box<dyn Content>> {
        let stage = match self.shared.is_empty() {
            true => None,
            false => self.stage.written()?,
        };
        Ok(match stage {
            Some(stage) => Box::new(Basis { old, stage, from: self.shared.start }),
            None => Box::new(old),
        })
    }

    pub(crate) fn discard(self) {
        self.stage.discard();
    }

    /// The content that it is put together to, and where it has what the old version has.
    pub(crate) fn into_blocks(self) -> (Blocks, Range<u64>) {
        let Self { stage, done, shared } = self;
        (Assembler::begun(stage, done, AHEAD_MAX, shared.end), shared)
    }
}

/// True if a part of the old version is where it is to be, in a stage that has it there.
pub(crate) fn stands(shared: &Range<u64>, reuse: &Reuse) -> bool {
    let Reuse { at, from, len, .. } = *reuse;
    from == Some(at) && shared.start <= at && at + u64::from(len) <= shared.end
}

/// An old version of which the stage has the end.
struct Basis {
    old: Box<dyn SourceFile>,
    stage: Box<dyn SourceFile>,
    /// Where the stage has the same, in bytes.
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

/// True if it is worth it to begin the stage of a file with its old version.
pub(super) fn may_begin_with(file: &Pending, old: &dyn SourceFile) -> bool {
    let DirState::Open(node) = &file.dir.state else { return false };
    old.seal().size >= RESUME_LEN_MIN_FAR
        && !file.reserves
        && file.staging.is_none()
        && old.handle().is_some()
        && node.handle().is_ok_and(|dir| dir.capabilities().shares_content)
}

/// Begins the stage of a file with what `old` has, if the file system does that. Where it
/// can't be begun at all, that shows again when its content comes.
pub(super) fn begin_with(filler: &Filler<'_>, file: &mut Pending, old: &dyn SourceFile) {
    let begun = match file.resumed {
        0 => file.stage_for(filler).ok().map(|stage| (stage, Vec::new())),
        _ => file.continue_stage(filler).ok().flatten(),
    };
    let Some((stage, done)) = begun else { return };
    let from = done.len() as u64 * BLOCK_LEN;
    let shared = from..old.seal().size.max(from);
    let shared = match stage.begin_with(old, shared.clone()) {
        true => shared,
        // Nothing may be behind what is done.
        false if stage.set_len(from).is_err() => return,
        false => from..from,
    };
    file.begun = Some(Box::new(Begun { stage, done, shared }));
}
