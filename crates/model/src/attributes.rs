//! The attributes of an entry besides its name and content, as one value, and sets of attributes.

use crate::bit_set;
use crate::{Acl, Changes, Extended, Timestamp, Xattr};
use serde::{Deserialize, Serialize};

/// The mode bits that are kept without [`Kept::SET_ID`]. Set-user-ID and set-group-ID bits would
/// lend the new owner's rights if the owner is not kept.
pub const KEPT_MODE: u32 = 0o1777;

/// The bits that lend a file's user and group to those who execute it.
pub const SET_ID_MODE: u32 = SET_USER_ID | SET_GROUP_ID;
const SET_USER_ID: u32 = 0o4000;
const SET_GROUP_ID: u32 = 0o2000;

/// The attributes of an entry. `None` means unknown or not kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attributes {
    /// Permission bits with set-ID and sticky bits: the low 12 bits of `st_mode`.
    pub mode: u32,
    /// The modification time.
    pub mtime: Timestamp,
    /// The number of the owning user.
    pub user: Option<u32>,
    /// The number of the owning group.
    pub group: Option<u32>,
    /// The access time.
    pub atime: Option<Timestamp>,
    /// Extended attributes and ACLs.
    pub extended: Option<Box<Extended>>,
}

impl Attributes {
    /// Attributes with only the fields that every entry has.
    pub const fn new(mode: u32, mtime: Timestamp) -> Self {
        Self { mode, mtime, user: None, group: None, atime: None, extended: None }
    }

    /// The attributes that a job with `kept` needs. The owner is included if set-ID bits depend on
    /// it.
    #[must_use]
    pub fn only(mut self, kept: Kept) -> Self {
        let asks_owner = kept.has(Kept::SET_ID) && !kept.has(Kept::LENT);
        let lends = self.mode & SET_ID_MODE != 0 && asks_owner;
        if !kept.has_any(Kept::OWNER) && !lends {
            (self.user, self.group) = (None, None);
        }
        if !kept.has(Kept::ATIMES) {
            self.atime = None;
        }
        self
    }

    /// These attributes with the kept bits of the mode. The other bits come from `own`, the present
    /// mode of the entry that gets them.
    #[must_use]
    pub fn over(&self, own: u32, kept: Kept) -> Self {
        let bits = kept.mode_bits();
        Self { mode: (self.mode & bits) | (own & !bits & 0o7777), ..self.clone() }
    }

    /// The attributes in `kept` that differ from those of an entry with the attributes `there`. Of
    /// a mode only [`Kept::mode_bits`] count. A set-ID bit counts only with [`Kept::LENT`], or if
    /// the user or group is the same or will be set.
    pub fn changes(&self, there: &Self, kept: Kept) -> Changes {
        let differs = |one: Option<u32>, other| one.is_some() && other != one;
        let (user, group) = (differs(self.user, there.user), differs(self.group, there.group));
        let mut bits = kept.mode_bits();
        let is_lent = kept.has(Kept::LENT);
        if user && !is_lent && !kept.has(Kept::USER) {
            bits &= !SET_USER_ID;
        }
        if group && !is_lent && !kept.has(Kept::GROUP) {
            bits &= !SET_GROUP_ID;
        }
        let mode = (self.mode ^ there.mode) & bits != 0;
        let is_so = |kind, is_so, change: Changes| change.only_if(is_so && kept.has(kind));
        is_so(Kept::MODE, mode, Changes::MODE)
            .with(is_so(Kept::TIMES, self.mtime != there.mtime, Changes::TIME))
            .with(is_so(Kept::USER, user, Changes::USER))
            .with(is_so(Kept::GROUP, group, Changes::GROUP))
            .with(is_so(Kept::ATIMES, self.atime != there.atime, Changes::ATIME))
            .with(is_so(Kept::ACL, self.acls() != there.acls(), Changes::ACL))
            .with(is_so(Kept::XATTRS, self.xattrs() != there.xattrs(), Changes::XATTRS))
    }

    /// The extended attributes, in the order of their names.
    pub fn xattrs(&self) -> &[Xattr] {
        self.extended.as_ref().map_or(&[], |extended| &extended.xattrs)
    }

    /// The ACL, and the default ACL for new entries in it.
    pub fn acls(&self) -> (Option<&Acl>, Option<&Acl>) {
        self.extended
            .as_ref()
            .map_or((None, None), |extended| (extended.acl.as_ref(), extended.default_acl.as_ref()))
    }
}

/// A set of attributes, and of other properties that a copy can keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u32")]
pub struct Kept(u32);

