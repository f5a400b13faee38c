//! The proof that a stage has the right content. Content is written through an [`crate::Assembler`]
//! or a [`crate::Mover`], which own the stage and yield a [`Written`] or a [`Moved`]. Comparing
//! these with the expected hash or length yields a [`Verified`], and only a `Verified` can be
//! sealed. Code that publishes unverified content, or a stage with the proof of another, does not
//! compile.

use crate::{SealedFile, StagedFile};
use haul_model::{Attributes, ContentHash, Kept};
use std::io;

/// The key to [`StagedFile::seal`]. Only [`Verified::seal`] creates one.
#[derive(Debug)]
pub struct Proof(());

/// The content is not the expected one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// The hashes differ.
    #[error("the content arrived with hash {actual} instead of {expected}")]
    Hash {
        /// The Sender's hash.
        expected: ContentHash,
        /// The hash of what was written.
        actual: ContentHash,
    },
    /// The lengths differ.
    #[error("{actual} bytes arrived instead of {expected}")]
    Length {
        /// The Sender's length, in bytes.
        expected: u64,
        /// The length of what was written, in bytes.
        actual: u64,
    },
}

/// The verified stage, or the stage and the reason why it is not.
pub type VerifyResult = Result<Verified, (Box<dyn StagedFile>, Mismatch)>;

/// A stage whose content was hashed while it was written.
#[derive(Debug)]
pub struct Written {
    stage: Box<dyn StagedFile>,
    len: u64,
    hash: ContentHash,
    tail: ContentHash,
}

impl Written {
    /// Hashes and writes a whole content.
    ///
    /// # Errors
    /// Errors of writing.
    pub fn of(stage: Box<dyn StagedFile>, content: &[u8]) -> io::Result<Self> {
        let hash = ContentHash::of(content);
        if !content.is_empty() {
            stage.write_at(content, 0)?;
        }
        // Nothing was written before, so the tail is everything.
        Ok(Self::new(stage, content.len() as u64, hash, hash))
    }

    pub(crate) fn new(
        stage: Box<dyn StagedFile>,
        len: u64,
        hash: ContentHash,
        tail: ContentHash,
    ) -> Self {
        Self { stage, len, hash, tail }
    }

    /// The hash of the written content.
    pub fn hash(&self) -> ContentHash {
        self.hash
    }

    /// Verifies that `sent` is the hash of the written content. Otherwise returns the stage, and
    /// the mismatch.
    ///
    /// # Errors
    /// [`Mismatch::Hash`].
    pub fn verify_hash(self, sent: &ContentHash) -> VerifyResult {
        let hash = self.hash;
        self.compare(sent, hash)
    }

    /// Verifies the hash of the tail, the part that this process wrote. The journal vouches for the
    /// rest.
    ///
    /// # Errors
    /// [`Mismatch::Hash`].
    pub fn verify_tail(self, sent: &ContentHash) -> VerifyResult {
        let tail = self.tail;
        self.compare(sent, tail)
    }

    fn compare(self, sent: &ContentHash, actual: ContentHash) -> VerifyResult {
        if *sent != actual {
            return Err((self.stage, Mismatch::Hash { expected: *sent, actual }));
        }
        Ok(Verified { stage: self.stage, hash: Some(self.hash) })
    }

    /// Verifies the copy of a local file by its length `len`. The source is not read a second time,
    /// as with `cp`.
    ///
    /// # Errors
    /// [`Mismatch::Length`].
    pub fn verify_len(self, len: u64) -> VerifyResult {
        let (hash, moved) = (self.hash, Moved { stage: self.stage, len: self.len });
        let verified = moved.verify_len(len)?;
        Ok(Verified { hash: Some(hash), ..verified })
    }
}

/// A stage whose content was not read by haul.
#[derive(Debug)]
pub struct Moved {
    stage: Box<dyn StagedFile>,
    len: u64,
}

impl Moved {
    /// A stage that was created as a clone of another file.
    ///
    /// # Errors
    /// Errors of `fstat`.
    pub fn shared(stage: Box<dyn StagedFile>) -> io::Result<Self> {
        let file = stage.handle().ok_or(io::ErrorKind::Unsupported)?;
        let len = file.metadata()?.len();
        Ok(Self { stage, len })
    }

    pub(crate) fn new(stage: Box<dyn StagedFile>, len: u64) -> Self {
        Self { stage, len }
    }

    /// Verifies the length; see [`Written::verify_len`].
    ///
    /// # Errors
    /// [`Mismatch::Length`].
    pub fn verify_len(self, len: u64) -> VerifyResult {
        if self.len != len {
            return Err((self.stage, Mismatch::Length { expected: len, actual: self.len }));
        }
        Ok(Verified { stage: self.stage, hash: None })
    }
}

/// A stage whose content is complete and verified.
#[derive(Debug)]
pub struct Verified {
    stage: Box<dyn StagedFile>,
    hash: Option<ContentHash>,
}

impl Verified {
    /// The hash of the content, if it was hashed while it was written.
    pub fn hash(&self) -> Option<ContentHash> {
        self.hash
    }

    /// The stage.
    pub fn stage(&self) -> &dyn StagedFile {
        &*self.stage
    }

    /// Gives up the proof and returns the stage, which will not be published.
    pub fn into_stage(self) -> Box<dyn StagedFile> {
        self.stage
    }

    /// Ends the writing, and sets the `kept` part of the file's attributes.
    ///
    /// # Errors
    /// See [`StagedFile::seal`].
    pub fn seal(self, attributes: &Attributes, kept: Kept) -> io::Result<Box<dyn SealedFile>> {
        self.stage.seal(Proof(()), attributes, kept)
    }
}
