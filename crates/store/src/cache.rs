//! The chunk cache of this machine. It has an index of chunks in files that haul published. If the
//! user turns it on, it also has a bounded store of replaced and removed files.
//!
//! 1. **The index is a hint.** It names a file and an offset. A chunk is used only after its bytes
//!    were read and have its hash.
//! 2. An entry whose file is gone or has changed is dropped from memory at once, and on disk at the
//!    end of the job.
//! 3. Index and store may be deleted or damaged at any time, and several processes may use them at
//!    once. Lost entries are detected. Their content is sent again.
//! 4. The directory belongs to the user alone, or is a server's for one client and one root.
//!
//! `index.rs` owns the index in memory and on disk, `kept.rs` the store.

mod index;
mod kept;

use self::index::Identity;
use self::index::Index;
pub use self::index::Place;
use self::kept::Kept;
use crate::partial::lock_journal;
use haul_model::Name;
use haul_sys::{Dir, if_found};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

/// The mode of the directory: only its owner has access.
pub const CACHE_DIR_MODE: u32 = 0o700;

/// The file that is locked while the index on disk or the list of destinations changes.
const INDEX_LOCK: &str = "lock";

/// The file that is locked while the store changes. Copying a large file takes long, so jobs that
/// write the index do not wait for this lock.
const KEPT_LOCK: &str = "kept.lock";

/// Maximum length of a chunk in bytes.
const CHUNK_LEN_MAX: u32 = 256 << 10;

/// The file with the destinations of earlier jobs.
const DESTINATIONS: &str = "destinations";

/// Maximum number of destinations in the file.
const DESTINATIONS_MAX: usize = 64;

/// Maximum length of that file in bytes.
const DESTINATIONS_LEN_MAX: u64 = 512 << 10;

/// Maximum time to wait for a lock.
const LOCK_MAX: Duration = Duration::from_millis(500);

/// Number of new chunks at which they are written before the end of the job.
const FLUSH_CHUNKS_MIN: usize = 32 << 10;

/// The amount of content that was not sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Saved {
    /// Number of parts of files.
    pub parts: u64,
    /// Their length in bytes.
    pub bytes: u64,
}

/// The figures of a cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheFigures {
    /// Number of chunks in the index.
    pub chunks: u64,
    /// Their length in bytes.
    pub bytes: u64,
    /// Number of files with chunks.
    pub files: u64,
    /// Length of the index on disk in bytes.
    pub index_len: u64,
    /// Length of the files in the store in bytes.
    pub kept_len: u64,
    /// Content that was not sent since the cache was cleared.
    pub saved: Saved,
}

/// The results of [`Cache::verify`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CheckedChunks {
    /// Number of chunks that were read and have their hashes.
    pub good: u64,
    /// Number of chunks that were dropped because their files are gone or have changed.
    pub dropped: u64,
}

impl Place {
    /// The number of the file in the index.
    pub fn file(&self) -> u32 {
        self.file
    }

    /// Reads the place to `content`, and returns the hash of the content. `None` if it can't be
    /// read.
    pub fn read(&self, file: &File, content: &mut Vec<u8>) -> Option<[u8; 32]> {
        if self.len > CHUNK_LEN_MAX {
            return None;
        }
        content.resize(self.len as usize, 0);
        file.read_exact_at(content, self.at).ok()?;
        Some(*blake3::hash(content).as_bytes())
    }
}

/// Copies files into the store before they are replaced or removed.
pub struct Keeper {
    dir: Dir,
    kept: Kept,
}

impl Keeper {
    /// Copies the content of a file into the store. `None` if there is no room for it within the
    /// bound, or another process has the lock for too long. The caller must [add](Cache::add_kept)
    /// the chunks of the copy.
    ///
    /// # Errors
    /// Errors of copying.
    pub fn keep(&self, file: &File) -> io::Result<Option<(Name, File)>> {
        match lock(&self.dir, KEPT_LOCK)? {
            Some(_lock) => self.kept.keep(file),
            None => Ok(None),
        }
    }
}

/// The cache in a directory.
pub struct Cache {
    dir: Dir,
    index: Index,
    kept: Kept,
    /// Writing has failed, or another process had the lock for too long. This job writes no more.
    is_disabled: bool,
}

