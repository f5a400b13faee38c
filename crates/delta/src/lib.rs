//! The difference between two versions of a file on two machines, by the algorithm of rsync
//! (Tridgell and Mackerras, "The rsync algorithm", 1996). No I/O.
//!
//! The side with the old file cuts it into blocks, and sends a short sum of each: a [`Signature`].
//! The side with the new file searches these blocks at every offset ([`Matcher`]), and sends their
//! positions. The rest is sent as it is.
//!
//! Each sum has a rolling part, which is cheap to compute at every offset, and a few bytes of a
//! strong hash. Its key is new each time, so that nobody can prepare files with colliding blocks. A
//! few bytes are no proof: **the whole file must be verified by its own hash**, and sent without
//! this crate if the hash differs.
//!
//! This crate also cuts content into chunks whose ends depend only on nearby content ([`chunks`]).
//! So equal parts of different files have the same chunks at any offset.
//!
//! # Rooms
//!
//! - `shape.rs`: the block length of a file, and the length of its sums.
//! - `rolling.rs`: the rolling part of a sum. `strong.rs`: the strong part.
//! - `signature.rs`: the sums of a file.
//! - `chunks.rs`: content-defined chunks.
//! - `table.rs`: finds blocks by their rolling sums. `matcher.rs`: the search.

#![forbid(unsafe_code)]

mod chunks;
mod matcher;
mod rolling;
mod shape;
mod signature;
mod strong;
mod table;

pub use chunks::{CHUNK_LEN_MAX, CHUNK_LEN_MIN, Chunk, ChunkHash, chunks};
pub use matcher::{DeltaStep, Matcher};
pub use shape::Shape;
pub use signature::{Key, Signature, TooManySums};
pub use strong::Checksummer;

#[cfg(test)]
mod tests;
