//! Extended attributes and access control lists.

use serde::{Deserialize, Serialize};

/// Maximum size of both for one entry, in bytes: the system's limit for one extended attribute.
pub const EXTENDED_LEN_MAX: usize = 64 << 10;

/// Extended attributes and access control lists of an entry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Extended {
    /// Extended attributes, in the order of their names.
    pub xattrs: Vec<Xattr>,
    /// The access list, if it has more than the mode.
    pub acl: Option<Acl>,
    /// The default list for new entries in a directory.
    pub default_acl: Option<Acl>,
}

/// An extended attribute.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Xattr {
    /// The name with its namespace: `user.a`.
    pub name: Box<[u8]>,
    /// Its value.
    pub value: Box<[u8]>,
}

/// An access control list as in POSIX.1e, draft 17.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acl(pub Vec<AclEntry>);

/// One line of an access control list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AclEntry {
    /// The user or group that it applies to.
    pub who: AclWho,
    /// Read, write and execute, as in a mode: the low 3 bits.
    pub rights: u8,
}

/// The user or group of a line, in the order of the lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum AclWho {
    /// The owning user.
    Owner,
    /// The user with this number.
    User(u32),
    /// The owning group.
    OwnGroup,
    /// The group with this number.
    Group(u32),
    /// The upper limit for all but the owner and others.
    Mask,
    /// All others.
    Other,
}

impl Extended {
    /// True if there are none of either.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The approximate size in bytes.
    pub fn len(&self) -> usize {
        /// The length of a line in the form of the system.
        const LINE_LEN: usize = 8;
        let xattrs = self.xattrs.iter().map(|one| one.name.len() + one.value.len());
        let acls = self.acl.iter().chain(&self.default_acl).map(|acl| acl.0.len() * LINE_LEN);
        xattrs.chain(acls).sum()
    }
}

impl Acl {
    /// The list that is equivalent to `mode`.
    pub fn of_mode(mode: u32) -> Self {
        let line = |who, shift: u32| AclEntry { who, rights: (mode >> shift & 7) as u8 };
        Self(vec![line(AclWho::Owner, 6), line(AclWho::OwnGroup, 3), line(AclWho::Other, 0)])
    }

    /// True if a system could accept the list: each required line exists once, and a mask if it is
    /// needed.
    pub fn is_valid(&self) -> bool {
        let count = |who| self.0.iter().filter(|line| line.who == who).count();
        let names = |line: &&AclEntry| matches!(line.who, AclWho::User(_) | AclWho::Group(_));
        let mask = count(AclWho::Mask);
        [AclWho::Owner, AclWho::OwnGroup, AclWho::Other].into_iter().all(|who| count(who) == 1)
            && (mask == 1 || mask == 0 && self.0.iter().filter(names).count() == 0)
            && self.0.iter().all(|line| line.rights <= 7)
    }

    /// The mode bits of an entry with this list. The bits of the group are the mask.
    pub fn mode(&self) -> u32 {
        let rights = |who| {
            let of = |line: &&AclEntry| line.who == who;
            self.0.iter().find(of).map(|line| u32::from(line.rights & 7))
        };
        let group = rights(AclWho::Mask).or_else(|| rights(AclWho::OwnGroup));
        rights(AclWho::Owner).unwrap_or(0) << 6
            | group.unwrap_or(0) << 3
            | rights(AclWho::Other).unwrap_or(0)
    }

    /// Sets the bits of `mode` as `chmod` does: the lines that [`Acl::mode`] reads change, and the
    /// others stay.
    pub fn set_mode(&mut self, mode: u32) {
        let has_mask = self.0.iter().any(|line| line.who == AclWho::Mask);
        for line in &mut self.0 {
            let shift = match line.who {
                AclWho::Owner => 6,
                AclWho::Mask => 3,
                AclWho::OwnGroup if !has_mask => 3,
                AclWho::Other => 0,
                _ => continue,
            };
            line.rights = (mode >> shift & 7) as u8;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_the_mode_that_it_is_given() {
        for mode in 0..0o1000 {
            assert_eq!(Acl::of_mode(mode).mode(), mode);
        }
        let mut acl = Acl::of_mode(0o740);
        acl.0.push(AclEntry { who: AclWho::User(5), rights: 7 });
        acl.0.push(AclEntry { who: AclWho::Mask, rights: 6 });
        assert_eq!(acl.mode(), 0o760);
        let rights =
            |acl: &Acl, who| acl.0.iter().find(|line| line.who == who).map(|one| one.rights);
        for mode in 0..0o1000 {
            acl.set_mode(mode);
            assert_eq!(acl.mode(), mode);
            assert_eq!(rights(&acl, AclWho::User(5)), Some(7));
            assert_eq!(rights(&acl, AclWho::OwnGroup), Some(4));
            let mut plain = Acl::of_mode(0o777);
            plain.set_mode(mode);
            assert_eq!(plain, Acl::of_mode(mode));
        }
    }

    #[test]
    fn a_list_has_each_line_once_and_a_mask_where_it_needs_one() {
        let line = |who, rights| AclEntry { who, rights };
        let with = |lines: &[AclEntry]| Acl([&Acl::of_mode(0o640).0[..], lines].concat());
        let (user, group) = (line(AclWho::User(5), 7), line(AclWho::Group(5), 7));
        let mask = line(AclWho::Mask, 7);
        for (acl, is_valid) in [
            (with(&[]), true),
            (with(&[mask]), true),
            (with(&[user, group, mask]), true),
            (with(&[user]), false),
            (with(&[group]), false),
            (with(&[user, mask, mask]), false),
            (with(&[line(AclWho::Other, 0)]), false),
            (with(&[line(AclWho::Mask, 8)]), false),
            (Acl(vec![line(AclWho::Owner, 6), line(AclWho::Other, 0)]), false),
            (Acl::default(), false),
        ] {
            assert_eq!(acl.is_valid(), is_valid, "{acl:?}");
        }
    }

    #[test]
    fn the_length_is_that_of_all_names_values_and_lines() {
        let xattr = Xattr { name: b"user.a"[..].into(), value: b"1234"[..].into() };
        let acl = Acl::of_mode(0o640);
        let mut all = Extended::default();
        assert!(all.is_empty());
        assert_eq!(all.len(), 0);
        all.xattrs = vec![xattr.clone(), xattr];
        assert_eq!(all.len(), 20);
        all.acl = Some(acl.clone());
        assert_eq!(all.len(), 44);
        all.default_acl = Some(acl);
        assert_eq!(all.len(), 68);
        assert!(!all.is_empty());
    }

    #[test]
    fn without_a_mask_the_mode_has_the_rights_of_the_group() {
        let acl = Acl(vec![AclEntry { who: AclWho::OwnGroup, rights: 5 }]);
        assert_eq!((acl.mode(), Acl::default().mode()), (0o050, 0));
    }
}
