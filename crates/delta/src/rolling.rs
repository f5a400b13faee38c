//! The rolling sum. The sum of a window that moves by one byte is computed from the previous one
//! (Karp and Rabin, "Efficient randomized pattern-matching algorithms", 1987). It is the polynomial
//! with the bytes as coefficients, at a fixed point modulo 2^32.

/// The point. It is 5 modulo 8, so that its powers have the longest period.
const POINT: u32 = 0x2c92_77b5;

/// Number of bytes that are summed in parallel. In each lane, products depend on each other. This
/// many lanes keep the processor busy.
const LANES: usize = 64;

/// The sum of a window. It is inlined, so that it uses the vector instructions of its caller's
/// target.
#[inline(always)]
pub(crate) fn sum(window: &[u8]) -> u32 {
    const STRIDE: u32 = power(LANES);
    let (rows, rest) = window.as_chunks::<LANES>();
    let mut lanes = [0_u32; LANES];
    for row in rows {
        for (lane, byte) in lanes.iter_mut().zip(row) {
            *lane = lane.wrapping_mul(STRIDE).wrapping_add(u32::from(*byte));
        }
    }
    let rest = rest.iter().map(|byte| u32::from(*byte));
    lanes.into_iter().chain(rest).fold(0, |sum, byte| sum.wrapping_mul(POINT).wrapping_add(byte))
}

/// Updates the sums of windows of one length.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Roller {
    /// The factor of the byte that leaves the window.
    leaving: u32,
}

impl Roller {
    /// Creates a roller for windows of `len` bytes.
    pub(crate) fn new(len: usize) -> Self {
        Self { leaving: power(len) }
    }

    /// The sum of the window that is one byte further.
    #[inline(always)]
    pub(crate) fn roll(self, sum: u32, out: u8, into: u8) -> u32 {
        // Only the first product depends on the previous sum.
        let change = u32::from(into).wrapping_sub(u32::from(out).wrapping_mul(self.leaving));
        sum.wrapping_mul(POINT).wrapping_add(change)
    }
}

/// A power of the point.
const fn power(mut exponent: usize) -> u32 {
    let (mut base, mut power) = (POINT, 1_u32);
    while exponent > 0 {
        if exponent % 2 == 1 {
            power = power.wrapping_mul(base);
        }
        base = base.wrapping_mul(base);
        exponent /= 2;
    }
    power
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against the definition, and the sum of the window further on.
        #[test]
        fn a_rolled_sum_is_that_of_the_window(
            bytes in prop::collection::vec(any::<u8>(), 1..200),
            len in 1_usize..100,
        ) {
            let plain = |window: &[u8]| {
                let add = |sum: u32, byte: &u8| {
                    sum.wrapping_mul(POINT).wrapping_add(u32::from(*byte))
                };
                window.iter().fold(0, add)
            };
            let len = len.min(bytes.len());
            let roller = Roller::new(len);
            let mut rolled = sum(&bytes[..len]);
            for (at, window) in bytes.windows(len).enumerate() {
                prop_assert_eq!(rolled, plain(window));
                prop_assert_eq!(rolled, sum(window));
                if let Some(into) = bytes.get(at + len) {
                    rolled = roller.roll(rolled, bytes[at], *into);
                }
            }
        }
    }
}
