//! The cut of an old file into blocks, and the length of their sums.

use std::ops::Range;

/// Length of the rolling part of a sum, in bytes.
pub(crate) const WEAK_LEN: usize = 4;

/// The range of lengths of the strong part of a sum, in bytes.
const STRONG_LEN: Range<u8> = 2..17;

/// Number of bits in addition to those for the number of compared pairs. Two different blocks of a
/// file are confused with a probability of 1 to 2^10.
const SPARE_BITS: u32 = 10;

/// The cut of an old file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    old_len: u64,
    block_len: u32,
    strong_len: u8,
}

impl Shape {
    /// Minimum length of a block in bytes.
    pub const BLOCK_LEN_MIN: u32 = 64;
    /// Minimum length of a block in bytes if none is requested.
    const DEFAULT_LEN_MIN: u64 = 2 << 10;
    /// Maximum length of a block in bytes.
    pub const BLOCK_LEN_MAX: u32 = 4 << 20;
    /// Maximum number of blocks of a file.
    pub const BLOCKS_MAX: u64 = 1 << 21;

    /// The cut of a file of `old_len` bytes that becomes one of `new_len`. `requested_len` is the
    /// requested block length. By default it is about the number of blocks, which minimises the
    /// length of the sums plus the cost of a small change. `None` if the file is empty or too long.
    pub fn of(old_len: u64, new_len: u64, requested_len: Option<u32>) -> Option<Self> {
        let default_len = || old_len.isqrt().next_multiple_of(8).max(Self::DEFAULT_LEN_MIN);
        let len_min = old_len.div_ceil(Self::BLOCKS_MAX).max(u64::from(Self::BLOCK_LEN_MIN));
        let block_len = requested_len.map_or_else(default_len, u64::from).max(len_min);
        let block_len = u32::try_from(block_len).ok()?;
        let blocks = old_len.div_ceil(u64::from(block_len));
        let bits = |number: u64| number.checked_ilog2().unwrap_or(0);
        let pairs = bits(old_len.max(new_len)) + bits(blocks);
        let bytes = (pairs + SPARE_BITS).saturating_sub(8 * WEAK_LEN as u32).div_ceil(8);
        Self::new(old_len, block_len, (bytes as u8).max(STRONG_LEN.start))
    }

    /// The cut with these numbers. `None` if one is out of bounds.
    pub fn new(old_len: u64, block_len: u32, strong_len: u8) -> Option<Self> {
        let is_valid = (Self::BLOCK_LEN_MIN..=Self::BLOCK_LEN_MAX).contains(&block_len)
            && (1..=Self::BLOCKS_MAX).contains(&old_len.div_ceil(u64::from(block_len)))
            && STRONG_LEN.contains(&strong_len);
        is_valid.then_some(Self { old_len, block_len, strong_len })
    }

    /// Length of the old file in bytes.
    pub fn old_len(&self) -> u64 {
        self.old_len
    }

    /// Length of a block in bytes. The last block may be shorter.
    pub fn block_len(&self) -> usize {
        self.block_len as usize
    }

    /// Length of the strong part of a sum in bytes.
    pub fn strong_len(&self) -> u8 {
        self.strong_len
    }

    /// Number of blocks, at most [`Self::BLOCKS_MAX`]. The last one may be short.
    pub fn blocks(&self) -> usize {
        self.old_len.div_ceil(u64::from(self.block_len)) as usize
    }

    /// Length of the sum of a block in bytes.
    pub fn sum_len(&self) -> usize {
        WEAK_LEN + usize::from(self.strong_len)
    }

    /// Length of all sums in bytes.
    pub fn sums_len(&self) -> usize {
        self.blocks() * self.sum_len()
    }

    /// The range of a block in the old file, in bytes.
    pub fn block(&self, index: usize) -> Range<u64> {
        let start = index as u64 * u64::from(self.block_len);
        start..(start + u64::from(self.block_len)).min(self.old_len)
    }
}
