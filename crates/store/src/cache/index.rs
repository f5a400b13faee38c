//! The index: the files and offsets of chunks. Chunks are found by the first 8 bytes of their
//! hashes. The whole hash is compared when the content is read.
//!
//! On disk the index consists of segments. A segment is written under a private name, renamed, and
//! never changed. It ends with the BLAKE3 hash of its content. So nothing needs repair, and nothing
//! is flushed: a segment that a power cut has damaged is removed. Each job with new chunks or
//! figures writes one. A file without places in it is gone. When there are [`SEGMENTS_MAX`], the
//! next process that reads them merges them.
//! ```text
//! magic 8 bytes, saved (parts u64, bytes u64), files u32, places u32
//! each file:  path length u16, path, size u64, seconds i64, nanoseconds u32, inode u64
//! each place: hash u64, file u32, at u64, length u32; in the order of the files
//! BLAKE3 hash of all before, 32 bytes
//! ```
//!
//! Newer files come first, so that the oldest are dropped if there are too many. All numbers are
//! little-endian. The whole index is in memory while it is used: at most 32 MiB with the new
//! chunks.

use super::{Saved, short};
use haul_model::{Name, Timestamp};
use haul_sys::{Dir, Stat, if_found};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};

/// Maximum number of chunks: on average those of 32 GiB. The oldest are dropped.
const PLACES_MAX: usize = 512 << 10;

/// Maximum number of new chunks before they are written.
const FRESH_MAX: usize = PLACES_MAX / 4;

/// Maximum number of places that are returned for a chunk. Many files may have the same chunk.
const FOUND_MAX: usize = 8;

/// Maximum memory for files in bytes: their paths, and [`FILE_COST`] for each.
const FILES_COST_MAX: usize = 6 << 20;

/// Memory for a file in bytes, without its path.
const FILE_COST: usize = 64;

/// The number of a file without places.
const NO_FILE: u32 = u32::MAX;

/// Number of segments at which they are merged.
const SEGMENTS_MAX: usize = 8;

/// Maximum length of a segment in bytes.
const SEGMENT_LEN_MAX: u64 = 32 << 20;

const MAGIC: &[u8; 8] = b"haulchk1";
const PREFIX: &[u8] = b"index-";
const TEMP: &str = "index.new";

/// The properties that identify an indexed file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    size: u64,
    mtime: Timestamp,
    inode: u64,
}

impl Identity {
    /// The identity of a file.
    pub(super) fn of(stat: &Stat) -> Self {
        Self { size: stat.size, mtime: stat.mtime, inode: stat.id.ino }
    }
}

/// A place that may have a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub(super) file: u32,
    /// Its offset in the file in bytes.
    pub at: u64,
    /// Its length in bytes.
    pub len: u32,
}

/// A file with chunks. It has no path if it was dropped.
struct Indexed {
    path: Box<[u8]>,
    identity: Identity,
    /// This job can't open it.
    is_unavailable: bool,
}

impl Indexed {
    fn cost(&self) -> usize {
        FILE_COST + self.path.len()
    }

    fn read(from: &mut impl Read) -> io::Result<Self> {
        let mut path = vec![0; u16::from_le_bytes(array(from)?).into()].into_boxed_slice();
        from.read_exact(&mut path)?;
        let size = u64::from_le_bytes(array(from)?);
        let secs = i64::from_le_bytes(array(from)?);
        let nanos = u32::from_le_bytes(array(from)?);
        let inode = u64::from_le_bytes(array(from)?);
        let identity = Identity { size, mtime: Timestamp { secs, nanos }, inode };
        Ok(Self { path, identity, is_unavailable: false })
    }

    fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let Identity { size, mtime, inode } = self.identity;
        to.write_all(&(self.path.len() as u16).to_le_bytes())?;
        to.write_all(&self.path)?;
        to.write_all(&size.to_le_bytes())?;
        to.write_all(&mtime.secs.to_le_bytes())?;
        to.write_all(&mtime.nanos.to_le_bytes())?;
        to.write_all(&inode.to_le_bytes())
    }
}

