//! A Receiver's request for a file: blocks of its content, and its hash.

use haul_model::BlockRanges;
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
#[serde(try_from = "u8", into = "u8")]
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

    /// [`Self::WHOLE_HASH`] if `is_wanted`.
    pub const fn whole_hash_if(is_wanted: bool) -> Self {
        if is_wanted { Self::WHOLE_HASH } else { Self::PLAIN }
    }

    /// True if the hash of the whole content is requested.
    pub const fn wants_whole_hash(self) -> bool {
        self.0 & Self::WHOLE_HASH.0 != 0
    }
}

impl How {
    /// Adds [`Self::DELTA`] if `is_wanted`.
    #[must_use]
    pub const fn delta_if(self, is_wanted: bool) -> Self {
        if is_wanted { Self(self.0 | Self::DELTA.0) } else { self }
    }

    /// Adds [`Self::IN_ORDER`] if `is_wanted`.
    #[must_use]
    pub const fn in_order_if(self, is_wanted: bool) -> Self {
        if is_wanted { Self(self.0 | Self::IN_ORDER.0) } else { self }
    }

    /// Adds [`Self::UNHASHED`] if `is_wanted`.
    #[must_use]
    pub const fn unhashed_if(self, is_wanted: bool) -> Self {
        if is_wanted { Self(self.0 | Self::UNHASHED.0) } else { self }
    }

    /// Adds [`Self::CHUNKS`] if `wanted`.
    #[must_use]
    pub const fn chunks_if(self, wanted: bool) -> Self {
        if wanted { Self(self.0 | Self::CHUNKS.0) } else { self }
    }

    /// True if the Sender must offer the chunks.
    pub const fn wants_chunks(self) -> bool {
        self.0 & Self::CHUNKS.0 != 0
    }

    /// True if no hash is requested.
    pub const fn wants_no_hash(self) -> bool {
        self.0 & Self::UNHASHED.0 != 0
    }

    /// True if blocks are requested in order.
    pub const fn wants_order(self) -> bool {
        self.0 & Self::IN_ORDER.0 != 0
    }

    /// True if only differences are requested.
    pub const fn wants_delta(self) -> bool {
        self.0 & Self::DELTA.0 != 0
    }
}

impl How {
    const KNOWN: Self =
        Self::WHOLE_HASH.delta_if(true).chunks_if(true).in_order_if(true).unhashed_if(true);
}

impl TryFrom<u8> for How {
    type Error = &'static str;

    fn try_from(bits: u8) -> Result<Self, Self::Error> {
        if bits & !Self::KNOWN.0 != 0 {
            return Err("an unknown request");
        }
        Ok(Self(bits))
    }
}

impl From<How> for u8 {
    fn from(how: How) -> Self {
        how.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each row has the answers about order, the delta, chunks, the whole hash and no hash.
    #[test]
    fn each_wish_is_one_bit_of_its_own() {
        let wishes = |how: How| {
            [
                how.wants_order(),
                how.wants_delta(),
                how.wants_chunks(),
                how.wants_whole_hash(),
                how.wants_no_hash(),
            ]
        };
        let none = How::PLAIN;
        assert_eq!(wishes(none), [false; 5]);
        let wish = |is_wanted| {
            [
                none.in_order_if(is_wanted),
                none.delta_if(is_wanted),
                none.chunks_if(is_wanted),
                How::whole_hash_if(is_wanted),
                none.unhashed_if(is_wanted),
            ]
        };
        assert_eq!(wish(false), [none; 5]);
        for (at, how) in wish(true).into_iter().enumerate() {
            let mut expected = [false; 5];
            expected[at] = true;
            assert_eq!(wishes(how), expected, "{how:?}");
            // A wish stays when it or another one is added.
            let all = |how: How| how.in_order_if(true).delta_if(true).chunks_if(true);
            let all = |how| all(how).unhashed_if(true);
            assert_eq!(all(all(how)).0, How::KNOWN.0 & !How::WHOLE_HASH.0 | how.0);
            assert_eq!(How::try_from(u8::from(how)), Ok(how));
        }
        assert!(How::try_from(0x02).is_err() && How::try_from(0x40).is_err());
        assert_eq!(How::try_from(0x3d).map(u8::from), Ok(0x3d));
    }
}
