//! Staged files of wanted files: creating them, and sealing them once their content is verified.

use crate::receiver::owners::loss_check;
use crate::receiver::publish::hold::{Filling, Whole};
use crate::receiver::{DirState, Filler, Pending, RecvDir};
use haul_model::{
    Attributes, BLOCK_LEN, ContentHash, Fault, FaultKind, Kind, OrFault, Side, Timestamp,
};
use haul_plan::Plan;
use haul_store::{Mover, Verified, Written};
use haul_tree::{SourceFile, StagedFile, TreeDir};
use std::io;
use std::sync::Arc;

impl Pending {
    /// The directory of the file.
    pub(crate) fn dir(&self) -> Arc<RecvDir> {
        Arc::clone(&self.dir)
    }

    /// Creates the staged file.
    pub(crate) fn stage(&self) -> Result<Box<dyn StagedFile>, Fault> {
        let stage = |dir: &dyn TreeDir| match &self.target.staging {
            Some(at) => dir.stage_at(at),
            None => dir.stage(),
        };
        self.prepared(self.begin(stage)?)
    }

    /// Prepares the staged file: reserves space and turns zeros into holes, as its file needs.
    fn prepared(&self, stage: Box<dyn StagedFile>) -> Result<Box<dyn StagedFile>, Fault> {
        let stage = self.with_zeros(stage);
        if self.target.preallocates {
            stage
                .reserve(self.entry.size())
                .or_fault(Side::Destination, "allocate space for the file")?;
        }
        Ok(stage)
    }

    /// Makes the staged file turn zeros into holes, if its file wants that.
    pub(crate) fn with_zeros(&self, mut stage: Box<dyn StagedFile>) -> Box<dyn StagedFile> {
        if self.target.writes_sparse {
            stage.write_sparse();
        }
        stage
    }

    /// True if `fault`, from writing blocks in any order, may not occur when writing in order: the
    /// file system may accept only that.
    pub(crate) fn should_retry_in_order(&self, fault: &Fault) -> bool {
        fault.side == Side::Destination && fault.kind == FaultKind::Io && self.is_sequential()
    }

    /// True if the file is large and the file system may accept only writes in order.
    pub(crate) fn needs_order(&self) -> bool {
        self.entry.size() > BLOCK_LEN && self.is_sequential()
    }

    /// True if the content is accepted without a hash. A file that is read again is hashed: the
    /// hash shows whether it has only grown.
    pub(crate) fn is_unhashed(&self, filler: &Filler<'_>) -> bool {
        let is_plain = self.resumed == 0 && self.reused.old.is_none() && !self.reading.is_retry;
        is_plain && filler.job.ends.accepts_unhashed
    }

    fn is_sequential(&self) -> bool {
        let DirState::Open(node) = &self.dir.state else { return false };
        node.handle().is_ok_and(|dir| !dir.supports_random_writes())
    }

    /// Creates the staged file. A large one can be resumed by a later job.
    pub(crate) fn stage_for(&self, filler: &Filler<'_>) -> Result<Box<dyn StagedFile>, Fault> {
        // Content that is read again is not the listed content.
        let source = filler.job.resumable(&self.entry).filter(|_| !self.reading.is_retry);
        let (Some(source), DirState::Open(node)) = (source, &self.dir.state) else {
            return self.stage();
        };
        let begun = node.handle().and_then(|dir| dir.resume(&self.name, &source));
        match begun {
            // There is a partial file now that did not exist at the listing: another process wrote
            // it.
            Ok((stage, blocks)) if !blocks.is_empty() => {
                drop(stage);
                Err(written_meanwhile())
            }
            Ok((stage, _)) => {
                self.prepared(filler.publisher.durability.with_early_write_out(stage))
            }
            Err(error) if affects_all_files(&error) => {
                Err(destination_fault("create a file in the directory", &error))
            }
            // The file system has no locks, or reports no owners. The copy continues, but can't be
            // resumed.
            Err(_) => self.stage(),
        }
    }

