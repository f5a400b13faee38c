//! The blocks of a signature by their rolling sums.

use crate::signature::Signature;

/// Number of bits in the map for each block. About one in this number of absent sums looks present.
const BITS_PER_BLOCK: usize = 32;

/// Maximum size of the map in bits, as a power of two: 4 MiB.
const MAP_BITS_MAX: u32 = 25;

/// The full blocks of a signature. Among blocks with the same sum, only the first.
#[derive(Debug)]
pub(crate) struct Table {
    /// One bit for each value of a sum's upper bits.
    map: Vec<u64>,
    map_shift: u32,
    /// Sums with their blocks, in ascending order.
    blocks: Vec<(u32, u32)>,
    /// For each value of fewer upper bits, the position of its first sum in `blocks`.
    starts: Vec<u32>,
    start_shift: u32,
}

impl Table {
    /// A table of the first `full_blocks` blocks of a signature.
    pub(crate) fn of(signature: &Signature, full_blocks: usize) -> Self {
        let mut blocks: Vec<_> =
            (0..full_blocks).map(|block| (signature.weak(block), block as u32)).collect();
        let strong = |block: u32| signature.strong(block as usize);
        blocks.sort_unstable_by(|one, other| {
            one.0
                .cmp(&other.0)
                .then_with(|| strong(one.1).cmp(strong(other.1)))
                .then(one.1.cmp(&other.1))
        });
        blocks.dedup_by(|next, kept| next.0 == kept.0 && strong(next.1) == strong(kept.1));
        let map_bits = (full_blocks * BITS_PER_BLOCK).max(64).next_power_of_two().ilog2();
        let map_bits = map_bits.min(MAP_BITS_MAX);
        let start_bits = full_blocks.max(2).next_power_of_two().ilog2();
        let (map_shift, start_shift) = (u32::BITS - map_bits, u32::BITS - start_bits);
        let mut map = vec![0; (1 << map_bits) / 64];
        let mut starts = vec![0; (1 << start_bits) + 1];
        for (sum, _) in &blocks {
            let bit = (sum >> map_shift) as usize;
            map[bit / 64] |= 1 << (bit % 64);
            starts[(sum >> start_shift) as usize + 1] += 1;
        }
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        Self { map, map_shift, blocks, starts, start_shift }
    }

    /// True if a block has this sum.
    #[inline(always)]
    pub(crate) fn has(&self, sum: u32) -> bool {
        let bit = (sum >> self.map_shift) as usize;
        self.map[bit / 64] >> (bit % 64) & 1 != 0 && self.with(sum).next().is_some()
    }

    /// The blocks with this sum.
    pub(crate) fn with(&self, sum: u32) -> impl Iterator<Item = usize> {
        let at = (sum >> self.start_shift) as usize;
        let bucket = &self.blocks[self.starts[at] as usize..self.starts[at + 1] as usize];
        let from = bucket.partition_point(|(found, _)| *found < sum);
        bucket[from..]
            .iter()
            .take_while(move |(found, _)| *found == sum)
            .map(|(_, block)| *block as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Key, Shape};

    #[test]
    fn blocks_are_found_by_their_sum_each_content_once() {
        // Rolling sums, and the first byte of the strong ones.
        let sums = [(1, 7), (u32::MAX, 7), (1, 9), (1, 7), (0, 5), (2, 7), (u32::MAX, 3)];
        let shape = Shape::new(64 * 7 + 1, 64, 2).unwrap();
        let mut signature = Signature::new(shape, Key::from([0; 32]));
        for (weak, strong) in sums.into_iter().chain([(3, 1)]) {
            let sum = [&u32::to_le_bytes(weak)[..], &[strong, 0]].concat();
            signature.take(&sum).unwrap();
        }
        let table = Table::of(&signature, sums.len());
        for (sum, blocks) in
            [(0, vec![4]), (1, vec![0, 2]), (2, vec![5]), (3, vec![]), (u32::MAX, vec![6, 1])]
        {
            assert_eq!(table.with(sum).collect::<Vec<_>>(), blocks, "{sum}");
            assert_eq!(table.has(sum), !blocks.is_empty(), "{sum}");
        }
    }
}
