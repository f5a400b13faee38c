//! Finds what an earlier job has left of a large file when it is listed, and
//! takes it up when its content comes. In between nothing stays open: a job can
//! list thousands of such files before the first content arrives.

use super::dirs::{DirState, RecvDir};
use super::{Pending, Receiver, Resumed, work};
use haul_model::{BLOCK_LEN, Entry, Fault, Name, Resume, Side};
use haul_store::{RESUME_LEN_MIN, SourceId};
use std::io;

impl Receiver<'_> {
    /// Whole blocks that an earlier job has left of a file and that can be
    /// believed; 0 if it is copied from its start.
    pub(super) fn find_resumed(
        &self,
        dir: &RecvDir,
        name: &Name,
        entry: &Entry,
    ) -> Result<u64, Fault> {
        let (Some(source), DirState::Open(node)) = (source_id(entry), &dir.state) else {
            return Ok(0);
        };
        let handle = node.handle().map_err(failed)?;
        if dir.fresh || !handle.can_resume(name, &source) {
            return Ok(0);
        }
        if self.policy.resume == Resume::Never {
            handle.remove_leftovers(name, &source);
            return Ok(0);
        }
        let (stage, blocks) = match handle.resume(name, &source) {
            Ok(found) => found,
            Err(error) if work::stops_all(&error) => return Err(failed(error)),
            Err(_) => return Ok(0),
        };
        if self.policy.resume == Resume::Strict
            && !work::all_good(&*stage, &blocks, self.control).map_err(failed)?
        {
            stage.discard();
            return Ok(0);
        }
        let blocks = blocks.len() as u64;
        self.reporter.resumed(blocks * BLOCK_LEN);
        Ok(blocks)
    }

    /// What a file's stage is found by, if the file is one that is continued.
    pub(crate) fn resumable(&self, entry: &Entry) -> Option<SourceId> {
        source_id(entry).filter(|_| self.policy.resume != Resume::Never)
    }
}

impl Pending {
    /// Takes up the stage of which the Sender was told; `None` if the file is
    /// copied from its start.
    ///
    /// # Errors
    /// When it can't be opened, or is not what it was when the file was listed.
    pub(super) fn continue_stage(&self, receiver: &Receiver<'_>) -> Result<Option<Resumed>, Fault> {
        let (1.., Some(source), DirState::Open(node)) =
            (self.resumed, source_id(&self.entry), &self.dir.state)
        else {
            return Ok(None);
        };
        let opened = node.handle().and_then(|dir| dir.resume(&self.name, &source));
        let (stage, blocks) = opened.map_err(failed)?;
        if blocks.len() as u64 != self.resumed {
            return Err(work::written_meanwhile());
        }
        Ok(Some((receiver.written_out(stage), blocks)))
    }
}

fn failed(error: io::Error) -> Fault {
    Fault::from_io(Side::Destination, "continue the interrupted copy", &error)
}

/// What a large file's stage is found by.
fn source_id(entry: &Entry) -> Option<SourceId> {
    let large = entry.size() >= RESUME_LEN_MIN && entry.inode != 0;
    large.then_some(SourceId { size: entry.size(), mtime: entry.mtime, inode: entry.inode })
}
