//! The proof that a staged content is the one that was meant. Content is written
//! through an [`crate::Assembler`] or a [`crate::Mover`], which own the stage and yield a
//! [`Written`] or a [`Moved`]; only a comparison of what these know of their own bytes
//! makes a [`Verified`], and only that can be sealed. So nothing else can be published,
//! nor one stage by the proof of another: that does not compile.

use haul_model::{Attributes, BlockHash, ContentHash, Kept};
use std::fs::File;
use std::io;
use std::ops::Range;

/// A stage of any kind: what content is written to, and what is sealed when it is
/// verified.
pub trait Staged: Sized {
    /// The stage when it has its content and its metadata.
    type Sealed;

    /// Writes all of `bytes` at `offset`.
    ///
    /// # Errors
    /// Those of writing.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Cuts or extends the file; what is added is a hole.
    ///
    /// # Errors
    /// Those of writing.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Has `range`, in bytes, be a hole, whatever is there; `false` where it has to be
    /// written over.
    fn clear(&self, _range: Range<u64>) -> bool {
        false
    }

    /// True if runs of zeros are not written, but passed as holes.
    fn leaves_zeros(&self) -> bool {
        false
    }

    /// Records the hash of the next block, which was written, where the file can be
    /// continued by a later job.
    ///
    /// # Errors
    /// Those of keeping the record.
    fn record(&self, block: BlockHash) -> io::Result<()>;

    /// The open file, where there is one.
    fn handle(&self) -> Option<&File>;

    /// Ends the writing, and gives the file those of its attributes that are `kept`.
    ///
    /// # Errors
    /// Those of the operations, and of writes that are told of only now.
    fn seal(self, proof: Proof, attributes: &Attributes, kept: Kept) -> io::Result<Self::Sealed>;
}

/// The key to [`Staged::seal`]: [`Verified::seal`] alone makes one.
#[derive(Debug)]
pub struct Proof(());

/// The content is not what it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// The hashes differ.
    #[error("the content arrived with hash {actual} instead of {expected}")]
    Hash {
        /// The sender's hash.
        expected: ContentHash,
        /// The hash of what was written.
        actual: ContentHash,
    },
    /// The lengths differ.
    #[error("{actual} bytes arrived instead of {expected}")]
    Length {
        /// The sender's length, in bytes.
        expected: u64,
        /// The length of what was written, in bytes.
        actual: u64,
    },
}

/// A stage with a content that was hashed as it was written.
#[derive(Debug)]
pub struct Written<S> {
    stage: S,
    len: u64,
    hash: ContentHash,
    tail: ContentHash,
}

impl<S: Staged> Written<S> {
    /// Hashes and writes a content that is whole in memory.
    ///
    /// # Errors
    /// Those of writing.
    pub fn of(stage: S, content: &[u8]) -> io::Result<Self> {
        let hash = ContentHash::of(content);
        if !content.is_empty() {
            stage.write_at(content, 0)?;
        }
        // Nothing of it was there before.
        Ok(Self::new(stage, content.len() as u64, hash, hash))
    }
}

impl<S> Written<S> {
    pub(crate) fn new(stage: S, len: u64, hash: ContentHash, tail: ContentHash) -> Self {
        Self { stage, len, hash, tail }
    }

    /// The hash of what was written.
    pub fn hash(&self) -> ContentHash {
        self.hash
    }

    /// The proof, if `sent` is the hash of what was written; else the stage, and why.
    ///
    /// # Errors
    /// [`Mismatch::Hash`].
    pub fn is_sent(self, sent: &ContentHash) -> Result<Verified<S>, (S, Mismatch)> {
        let hash = self.hash;
        self.equals(sent, hash)
    }

    /// The same by the hash of the tail, of what was written by this process: what was
    /// there before is known by its record.
    ///
    /// # Errors
    /// [`Mismatch::Hash`].
    pub fn is_sent_tail(self, sent: &ContentHash) -> Result<Verified<S>, (S, Mismatch)> {
        let tail = self.tail;
        self.equals(sent, tail)
    }

    fn equals(self, sent: &ContentHash, actual: ContentHash) -> Result<Verified<S>, (S, Mismatch)> {
        if *sent != actual {
            return Err((self.stage, Mismatch::Hash { expected: *sent, actual }));
        }
        Ok(Verified { stage: self.stage, hash: Some(self.hash) })
    }

    /// A copy of a file of this machine, `len` bytes long, is proven by its length: there
    /// is no second look at the source, as with `cp`.
    ///
    /// # Errors
    /// [`Mismatch::Length`].
    pub fn is_whole(self, len: u64) -> Result<Verified<S>, (S, Mismatch)> {
        let (hash, moved) = (self.hash, Moved { stage: self.stage, len: self.len });
        let verified = moved.is_whole(len)?;
        Ok(Verified { hash: Some(hash), ..verified })
    }
}

/// A stage with a content at whose bytes nobody looked.
#[derive(Debug)]
pub struct Moved<S> {
    stage: S,
    len: u64,
}

impl<S: Staged> Moved<S> {
    /// A stage that was made as one that shares the whole content of another file.
    ///
    /// # Errors
    /// Those of `fstat`.
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

    /// As [`Written::is_whole`].
    ///
    /// # Errors
    /// [`Mismatch::Length`].
    pub fn is_whole(self, len: u64) -> Result<Verified<S>, (S, Mismatch)> {
        if self.len != len {
            return Err((self.stage, Mismatch::Length { expected: len, actual: self.len }));
        }
        Ok(Verified { stage: self.stage, hash: None })
    }
}

/// A stage with a content that is whole and right.
#[derive(Debug)]
pub struct Verified<S> {
    stage: S,
    hash: Option<ContentHash>,
}

impl<S> Verified<S> {
    /// The hash of the content, if it was hashed as it was written.
    pub fn hash(&self) -> Option<ContentHash> {
        self.hash
    }

    /// The stage.
    pub fn stage(&self) -> &S {
        &self.stage
    }

    /// Gives up the proof: the content is not to be published after all.
    pub fn into_stage(self) -> S {
        self.stage
    }
}

impl<S: Staged> Verified<S> {
    /// Ends the writing, and gives the file those of its attributes that are `kept`.
    ///
    /// # Errors
    /// Those of [`Staged::seal`].
    pub fn seal(self, attributes: &Attributes, kept: Kept) -> io::Result<S::Sealed> {
        self.stage.seal(Proof(()), attributes, kept)
    }
}
