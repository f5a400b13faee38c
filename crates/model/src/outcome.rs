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

/// The reason why an entry was skipped. Its serialized names are words of
/// `--json`: renaming a variant changes that schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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

macro_rules! figures {
    ($($(#[$doc:meta])* $figure:ident,)*) => {
        /// The figures of a job, or of all jobs of a command. If a job ended early, they count what was
        /// done until then.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct Summary {
            $($(#[$doc])* pub $figure: u64,)*
        }

        impl Summary {
            fn with(self, other: Self, both: impl Fn(u64, u64) -> u64) -> Self {
                Self { $($figure: both(self.$figure, other.$figure),)* }
            }
        }
    };
}

figures! {
    /// Regular files and links that were copied (dry run: would be).
    copied,
    /// Directories that were created (dry run: would be).
    dirs_created,
    /// Bytes of content in the copied files.
    bytes,
    /// Bytes of content that were read and written. Holes may or may not count.
    bytes_transferred,
    /// Bytes that an interrupted copy had transferred before, and that were reused.
    bytes_resumed,
    /// Bytes that were taken from the old version of a file at the destination.
    bytes_matched,
    /// Files and links that were skipped. In a check: that are equal.
    skipped,
    /// FIFOs, sockets, devices and temporary files of haul that were skipped with a warning.
    special,
    /// Entries that failed.
    failed,
    /// In a check: existing entries that differ.
    different,
    /// In a check: entries that the destination lacks.
    missing,
    /// In a check: entries that only the destination has.
    extra,
    /// In a move: sources that were renamed, and files and links that were copied and removed.
    moved,
    /// In a move: files and links that were not moved because existing files are kept.
    kept,
    /// Files that grew while they were copied. They also count as copied.
    grown,
    /// Entries whose attributes alone were set (dry run: would be).
    updated,
    /// Entries that became hard links to another name of the same file, or to a file of a base (dry
    /// run: would).
    linked,
    /// In a mirror: entries that only the destination had, and that were removed.
    deleted,
    /// In a mirror: entries that were not removed because of the limit.
    spared,
    /// In a mirror: copied files that the destination had under other names, and that were not
    /// transferred.
    renamed,
}

impl Summary {
    /// True if a check has found a difference.
    pub const fn has_differences(&self) -> bool {
        self.different > 0 || self.missing > 0 || self.extra > 0
    }

    /// The figures since they were `before`. A figure that became smaller counts as 0.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        self.with(before, u64::saturating_sub)
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
        assert_eq!(one.since(total), Summary::default());
        let none = Summary::default();
        assert!(Summary { different: 1, ..none }.has_differences());
        assert!(Summary { missing: 1, ..none }.has_differences());
        assert!(Summary { extra: 1, ..none }.has_differences());
        assert!(!Summary { copied: 1, failed: 1, ..Summary::default() }.has_differences());
    }
}
