//! A directory entry in a listing.

use haul_model::{Meta, Name, Timestamp};

/// A directory entry, with the facts that the listing reports.
#[derive(Debug)]
pub struct TreeEntry {
    /// Its name in the directory.
    pub name: Name,
    /// True if it is a directory, not a link to one.
    pub is_dir: Option<bool>,
    /// Its metadata, if the listing reports it, as through SFTP. Links are not followed.
    pub meta: Option<Box<Meta>>,
    /// Its target, if it is a link and the listing reports that.
    pub target: Option<Vec<u8>>,
}

/// `mtime` without its fraction of a second.
pub fn in_whole_seconds(mtime: Timestamp) -> Timestamp {
    Timestamp { nanos: 0, ..mtime }
}
