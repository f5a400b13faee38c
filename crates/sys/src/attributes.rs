//! Reads an entry's extended attributes and access control lists, and sets them through its open
//! handle.

use crate::Dir;
use crate::faked;
use crate::held::{Target, proc_unavailable};
use crate::limits::is_root;
use crate::not_kept::{self, NotKept};
use haul_model::{
    Acl, AclEntry, AclWho, Attributes, EXTENDED_LEN_MAX, Extended, Kept, Name, Xattr,
};
use rustix::io::Errno;
use std::io;

/// Buffer for the names of extended attributes, in bytes. Enough for most entries; others take a
/// second call.
const NAMES_LEN: usize = 512;

/// The longest list of names that the system returns, in bytes (`XATTR_LIST_MAX`).
const NAMES_LEN_MAX: usize = 64 << 10;

/// The names of the extended attributes of `name` in `dir`, not following a link, or of `dir`
/// itself. They include those of ACLs.
///
/// # Errors
/// Errors of `llistxattr`. A file system without extended attributes is no error.
pub fn attribute_names(dir: &Dir, name: Option<&Name>) -> io::Result<Vec<Vec<u8>>> {
    let names = real_names(dir, name)?;
    Ok(if dir.fakes() { faked::decode_names(names) } else { names })
}

/// Like [`attribute_names`], including names that store faked attributes.
pub(crate) fn real_names(dir: &Dir, name: Option<&Name>) -> io::Result<Vec<Vec<u8>>> {
    let Some(name) = name else {
        return listed(|names| rustix::fs::flistxattr(dir, names));
    };
    // Only the last component of this path is looked up: the rest is an open handle.
    let path = dir.path_to(name.as_bytes());
    match listed(|names| rustix::fs::llistxattr(&path, names)) {
        // Without /proc a file must be opened. A link has no extended attributes for users.
        Err(error) if error.kind() == io::ErrorKind::NotFound => match dir.open_file(name, false) {
            Ok((file, _)) => listed(|names| rustix::fs::flistxattr(&file, names)),
            Err(error) => match dir.stat(name)? {
                stat if stat.is_symlink() => Ok(Vec::new()),
                stat if stat.is_file() || stat.is_dir() => Err(error),
                _ => Err(proc_unavailable()),
            },
        },
        // Some file systems lack them, and report that only for directories (rclone).
        Err(_) if has_none(dir) => Ok(Vec::new()),
        names => names,
    }
}

/// True if the file system of `dir` reports that it has no extended attributes.
fn has_none(dir: &Dir) -> bool {
    matches!(rustix::fs::flistxattr(dir, &mut [0; NAMES_LEN][..]), Err(NONE | Errno::NOSYS))
}

/// The error of a file system without extended attributes.
pub(crate) const NONE: Errno = Errno::OPNOTSUPP;

/// The extended attribute `name` of `dir`, if its length is `LEN`.
pub fn attribute<const LEN: usize>(dir: &Dir, name: &str) -> Option<[u8; LEN]> {
    let mut value = [0; LEN];
    let len = rustix::fs::fgetxattr(dir, name, &mut value[..]).ok()?;
    (len == LEN).then_some(value)
}

/// True unless the file system of `dir` reports that it does not support extended attributes like
/// `name`.
pub fn supports_attributes(dir: &Dir, name: &str) -> bool {
    let asked = rustix::fs::fgetxattr(dir, name, &mut [0; 0][..]);
    !matches!(asked, Err(Errno::OPNOTSUPP | Errno::NOSYS))
}

/// Sets the extended attribute `name` of `dir`.
///
/// # Errors
/// Errors of `fsetxattr`.
pub fn set_attribute(dir: &Dir, name: &str, value: &[u8]) -> io::Result<()> {
    Ok(rustix::fs::fsetxattr(dir, name, value, rustix::fs::XattrFlags::empty())?)
}

