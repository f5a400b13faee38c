//! The order in which directories are listed ahead, and the bounds of the kept listings. Without
//! threads and without a server.

use super::Result;
use crate::DirEntry;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Most directories that are being listed, or are listed and not taken yet.
pub(super) const DIRS_MAX: usize = 1024;

/// Most entries in them: about 15 MB. An entry with a long name counts more than once.
pub(super) const ENTRIES_MAX: usize = 128 << 10;

/// The same as [`DIRS_MAX`] for one batch. A walk goes deeper before it continues, so directories
/// that it needs last must leave room for those that it needs first: this many for each of 16
/// levels.
pub(super) const BATCH_DIRS_MAX: usize = 64;

/// Most entries of a directory that is listed ahead. Each thread holds as many on top. A larger
/// directory is listed when it is needed.
pub(super) const DIR_ENTRIES_MAX: usize = 32 << 10;

#[derive(Default)]
pub(super) struct Plan {
    slots: HashMap<Arc<[u8]>, Slot>,
    /// The queued directories, in the order in which they are listed.
    queue: BTreeMap<Place, Arc<[u8]>>,
    /// For each call, its directories that are being listed, or are listed and not taken yet.
    held: HashMap<u64, usize>,
    calls: u64,
    /// Directories that are being listed, or are listed and not taken yet.
    dirs: usize,
    /// Their entries.
    entries: usize,
    pub(super) threads: usize,
    /// Threads that wait for work.
    pub(super) idle: usize,
    /// No more directories are listed.
    pub(super) is_closed: bool,
}

/// The place of a directory: the number of the call that queued it, the latest first, and its
/// number in that call.
type Place = (Reverse<u64>, usize);

struct Slot {
    place: Place,
    state: DirState,
}

/// The state of a directory. A caller that needs one that is not begun lists it itself.
pub(super) enum DirState {
    /// Not begun, or unknown.
    Queued,
    InProgress,
    Listed(Result<Vec<DirEntry>>),
}

impl Plan {
    /// A plan that takes no work.
    pub(super) fn closed() -> Self {
        Self { is_closed: true, ..Self::default() }
    }

    /// Queues directories before all that are queued already.
    pub(super) fn add(&mut self, paths: Vec<Arc<[u8]>>) {
        self.calls += 1;
        for (number, path) in paths.into_iter().enumerate() {
            match self.slots.get(&path) {
                Some(Slot { place, state: DirState::Queued }) => drop(self.queue.remove(place)),
                Some(_) => continue,
                None => {}
            }
            let place = (Reverse(self.calls), number);
            self.slots.insert(Arc::clone(&path), Slot { place, state: DirState::Queued });
            self.queue.insert(place, path);
        }
    }

    /// The number of queued directories.
    pub(super) fn queued(&self) -> usize {
        self.queue.len()
    }

    /// True if no directory is queued, being listed, or listed and not taken yet.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
            && self.queue.is_empty()
            && self.held.is_empty()
            && self.dirs + self.entries == 0
    }

    /// The next directory to list, if there is room for it.
    pub(super) fn begin(&mut self) -> Option<Arc<[u8]>> {
        if self.dirs >= DIRS_MAX || self.entries >= ENTRIES_MAX {
            return None;
        }
        let mut from = (Reverse(u64::MAX), 0);
        let place = loop {
            let (&place, _) = self.queue.range(from..).next()?;
            let Reverse(call) = place.0;
            if self.held.get(&call).is_none_or(|held| *held < BATCH_DIRS_MAX) {
                break place;
            }
            from = (Reverse(call - 1), 0);
        };
        let path = self.queue.remove(&place)?;
        *self.held.entry(place.0.0).or_default() += 1;
        self.dirs += 1;
        self.slots.get_mut(&path)?.state = DirState::InProgress;
        Some(path)
    }

    /// Keeps a listing until it is taken. Without one, the directory is forgotten, and its caller
    /// lists it.
    pub(super) fn finish(&mut self, path: &[u8], listed: Option<Result<Vec<DirEntry>>>) {
        // A closed plan does not have it.
        let Some(slot) = self.slots.get_mut(path) else { return };
        match listed {
            Some(listed) => {
                self.entries += count(&listed);
                slot.state = DirState::Listed(listed);
            }
            None => drop(self.remove(path)),
        }
    }

    /// Takes a listing. Removes a queued directory, which the caller then lists itself.
    pub(super) fn take(&mut self, path: &[u8]) -> DirState {
        if let Some(Slot { state: DirState::InProgress, .. }) = self.slots.get(path) {
            return DirState::InProgress;
        }
        match self.remove(path) {
            Some(DirState::Listed(listed)) => DirState::Listed(listed),
            _ => DirState::Queued,
        }
    }

    fn remove(&mut self, path: &[u8]) -> Option<DirState> {
        let Slot { place, state } = self.slots.remove(path)?;
        if let DirState::Listed(listed) = &state {
            self.entries -= count(listed);
        }
        if self.queue.remove(&place).is_none() {
            self.dirs -= 1;
            let held = self.held.get_mut(&place.0.0)?;
            *held -= 1;
            if *held == 0 {
                self.held.remove(&place.0.0);
            }
        }
        Some(state)
    }
}

fn count(listed: &Result<Vec<DirEntry>>) -> usize {
    listed.as_ref().map_or(0, |listed| listed.iter().map(DirEntry::weight).sum())
}
