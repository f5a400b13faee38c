//! The order in which directories are listed ahead, and the bounds of the kept listings. Without
//! threads and without a server.

use super::Result;
use crate::DirEntry;
use std::collections::{BTreeMap, HashMap, VecDeque};
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
    /// The paths of one call each. The latest call has the highest number.
    batches: BTreeMap<u64, Batch>,
    next_batch: u64,
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

struct Slot {
    batch: u64,
    state: DirState,
}

/// The state of a directory. A caller that needs one that is not begun lists it itself.
pub(super) enum DirState {
    /// Not begun, or unknown.
    Queued,
    InProgress,
    Listed(Result<Vec<DirEntry>>),
}

#[derive(Default)]
struct Batch {
    /// Paths in order. The first is queued; others may have been taken since.
    queue: VecDeque<Arc<[u8]>>,
    /// Its directories that are being listed, or are listed and not taken yet.
    held: usize,
}

impl Plan {
    /// A plan that takes no work.
    pub(super) fn closed() -> Self {
        Self { is_closed: true, ..Self::default() }
    }

    /// Queues directories before all that are queued already.
    pub(super) fn add(&mut self, paths: Vec<Arc<[u8]>>) {
        let number = self.next_batch;
        self.next_batch += 1;
        self.batches.insert(number, Batch::default());
        for path in paths {
            let earlier = match self.slots.get(&path) {
                None => None,
                Some(Slot { batch, state: DirState::Queued }) => Some(*batch),
                Some(_) => continue,
            };
            self.slots.insert(Arc::clone(&path), Slot { batch: number, state: DirState::Queued });
            self.batches.entry(number).or_default().queue.push_back(path);
            earlier.into_iter().for_each(|batch| self.trim(batch));
        }
        self.trim(number);
    }

    /// The approximate number of queued directories, never too low.
    pub(super) fn queued(&self) -> usize {
        self.batches.values().map(|batch| batch.queue.len()).sum()
    }

    /// True if no directory is queued, being listed, or listed and not taken yet.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty() && self.batches.is_empty() && self.dirs + self.entries == 0
    }

    /// The next directory to list, if there is room for it.
    pub(super) fn begin(&mut self) -> Option<Arc<[u8]>> {
        if self.dirs >= DIRS_MAX || self.entries >= ENTRIES_MAX {
            return None;
        }
        let has_work = |batch: &Batch| batch.held < BATCH_DIRS_MAX && !batch.queue.is_empty();
        let (&number, batch) = self.batches.iter_mut().rev().find(|(_, batch)| has_work(batch))?;
        let path = batch.queue.pop_front()?;
        batch.held += 1;
        self.dirs += 1;
        self.slots.get_mut(&path)?.state = DirState::InProgress;
        self.trim(number);
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
        let Slot { batch: number, state } = self.slots.remove(path)?;
        if let DirState::Listed(listed) = &state {
            self.entries -= count(listed);
        }
        if !matches!(state, DirState::Queued) {
            self.dirs -= 1;
            self.batches.entry(number).and_modify(|batch| batch.held -= 1);
        }
        self.trim(number);
        Some(state)
    }

    /// Removes paths that are not queued any more from the front of a queue. A walk takes from the
    /// front, so few such paths stay behind it.
    fn trim(&mut self, number: u64) {
        let Some(batch) = self.batches.get_mut(&number) else { return };
        let is_queued =
            |slot: &Slot| slot.batch == number && matches!(slot.state, DirState::Queued);
        while let Some(path) = batch.queue.front() {
            if self.slots.get(path).is_some_and(is_queued) {
                return;
            }
            batch.queue.pop_front();
        }
        if batch.held == 0 {
            self.batches.remove(&number);
        }
    }
}

fn count(listed: &Result<Vec<DirEntry>>) -> usize {
    listed.as_ref().map_or(0, |listed| listed.iter().map(DirEntry::weight).sum())
}
