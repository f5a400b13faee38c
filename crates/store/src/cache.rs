//! The chunks that this machine has: an index of where haul has published them, and, if the
//! user turns it on, a bounded store of files that would be lost.
//!
//! 1. **The index is a hint.** It names a file, and a place in it. A chunk is used only after
//!    its bytes were read and have its hash.
//! 2. An entry whose file is gone, or is another one, is dropped as soon as that is seen, and on
//!    disk at the end of the job.
//! 3. Both may be deleted or damaged at any time, and several processes may use them at once.
//!    Lost entries are detected. Their content is sent again.
//! 4. The directory is the user's alone, or a server's for one of its clients and one root.
//!
//! `index.rs` has the index in memory and on disk, `kept.rs` the store.

mod index;
mod kept;

use self::index::Identity;
use self::index::Index;
pub use self::index::Place;
use self::kept::Kept;
use haul_model::Name;
use haul_sys::Dir;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// The rights to the directory: they are its owner's.
pub const CACHE_DIR_MODE: u32 = 0o700;

/// The file that is locked while the index on disk and the list of destinations change.
const INDEX_LOCK: &str = "lock";

/// The file that is locked while the store changes. A large file is copied meanwhile: jobs that
/// write the index do not wait for it.
const KEPT_LOCK: &str = "kept.lock";

/// The longest chunk, in bytes: more is not read for one.
const CHUNK_LEN_MAX: u32 = 256 << 10;

/// The file with the destinations of earlier jobs.
const DESTINATIONS: &str = "destinations";

/// Destinations that are kept in mind, at most.
const DESTINATIONS_MAX: usize = 64;

/// Bytes of that file, at most.
const DESTINATIONS_LEN_MAX: u64 = 512 << 10;

/// How long a lock is waited for.
const LOCK_MAX: Duration = Duration::from_millis(500);

/// How long to wait before the next try.
const LOCK_POLL: Duration = Duration::from_millis(10);

/// New chunks, from which on they are written before the end of the job.
const FRESH_MANY: usize = 32 << 10;

/// Content that was not sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Saved {
    /// Parts of files that were not sent.
    pub parts: u64,
    /// Their length, in bytes.
    pub bytes: u64,
}

/// The figures of a cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheFigures {
    /// Chunks that the index knows.
    pub chunks: u64,
    /// Their length, in bytes.
    pub bytes: u64,
    /// The files that have them.
    pub files: u64,
    /// Bytes of the index on disk.
    pub index_len: u64,
    /// Bytes of the files in the store.
    pub kept_len: u64,
    /// All that was saved since the cache was cleared.
    pub saved: Saved,
}

/// The findings of [`Cache::verify`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CheckedChunks {
    /// Chunks that were read and have their hashes.
    pub good: u64,
    /// Chunks that were dropped: their files are gone or have changed.
    pub dropped: u64,
}

impl Place {
    /// The number of its file in the index.
    pub fn file(&self) -> u32 {
        self.file
    }

    /// Reads what is there to `content`, and gives its hash; `None` if it can't be read.
    pub fn read(&self, file: &File, content: &mut Vec<u8>) -> Option<[u8; 32]> {
        if self.len > CHUNK_LEN_MAX {
            return None;
        }
        content.resize(self.len as usize, 0);
        file.read_exact_at(content, self.at).ok()?;
        Some(*blake3::hash(content).as_bytes())
    }
}

/// Copies files that are about to be lost into the store.
pub struct Keeper {
    dir: Dir,
    kept: Kept,
}

impl Keeper {
    /// Keeps the content of a file, if there is room for it within the bound, and no other process
    /// has the lock for long; returns the copy for its chunks to be [added](Cache::add_kept).
    ///
    /// # Errors
    /// Those of copying it.
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
    /// Writing has failed, or another process had the lock for long: this job writes no more.
    has_given_up: bool,
}

