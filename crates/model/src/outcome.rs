//! The outcome of an entry, and the figures of a job.

use crate::{Changes, Fault};
use serde::{Deserialize, Serialize};
use std::ops::AddAssign;

/// The outcome of one entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// A file was copied and published, or a link or directory was created.
    Copied,
    /// The destination has it already, or the existing entry is kept.
    Skipped(Skip),
    /// `--dry-run`: it would have been copied.
    WouldCopy,
    /// It failed. Nothing was published.
    Failed(Fault),
    /// In a check: the entry differs or is missing. An equal one is `Skipped(Unchanged)`.
    Differs(Changes),
    /// A file was copied with the length that it had when it was opened. It has grown since.
    Grew,
    /// The entry differed or was missing, and is like its source now (dry run: would be). In a job
    /// that is not a mirror, only attributes differed.
    Synced(Changes),
    /// It is a hard link to a file of the destination (dry run: would be).
    Linked {
        /// The differences of the earlier entry.
        found: Changes,
        /// The path of the file that it is linked to, for messages. Empty if it was linked before.
        first: Box<[u8]>,
    },
}

impl Outcome {
    /// True in a check if the destination has the entry, though perhaps with other times or another
    /// mode.
    pub fn is_there(&self) -> bool {
        match self {
            Self::Skipped(_) => true,
            Self::Differs(found) => found.is_minor(),
            _ => false,
        }
    }
}

/// The reason why an entry was skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Skip {
    /// Size and modification time are equal. For a link: its target. For a directory: it exists.
    Unchanged,
    /// It exists, and existing files are kept.
    Exists,
    /// The existing file is not older.
    NotOlder,
    /// A FIFO, socket or device, or a temporary file of haul in the source: these are not copied.
    Special,
    /// In a mirror: it is excluded by the rules.
    Ruled,
}

/// The figures of a job, or of all jobs of a command. If a job ended early, they count what was
/// done until then.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Regular files and links that were copied (dry run: would be).
    pub copied: u64,
    /// Directories that were created (dry run: would be).
    pub dirs_created: u64,
    /// Bytes of content in the copied files.
    pub bytes: u64,
    /// Bytes of content that were read and written. Holes may or may not count.
    pub bytes_transferred: u64,
    /// Bytes that an interrupted copy had transferred before, and that were reused.
    pub bytes_resumed: u64,
    /// Bytes that were taken from the old version of a file at the destination.
    pub bytes_matched: u64,
    /// Files and links that were skipped. In a check: that are equal.
    pub skipped: u64,
    /// FIFOs, sockets, devices and temporary files of haul that were skipped with a warning.
    pub special: u64,
    /// Entries that failed.
    pub failed: u64,
    /// In a check: existing entries that differ.
    pub different: u64,
    /// In a check: entries that the destination lacks.
    pub missing: u64,
    /// In a check: entries that only the destination has.
    pub extra: u64,
    /// In a move: sources that were renamed, and files and links that were copied and removed.
    pub moved: u64,
    /// In a move: files and links that were not moved because existing files are kept.
    pub kept: u64,
    /// Files that grew while they were copied. They also count as copied.
    pub grown: u64,
    /// Entries whose attributes alone were set (dry run: would be).
    pub updated: u64,
    /// Entries that became hard links to another name of the same file, or to a file of a base (dry
    /// run: would).
    pub linked: u64,
    /// In a mirror: entries that only the destination had, and that were removed.
    pub deleted: u64,
    /// In a mirror: entries that were not removed because of the limit.
    pub spared: u64,
    /// In a mirror: copied files that the destination had under other names, and that were not
    /// transferred.
    pub renamed: u64,
}

impl Summary {
    /// True if a check has found a difference.
    pub const fn has_differences(&self) -> bool {
        self.different > 0 || self.missing > 0 || self.extra > 0
    }

    /// The figures since they were `before`. No figure may be smaller than before.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        self.with(before, |now, before| now - before)
    }

    fn with(self, other: Self, both: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            copied: both(self.copied, other.copied),
            dirs_created: both(self.dirs_created, other.dirs_created),
            bytes: both(self.bytes, other.bytes),
            bytes_transferred: both(self.bytes_transferred, other.bytes_transferred),
            bytes_resumed: both(self.bytes_resumed, other.bytes_resumed),
            bytes_matched: both(self.bytes_matched, other.bytes_matched),
            skipped: both(self.skipped, other.skipped),
            special: both(self.special, other.special),
            failed: both(self.failed, other.failed),
            different: both(self.different, other.different),
            missing: both(self.missing, other.missing),
            extra: both(self.extra, other.extra),
            moved: both(self.moved, other.moved),
            kept: both(self.kept, other.kept),
            grown: both(self.grown, other.grown),
            updated: both(self.updated, other.updated),
            linked: both(self.linked, other.linked),
            deleted: both(self.deleted, other.deleted),
            spared: both(self.spared, other.spared),
            renamed: both(self.renamed, other.renamed),
        }
    }
}

impl AddAssign for Summary {
    /// The sum of both, which saturates because a peer may send any figures.
    fn add_assign(&mut self, more: Self) {
        *self = self.with(more, u64::saturating_add);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_only_in_its_time_or_mode_is_there() {
        for (outcome, is_there) in [
            (Outcome::Skipped(Skip::Unchanged), true),
            (Outcome::Differs(Changes::TIME.with(Changes::MODE)), true),
            (Outcome::Differs(Changes::TIME.with(Changes::SIZE)), false),
            (Outcome::Copied, false),
        ] {
            assert_eq!(outcome.is_there(), is_there, "{outcome:?}");
        }
    }

    #[test]
    fn figures_are_added_and_taken_off_one_by_one() {
        let one = Summary {
            copied: 1,
            dirs_created: 2,
            bytes: 3,
            bytes_transferred: 4,
            bytes_resumed: 5,
            skipped: 6,
            special: 7,
            failed: 8,
            different: 9,
            missing: 10,
            extra: 11,
            moved: 12,
            kept: 13,
            grown: 14,
            updated: 15,
            linked: 20,
            deleted: 16,
            spared: 17,
            bytes_matched: 18,
            renamed: 19,
        };
        let mut total = one;
        total += one;
        let twice = Summary {
            copied: 2,
            dirs_created: 4,
            bytes: 6,
            bytes_transferred: 8,
            bytes_resumed: 10,
            skipped: 12,
            special: 14,
            failed: 16,
            different: 18,
            missing: 20,
            extra: 22,
            moved: 24,
            kept: 26,
            grown: 28,
            updated: 30,
            linked: 40,
            deleted: 32,
            spared: 34,
            bytes_matched: 36,
            renamed: 38,
        };
        assert_eq!(total, twice);
        assert_eq!(total.since(one), one);
        let none = Summary::default();
        assert!(Summary { different: 1, ..none }.has_differences());
        assert!(Summary { missing: 1, ..none }.has_differences());
        assert!(Summary { extra: 1, ..none }.has_differences());
        assert!(!Summary { copied: 1, failed: 1, ..Summary::default() }.has_differences());
    }
}
