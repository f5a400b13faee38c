//! Content made from a seed: bytes that look random, can't be compressed, and
//! are the same on every machine and in every run.
//!
//! The generator is SplitMix64 in counter mode (Steele, Lea, Flood: "Fast
//! Splittable Pseudorandom Number Generators", OOPSLA 2014), so that the bytes
//! at an offset follow from the seed and the offset alone.

use std::io::{self, Write};

/// How many bytes go to one write.
const BUFFER_BYTES: usize = 1 << 20;

/// The increment of SplitMix64: 2^64 divided by the golden ratio, made odd.
const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// A stream of random-looking bytes.
#[derive(Debug, Clone)]
pub struct Stream {
    state: u64,
}

impl Stream {
    /// The stream of `seed`. Neighbouring seeds give unrelated streams.
    pub fn new(seed: u64) -> Stream {
        Stream { state: mix(seed ^ 0x6861_756c) }
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GAMMA);
        mix(self.state)
    }

    /// A number below `bound`, which must not be zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next_u64() % bound
    }

    /// Fills `buffer`. The end of a word that does not fit is dropped, so only
    /// buffers of whole words continue a stream without a gap.
    pub fn fill(&mut self, buffer: &mut [u8]) {
        let (words, rest) = buffer.as_chunks_mut();
        for word in words {
            *word = self.next_u64().to_le_bytes();
        }
        if !rest.is_empty() {
            let last = self.next_u64().to_le_bytes();
            rest.copy_from_slice(&last[..rest.len()]);
        }
    }

    /// Writes the next `len` bytes to `out`.
    pub fn write_to(&mut self, out: &mut impl Write, len: u64) -> io::Result<()> {
        let mut left = len;
        let mut buffer = vec![0; BUFFER_BYTES.min(usize::try_from(len).unwrap_or(BUFFER_BYTES))];
        while left > 0 {
            let now = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            self.fill(&mut buffer[..now]);
            out.write_all(&buffer[..now])?;
            left -= now as u64;
        }
        Ok(())
    }
}

/// The first `len` bytes of the stream of `seed`.
pub fn bytes(len: usize, seed: u64) -> Vec<u8> {
    let mut buffer = vec![0; len];
    Stream::new(seed).fill(&mut buffer);
    buffer
}

/// The output function of SplitMix64.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
        assert_eq!(bytes(1000, 7), bytes(1000, 7));
        assert_ne!(bytes(1000, 7), bytes(1000, 8));
    }

    #[test]
    fn a_shorter_piece_is_the_beginning_of_a_longer_one() {
        let long = bytes(64, 3);
        for len in 0..64 {
            assert_eq!(bytes(len, 3), long[..len], "{len} bytes");
        }
    }

    #[test]
    fn writing_in_pieces_equals_filling_at_once() {
        for len in [0, 1, BUFFER_BYTES - 1, BUFFER_BYTES, BUFFER_BYTES + 1, 2 * BUFFER_BYTES + 5] {
            let mut out = Vec::new();
            Stream::new(5).write_to(&mut out, len as u64).expect("a Vec takes everything");
            assert!(out == bytes(len, 5), "{len} bytes");
        }
    }

    #[test]
    fn every_byte_value_is_about_equally_frequent() {
        let mut seen = [0u32; 256];
        for byte in bytes(1 << 20, 1) {
            seen[usize::from(byte)] += 1;
        }
        // 4,096 are expected of each; six standard deviations are 384.
        assert!(seen.iter().all(|&n| (3712..=4480).contains(&n)), "{seen:?}");
    }
}
