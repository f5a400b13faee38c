//! The entries of a job, counted by kind: found in the sources, created and removed at the
//! destination. A retry counts found entries again from the start, but created entries only once.

use haul_model::{Changes, Entry, Kind, Outcome, Special};
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of entries by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Kinds {
    /// Regular files.
    pub files: u64,
    /// Directories.
    pub dirs: u64,
    /// Symbolic links.
    pub links: u64,
    /// Devices, if they are distinguished from other special entries.
    pub devices: u64,
    /// FIFOs and sockets.
    pub specials: u64,
}

impl Kinds {
    /// The sum of all kinds.
    pub fn total(self) -> u64 {
        self.files + self.dirs + self.links + self.devices + self.specials
    }
}

/// The entries of a job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EntryCounts {
    /// Entries found in the sources.
    pub found: Kinds,
    /// The bytes of their files, and of the target paths of their links.
    pub size: u64,
    /// In a mirror: entries created at the destination, or those that a dry run would create.
    pub made: Kinds,
    /// In a mirror: extras that were removed.
    pub removed: Kinds,
    /// In a mirror: files whose content was sent.
    pub sent: u64,
    /// In a mirror: the bytes in these files.
    pub sent_size: u64,
}

/// Counts while a job runs.
#[derive(Debug, Default)]
pub(crate) struct EntryCounters {
    found: OfKinds,
    size: AtomicU64,
    made: OfKinds,
    removed: OfKinds,
    sent: AtomicU64,
    sent_size: AtomicU64,
}

/// A counter for each field of [`Kinds`].
#[derive(Debug, Default)]
struct OfKinds([AtomicU64; 5]);

impl OfKinds {
    fn count(&self, kind: &Kind, special: Option<Special>) {
        let at = match (kind, special) {
            (Kind::File { .. }, _) => 0,
            (Kind::Dir, _) => 1,
            (Kind::Symlink { .. }, _) => 2,
            (Kind::Special, Some(Special::Block(_) | Special::Char(_))) => 3,
            (Kind::Special, _) => 4,
        };
        add(&self.0[at], 1);
    }

    fn read(&self) -> Kinds {
        let [files, dirs, links, devices, specials] =
            [0, 1, 2, 3, 4].map(|at| self.0[at].load(Ordering::Relaxed));
        Kinds { files, dirs, links, devices, specials }
    }

    fn clear(&self) {
        self.0.iter().for_each(|counter| counter.store(0, Ordering::Relaxed));
    }
}

impl EntryCounters {
    /// Resets the counts of found entries, before the sources are listed from the start.
    pub(crate) fn begin(&self) {
        self.found.clear();
        self.size.store(0, Ordering::Relaxed);
    }

    /// Counts an entry that was found.
    pub(crate) fn found(&self, entry: &Entry) {
        self.found.count(&entry.kind, entry.special);
        add(&self.size, entry.shown_len());
    }

    /// Counts an outcome that was not reported before.
    pub(crate) fn count_outcome(&self, kind: &Kind, outcome: &Outcome) {
        let found = match outcome {
            Outcome::Synced(found) => *found,
            Outcome::Linked { found, first } if !first.is_empty() => *found,
            _ => return,
        };
        if found.has(Changes::MISSING) || found.has(Changes::KIND) {
            self.made.count(kind, None);
        }
        if let (Kind::File { size }, true) = (kind, found.has(Changes::SENT)) {
            add(&self.sent, 1);
            add(&self.sent_size, *size);
        }
    }

    /// Counts an extra that was removed.
    pub(crate) fn removed(&self, kind: &Kind) {
        self.removed.count(kind, None);
    }

    /// The figures so far.
    pub(crate) fn read(&self) -> EntryCounts {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        EntryCounts {
            found: self.found.read(),
            size: get(&self.size),
            made: self.made.read(),
            removed: self.removed.read(),
            sent: get(&self.sent),
            sent_size: get(&self.sent_size),
        }
    }
}

fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}
