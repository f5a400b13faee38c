//! Detects that a listed entry is at the destination itself: a peer may be this machine. Without a
//! wire, object identities show that. Over a wire, numbers do, which no object of another machine
//! has.

use crate::dirs::local_number;
use haul_model::{Entry, Fault, FaultKind, FileId, Side};

/// The numbers of the destination and of its parents.
#[derive(Debug, Default)]
pub(crate) struct DestLineage(Vec<u64>);

impl DestLineage {
    /// The numbers for a destination with this lineage, which begins with the destination itself.
    pub(crate) fn of(lineage: &[FileId]) -> Self {
        Self(lineage.iter().map(|id| local_number(*id)).collect())
    }

    /// The fault of a directory that would be copied into itself. A source must not hold the
    /// destination, and an entry further down must not be the destination.
    pub(super) fn contains_destination(&self, entry: &Entry, is_source: bool) -> Option<Fault> {
        let count = if is_source { self.0.len() } else { 1 };
        let mut lineage = self.0.iter().take(count);
        let contains_destination =
            entry.id.is_none() && lineage.any(|number| *number == entry.inode);
        let message = "the directory would be copied into itself";
        contains_destination.then(|| Fault::new(Side::Source, FaultKind::IntoItself, message))
    }
}

/// True if an entry is the object `other` of this machine.
pub(super) fn is_same_object(entry: &Entry, other: Option<FileId>) -> bool {
    match entry.id {
        Some(id) => other == Some(id),
        None => entry.inode != 0 && other.map(local_number) == Some(entry.inode),
    }
}

/// The fault of a directory that is the source or the destination of entries, and of their backups.
pub(super) fn is_for_backups() -> Fault {
    let message = "it is the directory of the backups, which would replace its entries";
    Fault::new(Side::Destination, FaultKind::SameFile, message)
}

/// The fault of a source directory that is also its own destination.
pub(super) fn same_directory() -> Fault {
    let message = "source and destination are the same directory";
    Fault::new(Side::Destination, FaultKind::SameFile, message)
}
