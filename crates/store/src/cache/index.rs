//! The index: which file has a chunk, and where. Chunks are found by the first 8 bytes of their
//! hashes; all of the hash is compared when the content is read.
//!
//! On disk it is a number of segments. A segment is written whole under a private name, then
//! renamed, and never changed; its last 32 bytes are the BLAKE3 hash of those before. So there is
//! nothing to repair, and nothing is flushed: one that a power cut has damaged is removed. Each
//! job that has learned something writes one. When there are [`SEGMENTS_MAX`], they become one.
//!
//! ```text
//! magic 8 bytes, saved (parts u64, bytes u64), files u32, places u32
//! each file:  path length u16, path, size u64, seconds i64, nanoseconds u32, inode u64
//! each place: hash u64, file u32, at u64, length u32; in the order of the files
//! BLAKE3 hash of all before, 32 bytes
//! ```
//!
//! Newer files come first, so that the oldest make way when there are too many. All numbers are
//! little-endian. All of it is in memory while it is used: at most 24 MiB.

use super::{Saved, short};
use haul_model::{Name, Timestamp};
use haul_sys::{Dir, Stat};
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read, Write};

/// Chunks that are known, at most: those of 32 GiB on average. The oldest make way.
const PLACES_MAX: usize = 512 << 10;

/// Chunks that are learned before they are written, at most.
const FRESH_MAX: usize = PLACES_MAX / 4;

/// Bytes of the paths of the files that have them, at most.
const PATHS_LEN_MAX: usize = 4 << 20;

/// Segments on disk, at most.
const SEGMENTS_MAX: usize = 8;

/// The longest segment, in bytes.
const SEGMENT_LEN_MAX: u64 = 32 << 20;

const MAGIC: &[u8; 8] = b"haulchk1";
const PREFIX: &[u8] = b"index-";
const TEMP: &str = "index.new";
const PLACE_LEN: usize = 24;

/// The properties by which a file is still the one that was indexed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    size: u64,
    mtime: Timestamp,
    inode: u64,
}

impl Identity {
    /// That of a file.
    pub(super) fn of(stat: &Stat) -> Self {
        Self { size: stat.size, mtime: stat.mtime, inode: stat.id.ino }
    }
}

/// A place that may have a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub(super) file: u32,
    /// Where it begins in the file, in bytes.
    pub at: u64,
    /// Its length, in bytes.
    pub len: u32,
}

/// A file with chunks; one without a path was dropped.
struct Indexed {
    path: Box<[u8]>,
    identity: Identity,
}

/// The index in memory.
pub(super) struct Index {
    files: Vec<Indexed>,
    /// It changes with the numbers of files.
    pub(super) generation: u64,
    /// The segments that were read.
    segments: Vec<Name>,
    /// The places that were read, in the order of their hashes.
    places: Vec<(u64, Place)>,
    /// Those that were learned since.
    fresh: BTreeMap<(u64, u32, u64), u32>,
    /// Files from this one on were learned since; those in front of it have the newest first.
    fresh_files: u32,
    /// Files from this one up to those have made way for newer ones.
    oldest: u32,
    paths_len: usize,
    /// The newest file of each path, by a hash of it.
    by_path: HashMap<u64, u32>,
    hasher: RandomState,
    /// Content that was not sent: before this was read, and since.
    saved: Saved,
    fresh_saved: Saved,
}

impl Index {
    fn new() -> Self {
        Self {
            files: Vec::new(),
            generation: 0,
            segments: Vec::new(),
            places: Vec::new(),
            fresh: BTreeMap::new(),
            fresh_files: 0,
            oldest: 0,
            paths_len: 0,
            by_path: HashMap::new(),
            hasher: RandomState::new(),
            saved: Saved::default(),
            fresh_saved: Saved::default(),
        }
    }