impl Place {
    /// Reads the hash of a chunk, and its place. The number of the file is that in the segment.
    fn read_in(from: &mut impl Read) -> io::Result<(u64, Self)> {
        let hash = u64::from_le_bytes(array(from)?);
        let file = u32::from_le_bytes(array(from)?);
        let at = u64::from_le_bytes(array(from)?);
        Ok((hash, Self { file, at, len: u32::from_le_bytes(array(from)?) }))
    }

    fn write_in(&self, hash: u64, file: u32, to: &mut impl Write) -> io::Result<()> {
        to.write_all(&hash.to_le_bytes())?;
        to.write_all(&file.to_le_bytes())?;
        to.write_all(&self.at.to_le_bytes())?;
        to.write_all(&self.len.to_le_bytes())
    }
}

/// The index in memory.
#[derive(Default)]
pub(super) struct Index {
    files: Vec<Indexed>,
    /// The segments that were read.
    segments: Vec<Name>,
    /// The places that were read, in the order of their hashes.
    places: Vec<(u64, Place)>,
    /// The places that were added since.
    pub(super) fresh: BTreeMap<(u64, u32, u64), u32>,
    /// The number of the first file that was added since. The files before it are sorted, the
    /// newest first.
    fresh_files: u32,
    /// Files in `oldest..fresh_files` were dropped to make room for newer ones.
    oldest: u32,
    /// The cost of all files: see [`FILES_COST_MAX`].
    files_cost: usize,
    /// The newest file of each path, by a hash of the path.
    by_path: HashMap<u64, u32>,
    hasher: RandomState,
    /// Content that was not sent: before the index was read, and since.
    saved: Saved,
    fresh_saved: Saved,
    /// Files that are gone or have changed, until the index on disk says so.
    outdated: Vec<Indexed>,
}

impl Index {
    /// Reads the index in `dir`. Damaged segments are removed. Files that are not `reachable` are
    /// not opened.
    pub(super) fn load(dir: &Dir, reachable: impl Fn(&[u8]) -> bool) -> io::Result<Self> {
        // The newest segments first: the oldest are skipped if there is too much.
        let mut index = Self { segments: segments(dir)?, ..Self::default() };
        for name in index.segments.clone().iter().rev() {
            let Ok((file, stat)) = dir.open_file(name, false) else { continue };
            let checked = check(&file, stat.size);
            if checked.and_then(|()| index.take(BufReader::new(file))).is_err() {
                // Another process may have removed it.
                let _ = dir.remove_file(name);
            }
        }
        index.files.iter_mut().for_each(|file| file.is_unavailable = !reachable(&file.path));
        index.places.sort_unstable();
        index.fresh_files = index.files.len() as u32;
        index.oldest = index.fresh_files;
        Ok(index)
    }

