//! The end of a move, where the source is here: what the destination is known
//! to have is removed, unless it is not what it was when it was listed.

use super::{Item, Sender};
use crate::Event;
use crate::tree::Meta;
use haul_model::{Differences, Fault, FaultKind, Kind, Name, Outcome, Remove, Side, Skip};

impl Sender<'_> {
    /// Removes a file or link whose outcome allows it. Directories are left: they
    /// are removed when all in them is gone.
    pub(super) fn remove_source(&self, item: &Item, outcome: &Outcome, rule: Remove) {
        // Of a file with content, the hash was asked for and told.
        let is_proven = item.wanted || !matches!(item.kind, Kind::File { size: 1.. });
        if item.kind == Kind::Dir || !is_proven || !allows(outcome, rule) {
            return;
        }
        let (Some(dir), Some(name)) = (&item.dir, &item.name) else { return };
        let removed = dir.handle().map_err(|error| failed(&error)).and_then(|dir| {
            let now = dir.stat(name, false).map_err(|error| failed(&error))?;
            if !now.is_some_and(|now| is_still(item, &now)) {
                return Err(changed());
            }
            dir.remove_file(name).map_err(|error| failed(&error))
        });
        let path = dir.path_of(Some::<&Name>(name));
        let result = removed.as_ref().copied();
        self.control.monitor().event(Event::Removed { path: &path, kind: &item.kind, result });
    }
}

/// Whether the destination has what the source has, as the rule means it. The
/// contents of files were compared.
fn allows(outcome: &Outcome, rule: Remove) -> bool {
    match outcome {
        Outcome::Skipped(Skip::Unchanged) => true,
        Outcome::Differs(found) if rule == Remove::SameContent => {
            Differences::TIME.with(Differences::MODE).has(*found)
        }
        _ => false,
    }
}

/// Whether the source is what was listed: the same object, size and time.
fn is_still(item: &Item, now: &Meta) -> bool {
    let kind = now.listed_kind(|| Ok(Vec::new())).ok();
    let is_same_kind = match (&item.kind, &kind) {
        (Kind::Symlink { .. }, Some(Kind::Symlink { .. })) => true,
        (listed, Some(now)) => listed == now,
        (_, None) => false,
    };
    is_same_kind && item.id.is_some() && item.id == now.id && item.mtime == Some(now.mtime)
}

fn changed() -> Fault {
    let message = "it changed after it was copied, and stays";
    Fault::new(Side::Source, FaultKind::Changed, message)
}

fn failed(error: &std::io::Error) -> Fault {
    Fault::from_io(Side::Source, "remove it", error)
}
