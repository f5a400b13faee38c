//! Files to be removed that have other names. All names of one that are among the sources go,
//! once all of them can, or none does: so what stays is still what it was, and a later move
//! makes them names of one file again.

use super::Item;
use crate::Job;
use crate::link::Proof;
use haul_model::{Fault, FaultKind, FileId, Side, words};
use haul_proto::{NAMES_WAITING_MAX, Removal};
use std::collections::HashMap;

/// A name that goes, with the proof that it can where there is one here.
pub(super) type Going = (Item, Option<Proof>);

/// Those that wait for the others, by what they are names of.
pub(super) struct Linked {
    names: HashMap<FileId, Group>,
    len: usize,
    /// Sources were left out that could not be copied, and may be among the other names.
    leaves_out: bool,
    /// There were too many, and not all that stay are known.
    is_full: bool,
}

/// The names of one file.
#[derive(Default)]
struct Group {
    waiting: Vec<Going>,
    /// One of them stays.
    stays: bool,
}

/// The fate of a name that may go.
pub(super) enum Met {
    /// It waits.
    Waits,
    /// It was the last of them, and all go.
    All(Vec<Going>),
    /// It stays.
    Stays,
}

impl Linked {
    /// None yet, in a job that removes.
    pub(super) fn of(job: &Job) -> Self {
        let leaves_out = !job.filter.is_empty();
        Self { names: HashMap::new(), len: 0, leaves_out, is_full: false }
    }

    /// Has one of the `links` names of a file wait.
    pub(super) fn add(&mut self, id: FileId, links: u64, name: Going) -> Met {
        self.is_full |= self.len >= NAMES_WAITING_MAX;
        let names = self.names.entry(id).or_default();
        if self.is_full || names.stays {
            names.stays = true;
            return Met::Stays;
        }
        names.waiting.push(name);
        self.len += 1;
        if (names.waiting.len() as u64) < links {
            return Met::Waits;
        }
        let all = std::mem::take(&mut names.waiting);
        self.len -= all.len();
        self.names.remove(&id);
        Met::All(all)
    }

    /// A name of this file stays, and with it the others.
    pub(super) fn keep(&mut self, id: FileId) {
        self.is_full |= self.names.len() >= NAMES_WAITING_MAX;
        if !self.is_full {
            self.names.entry(id).or_default().stays = true;
        }
    }

    /// Those that go though they have other names, which are not among the sources; tells of
    /// the others.
    pub(super) fn take_going(&mut self, tell: &mut dyn FnMut(Removal)) -> Vec<Going> {
        let mut going = Vec::new();
        for Group { waiting, stays } in std::mem::take(&mut self.names).into_values() {
            if !(stays || self.leaves_out || self.is_full) {
                going.extend(waiting);
                continue;
            }
            for (item, _) in waiting {
                told(&item, Err(not_all_moved())).into_iter().for_each(&mut *tell);
            }
        }
        going
    }
}

/// The message about the removal of a file or link.
pub(super) fn told(item: &Item, result: Result<(), Fault>) -> Option<Removal> {
    let path = item.dir.as_ref()?.path_of(item.name.as_ref());
    let path = words::shown(path);
    Some(Removal::Source {
        path,
        kind: item.kind.without_target(),
        result: result.map_err(Fault::clipped),
    })
}

/// The fault of an entry that has several names in what is moved, of which not all can be
/// removed.
pub(super) fn not_all_moved() -> Fault {
    let message = "not removed: not all of its hard links were moved";
    Fault::new(Side::Source, FaultKind::Lossy, message)
}
