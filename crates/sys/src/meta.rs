//! Reads and sets metadata through open handles.

use crate::held::{Held, Target};
use crate::known::kinds::{BTRFS, EXT, F2FS, OVERLAY, RAMFS, TMPFS, XFS, ZFS, kind};
use crate::not_kept::{self, NotKept};
use crate::stat::{Stat, kind_of};
use crate::{Dir, attributes, faked};
use haul_model::{Attributes, Granularity, Kept, SET_ID_MODE, Special, Timestamp};
use rustix::fs::{AtFlags, Gid, Mode, Timespec, Timestamps, Uid};
use std::io;
use std::os::fd::AsFd;

/// Checks that new entries in `dir` can be renamed and removed. They can't in an append-only
/// directory (`chattr +a`). Where the system does not report that, the operations do.
///
/// # Errors
/// [`io::ErrorKind::Unsupported`] if they can't.
pub fn check_renamable(dir: &Dir) -> io::Result<()> {
    let is_append_only = || has_attribute(dir, APPEND);
    if *dir.append_only.get_or_init(is_append_only) {
        let message = "the directory is append-only: its entries can't be replaced or removed";
        return Err(io::Error::new(io::ErrorKind::Unsupported, message));
    }
    Ok(())
}

/// True if `dir` is a mount point, including bind mounts. False if the system does not report it.
pub fn is_mount_point(dir: &Dir) -> bool {
    has_attribute(dir, MOUNT_ROOT)
}

/// `STATX_ATTR_APPEND` and `STATX_ATTR_MOUNT_ROOT` (`linux/stat.h`).
const APPEND: u64 = 0x20;
const MOUNT_ROOT: u64 = 0x2000;

/// True if the system reports this attribute of `dir`.
#[cfg(target_os = "linux")]
fn has_attribute(dir: &Dir, attribute: u64) -> bool {
    let stat = rustix::fs::statx(dir, c"", AtFlags::EMPTY_PATH, rustix::fs::StatxFlags::empty());
    stat.is_ok_and(|stat| stat.stx_attributes.bits() & attribute != 0)
}

elsewhere!(fn has_attribute(&Dir, u64) -> bool = false);

/// True if the file system of `file` keeps a real time of last change, `ctime`, which users can't
/// set. Some report the modification time, `mtime`, or the creation time instead. Assumed of
/// systems other than Linux, whose own file systems keep it.
pub fn keeps_ctime(file: impl AsFd, mtime: Timestamp, ctime: Timestamp) -> bool {
    /// Besides the named ones: bcachefs, NFS, Ceph, JFS, NILFS2, UBIFS, GFS2 and OCFS2
    /// (`linux/magic.h`).
    #[rustfmt::skip]
    const KEEP: [u64; 16] = [
        EXT, XFS, BTRFS, F2FS, TMPFS, OVERLAY, ZFS, RAMFS, 0xca45_1a4e, 0x6969,
        0x00c3_6400, 0x3153_464a, 0x3434, 0x2405_1905, 0x0116_1970, 0x7461_636f,
    ];
    /// FAT, and exFAT.
    const LACK: [u64; 2] = [0x4d44, 0x2011_bab0];
    let magic = kind(file);
    // Some of the others keep it: different times show that.
    !cfg!(target_os = "linux")
        || KEEP.contains(&magic)
        || (!LACK.contains(&magic) && ctime != mtime)
}

/// Sets those of `attributes` in `which` on an open file or directory, which is on the file system
/// of `dir`. The order is always: the owner, whose change removes rights; the access control lists,
/// which also set mode bits; the extended attributes; the mode; the times. Mode bits that would
/// give rights to others are left out first. So is a set-ID bit, if the file ends up with another
/// user or group than in `attributes`, unless such bits are kept for any owner.
///
/// # Errors
/// Errors of `fchown`, `fsetxattr`, `fchmod` and `futimens`, and of [`keep_mtime`] where the
/// file system is not known.
pub fn set_attributes(
    dir: &Dir,
    file: impl AsFd,
    attributes: &Attributes,
    which: Kept,
) -> io::Result<()> {
    set_attributes_of(dir, Target::open(&file), attributes, which)
}

