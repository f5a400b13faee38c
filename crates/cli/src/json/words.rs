//! The words of fields with a closed set of values, where the value's type has no serialized names.

use crate::config::Origin;
use haul_engine::{Fate, Outcome};
use haul_model::{Changes, Kind};

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

/// The result for a temporary file.
pub(crate) fn fate_word(fate: Fate) -> &'static str {
    match fate {
        Fate::Removed => "removed",
        Fate::WouldRemove => "would_remove",
        Fate::Kept | Fate::OnlyCopy => "kept",

        Fate::Busy => "in_use",
        Fate::Recent => "recent",
    }
}
