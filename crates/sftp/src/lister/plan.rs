//! Which directory is listed next, and what is kept of those that are listed:
//! without threads, and without a server.

use super::Result;
use crate::DirEntry;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

/// Directories that are under way or listed and not taken, at most.
pub(super) const DIRS_MAX: usize = 1024;

/// Their entries, at most: about 15 MB. Those with long names count more than once.
pub(super) const ENTRIES_MAX: usize = 128 << 10;

/// Directories of one batch, at most, that are under way or listed and not
/// taken. A walk goes deeper before it goes on, so that what it needs last must
/// leave room for what it needs first: this many for each of 16 levels. It is
/// also what is there for the walk while a slow directory holds up a thread.
pub(super) const BATCH_DIRS_MAX: usize = 64;

/// Entries of one batch, at most; see [`BATCH_DIRS_MAX`].
pub(super) const BATCH_ENTRIES_MAX: usize = 32 << 10;

/// Entries of one directory, at most, that is listed ahead: so many are in memory
/// for each thread besides. A larger one is listed when it is asked for.
pub(super) const DIR_ENTRIES_MAX: usize = 32 << 10;

#[derive(Default)]
pub(super) struct Plan {
    slots: HashMap<Arc<[u8]>, Slot>,
    /// Requests that were made together. The latest has the highest number.
    batches: BTreeMap<u64, Batch>,
    next_batch: u64,
    held: Held,
    pub(super) threads: usize,
    /// Threads that wait for work.
    pub(super) idle: usize,
    /// Nothing more is to be listed.
    pub(super) is_closed: bool,
}

/// Where a directory stands that was asked for.
enum Slot {
    Queued {
        batch: u64,
    },
    UnderWay,
    /// Under way, and not wanted any more.
    Unwanted,
    Listed {
        batch: u64,
        listed: Result<Vec<DirEntry>>,
    },
}

#[derive(Default)]
struct Batch {
    /// Paths that are not begun, and some that have been taken out since: by their slots
    /// these are not queued in this batch.
    queue: VecDeque<Arc<[u8]>>,
    held: Held,
}

/// Directories and entries under way, or listed and not taken.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Held {
    dirs: usize,
    entries: usize,
}

impl Held {
    fn is_below(self, dirs: usize, entries: usize) -> bool {
        self.dirs < dirs && self.entries < entries
    }
}

/// A directory that is to be listed now.
#[derive(Debug)]
pub(super) struct Begun {
    pub(super) path: Arc<[u8]>,
    batch: u64,
}

/// The answer to one who asks for a directory.
pub(super) enum Standing {
    Listed(Result<Vec<DirEntry>>),
    UnderWay,
    /// It is for the asker to list.
    NotBegun,
}

impl Batch {
    /// Takes its first directory that is still queued in it.
    fn next(&mut self, number: u64, slots: &mut HashMap<Arc<[u8]>, Slot>) -> Option<Begun> {
        while let Some(path) = self.queue.pop_front() {
            match slots.get_mut(&path) {
                Some(slot) if slot.is_queued_in(number) => {
                    *slot = Slot::UnderWay;
                    self.held.dirs += 1;
                    return Some(Begun { path, batch: number });
                }
                _ => {}
            }
        }
        None
    }

    fn is_over(&self) -> bool {
        self.queue.is_empty() && self.held == Held::default()
    }
}

impl Slot {
    fn is_queued_in(&self, number: u64) -> bool {
        matches!(self, Self::Queued { batch } if *batch == number)
    }
}

impl Plan {
    /// One for which nothing is to be done any more.
    pub(super) fn closed() -> Self {
        Self { is_closed: true, ..Self::default() }
    }

    /// Queues directories, before all that are queued already.
    pub(super) fn add(&mut self, paths: Vec<Arc<[u8]>>) {
        let number = self.next_batch;
        self.next_batch += 1;
        let mut batch = Batch::default();
        for path in paths {
            if let None | Some(Slot::Queued { .. }) = self.slots.get(&path) {
                self.slots.insert(Arc::clone(&path), Slot::Queued { batch: number });
                batch.queue.push_back(path);
            }
        }
        if !batch.queue.is_empty() {
            self.batches.insert(number, batch);
        }
    }

