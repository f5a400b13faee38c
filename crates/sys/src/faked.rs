//! Attributes that only root can give, kept by whoever runs this: they are written down in
//! extended attributes of users, in the form of `rsync --fake-super`, which so reads them.
//! A device, FIFO, socket or symbolic link is a regular file here of which the same tells
//! what it stands for.

mod acl;

use self::acl::{acl_of, bytes_of};
use crate::Dir;
use crate::attributes::{self, NONE};
use crate::held::{Target, unled};
use crate::meta::{self, Stat};
use haul_model::{Attributes, Device, EXTENDED_LEN_MAX, Extended, Kept, Name, Special, Xattr};
use rustix::fs::{AtFlags, FileType};
use rustix::io::Errno;
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStringExt;

/// The attributes that belong to rsync.
const OF_RSYNC: &[u8] = b"user.rsync.";
/// The kind, the mode, the device and the owner: `100644 0,0 1000:1000`, the first in octal.
const STAT: &[u8] = b"user.rsync.%stat";
/// Access control lists: its own, and the one that entries in it begin with.
const ACCESS: &[u8] = b"user.rsync.%aacl";
const DEFAULT: &[u8] = b"user.rsync.%dacl";

/// The longest record that there can be, in bytes, and more.
const STAT_LEN_MAX: usize = 256;

/// The rights of the owner that an entry really has: who writes them down can go on with
/// all of it.
const OWN_RIGHTS_OF_DIRS: u32 = 0o700;
const OWN_RIGHTS: u32 = 0o600;

/// The kind of a mode, and the bits beside it.
const KIND_BITS: u32 = 0o170_000;
const MODE_BITS: u32 = 0o7777;

impl Dir {
    /// The same directory, in which attributes are written down.
    #[must_use]
    pub fn faking(mut self) -> Self {
        self.fakes = true;
        self
    }

    /// True if attributes are written down in it.
    pub fn fakes(&self) -> bool {
        self.fakes
    }

    /// The metadata of an open file or directory in it, as this directory tells it.
    ///
    /// # Errors
    /// Those of `fstat` and `fgetxattr`.
    pub fn stat_of(&self, file: impl AsFd) -> io::Result<Stat> {
        let stat = meta::file_stat(file.as_fd())?;
        if !self.fakes {
            return Ok(stat);
        }
        let target = Target::Open(file.as_fd());
        told(stat, |name, value| target.xattr(name, value))
    }

    /// The extended attributes and access control lists of such a file, as far as they are
    /// in `which`.
    ///
    /// # Errors
    /// Those of `flistxattr` and `fgetxattr`.
    pub fn extended_of(&self, file: impl AsFd, which: Kept) -> io::Result<Option<Box<Extended>>> {
        self.extended_at(Target::Open(file.as_fd()), which)
    }

    /// The same of what is open or held.
    pub(crate) fn extended_at(
        &self,
        target: Target<'_>,
        which: Kept,
    ) -> io::Result<Option<Box<Extended>>> {
        if !self.fakes {
            return attributes::extended_at(target, which);
        }
        let names = attributes::listed(|names| target.list_xattrs(names))?;
        let mode = told(target.stat()?, |name, value| target.xattr(name, value))?.mode;
        extended(&names, mode, which, &|of, to| target.xattr(of, to))
    }

    /// The metadata of `name`, of which `stat` is what the system tells; a link is followed
    /// if that says so.
    pub(crate) fn told_of(&self, name: &[u8], stat: Stat, follow: bool) -> io::Result<Stat> {
        let path = self.path_to(name);
        let told = told(stat, |of, to| match follow {
            true => rustix::fs::getxattr(&path, of, to),
            false => rustix::fs::lgetxattr(&path, of, to),
        });
        told.map_err(|error| self.led_to(name, error))
    }

