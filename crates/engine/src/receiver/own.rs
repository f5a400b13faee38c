//! Entries that a peer lists and that are at the destination itself: a host may be this
//! machine. Over a memory link the objects show that; over a wire their numbers do,
//! which no object of another machine has.

use crate::dirs::number_here;
use haul_model::{Entry, Fault, FaultKind, FileId, Side};

/// Numbers of the directories into which a peer may want to copy what holds them.
#[derive(Debug, Default)]
pub(crate) struct Around(Vec<u64>);

impl Around {
    /// Of a destination with this lineage: the directory itself, and those above it.
    pub(crate) fn of(lineage: &[FileId]) -> Self {
        Self(lineage.iter().map(|id| number_here(*id)).collect())
    }

    /// The fault of a directory that holds the destination, if it is one of the
    /// sources, or is it, further down.
    pub(super) fn holds_it(&self, entry: &Entry, is_source: bool) -> Option<Fault> {
        let count = if is_source { self.0.len() } else { 1 };
        let mut in_the_way = self.0.iter().take(count);
        let holds_it = entry.id.is_none() && in_the_way.any(|number| *number == entry.inode);
        let message = "the directory would be copied into itself";
        holds_it.then(|| Fault::new(Side::Source, FaultKind::IntoItself, message))
    }
}

/// True if an entry is the object `there` of this machine.
pub(super) fn is_own(entry: &Entry, there: Option<FileId>) -> bool {
    match entry.id {
        Some(id) => there == Some(id),
        None => entry.inode != 0 && there.map(number_here) == Some(entry.inode),
    }
}

/// The fault of a directory that is the one at the destination.
pub(super) fn same_directory() -> Fault {
    let message = "source and destination are the same directory";
    Fault::new(Side::Destination, FaultKind::SameFile, message)
}
