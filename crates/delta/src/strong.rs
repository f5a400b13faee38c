//! The strong part of a sum: a hash under a key that is unknown when the files are created.
//!
//! NH is computed for each KiB of a block (Black, Halevi, Krawczyk, Krovetz and Rogaway, "UMAC:
//! Fast and Secure Message Authentication", 1999), and BLAKE3 of the results. For any two blocks of
//! one length, NH has equal results for at most one of 2^64 keys. NH needs a product and two
//! additions for eight bytes, which vector units compute in parallel.

use crate::shape::Shape;
use crate::{Key, rolling};

/// Length of the input of one NH computation, in bytes.
const CHUNK_LEN: usize = 1 << 10;

/// Number of pairs of 32-bit words in a chunk.
const PAIRS: usize = CHUNK_LEN / 8;

/// Number of NH passes, each with the key shifted by one pair (Toeplitz). A single pass fails for
/// one of 2^32 keys.
const PASSES: usize = 2;

/// Number of pairs that are computed in parallel.
const LANES: usize = 8;

/// Number of chunks whose results are hashed at once.
const BATCH: usize = 64;

/// The lower word of a pair.
const LOWER: u64 = 0xffff_ffff;

/// Computes the sums of blocks under one key.
#[derive(Clone)]
pub struct Checksummer {
    key: Key,
    /// The key of NH: the first and the second words of its pairs.
    firsts: [u64; PAIRS + PASSES - 1],
    seconds: [u64; PAIRS + PASSES - 1],
}

impl Checksummer {
    /// Creates a summer for sums under `key`.
    pub fn new(key: Key) -> Self {
        let mut stream = blake3::Hasher::new_keyed(key.as_bytes()).finalize_xof();
        let (mut firsts, mut seconds) = ([0; PAIRS + PASSES - 1], [0; PAIRS + PASSES - 1]);
        for (first, second) in firsts.iter_mut().zip(&mut seconds) {
            let mut pair = [0; 8];
            stream.fill(&mut pair);
            let pair = u64::from_le_bytes(pair);
            (*first, *second) = (pair & LOWER, pair >> 32);
        }
        Self { key, firsts, seconds }
    }

    /// Appends the sum of a block to `sums`, for a file of this `shape`.
    #[inline(always)]
    pub fn sum(&self, shape: &Shape, block: &[u8], sums: &mut Vec<u8>) {
        sums.extend_from_slice(&rolling::sum(block).to_le_bytes());
        sums.extend_from_slice(&self.strong(block)[..usize::from(shape.strong_len())]);
    }

    /// The full strong sum of a block. The shape of its file defines the length to use.
    #[inline(always)]
    pub(crate) fn strong(&self, block: &[u8]) -> [u8; 32] {
        let (chunks, rest) = block.as_chunks::<CHUNK_LEN>();
        let mut hasher = blake3::Hasher::new_keyed(self.key.as_bytes());
        let mut numbers = [0; BATCH * PASSES * 8];
        for chunks in chunks.chunks(BATCH) {
            let slots = numbers.as_chunks_mut::<8>().0;
            for (slots, chunk) in slots.chunks_mut(PASSES).zip(chunks) {
                for (slot, number) in slots.iter_mut().zip(self.nh(chunk)) {
                    *slot = number.to_le_bytes();
                }
            }
            hasher.update(&numbers[..chunks.len() * PASSES * 8]);
        }
        *hasher.update(rest).finalize().as_bytes()
    }

    #[inline(always)]
    fn nh(&self, chunk: &[u8; CHUNK_LEN]) -> [u64; PASSES] {
        let mut sums = [[0_u64; LANES]; PASSES];
        let rows = chunk.as_chunks::<8>().0.as_chunks::<LANES>().0;
        for (at, row) in (0..).step_by(LANES).zip(rows) {
            for (pass, sums) in sums.iter_mut().enumerate() {
                let from = at + pass;
                let firsts = &self.firsts[from..from + LANES];
                let seconds = &self.seconds[from..from + LANES];
                for lane in 0..LANES {
                    let pair = u64::from_le_bytes(row[lane]);
                    let first = pair.wrapping_add(firsts[lane]) & LOWER;
                    let second = (pair >> 32).wrapping_add(seconds[lane]) & LOWER;
                    sums[lane] = sums[lane].wrapping_add(first.wrapping_mul(second));
                }
            }
        }
        sums.map(|sums| sums.into_iter().fold(0, u64::wrapping_add))
    }
}

/// The key is secret.
impl std::fmt::Debug for Checksummer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Checksummer")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// NH word by word, as its authors define it.
    fn plain(key: &Key, block: &[u8]) -> [u8; 32] {
        let mut words = [0; (PAIRS + PASSES - 1) * 8];
        blake3::Hasher::new_keyed(key.as_bytes()).finalize_xof().fill(&mut words);
        let word = |bytes: &[u8], at: usize| {
            u32::from_le_bytes(bytes[at * 4..at * 4 + 4].try_into().unwrap())
        };
        let mut string = Vec::new();
        let whole = block.len() / CHUNK_LEN * CHUNK_LEN;
        for chunk in block[..whole].chunks(CHUNK_LEN) {
            for pass in 0..PASSES {
                let keyed = |at| word(chunk, at).wrapping_add(word(&words, at + 2 * pass));
                let product = |pair| u64::from(keyed(2 * pair)) * u64::from(keyed(2 * pair + 1));
                let sum = (0..PAIRS).map(product).fold(0, u64::wrapping_add);
                string.extend_from_slice(&sum.to_le_bytes());
            }
        }
        string.extend_from_slice(&block[whole..]);
        *blake3::keyed_hash(key.as_bytes(), &string).as_bytes()
    }

    proptest! {
        #[test]
        fn a_strong_sum_is_that_of_its_definition(key: [u8; 32], seed: [u8; 32], len in 0_usize..300_000) {
            let mut block = vec![0; len];
            blake3::Hasher::new_keyed(&seed).finalize_xof().fill(&mut block);
            let key = Key::from(key);
            prop_assert_eq!(Checksummer::new(key).strong(&block), plain(&key, &block));
        }
    }

    #[test]
    fn a_bit_anywhere_and_another_key_change_it() {
        let sum = |key: u8, block: &[u8]| Checksummer::new(Key::from([key; 32])).strong(block);
        for len in [1, CHUNK_LEN - 1, CHUNK_LEN, CHUNK_LEN + 1, BATCH * CHUNK_LEN + 7] {
            let mut block = vec![0; len];
            let before = sum(7, &block);
            assert_ne!(sum(8, &block), before, "{len}");
            for at in [0, len / 3, len - 1] {
                block[at] ^= 0x80;
                assert_ne!(sum(7, &block), before, "{len}: {at}");
                block[at] ^= 0x80;
            }
        }
        // Words that change places.
        let (one, two) = ([1_u8; 4], [2_u8; 4]);
        let of = |words: [[u8; 4]; 2]| sum(7, &words.concat().repeat(CHUNK_LEN / 8));
        assert_ne!(of([one, two]), of([two, one]));
    }
}