    /// The same of an entry that is open for nothing.
    pub(crate) fn told_of_held(held: impl AsFd, stat: Stat) -> io::Result<Stat> {
        let path = format!("/proc/self/fd/{}", held.as_fd().as_raw_fd());
        let told = told(stat, |of, to| rustix::fs::getxattr(&path, of, to));
        told.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => unled(),
            _ => error,
        })
    }

    /// `error`, with which a path through this directory's handle led to `name`. That it
    /// leads nowhere does not mean that the entry is gone, if it can be seen without.
    pub(crate) fn led_to(&self, name: &[u8], error: io::Error) -> io::Error {
        let is_there = || rustix::fs::statat(self, name, AtFlags::SYMLINK_NOFOLLOW).is_ok();
        if error.kind() == io::ErrorKind::NotFound && is_there() { unled() } else { error }
    }

    /// A path through the handle of this directory: the kernel resolves no more than the
    /// name behind it.
    pub(crate) fn path_to(&self, name: &[u8]) -> OsString {
        let mut path = format!("/proc/self/fd/{}/", self.as_fd().as_raw_fd()).into_bytes();
        path.extend_from_slice(name);
        OsString::from_vec(path)
    }

    /// Makes a file under the private name `temp` that stands for a symbolic link to
    /// `target`.
    pub(crate) fn make_faked_symlink(
        &self,
        target: &[u8],
        temp: &str,
        attributes: &Attributes,
        which: Kept,
    ) -> io::Result<()> {
        let attributes = Attributes { mode: 0o777, ..attributes.clone() };
        let which = which.without(Kept::ACL).with(Kept::MODE);
        let kind = (FileType::Symlink, NO_DEVICE);
        self.make_faked(target, temp, kind, &attributes, which)
    }

    /// Makes an empty file under the private name `temp` that stands for a FIFO, socket or
    /// device.
    pub(crate) fn make_faked_special(
        &self,
        special: Special,
        temp: &str,
        attributes: &Attributes,
        which: Kept,
    ) -> io::Result<()> {
        let kind = match special {
            Special::Fifo => (FileType::Fifo, NO_DEVICE),
            Special::Socket => (FileType::Socket, NO_DEVICE),
            Special::Block(device) => (FileType::BlockDevice, device),
            Special::Char(device) => (FileType::CharacterDevice, device),
        };
        self.make_faked(b"", temp, kind, &attributes.over(0, which), which)
    }

    fn make_faked(
        &self,
        content: &[u8],
        temp: &str,
        kind: (FileType, Device),
        attributes: &Attributes,
        which: Kept,
    ) -> io::Result<()> {
        let mut file = self.create_private(temp)?;
        let made = file
            .write_all(content)
            .and_then(|()| set(self, Target::Open(file.as_fd()), attributes, which, Some(kind)));
        made.inspect_err(|_| {
            // Without its attributes it is not what was asked for: it must not stay.
            let _ = self.remove_private(temp);
        })
    }

    /// Where the file `name` leads, if it stands for a symbolic link.
    pub(crate) fn read_faked_link(&self, name: &Name) -> io::Result<Vec<u8>> {
        /// The longest target that a link can have, in bytes.
        const TARGET_LEN_MAX: u64 = 4096;
        let (file, stat) = self.open_any(name, false)?;
        if stat.size > TARGET_LEN_MAX || !self.stat_of(&file)?.is_symlink() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it stands for no link"));
        }
        let mut target = Vec::new();
        io::Read::read_to_end(&mut io::Read::take(file, TARGET_LEN_MAX), &mut target)?;
        Ok(target)
    }
}

const NO_DEVICE: Device = Device { major: 0, minor: 0 };

/// `stat` with what its entry has written down, which `get` reads.
fn told(
    mut stat: Stat,
    get: impl FnOnce(&[u8], &mut [u8]) -> Result<usize, Errno>,
) -> io::Result<Stat> {
    if !stat.is_file() && !stat.is_dir() {
        return Ok(stat);
    }
    let mut record = [0; STAT_LEN_MAX];
    let record = match get(STAT, &mut record) {
        Ok(len) => &record[..len],
        Err(Errno::NODATA | NONE | Errno::NOSYS) => return Ok(stat),
        Err(Errno::RANGE | Errno::TOOBIG) => return Err(corrupt()),
        Err(error) => return Err(error.into()),
    };
    let (mode, device, owner) = parsed(record).ok_or_else(corrupt)?;
    // The field's width differs between systems.
    #[allow(clippy::useless_conversion)]
    let kind = FileType::from_raw_mode((mode & KIND_BITS) as _);
    // Only a directory has entries, and no record makes one of a file.
    if kind == FileType::Unknown || (kind == FileType::Directory) != stat.is_dir() {
        return Err(corrupt());
    }
    (stat.file_type, stat.mode, stat.device) = (kind, mode & MODE_BITS, device);
    (stat.uid, stat.gid) = owner;
    Ok(stat)
}

fn corrupt() -> io::Error {
    let message =
        "its attribute user.rsync.%stat (owner and mode) is damaged; remove it with setfattr -x";
    io::Error::new(io::ErrorKind::InvalidData, message)
}

/// A record in parts: mode with kind, device, and user and group.
fn parsed(record: &[u8]) -> Option<(u32, Device, (u32, u32))> {
    let text = std::str::from_utf8(record).ok()?.trim_end_matches('\0');
    let mut parts = text.split_ascii_whitespace();
    let mode = u32::from_str_radix(parts.next()?, 8).ok()?;
    let (major, minor) = parts.next()?.split_once(',')?;
    let (user, group) = parts.next()?.split_once(':')?;
    let device = Device { major: major.parse().ok()?, minor: minor.parse().ok()? };
    let owner = (user.parse().ok()?, group.parse().ok()?);
    let is_whole = parts.next().is_none() && mode & !(KIND_BITS | MODE_BITS) == 0;
    // The system takes that number for none.
    (is_whole && ![owner.0, owner.1].contains(&u32::MAX)).then_some((mode, device, owner))
}

