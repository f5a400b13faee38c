//! Small files of a storage where each request takes a round trip. One thread transfers many at a
//! time, so that no file costs a round trip of its own.

use crate::budget::Share;
use haul_model::{Attributes, Name, Timestamp};
use haul_store::{OnExisting, Publication};
use std::io;

/// The small files of one directory.
pub trait SmallFiles {
    /// Prepares a file of this directory for [`Uploads`].
    ///
    /// # Errors
    /// Why the directory could not be created, if its creation was pending.
    fn put(&self, file: SmallFile<'_>) -> io::Result<Put>;

    /// Prepares the file `name` of this directory, of `len` bytes, for [`Downloads`].
    fn get(&self, name: &Name, len: u64) -> Get;
}

/// A small file whose content is in memory.
pub struct SmallFile<'a> {
    /// The file's final name.
    pub name: &'a Name,
    /// The whole content.
    pub content: Vec<u8>,
    /// The file's final attributes.
    pub attributes: &'a Attributes,
    /// How to treat an existing entry of that name.
    pub on_existing: OnExisting,
    /// Makes it durable before it is published, where supported.
    pub sync: bool,
    /// Reads it back before it is published.
    pub verify: bool,
}

/// A small file, ready for [`Uploads`].
pub struct Put {
    /// The directory, as the storage names it.
    pub(crate) dir: Vec<u8>,
    pub(crate) put: haul_sftp::Put<Vec<u8>>,
}

/// A small file, ready for [`Downloads`].
pub struct Get {
    pub(crate) path: Vec<u8>,
    pub(crate) len: u64,
}

/// Sends small files, many at a time. If it is dropped with files in flight, their temporary files
/// are removed while the storage is reachable.
pub trait Uploads {
    /// Starts a file, which the caller calls `key`. While too many files are in flight, it works on
    /// these first.
    fn push(&mut self, key: u64, put: Put);

    /// Waits for the next file that has finished or failed, in any order. `None` if none is in
    /// flight. [`Publication::Kept`] means that the name exists.
    fn next_done(&mut self) -> Option<(u64, Result<Publication, PutError>)>;

    /// Like [`Self::next_done`], without waiting.
    fn try_next_done(&mut self) -> Option<(u64, Result<Publication, PutError>)>;
}

/// Why a small file was not sent.
#[derive(Debug)]
pub enum PutError {
    /// The storage has other content than was sent; described in words.
    Corrupt(String),
    /// An operation has failed.
    Failed {
        /// The operation, as in "can't make the file".
        operation: &'static str,
        /// The cause.
        error: io::Error,
    },
}

/// Fetches small files, many at a time.
pub trait Downloads {
    /// Starts a file, which the caller calls `key`. If none is in flight, waits for room until
    /// `stopped` returns true. Returns false if there is no room.
    fn push(&mut self, key: u64, get: Get, stopped: &dyn Fn() -> bool) -> bool;

    /// Waits for the next file that has arrived, in any order. `None` if none is in flight. The
    /// file is `None` if its length is not `len`, it has changed meanwhile, or it can't be read.
    /// Opening it reports the cause.
    fn next_done(&mut self) -> Option<(u64, Option<Fetched>)>;

    /// Like [`Self::next_done`], without waiting.
    fn try_next_done(&mut self) -> Option<(u64, Option<Fetched>)>;
}

/// A small file that has arrived. It occupies its room until it is dropped.
pub struct Fetched {
    /// The whole content.
    pub content: Vec<u8>,
    /// The time when the content last changed.
    pub mtime: Timestamp,
    pub(crate) _share: Share,
}
