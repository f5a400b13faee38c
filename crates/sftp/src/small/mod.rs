//! Many small files, written or read at the same time by one thread, so that a
//! file costs no round trip of its own.
//!
//! A file needs several requests, and some of them need the answer to an earlier
//! one. While one file waits for its answer, the others' requests are sent.

mod get;
mod put;

pub use get::{Get, Gets, Got};
pub use put::{Put, Puts};

use crate::Client;

/// Files in flight, at most. With a round trip of 50 ms, three of which a file
/// takes, it makes 3,200 files a second.
const FILES_MAX: usize = 480;

/// Content in flight, at most, in bytes; one file that is larger goes alone.
const BYTES_MAX: usize = 8 << 20;

/// True if another file of `len` bytes may be begun, beside `files` others of
/// `bytes` bytes.
fn has_room(client: &Client, files: usize, bytes: usize, len: usize) -> bool {
    // Half of what the server allows, for there may be other askers.
    let files_max = match client.limits().open_handles / 2 {
        0 => FILES_MAX,
        limit => usize::try_from(limit).map_or(FILES_MAX, |limit| limit.min(FILES_MAX)),
    };
    files == 0 || (files < files_max && bytes + len <= BYTES_MAX)
}

/// How many bits of a tag tell which of a file's requests it is: 32 for an
/// offset, and some more.
const PART_BITS: u32 = 36;

/// The tag of a request: which file, and which of its requests.
fn tag(file: u64, part: u64) -> u64 {
    file << PART_BITS | part
}

/// The reverse of [`tag`].
fn untag(tag: u64) -> (u64, u64) {
    (tag >> PART_BITS, tag & ((1 << PART_BITS) - 1))
}
