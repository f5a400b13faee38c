//! Resuming: finds the partial file of a large file when the file is listed, and opens it when its
//! content arrives. Nothing stays open in between: a job can list thousands of such files before
//! the first content arrives.

use super::{filling, proving, staging};
use crate::receiver::{DirState, Filler, JobContext, Pending, RecvDir, Resumed};
use haul_model::{BLOCK_LEN, Entry, Fault, FaultKind, Name, Side};
use haul_store::Earlier;
use haul_tree::{SourceFile, changed};
use std::io;

/// The number of valid blocks in the partial file of an earlier job; 0 if the file is copied from
/// its start.
pub(crate) fn find_resumed(
    job: &JobContext<'_>,
    index: u64,
    dir: &RecvDir,
    name: &Name,
    entry: &Entry,
) -> Result<u64, Fault> {
    let (Some(source), DirState::Open(node)) = (job.source_id(entry), &dir.state) else {
        return Ok(0);
    };
    let handle = node.handle().map_err(failed)?;
    let earlier = if dir.fresh { Earlier::Nothing } else { handle.earlier(name, &source) };
    if earlier == Earlier::Nothing {
        return Ok(0);
    }
    if job.resumable(entry).is_none() {
        handle.remove_leftovers(name, &source);
        return Ok(0);
    }
    if earlier == Earlier::OtherSource {
        job.warn(&dir.path_of(entry.name.as_ref()), REPLACED);
        return Ok(0);
    }
    let (stage, blocks) = match handle.resume(name, &source) {
        Ok(found) => found,
        Err(error) if staging::affects_all_files(&error) => return Err(failed(error)),
        Err(_) => return Ok(0),
    };
    if job.plan.proves_resumed
        && job.ends.reads_back
        && !proving::stage_has_blocks(&*stage, &blocks, job.control).map_err(failed)?
    {
        stage.discard();
        return Ok(0);
    }
    let blocks = blocks.len() as u64;
    job.reporter.resumed(index, blocks * BLOCK_LEN);
    Ok(blocks)
}

impl Pending {
    /// Opens the partial file that was found at the listing; `None` if the file is copied from its
    /// start.
    ///
    /// # Errors
    /// If it can't be opened, or has changed since the listing.
    pub(crate) fn open_partial(&self, filler: &Filler<'_>) -> Result<Option<Resumed>, Fault> {
        let (1.., Some(source), DirState::Open(node)) =
            (self.resumed, filler.job.source_id(&self.entry), &self.dir.state)
        else {
            return Ok(None);
        };
        let opened = node.handle().and_then(|dir| dir.resume(&self.name, &source));
        let (stage, blocks) = opened.map_err(failed)?;
        if blocks.len() as u64 != self.resumed {
            return Err(staging::written_meanwhile());
        }
        Ok(Some((self.with_zeros(filler.publisher.durability.with_early_write_out(stage)), blocks)))
    }

    /// Like [`Self::open_partial`], for a file whose source is open here. A partial file of
    /// another source is discarded, and the file is copied from its start.
    ///
    /// # Errors
    /// Also if the source can't be read, or has changed since the listing.
    pub(crate) fn open_partial_of(
        &mut self,
        filler: &Filler<'_>,
        source: &dyn SourceFile,
    ) -> Result<Option<Resumed>, Fault> {
        let Some((stage, blocks)) = self.open_partial(filler)? else { return Ok(None) };
        if !filling::matches_listing(source, &self.entry, true) {
            stage.discard();
            return Err(changed());
        }
        let control = filler.job.control;
        let is_same_source = match self.entry.ctime {
            _ if filler.job.plan.proves_resumed => {
                proving::begins_with_blocks(source, &blocks, control)?
            }
            Some(_) => true,
            None => proving::begins_with_stage(source, &*stage, &blocks, control)?,
        };
        if !is_same_source {
            stage.discard();
            filler.job.reporter.uncount_resumed(self.resumed * BLOCK_LEN);
            filler.job.warn(&self.dir.path_of(self.entry.name.as_ref()), REPLACED);
            self.resumed = 0;
            return Ok(None);
        }
        Ok(Some((stage, blocks)))
    }
}

fn failed(error: io::Error) -> Fault {
    Fault::from_io(Side::Destination, "resume the partial file", &error)
}

/// The warning about a partial file of another source.
const REPLACED: &str =
    "the source was replaced since its copy was interrupted: copying it from the start";

/// The fault of a source that is not the one of the partial file.
pub(crate) fn replaced() -> Fault {
    let message = "it was replaced since its copy was interrupted: its partial file is discarded";
    Fault::new(Side::Source, FaultKind::Changed, message)
}
