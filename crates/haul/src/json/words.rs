//! The words that stand in fields of a closed set. They are written out here,
//! apart from the engine's own types, so that renaming one there can't change
//! the schema.

use crate::error::ErrorKind;
use crate::monitor::Found;
use haul_engine::{Fate, Skip};
use haul_model::{Differences, FaultKind, Kind, Side};
use serde::Serialize;

/// What an entry is.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum KindWord {
    File,
    Dir,
    Symlink,
    Special,
}

/// What became of an entry.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OutcomeWord {
    Copied,
    Skipped,
    WouldCopy,
}

/// How an entry of the destination differs.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DifferenceWord {
    Missing,
    Extra,
    Kind,
    Size,
    Time,
    Mode,
    Target,
    Content,
}

impl DifferenceWord {
    /// The words for what was found.
    pub(crate) fn all_of(found: Found) -> Vec<Self> {
        let Found::Differs(found) = found else { return vec![Self::Extra] };
        let words = [
            (Differences::MISSING, Self::Missing),
            (Differences::KIND, Self::Kind),
            (Differences::SIZE, Self::Size),
            (Differences::TIME, Self::Time),
            (Differences::MODE, Self::Mode),
            (Differences::TARGET, Self::Target),
            (Differences::CONTENT, Self::Content),
        ];
        words.into_iter().filter(|(one, _)| found.has(*one)).map(|(_, word)| word).collect()
    }

    /// The word for people.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Extra => "extra",
            Self::Kind => "kind",
            Self::Size => "size",
            Self::Time => "time",
            Self::Mode => "mode",
            Self::Target => "target",
            Self::Content => "content",
        }
    }
}

/// What became of a leftover.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FateWord {
    Removed,
    WouldRemove,
    Kept,
    InUse,
    Recent,
}

/// Why an entry was skipped.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ReasonWord {
    Unchanged,
    Exists,
    NotOlder,
    Special,
}

/// The class of an error: of one entry, or of the command.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(untagged)]
pub(crate) enum ErrorWord {
    Fault(FaultWord),
    Command(ErrorKind),
}

/// [`FaultKind`] as a word.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FaultWord {
    NotFound,
    PermissionDenied,
    NoSpace,
    ReadOnly,
    TooLong,
    IsDirectory,
    NotDirectory,
    NotRecursive,
    Busy,
    SameFile,
    IntoItself,
    Changed,
    Corrupt,
    Link,
    Special,
    Parent,
    Io,
    Lossy,
    Taken,
}

/// Where an entry failed.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SideWord {
    Source,
    Destination,
}

impl From<&Kind> for KindWord {
    fn from(kind: &Kind) -> Self {
        match kind {
            Kind::File { .. } => Self::File,
            Kind::Dir => Self::Dir,
            Kind::Symlink { .. } => Self::Symlink,
            Kind::Special => Self::Special,
        }
    }
}

impl From<Skip> for ReasonWord {
    fn from(skip: Skip) -> Self {
        match skip {
            Skip::Unchanged => Self::Unchanged,
            Skip::Exists => Self::Exists,
            Skip::NotOlder => Self::NotOlder,
            Skip::Special => Self::Special,
        }
    }
}

impl From<Fate> for FateWord {
    fn from(fate: Fate) -> Self {
        match fate {
            Fate::Removed => Self::Removed,
            Fate::WouldRemove => Self::WouldRemove,
            Fate::Kept => Self::Kept,
            Fate::Busy => Self::InUse,
            Fate::Recent => Self::Recent,
        }
    }
}

impl From<Side> for SideWord {
    fn from(side: Side) -> Self {
        match side {
            Side::Source => Self::Source,
            Side::Destination => Self::Destination,
        }
    }
}

impl From<FaultKind> for FaultWord {
    fn from(kind: FaultKind) -> Self {
        match kind {
            FaultKind::NotFound => Self::NotFound,
            FaultKind::PermissionDenied => Self::PermissionDenied,
            FaultKind::NoSpace => Self::NoSpace,
            FaultKind::ReadOnly => Self::ReadOnly,
            FaultKind::TooLong => Self::TooLong,
            FaultKind::IsDirectory => Self::IsDirectory,
            FaultKind::NotDirectory => Self::NotDirectory,
            FaultKind::NotRecursive => Self::NotRecursive,
            FaultKind::Busy => Self::Busy,
            FaultKind::SameFile => Self::SameFile,
            FaultKind::IntoItself => Self::IntoItself,
            FaultKind::Changed => Self::Changed,
            FaultKind::Corrupt => Self::Corrupt,
            FaultKind::Link => Self::Link,
            FaultKind::Special => Self::Special,
            FaultKind::Lossy => Self::Lossy,
            FaultKind::Taken => Self::Taken,
            FaultKind::Parent => Self::Parent,
            FaultKind::Io => Self::Io,
        }
    }
}
