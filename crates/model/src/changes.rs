//! The differences between an entry of the destination and its source. Checks report them, and
//! copies decide by them.

use crate::Kept;
use crate::bit_set;
use serde::{Deserialize, Serialize};

/// A set of differences; never empty in an outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u32")]
pub struct Changes(u32);

impl Changes {
    /// The destination has no such entry.
    pub const MISSING: Self = Self(0x01);
    /// The directory above is missing too, and was reported before. Only with [`Self::MISSING`].
    pub const ABOVE: Self = Self(0x02);
    /// Another kind of entry, such as a file in place of a directory.
    pub const KIND: Self = Self(0x04);
    /// Another length of a file.
    pub const SIZE: Self = Self(0x08);
    /// Another modification time of a file.
    pub const TIME: Self = Self(0x10);
    /// Other permission bits, among those that are kept.
    pub const MODE: Self = Self(0x20);
    /// Another target of a symbolic link, or another number of a device.
    pub const TARGET: Self = Self(0x40);
    /// Another content hash of a file.
    pub const CONTENT: Self = Self(0x80);

    /// Another owner.
    pub const USER: Self = Self(0x100);
    /// Another group.
    pub const GROUP: Self = Self(0x200);
    /// Another access control list.
    pub const ACL: Self = Self(0x400);
    /// Other extended attributes.
    pub const XATTRS: Self = Self(0x800);
    /// Another access time.
    pub const ATIME: Self = Self(0x1000);
    /// The file is not the same as another name of the source's file at the destination.
    pub const LINKED: Self = Self(0x2000);

    /// All differences of attributes.
    pub const OF_ATTRIBUTES: Self = Self::TIME
        .with(Self::MODE)
        .with(Self::USER)
        .with(Self::GROUP)
        .with(Self::ACL)
        .with(Self::XATTRS)
        .with(Self::ATIME);

    /// In a mirror: the content was sent, or a link or special file was created.
    pub const SENT: Self = Self(0x8000);

    /// In a mirror: the entry was created from other content on the destination's machine.
    pub const LOCAL: Self = Self(0x4000);

    const ALL: u32 = 0xffff;

    /// True if the destination has the entry, though perhaps with other times or another mode.
    pub const fn is_minor(self) -> bool {
        Self::TIME.with(Self::MODE).with(Self::ATIME).has(self)
    }

    /// The attributes to set so that the entry becomes like its source, among those that are
    /// `kept`. Its content must be the same.
    pub const fn attributes(self, kept: Kept) -> Kept {
        // Set-ID bits are a part of the mode, and are lost with each change of the owner.
        let lends = self.has_any(Self::MODE.with(Self::USER).with(Self::GROUP));
        let set = Kept::MODE
            .only_if(self.has(Self::MODE))
            .with(Kept::TIMES.only_if(self.has(Self::TIME)))
            .with(Kept::USER.only_if(self.has(Self::USER)))
            .with(Kept::GROUP.only_if(self.has(Self::GROUP)))
            .with(Kept::ACL.only_if(self.has(Self::ACL)))
            .with(Kept::XATTRS.only_if(self.has(Self::XATTRS)))
            .with(Kept::ATIMES.only_if(self.has(Self::ATIME)))
            .with(kept.and(Kept::SET_ID.with(Kept::LENT)).only_if(lends && kept.has(Kept::MODE)));
        set.with(kept.and(Kept::AS_POSSIBLE).only_if(!set.is_empty()))
    }

    /// A word for each difference, for messages.
    pub fn words(self) -> impl Iterator<Item = &'static str> {
        let words = [
            (Self::MISSING, "missing"),
            (Self::KIND, "kind"),
            (Self::SIZE, "size"),
            (Self::TIME, "time"),
            (Self::MODE, "mode"),
            (Self::TARGET, "target"),
            (Self::CONTENT, "content"),
            (Self::USER, "owner"),
            (Self::GROUP, "group"),
            (Self::ACL, "ACL"),
            (Self::XATTRS, "extended attributes"),
            (Self::ATIME, "access time"),
            (Self::LINKED, "hard link"),
        ];
        words.into_iter().filter(move |(one, _)| self.has(*one)).map(|(_, word)| word)
    }
}

bit_set!(Changes, u32, Self::ALL, "a difference is unknown");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_joined_and_taken_apart() {
        let both = Changes::SIZE.with(Changes::TIME);
        assert_eq!(both.0, 0x18);
        assert_eq!(both.with(Changes::TIME), both);
        assert_eq!(both.without(Changes::TIME.with(Changes::MODE)), Changes::SIZE);
        assert_eq!((both.only_if(true), both.only_if(false)), (both, Changes::default()));
        assert!(both.has(Changes::SIZE) && both.has(both) && !Changes::SIZE.has(both));
        let other = Changes::MODE.with(Changes::TIME);
        assert!(both.has_any(other) && !both.has_any(Changes::MODE));
        assert!(Changes::default().is_empty() && !both.is_empty());
        assert_eq!(Changes::try_from(0xffff), Ok(Changes(0xffff)));
        assert!(Changes::try_from(0x1_0000).is_err());
    }

    #[test]
    fn only_times_and_the_mode_are_minor() {
        let minor = Changes::TIME.with(Changes::MODE).with(Changes::ATIME);
        assert!(minor.is_minor() && Changes::TIME.is_minor());
        assert!(!minor.with(Changes::USER).is_minor() && !Changes::SIZE.is_minor());
    }

    #[test]
    fn each_difference_of_an_attribute_has_it_set() {
        for (change, kept) in [
            (Changes::MODE, Kept::MODE),
            (Changes::TIME, Kept::TIMES),
            (Changes::USER, Kept::USER),
            (Changes::GROUP, Kept::GROUP),
            (Changes::ACL, Kept::ACL),
            (Changes::XATTRS, Kept::XATTRS),
            (Changes::ATIME, Kept::ATIMES),
        ] {
            assert_eq!(change.attributes(Kept::NONE), kept);
            assert!(Changes::OF_ATTRIBUTES.has(change));
            let possible = kept.with(Kept::AS_POSSIBLE);
            assert_eq!(change.attributes(Kept::AS_POSSIBLE), possible);
        }
        assert_eq!(Changes::SIZE.attributes(Kept::ALL.with(Kept::AS_POSSIBLE)), Kept::NONE);
        // Set-ID bits are set again with the owner, where the mode is kept.
        let bits = Kept::SET_ID.with(Kept::LENT);
        for change in [Changes::MODE, Changes::USER, Changes::GROUP] {
            assert_eq!(change.attributes(bits.with(Kept::MODE)).and(bits), bits);
            assert!(!change.attributes(bits).has_any(bits));
        }
        assert_eq!(Changes::TIME.attributes(bits.with(Kept::MODE)), Kept::TIMES);
    }

    #[test]
    fn differences_are_named_in_their_order() {
        let some = Changes::LINKED.with(Changes::SIZE).with(Changes::USER).with(Changes::SENT);
        assert_eq!(some.words().collect::<Vec<_>>(), ["size", "owner", "hard link"]);
        assert_eq!(Changes(Changes::ALL).words().count(), 13);
    }
}
