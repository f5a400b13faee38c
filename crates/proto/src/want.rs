//! A Receiver's request for a file: blocks of its content, and its hash.

use haul_model::{BlockRanges, bit_set};
use serde::{Deserialize, Serialize};

/// A Receiver's request for the content of a listed file, or for its hash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Want {
    /// The file's number in the listing.
    pub index: u64,
    /// Options of the request.
    pub how: How,
    /// The requested blocks. If they are not all, the file must be exactly as listed. If there are
    /// none, the hash of the whole content is requested.
    pub blocks: BlockRanges,
    /// The destination's file into which the content will be written.
    pub into: Option<Object>,
}

/// The identity of a file on one machine, without a meaning on another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Object {
    /// The machine, from one start to the next.
    pub machine: u64,
    /// The file on that machine.
    pub number: u64,
}

/// The options of a [`Want`]: a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "u8")]
pub struct How(u8);

impl How {
    /// No options.
    pub const PLAIN: Self = Self(0);
    /// The hash must be that of the whole content. The Sender also reads parts that it does not
    /// send.
    pub const WHOLE_HASH: Self = Self(0x01);
    /// Content of the old file, whose sums the Receiver has sent, is only referred to.
    pub const DELTA: Self = Self(0x04);
    /// The Sender offers the chunks.
    pub const CHUNKS: Self = Self(0x08);
    /// Blocks are sent in order, and over one lane.
    pub const IN_ORDER: Self = Self(0x10);
    /// All blocks are requested without hashes: the transport is trusted.
    pub const UNHASHED: Self = Self(0x20);

    /// All options above.
    const KNOWN: u8 = 0x3d;
}

bit_set!(How, u8, Self::KNOWN, "an unknown request");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wish_is_one_bit_of_its_own() {
        let wishes = [How::WHOLE_HASH, How::DELTA, How::CHUNKS, How::IN_ORDER, How::UNHASHED];
        let all = wishes.into_iter().fold(How::PLAIN, How::with);
        assert_eq!(all.0, How::KNOWN);
        for how in wishes {
            assert!(how.0.is_power_of_two() && all.has(how) && !all.without(how).has_any(how));
            assert_eq!(How::try_from(how.0), Ok(how));
        }
        assert!(How::try_from(0x02).is_err() && How::try_from(0x40).is_err());
    }
}