/// Writes those of `attributes` down that are in `which` and that the entry can't be given;
/// the time is its own. `kind` is what it stands for from now on.
pub(crate) fn set(
    dir: &Dir,
    target: Target<'_>,
    attributes: &Attributes,
    which: Kept,
    kind: Option<(FileType, Device)>,
) -> io::Result<()> {
    let really = target.stat()?;
    let now = told(really, |name, value| target.xattr(name, value))?;
    let mut wanted = now;
    if let Some(kind) = kind {
        (wanted.file_type, wanted.device) = kind;
    }
    wanted.uid = attributes.user.filter(|_| which.has(Kept::USER)).unwrap_or(now.uid);
    wanted.gid = attributes.group.filter(|_| which.has(Kept::GROUP)).unwrap_or(now.gid);
    if which.has(Kept::MODE) || meta::sets_mode_again(attributes, which) {
        wanted.mode = attributes.mode & !meta::lent_in_vain(&wanted, attributes, which) & MODE_BITS;
    }
    if kind.is_some() || which.has_any(Kept::MODE.with(Kept::OWNER)) {
        set_stat(target, &really, &wanted)?;
    }
    if which.has(Kept::ACL) {
        let (acl, default_acl) = attributes.acls();
        for (name, acl) in [(ACCESS, acl), (DEFAULT, default_acl)] {
            keep(target, name, acl.map(|acl| bytes_of(acl, name == ACCESS)))?;
        }
    }
    if which.has(Kept::XATTRS) {
        set_xattrs(target, attributes)?;
    }
    meta::set_times(dir, target, attributes, which)
}

/// Has the record of an entry that is `really` like that say what is `wanted`.
fn set_stat(target: Target<'_>, really: &Stat, wanted: &Stat) -> io::Result<()> {
    let own = if really.is_dir() { OWN_RIGHTS_OF_DIRS } else { OWN_RIGHTS };
    let mode = wanted.mode & 0o777 | own;
    if really.mode != mode {
        target.chmod(mode)?;
    }
    let is_so = (wanted.file_type, wanted.mode) == (really.file_type, mode)
        && (wanted.uid, wanted.gid) == (really.uid, really.gid);
    // The field's width differs between systems.
    #[allow(clippy::useless_conversion)]
    let kind = u32::from(wanted.file_type.as_raw_mode());
    let device = match wanted.file_type {
        FileType::BlockDevice | FileType::CharacterDevice => wanted.device,
        _ => NO_DEVICE,
    };
    let record = format!(
        "{:o} {},{} {}:{}",
        kind | wanted.mode,
        device.major,
        device.minor,
        wanted.uid,
        wanted.gid
    );
    keep(target, STAT, (!is_so).then(|| record.into_bytes()))
}

/// Sees to it that the attribute `name` has this value, or is none.
fn keep(target: Target<'_>, name: &[u8], wanted: Option<Vec<u8>>) -> io::Result<()> {
    let mut there = vec![0; EXTENDED_LEN_MAX];
    let there = match target.xattr(name, &mut there) {
        Ok(len) => Some(&there[..len]),
        Err(Errno::NODATA | NONE | Errno::NOSYS) => None,
        Err(error) => return Err(attributes::failed_at(name, error)),
    };
    if there == wanted.as_deref() {
        return Ok(());
    }
    let kept = match wanted {
        Some(value) => target.set_xattr(name, &value),
        None => target.remove_xattr(name),
    };
    kept.map_err(|error| attributes::failed_at(name, error))
}

/// The name under which the attribute `name` is kept; `None` for one that no copy keeps.
fn name_kept(name: &[u8]) -> Option<Vec<u8>> {
    let is_own = name.starts_with(b"user.");
    let kept = || if is_own { name.to_vec() } else { [OF_RSYNC, name].concat() };
    attributes::belongs(name).then(kept)
}

/// The name of the attribute that is kept under `name`; `None` for what stands for none, and
/// for those of the system.
fn name_told(name: &[u8]) -> Option<&[u8]> {
    match name.strip_prefix(OF_RSYNC) {
        Some(rest) if rest.starts_with(b"%") => None,
        Some(rest) if attributes::belongs(rest) && !rest.starts_with(b"user.") => Some(rest),
        _ => name.starts_with(b"user.").then_some(name),
    }
}

/// The names under which the attributes of `names` are told where they are written down.
pub(crate) fn names_told(names: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let told = names.into_iter().filter_map(|name| match &*name {
        STAT => None,
        ACCESS => Some(b"system.posix_acl_access".to_vec()),
        DEFAULT => Some(b"system.posix_acl_default".to_vec()),
        // What is really there, and what rsync may have beside these, stays in sight.
        _ => Some(name_told(&name).map_or_else(|| name.clone(), <[u8]>::to_vec)),
    });
    told.collect()
}

