//! The encoding of an entry: its name, its kind, a mask, and the fields in the mask, in the order
//! of its bits. A missing field takes no space, and later capabilities can add fields.

use crate::{Attributes, EXTENDED_LEN_MAX, Entry, Extended, Kind};
use serde::de::{Error, SeqAccess, Visitor};
use serde::ser::SerializeTuple;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// The mode.
const MODE: u32 = 0x01;
/// The modification time.
const MTIME: u32 = 0x02;
/// [`Entry::inode`], if it is not 0.
const INODE: u32 = 0x04;
/// [`Entry::ctime`], if it is known.
const CTIME: u32 = 0x08;
/// [`Entry::has_holes`], a bit without a field.
const HOLES: u32 = 0x10;

/// The numbers of user and group, if they are needed.
const OWNER: u32 = 0x20;
/// [`Entry::links`], if it is not 0.
const LINKS: u32 = 0x40;
/// [`Entry::special`], if it is known.
const SPECIAL: u32 = 0x80;
/// The ACL and the default ACL.
const ACLS: u32 = 0x100;
/// Extended attributes.
const XATTRS: u32 = 0x200;
/// The access time, if it is needed.
const ATIME: u32 = 0x400;
/// [`Entry::is_implied_dir`], a bit without a field.
const IMPLIED: u32 = 0x800;
/// [`Entry::is_repeated`], a bit without a field.
const REPEATED: u32 = 0x1000;

/// The fields of every entry.
const ALWAYS: u32 = MODE | MTIME;

/// All valid bits of a mask.
const KNOWN: u32 = ALWAYS | INODE | CTIME | OWNER | LINKS | SPECIAL | ACLS | XATTRS | ATIME | BARE;

/// The bits without a field.
const BARE: u32 = HOLES | IMPLIED | REPEATED;

/// Name, kind, mask, and a field for each bit that is not in [`BARE`].
const PARTS_MAX: usize = 13;

impl Serialize for Entry {
    fn serialize<S: Serializer>(&self, output: S) -> Result<S::Ok, S::Error> {
        let only_if = |bit: u32, is_so: bool| if is_so { bit } else { 0 };
        let Attributes { mode, mtime, user, group, atime, .. } = &self.attributes;
        let owner = user.zip(*group);
        let (xattrs, acls) = (self.attributes.xattrs(), self.attributes.acls());
        let mask = ALWAYS
            | only_if(INODE, self.inode != 0)
            | only_if(CTIME, self.ctime.is_some())
            | only_if(HOLES, self.has_holes)
            | only_if(OWNER, owner.is_some())
            | only_if(LINKS, self.links != 0)
            | only_if(SPECIAL, self.special.is_some())
            | only_if(ACLS, acls != (None, None))
            | only_if(XATTRS, !xattrs.is_empty())
            | only_if(ATIME, atime.is_some())
            | only_if(IMPLIED, self.is_implied_dir)
            | only_if(REPEATED, self.is_repeated);
        let fields = (mask & !BARE).count_ones() as usize;
        let mut output = output.serialize_tuple(3 + fields)?;
        output.serialize_element(&self.name)?;
        output.serialize_element(&self.kind)?;
        output.serialize_element(&mask)?;
        output.serialize_element(mode)?;
        output.serialize_element(mtime)?;
        put(&mut output, (self.inode != 0).then_some(&self.inode))?;
        put(&mut output, self.ctime.as_ref())?;
        put(&mut output, owner.as_ref())?;
        put(&mut output, (self.links != 0).then_some(&self.links))?;
        put(&mut output, self.special.as_ref())?;
        put(&mut output, (mask & ACLS != 0).then_some(&acls))?;
        put(&mut output, (mask & XATTRS != 0).then_some(xattrs))?;
        put(&mut output, atime.as_ref())?;
        output.end()
    }
}

impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        input.deserialize_tuple(PARTS_MAX, Parts)
    }
}

struct Parts;