impl Cache {
    /// The cache in `dir`, which keeps at most `store_max` bytes of replaced and removed files;
    /// with 0 nothing is kept, and what is there stays. A damaged part is removed. A file whose
    /// absolute path is not `reachable` is not opened: its file system may not answer.
    ///
    /// # Errors
    /// When the directory can't be read.
    pub fn open(dir: Dir, store_max: u64, reachable: impl Fn(&[u8]) -> bool) -> io::Result<Self> {
        let reachable = |path: &[u8]| !path.starts_with(b"/") || reachable(path);
        let mut index = Index::load(&dir, reachable)?;
        if index.is_scattered()
            && let Ok(Some(_lock)) = lock(&dir, INDEX_LOCK)
        {
            // Others may have written some since. Both would take twice the memory.
            drop(index);
            index = Index::load(&dir, reachable)?;
            // The disk may be full. The segments stay then, and are as good.
            let _ = index.merge(&dir);
        }
        let kept = Kept::open(&dir, store_max)?;
        Ok(Self { dir, index, kept, has_given_up: false })
    }

    /// The places where a chunk may be, by its hash.
    pub fn find(&self, hash: &[u8; 32]) -> Vec<Place> {
        self.index.find(hash)
    }

    /// Opens the file with this [number](Place::file); `None` if it can't be opened now. One that
    /// is gone, or is another file by now, is dropped. Numbers stay the same.
    pub fn open_file(&mut self, number: u32) -> Option<File> {
        self.open_to(number, true)
    }

