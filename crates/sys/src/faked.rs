//! Attributes that only root can set, stored for any user in extended attributes, in the form of
//! `rsync --fake-super`. A device, FIFO, socket or symbolic link is stored as a regular file whose
//! attribute records its kind.

use crate::attributes::{self, NONE};
use crate::held::{Target, proc_unavailable};
use crate::stat::{self, NO_DEVICE, Stat};
use crate::{Dir, meta};
use haul_model::{
    Acl, AclEntry, AclWho, Attributes, Device, EXTENDED_LEN_MAX, Extended, Kept, Name, NewEntry,
    Xattr,
};
use rustix::fs::{AtFlags, FileType};
use rustix::io::Errno;
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStringExt;

/// The beginning of the names of rsync's attributes.
const OF_RSYNC: &[u8] = b"user.rsync.";
/// The kind and mode in octal, the device, and the owner: `100644 0,0 1000:1000`.
const STAT: &[u8] = b"user.rsync.%stat";
/// The entry's access control list, and the default list of a directory.
const ACCESS: &[u8] = b"user.rsync.%aacl";
const DEFAULT: &[u8] = b"user.rsync.%dacl";

/// Limit of a record, in bytes. More than any record has.
const STAT_LEN_MAX: usize = 256;

/// The owner's rights that entries really have, so that the user who stores the attributes keeps
/// access.
const OWN_RIGHTS_OF_DIRS: u32 = 0o700;
const OWN_RIGHTS: u32 = 0o600;

/// The bits of a mode for the kind, and the other bits.
const KIND_BITS: u32 = 0o170_000;
const MODE_BITS: u32 = 0o7777;

impl Dir {
    /// The same directory, with faked attributes.
    #[must_use]
    pub fn faking(mut self) -> Self {
        self.fakes = true;
        self
    }

    /// True if attributes are faked in it.
    pub fn fakes(&self) -> bool {
        self.fakes
    }

    /// The metadata of an open file or directory in it, with faked attributes.
    ///
    /// # Errors
    /// Errors of `fstat` and `fgetxattr`.
    pub fn stat_of(&self, file: impl AsFd) -> io::Result<Stat> {
        let stat = stat::file_stat(file.as_fd())?;
        if !self.fakes {
            return Ok(stat);
        }
        let target = Target::open(&file);
        told(stat, |name, value| target.xattr(name, value))
    }

    /// The extended attributes and access control lists in `which` of such a file.
    ///
    /// # Errors
    /// Errors of `flistxattr` and `fgetxattr`.
    pub fn extended_of(&self, file: impl AsFd, which: Kept) -> io::Result<Option<Box<Extended>>> {
        self.extended_at(Target::open(&file), which)
    }

    /// Like [`Self::extended_of`], for an open or held entry.
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

    /// Adds the faked attributes of `name` to the system's `stat`, following a link if `follow`.
    pub(crate) fn faked_stat(&self, name: &[u8], stat: Stat, follow: bool) -> io::Result<Stat> {
        let path = self.path_to(name);
        let told = told(stat, |of, to| match follow {
            true => rustix::fs::getxattr(&path, of, to),
            false => rustix::fs::lgetxattr(&path, of, to),
        });
        told.map_err(|error| self.correct_proc_error(name, error))
    }

