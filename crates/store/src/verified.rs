//! The proof that a staged content is the one that was meant. Publishing takes
//! such a proof by value, so unverified content can't be published: that does
//! not compile.

use haul_model::ContentHash;

/// Proof that a content is whole and right.
#[derive(Debug)]
pub struct Verified(());

/// The content is not what it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// The hashes differ.
    #[error("the content that arrived has the hash {actual}, the one that was sent has {expected}")]
    Hash {
        /// The sender's hash.
        expected: ContentHash,
        /// The hash of what was written.
        actual: ContentHash,
    },
    /// The lengths differ.
    #[error("{actual} bytes arrived where {expected} were expected")]
    Length {
        /// The sender's length, in bytes.
        expected: u64,
        /// The length of what was written, in bytes.
        actual: u64,
    },
}

impl Verified {
    /// The hash of what was written is the hash of what was sent.
    ///
    /// # Errors
    /// [`Mismatch::Hash`] if it isn't.
    pub fn by_hash(expected: &ContentHash, actual: &ContentHash) -> Result<Self, Mismatch> {
        if expected == actual {
            return Ok(Self(()));
        }
        Err(Mismatch::Hash { expected: *expected, actual: *actual })
    }

    /// The kernel moved the whole content from one open file to another on
    /// this machine: there is no second look at it, as with `cp`.
    ///
    /// # Errors
    /// [`Mismatch::Length`] if not all of it was moved.
    pub fn by_local_copy(expected: u64, actual: u64) -> Result<Self, Mismatch> {
        if expected == actual {
            return Ok(Self(()));
        }
        Err(Mismatch::Length { expected, actual })
    }
}
