//! A set of a content's blocks, as a peer requests them.

use crate::BLOCK_LEN;
use serde::{Deserialize, Serialize};

/// A set of blocks of [`BLOCK_LEN`] bytes, stored as the block numbers at which its ranges begin
/// and end, in turn. A last range without an end reaches to the end of the content.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "Vec<u64>")]
pub struct BlockRanges {
    /// Strictly ascending.
    bounds: Box<[u64]>,
}

/// A range of blocks. Its end is excluded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockRange {
    /// The first block.
    pub start: u64,
    /// The first block after the range. `None` for the end of the content.
    pub end: Option<u64>,
}

impl BlockRanges {
    /// Maximum number of bounds in a set: a short message must not cost much memory.
    pub const BOUNDS_MAX: usize = 128;

    /// No block.
    pub fn none() -> Self {
        Self::default()
    }

    /// All blocks from `first` on.
    pub fn from(first: u64) -> Self {
        Self { bounds: Box::new([first]) }
    }

    /// All blocks.
    pub fn all() -> Self {
        Self::from(0)
    }

    /// True if the set is empty.
    pub fn is_empty(&self) -> bool {
        self.bounds.is_empty()
    }

    /// True if the set contains all blocks of any content.
    pub fn is_all(&self) -> bool {
        *self.bounds == [0]
    }

    /// The ranges, in ascending order. None is empty, and no two touch.
    pub fn iter(&self) -> impl Iterator<Item = BlockRange> {
        let range = |bounds: &[u64]| BlockRange { start: bounds[0], end: bounds.get(1).copied() };
        self.bounds.chunks(2).map(range)
    }

    /// True if each range begins within a content of `size` bytes, or at its end.
    pub fn begin_within(&self, size: u64) -> bool {
        let is_within = |range: BlockRange| {
            range.start.checked_mul(BLOCK_LEN).is_some_and(|start| start <= size)
        };
        self.iter().last().is_none_or(is_within)
    }

    /// Number of bytes of a content of `size` bytes that are in none of the ranges.
    pub fn unwanted_len(&self, size: u64) -> u64 {
        size - self
            .iter()
            .map(|range| range.bytes(size))
            .map(|(start, end)| end - start)
            .sum::<u64>()
    }
}

impl BlockRange {
    /// The begin and end of the range in bytes, in a content of `size` bytes.
    pub fn bytes(&self, size: u64) -> (u64, u64) {
        let at = |block: u64| block.saturating_mul(BLOCK_LEN).min(size);
        (at(self.start), self.end.map_or(size, at))
    }
}

impl TryFrom<Vec<u64>> for BlockRanges {
    type Error = &'static str;

    fn try_from(bounds: Vec<u64>) -> Result<Self, Self::Error> {
        if bounds.len() > Self::BOUNDS_MAX {
            return Err("too many ranges of blocks");
        }
        if !bounds.is_sorted_by(|one, next| one < next) {
            return Err("ranges of blocks that are not in order");
        }
        Ok(Self { bounds: bounds.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bounds_are_in_order_and_few() {
        for bounds in [vec![0, 0], vec![2, 1], vec![1, 2, 2], (0..129).collect()] {
            assert!(BlockRanges::try_from(bounds).is_err());
        }
        assert!(BlockRanges::try_from((0..128).collect::<Vec<_>>()).is_ok());
    }

    #[test]
    fn ranges_begin_within_the_content_or_at_its_end() {
        let size = 2 * BLOCK_LEN + 1;
        for (first, is_within) in [(0, true), (2, true), (3, false), (u64::MAX, false)] {
            assert_eq!(BlockRanges::from(first).begin_within(size), is_within, "{first}");
        }
        assert!(BlockRanges::from(2).begin_within(2 * BLOCK_LEN));
        assert!(BlockRanges::none().begin_within(0));
        let far = BlockRanges::try_from(vec![1, u64::MAX]).expect("in order");
        assert!(far.begin_within(size));
        assert_eq!(far.unwanted_len(size), BLOCK_LEN);
    }

    proptest! {
        /// Against one bit for each block.
        #[test]
        fn bytes_are_those_of_the_blocks(
            bounds in prop::collection::btree_set(0u64..12, 0..8),
            size in 0..10 * BLOCK_LEN,
        ) {
            let ranges = BlockRanges::try_from(Vec::from_iter(bounds.clone())).expect("in order");
            // A block is in the set behind an odd number of bounds.
            let is_in = |block: u64| bounds.range(..=block).count() % 2 == 1;
            let len = |block: u64| (size - block * BLOCK_LEN).min(BLOCK_LEN);
            let blocks = 0..size.div_ceil(BLOCK_LEN);
            let unwanted_len: u64 = blocks.filter(|block| !is_in(*block)).map(len).sum();
            prop_assert_eq!(ranges.unwanted_len(size), unwanted_len);
            prop_assert_eq!(ranges.is_empty(), bounds.is_empty());
            for range in ranges.iter() {
                let (start, end) = range.bytes(size);
                prop_assert!(start <= end && end <= size);
                prop_assert!(range.end.is_none_or(|end| end > range.start));
            }
        }
    }

    #[test]
    fn all_blocks_are_one_range_from_the_first_on() {
        assert!(BlockRanges::all().is_all() && BlockRanges::from(0).is_all());
        let few = BlockRanges::try_from(vec![0, 1]).expect("in order");
        assert!(!few.is_all() && !BlockRanges::from(1).is_all() && !BlockRanges::none().is_all());
        assert!(BlockRanges::none().is_empty() && !few.is_empty());
        assert_eq!(few.iter().collect::<Vec<_>>(), [BlockRange { start: 0, end: Some(1) }]);
    }
}
