//! Capability bits: what both sides can do beyond the base protocol.

use serde::{Deserialize, Serialize};

/// A set of capabilities. In force is what both sides offered; a bit that one
/// side does not know is thereby ignored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caps(u64);

impl Caps {
    /// Nothing beyond the base protocol.
    pub const NONE: Self = Self(0);
    /// Frames may be compressed with LZ4.
    pub const LZ4: Self = Self(0x01);
    /// Frames may be compressed with Zstandard.
    pub const ZSTD: Self = Self(0x02);
    /// The sender may offer the chunks of large files; those that the receiver has are not sent.
    pub const DEDUP: Self = Self(0x04);
    /// The receiver may leave out its own hash of the content.
    pub const FAST: Self = Self(0x08);
    /// The receiver can make what it publishes durable.
    pub const SYNC: Self = Self(0x10);
    /// Further connections may join a job. The job itself says if it wishes for them.
    pub const LANES: Self = Self(0x80);
    /// Entries may carry owners, device numbers, link groups, and by their hashes access
    /// control lists and extended attributes.
    pub const ATTRIBUTES: Self = Self(0x100);

    /// Measurements may be asked for.
    pub const MEASURES: Self = Self(0x200);

    /// An agent that sends may be told to call the one that receives, and that may tell
    /// the client what has arrived.
    pub const CALLS: Self = Self(0x400);

    /// The connection continues after a job. A client offers this if it keeps the connection.
    pub const SESSIONS: Self = Self(0x800);

    /// The capabilities of this build. The other bits above have their meaning reserved;
    /// none of them is built yet.
    pub const OURS: Self = Self::LZ4
        .with(Self::ZSTD)
        .with(Self::DEDUP)
        .with(Self::LANES)
        .with(Self::MEASURES)
        .with(Self::CALLS)
        .with(Self::SESSIONS);

    /// The set with these bits.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The bits of the set.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Both sets in one.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The capabilities in both sets.
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The capabilities of this set that `other` lacks.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// True if all of `other` is in this set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_joined_and_taken_apart() {
        let (both, other) = (Caps::LZ4.with(Caps::LANES), Caps::LANES.with(Caps::CALLS));
        assert_eq!((both.bits(), both.with(other).bits()), (0x81, 0x481));
        assert_eq!(both.intersection(other), Caps::LANES);
        assert_eq!(both.without(other), Caps::LZ4);
        assert!(both.has(Caps::LZ4) && both.has(both) && both.has(Caps::NONE));
        assert!(!both.has(other) && !both.has(Caps::CALLS));
        assert_eq!(Caps::OURS.bits(), 0xe87);
    }
}
