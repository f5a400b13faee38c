//! The difference between two versions of a file that are on two machines, found without
//! bringing them together: the algorithm of rsync (Tridgell and Mackerras, "The rsync
//! algorithm", 1996). Bytes in, steps out; no I/O.
//!
//! Whoever has the old file cuts it into blocks and tells a short sum of each: a
//! [`Signature`]. Whoever has the new one looks for these blocks in it at every offset
//! ([`Matcher`]), and tells where they are; the rest is sent as it is.
//!
//! Each sum is a rolling one, which is cheap at every offset, and a few bytes of a strong one
//! under a key that is fresh each time, so that nobody can make files whose blocks are taken
//! for each other. A few bytes are no proof: **the whole must be verified by a
//! hash of its own**, and sent without this where that differs.
//!
//! Besides, content is cut into chunks whose ends depend on the content around them alone
//! ([`chunks`]): so equal parts of different files have the same chunks, wherever they are.
//!
//! # Rooms
//!
//! - `shape.rs`: how a file is cut, and how long its sums are.
//! - `rolling.rs`: the sum that rolls. `strong.rs`: the one that proves a match.
//! - `signature.rs`: the sums of a file.
//! - `chunks.rs`: chunks that the content defines.
//! - `table.rs`: finds the blocks that have a sum. `matcher.rs`: the search.

#![forbid(unsafe_code)]

mod chunks;
mod matcher;
mod rolling;
mod shape;
mod signature;
mod strong;
mod table;

pub use chunks::{CHUNK_LEN_MAX, CHUNK_LEN_MIN, Chunk, ChunkHash, chunks};
pub use matcher::{Matcher, Step};
pub use shape::Shape;
pub use signature::{Key, Signature, TooLong};
pub use strong::Summer;

#[cfg(test)]
mod tests;
