//! The task of a job, and its rules.

use crate::{Outcome, Skip};
use serde::{Deserialize, Serialize};

/// The task of a job, the same for both roles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Task {
    /// Copies by these rules.
    Copy(Policy),
    /// Compares the sources with the destination, and changes nothing.
    Check {
        /// Contents are compared, too: each side hashes its own.
        content: bool,
    },
    /// Compares, contents included, and removes each source that the destination has:
    /// the end of a move.
    Remove {
        /// The outcomes by which a source is removed.
        rule: Remove,
        /// How much of it has to be at the destination.
        moving: Moving,
    },
}

impl Default for Task {
    fn default() -> Self {
        Self::Copy(Policy::default())
    }
}

impl Task {
    /// The rules of a copy; `None` for other tasks.
    pub fn copies(&self) -> Option<&Policy> {
        match self {
            Self::Copy(policy) => Some(policy),
            Self::Check { .. } | Self::Remove { .. } => None,
        }
    }

    /// True if nothing at the destination is changed.
    pub fn keeps_destination(&self) -> bool {
        self.copies().is_none_or(|policy| policy.dry_run)
    }

    /// True if contents are compared by their hashes.
    pub fn compares_content(&self) -> bool {
        matches!(self, Self::Check { content: true } | Self::Remove { .. })
    }

    /// The outcomes by which a source is removed, if sources are.
    pub fn removes(&self) -> Option<Remove> {
        match self {
            Self::Remove { rule, .. } => Some(*rule),
            Self::Copy(_) | Self::Check { .. } => None,
        }
    }

    /// How much of an entry a move needs at the destination, if the job is a part of one.
    pub fn moving(&self) -> Option<Moving> {
        match self {
            Self::Copy(policy) => policy.moving,
            Self::Check { .. } => None,
            Self::Remove { moving, .. } => Some(*moving),
        }
    }
}

/// The rule for a file that exists at the destination already.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Conflict {
    /// Skipped when size and modification time agree, else replaced.
    #[default]
    ReplaceChanged,
    /// Always replaced (`--force`).
    ReplaceAll,
    /// Never replaced (`--no-clobber`).
    Keep,
    /// Replaced only when it is older than the source (`--update`).
    ReplaceOlder,
}

/// How an interrupted copy of a large file is continued.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Resume {
    /// The journal is believed, and the last block read back. If the source has no time
    /// of its last change, the stage is compared with it: all of it, or samples where
    /// reading takes round trips.
    #[default]
    Quick,
    /// All that is there is read and hashed again, on both sides (`--strict`).
    Strict,
    /// It is not: every copy begins anew and leaves nothing behind
    /// (`--no-resume`).
    Never,
}

/// How much of an entry has to be at the destination before a move removes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Moving {
    /// All of it: what has something that haul does not keep stays where it is.
    Whole,
    /// All that haul keeps (`--lossy`).
    Lossy,
}

/// The rule by which a source of a move is removed, once the destination has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Remove {
    /// Whatever is there with the same content: a file system may not keep times
    /// and modes as exactly.
    SameContent,
    /// Only what is the same in all that is compared.
    Same,
}

impl Remove {
    /// True if by this rule `outcome` says that the destination has what the source
    /// has. The contents of files were compared.
    pub fn allows(self, outcome: &Outcome) -> bool {
        match outcome {
            Outcome::Skipped(Skip::Unchanged) => true,
            Outcome::Differs(found) => self == Self::SameContent && found.is_minor(),
            _ => false,
        }
    }
}

/// The rules of a copy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// The rule for existing files.
    pub conflict: Conflict,
    /// Compare and report, but change nothing (`--dry-run`).
    pub dry_run: bool,
    /// How an interrupted copy of a large file is continued.
    pub resume: Resume,
    /// Each file is read back from its medium before it is published
    /// (`--verify`).
    pub verify: bool,
    /// All that is published is durable when the job has ended well (`--sync`).
    pub sync: bool,
    /// The copy is the first part of a move.
    pub moving: Option<Moving>,
    /// A file that changes in any way while it is read fails, also if it only grows
    /// (`--strict-source`).
    pub strict_source: bool,
}

impl Policy {
    /// True if all that an earlier job has left is compared with the source
    /// before it is believed.
    pub fn proves_resumed(&self) -> bool {
        match self.resume {
            Resume::Strict => true,
            Resume::Quick => self.verify,
            Resume::Never => false,
        }
    }
}