    /// Stages and publishes content that arrived whole.
    pub(crate) fn take_whole(
        &mut self,
        filler: &Filler<'_>,
        content: &[u8],
        mtime: Timestamp,
        hash: Option<ContentHash>,
    ) -> Result<Whole, Fault> {
        let len = content.len() as u64;
        let write = |error: io::Error| destination_fault("write", &error);
        let verified = match hash {
            Some(hash) => Written::of(self.stage()?, content).map_err(write)?.verify_hash(&hash),
            None if self.is_unhashed(filler) => {
                let mut into = Mover::new(self.stage()?);
                into.write(content).map_err(write)?;
                into.finish().map_err(write)?.verify_len(len)
            }
            None => return Err(missing_hash()),
        };
        let verified = verified.map_err(|(_, error)| {
            Fault::new(Side::Destination, FaultKind::Corrupt, error.to_string())
        })?;
        self.entry.kind = Kind::File { size: len };
        // The content arrives without its holes, but a later job only knows that there are some.
        let filling = if self.entry.has_holes { Filling::WithHoles } else { Filling::Dense };
        self.seal(&filler.job.plan, verified, mtime, filling)
    }

    /// Creates a staged file that shares the content of `source`. `None` if the file system can't
    /// do that, or the content must be read.
    pub(crate) fn shared(
        &self,
        filler: &Filler<'_>,
        source: &dyn SourceFile,
    ) -> Result<Option<Box<dyn StagedFile>>, Fault> {
        if !self.may_share(&filler.job, source) {
            return Ok(None);
        }
        let (stage, shares) = self.stage_sharing(source)?;
        Ok(shares.then_some(stage))
    }

    /// Creates a staged file, which shares the content of `source` if possible. Returns whether it
    /// does.
    pub(crate) fn stage_sharing(
        &self,
        source: &dyn SourceFile,
    ) -> Result<(Box<dyn StagedFile>, bool), Fault> {
        let (stage, shares) = self.begin(|dir| dir.stage_sharing(source))?;
        Ok((if shares { stage } else { self.prepared(stage)? }, shares))
    }

    fn begin<T>(&self, begin: impl FnOnce(&dyn TreeDir) -> io::Result<T>) -> Result<T, Fault> {
        let DirState::Open(node) = &self.dir.state else {
            return Err(crate::receiver::parent_fault());
        };
        node.handle()
            .and_then(|dir| begin(&*dir))
            .or_fault(Side::Destination, "create a file in the directory")
    }

    /// Sets the attributes of a verified staged file.
    pub(crate) fn seal(
        &self,
        plan: &Plan,
        verified: Verified,
        mtime: Timestamp,
        filling: Filling,
    ) -> Result<Whole, Fault> {
        // A later job can't distinguish a lost block from a hole.
        let filling = match filling {
            Filling::Dense if self.target.writes_sparse => Filling::WithHoles,
            filling => filling,
        };
        let sync_first = filling.needs_sync_first(self.entry.size(), verified.stage());
        if sync_first {
            verified.stage().expect_sync();
        }
        let hash = verified.hash();
        let attributes = Attributes { mtime, ..self.entry.attributes.clone() };
        let sealed = verified.seal(&attributes, plan.keeps);
        let sealed =
            sealed.map_err(|error| loss_check::not_kept(plan.moving, "finish the file", &error))?;
        Ok(Whole { sealed, hash, sync_first })
    }
}

/// The fault of a partial file that changed since its file was listed.
pub(crate) fn written_meanwhile() -> Fault {
    let message = "another haul wrote to it meanwhile";
    Fault::new(Side::Destination, FaultKind::Busy, message)
}

/// The fault of content that was sent without the requested hash.
pub(crate) fn missing_hash() -> Fault {
    Fault::new(Side::Destination, FaultKind::Corrupt, "it was sent without its hash")
}

pub(crate) fn destination_fault(action: &str, error: &io::Error) -> Fault {
    Fault::from_io(Side::Destination, action, error)
}

/// True if an error of a resumable staged file would occur with any other, too.
pub(crate) fn affects_all_files(error: &io::Error) -> bool {
    matches!(FaultKind::of(error), FaultKind::Busy | FaultKind::NoSpace | FaultKind::ReadOnly)
}