fn set_xattrs(target: Target<'_>, attributes: &Attributes) -> io::Result<()> {
    let mut wanted = Vec::new();
    for Xattr { name, value } in attributes.xattrs() {
        match name_kept(name) {
            Some(kept) if name_told(&kept) == Some(name) => wanted.push((kept, value)),
            // As where attributes are not written down.
            None => {}
            // It would be read as another one, or as none.
            Some(_) => {
                let name = haul_model::escape_bytes(name);
                let message = format!("its attribute {name} would be read as a stored one");
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            }
        }
    }
    for name in attributes::listed(|names| target.list_xattrs(names))? {
        let is_own = name_told(&name).is_some() && !name.starts_with(attributes::OF_HAUL);
        if is_own && !wanted.iter().any(|(one, _)| *one == name) {
            keep(target, &name, None)?;
        }
    }
    wanted.into_iter().try_for_each(|(name, value)| keep(target, &name, Some(value.to_vec())))
}

/// Those of the attributes with these `names` that are in `which`, of an entry with that
/// `mode`.
fn extended(
    names: &[Vec<u8>],
    mode: u32,
    which: Kept,
    get: attributes::Get<'_>,
) -> io::Result<Option<Box<Extended>>> {
    let mut found = Extended::default();
    for name in names {
        let told = name_told(name).filter(|_| which.has(Kept::XATTRS));
        let told = told.filter(|name| !name.starts_with(attributes::OF_HAUL));
        let is_list = which.has(Kept::ACL) && [ACCESS, DEFAULT].contains(&&**name);
        if told.is_none() && !is_list {
            continue;
        }
        let mut value = vec![0; EXTENDED_LEN_MAX];
        match get(name, &mut value) {
            Ok(len) => value.truncate(len),
            // It is gone since.
            Err(Errno::NODATA) => continue,
            Err(Errno::RANGE | Errno::TOOBIG) => return Err(attributes::too_many()),
            Err(error) => return Err(error.into()),
        }
        match told {
            Some(name) => found.xattrs.push(Xattr { name: name.into(), value: value.into() }),
            None if name == ACCESS => found.acl = Some(acl_of(&value, mode, true)?),
            None => found.default_acl = Some(acl_of(&value, mode, false)?),
        }
        if found.len() > EXTENDED_LEN_MAX {
            return Err(attributes::too_many());
        }
    }
    found.xattrs.sort_unstable();
    found.xattrs.dedup_by(|one, other| one.name == other.name);
    found.acl.take_if(|acl| acl.0.len() <= 3);
    Ok((!found.is_empty()).then(|| Box::new(found)))
}

/// The extended attributes and access control lists of `name` in `dir`.
pub(crate) fn extended_at(
    dir: &Dir,
    name: &Name,
    which: Kept,
) -> io::Result<Option<Box<Extended>>> {
    let names = attributes::real_names(dir, Some(name))?;
    let path = dir.path_to(name.as_bytes());
    let mode = dir.stat(name)?.mode;
    extended(&names, mode, which, &|of, to| rustix::fs::lgetxattr(&path, of, to))
        .map_err(|error| dir.led_to(name.as_bytes(), error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_rsync_writes_it() {
        let record = parsed(b"60644 7,5 0:12").expect("a record");
        assert_eq!(record, (0o60644, Device { major: 7, minor: 5 }, (0, 12)));
        for bad in [
            &b""[..],
            b"100644",
            b"100644 0,0 1",
            b"100648 0,0 1:1",
            b"100644 0,0 1:1 1",
            b"100644 0,0 4294967295:1",
            b"100644 0,0 -1:1",
            b"7100644 0,0 1:1",
            b"\xff",
        ] {
            assert_eq!(parsed(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn names_are_told_as_they_were_kept() {
        for (name, kept) in [
            ("user.a", "user.a"),
            ("user.rsync.a", "user.rsync.a"),
            ("trusted.a", "user.rsync.trusted.a"),
            ("security.capability", "user.rsync.security.capability"),
        ] {
            assert_eq!(name_kept(name.as_bytes()).as_deref(), Some(kept.as_bytes()));
            assert_eq!(name_told(kept.as_bytes()), Some(name.as_bytes()));
        }
        // No name of a peer is that of a record.
        for name in ["%stat", "%aacl", "system.posix_acl_access", "security.selinux", ""] {
            assert_eq!(name_kept(name.as_bytes()), None, "{name}");
        }
        for name in ["user.rsync.%stat", "user.rsync.%dacl", "system.posix_acl_default"] {
            assert_eq!(name_told(name.as_bytes()), None, "{name}");
        }
    }
}