    /// Like [`Self::faked_stat`], for an entry that is not open for reading.
    pub(crate) fn faked_stat_held(held: impl AsFd, stat: Stat) -> io::Result<Stat> {
        let path = format!("/proc/self/fd/{}", held.as_fd().as_raw_fd());
        let told = told(stat, |of, to| rustix::fs::getxattr(&path, of, to));
        told.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => proc_unavailable(),
            _ => error,
        })
    }

    /// Corrects `error`, which a path through this directory's handle to `name` has caused. If the
    /// path was not found but the entry exists, /proc is the problem.
    pub(crate) fn correct_proc_error(&self, name: &[u8], error: io::Error) -> io::Error {
        let is_there = || rustix::fs::statat(self, name, AtFlags::SYMLINK_NOFOLLOW).is_ok();
        if error.kind() == io::ErrorKind::NotFound && is_there() {
            proc_unavailable()
        } else {
            error
        }
    }

    /// A path through the handle of this directory. The kernel resolves only the name after it.
    pub(crate) fn path_to(&self, name: &[u8]) -> OsString {
        let mut path = format!("/proc/self/fd/{}/", self.as_fd().as_raw_fd()).into_bytes();
        path.extend_from_slice(name);
        OsString::from_vec(path)
    }

    /// Creates a file under the private name `temp` that represents `new`.
    pub(crate) fn make_faked(
        &self,
        new: NewEntry<'_>,
        temp: &str,
        attributes: &Attributes,
        which: Kept,
    ) -> io::Result<()> {
        let (content, kind, attributes, which) = match new {
            NewEntry::Symlink(target) => {
                let attributes = Attributes { mode: 0o777, ..attributes.clone() };
                let which = which.without(Kept::ACL).with(Kept::MODE);
                (target, (FileType::Symlink, NO_DEVICE), attributes, which)
            }
            NewEntry::Special(special) => {
                (&b""[..], stat::kind_of(special), attributes.over(0, which), which)
            }
        };
        let mut file = self.create_private(temp)?;
        let made = file
            .write_all(content)
            .and_then(|()| set(self, Target::open(&file), &attributes, which, Some(kind)));
        made.inspect_err(|_| {
            // Without its attributes the file is wrong and must not stay.
            let _ = self.remove_private(temp);
        })
    }

    /// The target of the symbolic link that the file `name` represents.
    pub(crate) fn read_faked_link(&self, name: &Name) -> io::Result<Vec<u8>> {
        /// The longest target that a link can have, in bytes.
        const TARGET_LEN_MAX: u64 = 4096;
        let (file, stat) = self.open_any(name, false)?;
        if stat.size > TARGET_LEN_MAX || !self.stat_of(&file)?.is_symlink() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "it does not stand for a link",
            ));
        }
        let mut target = Vec::new();
        io::Read::read_to_end(&mut io::Read::take(file, TARGET_LEN_MAX), &mut target)?;
        Ok(target)
    }
}

/// Applies the record of an entry, which `get` reads, to its `stat`.
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
    let (mode, device, owner) = parse_record(record).ok_or_else(corrupt)?;
    // The field's width differs between systems.
    #[allow(clippy::useless_conversion)]
    let kind = FileType::from_raw_mode((mode & KIND_BITS) as _);
    // A record can't turn a file into a directory, or the reverse: only a directory has entries.
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

/// Parses a record: mode with kind, device, user and group.
fn parse_record(record: &[u8]) -> Option<(u32, Device, (u32, u32))> {
    let text = std::str::from_utf8(record).ok()?.trim_end_matches('\0');
    let mut parts = text.split_ascii_whitespace();
    let mode = u32::from_str_radix(parts.next()?, 8).ok()?;
    let (major, minor) = parts.next()?.split_once(',')?;
    let (user, group) = parts.next()?.split_once(':')?;
    let device = Device { major: major.parse().ok()?, minor: minor.parse().ok()? };
    let owner = (user.parse().ok()?, group.parse().ok()?);
    let is_whole = parts.next().is_none() && mode & !(KIND_BITS | MODE_BITS) == 0;
    // The system uses this ID for "no user".
    (is_whole && ![owner.0, owner.1].contains(&u32::MAX)).then_some((mode, device, owner))
}

