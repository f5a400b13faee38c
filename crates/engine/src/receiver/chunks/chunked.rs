//! The files in flight whose chunks were offered: the chunks of each, and its parts that were found
//! in other files.

use haul_delta::CHUNK_LEN_MAX;
use haul_proto::{OFFERED_PER_FRAME_MAX, Offer, Reuse};
use haul_store::short;
use std::collections::HashMap;

/// Maximum number of chunks, over all files, that are listed for the index.
pub(crate) const LISTED_MAX: usize = 128 << 10;

/// Maximum number of found parts, over all files.
const FOUND_MAX: usize = 64 << 10;

/// The offset of a chunk, its length, and the short form of its hash.
pub(crate) type Listed = (u64, u32, u64);

#[derive(Default)]
pub(crate) struct ChunkedFiles {
    by_index: HashMap<u64, Chunked>,
    /// The total length of the lists of all files.
    listed: usize,
    found: usize,
}

#[derive(Default)]
struct Chunked {
    /// The minimum offset of the next offer, in bytes.
    next: u64,
    listed: Vec<Listed>,
    /// The parts that were found in other files, in the order of this file.
    found: Vec<Found>,
}

/// A part of a file that was found in another file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) at: u64,
    pub(crate) len: u64,
    /// The number of the other file in the index.
    pub(crate) file: u32,
    /// The offset of the part in the other file, in bytes.
    pub(crate) from: u64,
}

impl Found {
    fn end(&self) -> u64 {
        self.at + self.len
    }
}

impl ChunkedFiles {
    /// Starts a file: its chunks may be offered.
    pub(crate) fn begin(&mut self, index: u64) {
        self.end(index);
        self.by_index.insert(index, Chunked::default());
    }

    /// True if chunks of the file may be offered.
    pub(crate) fn has(&self, index: u64) -> bool {
        self.by_index.contains_key(&index)
    }

    /// True if parts of the file were found.
    pub(crate) fn has_found(&self, index: u64) -> bool {
        self.by_index.get(&index).is_some_and(|file| !file.found.is_empty())
    }

