//! The content hash: BLAKE3 taken block by block.
//!
//! BLAKE3 is a binary tree over chunks of 1 KiB whose left subtrees are always
//! full (BLAKE3 specification, section 2.1). A block of 4 MiB that starts at a
//! multiple of its size is therefore a whole subtree, so one pass over the
//! content yields the chaining value of each block and, from those values
//! alone, the ordinary hash of the whole: the one that `b3sum` prints. Memory is for
//! the logarithm of their number.
//!
//! Zeros cost what other bytes cost, for a chunk's place in the file is part of its
//! hash. So a hole is vouched for block by block, and nobody can claim one that would
//! take the other side hours.
//!
//! [`BlockHash`], and resuming and finishing a tail, are for copies that are continued.

use blake3::hazmat::{
    ChainingValue, HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root,
};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Length of a block in bytes: the unit of hashing, resuming and striping.
pub const BLOCK_LEN: u64 = 4 << 20;

/// The chaining value of one whole block: what the hash of the content is
/// merged from. It differs by the block's place in the content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockHash(ChainingValue);

impl BlockHash {
    /// The hash of `block`, which begins at `index` times [`BLOCK_LEN`] in its
    /// content and is [`BLOCK_LEN`] bytes long.
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
        let mut hasher = blake3::Hasher::new();
        hasher.set_input_offset(index * BLOCK_LEN);
        Self(hasher)
    }

    /// Takes the next bytes; [`BLOCK_LEN`] in all.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Takes `len` zero bytes: a hole of a sparse file.
    pub fn update_zeros(&mut self, len: u64) {
        each_of_zeros(len, |zeros| self.update(zeros));
    }

    /// Bytes taken so far.
    pub fn len(&self) -> u64 {
        self.0.count()
    }

    /// True if nothing was taken yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The hash of the block, of which something was taken.
    pub fn finish(&self) -> BlockHash {
        BlockHash(self.0.finalize_non_root())
    }

    /// The hash of the content that the block is, if it is the first and the only one.
    pub fn finish_alone(&self) -> ContentHash {
        ContentHash(*self.0.finalize().as_bytes())
    }
}

/// The BLAKE3 hash of a file's content.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ContentHash([u8; 32]);

impl ContentHash {
    /// The hash of a content that is whole in memory.
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

/// The hashes of a content's blocks, merged as they come, in their order: memory for
/// the logarithm of their number.
#[derive(Clone)]
pub struct BlockTree {
    /// Chaining values of the subtrees that the blocks make, as large ones as there
    /// are (BLAKE3 specification, section 5.1.2). They are merged when the next block
    /// comes, and not before: the last merge may be the root.
    subtrees: Vec<ChainingValue>,
    /// How many blocks there are.
    len: u64,
    /// The last of them.
    last: Option<BlockHash>,
    /// Over the hashes of the blocks since [`Self::behind`] or [`Self::resume`].
    tail: blake3::Hasher,
}

impl BlockTree {
    /// A tree behind so many blocks, of which nothing is known: it can only tell the
    /// hash of the tail.
    pub fn behind(len: u64) -> Self {
        Self { subtrees: Vec::new(), len, last: None, tail: blake3::Hasher::new() }
    }

    /// A tree of these blocks, behind which the tail begins.
    pub fn resume(blocks: impl IntoIterator<Item = BlockHash>) -> Self {
        let mut tree = Self::behind(0);
        blocks.into_iter().for_each(|block| tree.push_known(block));
        tree
    }

    /// How many blocks there are.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The last block, if its hash is known.
    pub fn last(&self) -> Option<BlockHash> {
        self.last
    }

    /// Takes the next block. Only the last one of a content may be short.
    pub fn push(&mut self, block: BlockHash) {
        self.tail.update(&block.0);
        self.push_known(block);
    }

    /// The subtrees are merged first as far as they are complete: as many are left as
    /// the number of blocks has bits.
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

    /// Goes on with block number `index`; of those between nothing is known, and the
    /// tree can only tell the hash of the tail.
    fn skip_to(&mut self, index: u64) {
        self.subtrees.clear();
        self.len = index;
        self.last = None;
    }

    /// The hash of the content that these blocks are. `None` for less than two: the
    /// hash of a single block does not yield that of the whole.
    pub fn finish(&self) -> Option<ContentHash> {
        let (last, before) = self.subtrees.split_last()?;
        let (first, between) = before.split_first()?;
        let merge = |right: ChainingValue, left| merge_subtrees_non_root(left, &right, Mode::Hash);
        let right = between.iter().rev().fold(*last, merge);
        Some(ContentHash(*merge_subtrees_root(first, &right, Mode::Hash).as_bytes()))
    }

