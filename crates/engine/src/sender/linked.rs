//! Files with several names that a move removes. All names among the sources are removed once all
//! of them can be, or none is. So the remaining names stay linked, and a later move can link them
//! again.

use super::Item;
use crate::Job;
use crate::link::Proof;
use haul_model::{Fault, FaultKind, FileId, Side, words};
use haul_proto::{NAMES_WAITING_MAX, Removal};
use std::collections::HashMap;

/// A name to be removed, with its proof if there is one here.
pub(super) type Removable = (Item, Option<Proof>);

/// Names that wait for the other names of their file.
pub(super) struct Linked {
    names: HashMap<FileId, Group>,
    len: usize,
    /// A filter excludes sources, which may include other names.
    excludes: bool,
    /// There were too many names, so not all names that stay are known.
    is_full: bool,
}

/// The names of one file.
#[derive(Default)]
struct Group {
    waiting: Vec<Removable>,
    /// One of them stays.
    stays: bool,
}

impl Linked {
    /// An empty table, for a job that removes its sources.
    pub(super) fn of(job: &Job) -> Self {
        let excludes = !job.filter.is_empty();
        Self { names: HashMap::new(), len: 0, excludes, is_full: false }
    }

    /// Adds one of the `links` names of a file. Returns all names to remove, if it was the last
    /// one; `None` if it waits for the others.
    ///
    /// # Errors
    /// If the name stays.
    pub(super) fn add(
        &mut self,
        id: FileId,
        links: u64,
        name: Removable,
    ) -> Result<Option<Vec<Removable>>, Fault> {
        self.is_full |= self.len >= NAMES_WAITING_MAX;
        let names = self.names.entry(id).or_default();
        if self.is_full || names.stays {
            names.stays = true;
            return Err(not_all_moved());
        }
        names.waiting.push(name);
        self.len += 1;
        if (names.waiting.len() as u64) < links {
            return Ok(None);
        }
        let all = std::mem::take(&mut names.waiting);
        self.len -= all.len();
        self.names.remove(&id);
        Ok(Some(all))
    }

    /// Records that a name of this file stays, and so all others.
    pub(super) fn keep(&mut self, id: FileId) {
        self.is_full |= self.names.len() >= NAMES_WAITING_MAX;
        if !self.is_full {
            self.names.entry(id).or_default().stays = true;
        }
    }

    /// The names to remove at the end: those whose other names are not among the sources. Reports
    /// the names that stay.
    pub(super) fn take_removable(&mut self, report: &mut dyn FnMut(Removal)) -> Vec<Removable> {
        let mut removable = Vec::new();
        for Group { waiting, stays } in std::mem::take(&mut self.names).into_values() {
            if !(stays || self.excludes || self.is_full) {
                removable.extend(waiting);
                continue;
            }
            for (item, _) in waiting {
                told(&item, Err(not_all_moved())).into_iter().for_each(&mut *report);
            }
        }
        removable
    }
}

/// The report about the removal of a file or link.
pub(super) fn told(item: &Item, result: Result<(), Fault>) -> Option<Removal> {
    let path = item.dir.as_ref()?.path_of(item.name.as_ref());
    let path = words::shown(path);
    Some(Removal::Source {
        path,
        kind: item.kind.without_target(),
        result: result.map_err(Fault::clipped),
    })
}

/// The fault of a file of which not all names can be removed.
fn not_all_moved() -> Fault {
    let message = "not removed: not all of its hard links were moved";
    Fault::new(Side::Source, FaultKind::Lossy, message)
}
