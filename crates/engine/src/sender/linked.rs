//! Files to be removed that have other names. Those among the sources would become
//! files of their own, which is known when all have been seen: until then they wait.

use super::{Item, loss};
use crate::link::Proof;
use haul_model::words;
use haul_model::{Fault, FileId};
use haul_proto::Removal;
use std::collections::HashMap;

/// Names that wait, at most: some 10 MiB. Further ones stay where they are.
const WAITING_MAX: usize = 32 << 10;

/// Those that wait, by what they are names of.
#[derive(Default)]
pub(super) struct Linked {
    names: HashMap<FileId, Vec<Waiting>>,
    len: usize,
}

/// One name.
struct Waiting {
    item: Item,
    proof: Option<Proof>,
}

impl Linked {
    /// Has a file wait; the removal is told if there are too many.
    pub(super) fn add(&mut self, id: FileId, item: &Item, proof: Option<Proof>) -> Option<Removal> {
        if self.len >= WAITING_MAX {
            return told(item, Err(loss::linked()));
        }
        self.len += 1;
        self.names.entry(id).or_default().push(Waiting { item: item.clone(), proof });
        None
    }

    /// Those of which no other name was seen; tells of the others.
    pub(super) fn into_single(self, tell: &mut dyn FnMut(Removal)) -> Vec<(Item, Option<Proof>)> {
        let mut single = Vec::new();
        for mut names in self.names.into_values() {
            if let [_] = names[..] {
                single.extend(names.pop().map(|Waiting { item, proof }| (item, proof)));
            }
            for Waiting { item, .. } in names {
                told(&item, Err(loss::linked())).into_iter().for_each(&mut *tell);
            }
        }
        single
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
