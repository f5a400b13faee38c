//! The store: copies of files that were replaced or removed, within a bound. They share storage
//! with the original if the file system supports it.
//!
//! The caller holds the lock of the store while it adds a file, so the bound holds at any time for
//! all processes. The least recently used files are removed to make room.

use super::{CACHE_DIR_MODE, Identity};
use crate::content::copy_content;
use haul_model::Name;
use haul_sys::Dir;
use std::fs::{File, FileTimes};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::time::SystemTime;

const DIR: &str = "kept";
const TEMP: &str = "new";

/// Bytes that stay free on the file system.
const FREE_MIN: u64 = 1 << 30;

/// The store of a cache.
pub(super) struct Kept {
    dir: Dir,
    /// The bound in bytes.
    pub(super) max: u64,
}

impl Kept {
    pub(super) fn open(cache: &Dir, max: u64) -> io::Result<Self> {
        let name = Name::new(DIR.as_bytes()).expect("a name");
        match cache.make_dir(&name, CACHE_DIR_MODE) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        Ok(Self { dir: cache.open_dir(&name)?, max })
    }

    pub(super) fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { dir: self.dir.try_clone()?, max: self.max })
    }

    /// Opens a file of the store by its name.
    pub(super) fn open_file(&self, name: &[u8]) -> io::Result<(File, Identity)> {
        let name = Name::new(name).map_err(|_| io::ErrorKind::InvalidInput)?;
        let (file, stat) = self.dir.open_file(&name, false)?;
        Ok((file, Identity::of(&stat)))
    }

    /// Copies `file` into the store, and removes other files to make room. `None` if it is larger
    /// than the bound, or if 1 GiB would not stay free even without the other files.
    pub(super) fn keep(&self, file: &File) -> io::Result<Option<(Name, File)>> {
        // Only the lock's holder writes, so a killed process has left this file.
        let _ = self.dir.remove_private(TEMP);
        let len = file.metadata()?.len();
        if !self.make_room(len)? {
            return Ok(None);
        }
        let copy = self.dir.create_private(TEMP)?;
        let named = (|| {
            copy_content(file, &copy, len)?;
            touch(&copy);
            let name = format!("{:016x}", RandomState::new().hash_one(len));
            let name = Name::new(name.as_bytes()).expect("digits");
            self.dir.publish_new(TEMP, &name)?;
            Ok(name)
        })();
        match named {
            Ok(name) => Ok(Some((name, copy))),
            Err(error) => {
                let _ = self.dir.remove_private(TEMP);
                Err(error)
            }
        }
    }

    /// Removes the least recently used files until `len` more bytes fit into the bound, with
    /// [`FREE_MIN`] bytes free. Returns false if they can't fit. The bound and the free bytes are
    /// restored even then.
    pub(super) fn make_room(&self, len: u64) -> io::Result<bool> {
        let mut files = Vec::new();
        for entry in self.dir.entries()? {
            let stat = self.dir.stat(&entry.name)?;
            files.push((stat.atime, entry.name, stat.size));
        }
        files.sort_unstable();
        let mut all: u64 = files.iter().map(|(_, _, len)| len).sum();
        let missing = |len: u64| {
            let free_space =
                haul_sys::free_space(&self.dir).map_or(u64::MAX, |free_space| free_space.bytes);
            len.saturating_add(FREE_MIN).saturating_sub(free_space)
        };
        let fits = len <= self.max && missing(len) <= all;
        let len = if fits { len } else { 0 };
        let rest = (self.max - len.min(self.max)).min(all.saturating_sub(missing(len)));
        for (_, name, file_len) in files {
            if all <= rest {
                break;
            }
            self.dir.remove_file(&name)?;
            all -= file_len;
        }
        Ok(fits && missing(len) == 0)
    }

    /// The length of all files in bytes.
    pub(super) fn len(&self) -> io::Result<u64> {
        let stats = self.dir.entries()?;
        Ok(stats.iter().filter_map(|entry| self.dir.stat(&entry.name).ok()).map(|s| s.size).sum())
    }

    /// Removes all files.
    pub(super) fn remove(cache: &Dir) -> io::Result<()> {
        Self::open(cache, 0)?.make_room(0).map(drop)
    }
}

/// Sets the access time of a used file. If that fails, the file is only removed earlier.
pub(super) fn touch(file: &File) {
    let _ = file.set_times(FileTimes::new().set_accessed(SystemTime::now()));
}