impl Cache {
    /// Opens the cache in `dir`, which keeps at most `store_max` bytes of replaced and removed
    /// files. With 0 nothing is added, but existing files stay. A damaged part is removed. A file
    /// whose absolute path is not `reachable` is not opened: its file system may not respond.
    ///
    /// # Errors
    /// If the directory can't be read.
    pub fn open(dir: Dir, store_max: u64, reachable: impl Fn(&[u8]) -> bool) -> io::Result<Self> {
        let reachable = |path: &[u8]| !path.starts_with(b"/") || reachable(path);
        let mut index = Index::load(&dir, reachable)?;
        if index.needs_merge()
            && let Ok(Some(_lock)) = lock(&dir, INDEX_LOCK)
        {
            // Another process may have written segments since. Drop the old index first to save
            // memory.
            drop(index);
            index = Index::load(&dir, reachable)?;
            // The disk may be full. The segments are kept then.
            let _ = index.merge(&dir);
        }
        let kept = Kept::open(&dir, store_max)?;
        Ok(Self { dir, index, kept, is_disabled: false })
    }

    /// The places where the chunk with this hash may be.
    pub fn find(&self, hash: &[u8; 32]) -> Vec<Place> {
        self.index.find(hash)
    }

    /// Opens the file with this [number](Place::file). `None` if it can't be opened now. A file
    /// that is gone or has changed is dropped. Numbers stay the same.
    pub fn open_file(&mut self, number: u32) -> Option<File> {
        self.open_to(number, true)
    }

    /// Opens the file. If it `is_used`, it becomes the most recently used one of the store.
    fn open_to(&mut self, number: u32, is_used: bool) -> Option<File> {
        let (path, identity) = self.index.file(number)?;
        let is_kept = !path.starts_with(b"/");
        match if is_kept { self.kept.open_file(path) } else { open(path) } {
            Ok((file, found)) if found == identity => {
                if is_kept && is_used {
                    kept::touch(&file);
                }
                Some(file)
            }
            // This job may have no access to the destination of another job.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.index.mark_unavailable(number);
                None
            }
            Ok(_) | Err(_) => {
                self.index.drop_outdated(number);
                None
            }
        }
    }

    /// Drops a file whose content differs from the index.
    pub fn forget(&mut self, number: u32) {
        self.index.drop_outdated(number);
    }

    /// Adds the chunks of a published file: offset, length and short hash of each. `path` is
    /// absolute.
    pub fn add(&mut self, path: &[u8], chunks: impl IntoIterator<Item = (u64, u32, u64)>) {
        if let Ok((_, identity)) = open(path) {
            self.index.add(path, identity, chunks);
            self.flush_if_many();
        }
    }

    fn flush_if_many(&mut self) {
        if self.index.fresh.len() >= FLUSH_CHUNKS_MIN {
            // If this fails, some chunks are lost.
            let _ = self.flush();
        }
    }

    /// A keeper for files that are about to be lost, for use in parallel to the cache. `None` if no
    /// files are kept.
    ///
    /// # Errors
    /// Errors of duplicating a directory handle.
    pub fn keeper(&self) -> io::Result<Option<Keeper>> {
        if self.kept.max == 0 || self.is_disabled {
            return Ok(None);
        }
        Ok(Some(Keeper { dir: self.dir.try_clone()?, kept: self.kept.try_clone()? }))
    }

    /// Adds the chunks of a file that was kept.
    pub fn add_kept(
        &mut self,
        (name, file): (&Name, &File),
        chunks: impl IntoIterator<Item = (u64, u32, u64)>,
    ) {
        if let Ok(stat) = haul_sys::file_stat(file) {
            self.index.add(name.as_bytes(), Identity::of(&stat), chunks);
            self.flush_if_many();
        }
    }

    /// Counts content that was not sent.
    pub fn count_saved(&mut self, saved: Saved) {
        self.index.count_saved(saved);
    }

    /// Writes new chunks and figures. Without the lock they are dropped.
    ///
    /// # Errors
    /// Errors of writing: the disk may be full.
    pub fn flush(&mut self) -> io::Result<()> {
        if !self.index.has_changes() {
            return Ok(());
        }
        if self.is_disabled {
            return Ok(());
        }
        // In case of an error below.
        self.is_disabled = true;
        let Some(_lock) = lock(&self.dir, INDEX_LOCK)? else { return Ok(()) };
        self.index.flush(&self.dir)?;
        self.is_disabled = false;
        Ok(())
    }

    /// The figures of the cache.
    ///
    /// # Errors
    /// Errors of reading the directory.
    pub fn figures(&self) -> io::Result<CacheFigures> {
        let (chunks, bytes, files) = self.index.counts();
        let (index_len, kept_len) = (Index::len_on_disk(&self.dir)?, self.kept.len()?);
        Ok(CacheFigures { chunks, bytes, files, index_len, kept_len, saved: self.index.saved() })
    }

    /// Reads all content in the index, drops entries with other content, and writes the index.
    ///
    /// # Errors
    /// See [`Self::clear`].
    pub fn verify(mut self) -> io::Result<CheckedChunks> {
        let mut places: Vec<_> = self.index.places().collect();
        places.sort_unstable_by_key(|(_, place)| *place);
        let mut checked = CheckedChunks::default();
        let mut content = Vec::new();
        let mut last: Option<(u32, Option<File>)> = None;
        for (hash, place) in places {
            if last.as_ref().is_none_or(|(of, _)| *of != place.file) {
                last = Some((place.file, self.open_to(place.file, false)));
            }
            let file = last.as_ref().and_then(|(_, file)| file.as_ref());
            let found = file.and_then(|file| place.read(file, &mut content));
            match found.is_some_and(|found| short(&found) == hash) {
                true => checked.good += 1,
                false => {
                    checked.dropped += 1;
                    self.index.drop_outdated(place.file);
                    // The other chunks of the file are dropped, too.
                    last = Some((place.file, None));
                }
            }
        }
        let _lock = lock(&self.dir, INDEX_LOCK)?.ok_or(io::ErrorKind::WouldBlock)?;
        self.index.flush(&self.dir)?;
        drop(self.index);
        Index::load(&self.dir, |_| true)?.merge(&self.dir)?;
        Ok(checked)
    }

    /// Removes the index, the kept files and the list of destinations.
    ///
    /// # Errors
    /// Errors of removing files; [`io::ErrorKind::WouldBlock`] if another process uses the cache.
    pub fn clear(dir: &Dir) -> io::Result<()> {
        let _kept = lock(dir, KEPT_LOCK)?.ok_or(io::ErrorKind::WouldBlock)?;
        let _index = lock(dir, INDEX_LOCK)?.ok_or(io::ErrorKind::WouldBlock)?;
        Index::remove(dir)?;
        Kept::remove(dir)?;
        if_found(dir.remove_file(&destinations_name())).map(drop)
    }
}

