//! The outcomes of entries that are reported.

use super::Show;
use haul_engine::{Outcome, Skip};
use haul_model::{Kind, Task};

/// True if the text report shows this outcome.
pub(super) fn is_in_text(show: Show, task: &Task, kind: &Kind, outcome: &Outcome) -> bool {
    let (shows_warnings, is_verbose) = (show > Show::Quiet, show >= Show::Verbose);
    match (outcome, task) {
        (Outcome::Failed(_), _) => true,
        (Outcome::Skipped(Skip::Special), _) => shows_warnings,
        (Outcome::Differs(_), Task::Check { .. }) => shows_warnings,
        // A moved file is reported when its source is removed.
        (_, task) if task.moving().is_some() => false,
        // Here the options of `haul sync` decide which are shown.
        (Outcome::Synced(_), Task::Sync(..)) => true,
        (Outcome::Linked { .. } | Outcome::Synced(_), Task::Copy(policy)) => {
            is_verbose || policy.dry_run && shows_warnings
        }
        (Outcome::Copied | Outcome::Grew, Task::Copy(_)) => is_verbose,
        (Outcome::WouldCopy, Task::Copy(policy)) => is_verbose || policy.dry_run && shows_warnings,
        // An existing directory is not worth a line.
        (Outcome::Skipped(_), _) if *kind == Kind::Dir => false,
        (Outcome::Skipped(_), Task::Check { .. }) => is_verbose,
        (Outcome::Skipped(_), _) => show == Show::Everything,
        _ => false,
    }
}

/// True if JSON has a line for this outcome.
pub(super) fn is_in_json(task: &Task, outcome: &Outcome) -> bool {
    match (outcome, task) {
        (Outcome::Failed(_) | Outcome::Skipped(Skip::Special), _) => true,
        (outcome, Task::Check { .. }) => matches!(outcome, Outcome::Differs(_)),
        // A moved file is reported when its source is removed.
        (Outcome::Differs(_), _) => false,
        (_, task) => task.moving().is_none(),
    }
}