impl<'de> Visitor<'de> for Parts {
    type Value = Entry;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an entry")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Entry, A::Error> {
        let (name, kind) = (next(&mut parts)?, next(&mut parts)?);
        let mask: u32 = next(&mut parts)?;
        if mask & ALWAYS != ALWAYS || mask & !KNOWN != 0 {
            return Err(A::Error::custom("an entry has unknown fields"));
        }
        let has = |bit| mask & bit != 0;
        let attributes = Attributes::new(next(&mut parts)?, next(&mut parts)?);
        let mut entry = Entry::new(name, kind, attributes);
        entry.inode = optional(&mut parts, has(INODE))?.unwrap_or(0);
        entry.ctime = optional(&mut parts, has(CTIME))?;
        entry.has_holes = has(HOLES);
        entry.is_implied_dir = has(IMPLIED);
        entry.is_repeated = has(REPEATED);
        let owner: Option<(u32, u32)> = optional(&mut parts, has(OWNER))?;
        (entry.attributes.user, entry.attributes.group) = owner.unzip();
        entry.links = optional(&mut parts, has(LINKS))?.unwrap_or(0);
        entry.special = optional(&mut parts, has(SPECIAL))?;
        let (acl, default_acl) = optional(&mut parts, has(ACLS))?.unwrap_or_default();
        let xattrs = optional(&mut parts, has(XATTRS))?.unwrap_or_default();
        let extended = Extended { xattrs, acl, default_acl };
        entry.attributes.atime = optional(&mut parts, has(ATIME))?;
        if let Some(rule) = rule_against(&entry, &extended) {
            return Err(A::Error::custom(rule));
        }
        entry.attributes.extended = (!extended.is_empty()).then(|| Box::new(extended));
        Ok(entry)
    }
}

/// The rule that an entry with these attributes violates, if there is one.
fn rule_against(entry: &Entry, extended: &Extended) -> Option<&'static str> {
    let Extended { xattrs, acl, default_acl } = extended;
    if extended.len() > EXTENDED_LEN_MAX {
        return Some("an entry has more attributes than it may");
    }
    if !xattrs.is_sorted_by(|one, next| one.name < next.name) {
        return Some("an entry has extended attributes out of order, or one twice");
    }
    if xattrs.iter().any(|xattr| xattr.name.is_empty() || xattr.name.contains(&0)) {
        return Some("an extended attribute has an invalid name");
    }
    if acl.iter().chain(default_acl).any(|acl| !acl.is_valid()) {
        return Some("an access control list is invalid");
    }
    // The system treats this number as none.
    if [entry.attributes.user, entry.attributes.group].contains(&Some(u32::MAX)) {
        return Some("a user or group number is invalid");
    }
    let is_file = matches!(entry.kind, Kind::File { .. });
    if entry.links != 0 && matches!(entry.kind, Kind::Dir) {
        return Some("a directory has several names");
    }
    if entry.is_implied_dir && entry.kind != Kind::Dir {
        return Some("an entry on a path is not a directory");
    }
    if entry.is_repeated && entry.kind != Kind::Dir {
        return Some("an entry that is listed again is not a directory");
    }
    if entry.special.is_some() && entry.kind != Kind::Special || default_acl.is_some() && is_file {
        return Some("an entry has fields that its kind can't have");
    }
    None
}

/// Appends `field`, if the entry has it.
fn put<T: Serialize + ?Sized, O: SerializeTuple>(
    output: &mut O,
    field: Option<&T>,
) -> Result<(), O::Error> {
    field.map_or(Ok(()), |field| output.serialize_element(field))
}

/// The next part of an entry, which is required.
fn next<'de, T: Deserialize<'de>, A: SeqAccess<'de>>(parts: &mut A) -> Result<T, A::Error> {
    parts.next_element()?.ok_or_else(|| A::Error::custom("an entry ends too early"))
}