fn destinations_name() -> Name {
    Name::new(DESTINATIONS.as_bytes()).expect("a name")
}

/// The destinations of earlier jobs as absolute paths, the last first. The files of the index are
/// below them. The caller skips destinations that can't be opened now.
pub fn destinations(dir: &Dir) -> Vec<Vec<u8>> {
    let name = destinations_name();
    let mut bytes = Vec::new();
    let read = dir
        .open_file(&name, false)
        .and_then(|(file, _)| file.take(DESTINATIONS_LEN_MAX).read_to_end(&mut bytes));
    let paths = bytes.split(|byte| *byte == 0).filter(|path| path.starts_with(b"/"));
    let paths = paths.take(DESTINATIONS_MAX).map(<[u8]>::to_vec);
    if read.is_ok() { paths.collect() } else { Vec::new() }
}

/// Moves the destination of a job to the front of the list.
///
/// # Errors
/// Errors of writing.
pub fn record_destination(dir: &Dir, path: &[u8]) -> io::Result<()> {
    let is_first = |all: &[Vec<u8>]| all.first().is_some_and(|first| first == path);
    if is_first(&destinations(dir)) {
        return Ok(());
    }
    let Some(_lock) = lock(dir, INDEX_LOCK)? else { return Ok(()) };
    // Other processes may have added theirs meanwhile.
    let mut before = destinations(dir);
    before.retain(|other| other != path);
    before.insert(0, path.to_vec());
    before.truncate(DESTINATIONS_MAX);
    let temp = format!("{DESTINATIONS}.new");
    // Only the lock's holder writes, so a killed process has left this file.
    let _ = dir.remove_private(&temp);
    dir.create_private(&temp)?.write_all(&before.join(&0))?;
    dir.publish_replacing(&temp, &destinations_name())
}

/// Opens the regular file with this absolute path.
fn open(path: &[u8]) -> io::Result<(File, Identity)> {
    use std::os::unix::ffi::OsStrExt;
    let split = path.iter().rposition(|byte| *byte == b'/').ok_or(io::ErrorKind::InvalidInput)?;
    let (above, name) = (&path[..=split], &path[split + 1..]);
    let name = Name::new(name).map_err(|_| io::ErrorKind::InvalidInput)?;
    let (file, stat) =
        Dir::open(Path::new(std::ffi::OsStr::from_bytes(above)))?.open_file(&name, false)?;
    Ok((file, Identity::of(&stat)))
}

/// Locks the file `name` in `dir`. `None` if another process has the lock for [`LOCK_MAX`].
fn lock(dir: &Dir, name: &str) -> io::Result<Option<File>> {
    match lock_journal(dir, name, LOCK_MAX) {
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Ok(None),
        locked => locked.map(Some),
    }
}

/// The short form of a chunk's hash: the first 8 bytes.
pub fn short(hash: &[u8; 32]) -> u64 {
    u64::from_le_bytes(*hash.first_chunk().expect("it has 32"))
}

#[cfg(test)]
mod tests;