/// Stores those of `attributes` in `which` that the entry can't be given. The times are set on the
/// entry itself. `kind` is the kind that the entry represents from now on.
pub(crate) fn set(
    dir: &Dir,
    target: Target<'_>,
    attributes: &Attributes,
    which: Kept,
    kind: Option<(FileType, Device)>,
) -> io::Result<()> {
    let real = target.stat()?;
    let now = told(real, |name, value| target.xattr(name, value))?;
    let mut wanted = now;
    if let Some(kind) = kind {
        (wanted.file_type, wanted.device) = kind;
    }
    wanted.uid = attributes.user.filter(|_| which.has(Kept::USER)).unwrap_or(now.uid);
    wanted.gid = attributes.group.filter(|_| which.has(Kept::GROUP)).unwrap_or(now.gid);
    if which.has(Kept::MODE) || meta::sets_mode_again(attributes, which) {
        wanted.mode =
            attributes.mode & !meta::unsafe_set_id_bits(&wanted, attributes, which) & MODE_BITS;
    }
    if kind.is_some() || which.has_any(Kept::MODE.with(Kept::OWNER)) {
        set_stat(target, &real, &wanted)?;
    }
    if which.has(Kept::ACL) {
        let (acl, default_acl) = attributes.acls();
        for (name, acl) in [(ACCESS, acl), (DEFAULT, default_acl)] {
            store(target, name, acl.map(|acl| bytes_of(acl, name == ACCESS)))?;
        }
    }
    if which.has(Kept::XATTRS) {
        set_xattrs(target, attributes)?;
    }
    meta::set_times(dir, target, attributes, which)
}

/// Stores `wanted` in the record of an entry whose real metadata is `real`.
fn set_stat(target: Target<'_>, real: &Stat, wanted: &Stat) -> io::Result<()> {
    let own = if real.is_dir() { OWN_RIGHTS_OF_DIRS } else { OWN_RIGHTS };
    let mode = wanted.mode & 0o777 | own;
    if real.mode != mode {
        target.chmod(mode)?;
    }
    let is_so = (wanted.file_type, wanted.mode) == (real.file_type, mode)
        && (wanted.uid, wanted.gid) == (real.uid, real.gid);
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
    store(target, STAT, (!is_so).then(|| record.into_bytes()))
}