/// Like [`set_attributes`], for an entry that may only be held.
pub(crate) fn set_attributes_of(
    dir: &Dir,
    target: Target<'_>,
    attributes: &Attributes,
    which: Kept,
) -> io::Result<()> {
    if dir.fakes() {
        return faked::set(dir, target, attributes, which, None);
    }
    set_owner(attributes, which, |user, group| target.chown(user, group))?;
    if which.has_any(Kept::EXTENDED) {
        attributes::set_extended(target, attributes, which)?;
    }
    if which.has(Kept::MODE) || sets_mode_again(attributes, which) {
        let is_asked = attributes.mode & SET_ID_MODE != 0 && !which.has(Kept::LENT);
        let vain =
            if is_asked { unsafe_set_id_bits(&target.stat()?, attributes, which) } else { 0 };
        target.chmod(attributes.mode & !vain)?;
    }
    set_times(dir, target, attributes, which)
}

/// True if a change of the owner would remove mode bits that must be kept.
pub(crate) fn sets_mode_again(attributes: &Attributes, which: Kept) -> bool {
    let lends = attributes.mode & SET_ID_MODE != 0;
    which.has(Kept::SET_ID) && which.has_any(Kept::OWNER) && lends
}

/// Sets the times, which come last.
pub(crate) fn set_times(
    dir: &Dir,
    target: Target<'_>,
    attributes: &Attributes,
    which: Kept,
) -> io::Result<()> {
    let atime = attributes.atime.filter(|_| which.has(Kept::ATIMES));
    match (which.has(Kept::TIMES), atime) {
        (false, None) => Ok(()),
        (true, None) if dir.has_known_file_system() => {
            Ok(target.set_times(&timestamps(attributes.mtime))?)
        }
        (true, None) => keep_mtime_of(target, attributes.mtime),
        (sets_mtime, atime) => {
            let mtime = sets_mtime.then_some(attributes.mtime);
            Ok(target.set_times(&times_of(atime, mtime))?)
        }
    }
}

/// The set-ID bits of `attributes` that would lend another user's rights through an entry with the
/// metadata `now`.
pub(crate) fn unsafe_set_id_bits(now: &Stat, attributes: &Attributes, which: Kept) -> u32 {
    if now.is_dir() || which.has(Kept::LENT) {
        return 0;
    }
    let user = if attributes.user == Some(now.uid) { 0 } else { Mode::SUID.as_raw_mode() };
    let group = if attributes.group == Some(now.gid) { 0 } else { Mode::SGID.as_raw_mode() };
    // The field's width differs between systems.
    #[allow(clippy::useless_conversion)]
    u32::from(user | group)
}

/// Calls `chown` for the user and the group that `attributes` have and `which` names. If that
/// fails, for the group alone where that is enough.
fn set_owner(
    attributes: &Attributes,
    which: Kept,
    chown: impl Fn(Option<Uid>, Option<Gid>) -> rustix::io::Result<()>,
) -> io::Result<()> {
    let user = attributes.user.filter(|_| which.has(Kept::USER)).map(Uid::from_raw);
    let group = attributes.group.filter(|_| which.has(Kept::GROUP)).map(Gid::from_raw);
    if user.is_none() && group.is_none() {
        return Ok(());
    }
    let chown = |user, group| {
        chown(user, group).map_err(|error| {
            let error = io::Error::from(error);
            let message = format!("can't set its owner and group: {error}");
            NotKept::error(error.kind(), message)
        })
    };
    match chown(user, group) {
        Err(_) if which.has(Kept::AS_POSSIBLE) && user.is_some() && group.is_some() => {
            not_kept::ignore_not_kept(which, chown(None, group))
        }
        given => not_kept::ignore_not_kept(which, given),
    }
}

/// Sets the low 12 bits of an open file's mode.
///
/// # Errors
/// Errors of `fchmod`.
pub fn set_mode(file: impl AsFd, mode: u32) -> io::Result<()> {
    Ok(rustix::fs::fchmod(file, Mode::from_raw_mode((mode & 0o7777) as _))?)
}

