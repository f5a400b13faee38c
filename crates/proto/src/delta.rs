//! Files of which the receiver has another version: the sums of its blocks, and what of it
//! the new one has again.

use serde::{Deserialize, Serialize};

/// The most files whose sums were told and that were not sent to their end.
pub const SIGNED_MAX: usize = 64;

/// The longest sums of all these together, in bytes.
pub const SUMS_LEN_MAX: usize = 32 << 20;

/// Longest sums in one frame, in bytes.
pub const SUMS_PER_FRAME_MAX: usize = 128 << 10;

/// The receiver tells of a file that it has another version of, before it wants the
/// difference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Signature {
    /// How that is cut into blocks, whose sums follow.
    Begin {
        /// The file's number in the listing.
        index: u64,
        /// The old file's length, in bytes.
        old_size: u64,
        /// Length of a block, in bytes; the last may be shorter.
        block_len: u32,
        /// Length of the strong part of a sum, in bytes.
        strong_len: u8,
        /// The key of these.
        key: [u8; 32],
    },
    /// The next bytes of the sums.
    Sums {
        /// The file's number in the listing.
        index: u64,
        /// The bytes, at most [`SUMS_PER_FRAME_MAX`].
        sums: Vec<u8>,
    },
}

impl Signature {
    /// The file's number in the listing.
    pub fn index(&self) -> u64 {
        match self {
            Self::Begin { index, .. } | Self::Sums { index, .. } => *index,
        }
    }
}

/// Chunks in one [`Offer`], at most.
pub const OFFERED_PER_FRAME_MAX: usize = 256;

/// The sender tells the chunks of a wanted file before it sends them. The first offer of a file
/// begins where its first wanted block does, and each one where the one before it ended, or where
/// the next range of wanted blocks begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// The file's number in the listing.
    pub index: u64,
    /// Where in the file the first chunk begins, in bytes.
    pub at: u64,
    /// The chunks, which follow each other: at most [`OFFERED_PER_FRAME_MAX`].
    pub chunks: Vec<OfferedChunk>,
}

/// A chunk of an [`Offer`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfferedChunk {
    /// Its length, in bytes.
    pub len: u32,
    /// Its BLAKE3 hash.
    pub hash: [u8; 32],
}

/// The receiver's answer to an [`Offer`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    /// The file's number in the listing.
    pub index: u64,
    /// Where the offer began, in bytes.
    pub at: u64,
    /// The chunks of the offer that the receiver has, as ranges of their numbers in the offer.
    pub chunks: Vec<(u16, u16)>,
}

/// The sender tells that the receiver has a part of a file: in the old version, or as chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reuse {
    /// The file's number in the listing.
    pub index: u64,
    /// Where in the file the part begins, in bytes.
    pub at: u64,
    /// Where it begins in the old version, in bytes; `None` if it is of known chunks.
    pub from: Option<u64>,
    /// Its length in bytes: no more than a block of the content hash has.
    pub len: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_that_of_one_file() {
        let sums = Signature::Sums { index: 7, sums: Vec::new() };
        let key = [0; 32];
        let begin = Signature::Begin { index: 8, old_size: 1, block_len: 2, strong_len: 3, key };
        assert_eq!((sums.index(), begin.index()), (7, 8));
    }
}