impl Kept {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// Permission bits and the sticky bit.
    pub const MODE: Self = Self(0x01);
    /// The modification time.
    pub const TIMES: Self = Self(0x02);
    /// The owning user. Only root can set it.
    pub const USER: Self = Self(0x04);
    /// The owning group. Without root, only groups of the user can be set.
    pub const GROUP: Self = Self(0x08);
    /// The access time.
    pub const ATIMES: Self = Self(0x10);
    /// Extended attributes of users. With root also system attributes of the entry.
    pub const XATTRS: Self = Self(0x20);
    /// Access control lists.
    pub const ACL: Self = Self(0x40);
    /// Set-ID bits, if the copy has the same owner. No effect without [`Self::MODE`].
    pub const SET_ID: Self = Self(0x80);
    /// Devices are created.
    pub const DEVICES: Self = Self(0x100);
    /// FIFOs and sockets are created.
    pub const SPECIALS: Self = Self(0x200);
    /// Hard links are kept.
    pub const LINKS: Self = Self(0x400);
    /// The time of a symbolic link, also of an existing one.
    pub const LINK_TIMES: Self = Self(0x800);
    /// The time of a directory. No effect without [`Self::TIMES`].
    pub const DIR_TIMES: Self = Self(0x1000);
    /// Set-ID bits, also if the owner differs. No effect without [`Self::SET_ID`].
    pub const LENT: Self = Self(0x2000);
    /// Owners, ACLs and extended attributes that can't be set or read are ignored.
    pub const AS_POSSIBLE: Self = Self(0x4000);

    /// The attributes that need extra system calls to read.
    pub const EXTENDED: Self = Self::XATTRS.with(Self::ACL);

    /// User and group.
    pub const OWNER: Self = Self::USER.with(Self::GROUP);

    /// The attributes of a plain copy.
    pub const OF_COPIES: Self = Self::MODE.with(Self::TIMES).with(Self::DIR_TIMES);

    /// Everything but the access time, which reading for the copy changes, and
    /// [`Self::AS_POSSIBLE`].
    pub const ALL: Self = Self(Self::KNOWN & !Self::ATIMES.0 & !Self::AS_POSSIBLE.0);

    /// The attributes of an archive.
    pub const OF_ARCHIVES: Self = Self::OF_COPIES
        .with(Self::OWNER)
        .with(Self::SET_ID)
        .with(Self::ACL)
        .with(Self::XATTRS)
        .with(Self::LINKS)
        .with(Self::DEVICES)
        .with(Self::SPECIALS)
        .with(Self::LINK_TIMES);

    const KNOWN: u32 = 0x7fff;

    /// The mode bits that are kept.
    pub const fn mode_bits(self) -> u32 {
        if self.has(Self::SET_ID) { KEPT_MODE | SET_ID_MODE } else { KEPT_MODE }
    }

    /// The attributes that are set on directories.
    #[must_use]
    pub const fn of_dirs(self) -> Self {
        if self.has(Self::DIR_TIMES) { self } else { self.without(Self::TIMES) }
    }
}

bit_set!(Kept, u32, Self::KNOWN, "an attribute is unknown");

