//! The attributes of an entry besides its name and its content, as one value, and the
//! set of those attributes that somebody is to see to.

use crate::{Changes, Timestamp};

/// Mode bits that are kept: set-user-ID and set-group-ID would lend the new
/// owner's rights as long as the owner itself is not kept.
pub const KEPT_MODE: u32 = 0o1777;

/// The attributes of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attributes {
    /// Permission bits with set-ID and sticky bits: the low 12 bits of `st_mode`.
    pub mode: u32,
    /// When the content last changed.
    pub mtime: Timestamp,
}

impl Attributes {
    /// Those that each entry has.
    pub const fn new(mode: u32, mtime: Timestamp) -> Self {
        Self { mode, mtime }
    }

    /// The same with those bits of the mode that copies keep, and of the others those
    /// that `own`, the mode of what gets them, has already.
    #[must_use]
    pub fn over(&self, own: u32) -> Self {
        Self { mode: (self.mode & KEPT_MODE) | (own & !KEPT_MODE & 0o7777), ..self.clone() }
    }

    /// Those of `kept` that an entry with the attributes `there` has otherwise. Of a
    /// mode only [`KEPT_MODE`] counts.
    pub fn changes(&self, there: &Self, kept: Kept) -> Changes {
        let mode = (self.mode ^ there.mode) & KEPT_MODE != 0;
        let time = self.mtime != there.mtime;
        Changes::MODE
            .only_if(mode && kept.has(Kept::MODE))
            .with(Changes::TIME.only_if(time && kept.has(Kept::TIMES)))
    }
}

/// A set of attributes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Kept(u8);

impl Kept {
    /// None of them.
    pub const NONE: Self = Self(0);
    /// Permission bits and the sticky bit.
    pub const MODE: Self = Self(0x01);
    /// The time of the last modification.
    pub const TIMES: Self = Self(0x02);

    /// Those that a copy of a file or a directory has.
    pub const OF_COPIES: Self = Self::MODE.with(Self::TIMES);

    /// Both sets in one.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// True if all of `other` is in this set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// True if it has none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: Timestamp = Timestamp { secs: 7, nanos: 5 };

    #[test]
    fn changes_are_those_that_are_kept() {
        let source = Attributes::new(0o4755, TIME);
        let later = Timestamp { nanos: 6, ..TIME };
        let both = Changes::MODE.with(Changes::TIME);
        for (there, kept, found) in [
            (Attributes::new(0o4755, TIME), Kept::OF_COPIES, Changes::default()),
            // Bits that no copy has are no change.
            (Attributes::new(0o2755, TIME), Kept::OF_COPIES, Changes::default()),
            (Attributes::new(0o1755, TIME), Kept::OF_COPIES, Changes::MODE),
            (Attributes::new(0o4755, later), Kept::OF_COPIES, Changes::TIME),
            (Attributes::new(0o700, later), Kept::OF_COPIES, both),
            (Attributes::new(0o700, later), Kept::MODE, Changes::MODE),
            (Attributes::new(0o700, later), Kept::TIMES, Changes::TIME),
            (Attributes::new(0o700, later), Kept::NONE, Changes::default()),
        ] {
            assert_eq!(source.changes(&there, kept), found, "{there:?} {kept:?}");
            let touched = found.attributes();
            assert!(kept.has(touched) && touched.is_empty() == found.is_empty());
        }
    }

    #[test]
    fn bits_that_are_not_kept_are_those_of_what_gets_the_mode() {
        let over = |mode, own| Attributes::new(mode, TIME).over(own).mode;
        assert_eq!(over(0o6755, 0), 0o755);
        assert_eq!(over(0o1750, 0o2777), 0o3750);
        assert_eq!(over(u32::MAX, 0), 0o1777);
        assert_eq!(over(0o755, u32::MAX), 0o6755);
    }
}
