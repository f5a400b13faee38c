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
    ChainingValue, HasherExt, Mode, left_subtree_len, merge_subtrees_non_root, merge_subtrees_root,
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
#[derive(Debug)]
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

    /// Whether nothing was taken yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The hash of the block, of which something was taken.
    pub fn finish(&self) -> BlockHash {
        BlockHash(self.0.finalize_non_root())
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

    /// The hash of a content of `len` bytes, from the hashes of all its blocks,
    /// the last of which may be short.
    ///
    /// # Panics
    /// When there are not as many blocks as `len` asks for, or less than two:
    /// the hash of a single block does not yield that of the whole.
    pub fn of_blocks(blocks: &[BlockHash], len: u64) -> Self {
        assert!(blocks.len() >= 2, "a single block's hash is not the content's");
        assert_eq!(blocks.len() as u64, len.div_ceil(BLOCK_LEN), "every block has its hash");
        let blocks: Vec<ChainingValue> = blocks.iter().map(|block| block.0).collect();
        merge_root(&blocks, len)
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

/// Hashes a content from its start to its end, in memory that grows with the
/// logarithm of its length.
#[derive(Clone)]
pub struct ContentHasher {
    /// Chaining values of the subtrees that the closed blocks make, as large ones
    /// as there are (BLAKE3 specification, section 5.1.2). They are merged when
    /// the next block is closed, and not before: the last merge may be the root.
    subtrees: Vec<ChainingValue>,
    /// Blocks before the current one.
    closed: u64,
    /// Chaining value of the last of them.
    last: Option<ChainingValue>,
    /// Over the chaining values of the closed blocks that were hashed here.
    tail: blake3::Hasher,
    /// The current block; its input offset is `closed * BLOCK_LEN`.
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
        let (subtrees, tail) = (Vec::new(), blake3::Hasher::new());
        let mut current = blake3::Hasher::new();
        current.set_input_offset(blocks.saturating_mul(BLOCK_LEN));
        Self { subtrees, closed: blocks, last: None, tail, current }
    }

    /// A hasher that has seen the blocks with these hashes and nothing after.
    ///
    /// A content of exactly one block can't be finished from its block's hash
    /// alone: something must follow a single block.
    pub fn resume(blocks: impl IntoIterator<Item = BlockHash>) -> Self {
        let mut subtrees = Vec::new();
        let (mut closed, mut last) = (0, None);
        for block in blocks {
            push_subtree(&mut subtrees, closed, block.0);
            closed += 1;
            last = Some(block.0);
        }
        Self { subtrees, last, ..Self::behind(closed) }
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
            return Some(BlockHash(self.current.finalize_non_root()));
        }
        self.last.map(BlockHash)
    }

    /// Bytes hashed so far.
    pub fn len(&self) -> u64 {
        self.closed * BLOCK_LEN + self.current.count()
    }

    /// Whether nothing was hashed yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes the next bytes of the content.
    pub fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            // A block is closed only when more follows: the last one of the
            // content may have to become the root instead.
            if self.current.count() == BLOCK_LEN {
                self.close_block();
            }
            let room = (BLOCK_LEN - self.current.count()) as usize;
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.current.update(now);
            bytes = later;
        }
    }

    /// Takes `len` zero bytes: a hole of a sparse file. It takes the time of as
    /// many others: a chunk's place in the content is part of its hash, so that
    /// no two subtrees of zeros have the same one.
    pub fn update_zeros(&mut self, len: u64) {
        each_of_zeros(len, |zeros| self.update(zeros));
    }

    /// The hash of all that was taken.
    pub fn finish(&self) -> ContentHash {
        if self.closed == 0 {
            return ContentHash(*self.current.finalize().as_bytes());
        }
        let mut subtrees = self.subtrees.clone();
        // Nothing has come since the hasher was resumed behind a whole block.
        if self.current.count() > 0 {
            push_subtree(&mut subtrees, self.closed, self.current.finalize_non_root());
        }
        let mut right = subtrees.pop().unwrap_or_default();
        while let Some(left) = subtrees.pop() {
            if subtrees.is_empty() {
                return ContentHash(*merge_subtrees_root(&left, &right, Mode::Hash).as_bytes());
            }
            right = merge_subtrees_non_root(&left, &right, Mode::Hash);
        }
        // A single block, of which nothing but its chaining value is known.
        ContentHash(right)
    }

    /// A hash over the content from where the hasher began, or was resumed, and
    /// over its place in the whole: BLAKE3 of the hashes of these blocks, the last
    /// of which may be short. It needs nothing of what is before.
    pub fn finish_tail(&self) -> ContentHash {
        let mut tail = self.tail.clone();
        if self.current.count() > 0 {
            tail.update(&self.current.finalize_non_root());
        }
        ContentHash(*tail.finalize().as_bytes())
    }

    fn close_block(&mut self) {
        let block = self.current.finalize_non_root();
        push_subtree(&mut self.subtrees, self.closed, block);
        self.tail.update(&block);
        self.closed += 1;
        self.last = Some(block);
        // Not reset(): that keeps the offset of the block before.
        self.current = blake3::Hasher::new();
        self.current.set_input_offset(self.closed * BLOCK_LEN);
    }
}

