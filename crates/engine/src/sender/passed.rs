//! The position in the content of a file that is being read, and its hash where one is wanted.

use haul_model::{BLOCK_LEN, BlockHash, ContentHash, ContentHasher};
use haul_tree::SharedBlock;

/// The part of a content that was read.
pub(super) enum Passed {
    /// It was hashed.
    Hashed(Box<ContentHasher>),
    /// It was counted, in bytes: nobody asks for a hash.
    Counted(u64),
}

impl Passed {
    /// The part behind so many blocks; it is hashed unless that `is_counted`.
    pub(super) fn behind(blocks: u64, is_counted: bool) -> Self {
        match is_counted {
            true => Self::Counted(blocks * BLOCK_LEN),
            false => Self::Hashed(Box::new(ContentHasher::behind(blocks))),
        }
    }

    /// Where in the content it continues, in bytes.
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Hashed(hasher) => hasher.len(),
            Self::Counted(len) => *len,
        }
    }

    /// Takes the next bytes.
    pub(super) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Hashed(hasher) => hasher.update(bytes),
            Self::Counted(len) => *len += bytes.len() as u64,
        }
    }

    /// Takes the next block, which begins where one does.
    pub(super) fn take(&mut self, block: &SharedBlock) {
        match self {
            Self::Hashed(hasher) => hasher.take(block.hasher()),
            Self::Counted(len) => *len += block.bytes().len() as u64,
        }
    }

    /// Takes `len` zero bytes: a hole.
    pub(super) fn update_zeros(&mut self, len: u64) {
        match self {
            Self::Hashed(hasher) => hasher.update_zeros(len),
            Self::Counted(counted) => *counted += len,
        }
    }

    /// Goes on with block `index`, as [`ContentHasher::skip_to`].
    pub(super) fn skip_to(&mut self, index: u64) {
        match self {
            Self::Hashed(hasher) => hasher.skip_to(index),
            Self::Counted(len) => *len = index * BLOCK_LEN,
        }
    }

    /// The end of block `index`, if all of it was read and nothing behind it: its
    /// hash, where one is wanted.
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

    /// The hash of all that was read, if one is wanted; of its `tail` alone, if it
    /// is that.
    pub(super) fn finish(&self, tail: bool) -> Option<ContentHash> {
        match self {
            Self::Hashed(hasher) if tail => Some(hasher.finish_tail()),
            Self::Hashed(hasher) => Some(hasher.finish()),
            Self::Counted(_) => None,
        }
    }
}

/// Where block `index` ends, in bytes.
fn end_of(index: u64) -> Option<u64> {
    index.checked_add(1)?.checked_mul(BLOCK_LEN)
}