/// Sets the attribute `name` to the value `wanted`, or removes it.
fn store(target: Target<'_>, name: &[u8], wanted: Option<Vec<u8>>) -> io::Result<()> {
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

/// The name that stores the attribute `name`; `None` if no copy keeps it.
fn encode_name(name: &[u8]) -> Option<Vec<u8>> {
    let is_own = name.starts_with(b"user.");
    let kept = || if is_own { name.to_vec() } else { [OF_RSYNC, name].concat() };
    attributes::belongs(name).then(kept)
}

/// The name of the attribute that is stored as `name`. `None` for rsync's records, and for the
/// system's attributes.
fn decode_name(name: &[u8]) -> Option<&[u8]> {
    match name.strip_prefix(OF_RSYNC) {
        Some(rest) if rest.starts_with(b"%") => None,
        Some(rest) if attributes::belongs(rest) && !rest.starts_with(b"user.") => Some(rest),
        _ => name.starts_with(b"user.").then_some(name),
    }
}

/// Like [`decode_name`], but `None` also for haul's own attributes, which no copy keeps.
fn kept_name(name: &[u8]) -> Option<&[u8]> {
    decode_name(name).filter(|name| !name.starts_with(attributes::OF_HAUL))
}

/// Converts stored names to those of the attributes that they represent.
pub(crate) fn decode_names(names: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let told = names.into_iter().filter_map(|name| match &*name {
        STAT => None,
        ACCESS => Some(b"system.posix_acl_access".to_vec()),
        DEFAULT => Some(b"system.posix_acl_default".to_vec()),
        // Real attributes, and other attributes of rsync, stay visible.
        _ => Some(decode_name(&name).map_or_else(|| name.clone(), <[u8]>::to_vec)),
    });
    told.collect()
}

fn set_xattrs(target: Target<'_>, attributes: &Attributes) -> io::Result<()> {
    let mut wanted = Vec::new();
    for Xattr { name, value } in attributes.xattrs() {
        match encode_name(name) {
            Some(kept) if decode_name(&kept) == Some(name) => wanted.push((kept, value)),
            // As without faked attributes.
            None => {}
            // It would be read as another attribute, or as none.
            Some(_) => {
                let name = haul_model::escape_bytes(name);
                let message = format!("its attribute {name} would be read as a stored one");
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            }
        }
    }
    for name in attributes::listed(|names| target.list_xattrs(names))? {
        if kept_name(&name).is_some() && !wanted.iter().any(|(one, _)| *one == name) {
            store(target, &name, None)?;
        }
    }
    wanted.into_iter().try_for_each(|(name, value)| store(target, &name, Some(value.to_vec())))
}

/// Those of the attributes `names` that are in `which`, of an entry with this `mode`.
pub(crate) fn extended(
    names: &[Vec<u8>],
    mode: u32,
    which: Kept,
    get: attributes::Get<'_>,
) -> io::Result<Option<Box<Extended>>> {
    let is_of = |name: &&[u8]| match *name {
        ACCESS | DEFAULT => which.has(Kept::ACL),
        name => which.has(Kept::XATTRS) && kept_name(name).is_some(),
    };
    attributes::values(names.iter().map(Vec::as_slice).filter(is_of), get, |found, name, value| {
        match kept_name(name) {
            Some(name) => found.xattrs.push(Xattr { name: name.into(), value: value.into() }),
            None if name == ACCESS => found.acl = Some(acl_of(&value, mode, true)?),
            None => found.default_acl = Some(acl_of(&value, mode, false)?),
        }
        Ok(())
    })
}

/// The rights of a line that is missing, or that the mode holds.
const NO_LINE: u32 = 0x80;
/// A bit beside the rights in a line that names a user.
const NAMES_USER: u32 = 1 << 31;
/// Little-endian numbers of 32 bits. First the rights of the owner, the group, the mask and all
/// others. Then two for each line: the ID and the rights.
const HEAD_LEN: usize = 16;
const LINE_LEN: usize = 8;

/// Encodes a list in rsync's form. With `is_access`, the mode holds the rights that are left out.
fn bytes_of(acl: &Acl, is_access: bool) -> Vec<u8> {
    let rights = |who| {
        let line = acl.0.iter().find(|line| line.who == who);
        line.map_or(NO_LINE, |line| line.rights.into())
    };
    let of_mode = |who| if is_access { NO_LINE } else { rights(who) };
    // The mode holds the mask: group rights equal to it are left out.
    let of_group = match rights(AclWho::OwnGroup) {
        same if is_access && same == rights(AclWho::Mask) => NO_LINE,
        rights => rights,
    };
    let head = [of_mode(AclWho::Owner), of_group, rights(AclWho::Mask), of_mode(AclWho::Other)];
    let mut lines = acl.0.to_vec();
    lines.sort_unstable_by_key(|line| line.who);
    let named = lines.iter().filter_map(|line| match line.who {
        AclWho::User(id) => Some([id, u32::from(line.rights) | NAMES_USER]),
        AclWho::Group(id) => Some([id, line.rights.into()]),
        _ => None,
    });
    let numbers = head.into_iter().chain(named.flatten());
    numbers.flat_map(u32::to_le_bytes).collect()
}

/// Decodes rsync's form of the list of an entry with this `mode`. With `is_access`, the mode takes
/// precedence, as if both were set: for the owner, for all others, and for the mask.
fn acl_of(bytes: &[u8], mode: u32, is_access: bool) -> io::Result<Acl> {
    let damaged = || {
        let message = "the access control list that rsync stored is damaged";
        io::Error::new(io::ErrorKind::InvalidData, message)
    };
    let (head, lines) = bytes.split_at_checked(HEAD_LEN).ok_or_else(damaged)?;
    let (lines, rest) = lines.as_chunks::<LINE_LEN>();
    let number = |at: &[u8]| u32::from_le_bytes([at[0], at[1], at[2], at[3]]);
    let rights = |at: usize, shift: u32| match number(&head[4 * at..]) {
        NO_LINE => (mode >> shift & 7) as u8,
        rights => (rights & 7) as u8,
    };
    let mut acl = vec![
        AclEntry { who: AclWho::Owner, rights: rights(0, 6) },
        AclEntry { who: AclWho::OwnGroup, rights: rights(1, 3) },
        AclEntry { who: AclWho::Other, rights: rights(3, 0) },
    ];
    if number(&head[8..]) != NO_LINE || !lines.is_empty() {
        acl.push(AclEntry { who: AclWho::Mask, rights: rights(2, 3) });
    }
    for line in lines {
        let (id, access) = (number(line), number(&line[4..]));
        let who = if access & NAMES_USER != 0 { AclWho::User(id) } else { AclWho::Group(id) };
        acl.push(AclEntry { who, rights: (access & 7) as u8 });
    }
    acl.sort_by_key(|line| line.who);
    let mut acl = Acl(acl);
    if is_access {
        acl.set_mode(mode);
    }
    if rest.is_empty() && acl.is_valid() { Ok(acl) } else { Err(damaged()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_rsync_writes_it() {
        let record = parse_record(b"60644 7,5 0:12").expect("a record");
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
            assert_eq!(parse_record(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn stored_names_convert_back() {
        for (name, kept) in [
            ("user.a", "user.a"),
            ("user.rsync.a", "user.rsync.a"),
            ("trusted.a", "user.rsync.trusted.a"),
            ("security.capability", "user.rsync.security.capability"),
        ] {
            assert_eq!(encode_name(name.as_bytes()).as_deref(), Some(kept.as_bytes()));
            assert_eq!(decode_name(kept.as_bytes()), Some(name.as_bytes()));
        }
        // A peer's attribute can't have the name of a record.
        for name in ["%stat", "%aacl", "system.posix_acl_access", "security.selinux", ""] {
            assert_eq!(encode_name(name.as_bytes()), None, "{name}");
        }
        for name in ["user.rsync.%stat", "user.rsync.%dacl", "system.posix_acl_default"] {
            assert_eq!(decode_name(name.as_bytes()), None, "{name}");
        }
    }

    #[test]
    fn an_acl_is_encoded_as_rsync_does() {
        // As rsync 3.5 writes it for a file of mode 0664 with `setfacl -m u:77:rw,g:88:r`.
        let bytes = [
            [0x80, 4, 6, 0x80].map(u32::to_le_bytes).concat(),
            [77, NAMES_USER | 6, 88, 4].map(u32::to_le_bytes).concat(),
        ]
        .concat();
        let acl = acl_of(&bytes, 0o664, true).expect("a list");
        assert_eq!((acl.mode(), acl.0.len()), (0o664, 6));
        assert_eq!(bytes_of(&acl, true), bytes);
        let of_part = |len| acl_of(&bytes[..len], 0o664, true);
        assert!(of_part(15).is_err() && of_part(20).is_err());
    }

    #[test]
    fn the_mode_takes_precedence_over_the_list() {
        let bytes = [7_u32, 7, 7, 7, 77, NAMES_USER | 6].map(u32::to_le_bytes).concat();
        let rights = |is_access| {
            let acl = acl_of(&bytes, 0o641, is_access).expect("a list");
            acl.0.iter().map(|line| line.rights).collect::<Vec<_>>()
        };
        // The owner, the user, the group, the mask, and all others.
        assert_eq!(rights(true), [6, 6, 7, 4, 1]);
        // The default list of a directory is independent of its mode.
        assert_eq!(rights(false), [7, 6, 7, 7, 7]);
    }

    #[test]
    fn any_bytes_decode_to_a_valid_list_or_an_error() {
        for byte in [0, 1, 7, 0x4d, 0x80, 0xff] {
            for len in 0..=5 * HEAD_LEN {
                let bytes = vec![byte; len];
                if let Ok(acl) = acl_of(&bytes, 0o640, byte > 4) {
                    assert!(acl.is_valid(), "{byte} {len}");
                }
            }
        }
    }
}
