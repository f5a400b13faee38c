//! The metadata of an entry, as the system reports it.

use crate::effective_user;
use haul_model::{Attributes, Device, FileId, Special, Timestamp};
use rustix::fs::FileType;
use std::io;
use std::os::fd::AsFd;

/// The part of `stat` that haul uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// Its kind.
    pub file_type: FileType,
    /// Its length in bytes.
    pub size: u64,
    /// Its storage, in bytes; less than `size` if it has holes.
    pub allocated: u64,
    /// The low 12 bits of its mode.
    pub mode: u32,
    /// The time of the last change of content.
    pub mtime: Timestamp,
    /// The time of the last read.
    pub atime: Timestamp,
    /// The time of the last change of any kind. Users can't set it.
    pub ctime: Timestamp,
    /// Its object ID.
    pub id: FileId,
    /// The user who owns it.
    pub uid: u32,
    /// The group that it belongs to.
    pub gid: u32,
    /// The number of its names.
    pub links: u64,
    /// The device number, for a device.
    pub device: Device,
}

impl Stat {
    /// True if it belongs to this process's user, and other users have no rights to it.
    pub fn is_private(&self) -> bool {
        self.uid == effective_user() && self.mode & 0o077 == 0
    }

    pub(crate) fn from_raw(raw: &rustix::fs::Stat) -> Self {
        // The fields' widths differ between systems.
        #[allow(clippy::unnecessary_cast, clippy::useless_conversion)]
        Self {
            file_type: FileType::from_raw_mode(raw.st_mode),
            size: raw.st_size as u64,
            allocated: raw.st_blocks as u64 * 512,
            mode: u32::from(raw.st_mode) & 0o7777,
            mtime: Timestamp { secs: raw.st_mtime as i64, nanos: raw.st_mtime_nsec as u32 },
            atime: Timestamp { secs: raw.st_atime as i64, nanos: raw.st_atime_nsec as u32 },
            ctime: Timestamp { secs: raw.st_ctime as i64, nanos: raw.st_ctime_nsec as u32 },
            id: FileId { dev: raw.st_dev as u64, ino: raw.st_ino as u64 },
            uid: raw.st_uid,
            gid: raw.st_gid,
            links: raw.st_nlink as u64,
            device: Device {
                major: rustix::fs::major(raw.st_rdev),
                minor: rustix::fs::minor(raw.st_rdev),
            },
        }
    }

    /// Its attributes, except extended attributes and access control lists.
    pub fn attributes(&self) -> Attributes {
        Attributes {
            user: Some(self.uid),
            group: Some(self.gid),
            atime: Some(self.atime),
            ..Attributes::new(self.mode, self.mtime)
        }
    }

    /// The kind of a FIFO, socket or device; `None` for other kinds.
    pub fn special(&self) -> Option<Special> {
        Some(match self.file_type {
            FileType::Fifo => Special::Fifo,
            FileType::Socket => Special::Socket,
            FileType::BlockDevice => Special::Block(self.device),
            FileType::CharacterDevice => Special::Char(self.device),
            _ => return None,
        })
    }

    /// True if it is a directory.
    pub fn is_dir(&self) -> bool {
        self.file_type == FileType::Directory
    }

    /// True if it is a regular file.
    pub fn is_file(&self) -> bool {
        self.file_type == FileType::RegularFile
    }

    /// The metadata of a regular file.
    pub(crate) fn regular(self) -> io::Result<Self> {
        let other = || io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file");
        self.is_file().then_some(self).ok_or_else(other)
    }

    /// True if it is a symbolic link.
    pub fn is_symlink(&self) -> bool {
        self.file_type == FileType::Symlink
    }
}

pub(crate) const NO_DEVICE: Device = Device { major: 0, minor: 0 };

/// The type of a FIFO, socket or device, and the device number.
pub(crate) fn kind_of(special: Special) -> (FileType, Device) {
    match special {
        Special::Fifo => (FileType::Fifo, NO_DEVICE),
        Special::Socket => (FileType::Socket, NO_DEVICE),
        Special::Block(device) => (FileType::BlockDevice, device),
        Special::Char(device) => (FileType::CharacterDevice, device),
    }
}

/// The metadata of an open file or directory.
///
/// # Errors
/// Errors of `fstat`.
pub fn file_stat(file: impl AsFd) -> io::Result<Stat> {
    Ok(Stat::from_raw(&rustix::fs::fstat(file)?))
}
