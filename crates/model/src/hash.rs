//! The content hash: BLAKE3 taken block by block.
//!
//! BLAKE3 is a binary tree over chunks of 1 KiB whose left subtrees are always full (BLAKE3
//! specification, section 2.1). A block of 4 MiB that starts at a multiple of its size is therefore
//! a whole subtree. One pass over the content yields the chaining value of each block. These values
//! merge into the ordinary hash of the content, as printed by `b3sum`. The memory is logarithmic in
//! the number of blocks.
//!
//! Zeros take as long as other bytes, because a chunk's position is part of its hash. So a hole has
//! a hash for each block, and a peer can't claim a hole that would take the other side hours.
//!
//! [`BlockHash`], and resuming and finishing a tail, serve copies that are resumed.

use blake3::hazmat::{
    ChainingValue, HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root,
};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Length of a block in bytes: the unit of hashing, resuming and striping.
pub const BLOCK_LEN: u64 = 4 << 20;

/// The chaining value of one whole block, from which the content hash is merged. It depends on the
/// block's position in the content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockHash(ChainingValue);

impl BlockHash {
    /// The hash of `block`, which begins at `index` times [`BLOCK_LEN`] and is [`BLOCK_LEN`] bytes
    /// long.
    pub fn of(index: u64, block: &[u8]) -> Self {
        debug_assert_eq!(block.len() as u64, BLOCK_LEN);
        let mut hasher = BlockHasher::new(index);
        hasher.update(block);
        hasher.finish()
    }

    /// The 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl From<[u8; 32]> for BlockHash {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

/// Hashes one block, from its start to its end.
#[derive(Debug, Clone)]
pub struct BlockHasher(blake3::Hasher);

impl BlockHasher {
    /// A hasher for the block that begins at `index` times [`BLOCK_LEN`].
    pub fn new(index: u64) -> Self {
        Self(hasher_at(index))
    }

    /// Adds the next bytes, [`BLOCK_LEN`] in all.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Adds `len` zero bytes: a hole of a sparse file.
    pub fn update_zeros(&mut self, len: u64) {
        each_of_zeros(len, |zeros| self.update(zeros));
    }

    /// Number of bytes so far.
    pub fn len(&self) -> u64 {
        self.0.count()
    }

    /// True if there are no bytes yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The hash of the block, which must not be empty.
    pub fn finish(&self) -> BlockHash {
        BlockHash(self.0.finalize_non_root())
    }

    /// The hash of the content if the block is all of it.
    pub fn finish_alone(&self) -> ContentHash {
        ContentHash(*self.0.finalize().as_bytes())
    }
}

/// The BLAKE3 hash of a file's content.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ContentHash([u8; 32]);

impl ContentHash {
    /// The hash of a whole content.
    pub fn of(content: &[u8]) -> Self {
        Self(*blake3::hash(content).as_bytes())
    }

    /// The 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl From<[u8; 32]> for ContentHash {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

/// Lower-case hexadecimal, as `b3sum` prints it.
impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&blake3::Hash::from_bytes(self.0).to_hex())
    }
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ContentHash({self})")
    }
}

/// The hashes of a content's blocks, merged in their order. The memory is logarithmic in their
/// number.
#[derive(Clone)]
pub struct BlockTree {
    /// Chaining values of the largest subtrees of the blocks (BLAKE3 specification, section 5.1.2).
    /// They are merged only when the next block follows, because the last merge may be the root.
    subtrees: Vec<ChainingValue>,
    /// Number of blocks.
    len: u64,
    /// The hash of the last block.
    last: Option<BlockHash>,
    /// The hash of the block hashes since [`Self::behind`] or [`Self::resume`].
    tail: blake3::Hasher,
}

impl BlockTree {
    /// A tree after `len` unknown blocks. It can only return the hash of the tail.
    pub fn behind(len: u64) -> Self {
        Self { subtrees: Vec::new(), len, last: None, tail: blake3::Hasher::new() }
    }

    /// A tree of these blocks. The tail begins after them.
    pub fn resume(blocks: impl IntoIterator<Item = BlockHash>) -> Self {
        let mut tree = Self::behind(0);
        blocks.into_iter().for_each(|block| tree.push_known(block));
        tree
    }

    /// Number of blocks.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// True if there are no blocks.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The hash of the last block, if it is known.
    pub fn last(&self) -> Option<BlockHash> {
        self.last
    }

    /// Adds the next block. Only the last one of a content may be short.
    pub fn push(&mut self, block: BlockHash) {
        self.tail.update(&block.0);
        self.push_known(block);
    }

    /// Adds a block. Complete subtrees are merged first: their number becomes the number of 1 bits
    /// in the number of blocks.
    fn push_known(&mut self, block: BlockHash) {
        let subtrees = &mut self.subtrees;
        while subtrees.len() > self.len.count_ones() as usize {
            let (Some(right), Some(left)) = (subtrees.pop(), subtrees.pop()) else { break };
            subtrees.push(merge_subtrees_non_root(&left, &right, Mode::Hash));
        }
        subtrees.push(block.0);
        self.len += 1;
        self.last = Some(block);
    }

    /// Continues with block `index`. The skipped blocks are unknown, so the tree can only return
    /// the hash of the tail.
    fn skip_to(&mut self, index: u64) {
        self.subtrees.clear();
        self.len = index;
        self.last = None;
    }

    /// The hash of the content of these blocks. `None` for less than two: it can't be computed from
    /// the hash of a single block.
    pub fn finish(&self) -> Option<ContentHash> {
        let (last, before) = self.subtrees.split_last()?;
        let (first, between) = before.split_first()?;
        let merge = |right: ChainingValue, left| merge_subtrees_non_root(left, &right, Mode::Hash);
        let right = between.iter().rev().fold(*last, merge);
        Some(ContentHash(*merge_subtrees_root(first, &right, Mode::Hash).as_bytes()))
    }

