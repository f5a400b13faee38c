//! The fate of an entry, and of a whole job.

use crate::{Changes, Fault};
use serde::{Deserialize, Serialize};
use std::ops::AddAssign;

/// The fate of one entry.
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
    Differs(Changes),
    /// A file was copied as it was when it was opened: its first bytes, as many as it
    /// had then. It has grown since.
    Grew,
    /// The destination's was another, or missing, and is that of the source now; in a dry run
    /// it would be. In a job that is no mirror, only attributes differed.
    Synced(Changes),
    /// It is a further name of a file that the destination has; in a dry run it would be.
    Linked {
        /// How what stood in its place differed.
        found: Changes,
        /// The path of the name to which it was linked, for showing; empty if it was
        /// linked before.
        first: Box<[u8]>,
    },
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
    /// In a mirror: the rules leave it alone.
    Ruled,
}

/// The figures of a job, or of all jobs of a command; of one that ended early, those
/// of what was done until then.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Regular files and links that were copied (dry run: would be).
    pub copied: u64,
    /// Directories that were made (dry run: would be).
    pub dirs_made: u64,
    /// Bytes of content in the files that were copied.
    pub bytes: u64,
    /// Bytes of content that were read and written. Holes may count or not.
    pub bytes_transferred: u64,
    /// Bytes that an interrupted copy had transferred before, and that were used.
    pub bytes_resumed: u64,
    /// Bytes that the destination had in the old version of a file, and that were taken
    /// from there.
    pub bytes_matched: u64,
    /// Files and links that were left as they are; in a check, that are the same.
    pub skipped: u64,
    /// FIFOs, sockets, devices and stages of haul's own that were passed over
    /// with a warning.
    pub special: u64,
    /// Entries that failed.
    pub failed: u64,
    /// In a check: entries that are at the destination and differ.
    pub different: u64,
    /// In a check: entries that the destination has not.
    pub missing: u64,
    /// In a check: entries that only the destination has.
    pub extra: u64,
    /// In a move: sources that were renamed, and files and links that were copied and
    /// removed.
    pub moved: u64,
    /// In a move: files and links that stay, because existing files were to be kept.
    pub kept: u64,
    /// Files that grew while they were copied; they count as copied, too.
    pub grown: u64,
    /// Entries of which only attributes were set (dry run: would be).
    pub updated: u64,
    /// Entries that became hard links to what the destination has: to another name of the
    /// same file, or to the file of a base (dry run: would).
    pub linked: u64,
    /// In a mirror: entries that only the destination had, and that were removed.
    pub deleted: u64,
    /// In a mirror: entries that were to be removed, and stay because more were than may be.
    pub spared: u64,
    /// In a mirror: of the files that were copied, those that the destination had under other
    /// names, and that were not transferred.
    pub renamed: u64,
}

impl Summary {
    /// True if a check has found that something is not the same.
    pub const fn has_differences(&self) -> bool {
        self.different > 0 || self.missing > 0 || self.extra > 0
    }

    /// The figures of what came after they were `before`. None has become less.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        self.with(before, |now, before| now - before)
    }

    fn with(self, other: Self, both: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            copied: both(self.copied, other.copied),
            dirs_made: both(self.dirs_made, other.dirs_made),
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
    /// The figures of both. Those of a peer may be any.
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
            dirs_made: 2,
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
            dirs_made: 4,
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
