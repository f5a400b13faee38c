//! Signs that a session gets on, for who watches over its silence.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Signs of progress in a session, and of holdups that are not the server's.
#[derive(Default)]
pub(super) struct Signs {
    moved: AtomicU64,
    at_disk: AtomicBool,
}

impl Signs {
    /// Something has moved on the stream, in either direction.
    pub(super) fn count(&self) {
        self.moved.fetch_add(1, Ordering::Relaxed);
    }

    /// A number that changes whenever something moves.
    pub(super) fn moved(&self) -> u64 {
        self.moved.load(Ordering::Relaxed)
    }

    /// Does `work`, which waits for a file of this machine and not for the server. One
    /// at a time does: who has the stream.
    pub(super) fn at_disk<T>(&self, work: impl FnOnce() -> T) -> T {
        self.at_disk.store(true, Ordering::Relaxed);
        let done = work();
        self.at_disk.store(false, Ordering::Relaxed);
        done
    }

    /// True if a file of this machine is waited for.
    pub(super) fn is_at_disk(&self) -> bool {
        self.at_disk.load(Ordering::Relaxed)
    }
}