    /// How many directories are not begun, or a few more.
    pub(super) fn queued(&self) -> usize {
        self.batches.values().map(|batch| batch.queue.len()).sum()
    }

    /// True if nothing is queued, under way, or listed and not taken.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty() && self.batches.is_empty() && self.held == Held::default()
    }

    /// The directory to be listed next, if there is room for it.
    pub(super) fn begin(&mut self) -> Option<Begun> {
        if !self.held.is_below(DIRS_MAX, ENTRIES_MAX) {
            return None;
        }
        let mut begun = None;
        for (&number, batch) in self.batches.iter_mut().rev() {
            if !batch.held.is_below(BATCH_DIRS_MAX, BATCH_ENTRIES_MAX) {
                continue;
            }
            begun = batch.next(number, &mut self.slots);
            if begun.is_some() {
                self.held.dirs += 1;
                break;
            }
        }
        self.batches.retain(|_, batch| !batch.is_over());
        begun
    }

    /// Keeps a listing until it is taken; one that came to nothing at all is as
    /// if it had not been begun.
    pub(super) fn finish(&mut self, begun: Begun, listed: Option<Result<Vec<DirEntry>>>) {
        let Begun { path, batch } = begun;
        let wanted = matches!(self.slots.get(&path), Some(Slot::UnderWay));
        match listed {
            Some(listed) if wanted => {
                let entries = count(&listed);
                self.held.entries += entries;
                if let Some(batch) = self.batches.get_mut(&batch) {
                    batch.held.entries += entries;
                }
                self.slots.insert(path, Slot::Listed { batch, listed });
            }
            // The plan may have been closed, and know nothing of it.
            _ => {
                if self.slots.remove(&path).is_some() {
                    self.release(batch, 0);
                }
            }
        }
    }

    /// Gives away what was listed, and leaves to the asker what is not begun.
    pub(super) fn take(&mut self, path: &[u8]) -> Standing {
        match self.slots.get(path) {
            None | Some(Slot::Unwanted) => return Standing::NotBegun,
            Some(Slot::UnderWay) => return Standing::UnderWay,
            Some(Slot::Queued { .. } | Slot::Listed { .. }) => {}
        }
        match self.slots.remove(path) {
            Some(Slot::Listed { batch, listed }) => {
                self.release(batch, count(&listed));
                Standing::Listed(listed)
            }
            _ => {
                self.sweep();
                Standing::NotBegun
            }
        }
    }

    /// Takes a directory and drops what comes of it.
    pub(super) fn forget(&mut self, path: &[u8]) {
        if let Standing::UnderWay = self.take(path)
            && let Some(slot) = self.slots.get_mut(path)
        {
            *slot = Slot::Unwanted;
        }
    }

    /// A batch holds one directory less.
    fn release(&mut self, number: u64, entries: usize) {
        self.held.dirs -= 1;
        self.held.entries -= entries;
        if let Some(batch) = self.batches.get_mut(&number) {
            batch.held.dirs -= 1;
            batch.held.entries -= entries;
            if batch.is_over() {
                self.batches.remove(&number);
            }
        }
    }

    /// Drops from the front of the queues what was taken out. A walk takes from
    /// there, so that little stays behind.
    fn sweep(&mut self) {
        while let Some(mut last) = self.batches.last_entry() {
            let number = *last.key();
            let batch = last.get_mut();
            while let Some(path) = batch.queue.front() {
                if self.slots.get(path).is_some_and(|slot| slot.is_queued_in(number)) {
                    return;
                }
                batch.queue.pop_front();
            }
            if !batch.is_over() {
                return;
            }
            last.remove();
        }
    }
}

fn count(listed: &Result<Vec<DirEntry>>) -> usize {
    listed.as_ref().map_or(0, |listed| listed.iter().map(DirEntry::weight).sum())
}
