//! Content that the Receiver has already: the sums of an old version's blocks, offered chunks, and
//! references to both.

use serde::{Deserialize, Serialize};

/// Maximum number of files whose sums were sent and that are not complete.
pub const SIGNED_MAX: usize = 64;

/// Maximum length of the sums of all these files together, in bytes.
pub const SUMS_LEN_MAX: usize = 32 << 20;

/// Maximum length of the sums in one frame, in bytes.
pub const SUMS_PER_FRAME_MAX: usize = 128 << 10;

/// The Receiver describes its old version of a file, before it requests the difference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the variants describe their fields")]
pub enum Signature {
    /// The cut of the old version into blocks. Their sums follow.
    ///
    /// - `index`: the file's number in the listing.
    /// - `old_size`: the old file's length, in bytes.
    /// - `block_len`: length of a block, in bytes; the last may be shorter.
    /// - `strong_len`: length of the strong part of a sum in bytes.
    /// - `key`: the key of the strong sums.
    Begin { index: u64, old_size: u64, block_len: u32, strong_len: u8, key: [u8; 32] },
    /// The next bytes of the sums.
    ///
    /// - `index`: the file's number in the listing.
    /// - `sums`: the bytes, at most [`SUMS_PER_FRAME_MAX`].
    Sums { index: u64, sums: Vec<u8> },
}

impl Signature {
    /// The file's number in the listing.
    pub fn index(&self) -> u64 {
        match self {
            Self::Begin { index, .. } | Self::Sums { index, .. } => *index,
        }
    }
}

/// Maximum number of chunks in one [`Offer`].
pub const OFFERED_PER_FRAME_MAX: usize = 256;

/// The chunks of a wanted file, before the Sender sends them. The first offer begins at the first
/// wanted block. Each further one begins at the end of the previous one, or at the next range of
/// wanted blocks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// The file's number in the listing.
    pub index: u64,
    /// The offset of the first chunk in the file, in bytes.
    pub at: u64,
    /// The consecutive chunks, at most [`OFFERED_PER_FRAME_MAX`].
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

/// The Receiver's answer to an [`Offer`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    /// The file's number in the listing.
    pub index: u64,
    /// The offset of the offer in bytes.
    pub at: u64,
    /// The chunks that the Receiver has, as ranges of their numbers in the offer.
    pub chunks: Vec<(u16, u16)>,
}

/// A reference to a part of a file that the Receiver has, in the old version or in chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reuse {
    /// The file's number in the listing.
    pub index: u64,
    /// The offset of the part in the file, in bytes.
    pub at: u64,
    /// The offset of the part in the old version, in bytes. `None` if it is in known chunks.
    pub from: Option<u64>,
    /// The length of the part in bytes, at most that of a block of the content hash.
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
