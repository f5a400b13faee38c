//! The position in the content of a file that is being read, and its hash where one is wanted.

use haul_model::{BLOCK_LEN, BlockHash, ContentHash, ContentHasher};
use haul_tree::SharedBlock;

/// The content that was read so far.
pub(super) enum Passed {
    /// It was hashed.
    Hashed(Box<ContentHasher>),
    /// It was only counted, in bytes, because no hash is wanted.
    Counted(u64),
}

impl Passed {
    /// The position after `blocks` blocks. The content after it is hashed unless `is_counted`.
    pub(super) fn behind(blocks: u64, is_counted: bool) -> Self {
        match is_counted {
            true => Self::Counted(blocks * BLOCK_LEN),
            false => Self::Hashed(Box::new(ContentHasher::behind(blocks))),
        }
    }

    /// The current position, in bytes.
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Hashed(hasher) => hasher.len(),
            Self::Counted(len) => *len,
        }
    }

    /// Adds the next bytes.
    pub(super) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Hashed(hasher) => hasher.update(bytes),
            Self::Counted(len) => *len += bytes.len() as u64,
        }
    }

    /// Adds the next block. The current position must be a block boundary.
    pub(super) fn take(&mut self, block: &SharedBlock) {
        match self {
            Self::Hashed(hasher) => hasher.take(block.hasher()),
            Self::Counted(len) => *len += block.bytes().len() as u64,
        }
    }

    /// Adds a hole of `len` zero bytes.
    pub(super) fn update_zeros(&mut self, len: u64) {
        match self {
            Self::Hashed(hasher) => hasher.update_zeros(len),
            Self::Counted(counted) => *counted += len,
        }
    }

    /// Continues at block `index`, like [`ContentHasher::skip_to`].
    pub(super) fn skip_to(&mut self, index: u64) {
        match self {
            Self::Hashed(hasher) => hasher.skip_to(index),
            Self::Counted(len) => *len = index * BLOCK_LEN,
        }
    }

    /// The hash of block `index`, if the position is exactly at its end. The inner `None` means
    /// that no hash is wanted.
    pub(super) fn block(&self, index: u64) -> Option<Option<BlockHash>> {
        match self {
            Self::Hashed(hasher) => hasher.block(index).map(Some),
            Self::Counted(len) => (Some(*len) == end_of(index)).then_some(None),
        }
    }

    /// The hash of the last block, which may be short, if one is wanted.
    pub(super) fn last(&self) -> Option<BlockHash> {
        match self {
            Self::Hashed(hasher) => hasher.last(),
            Self::Counted(_) => None,
        }
    }

    /// The hash of everything that was read, if one is wanted. With `tail`, the hash of the tail
    /// alone.
    pub(super) fn finish(&self, tail: bool) -> Option<ContentHash> {
        match self {
            Self::Hashed(hasher) if tail => Some(hasher.finish_tail()),
            Self::Hashed(hasher) => Some(hasher.finish()),
            Self::Counted(_) => None,
        }
    }
}

/// The end of block `index`, in bytes.
fn end_of(index: u64) -> Option<u64> {
    index.checked_add(1)?.checked_mul(BLOCK_LEN)
}
