//! Small files of a storage where each request takes a round trip: one thread has many of
//! them on their way, so that none costs a round trip of its own.

use crate::budget::Share;
use haul_model::{Attributes, Name, Timestamp};
use haul_store::{OnExisting, Publication};
use std::io;

/// The small files of one directory.
pub trait SmallFiles {
    /// A file that is to be put into this directory, for [`Uploads`].
    ///
    /// # Errors
    /// Why the directory, which was being made, is not there.
    fn put(&self, file: SmallFile<'_>) -> io::Result<Put>;

    /// The file `name` of this directory, which is `len` bytes long, for [`Downloads`].
    fn get(&self, name: &Name, len: u64) -> Get;
}

/// A small file that is whole in memory.
pub struct SmallFile<'a> {
    /// The name that it gets.
    pub name: &'a Name,
    /// Its content.
    pub content: Vec<u8>,
    /// The attributes that it gets.
    pub attributes: &'a Attributes,
    /// How it meets what has its name.
    pub on_existing: OnExisting,
    /// It is made durable before it gets its name, where that can be asked for.
    pub sync: bool,
    /// It is read back before it gets its name.
    pub verify: bool,
}

/// A small file that a directory has made ready to be put.
pub struct Put {
    /// The directory, as the storage names it.
    pub(crate) dir: Vec<u8>,
    pub(crate) put: haul_sftp::Put<Vec<u8>>,
}

/// A small file of a directory to be fetched.
pub struct Get {
    pub(crate) path: Vec<u8>,
    pub(crate) len: u64,
}

/// Puts small files, many at a time. Dropped with files on their way, it has their stages
/// removed, as long as the storage can be reached.
pub trait Uploads {
    /// Begins a file, which the caller calls `key`; goes on with others while too many are
    /// on their way.
    fn push(&mut self, key: u64, put: Put);

    /// The next file that is done or has failed, in any order; waits for one. `None` if
    /// none is on its way. [`Publication::Kept`] says that the name is taken.
    fn next_done(&mut self) -> Option<(u64, Result<Publication, NotPut>)>;

    /// The same of those that are done already: waits for none.
    fn take_done(&mut self) -> Option<(u64, Result<Publication, NotPut>)>;
}

/// Why a small file was not put.
#[derive(Debug)]
pub enum NotPut {
    /// The storage has something else than was sent, which is said in words.
    Corrupt(String),
    /// An operation has failed.
    Failed {
        /// As in "can't make the file".
        operation: &'static str,
        /// Why.
        error: io::Error,
    },
}

/// Fetches small files, many at a time.
pub trait Downloads {
    /// Begins a file, which the caller calls `key`. Waits for room, until `stopped`, if no
    /// other is on its way; else `false` says that there is none now.
    fn push(&mut self, key: u64, get: Get, stopped: &dyn Fn() -> bool) -> bool;

    /// The next file that has arrived, in any order; waits for one. `None` if none is on its
    /// way. A file that is not `len` bytes long, changes meanwhile, or can't be read comes as
    /// `None`: opening it tells why.
    fn next_done(&mut self) -> Option<(u64, Option<Fetched>)>;

    /// The same of those that have arrived already: waits for none.
    fn take_done(&mut self) -> Option<(u64, Option<Fetched>)>;
}

/// A small file that has arrived. It keeps its room until it is dropped.
pub struct Fetched {
    /// All of its content.
    pub content: Vec<u8>,
    /// When that last changed.
    pub mtime: Timestamp,
    pub(crate) _share: Share,
}