/// Puts a block behind `before` others, whose subtrees are merged first as far as
/// they are complete: as many are left as `before` has bits.
fn push_subtree(subtrees: &mut Vec<ChainingValue>, before: u64, block: ChainingValue) {
    while subtrees.len() > before.count_ones() as usize {
        let (Some(right), Some(left)) = (subtrees.pop(), subtrees.pop()) else { break };
        subtrees.push(merge_subtrees_non_root(&left, &right, Mode::Hash));
    }
    subtrees.push(block);
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

/// How many blocks the left subtree of a content of `len` bytes holds; `len`
/// must be more than one block.
fn left_blocks(len: u64) -> usize {
    (left_subtree_len(len) / BLOCK_LEN) as usize
}

/// The hash of a content of `len` bytes in these `blocks`, at least two.
fn merge_root(blocks: &[ChainingValue], len: u64) -> ContentHash {
    let (left, right) = blocks.split_at(left_blocks(len));
    let left_len = left.len() as u64 * BLOCK_LEN;
    let root =
        merge_subtrees_root(&merge(left, left_len), &merge(right, len - left_len), Mode::Hash);
    ContentHash(*root.as_bytes())
}

/// The chaining value over `blocks`, which cover `len` bytes.
fn merge(blocks: &[ChainingValue], len: u64) -> ChainingValue {
    if let [only] = blocks {
        return *only;
    }
    let (left, right) = blocks.split_at(left_blocks(len));
    let left_len = left.len() as u64 * BLOCK_LEN;
    merge_subtrees_non_root(&merge(left, left_len), &merge(right, len - left_len), Mode::Hash)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn content(len: usize) -> Vec<u8> {
        (0..len).map(|i| (i * 31 + i / 977) as u8).collect()
    }

    fn in_steps(content: &[u8], step: usize) -> ContentHash {
        let mut hasher = ContentHasher::new();
        for part in content.chunks(step) {
            hasher.update(part);
        }
        assert_eq!(hasher.len(), content.len() as u64);
        hasher.finish()
    }

    #[test]
    fn the_hashes_of_all_blocks_yield_that_of_the_whole() {
        let block = BLOCK_LEN as usize;
        for len in [block + 1, 2 * block, 2 * block + 700, 3 * block - 1, 5 * block] {
            let content = content(len);
            let mut blocks = Vec::new();
            for (index, part) in (0..).zip(content.chunks(block)) {
                let mut hasher = BlockHasher::new(index);
                hasher.update(part);
                blocks.push(hasher.finish());
            }
            assert_eq!(ContentHash::of_blocks(&blocks, len as u64), ContentHash::of(&content));
        }
    }

    #[test]
    fn equals_plain_blake3_at_every_boundary() {
        let block = BLOCK_LEN as usize;
        for blocks in [0usize, 1, 2, 3, 4, 5, 7, 8] {
            for delta in [-1i64, 0, 1] {
                let Ok(len) = usize::try_from((blocks * block) as i64 + delta) else { continue };
                let bytes = content(len);
                assert_eq!(in_steps(&bytes, 1 << 20), ContentHash::of(&bytes), "{len} bytes");
            }
        }
    }

    #[test]
    fn zeros_hash_like_written_zeros() {
        let len = BLOCK_LEN as usize * 2 + 12_345;
        let mut hasher = ContentHasher::new();
        hasher.update(b"head");
        hasher.update_zeros(len as u64 - 4);
        let mut plain = vec![0; len];
        plain[..4].copy_from_slice(b"head");
        assert_eq!(hasher.finish(), ContentHash::of(&plain));
    }

    /// The hashes of the whole blocks of `bytes`.
    fn blocks_of(bytes: &[u8]) -> Vec<BlockHash> {
        let whole = bytes.chunks_exact(BLOCK_LEN as usize);
        (0..).zip(whole).map(|(index, block)| BlockHash::of(index, block)).collect()
    }

    #[test]
    fn a_resumed_hasher_ends_like_one_that_saw_all() {
        let bytes = content(BLOCK_LEN as usize * 3 + 77);
        let blocks = blocks_of(&bytes);
        for seen in 0..=3u64 {
            let mut resumed = ContentHasher::resume(blocks[..seen as usize].iter().copied());
            assert_eq!(resumed.len(), seen * BLOCK_LEN);
            resumed.update(&bytes[(seen * BLOCK_LEN) as usize..]);
            assert_eq!(resumed.finish(), ContentHash::of(&bytes), "after {seen} blocks");
        }
        for seen in 2..=3 {
            let all = ContentHasher::resume(blocks[..seen].iter().copied());
            assert_eq!(all.finish(), ContentHash::of(&bytes[..seen * BLOCK_LEN as usize]));
        }
    }

    #[test]
    fn the_last_whole_block_is_told_and_no_other() {
        let bytes = content(BLOCK_LEN as usize * 3 + 77);
        let blocks = blocks_of(&bytes);
        let mut hasher = ContentHasher::new();
        for (index, part) in (0..).zip(bytes.chunks(BLOCK_LEN as usize / 4)) {
            hasher.update(part);
            let whole = (index + 1) / 4;
            for block in 0..5 {
                let expected = (block + 1 == whole.min(3)).then(|| blocks[block as usize]);
                assert_eq!(hasher.block(block), expected, "block {block} after {index}");
            }
        }
        assert_eq!(ContentHasher::resume(blocks.clone()).block(2), Some(blocks[2]));
        assert_eq!(ContentHasher::behind(3).block(2), None);
        assert_eq!(hasher.block(u64::MAX), None);
    }

    #[test]
    fn a_tail_needs_nothing_of_what_is_before() {
        let bytes = content(BLOCK_LEN as usize * 3 + 77);
        let blocks = blocks_of(&bytes);
        let of = |mut hasher: ContentHasher, first: u64| {
            hasher.update(&bytes[(first * BLOCK_LEN) as usize..]);
            hasher.finish_tail()
        };
        let mut tails = Vec::new();
        for first in 0..=3u64 {
            let unknown = of(ContentHasher::behind(first), first);
            let known = ContentHasher::resume(blocks[..first as usize].iter().copied());
            assert_eq!(unknown, of(known, first), "from block {first}");
            assert!(!tails.contains(&unknown));
            tails.push(unknown);
        }
    }

    #[test]
    fn a_hasher_of_very_much_is_small() {
        let mut hasher = ContentHasher::behind(1 << 41);
        hasher.update(b"far behind");
        assert_eq!(hasher.len(), (1 << 63) + 10);
        let blocks = (0..10_000u32)
            .map(|block| BlockHash::from(*blake3::hash(&block.to_le_bytes()).as_bytes()));
        assert!(ContentHasher::resume(blocks).subtrees.len() <= 20);
    }

    #[test]
    fn prints_what_b3sum_prints() {
        assert_eq!(
            ContentHash::of(b"").to_string(),
            "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn resumed_after_any_number_of_blocks_it_is_the_hash_of_all(
            blocks in 2usize..40, end in 0u64..4 << 20,
        ) {
            // The naive twin merges what it has all in memory.
            let hash = |block: usize| BlockHash::from(*blake3::hash(&[block as u8]).as_bytes());
            let mut hashes: Vec<BlockHash> = (0..blocks).map(hash).collect();
            let mut hasher = ContentHasher::resume(hashes.iter().copied());
            prop_assert_eq!(hasher.finish(), ContentHash::of_blocks(&hashes, hasher.len()));
            hasher.update_zeros(end);
            if end > 0 {
                let mut last = BlockHasher::new(blocks as u64);
                last.update_zeros(end);
                hashes.push(last.finish());
            }
            prop_assert_eq!(hasher.finish(), ContentHash::of_blocks(&hashes, hasher.len()));
        }

        #[test]
        fn any_split_gives_the_same_hash(len in 0usize..10_000_000, step in 1000usize..6_000_000) {
            let bytes = content(len);
            prop_assert_eq!(in_steps(&bytes, step), ContentHash::of(&bytes));
        }
    }
}
