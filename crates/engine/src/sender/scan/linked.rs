//! Numbers of the files of several names that a walk has come to.

use haul_model::{Fault, FaultKind, FileId, LINK_GROUPS_MAX, Side};
use std::collections::HashMap;

/// Those that are kept as such.
#[derive(Default)]
pub(super) struct Groups(HashMap<FileId, u64>);

impl Groups {
    /// The number by which the object of several names is told, 0 where none is given;
    /// `None` if there are too many.
    pub(super) fn number(&mut self, id: Option<FileId>) -> Option<u64> {
        let Some(id) = id else { return Some(0) };
        let next = self.0.len() as u64 + 1;
        if next > LINK_GROUPS_MAX as u64 && !self.0.contains_key(&id) {
            return None;
        }
        Some(*self.0.entry(id).or_insert(next))
    }
}

/// The fault of a name that is one too many.
pub(super) fn too_many() -> Fault {
    let message = format!(
        "it has several names, and more than {LINK_GROUPS_MAX} such files can't be kept as such"
    );
    Fault::new(Side::Source, FaultKind::TooLong, message)
}
