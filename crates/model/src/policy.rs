//! What a job does with what it finds at the destination.

use crate::{Outcome, Skip};
use serde::{Deserialize, Serialize};

/// What happens to a file that exists at the destination already.
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
    /// What the journal says is there is believed, its last block is read back.
    /// Where a source has no time of its last change, what is there is compared
    /// with it: all of it, or samples where reading is far.
    #[default]
    Quick,
    /// All that is there is read and hashed again, on both sides (`--strict`).
    Strict,
    /// It is not: every copy begins anew and leaves nothing behind
    /// (`--no-resume`).
    Never,
}

/// How two trees are compared, where nothing is copied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Check {
    /// Contents are compared, too: each side hashes its own.
    pub content: bool,
    /// What is the same is removed from the source. Never without `content`.
    pub remove: Option<Remove>,
}

/// How much of an entry has to be at the destination before a move removes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Moving {
    /// All of it: what has something that haul does not keep stays where it is.
    Whole,
    /// What haul keeps (`--lossy`).
    Lossy,
}

/// What is removed from the source of a move, once the destination has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Remove {
    /// Whatever is there with the same content: a file system may not keep times
    /// and modes as exactly.
    SameContent,
    /// Only what is the same in all that is compared.
    Same,
}

impl Remove {
    /// Whether by this rule `outcome` says that the destination has what the source
    /// has. The contents of files were compared.
    pub fn allows(self, outcome: &Outcome) -> bool {
        match outcome {
            Outcome::Skipped(Skip::Unchanged) => true,
            Outcome::Differs(found) => self == Self::SameContent && found.is_minor(),
            _ => false,
        }
    }
}

/// The rules that the receiver follows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// What to do with existing files.
    pub conflict: Conflict,
    /// Compare and report, but change nothing (`--dry-run`).
    pub dry_run: bool,
    /// How an interrupted copy of a large file is continued.
    pub resume: Resume,
    /// Each file is read back from its medium before it is published
    /// (`--verify`).
    pub verify: bool,
    /// What is published is durable when the job has ended well (`--sync`).
    pub sync: bool,
    /// Of a job that may make its destination: a number for the source and the
    /// destination's name. A directory that an earlier job with the same number has
    /// made is the new name again, and nothing to copy into.
    pub origin: Option<[u8; 16]>,
}

impl Policy {
    /// Whether all that an earlier job has left is compared with the source
    /// before it is believed.
    pub fn proves_resumed(&self) -> bool {
        match self.resume {
            Resume::Strict => true,
            Resume::Quick => self.verify,
            Resume::Never => false,
        }
    }
}
