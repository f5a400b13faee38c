//! A receiver's request for a file: blocks of its content, and its hash.

use haul_model::BlockRanges;
use serde::{Deserialize, Serialize};

/// The receiver asks for the content of a listed file, or for its hash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Want {
    /// The file's number in the listing.
    pub index: u64,
    /// Wishes besides the blocks.
    pub how: How,
    /// The blocks that are wanted. If they are not all, they are wanted of the file
    /// exactly as it was listed. Of none the hash of the whole
    /// content is wanted.
    pub blocks: BlockRanges,
    /// The file of the destination into which the content will be written.
    pub into: Option<Object>,
}

/// A file of one machine, by numbers that mean nothing on another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Object {
    /// The machine, from its start to its stop.
    pub machine: u64,
    /// The file on that machine.
    pub number: u64,
}

/// The wishes of a [`Want`] besides its blocks: a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub struct How(u8);

impl How {
    /// Nothing.
    pub const PLAIN: Self = Self(0);
    /// The hash shall be that of the whole content: the sender reads what it doesn't
    /// send, too.
    pub const WHOLE_HASH: Self = Self(0x01);
    /// Of what the receiver has in its old file, whose sums it has told, it need only be
    /// told where that is.
    pub const DELTA: Self = Self(0x04);
    /// The chunks shall be offered.
    pub const CHUNKS: Self = Self(0x08);
    /// Blocks shall come in their order, and over one lane.
    pub const IN_ORDER: Self = Self(0x10);
    /// All blocks are wanted, and nothing is hashed: the transit is trusted.
    pub const UNHASHED: Self = Self(0x20);

    /// [`Self::WHOLE_HASH`] if `is_wanted`.
    pub const fn whole_hash_if(is_wanted: bool) -> Self {
        if is_wanted { Self::WHOLE_HASH } else { Self::PLAIN }
    }

    /// True if the hash of the whole content is wanted.
    pub const fn wants_whole_hash(self) -> bool {
        self.0 & Self::WHOLE_HASH.0 != 0
    }
}

impl How {
    /// This, and [`Self::DELTA`] if `is_wanted`.
    #[must_use]
    pub const fn delta_if(self, is_wanted: bool) -> Self {
        if is_wanted { Self(self.0 | Self::DELTA.0) } else { self }
    }

    /// This, and [`Self::IN_ORDER`] if `is_wanted`.
    #[must_use]
    pub const fn in_order_if(self, is_wanted: bool) -> Self {
        if is_wanted { Self(self.0 | Self::IN_ORDER.0) } else { self }
    }

    /// This, and [`Self::UNHASHED`] if `is_wanted`.
    #[must_use]
    pub const fn unhashed_if(self, is_wanted: bool) -> Self {
        if is_wanted { Self(self.0 | Self::UNHASHED.0) } else { self }
    }

    /// This, and [`Self::CHUNKS`] if they are `wanted`.
    #[must_use]
    pub const fn chunks_if(self, wanted: bool) -> Self {
        if wanted { Self(self.0 | Self::CHUNKS.0) } else { self }
    }

    /// True if the chunks are to be offered.
    pub const fn wants_chunks(self) -> bool {
        self.0 & Self::CHUNKS.0 != 0
    }

    /// True if no hash is wanted.
    pub const fn wants_no_hash(self) -> bool {
        self.0 & Self::UNHASHED.0 != 0
    }

    /// True if blocks are wanted in their order.
    pub const fn wants_order(self) -> bool {
        self.0 & Self::IN_ORDER.0 != 0
    }

    /// True if only what differs is wanted.
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