/// Removes the extended attribute `name` of `dir`.
///
/// # Errors
/// Errors of `fremovexattr`.
pub fn remove_attribute(dir: &Dir, name: &str) -> io::Result<()> {
    Ok(rustix::fs::fremovexattr(dir, name)?)
}

pub(crate) fn listed(list: impl Fn(&mut [u8]) -> Result<usize, Errno>) -> io::Result<Vec<Vec<u8>>> {
    let mut few = [0; NAMES_LEN];
    let names = match list(&mut few) {
        Ok(len) => few[..len].to_vec(),
        Err(Errno::RANGE) => {
            let mut many = vec![0; NAMES_LEN_MAX];
            let len = list(&mut many)?;
            many.truncate(len);
            many
        }
        Err(NONE | Errno::NOSYS) => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    let names = names.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    Ok(names.map(<[u8]>::to_vec).collect())
}

/// The names of the system's attributes that hold access control lists.
const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";

/// Names, or their beginnings, of attributes that belong to the entry rather than to its system.
/// Only root sees those other than the first.
const OWN: [&[u8]; 3] = [b"user.", b"trusted.", b"security.capability"];

/// The beginning of the names of haul's own attributes.
pub(crate) const OF_HAUL: &[u8] = b"user.haul.";

/// True if the attribute belongs to the entry, whoever can see it.
pub(crate) fn belongs(name: &[u8]) -> bool {
    OWN.iter().any(|kind| name.starts_with(kind))
}

/// True if a copy keeps the attribute.
fn is_kept(name: &[u8]) -> bool {
    let kinds = if is_root() { &OWN[..] } else { &OWN[..1] };
    kinds.iter().any(|kind| name.starts_with(kind)) && !name.starts_with(OF_HAUL)
}

/// The extended attributes and access control lists in `which` of `name` in `dir`, not following a
/// link.
///
/// # Errors
/// Errors of `llistxattr` and `lgetxattr`; [`io::ErrorKind::FileTooLarge`] if they exceed
/// [`EXTENDED_LEN_MAX`] bytes.
pub fn extended(dir: &Dir, name: &Name, which: Kept) -> io::Result<Option<Box<Extended>>> {
    let names = real_names(dir, Some(name))?;
    let path = dir.path_to(name.as_bytes());
    let get = |of: &[u8], to: &mut [u8]| rustix::fs::lgetxattr(&path, of, to);
    let found = match dir.fakes() {
        true => faked::extended(&names, dir.stat(name)?.mode, which, &get),
        false => real_values(&names, which, &get),
    };
    found.map_err(|error| dir.correct_proc_error(name.as_bytes(), error))
}

/// Like [`extended`], for an open or held entry.
pub(crate) fn extended_at(target: Target<'_>, which: Kept) -> io::Result<Option<Box<Extended>>> {
    let names = listed(|names| target.list_xattrs(names))?;
    real_values(&names, which, &|of, to| target.xattr(of, to))
}

fn is_of(name: &[u8], which: Kept) -> bool {
    let is_acl = name == ACCESS.as_bytes() || name == DEFAULT.as_bytes();
    which.has(Kept::ACL) && is_acl || which.has(Kept::XATTRS) && is_kept(name)
}

pub(crate) type Get<'g> = &'g dyn Fn(&[u8], &mut [u8]) -> Result<usize, Errno>;

fn real_values(names: &[Vec<u8>], which: Kept, get: Get<'_>) -> io::Result<Option<Box<Extended>>> {
    let names = names.iter().map(Vec::as_slice).filter(|name| is_of(name, which));
    values(names, get, |found, name, value| {
        if name == ACCESS.as_bytes() {
            found.acl = Some(acl_of(&value)?);
        } else if name == DEFAULT.as_bytes() {
            found.default_acl = Some(acl_of(&value)?);
        } else {
            found.xattrs.push(Xattr { name: name.into(), value: value.into() });
        }
        Ok(())
    })
}

/// Reads the attributes `names` with `get`. `add` takes each value.
pub(crate) fn values<'n>(
    names: impl Iterator<Item = &'n [u8]>,
    get: Get<'_>,
    add: impl Fn(&mut Extended, &[u8], Vec<u8>) -> io::Result<()>,
) -> io::Result<Option<Box<Extended>>> {
    let mut found = Extended::default();
    for name in names {
        let mut value = vec![0; EXTENDED_LEN_MAX];
        match get(name, &mut value) {
            Ok(len) => value.truncate(len),
            // It was removed meanwhile.
            Err(Errno::NODATA) => continue,
            Err(Errno::RANGE | Errno::TOOBIG) => return Err(too_many()),
            Err(error) => return Err(error.into()),
        }
        add(&mut found, name, value)?;
        if found.len() > EXTENDED_LEN_MAX {
            return Err(too_many());
        }
    }
    found.xattrs.sort_unstable();
    // Two stored names may be those of the same attribute.
    found.xattrs.dedup_by(|one, other| one.name == other.name);
    // A list that only repeats the mode is dropped.
    found.acl.take_if(|acl| acl.0.len() <= 3);
    Ok((!found.is_empty()).then(|| Box::new(found)))
}

