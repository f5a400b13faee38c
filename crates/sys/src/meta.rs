//! Metadata of open files, read and written through their handles.

use haul_model::{FileId, Timestamp};
use rustix::fs::{AtFlags, FileType, Mode, Timespec, Timestamps};
use std::io;
use std::os::fd::AsFd;

/// What `stat` tells and haul needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// What it is.
    pub file_type: FileType,
    /// Its length in bytes.
    pub size: u64,
    /// Storage that it takes, in bytes; less than `size` when it has holes.
    pub allocated: u64,
    /// The low 12 bits of its mode.
    pub mode: u32,
    /// When its content last changed.
    pub mtime: Timestamp,
    /// Which object it is.
    pub id: FileId,
    /// The user who owns it.
    pub uid: u32,
}

impl Stat {
    pub(crate) fn from_raw(raw: &rustix::fs::Stat) -> Self {
        // The fields' widths differ between systems.
        #[allow(clippy::unnecessary_cast, clippy::useless_conversion)]
        Self {
            file_type: FileType::from_raw_mode(raw.st_mode),
            size: raw.st_size as u64,
            allocated: raw.st_blocks as u64 * 512,
            mode: u32::from(raw.st_mode) & 0o7777,
            mtime: Timestamp { secs: raw.st_mtime as i64, nanos: raw.st_mtime_nsec as u32 },
            id: FileId { dev: raw.st_dev as u64, ino: raw.st_ino as u64 },
            uid: raw.st_uid,
        }
    }

    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        self.file_type == FileType::Directory
    }

    /// Whether it is a regular file.
    pub fn is_file(&self) -> bool {
        self.file_type == FileType::RegularFile
    }

    /// Whether it is a symbolic link.
    pub fn is_symlink(&self) -> bool {
        self.file_type == FileType::Symlink
    }
}

/// The metadata of an open file or directory.
///
/// # Errors
/// Those of `fstat`.
pub fn file_stat(file: impl AsFd) -> io::Result<Stat> {
    Ok(Stat::from_raw(&rustix::fs::fstat(file)?))
}

/// Sets the low 12 bits of an open file's mode.
///
/// # Errors
/// Those of `fchmod`.
pub fn set_mode(file: impl AsFd, mode: u32) -> io::Result<()> {
    Ok(rustix::fs::fchmod(file, Mode::from_raw_mode((mode & 0o7777) as _))?)
}

/// Sets an open file's modification time; its access time stays.
///
/// # Errors
/// Those of `futimens`.
pub fn set_mtime(file: impl AsFd, mtime: Timestamp) -> io::Result<()> {
    Ok(rustix::fs::futimens(file, &timestamps(mtime))?)
}

/// Sets the modification time of `name` itself, never of what it points to.
pub(crate) fn set_link_mtime(dir: impl AsFd, name: &[u8], mtime: Timestamp) -> io::Result<()> {
    Ok(rustix::fs::utimensat(dir, name, &timestamps(mtime), AtFlags::SYMLINK_NOFOLLOW)?)
}

fn timestamps(mtime: Timestamp) -> Timestamps {
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT },
        last_modification: Timespec { tv_sec: mtime.secs, tv_nsec: mtime.nanos.into() },
    }
}
