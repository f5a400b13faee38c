//! The words of fields with a closed set of values. They are separate from the engine's types, so
//! that a renamed type can't change the schema.

use crate::error::ErrorKind;
use haul_engine::{Fate, Skip};
use haul_model::{Changes, FaultKind, Kind, Side};
use serde::Serialize;

#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum JsonKind {
    File,
    Dir,
    Symlink,
    Special,
}

/// The origin of a setting.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum JsonOrigin {
    Default,
    File,
    Environment,
    CommandLine,
}

/// The result of an entry.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum JsonOutcome {
    Copied,
    Linked,
    Updated,
    Skipped,
    WouldCopy,
    WouldLink,
    WouldUpdate,
}

/// A difference between both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mismatch {
    /// The destination's entry differs or is missing.
    Differs(Changes),
    /// The entry exists only at the destination.
    Extra,
}

/// The ways in which a destination entry differs.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum JsonDifference {
    Missing,
    Extra,
    Kind,
    Size,
    Time,
    Mode,
    Target,
    Content,
    Owner,
    Group,
    Acl,
    Xattrs,
    AccessTime,
    HardLink,
}

impl JsonDifference {
    /// The words for `found`.
    pub(crate) fn all_of(found: Mismatch) -> Vec<Self> {
        let Mismatch::Differs(found) = found else { return vec![Self::Extra] };
        let words = [
            (Changes::MISSING, Self::Missing),
            (Changes::KIND, Self::Kind),
            (Changes::SIZE, Self::Size),
            (Changes::TIME, Self::Time),
            (Changes::MODE, Self::Mode),
            (Changes::TARGET, Self::Target),
            (Changes::CONTENT, Self::Content),
            (Changes::USER, Self::Owner),
            (Changes::GROUP, Self::Group),
            (Changes::ACL, Self::Acl),
            (Changes::XATTRS, Self::Xattrs),
            (Changes::ATIME, Self::AccessTime),
            (Changes::LINKED, Self::HardLink),
        ];
        words.into_iter().filter(|(one, _)| found.has(*one)).map(|(_, word)| word).collect()
    }
}

/// The result for a temporary file.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum JsonFate {
    Removed,
    WouldRemove,
    Kept,
    InUse,
    Recent,
}

/// The reason why an entry was skipped.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum JsonReason {
    Unchanged,
    Exists,
    NotOlder,
    Special,
    Ruled,
}

/// The kind of an error of an entry or of the command.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(untagged)]
pub(crate) enum JsonError {
    Fault(JsonFault),
    Command(ErrorKind),
}

/// A [`FaultKind`] as a word.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum JsonFault {
    NotFound,
    PermissionDenied,
    NoSpace,
    ReadOnly,
    TooLong,
    TooLarge,
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

/// The side on which an entry failed.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum JsonSide {
    Source,
    Destination,
}

impl From<&Kind> for JsonKind {
    fn from(kind: &Kind) -> Self {
        match kind {
            Kind::File { .. } => Self::File,
            Kind::Dir => Self::Dir,
            Kind::Symlink { .. } => Self::Symlink,
            Kind::Special => Self::Special,
        }
    }
}

impl From<Skip> for JsonReason {
    fn from(skip: Skip) -> Self {
        match skip {
            Skip::Unchanged => Self::Unchanged,
            Skip::Exists => Self::Exists,
            Skip::NotOlder => Self::NotOlder,
            Skip::Special => Self::Special,
            Skip::Ruled => Self::Ruled,
        }
    }
}

impl From<Fate> for JsonFate {
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

impl From<Side> for JsonSide {
    fn from(side: Side) -> Self {
        match side {
            Side::Source => Self::Source,
            Side::Destination => Self::Destination,
        }
    }
}

impl From<FaultKind> for JsonFault {
    fn from(kind: FaultKind) -> Self {
        match kind {
            FaultKind::NotFound => Self::NotFound,
            FaultKind::PermissionDenied => Self::PermissionDenied,
            FaultKind::NoSpace => Self::NoSpace,
            FaultKind::ReadOnly => Self::ReadOnly,
            FaultKind::TooLong => Self::TooLong,
            FaultKind::TooLarge => Self::TooLarge,
            FaultKind::IsDirectory => Self::IsDirectory,
            FaultKind::NotDirectory => Self::NotDirectory,
            FaultKind::NotRecursive => Self::NotRecursive,
            FaultKind::Busy => Self::Busy,
            FaultKind::SameFile => Self::SameFile,
            FaultKind::IntoItself => Self::IntoItself,
            FaultKind::Changed => Self::Changed,
            FaultKind::Corrupt => Self::Corrupt,
            FaultKind::Link | FaultKind::ForeignLink => Self::Link,
            FaultKind::Special => Self::Special,
            FaultKind::Lossy => Self::Lossy,
            FaultKind::Taken => Self::Taken,
            FaultKind::Parent => Self::Parent,
            FaultKind::Io => Self::Io,
        }
    }
}