    /// The hash of the tail and its position: BLAKE3 of its block hashes. It does not depend on
    /// blocks before the tail or on skipped blocks.
    pub fn finish_tail(&self) -> ContentHash {
        ContentHash(*self.tail.finalize().as_bytes())
    }
}

/// Hashes a content from its start to its end.
#[derive(Clone)]
pub struct ContentHasher {
    /// The blocks before the current one.
    closed: BlockTree,
    /// The current block; its input offset is that of the blocks before.
    current: blake3::Hasher,
}

impl Default for ContentHasher {
    fn default() -> Self {
        Self::new()
    }
}

impl ContentHasher {
    /// A hasher that has seen nothing yet.
    pub fn new() -> Self {
        Self::behind(0)
    }

    /// A hasher after `blocks` unknown blocks. It can only hash the tail.
    pub fn behind(blocks: u64) -> Self {
        Self::after(BlockTree::behind(blocks))
    }

    /// A hasher after the blocks with these hashes.
    ///
    /// A content of exactly one block can't be finished from its block hash alone: something must
    /// follow a single block.
    pub fn resume(blocks: impl IntoIterator<Item = BlockHash>) -> Self {
        Self::after(BlockTree::resume(blocks))
    }

    fn after(closed: BlockTree) -> Self {
        let current = hasher_at(closed.len);
        Self { closed, current }
    }

    /// Number of blocks that were hashed completely.
    pub fn whole_blocks(&self) -> u64 {
        self.len() / BLOCK_LEN
    }

    /// The hash of block `index`, if it is the last that was hashed completely.
    pub fn block(&self, index: u64) -> Option<BlockHash> {
        if index.checked_add(1) != Some(self.whole_blocks()) {
            return None;
        }
        if self.current.count() == BLOCK_LEN {
            return Some(self.current_block());
        }
        self.closed.last
    }

    /// The hash of the last block, which may be short. `None` if there are no bytes.
    pub fn last(&self) -> Option<BlockHash> {
        (self.current.count() > 0).then(|| self.current_block())
    }

    fn current_block(&self) -> BlockHash {
        BlockHash(self.current.finalize_non_root())
    }

    /// Number of bytes so far.
    pub fn len(&self) -> u64 {
        self.closed.len * BLOCK_LEN + self.current.count()
    }

    /// True if there are no bytes yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds the next bytes of the content.
    pub fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            // A block is closed only when more follows, because the last one may become the root.
            if self.current.count() == BLOCK_LEN {
                self.closed.push(self.current_block());
                // Not reset(), which keeps the offset of the previous block.
                self.current = hasher_at(self.closed.len);
            }
            let room = (BLOCK_LEN - self.current.count()) as usize;
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.current.update(now);
            bytes = later;
        }
    }

    /// Adds the next block from its own hasher, which must have the right index. The content so far
    /// must be whole blocks.
    pub fn take(&mut self, block: &BlockHasher) {
        debug_assert!(self.len().is_multiple_of(BLOCK_LEN));
        if self.current.count() > 0 {
            self.closed.push(self.current_block());
        }
        self.current = block.0.clone();
    }

    /// Adds `len` zero bytes: a hole of a sparse file. It takes as long as other bytes. A chunk's
    /// position is part of its hash, so no two subtrees of zeros have the same hash.
    pub fn update_zeros(&mut self, len: u64) {
        each_of_zeros(len, |zeros| self.update(zeros));
    }

    /// Continues with block `index`, at or after the end of the content so far, which must be whole
    /// blocks. If blocks are skipped, the hasher can only return the hash of the tail, over the
    /// blocks that it was given.
    pub fn skip_to(&mut self, index: u64) {
        debug_assert!(self.len().is_multiple_of(BLOCK_LEN) && index >= self.whole_blocks());
        if index == self.whole_blocks() {
            return;
        }
        self.closed = self.blocks();
        self.closed.skip_to(index);
        self.current = hasher_at(index);
    }

    /// The blocks so far. The last one may be short.
    fn blocks(&self) -> BlockTree {
        let mut blocks = self.closed.clone();
        // No bytes were added since the hasher was resumed.
        if self.current.count() > 0 {
            blocks.push(self.current_block());
        }
        blocks
    }

    /// The hash of all content so far.
    pub fn finish(&self) -> ContentHash {
        if self.closed.is_empty() {
            return ContentHash(*self.current.finalize().as_bytes());
        }
        // Only the chaining value of a single block may be known, which is not the hash of a
        // content.
        let blocks = self.blocks();
        blocks.finish().unwrap_or_else(|| blocks.finish_tail())
    }

    /// See [`BlockTree::finish_tail`].
    pub fn finish_tail(&self) -> ContentHash {
        self.blocks().finish_tail()
    }
}

/// A hasher for the block `index`.
fn hasher_at(index: u64) -> blake3::Hasher {
    let mut hasher = blake3::Hasher::new();
    hasher.set_input_offset(index.saturating_mul(BLOCK_LEN));
    hasher
}

/// Passes `len` zero bytes to `take`, in parts.
fn each_of_zeros(mut len: u64, mut take: impl FnMut(&[u8])) {
    const ZEROS: &[u8] = &[0; 64 << 10];
    while len > 0 {
        let now = len.min(ZEROS.len() as u64);
        take(&ZEROS[..now as usize]);
        len -= now;
    }
}

#[cfg(test)]
#[path = "hash_tests.rs"]
mod tests;
