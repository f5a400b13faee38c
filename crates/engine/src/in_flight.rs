//! The entries of a job that are listed and have no outcome yet.

use std::collections::BTreeMap;

/// Entries in flight, by their numbers.
pub(crate) struct InFlight<T> {
    /// There are tens of thousands. They arrive in sequence and leave almost in sequence. The ends
    /// of a search tree stay in the caches; the slots of a hash table do not.
    entries: BTreeMap<u64, Box<T>>,
    /// The sum of their costs in the listing's window. Includes entries that are still processed
    /// after their outcome.
    pub(crate) cost: u64,
    /// The listing is complete.
    pub(crate) listed_all: bool,
}

impl<T> Default for InFlight<T> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), cost: 0, listed_all: false }
    }
}

impl<T> InFlight<T> {
    /// Adds the listed entry `number`.
    pub(crate) fn add(&mut self, number: u64, cost: u64, entry: T) {
        self.cost += cost;
        self.entries.insert(number, Box::new(entry));
    }

    pub(crate) fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        self.entries.get_mut(&number).map(|entry| &mut **entry)
    }

    /// Removes the entry `number`, which has its outcome. Its cost stays.
    pub(crate) fn take(&mut self, number: u64) -> Option<Box<T>> {
        self.entries.remove(&number)
    }

    pub(crate) fn has(&self, number: u64) -> bool {
        self.entries.contains_key(&number)
    }

    /// True if the listing is complete and every entry has its outcome.
    pub(crate) fn is_over(&self) -> bool {
        self.listed_all && self.entries.is_empty()
    }
}
