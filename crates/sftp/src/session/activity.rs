//! Signs of progress in a session, for the thread that detects silence.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Signs of progress in a session, and of delays that are not the server's.
#[derive(Default)]
pub(super) struct Activity {
    moved: AtomicU64,
    reading_file: AtomicBool,
}

impl Activity {
    /// Counts a move of bytes on the stream, in either direction.
    pub(super) fn count(&self) {
        self.moved.fetch_add(1, Ordering::Relaxed);
    }

    /// A number that changes whenever bytes move.
    pub(super) fn moved(&self) -> u64 {
        self.moved.load(Ordering::Relaxed)
    }

    /// Runs `work`, which waits for a local file and not for the server. Only the caller that holds
    /// the stream may call it.
    pub(super) fn reading_file<T>(&self, work: impl FnOnce() -> T) -> T {
        self.reading_file.store(true, Ordering::Relaxed);
        let done = work();
        self.reading_file.store(false, Ordering::Relaxed);
        done
    }

    /// True while a caller waits for a local file.
    pub(super) fn is_reading_file(&self) -> bool {
        self.reading_file.load(Ordering::Relaxed)
    }
}
