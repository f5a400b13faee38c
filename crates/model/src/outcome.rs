//! What became of an entry, and of a whole job.

use crate::{Differences, Fault};
use serde::{Deserialize, Serialize};

/// What became of one entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// A file's content was copied and published, a link or directory was made.
    Copied,
    /// The destination had it already, or has what replaces nothing.
    Skipped(Skip),
    /// `--dry-run`: it would have been copied.
    WouldCopy,
    /// It failed; nothing of it was published.
    Failed(Fault),
    /// In a check: the destination's is another, or missing. What is the same is
    /// `Skipped(Unchanged)`.
    Differs(Differences),
}

impl Outcome {
    /// True in a check if the destination has it, though perhaps with another time or
    /// mode.
    pub fn is_there(&self) -> bool {
        match self {
            Self::Skipped(_) => true,
            Self::Differs(found) => found.is_minor(),
            _ => false,
        }
    }
}

/// Why an entry was left as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Skip {
    /// Size and modification time agree (a link: its target; a directory: it exists).
    Unchanged,
    /// It exists, and existing files are to be kept.
    Exists,
    /// The destination's is not older.
    NotOlder,
    /// A FIFO, socket or device, or a stage of haul's own that the source's
    /// directory holds: these are not copied.
    Special,
}

/// The figures of a finished job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Regular files and links that were copied (dry run: would be).
    pub copied: u64,
    /// Directories that were made (dry run: would be).
    pub dirs_made: u64,
    /// Bytes of content in the files that were copied.
    pub bytes: u64,
    /// Bytes of content that were moved in this run. Holes may count or not.
    pub moved: u64,
    /// Bytes that an interrupted copy had moved before, and that were used.
    pub resumed: u64,
    /// Files and links that were left as they are.
    pub skipped: u64,
    /// FIFOs, sockets, devices and stages of haul's own that were passed over
    /// with a warning.
    pub special: u64,
    /// Entries that failed.
    pub failed: u64,
}