fn optional<'de, T: Deserialize<'de>, A: SeqAccess<'de>>(
    parts: &mut A,
    is_there: bool,
) -> Result<Option<T>, A::Error> {
    is_there.then(|| next(parts)).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Acl, AclEntry, AclWho, Name, Special, Timestamp, Xattr};

    const TIME: Timestamp = Timestamp { secs: 7, nanos: 5 };

    fn of(kind: Kind) -> Entry {
        Entry::new(None, kind, Attributes::new(0o644, TIME))
    }

    fn file() -> Entry {
        of(Kind::File { size: 1 })
    }

    fn with(change: impl FnOnce(&mut Attributes)) -> Entry {
        let mut entry = file();
        change(&mut entry.attributes);
        entry
    }

    fn extended(change: impl FnOnce(&mut Extended)) -> Entry {
        let mut extended = Extended::default();
        change(&mut extended);
        with(|attributes| attributes.extended = Some(Box::new(extended)))
    }

    fn xattr(name: &[u8], len: usize) -> Xattr {
        Xattr { name: name.into(), value: vec![b'x'; len].into() }
    }

    #[test]
    fn an_entry_reads_as_it_was_written_with_a_bit_for_each_field() {
        let acl = Some(Acl::of_mode(0o640));
        let mut dir = of(Kind::Dir);
        dir.attributes.extended =
            Some(Box::new(Extended { default_acl: acl.clone(), ..Extended::default() }));
        for (entry, mask) in [
            (file(), 0),
            (Entry { name: Some(Name::new(b"a").unwrap()), ..file() }, 0),
            (Entry { inode: 9, ..file() }, INODE),
            (Entry { ctime: Some(TIME), ..file() }, CTIME),
            (Entry { has_holes: true, ..file() }, HOLES),
            (with(|all| (all.user, all.group) = (Some(3), Some(4))), OWNER),
            (Entry { links: 2, ..file() }, LINKS),
            (Entry { special: Some(Special::Fifo), ..of(Kind::Special) }, SPECIAL),
            (extended(|all| all.acl = acl), ACLS),
            (dir, ACLS),
            (extended(|all| all.xattrs = vec![xattr(b"a", 1), xattr(b"b", 1)]), XATTRS),
            (with(|all| all.atime = Some(TIME)), ATIME),
            (Entry { is_implied_dir: true, ..of(Kind::Dir) }, IMPLIED),
            (Entry { is_repeated: true, ..of(Kind::Dir) }, REPEATED),
        ] {
            let bytes = postcard::to_allocvec(&entry).expect("bytes");
            assert_eq!(postcard::from_bytes(&bytes), Ok(entry.clone()), "{entry:?}");
            let head = postcard::to_allocvec(&(&entry.name, &entry.kind)).expect("bytes");
            let found: u32 = postcard::from_bytes(&bytes[head.len()..]).expect("a mask");
            assert_eq!(found, ALWAYS | mask, "{entry:?}");
        }
        // Of an owner both parts are told, or none.
        let half = with(|attributes| attributes.user = Some(3));
        let bytes = postcard::to_allocvec(&half).expect("bytes");
        assert_eq!(postcard::from_bytes(&bytes), Ok(file()));
    }

    #[test]
    fn a_mask_has_what_each_entry_has_and_nothing_unknown() {
        let bytes = postcard::to_allocvec(&file()).expect("bytes");
        let read = |mask: u32| {
            let mask = postcard::to_allocvec(&mask).expect("bytes");
            let bytes = [&bytes[..3], &mask, &bytes[4..]].concat();
            postcard::from_bytes::<Entry>(&bytes).is_ok()
        };
        assert!(read(ALWAYS) && read(ALWAYS | HOLES));
        assert!(!read(MODE) && !read(MTIME) && !read(0));
        assert!(!read(ALWAYS | 0x2000) && !read(ALWAYS | INODE));
    }

    #[test]
    fn an_entry_that_breaks_a_rule_is_refused() {
        let longest = EXTENDED_LEN_MAX - 1;
        let acl = |rights| {
            let mut acl = Acl::of_mode(0o640);
            acl.0.push(AclEntry { who: AclWho::Mask, rights });
            Some(acl)
        };
        let dir = || of(Kind::Dir);
        let default_of = |kind| {
            let mut entry = of(kind);
            entry.attributes = extended(|all| all.default_acl = acl(7)).attributes;
            entry
        };
        let link = || of(Kind::Symlink { target: b"a"[..].into() });
        let fifo = Some(Special::Fifo);
        for (entry, is_refused) in [
            (extended(|all| all.xattrs = vec![xattr(b"a", longest)]), false),
            (extended(|all| all.xattrs = vec![xattr(b"a", longest + 1)]), true),
            (extended(|all| all.xattrs = vec![xattr(b"b", 1), xattr(b"a", 1)]), true),
            (extended(|all| all.xattrs = vec![xattr(b"a", 1), xattr(b"a", 2)]), true),
            (extended(|all| all.xattrs = vec![xattr(b"", 1)]), true),
            (extended(|all| all.xattrs = vec![xattr(b"a\0", 1)]), true),
            (extended(|all| all.acl = acl(7)), false),
            (extended(|all| all.acl = acl(8)), true),
            (default_of(Kind::Dir), false),
            (default_of(Kind::File { size: 1 }), true),
            (with(|all| (all.user, all.group) = (Some(u32::MAX - 1), Some(0))), false),
            (with(|all| (all.user, all.group) = (Some(u32::MAX), Some(0))), true),
            (with(|all| (all.user, all.group) = (Some(0), Some(u32::MAX))), true),
            (Entry { links: 1, ..file() }, false),
            (Entry { links: 1, ..link() }, false),
            (Entry { links: 1, ..dir() }, true),
            (Entry { is_implied_dir: true, ..dir() }, false),
            (Entry { is_implied_dir: true, ..file() }, true),
            (Entry { is_repeated: true, ..dir() }, false),
            (Entry { is_repeated: true, ..link() }, true),
            (Entry { special: fifo, ..of(Kind::Special) }, false),
            (Entry { special: fifo, ..file() }, true),
        ] {
            let bytes = postcard::to_allocvec(&entry).expect("bytes");
            assert_eq!(postcard::from_bytes::<Entry>(&bytes).is_err(), is_refused, "{entry:?}");
        }
    }
}