    /// Reads the index in `dir`. Damaged segments are removed.
    pub(super) fn load(dir: &Dir) -> io::Result<Self> {
        let mut index = Self::new();
        // The newest first: the oldest are left out if there is too much.
        index.segments = segments(dir)?;
        for name in index.segments.clone().iter().rev() {
            let Ok((file, stat)) = dir.open_file(name, false) else { continue };
            let segment = if stat.size > SEGMENT_LEN_MAX { None } else { read(file, stat.size) };
            match segment.as_deref().and_then(Segment::parse) {
                Some(segment) => index.take(&segment),
                None => dir.remove_file(name)?,
            }
        }
        index.places.sort_unstable();
        index.fresh_files = index.files.len() as u32;
        index.oldest = index.fresh_files;
        Ok(index)
    }

    /// Takes what is in a segment, as far as there is room and nothing newer is known.
    fn take(&mut self, segment: &Segment<'_>) {
        self.saved.parts = self.saved.parts.saturating_add(segment.saved.parts);
        self.saved.bytes = self.saved.bytes.saturating_add(segment.saved.bytes);
        let mut places = segment.places.chunks_exact(PLACE_LEN).map(Segment::place).peekable();
        for (in_segment, (path, identity)) in segment.files.iter().enumerate() {
            let (number, before) = (self.files.len() as u32, self.places.len());
            while let Some((hash, _, at, len)) =
                places.next_if(|(_, file, ..)| *file as usize == in_segment)
            {
                self.places.push((hash, Place { file: number, at, len }));
            }
            let key = self.hasher.hash_one(path);
            let has_room =
                self.paths_len + path.len() <= PATHS_LEN_MAX && self.places.len() <= PLACES_MAX;
            if has_room && self.places.len() > before && !self.by_path.contains_key(&key) {
                self.by_path.insert(key, number);
                self.paths_len += path.len();
                self.files.push(Indexed { path: Box::from(*path), identity: *identity });
            } else {
                self.places.truncate(before);
            }
        }
    }

    /// The places of a chunk.
    pub(super) fn find(&self, hash: &[u8; 32]) -> Vec<Place> {
        let hash = short(hash);
        let from = self.places.partition_point(|(other, _)| *other < hash);
        let read = self.places[from..].iter().take_while(|(other, _)| *other == hash);
        let fresh = self.fresh.range((hash, 0, 0)..=(hash, u32::MAX, u64::MAX));
        let fresh = fresh.map(|(key, len)| placed((*key, *len)).1);
        let all = fresh.chain(read.map(|(_, place)| *place));
        all.filter(|place| self.file(place.file).is_some()).collect()
    }

    /// The path of a file and its identity, unless it was dropped.
    pub(super) fn file(&self, number: u32) -> Option<(&[u8], Identity)> {
        let file = self.files.get(number as usize).filter(|file| !file.path.is_empty())?;
        Some((&file.path, file.identity))
    }

    /// Forgets a file.
    pub(super) fn drop_file(&mut self, number: u32) {
        if let Some(file) = self.files.get_mut(number as usize) {
            self.paths_len -= file.path.len();
            file.path = Box::default();
        }
    }

    /// Learns of a file, which takes the place of what had its path before.
    pub(super) fn add(
        &mut self,
        path: &[u8],
        identity: Identity,
        chunks: impl IntoIterator<Item = (u64, u32, u64)>,
    ) {
        let number = self.files.len() as u32;
        if let Some(before) = self.by_path.insert(self.hasher.hash_one(path), number) {
            self.drop_file(before);
        }
        while self.paths_len + path.len() > PATHS_LEN_MAX && self.oldest > 0 {
            self.oldest -= 1;
            self.drop_file(self.oldest);
        }
        if path.is_empty() || self.paths_len + path.len() > PATHS_LEN_MAX {
            return;
        }
        self.paths_len += path.len();
        self.files.push(Indexed { path: Box::from(path), identity });
        for (at, len, hash) in chunks {
            if self.fresh.len() < FRESH_MAX {
                self.fresh.insert((hash, number, at), len);
            }
        }
    }