fn too_many() -> io::Error {
    let message = format!("it has more than {EXTENDED_LEN_MAX} bytes of extended attributes");
    io::Error::new(io::ErrorKind::FileTooLarge, message)
}

/// Sets those extended attributes and access control lists of `attributes` that are in `which`, and
/// removes others of these kinds.
pub(crate) fn set_extended(
    target: Target<'_>,
    attributes: &Attributes,
    which: Kept,
) -> io::Result<()> {
    let ignore_not_kept = |set| not_kept::ignore_not_kept(which, set);
    let now = extended_at(target, which)?.unwrap_or_default();
    if which.has(Kept::ACL) {
        let (acl, default_acl) = attributes.acls();
        if acl != now.acl.as_ref() {
            // Removing a list leaves its mask as the group's rights, which may be too many.
            let of_mode = || Acl::of_mode(attributes.mode);
            ignore_not_kept(set_acl(target, ACCESS, &acl.cloned().unwrap_or_else(of_mode)))?;
        }
        match default_acl {
            wanted if wanted == now.default_acl.as_ref() => {}
            Some(wanted) => ignore_not_kept(set_acl(target, DEFAULT, wanted))?,
            None => {
                let removed = target.remove_xattr(DEFAULT.as_bytes());
                ignore_not_kept(removed.map_err(|error| failed(DEFAULT, error)))?;
            }
        }
    }
    if which.has(Kept::XATTRS) {
        let wanted = attributes.xattrs();
        for Xattr { name, .. } in &now.xattrs {
            if !wanted.iter().any(|one| one.name == *name) {
                let removed = target.remove_xattr(name);
                ignore_not_kept(removed.map_err(|error| failed_at(name, error)))?;
            }
        }
        for one in wanted.iter().filter(|one| is_kept(&one.name) && !now.xattrs.contains(one)) {
            let Xattr { name, value } = one;
            let set = target.set_xattr(name, value);
            ignore_not_kept(set.map_err(|error| failed_at(name, error)))?;
        }
    }
    Ok(())
}

/// Sets the extended attributes of a new symbolic link. Users other than root can't set any.
pub(crate) fn set_link_extended(
    dir: &Dir,
    name: &[u8],
    attributes: &Attributes,
    which: Kept,
) -> io::Result<()> {
    let path = dir.path_to(name);
    for Xattr { name, value } in attributes.xattrs().iter().filter(|one| is_kept(&one.name)) {
        let set = rustix::fs::lsetxattr(&path, &name[..], value, rustix::fs::XattrFlags::empty());
        not_kept::ignore_not_kept(which, set.map_err(|error| failed_at(name, error)))?;
    }
    Ok(())
}

fn set_acl(target: Target<'_>, name: &str, acl: &Acl) -> io::Result<()> {
    target.set_xattr(name.as_bytes(), &bytes_of(acl)).map_err(|error| failed(name, error))
}