/// Sets an open file's modification time. Its access time stays.
///
/// # Errors
/// Errors of `futimens`.
pub fn set_mtime(file: impl AsFd, mtime: Timestamp) -> io::Result<()> {
    Ok(rustix::fs::futimens(file, &timestamps(mtime))?)
}

/// Sets an open file's modification time on an unknown file system, and checks the result at that
/// file system's resolution. Some report success but do nothing if the access time must stay; then
/// both are set.
///
/// A time out of the file system's range becomes the nearest one.
///
/// # Errors
/// Errors of `futimens` and `fstat`; [`io::ErrorKind::Unsupported`] if no time can be set.
pub fn keep_mtime(file: impl AsFd, mtime: Timestamp) -> io::Result<()> {
    keep_mtime_of(Target::open(&file), mtime)
}

fn keep_mtime_of(target: Target<'_>, mtime: Timestamp) -> io::Result<()> {
    /// A time in the range and resolution of every file system: in 2001.
    const TAKEN: Timestamp = Timestamp { secs: 1_000_000_000, nanos: 0 };
    let has_taken = |time| -> io::Result<bool> {
        Ok(Granularity::between(time, target.stat()?.mtime).is_some())
    };
    target.set_times(&timestamps(mtime))?;
    if has_taken(mtime)? {
        return Ok(());
    }
    target.set_times(&both(mtime))?;
    if has_taken(mtime)? {
        return Ok(());
    }
    target.set_times(&both(TAKEN))?;
    let takes_any = has_taken(TAKEN)?;
    target.set_times(&both(mtime))?;
    if takes_any {
        return Ok(());
    }
    let message = "the file system does not store the given time";
    Err(io::Error::new(io::ErrorKind::Unsupported, message))
}

/// Sets those of `attributes` in `which` that links support on `name`, a new symbolic link. Never
/// affects its target.
pub(crate) fn set_link_attributes(
    dir: &Dir,
    name: &[u8],
    attributes: &Attributes,
    which: Kept,
) -> io::Result<()> {
    set_owner(attributes, which, |user, group| {
        rustix::fs::chownat(dir, name, user, group, AtFlags::SYMLINK_NOFOLLOW)
    })?;
    if which.has(Kept::XATTRS) {
        attributes::set_link_extended(dir, name, attributes, which)?;
    }
    if !which.has(Kept::TIMES) {
        return Ok(());
    }
    // Unknown file systems may ignore a call that leaves the access time, so both are set.
    let own = (!dir.has_known_file_system()).then_some(attributes.mtime);
    let atime = attributes.atime.filter(|_| which.has(Kept::ATIMES)).or(own);
    let times = times_of(atime, Some(attributes.mtime));
    Ok(rustix::fs::utimensat(dir, name, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}

/// Sets those of `attributes` in `which` that a FIFO, socket or device supports on the entry
/// `name`, which must be of this kind.
pub(crate) fn set_special_attributes(
    dir: &Dir,
    name: &[u8],
    special: Special,
    attributes: &Attributes,
    which: Kept,
) -> io::Result<()> {
    // Opening a FIFO would block, and a device might act.
    let (held, stat) = Held::entry(dir, name)?;
    if stat.file_type != kind_of(special).0 {
        let message = "something else replaced it";
        return Err(io::Error::new(io::ErrorKind::NotFound, message));
    }
    held.set_attributes(dir, &attributes.over(0, which), which)
}

fn timestamps(mtime: Timestamp) -> Timestamps {
    times_of(None, Some(mtime))
}

fn both(time: Timestamp) -> Timestamps {
    times_of(Some(time), Some(time))
}

fn times_of(atime: Option<Timestamp>, mtime: Option<Timestamp>) -> Timestamps {
    let omitted = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT };
    let time = |time: Option<Timestamp>| {
        time.map_or(omitted, |time| Timespec { tv_sec: time.secs, tv_nsec: time.nanos.into() })
    };
    Timestamps { last_access: time(atime), last_modification: time(mtime) }
}