    /// Counts content that was not sent.
    pub(super) fn saves(&mut self, saved: Saved) {
        self.fresh_saved.parts += saved.parts;
        self.fresh_saved.bytes += saved.bytes;
    }

    /// True if there is something to be written.
    pub(super) fn has_news(&self) -> bool {
        !self.fresh.is_empty() || self.fresh_saved != Saved::default()
    }

    /// Writes what was learned as a segment, and makes one of all if there are many. The caller
    /// has the lock.
    pub(super) fn flush(&mut self, dir: &Dir) -> io::Result<()> {
        write(dir, &self.segment(self.fresh_saved, self.fresh_files))?;
        if segments(dir)?.len() < SEGMENTS_MAX {
            let fresh = std::mem::take(&mut self.fresh);
            self.places.extend(fresh.into_iter().map(placed));
            self.places.sort_unstable();
            self.fresh_files = self.files.len() as u32;
            (self.saved, self.fresh_saved) = (self.saved(), Saved::default());
            return Ok(());
        }
        // Others may have written some since this was read. Both would take twice the memory.
        let generation = self.generation + 1;
        *self = Self::new();
        *self = Self { generation, ..Self::load(dir)? };
        self.compact(dir)
    }

    /// Writes all as one segment. The caller has the lock.
    pub(super) fn compact(&mut self, dir: &Dir) -> io::Result<()> {
        write(dir, &self.segment(self.saved, 0))?;
        // Those that another process has written since stay.
        let read = std::mem::take(&mut self.segments);
        read.iter().try_for_each(|name| match dir.remove_file(name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        })
    }

    /// The number of chunks that were learned.
    pub(super) fn fresh_count(&self) -> usize {
        self.fresh.len()
    }

    /// The parts of a segment with the files from `first` on.
    fn segment(&self, saved: Saved, first: u32) -> [Vec<u8>; 3] {
        let mut numbers = HashMap::new();
        let mut files = Vec::new();
        let fresh = (self.fresh_files..self.files.len() as u32).rev();
        for number in fresh.chain(first..self.fresh_files) {
            let file = &self.files[number as usize];
            if file.path.is_empty() {
                continue;
            }
            numbers.insert(number, numbers.len() as u32);
            files.extend((file.path.len() as u16).to_le_bytes());
            files.extend(&*file.path);
            let Identity { size, mtime, inode } = file.identity;
            files.extend(size.to_le_bytes());
            files.extend(mtime.secs.to_le_bytes());
            files.extend(mtime.nanos.to_le_bytes());
            files.extend(inode.to_le_bytes());
        }
        let numbered =
            |(hash, place): (u64, Place)| Some((*numbers.get(&place.file)?, hash, place));
        let mut of_files: Vec<_> = self.places().filter_map(numbered).collect();
        of_files.sort_unstable_by_key(|(file, _, place)| (*file, place.at));
        let mut places = Vec::with_capacity(of_files.len() * PLACE_LEN);
        for (file, hash, place) in of_files {
            places.extend(hash.to_le_bytes());
            places.extend(file.to_le_bytes());
            places.extend(place.at.to_le_bytes());
            places.extend(place.len.to_le_bytes());
        }
        let counts = [numbers.len() as u32, (places.len() / PLACE_LEN) as u32];
        let mut head = MAGIC.to_vec();
        head.extend(saved.parts.to_le_bytes());
        head.extend(saved.bytes.to_le_bytes());
        counts.iter().for_each(|count| head.extend(count.to_le_bytes()));
        [head, files, places]
    }

    /// All places with the hashes of their chunks.
    pub(super) fn places(&self) -> impl Iterator<Item = (u64, Place)> {
        let fresh = self.fresh.iter().map(|(key, len)| placed((*key, *len)));
        let all = self.places.iter().copied().chain(fresh);
        all.filter(|(_, place)| self.file(place.file).is_some())
    }

    /// Chunks, their length in bytes, and the files that have them.
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