pub(crate) fn failed_at(name: &[u8], error: Errno) -> io::Error {
    failed(&haul_model::escape_bytes(name), error)
}

fn failed(name: &str, error: Errno) -> io::Error {
    let what = match name {
        ACCESS | DEFAULT => "access control lists".to_owned(),
        name => format!("the extended attribute {name}"),
    };
    let error = match error {
        Errno::OPNOTSUPP | Errno::NOSYS => {
            let message = format!("the file system does not support {what}");
            return NotKept::error(io::ErrorKind::Unsupported, message);
        }
        // These errors are about one entry, not about the free space.
        Errno::NOSPC | Errno::TOOBIG | Errno::RANGE => {
            let message = format!("the file system has no room for {what}");
            return NotKept::error(io::ErrorKind::Unsupported, message);
        }
        error => io::Error::from(error),
    };
    NotKept::error(error.kind(), format!("can't set {what}: {error}"))
}

/// The version of the system's format of a list (`linux/posix_acl_xattr.h`). Lines follow, each
/// with a tag and rights of 16 bits, and an ID of 32 bits, all little-endian.
const ACL_VERSION: [u8; 4] = [2, 0, 0, 0];
const LINE_LEN: usize = 8;
/// The ID in a line that names no user or group.
const NOBODY: u32 = u32::MAX;

fn bytes_of(acl: &Acl) -> Vec<u8> {
    let mut lines: Vec<_> = acl
        .0
        .iter()
        .map(|line| match line.who {
            AclWho::Owner => (0x01_u16, NOBODY, line.rights),
            AclWho::User(id) => (0x02, id, line.rights),
            AclWho::OwnGroup => (0x04, NOBODY, line.rights),
            AclWho::Group(id) => (0x08, id, line.rights),
            AclWho::Mask => (0x10, NOBODY, line.rights),
            AclWho::Other => (0x20, NOBODY, line.rights),
        })
        .collect();
    // The system requires this order.
    lines.sort_unstable();
    let mut bytes = ACL_VERSION.to_vec();
    for (tag, id, rights) in lines {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(u16::from(rights).to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

fn acl_of(bytes: &[u8]) -> io::Result<Acl> {
    let unknown = || {
        let message = "its access control list has an unknown form";
        io::Error::new(io::ErrorKind::InvalidData, message)
    };
    let lines = bytes.strip_prefix(&ACL_VERSION).ok_or_else(unknown)?;
    let (lines, rest) = lines.as_chunks::<LINE_LEN>();
    if !rest.is_empty() {
        return Err(unknown());
    }
    let line = |&[tag, tag_high, rights, _, id @ ..]: &[u8; LINE_LEN]| {
        let id = u32::from_le_bytes(id);
        let who = match u16::from_le_bytes([tag, tag_high]) {
            0x01 => AclWho::Owner,
            0x02 => AclWho::User(id),
            0x04 => AclWho::OwnGroup,
            0x08 => AclWho::Group(id),
            0x10 => AclWho::Mask,
            0x20 => AclWho::Other,
            _ => return Err(unknown()),
        };
        Ok(AclEntry { who, rights: rights & 7 })
    };
    lines.iter().map(line).collect::<io::Result<_>>().map(Acl)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_acl_is_encoded_as_the_system_does() {
        let mut acl = Acl::of_mode(0o640);
        acl.0.push(AclEntry { who: AclWho::User(1000), rights: 6 });
        acl.0.push(AclEntry { who: AclWho::Mask, rights: 6 });
        let bytes = bytes_of(&acl);
        assert_eq!(&bytes[..4], ACL_VERSION);
        // From `getfattr -e hex`, for a file with `setfacl -m u:1000:rw`.
        assert_eq!(&bytes[12..20], [2, 0, 6, 0, 0xe8, 3, 0, 0]);
        let back = acl_of(&bytes).expect("a list");
        assert_eq!((bytes_of(&back), back.mode()), (bytes, 0o660));
        assert!(acl_of(b"").is_err() && acl_of(b"\x02\0\0\0\x01").is_err());
    }
}
