//! The entries of a job that were listed and have no outcome yet.

use std::collections::BTreeMap;

/// Entries in flight, by their numbers.
pub(crate) struct InFlight<T> {
    /// There are tens of thousands. They come in sequence and go nearly so: the ends of a
    /// search tree stay in the caches, which the slots of a hash table do not.
    entries: BTreeMap<u64, Box<T>>,
    /// The sum of their costs in the window of the listing, and of those that are still dealt
    /// with after their outcome.
    pub(crate) cost: u64,
    /// Nothing more is to be listed.
    pub(crate) listed_all: bool,
}

impl<T> Default for InFlight<T> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), cost: 0, listed_all: false }
    }
}

impl<T> InFlight<T> {
    /// Adds the entry of that number, which is listed.
    pub(crate) fn add(&mut self, number: u64, cost: u64, entry: T) {
        self.cost += cost;
        self.entries.insert(number, Box::new(entry));
    }

    pub(crate) fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        self.entries.get_mut(&number).map(|entry| &mut **entry)
    }

    /// Takes out the entry of that number, which has its outcome. Its cost stays.
    pub(crate) fn take(&mut self, number: u64) -> Option<Box<T>> {
        self.entries.remove(&number)
    }

    pub(crate) fn has(&self, number: u64) -> bool {
        self.entries.contains_key(&number)
    }

    /// True if all entries were listed and have their outcomes.
    pub(crate) fn is_over(&self) -> bool {
        self.listed_all && self.entries.is_empty()
    }
}