    /// Bytes of all segments.
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

/// A segment as it was read.
struct Segment<'b> {
    saved: Saved,
    files: Vec<(&'b [u8], Identity)>,
    places: &'b [u8],
}

impl<'b> Segment<'b> {
    /// `None` if it is damaged.
    fn parse(bytes: &'b [u8]) -> Option<Self> {
        let (bytes, hash) = bytes.split_last_chunk::<32>()?;
        if blake3::hash(bytes) != *hash {
            return None;
        }
        let mut rest = bytes.strip_prefix(MAGIC)?;
        let saved = Saved {
            parts: u64::from_le_bytes(take(&mut rest)?),
            bytes: u64::from_le_bytes(take(&mut rest)?),
        };
        let files_count = u32::from_le_bytes(take(&mut rest)?);
        let places_count = u32::from_le_bytes(take(&mut rest)?) as usize;
        let mut files = Vec::new();
        for _ in 0..files_count {
            let len = u16::from_le_bytes(take(&mut rest)?);
            let (path, behind) = rest.split_at_checked(len.into())?;
            rest = behind;
            let size = u64::from_le_bytes(take(&mut rest)?);
            let secs = i64::from_le_bytes(take(&mut rest)?);
            let nanos = u32::from_le_bytes(take(&mut rest)?);
            let inode = u64::from_le_bytes(take(&mut rest)?);
            files.push((path, Identity { size, mtime: Timestamp { secs, nanos }, inode }));
        }
        let is_whole = places_count.checked_mul(PLACE_LEN) == Some(rest.len());
        is_whole.then_some(Self { saved, files, places: rest })
    }

    /// The hash of a place, its file in the segment, where it begins, and its length.
    fn place(mut bytes: &[u8]) -> (u64, u32, u64, u32) {
        let known = "a place has this length";
        let hash = u64::from_le_bytes(take(&mut bytes).expect(known));
        let file = u32::from_le_bytes(take(&mut bytes).expect(known));
        let at = u64::from_le_bytes(take(&mut bytes).expect(known));
        (hash, file, at, u32::from_le_bytes(take(&mut bytes).expect(known)))
    }
}

fn take<const LEN: usize>(bytes: &mut &[u8]) -> Option<[u8; LEN]> {
    let (first, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*first)
}

/// The names of the segments in `dir`, the oldest first.
fn segments(dir: &Dir) -> io::Result<Vec<Name>> {
    let mut names = dir.names_where(|name| name.starts_with(PREFIX))?;
    names.sort_unstable();
    Ok(names)
}

/// All of a file; `None` if it can't be read.
fn read(mut file: impl Read, len: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(len as usize);
    file.by_ref().take(len).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// A place that was learned, and its hash.
fn placed(((hash, file, at), len): ((u64, u32, u64), u32)) -> (u64, Place) {
    (hash, Place { file, at, len })
}

/// Writes a segment behind those that are there.
fn write(dir: &Dir, parts: &[Vec<u8>]) -> io::Result<()> {
    let number = segments(dir)?.last().map_or(0, |name| {
        let digits = &name.as_bytes()[PREFIX.len()..];
        str::from_utf8(digits).ok().and_then(|digits| digits.parse::<u64>().ok()).unwrap_or(0) + 1
    });
    // Nobody else writes: this one was left by a process that was killed.
    let _ = dir.remove_private(TEMP);
    let mut file = dir.create_private(TEMP)?;
    let name = [PREFIX, format!("{number:020}").as_bytes()].concat();
    let mut hasher = blake3::Hasher::new();
    let written = parts.iter().try_for_each(|part| {
        hasher.update(part);
        file.write_all(part)
    });
    let written = written.and_then(|()| file.write_all(hasher.finalize().as_bytes()));
    let written = written.and_then(|()| {
        let name = Name::new(&name).expect("a prefix and digits");
        dir.publish_replacing(TEMP, &name)
    });
    written.inspect_err(|_| drop(dir.remove_private(TEMP)))
}
