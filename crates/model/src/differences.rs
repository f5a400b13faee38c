//! How an entry of the destination differs from that of the source, where two
//! trees are compared and nothing is copied.

use serde::{Deserialize, Serialize};

/// A set of differences; never empty where it stands in an outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u16", into = "u16")]
pub struct Differences(u16);

impl Differences {
    /// Nothing is there.
    pub const MISSING: Self = Self(0x01);
    /// The directory above is not there either, and was told before. Only with
    /// [`Self::MISSING`].
    pub const ABOVE: Self = Self(0x02);
    /// It is something else: a file in place of a directory.
    pub const KIND: Self = Self(0x04);
    /// A file of another length.
    pub const SIZE: Self = Self(0x08);
    /// A file of another modification time.
    pub const TIME: Self = Self(0x10);
    /// Other permission bits, of those that are kept.
    pub const MODE: Self = Self(0x20);
    /// A symbolic link that points elsewhere.
    pub const TARGET: Self = Self(0x40);
    /// A file whose content has another hash.
    pub const CONTENT: Self = Self(0x80);

    const ALL: u16 = 0xff;

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Both sets in one.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// This set, or none, depending on `is_so`.
    #[must_use]
    pub const fn only_if(self, is_so: bool) -> Self {
        if is_so { self } else { Self(0) }
    }

    /// Whether the destination has it, though perhaps with another time or mode.
    pub const fn is_minor(self) -> bool {
        Self::TIME.with(Self::MODE).has(self)
    }

    /// Whether all of `other` is in this set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl From<Differences> for u16 {
    fn from(differences: Differences) -> Self {
        differences.0
    }
}

impl TryFrom<u16> for Differences {
    type Error = &'static str;

    fn try_from(bits: u16) -> Result<Self, Self::Error> {
        if bits & !Self::ALL != 0 {
            return Err("a difference is none that is known");
        }
        Ok(Self(bits))
    }
}