    /// Adds the content of a segment, if there is room and nothing newer is known.
    fn take(&mut self, mut segment: impl Read) -> io::Result<()> {
        if array(&mut segment)? != *MAGIC {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let parts = u64::from_le_bytes(array(&mut segment)?);
        let bytes = u64::from_le_bytes(array(&mut segment)?);
        self.saved.parts = self.saved.parts.saturating_add(parts);
        self.saved.bytes = self.saved.bytes.saturating_add(bytes);
        let files_count = u32::from_le_bytes(array(&mut segment)?);
        let places_count = u32::from_le_bytes(array(&mut segment)?);
        let files = (0..files_count).map(|_| Indexed::read(&mut segment));
        let files: Vec<_> = files.collect::<io::Result<_>>()?;
        let mut places = (0..places_count).map(|_| Place::read_in(&mut segment)).peekable();
        for (in_segment, indexed) in files.into_iter().enumerate() {
            let (number, before) = (self.files.len() as u32, self.places.len());
            let is_in = |place: &Place| place.file as usize == in_segment;
            while let Some(Ok((hash, place))) =
                places.next_if(|next| next.as_ref().is_ok_and(|(_, place)| is_in(place)))
            {
                self.places.push((hash, Place { file: number, ..place }));
            }
            let key = self.hasher.hash_one(&indexed.path);
            let cost = self.files_cost + indexed.cost();
            let has_room = cost <= FILES_COST_MAX && self.places.len() <= PLACES_MAX;
            // A file that is gone also hides older segments' entries for it.
            let is_newest = !self.by_path.contains_key(&key);
            if has_room && self.places.len() > before && is_newest {
                self.by_path.insert(key, number);
                self.files_cost = cost;
                self.files.push(indexed);
            } else {
                self.by_path.entry(key).or_insert(NO_FILE);
                self.places.truncate(before);
            }
        }
        match places.next() {
            None => Ok(()),
            Some(_) => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// The places of a chunk, at most [`FOUND_MAX`].
    pub(super) fn find(&self, hash: &[u8; 32]) -> Vec<Place> {
        let hash = short(hash);
        let from = self.places.partition_point(|(other, _)| *other < hash);
        let read = self.places[from..].iter().take_while(|(other, _)| *other == hash);
        let fresh = self.fresh.range((hash, 0, 0)..=(hash, u32::MAX, u64::MAX));
        let fresh = fresh.map(|((_, file, at), len)| Place { file: *file, at: *at, len: *len });
        let all = fresh.chain(read.map(|(_, place)| *place));
        let can_open =
            |place: &Place| self.has(place) && !self.files[place.file as usize].is_unavailable;
        all.filter(can_open).take(FOUND_MAX).collect()
    }

    /// The path and identity of a file, unless it was dropped.
    pub(super) fn file(&self, number: u32) -> Option<(&[u8], Identity)> {
        let file = self.files.get(number as usize).filter(|file| !file.path.is_empty())?;
        Some((&file.path, file.identity))
    }

    /// Drops a file that is gone or has changed, also from the index on disk.
    pub(super) fn drop_outdated(&mut self, number: u32) {
        let dropped = self.drop_file(number);
        self.outdated.extend(dropped.filter(|_| number < self.fresh_files));
    }

    /// Drops a file from memory.
    fn drop_file(&mut self, number: u32) -> Option<Indexed> {
        let file = self.files.get_mut(number as usize).filter(|file| !file.path.is_empty())?;
        self.files_cost -= file.cost();
        let path = std::mem::take(&mut file.path);
        Some(Indexed { path, ..*file })
    }

    /// Records that this job can't open a file.
    pub(super) fn mark_unavailable(&mut self, number: u32) {
        if let Some(file) = self.files.get_mut(number as usize) {
            file.is_unavailable = true;
        }
    }

    /// Adds a file, and replaces an earlier one with the same path.
    pub(super) fn add(
        &mut self,
        path: &[u8],
        identity: Identity,
        chunks: impl IntoIterator<Item = (u64, u32, u64)>,
    ) {
        let key = self.hasher.hash_one(path);
        if let Some(before) = self.by_path.remove(&key) {
            self.drop_file(before);
        }
        let file = Indexed { path: Box::from(path), identity, is_unavailable: false };
        while self.files_cost + file.cost() > FILES_COST_MAX && self.oldest > 0 {
            self.oldest -= 1;
            self.drop_file(self.oldest);
        }
        if path.is_empty() || self.files_cost + file.cost() > FILES_COST_MAX {
            return;
        }
        let number = self.files.len() as u32;
        self.by_path.insert(key, number);
        self.files_cost += file.cost();
        self.files.push(file);
        for (at, len, hash) in chunks {
            // One place for each file is enough: it may have very many chunks of zeros.
            let mut known = self.fresh.range((hash, number, 0)..=(hash, number, u64::MAX));
            if known.next().is_none() && self.fresh.len() < FRESH_MAX {
                self.fresh.insert((hash, number, at), len);
            }
        }
    }

    /// Counts content that was not sent.
    pub(super) fn count_saved(&mut self, saved: Saved) {
        self.fresh_saved.parts += saved.parts;
        self.fresh_saved.bytes += saved.bytes;
    }

    /// True if there is something to write.
    pub(super) fn has_changes(&self) -> bool {
        !self.fresh.is_empty() || self.fresh_saved != Saved::default() || !self.outdated.is_empty()
    }

    /// True if there are too many segments.
    pub(super) fn needs_merge(&self) -> bool {
        self.segments.len() >= SEGMENTS_MAX
    }

    /// Writes new places, and the files that are gone, as a segment. The caller holds the lock.
    pub(super) fn flush(&mut self, dir: &Dir) -> io::Result<()> {
        let files = self.fresh_files..self.files.len() as u32;
        let mut places: Vec<_> = self.fresh().filter(|(_, it)| self.has(it)).collect();
        self.write(dir, self.fresh_saved, files.rev(), &mut places)?;
        self.fresh.clear();
        self.outdated.clear();
        // Later jobs find the places for which there is no room here.
        if self.places.len() + places.len() <= PLACES_MAX {
            self.places.reserve_exact(places.len());
            self.places.extend(places);
            self.places.sort_unstable();
        }
        self.fresh_files = self.files.len() as u32;
        (self.saved, self.fresh_saved) = (self.saved(), Saved::default());
        Ok(())
    }

    /// Writes all that was read as one segment. The caller has held the lock since reading.
    pub(super) fn merge(&mut self, dir: &Dir) -> io::Result<()> {
        // A copy would double the memory.
        let mut places = std::mem::take(&mut self.places);
        places.retain(|(_, place)| self.has(place));
        let written = self.write(dir, self.saved, 0..self.fresh_files, &mut places);
        places.sort_unstable();
        self.places = places;
        written?;
        // Segments that another process has written since are kept.
        let read = std::mem::take(&mut self.segments);
        read.iter().try_for_each(|name| if_found(dir.remove_file(name)).map(drop))
    }

    /// Writes a segment with these files and their `places`. The places are sorted by file.
    fn write(
        &self,
        dir: &Dir,
        saved: Saved,
        files: impl Iterator<Item = u32>,
        places: &mut [(u64, Place)],
    ) -> io::Result<()> {
        let mut numbers = vec![0; self.files.len()];
        let mut listed = Vec::new();
        for number in files.filter(|number| self.file(*number).is_some()) {
            numbers[number as usize] = listed.len() as u32;
            listed.push(&self.files[number as usize]);
        }
        listed.extend(&self.outdated);
        places.sort_unstable_by_key(|(_, place)| (numbers[place.file as usize], place.at));
        write(dir, |file| {
            file.write_all(MAGIC)?;
            file.write_all(&saved.parts.to_le_bytes())?;
            file.write_all(&saved.bytes.to_le_bytes())?;
            file.write_all(&(listed.len() as u32).to_le_bytes())?;
            file.write_all(&(places.len() as u32).to_le_bytes())?;
            listed.iter().try_for_each(|indexed| indexed.write(file))?;
            places.iter().try_for_each(|(hash, place)| {
                place.write_in(*hash, numbers[place.file as usize], file)
            })
        })
    }

    /// True if the file of a place was not dropped.
    fn has(&self, place: &Place) -> bool {
        self.file(place.file).is_some()
    }

    /// The new places.
    fn fresh(&self) -> impl Iterator<Item = (u64, Place)> {
        self.fresh
            .iter()
            .map(|((hash, file, at), len)| (*hash, Place { file: *file, at: *at, len: *len }))
    }

    /// All places, with the short hashes of their chunks.
    pub(super) fn places(&self) -> impl Iterator<Item = (u64, Place)> {
        let all = self.places.iter().copied().chain(self.fresh());
        all.filter(|(_, place)| self.has(place))
    }

    /// Number of chunks, their length in bytes, and number of files.
    pub(super) fn counts(&self) -> (u64, u64, u64) {
        let files = self.files.iter().filter(|file| !file.path.is_empty()).count();
        let count =
            |(chunks, bytes), (_, place): (_, Place)| (chunks + 1, bytes + u64::from(place.len));
        let (chunks, bytes) = self.places().fold((0, 0), count);
        (chunks, bytes, files as u64)
    }

    pub(super) fn saved(&self) -> Saved {
        Saved {
            parts: self.saved.parts.saturating_add(self.fresh_saved.parts),
            bytes: self.saved.bytes.saturating_add(self.fresh_saved.bytes),
        }
    }

    /// The length of all segments in bytes.
    pub(super) fn len_on_disk(dir: &Dir) -> io::Result<u64> {
        let stats = segments(dir)?.into_iter().filter_map(|name| dir.stat(&name).ok());
        Ok(stats.map(|stat| stat.size).sum())
    }

    /// Removes all segments.
    pub(super) fn remove(dir: &Dir) -> io::Result<()> {
        let _ = dir.remove_private(TEMP);
        segments(dir)?.iter().try_for_each(|name| dir.remove_file(name))
    }
}

/// The names of the segments in `dir`, the oldest first.
fn segments(dir: &Dir) -> io::Result<Vec<Name>> {
    let mut entries = dir.entries()?;
    // A directory is not a segment, and could not be removed as one.
    entries.retain(|it| it.is_dir != Some(true) && it.name.as_bytes().starts_with(PREFIX));
    Ok(entries.into_iter().map(|it| it.name).collect())
}

/// Reads a segment of `len` bytes, and rewinds it. Returns an error if it is damaged.
fn check(mut file: &File, len: u64) -> io::Result<()> {
    let damaged = || io::Error::from(io::ErrorKind::InvalidData);
    let content = len.checked_sub(32).filter(|_| len <= SEGMENT_LEN_MAX).ok_or_else(damaged)?;
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(file.take(content))?;
    match array(&mut file)? == *hasher.finalize().as_bytes() {
        true => file.rewind(),
        false => Err(damaged()),
    }
}

fn array<const LEN: usize>(from: &mut impl Read) -> io::Result<[u8; LEN]> {
    let mut bytes = [0; LEN];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Writes a segment after the existing ones. `write` writes its content.
fn write(
    dir: &Dir,
    write: impl FnOnce(&mut BufWriter<Hashed>) -> io::Result<()>,
) -> io::Result<()> {
    let number = segments(dir)?.last().map_or(0, |name| {
        let digits = &name.as_bytes()[PREFIX.len()..];
        str::from_utf8(digits).ok().and_then(|digits| digits.parse::<u64>().ok()).unwrap_or(0) + 1
    });
    // Only the lock's holder writes, so a killed process has left this file.
    let _ = dir.remove_private(TEMP);
    let (file, hasher) = (dir.create_private(TEMP)?, blake3::Hasher::new());
    let mut file = BufWriter::new(Hashed { file, hasher });
    let written = write(&mut file).and_then(|()| {
        let Hashed { mut file, hasher } = file.into_inner()?;
        file.write_all(hasher.finalize().as_bytes())?;
        let name = [PREFIX, format!("{number:020}").as_bytes()].concat();
        dir.publish_replacing(TEMP, &Name::new(&name).expect("a prefix and digits"))
    });
    written.inspect_err(|_| drop(dir.remove_private(TEMP)))
}

/// A file with the hash of all bytes written to it.
struct Hashed {
    file: File,
    hasher: blake3::Hasher,
}

impl Write for Hashed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    fn new_dir() -> TempDir {
        TempDir::new().expect("a directory")
    }

    fn open(dir: &TempDir) -> Dir {
        Dir::open(dir.path()).expect("it is there")
    }

    /// The hash of a chunk that is made up.
    fn hash(number: u64) -> [u8; 32] {
        *blake3::hash(&number.to_le_bytes()).as_bytes()
    }

    /// An index in memory, with files that do not exist.
    struct MadeUp {
        index: Index,
        identity: Identity,
    }

    impl MadeUp {
        fn load(dir: &TempDir) -> Self {
            let file = tempfile::tempfile().expect("a file");
            let identity = Identity::of(&haul_sys::file_stat(&file).expect("known"));
            Self { index: Index::load(&open(dir), |_| true).expect("it loads"), identity }
        }

        /// Adds a file with the chunk `number`, whose path has `len` bytes.
        fn add(&mut self, number: u64, len: usize) {
            let mut path = format!("/{number}/").into_bytes();
            path.resize(len, b'x');
            self.index.add(&path, self.identity, [(0, 1, short(&hash(number)))]);
        }

        fn has(&self, number: u64) -> bool {
            !self.index.find(&hash(number)).is_empty()
        }
    }

    /// As many paths of [`LEN`] bytes fill the memory for files.
    const COUNT: u64 = 128;
    const LEN: usize = FILES_COST_MAX / COUNT as usize - FILE_COST;

    #[test]
    fn the_oldest_files_are_not_read_if_there_is_no_room() {
        let dir = new_dir();
        for first in [0, COUNT] {
            // It does not know of the other one.
            let mut made_up = MadeUp::load(&new_dir());
            (first..first + COUNT).for_each(|number| made_up.add(number, LEN));
            made_up.index.flush(&open(&dir)).expect("written");
        }
        let made_up = MadeUp::load(&dir);
        let left: Vec<_> = (0..2 * COUNT).filter(|number| made_up.has(*number)).collect();
        assert_eq!(left, (COUNT..2 * COUNT).collect::<Vec<_>>());
    }

    #[test]
    fn the_oldest_files_make_way_and_no_more_than_needed() {
        let dir = new_dir();
        let mut made_up = MadeUp::load(&dir);
        (0..COUNT - 1).for_each(|number| made_up.add(number, LEN));
        made_up.index.flush(&open(&dir)).expect("written");
        let mut made_up = MadeUp::load(&dir);
        for (number, gone) in [(COUNT - 1, 0), (COUNT, 1), (COUNT + 1, 2)] {
            made_up.add(number, LEN);
            let left: Vec<_> = (0..=number).filter(|number| made_up.has(*number)).collect();
            assert_eq!(left, (gone..=number).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_dropped_file_makes_room() {
        const MIB: usize = 1 << 20;
        let mut made_up = MadeUp::load(&new_dir());
        made_up.add(0, 3 * MIB);
        made_up.add(1, 2 * MIB);
        made_up.add(2, 2 * MIB);
        assert_eq!([0, 1, 2].map(|number| made_up.has(number)), [true, true, false]);
        made_up.index.drop_outdated(0);
        made_up.add(3, 3 * MIB);
        made_up.add(4, 2 * MIB);
        assert_eq!([0, 1, 3, 4].map(|number| made_up.has(number)), [false, true, true, false]);
    }

    #[test]
    fn a_job_learns_a_bounded_number_of_chunks() {
        const MAX: u64 = FRESH_MAX as u64;
        let mut made_up = MadeUp::load(&new_dir());
        let chunks = (0..MAX + 2).map(|n| (n, 1, n));
        made_up.index.add(b"/a", made_up.identity, chunks);
        assert_eq!(made_up.index.counts(), (MAX, MAX, 1));
    }

    #[test]
    fn a_file_that_this_job_cannot_open_stays_for_others() {
        let dir = new_dir();
        let mut made_up = MadeUp::load(&dir);
        made_up.add(0, 9);
        made_up.add(1, 9);
        made_up.index.mark_unavailable(0);
        assert_eq!([0, 1].map(|number| made_up.has(number)), [false, true]);
        made_up.index.flush(&open(&dir)).expect("written");
        let again = MadeUp::load(&dir);
        assert_eq!([0, 1].map(|number| again.has(number)), [true, true]);
    }
}
