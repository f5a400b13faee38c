//! An entry of a directory as it is listed.

use haul_model::{Meta, Name, Timestamp};

/// An entry of a directory that is listed, with what the listing tells of it.
#[derive(Debug)]
pub struct TreeEntry {
    /// Its name in the directory.
    pub name: Name,
    /// True if it is a directory itself, and no link to one.
    pub is_dir: Option<bool>,
    /// All of it, where a listing tells so much, as through SFTP; links are not followed.
    pub meta: Option<Box<Meta>>,
    /// Where it points, if it is a link and the listing tells that.
    pub target: Option<Vec<u8>>,
}

/// `mtime` without its fraction of a second.
pub fn in_whole_seconds(mtime: Timestamp) -> Timestamp {
    Timestamp { nanos: 0, ..mtime }
}
