//! Content-defined chunks: FastCDC (Xia et al., "The Design of Fast Content-Defined Chunking for
//! Data Deduplication Based Storage Systems", 2020), as implemented by the crate `fastcdc`.
//!
//! **The bounds are part of the protocol.** Programs with different bounds have no chunks in
//! common, and offers between them are useless.

use fastcdc::v2020::{Error, StreamCDC};
use std::io::{self, Read};

/// Minimum length of a chunk in bytes. Only the last one of a content may be shorter.
pub const CHUNK_LEN_MIN: u32 = 16 << 10;

/// Average length of a chunk in bytes. Shorter chunks find more duplicates, but need a longer list.
const CHUNK_LEN_AVERAGE: u32 = 64 << 10;

/// Maximum length of a chunk in bytes.
pub const CHUNK_LEN_MAX: u32 = 256 << 10;

/// The BLAKE3 hash of a chunk.
pub type ChunkHash = [u8; 32];

/// A part of a content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk {
    /// Its length in bytes, at most [`CHUNK_LEN_MAX`].
    pub len: u32,
    /// Its hash.
    pub hash: ChunkHash,
}

/// Cuts `content` into chunks, in their order.
///
/// # Errors
/// The errors of reading `content`. After an error the iterator ends.
pub fn chunks(content: impl Read) -> impl Iterator<Item = io::Result<Chunk>> {
    let (min, average, max) = (CHUNK_LEN_MIN, CHUNK_LEN_AVERAGE, CHUNK_LEN_MAX);
    let mut cut = StreamCDC::new(content, min as usize, average as usize, max as usize);
    let mut has_failed = false;
    std::iter::from_fn(move || {
        let next = if has_failed { None } else { cut.next() };
        Some(match next? {
            Ok(chunk) => {
                Ok(Chunk { len: chunk.length as u32, hash: *blake3::hash(&chunk.data).as_bytes() })
            }
            Err(error) => {
                has_failed = true;
                Err(match error {
                    Error::IoError(error) => error,
                    error => io::Error::other(error),
                })
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn content(len: usize) -> Vec<u8> {
        let mut content = vec![0; len];
        blake3::Hasher::new().update(b"chunks").finalize_xof().fill(&mut content);
        content
    }

    fn cut(content: &[u8]) -> Vec<Chunk> {
        chunks(content).map(|chunk| chunk.expect("memory can be read")).collect()
    }

    #[test]
    fn cut_points_are_those_of_the_protocol() {
        let lens: Vec<_> = cut(&content(1 << 20)).iter().map(|chunk| chunk.len).collect();
        let golden = [
            100_867, 110_167, 98_955, 66_035, 125_702, 96_668, 48_106, 67_942, 31_603, 69_196,
            21_525, 87_892, 85_176, 38_742,
        ];
        assert_eq!(lens, golden);
        assert_eq!(lens.iter().sum::<u32>(), 1 << 20);
    }

    #[test]
    fn chunks_are_within_bounds_and_make_up_the_content() {
        for len in [0, 1, CHUNK_LEN_MIN - 1, CHUNK_LEN_MIN, CHUNK_LEN_MIN + 1, 3 << 20] {
            for content in [content(len as usize), vec![0; len as usize]] {
                let (mut at, chunks) = (0, cut(&content));
                for (number, chunk) in chunks.iter().enumerate() {
                    let is_last = number + 1 == chunks.len();
                    assert!(chunk.len >= CHUNK_LEN_MIN || is_last);
                    assert!((1..=CHUNK_LEN_MAX).contains(&chunk.len));
                    let part = &content[at..at + chunk.len as usize];
                    assert_eq!(chunk.hash, *blake3::hash(part).as_bytes());
                    at += part.len();
                }
                assert_eq!(at, content.len());
            }
        }
    }

    #[test]
    fn an_insertion_changes_few_chunks() {
        let old = content(8 << 20);
        for at in [0, 1 << 20, 8 << 20] {
            let mut new = old.clone();
            new.splice(at..at, [7; 1000]);
            let known: HashSet<_> = cut(&old).iter().map(|chunk| chunk.hash).collect();
            let new: Vec<_> = cut(&new);
            let missing = new.iter().filter(|chunk| !known.contains(&chunk.hash));
            assert!(missing.count() <= 3, "behind byte {at}");
        }
    }

    #[test]
    fn a_read_error_ends_the_chunks() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::ErrorKind::TimedOut.into())
            }
        }
        let mut chunks = chunks(Broken);
        let error = chunks.next().expect("an error").expect_err("it can't be read");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(chunks.next().is_none());
    }
}