    /// Opens the file. If it `is_used`, it is the most recently used one of the store.
    fn open_to(&mut self, number: u32, is_used: bool) -> Option<File> {
        let (path, identity) = self.index.file(number)?;
        let is_kept = !path.starts_with(b"/");
        match if is_kept { self.kept.open_file(path) } else { open(path) } {
            Ok((file, found)) if found == identity => {
                if is_kept && is_used {
                    kept::used(&file);
                }
                Some(file)
            }
            // This job may not reach the destination of another one.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.index.cant_open(number);
                None
            }
            Ok(_) | Err(_) => {
                self.index.drop_gone(number);
                None
            }
        }
    }

    /// Forgets a file whose content is not what the index says.
    pub fn forget(&mut self, number: u32) {
        self.index.drop_gone(number);
    }

    /// Adds the chunks of a published file: where each begins, its length and the short form of its
    /// hash. `path` is absolute.
    pub fn add(&mut self, path: &[u8], chunks: impl IntoIterator<Item = (u64, u32, u64)>) {
        if let Ok((_, identity)) = open(path) {
            self.index.add(path, identity, chunks);
            self.flush_if_many();
        }
    }

    fn flush_if_many(&mut self) {
        if self.index.fresh_count() >= FRESH_MANY {
            // Where that fails, some are not learned.
            let _ = self.flush();
        }
    }

    /// Keeps files that are about to be lost, while others use this; `None` if none are kept.
    ///
    /// # Errors
    /// Those of duplicating the handle of a directory.
    pub fn keeper(&self) -> io::Result<Option<Keeper>> {
        if self.kept.max() == 0 || self.has_given_up {
            return Ok(None);
        }
        Ok(Some(Keeper { dir: self.dir.try_clone()?, kept: self.kept.try_clone()? }))
    }

    /// Learns of the chunks of a file that was kept.
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
    pub fn saves(&mut self, saved: Saved) {
        self.index.saves(saved);
    }

    /// Writes new chunks and figures. Without the lock they are dropped.
    ///
    /// # Errors
    /// Those of writing it: the disk may be full.
    pub fn flush(&mut self) -> io::Result<()> {
        if !self.index.has_news() {
            return Ok(());
        }
        if self.has_given_up {
            return Ok(());
        }
        // Until that is done.
        self.has_given_up = true;
        let Some(_lock) = lock(&self.dir, INDEX_LOCK)? else { return Ok(()) };
        self.index.flush(&self.dir)?;
        self.has_given_up = false;
        Ok(())
    }

    /// The figures.
    ///
    /// # Errors
    /// Those of reading the directory.
    pub fn figures(&self) -> io::Result<CacheFigures> {
        let (chunks, bytes, files) = self.index.counts();
        let (index_len, kept_len) = (Index::len_on_disk(&self.dir)?, self.kept.len()?);
        Ok(CacheFigures { chunks, bytes, files, index_len, kept_len, saved: self.index.saved() })
    }

    /// Reads all content that the index knows of, drops what is not what the index says, and writes
    /// the index.
    ///
    /// # Errors
    /// As [`Self::clear`].
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
                    self.index.drop_gone(place.file);
                    // Nothing else in it is good, either.
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
    /// Those of removing files, and [`io::ErrorKind::WouldBlock`] where another process uses it.
    pub fn clear(dir: &Dir) -> io::Result<()> {
        let _kept = lock(dir, KEPT_LOCK)?.ok_or(io::ErrorKind::WouldBlock)?;
        let _index = lock(dir, INDEX_LOCK)?.ok_or(io::ErrorKind::WouldBlock)?;
        Index::remove(dir)?;
        Kept::remove(dir)?;
        match dir.remove_file(&destinations_name()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

fn destinations_name() -> Name {
    Name::new(DESTINATIONS.as_bytes()).expect("a name")
}

/// The destinations of earlier jobs, as absolute paths, the last first: what the index knows is
/// below them. Those that could not be opened now are left out by the caller.
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

/// Puts the destination of a job in front of those of earlier ones.
///
/// # Errors
/// Those of writing it.
pub fn note_destination(dir: &Dir, path: &[u8]) -> io::Result<()> {
    let is_first = |all: &[Vec<u8>]| all.first().is_some_and(|first| first == path);
    if is_first(&destinations(dir)) {
        return Ok(());
    }
    let Some(_lock) = lock(dir, INDEX_LOCK)? else { return Ok(()) };
    // Others may have noted theirs meanwhile.
    let mut before = destinations(dir);
    before.retain(|other| other != path);
    before.insert(0, path.to_vec());
    before.truncate(DESTINATIONS_MAX);
    let temp = format!("{DESTINATIONS}.new");
    // Nobody else writes: this one was left by a process that was killed.
    let _ = dir.remove_private(&temp);
    dir.create_private(&temp)?.write_all(&before.join(&0))?;
    dir.publish_replacing(&temp, &destinations_name())
}

/// Opens the regular file with an absolute path.
fn open(path: &[u8]) -> io::Result<(File, Identity)> {
    use std::os::unix::ffi::OsStrExt;
    let split = path.iter().rposition(|byte| *byte == b'/').ok_or(io::ErrorKind::InvalidInput)?;
    let (above, name) = (&path[..=split], &path[split + 1..]);
    let name = Name::new(name).map_err(|_| io::ErrorKind::InvalidInput)?;
    let (file, stat) =
        Dir::open(Path::new(std::ffi::OsStr::from_bytes(above)))?.open_file(&name, false)?;
    Ok((file, Identity::of(&stat)))
}

/// Locks the file `name` in `dir`; `None` if another process has the lock for [`LOCK_MAX`].
fn lock(dir: &Dir, name: &str) -> io::Result<Option<File>> {
    let file = dir.open_private(name)?;
    let end = Instant::now() + LOCK_MAX;
    while !haul_sys::try_lock(&file)? {
        if Instant::now() >= end {
            return Ok(None);
        }
        std::thread::sleep(LOCK_POLL);
    }
    Ok(Some(file))
}

/// The part of a chunk's hash by which it is found: the first 8 bytes.
pub fn short(hash: &[u8; 32]) -> u64 {
    u64::from_le_bytes(*hash.first_chunk().expect("it has 32"))
}

#[cfg(test)]
mod tests;
