//! How a file of this machine, or of a host's server, gets into its stage: continued,
//! block by block, shared, or in one go.

use super::dirs::DirState;
use super::hold::Filling;
use super::work::destination;
use super::{Pending, Receiver, Resumed};
use crate::copy::{self, Step};
use haul_model::{BLOCK_LEN, ContentHash, ContentHasher, Fault};
use haul_store::RESUME_LEN_MIN;
use haul_tree::{SourceFile, StagedFile};

/// A file whose content is copied into a stage.
pub(super) struct Copying<'c, 'a> {
    pub(super) receiver: &'c Receiver<'a>,
    pub(super) source: &'c dyn SourceFile,
    /// Its length when it was opened, in bytes.
    pub(super) size: u64,
}

/// A stage with the content of a file, or with a part of it and why there is no more.
pub(super) struct Filled {
    pub(super) stage: Box<dyn StagedFile>,
    /// Its length in bytes, and its hash, where it was hashed.
    pub(super) copied: Result<(u64, Option<ContentHash>), Fault>,
    pub(super) filling: Filling,
}

/// Counts how far a copy has come.
type Count<'c> = dyn FnMut(Step) + Send + 'c;

impl Copying<'_, '_> {
    /// Goes on with a stage that an earlier job has left.
    pub(super) fn go_on(
        &self,
        pending: &mut Pending,
        (stage, blocks): Resumed,
        count: &mut Count<'_>,
    ) -> Result<Filled, Fault> {
        if let Some(shared) = pending.shared(self.receiver, self.source)? {
            // What is there was copied because somebody had to look at it then.
            stage.discard();
            let there = pending.resumed * BLOCK_LEN;
            count(Step::Moved(self.size.saturating_sub(there)));
            return Ok(self.shared(shared));
        }
        let copied = copy::blocks(self.source, &*stage, blocks, self.receiver.control, count);
        Ok(Filled::hashed(stage, copied))
    }

    /// Copies block by block, into a stage that can be continued, or, with `in_lanes`,
    /// over several connections.
    pub(super) fn by_blocks(
        &self,
        pending: &mut Pending,
        in_lanes: bool,
        scratch: &mut copy::Scratch,
        count: &mut Count<'_>,
    ) -> Result<Filled, Fault> {
        let (source, control) = (self.source, self.receiver.control);
        if let Some(shared) = pending.shared(self.receiver, source)? {
            count(Step::Moved(self.size));
            return Ok(self.shared(shared));
        }
        let stage = pending.stage_for(self.receiver)?;
        if in_lanes {
            stage.set_len(self.size).map_err(|error| destination("write", &error))?;
        }
        match copy::blocks(source, &*stage, Vec::new(), control, count) {
            Err(fault) if stage.is_sound() && pending.may_be_sequential(&fault) => {
                stage.discard();
                // The figures have some of it already.
                self.in_order(pending.stage()?, scratch, &mut |_| {})
            }
            copied => Ok(Filled::hashed(stage, copied)),
        }
    }

    /// Copies in one go, or shares the content, where both can do that.
    pub(super) fn at_once(
        &self,
        pending: &mut Pending,
        scratch: &mut copy::Scratch,
        count: &mut Count<'_>,
    ) -> Result<Filled, Fault> {
        let asks = self.size > copy::WHOLE_MAX && pending.may_share(self.receiver, self.source);
        let (stage, shares) =
            if asks { pending.stage_sharing(self.source)? } else { (pending.stage()?, false) };
        let is_large = self.size >= RESUME_LEN_MIN;
        let stage = if is_large { self.receiver.written_out(stage) } else { stage };
        if shares {
            count(Step::Moved(self.size));
            return Ok(self.shared(stage));
        }
        self.in_order(stage, scratch, count)
    }

    /// Copies from the beginning to the end; hashes what is to be verified.
    fn in_order(
        &self,
        stage: Box<dyn StagedFile>,
        scratch: &mut copy::Scratch,
        count: &mut Count<'_>,
    ) -> Result<Filled, Fault> {
        let mut hasher = self.receiver.policy.verify.then(ContentHasher::new);
        let (hash, control) = (hasher.as_mut(), self.receiver.control);
        let copied = copy::content(self.source, &*stage, scratch, hash, control, count);
        let copied = copied.map(|len| (len, hasher.map(|hasher| hasher.finish())));
        Ok(Filled { stage, copied, filling: Filling::Dense })
    }

    /// A stage that shares the whole content.
    fn shared(&self, stage: Box<dyn StagedFile>) -> Filled {
        Filled { stage, copied: Ok((self.size, None)), filling: Filling::Shared }
    }
}

impl Filled {
    /// One whose content was hashed.
    fn hashed(stage: Box<dyn StagedFile>, copied: Result<(u64, ContentHash), Fault>) -> Self {
        let copied = copied.map(|(len, whole)| (len, Some(whole)));
        Self { stage, copied, filling: Filling::Dense }
    }
}

impl Pending {
    /// True if nobody has to look at the bytes of `source`, and they are where the
    /// copy will be.
    pub(super) fn may_share(&self, receiver: &Receiver<'_>, source: &dyn SourceFile) -> bool {
        let DirState::Open(node) = &self.dir.state else { return false };
        !receiver.policy.verify
            && source.handle().is_some()
            && node.handle().is_ok_and(|dir| dir.shares_content())
    }
}