    /// A hash over the content behind where the tail begins, and over its place in the
    /// whole: BLAKE3 of the hashes of its blocks. It needs nothing of what is before, or
    /// was skipped.
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

    /// A hasher of what follows so many blocks, of which nothing is known: it can
    /// only hash the tail.
    pub fn behind(blocks: u64) -> Self {
        Self::after(BlockTree::behind(blocks))
    }

    /// A hasher that has seen the blocks with these hashes and nothing after.
    ///
    /// A content of exactly one block can't be finished from its block's hash
    /// alone: something must follow a single block.
    pub fn resume(blocks: impl IntoIterator<Item = BlockHash>) -> Self {
        Self::after(BlockTree::resume(blocks))
    }

    fn after(closed: BlockTree) -> Self {
        let mut current = blake3::Hasher::new();
        current.set_input_offset(closed.len.saturating_mul(BLOCK_LEN));
        Self { closed, current }
    }

    /// How many blocks were hashed in full.
    pub fn whole_blocks(&self) -> u64 {
        self.len() / BLOCK_LEN
    }

    /// The hash of block `index`, if it is the last that was hashed in full.
    pub fn block(&self, index: u64) -> Option<BlockHash> {
        if index.checked_add(1) != Some(self.whole_blocks()) {
            return None;
        }
        if self.current.count() == BLOCK_LEN {
            return Some(self.current_block());
        }
        self.closed.last
    }

    /// The hash of the last block, which may be short; `None` if nothing was taken.
    pub fn last(&self) -> Option<BlockHash> {
        (self.current.count() > 0).then(|| self.current_block())
    }

    fn current_block(&self) -> BlockHash {
        BlockHash(self.current.finalize_non_root())
    }

    /// Bytes hashed so far.
    pub fn len(&self) -> u64 {
        self.closed.len * BLOCK_LEN + self.current.count()
    }

    /// True if nothing was hashed yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes the next bytes of the content.
    pub fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            // A block is closed only when more follows: the last one of the
            // content may have to become the root instead.
            if self.current.count() == BLOCK_LEN {
                self.closed.push(self.current_block());
                // Not reset(): that keeps the offset of the block before.
                self.current = blake3::Hasher::new();
                self.current.set_input_offset(self.closed.len * BLOCK_LEN);
            }
            let room = (BLOCK_LEN - self.current.count()) as usize;
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.current.update(now);
            bytes = later;
        }
    }

    /// Takes the next block, which another hasher has taken: one for this very place. What
    /// was taken before is whole blocks.
    pub fn take(&mut self, block: &BlockHasher) {
        debug_assert!(self.len().is_multiple_of(BLOCK_LEN));
        if self.current.count() > 0 {
            self.closed.push(self.current_block());
        }
        self.current = block.0.clone();
    }

    /// Takes `len` zero bytes: a hole of a sparse file. It takes the time of as
    /// many others: a chunk's place in the content is part of its hash, so that
    /// no two subtrees of zeros have the same one.
    pub fn update_zeros(&mut self, len: u64) {
        each_of_zeros(len, |zeros| self.update(zeros));
    }

    /// Goes on with block number `index`, at or behind the end of what was hashed, which
    /// is whole blocks. Where it leaves blocks out, the hasher can only tell the hash of
    /// the tail from then on: that of those blocks that it was given.
    pub fn skip_to(&mut self, index: u64) {
        debug_assert!(self.len().is_multiple_of(BLOCK_LEN) && index >= self.whole_blocks());
        if index == self.whole_blocks() {
            return;
        }
        self.closed = self.blocks();
        self.closed.skip_to(index);
        self.current = blake3::Hasher::new();
        self.current.set_input_offset(index.saturating_mul(BLOCK_LEN));
    }

    /// The blocks so far, the last of which may be short.
    fn blocks(&self) -> BlockTree {
        let mut blocks = self.closed.clone();
        // Nothing has come since the hasher was resumed behind a whole block.
        if self.current.count() > 0 {
            blocks.push(self.current_block());
        }
        blocks
    }

    /// The hash of all that was taken.
    pub fn finish(&self) -> ContentHash {
        if self.closed.is_empty() {
            return ContentHash(*self.current.finalize().as_bytes());
        }
        // Of a single block nothing but its chaining value may be known, which is the
        // hash of no content.
        let blocks = self.blocks();
        blocks.finish().unwrap_or_else(|| blocks.finish_tail())
    }

    /// As [`BlockTree::finish_tail`].
    pub fn finish_tail(&self) -> ContentHash {
        self.blocks().finish_tail()
    }
}

/// Gives `len` zero bytes to `take`, in parts.
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
