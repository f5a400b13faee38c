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

/// The sender tells that a part of a file is in the receiver's old one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reuse {
    /// The file's number in the listing.
    pub index: u64,
    /// Where in the file the part begins, in bytes.
    pub at: u64,
    /// Where it begins in the old one, in bytes.
    pub from: u64,
    /// Its length in bytes: no more than a block of the content hash has.
    pub len: u32,
}
