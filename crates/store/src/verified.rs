//! The proof that a stage has the right content. Content is written through an [`crate::Assembler`]
//! or a [`crate::Mover`], which own the stage and yield a [`Written`] or a [`Moved`]. Comparing
//! these with the expected hash or length yields a [`Verified`], and only a `Verified` can be
//! sealed. Code that publishes unverified content, or a stage with the proof of another, does not
//! compile.

use haul_model::{Attributes, BlockHash, ContentHash, Kept};
use std::fs::File;
use std::io;
use std::ops::Range;

/// A stage of any kind: content is written to it, and it is sealed when it is verified.
pub trait Staged: Sized {
    /// The stage with its content and metadata.
    type Sealed;

    /// Writes all of `bytes` at `offset`.
    ///
    /// # Errors
    /// Errors of writing.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Truncates or extends the file. The new part is a hole.
    ///
    /// # Errors
    /// Errors of writing.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Turns `range`, in bytes, into a hole. Returns `false` if it must be overwritten instead.
    fn punch_hole(&self, _range: Range<u64>) -> bool {
        false
    }

    /// True if runs of zeros become holes.
    fn writes_sparse(&self) -> bool {
        false
    }

    /// Records the hash of the next block, which must have been written, if a later job can resume
    /// the file.
    ///
    /// # Errors
    /// Errors of writing the record.
    fn record(&self, block: BlockHash) -> io::Result<()>;

    /// The open file, if there is one.
    fn handle(&self) -> Option<&File>;

    /// Ends the writing, and sets the `kept` part of the file's attributes.
    ///
    /// # Errors
    /// Errors of the system calls, and of earlier writes that are reported only now.
    fn seal(self, proof: Proof, attributes: &Attributes, kept: Kept) -> io::Result<Self::Sealed>;
}

/// The key to [`Staged::seal`]. Only [`Verified::seal`] creates one.
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

/// A stage whose content was hashed while it was written.
#[derive(Debug)]
pub struct Written<S> {
    stage: S,
    len: u64,
    hash: ContentHash,
    tail: ContentHash,
}

impl<S: Staged> Written<S> {
    /// Hashes and writes a whole content.
    ///
    /// # Errors
    /// Errors of writing.
    pub fn of(stage: S, content: &[u8]) -> io::Result<Self> {
        let hash = ContentHash::of(content);
        if !content.is_empty() {
            stage.write_at(content, 0)?;
        }
        // Nothing was written before, so the tail is everything.
        Ok(Self::new(stage, content.len() as u64, hash, hash))
    }
}

impl<S> Written<S> {
    pub(crate) fn new(stage: S, len: u64, hash: ContentHash, tail: ContentHash) -> Self {
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
    pub fn verify_hash(self, sent: &ContentHash) -> Result<Verified<S>, (S, Mismatch)> {
        let hash = self.hash;
        self.compare(sent, hash)
    }

    /// Verifies the hash of the tail, the part that this process wrote. The journal vouches for the
    /// rest.
    ///
    /// # Errors
    /// [`Mismatch::Hash`].
    pub fn verify_tail(self, sent: &ContentHash) -> Result<Verified<S>, (S, Mismatch)> {
        let tail = self.tail;
        self.compare(sent, tail)
    }

    fn compare(
        self,
        sent: &ContentHash,
        actual: ContentHash,
    ) -> Result<Verified<S>, (S, Mismatch)> {
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
    pub fn verify_len(self, len: u64) -> Result<Verified<S>, (S, Mismatch)> {
        let (hash, moved) = (self.hash, Moved { stage: self.stage, len: self.len });
        let verified = moved.verify_len(len)?;
        Ok(Verified { hash: Some(hash), ..verified })
    }
}

/// A stage whose content was not read by haul.
#[derive(Debug)]
pub struct Moved<S> {
    stage: S,
    len: u64,
}

impl<S: Staged> Moved<S> {
    /// A stage that was created as a clone of another file.
    ///
    /// # Errors
    /// Errors of `fstat`.
    pub fn shared(stage: S) -> io::Result<Self> {
        let file = stage.handle().ok_or(io::ErrorKind::Unsupported)?;
        let len = file.metadata()?.len();
        Ok(Self { stage, len })
    }
}

impl<S> Moved<S> {
    pub(crate) fn new(stage: S, len: u64) -> Self {
        Self { stage, len }
    }

    /// Verifies the length; see [`Written::verify_len`].
    ///
    /// # Errors
    /// [`Mismatch::Length`].
    pub fn verify_len(self, len: u64) -> Result<Verified<S>, (S, Mismatch)> {
        if self.len != len {
            return Err((self.stage, Mismatch::Length { expected: len, actual: self.len }));
        }
        Ok(Verified { stage: self.stage, hash: None })
    }
}

/// A stage whose content is complete and verified.
#[derive(Debug)]
pub struct Verified<S> {
    stage: S,
    hash: Option<ContentHash>,
}

impl<S> Verified<S> {
    /// The hash of the content, if it was hashed while it was written.
    pub fn hash(&self) -> Option<ContentHash> {
        self.hash
    }

    /// The stage.
    pub fn stage(&self) -> &S {
        &self.stage
    }

    /// Gives up the proof and returns the stage, which will not be published.
    pub fn into_stage(self) -> S {
        self.stage
    }
}

impl<S: Staged> Verified<S> {
    /// Ends the writing, and sets the `kept` part of the file's attributes.
    ///
    /// # Errors
    /// See [`Staged::seal`].
    pub fn seal(self, attributes: &Attributes, kept: Kept) -> io::Result<S::Sealed> {
        self.stage.seal(Proof(()), attributes, kept)
    }
}
