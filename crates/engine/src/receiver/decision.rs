//! Decisions about entries, as values.

use crate::dirs::DirNode;
use haul_model::{Changes, Outcome, Skip};
use haul_store::OnExisting;
use std::fmt;
use std::sync::Arc;

/// The decision about an entry.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Copy it, and treat an existing entry like this.
    Copy(OnExisting),
    /// Compare its content with the existing file first.
    Hash,
    /// Compare its content with the entries of the same name in these base directories. Each comes
    /// with its other differences. If no content matches, the boxed decision applies.
    HashBases(Vec<(Base, Changes)>, Box<Decision>),
    /// Take its content from the entry of the same name in this base directory, in this way, and
    /// treat an existing entry like this.
    Base(Base, BaseMethod, OnExisting),
    /// Do nothing; this is the outcome.
    Settled(Outcome),
}

impl Decision {
    /// The same decision, with the existing entry replaced.
    pub(super) fn replacing(self) -> Self {
        match self {
            Self::Copy(_) => Self::Copy(OnExisting::Replace),
            Self::Base(base, bring, _) => Self::Base(base, bring, OnExisting::Replace),
            Self::HashBases(bases, otherwise) => {
                Self::HashBases(bases, Box::new(otherwise.replacing()))
            }
            Self::Hash | Self::Settled(_) => self,
        }
    }
}

/// The directory of a base that has the wanted entry.
#[derive(Clone)]
pub(crate) struct Base(pub(super) Arc<DirNode>);

impl fmt::Debug for Base {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Base")
    }
}

impl PartialEq for Base {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Base {}

/// The way in which a file gets the content of its base.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BaseMethod {
    /// A hard link, or else a copy.
    Link,
    Copy,
}

/// The outcome of an entry whose content is kept and whose other differences are `found`.
pub(super) fn kept_or_updated(found: Changes) -> Outcome {
    if found.is_empty() { Outcome::Skipped(Skip::Unchanged) } else { Outcome::Synced(found) }
}

/// The outcome of a comparison that found these differences.
pub(super) fn outcome_of(found: Changes) -> Outcome {
    if found.is_empty() { Outcome::Skipped(Skip::Unchanged) } else { Outcome::Differs(found) }
}
