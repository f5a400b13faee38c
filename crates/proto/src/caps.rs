//! Capability bits: features beyond the base protocol.

use haul_model::bit_set;
use serde::{Deserialize, Serialize};

/// A set of capabilities. The capabilities that both sides offer are in force, so a bit that one
/// side does not know is ignored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caps(u64);

impl Caps {
    /// Nothing beyond the base protocol.
    pub const NONE: Self = Self(0);
    /// Frames may be compressed with LZ4.
    pub const LZ4: Self = Self(0x01);
    /// Frames may be compressed with Zstandard.
    pub const ZSTD: Self = Self(0x02);
    /// The Sender may offer the chunks of large files. Chunks that the Receiver has are not sent.
    pub const DEDUP: Self = Self(0x04);
    /// The Receiver may omit its own hash of the content.
    pub const FAST: Self = Self(0x08);
    /// The Receiver can flush what it publishes.
    pub const SYNC: Self = Self(0x10);
    /// Further connections may join a job, if the job requests them.
    pub const LANES: Self = Self(0x80);
    /// Entries may carry owners, device numbers, link groups, and the hashes of access control
    /// lists and extended attributes.
    pub const ATTRIBUTES: Self = Self(0x100);

    /// Measurements may be requested.
    pub const MEASURES: Self = Self(0x200);

    /// A sending agent may be told to call the receiving agent, which may report to the client what
    /// has arrived.
    pub const CALLS: Self = Self(0x400);

    /// The connection can be used after a job. A client offers this if it keeps the connection.
    pub const SESSIONS: Self = Self(0x800);

    /// The capabilities of this build. The other bits above are reserved, and not implemented.
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
}

bit_set!(Caps);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_joined_and_taken_apart() {
        let (both, other) = (Caps::LZ4.with(Caps::LANES), Caps::LANES.with(Caps::CALLS));
        assert_eq!((both.bits(), both.with(other).bits()), (0x81, 0x481));
        assert_eq!(both.and(other), Caps::LANES);
        assert_eq!(both.without(other), Caps::LZ4);
        assert!(both.has(Caps::LZ4) && both.has(both) && both.has(Caps::NONE));
        assert!(!both.has(other) && !both.has(Caps::CALLS));
        assert_eq!(Caps::OURS.bits(), 0xe87);
    }
}
