//! Finds what an earlier job has left of a large file.

use super::dirs::{DirState, RecvDir};
use super::{Receiver, Resumed, work};
use haul_model::{BLOCK_LEN, Entry, Fault, Name, Resume, Side};
use haul_store::{RESUME_LEN_MIN, SourceId};

impl Receiver<'_> {
    /// Opens what an earlier job has left of a file, if that can be continued.
    pub(super) fn find_resumed(
        &self,
        dir: &RecvDir,
        name: &Name,
        entry: &Entry,
    ) -> Result<Option<Resumed>, Fault> {
        let (Some(source), DirState::Open(node)) = (source_id(entry), &dir.state) else {
            return Ok(None);
        };
        let failed =
            |error| Fault::from_io(Side::Destination, "continue the interrupted copy", &error);
        let handle = node.handle().map_err(failed)?;
        if dir.fresh || !handle.can_resume(name, &source) {
            return Ok(None);
        }
        if self.policy.resume == Resume::Never {
            handle.remove_leftovers(name, &source);
            return Ok(None);
        }
        let (stage, blocks) = match handle.resume(name, &source) {
            Ok(found) => found,
            Err(error) if work::stops_all(&error) => return Err(failed(error)),
            Err(_) => return Ok(None),
        };
        if self.policy.resume == Resume::Strict
            && !work::all_good(&*stage, &blocks, self.control).map_err(failed)?
        {
            stage.discard();
            return Ok(None);
        }
        self.reporter.resumed(blocks.len() as u64 * BLOCK_LEN);
        Ok(Some((stage, blocks)))
    }

    /// What a file's stage is found by, if the file is one that is continued.
    pub(crate) fn resumable(&self, entry: &Entry) -> Option<SourceId> {
        source_id(entry).filter(|_| self.policy.resume != Resume::Never)
    }
}

/// What a large file's stage is found by.
fn source_id(entry: &Entry) -> Option<SourceId> {
    let large = entry.size() >= RESUME_LEN_MIN && entry.inode != 0;
    large.then_some(SourceId { size: entry.size(), mtime: entry.mtime, inode: entry.inode })
}
