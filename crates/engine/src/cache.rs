//! The chunk cache of this machine, as jobs use it.
//!
//! It is opened before the job is confined. A confined job may read earlier destinations, because
//! they contain the chunks.

use haul_store::{CACHE_DIR_MODE, Cache, destinations, record_destination};
use haul_sys::{Dir, MountPoints};
use std::ffi::OsStr;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use haul_store::{CacheFigures, CheckedChunks};

/// The location and limit of a job's chunk cache on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheConfig {
    /// Its directory. An empty path if this machine has none; the other side may have one.
    pub dir: PathBuf,
    /// The most bytes of replaced and removed files that are kept.
    pub kept_max: u64,
}

impl CacheConfig {
    /// Opens it.
    ///
    /// # Errors
    /// See [`ChunkCache::open`].
    pub fn open(&self) -> io::Result<ChunkCache> {
        ChunkCache::open(&self.dir, self.kept_max)
    }
}

/// A directory with a chunk cache.
#[derive(Clone)]
pub struct ChunkCache {
    dir: Arc<Dir>,
    /// The most bytes of replaced and removed files that are kept.
    kept_max: u64,
    /// Read now, because a confined job can't.
    mounts: Arc<MountPoints>,
}

impl ChunkCache {
    /// The cache in the directory `path`, which is created if missing. It keeps at most `kept_max`
    /// bytes of replaced and removed files.
    ///
    /// # Errors
    /// The errors of opening the directory, and [`io::ErrorKind::PermissionDenied`] if others
    /// may use it.
    pub fn open(path: &Path, kept_max: u64) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(CACHE_DIR_MODE).create(path)?;
        let cache = Self::open_for_other(path, kept_max)?;
        if !cache.dir.stat_self()?.is_private() {
            let why = "the directory of the chunk cache must belong to this user, with mode 0700";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        Ok(cache)
    }

    /// The same for a directory that was created for the user that this process becomes later.
    ///
    /// # Errors
    /// The errors of opening the directory.
    pub fn open_for_other(path: &Path, kept_max: u64) -> io::Result<Self> {
        let mounts = Arc::new(MountPoints::read());
        Ok(Self { dir: Arc::new(Dir::open(path)?), kept_max, mounts })
    }

    /// True if replaced and removed files are kept.
    pub(crate) fn keeps(&self) -> bool {
        self.kept_max > 0
    }

    /// The directory, for a job that will be confined.
    pub(crate) fn dir(&self) -> io::Result<Dir> {
        self.dir.try_clone()
    }

    /// The destinations of earlier jobs on the mount of `root` that can be opened. Other mounts may
    /// hang. A path that now leads elsewhere through a link is skipped.
    pub(crate) fn destinations(&self, root: &Dir) -> Vec<Dir> {
        let open = |path: Vec<u8>| {
            let path = Path::new(OsStr::from_bytes(&path));
            let dir = Dir::open(path).ok()?;
            (haul_sys::path_to(&dir)? == path).then_some(dir)
        };
        let Some(here) = haul_sys::path_to(root) else { return Vec::new() };
        let is_on_same_mount = self.is_on_mount_of(here.as_os_str().as_bytes());
        let all = destinations(&self.dir).into_iter();
        all.filter(|path| may_be_reused(path) && is_on_same_mount(path)).filter_map(open).collect()
    }

    /// Returns a test for absolute paths: true on the mount of `here`. Other mounts may hang. In a
    /// jail every path passes, because the mount table does not describe its paths.
    fn is_on_mount_of(&self, here: &[u8]) -> impl Fn(&[u8]) -> bool {
        let here = self.mounts.of(here).filter(|_| !haul_sys::is_jailed());
        move |path| here.is_none() || self.mounts.of(path) == here
    }

    /// Records that a job publishes below `path`.
    pub(crate) fn record_destination(&self, path: &[u8]) {
        if may_be_reused(path) {
            // If that fails, a job that is confined elsewhere does not find these chunks.
            let _ = record_destination(&self.dir, path);
        }
    }

    /// Reads the index, for a job in the directory `root`, an absolute path.
    ///
    /// # Errors
    /// Errors of reading it.
    pub(crate) fn read_for(&self, root: &[u8]) -> io::Result<Cache> {
        Cache::open(self.dir.try_clone()?, self.kept_max, self.is_on_mount_of(root))
    }

    fn read(&self) -> io::Result<Cache> {
        Cache::open(self.dir.try_clone()?, self.kept_max, |_| true)
    }

    /// The figures of the cache.
    ///
    /// # Errors
    /// Errors of reading it.
    pub fn figures(&self) -> io::Result<CacheFigures> {
        self.read()?.figures()
    }

    /// Removes the index, the kept files and the list of destinations.
    ///
    /// # Errors
    /// Errors of removing files, and [`io::ErrorKind::WouldBlock`] if another process uses it.
    pub fn clear(&self) -> io::Result<()> {
        Cache::clear(&self.dir)
    }

    /// Reads all content in the index, and drops chunks that differ from the index.
    ///
    /// # Errors
    /// As [`Self::clear`].
    pub fn verify(&self) -> io::Result<CheckedChunks> {
        self.read()?.verify()
    }
}

/// True if later jobs may read below this destination. They may not read below `/`, which is the
/// whole machine; in a jail, `/` is the client's root.
fn may_be_reused(path: &[u8]) -> bool {
    path != b"/" || haul_sys::is_jailed()
}