impl Default for Kept {
    fn default() -> Self {
        Self::OF_COPIES
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
            let touched = found.attributes(kept);
            assert!(kept.has(touched) && touched.is_empty() == found.is_empty());
        }
    }

    #[test]
    fn bits_that_are_not_kept_are_those_of_what_gets_the_mode() {
        let over = |mode, own| Attributes::new(mode, TIME).over(own, Kept::OF_COPIES).mode;
        assert_eq!(over(0o6755, 0), 0o755);
        assert_eq!(over(0o1750, 0o2777), 0o3750);
        assert_eq!(over(u32::MAX, 0), 0o1777);
        assert_eq!(over(0o755, u32::MAX), 0o6755);
        let over = |mode, own| Attributes::new(mode, TIME).over(own, Kept::ALL).mode;
        assert_eq!(over(0o6755, 0), 0o6755);
        assert_eq!(over(0o755, 0o2777), 0o755);
    }

    #[test]
    fn a_set_id_bit_counts_where_the_owner_is_the_same_or_will_be() {
        let source = Attributes { user: Some(7), ..Attributes::new(0o4755, TIME) };
        let there = |user| Attributes { user: Some(user), ..Attributes::new(0o755, TIME) };
        let lends = Kept::MODE.with(Kept::SET_ID);
        assert_eq!(source.changes(&there(7), lends), Changes::MODE);
        assert_eq!(source.changes(&there(8), lends), Changes::default());
        let both = Changes::MODE.with(Changes::USER);
        assert_eq!(source.changes(&there(8), lends.with(Kept::USER)), both);
        assert_eq!(source.changes(&there(7), Kept::MODE), Changes::default());
    }

    #[test]
    fn what_is_not_kept_is_forgotten() {
        let atime = Some(TIME);
        let all = |mode| Attributes {
            user: Some(7),
            group: Some(8),
            atime,
            ..Attributes::new(mode, TIME)
        };
        assert_eq!(all(0o4755).only(Kept::OF_COPIES), Attributes::new(0o4755, TIME));
        let owned = Attributes { atime: None, ..all(0o755) };
        assert_eq!(all(0o755).only(Kept::GROUP), owned);
        let lent = Attributes { atime: None, ..all(0o2755) };
        assert_eq!(all(0o2755).only(Kept::SET_ID), lent);
        assert_eq!(all(0o755).only(Kept::SET_ID), Attributes::new(0o755, TIME));
        assert_eq!(all(0o755).only(Kept::ATIMES.with(Kept::USER)), all(0o755));
    }

    #[test]
    fn each_attribute_counts_where_it_is_kept() {
        let acl =
            Some(Box::new(Extended { acl: Some(Acl::of_mode(0o640)), ..Extended::default() }));
        let xattr = Xattr { name: b"user.a"[..].into(), value: b"1"[..].into() };
        let xattrs = Some(Box::new(Extended { xattrs: vec![xattr], ..Extended::default() }));
        let plain = Attributes::new(0o644, TIME);
        let owned =
            Attributes { user: Some(7), group: Some(8), atime: Some(TIME), ..plain.clone() };
        let all = Kept::ALL.with(Kept::ATIMES);
        for (source, kept, change) in [
            (Attributes { user: Some(9), ..owned.clone() }, Kept::USER, Changes::USER),
            (Attributes { group: Some(9), ..owned.clone() }, Kept::GROUP, Changes::GROUP),
            (Attributes { atime: None, ..owned.clone() }, Kept::ATIMES, Changes::ATIME),
            (Attributes { extended: acl, ..owned.clone() }, Kept::ACL, Changes::ACL),
            (Attributes { extended: xattrs, ..owned.clone() }, Kept::XATTRS, Changes::XATTRS),
        ] {
            assert_eq!(source.changes(&owned, all), change);
            assert_eq!(source.changes(&owned, kept), change);
            assert_eq!(source.changes(&owned, all.without(kept)), Changes::default());
        }
        // An owner that is not known is no other one.
        assert_eq!(plain.changes(&owned, Kept::OWNER), Changes::default());
    }

    #[test]
    fn a_set_id_bit_of_a_group_counts_like_that_of_a_user() {
        let source = Attributes { group: Some(7), ..Attributes::new(0o2755, TIME) };
        let there = Attributes { group: Some(8), ..Attributes::new(0o755, TIME) };
        let lends = Kept::MODE.with(Kept::SET_ID);
        assert_eq!(source.changes(&there, lends), Changes::default());
        assert_eq!(source.changes(&there, lends.with(Kept::LENT)), Changes::MODE);
        let both = Changes::MODE.with(Changes::GROUP);
        assert_eq!(source.changes(&there, lends.with(Kept::GROUP)), both);
    }

    #[test]
    fn sets_are_joined_and_taken_apart() {
        let both = Kept::MODE.with(Kept::TIMES);
        assert_eq!((both.0, Kept::ALL.0), (0x03, 0x3fef));
        assert_eq!(both.with(Kept::TIMES), both);
        assert_eq!(both.without(Kept::TIMES.with(Kept::USER)), Kept::MODE);
        assert_eq!(both.and(Kept::TIMES.with(Kept::USER)), Kept::TIMES);
        assert_eq!((both.only_if(true), both.only_if(false)), (both, Kept::NONE));
        assert!(both.has(Kept::MODE) && !both.has(Kept::MODE.with(Kept::USER)));
        assert!(both.has_any(Kept::MODE.with(Kept::USER)) && !both.has_any(Kept::USER));
        assert!(Kept::NONE.is_empty() && !both.is_empty());
        assert_eq!(Kept::try_from(0x7fff), Ok(Kept(0x7fff)));
        assert!(Kept::try_from(0x8000).is_err());
        assert_eq!((both.mode_bits(), Kept::SET_ID.mode_bits()), (0o1777, 0o7777));
        assert_eq!(both.of_dirs(), Kept::MODE);
        assert_eq!(Kept::OF_COPIES.of_dirs(), Kept::OF_COPIES);
        assert_eq!(Kept::default(), Kept::OF_COPIES);
    }
}