    /// Takes an offer. Returns false if its file has ended.
    ///
    /// # Errors
    /// The rule of the protocol that it breaks.
    pub(crate) fn take(&mut self, offer: &Offer) -> Result<bool, &'static str> {
        let lens = offer.chunks.iter().map(|chunk| u64::from(chunk.len));
        let is_chunk = |len: u64| (1..=CHUNK_LEN_MAX.into()).contains(&len);
        let is_list = (1..=OFFERED_PER_FRAME_MAX).contains(&offer.chunks.len());
        let end = offer.at.checked_add(lens.clone().sum());
        let (Some(end), true, true) = (end, is_list, lens.clone().all(is_chunk)) else {
            return Err("it offered chunks that can't be");
        };
        let Some(file) = self.by_index.get_mut(&offer.index) else { return Ok(false) };
        if offer.at < file.next {
            return Err("it offered chunks twice");
        }
        file.next = end;
        let mut at = offer.at;
        for chunk in &offer.chunks {
            if self.listed < LISTED_MAX {
                file.listed.push((at, chunk.len, short(&chunk.hash)));
                self.listed += 1;
            }
            at += u64::from(chunk.len);
        }
        Ok(true)
    }

    /// Adds a found part of a file, behind all others; false if there is no room.
    pub(crate) fn found(&mut self, index: u64, part: Found) -> bool {
        let Some(file) = self.by_index.get_mut(&index) else { return false };
        if let Some(last) = file.found.last_mut()
            && last.end() == part.at
            && last.from + last.len == part.from
            && last.file == part.file
        {
            last.len += part.len;
            return true;
        }
        let has_room = self.found < FOUND_MAX;
        if has_room {
            self.found += 1;
            file.found.push(part);
        }
        has_room
    }

    /// The parts of other files that make up `reuse`; `None` if some are missing.
    pub(crate) fn parts(&self, reuse: &Reuse) -> Option<Vec<Found>> {
        let found = &self.by_index.get(&reuse.index)?.found;
        let first = found.partition_point(|found| found.end() <= reuse.at);
        let (mut at, end) = (reuse.at, reuse.at.checked_add(reuse.len.into())?);
        let mut parts = Vec::new();
        for found in &found[first..] {
            if at == end {
                break;
            }
            if found.at > at {
                return None;
            }
            let (len, from) = (found.end().min(end) - at, found.from + (at - found.at));
            parts.push(Found { at, len, from, ..*found });
            at += len;
        }
        (at == end).then_some(parts)
    }

    /// Ends a file. Returns its chunks, or `None` if none were requested.
    pub(crate) fn end(&mut self, index: u64) -> Option<Vec<Listed>> {
        let Chunked { listed, found, .. } = self.by_index.remove(&index)?;
        self.listed -= listed.len();
        self.found -= found.len();
        Some(listed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_proto::OfferedChunk;

    fn offer(at: u64, lens: &[u32]) -> Offer {
        let hash = [1; 32];
        let chunks = lens.iter().map(|len| OfferedChunk { len: *len, hash }).collect();
        Offer { index: 7, at, chunks }
    }

    #[test]
    fn offers_must_be_in_order_and_valid() {
        let mut files = ChunkedFiles::default();
        assert_eq!(files.take(&offer(0, &[5])), Ok(false));
        files.begin(7);
        assert_eq!(files.take(&offer(0, &[5, 6])), Ok(true));
        assert_eq!(files.take(&offer(20, &[1])), Ok(true));
        for bad in [
            offer(20, &[1]),
            offer(30, &[]),
            offer(30, &[0]),
            offer(30, &[CHUNK_LEN_MAX + 1]),
            offer(30, &vec![1; OFFERED_PER_FRAME_MAX + 1]),
            offer(u64::MAX, &[1]),
        ] {
            assert!(files.take(&bad).is_err(), "{bad:?}");
        }
        let listed = files.end(7).expect("it was begun");
        let places: Vec<_> = listed.iter().map(|(at, len, _)| (*at, *len)).collect();
        assert_eq!(places, [(0, 5), (5, 6), (20, 1)]);
        assert!(files.end(7).is_none() && files.listed == 0);
    }

    #[test]
    fn listed_chunks_are_bounded() {
        let mut files = ChunkedFiles::default();
        files.begin(7);
        let lens = vec![1; OFFERED_PER_FRAME_MAX];
        let offers = LISTED_MAX / OFFERED_PER_FRAME_MAX + 2;
        for number in 0..offers as u64 {
            let at = number * OFFERED_PER_FRAME_MAX as u64;
            assert_eq!(files.take(&offer(at, &lens)), Ok(true));
        }
        assert_eq!(files.end(7).map(|listed| listed.len()), Some(LISTED_MAX));
        assert_eq!(files.listed, 0);
    }

    #[test]
    fn a_reuse_is_made_of_found_parts() {
        let mut files = ChunkedFiles::default();
        files.begin(7);
        let mut found = |at, len, file, from| files.found(7, Found { at, len, file, from });
        // The second part continues the first, in the same file.
        assert!(found(10, 5, 1, 100) && found(15, 5, 1, 105) && found(20, 5, 2, 0));
        assert!(found(30, 5, 1, 0));
        assert_eq!(files.found, 3);
        let parts = |at, len| {
            let parts = files.parts(&Reuse { index: 7, at, from: None, len })?;
            Some(parts.iter().map(|part| (part.from, part.len)).collect::<Vec<_>>())
        };
        assert_eq!(parts(10, 10), Some(vec![(100, 10)]));
        assert_eq!(parts(12, 10), Some(vec![(102, 8), (0, 2)]));
        assert_eq!(parts(30, 5), Some(vec![(0, 5)]));
        for (at, len) in [(9, 2), (24, 2), (25, 5), (30, 6), (40, 1), (u64::MAX, 1)] {
            assert_eq!(parts(at, len), None, "{len} bytes at {at}");
        }
        assert!(files.has_found(7) && files.has(7));
        files.begin(7);
        assert!(files.has(7) && !files.has_found(7) && files.found == 0);
    }

    #[test]
    fn parts_are_bounded_and_end_with_their_file() {
        let mut files = ChunkedFiles::default();
        let part = |at| Found { at, len: 1, file: 1, from: 0 };
        assert!(!files.found(7, part(0)), "no such file");
        files.begin(7);
        assert!((0..FOUND_MAX as u64).all(|at| files.found(7, part(at))));
        assert!(!files.found(7, part(FOUND_MAX as u64)));
        files.end(7);
        assert_eq!(files.found, 0);
    }
}
