//! The words of fields with a closed set of values. They are separate from the engine's types, so
//! that a renamed type can't change the schema.

use crate::config::Origin;
use haul_engine::{Fate, Outcome, Skip};
use haul_model::{Changes, FaultKind, Kind};

/// The result of an entry that did not fail. `is_dry`: nothing was changed.
pub(crate) fn result_word(outcome: &Outcome, is_dry: bool) -> &'static str {
    match (outcome, is_dry) {
        (Outcome::Skipped(_), _) => "skipped",
        // The entry was already linked.
        (Outcome::Linked { first, .. }, _) if first.is_empty() => "skipped",
        (Outcome::Linked { .. }, false) => "linked",
        (Outcome::Linked { .. }, true) => "would_link",
        (Outcome::Synced(_), false) => "updated",
        (Outcome::Synced(_), true) => "would_update",
        (Outcome::WouldCopy, _) => "would_copy",
        _ => "copied",
    }
}

/// The ways in which a destination entry can differ.
const DIFFERENCES: [(Changes, &str); 13] = [
    (Changes::MISSING, "missing"),
    (Changes::KIND, "kind"),
    (Changes::SIZE, "size"),
    (Changes::TIME, "time"),
    (Changes::MODE, "mode"),
    (Changes::TARGET, "target"),
    (Changes::CONTENT, "content"),
    (Changes::USER, "owner"),
    (Changes::GROUP, "group"),
    (Changes::ACL, "acl"),
    (Changes::XATTRS, "xattrs"),
    (Changes::ATIME, "access_time"),
    (Changes::LINKED, "hard_link"),
];

/// The differences of an entry. `None`: only the destination has it.
pub(super) fn difference_words(found: Option<Changes>) -> Vec<&'static str> {
    let Some(found) = found else { return vec!["extra"] };
    DIFFERENCES.iter().filter(|(one, _)| found.has(*one)).map(|(_, word)| *word).collect()
}

pub(super) fn kind_word(kind: &Kind) -> &'static str {
    match kind {
        Kind::File { .. } => "file",
        Kind::Dir => "dir",
        Kind::Symlink { .. } => "symlink",
        Kind::Special => "special",
    }
}

pub(super) fn origin_word(origin: Option<Origin>) -> &'static str {
    match origin {
        None => "default",
        Some(Origin::File(_) | Origin::HostSection(_)) => "file",
        Some(Origin::Environment) => "environment",
        Some(Origin::CommandLine) => "command_line",
    }
}

pub(super) fn skip_word(skip: Skip) -> &'static str {
    match skip {
        Skip::Unchanged => "unchanged",
        Skip::Exists => "exists",
        Skip::NotOlder => "not_older",
        Skip::Special => "special",
        Skip::Ruled => "ruled",
    }
}

/// The result for a temporary file.
pub(crate) fn fate_word(fate: Fate) -> &'static str {
    match fate {
        Fate::Removed => "removed",
        Fate::WouldRemove => "would_remove",
        Fate::Kept => "kept",
        Fate::Busy => "in_use",
        Fate::Recent => "recent",
    }
}

pub(super) fn fault_word(kind: FaultKind) -> &'static str {
    match kind {
        FaultKind::NotFound => "not_found",
        FaultKind::PermissionDenied => "permission_denied",
        FaultKind::NoSpace => "no_space",
        FaultKind::ReadOnly => "read_only",
        FaultKind::TooLong => "too_long",
        FaultKind::TooLarge => "too_large",
        FaultKind::IsDirectory => "is_directory",
        FaultKind::NotDirectory => "not_directory",
        FaultKind::NotRecursive => "not_recursive",
        FaultKind::Busy => "busy",
        FaultKind::SameFile => "same_file",
        FaultKind::IntoItself => "into_itself",
        FaultKind::Changed => "changed",
        FaultKind::Corrupt => "corrupt",
        FaultKind::Link | FaultKind::ForeignLink => "link",
        FaultKind::Special => "special",
        FaultKind::Lossy => "lossy",
        FaultKind::Taken => "taken",
        FaultKind::Parent => "parent",
        FaultKind::Io => "io",
    }
}
