//! A number of bytes that the threads of a job share. It bounds the content in memory.

use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::time::Duration;

/// How often a waiting thread checks whether the job has stopped.
const STOP_POLL: Duration = Duration::from_millis(50);

/// Bytes to hand out; they are returned later.
pub struct Budget {
    free: Mutex<usize>,
    freed: Condvar,
}

/// Bytes taken from a budget. Dropping this returns them.
pub struct Share {
    budget: Arc<Budget>,
    len: usize,
}

impl Budget {
    /// A budget of `len` free bytes.
    pub fn new(len: usize) -> Arc<Self> {
        Arc::new(Self { free: Mutex::new(len), freed: Condvar::new() })
    }

    /// Waits for `len` bytes, at most the whole budget. The caller must hold no share that other
    /// threads wait for.
    pub fn take(self: &Arc<Self>, len: usize) -> Share {
        self.take_unless(len, || false).expect("nothing stops it")
    }

    /// Like [`Self::take`], but returns `None` once `stopped` returns true.
    pub fn take_unless(self: &Arc<Self>, len: usize, stopped: impl Fn() -> bool) -> Option<Share> {
        let mut free = self.free.lock();
        while *free < len {
            if stopped() {
                return None;
            }
            self.freed.wait_for(&mut free, STOP_POLL);
        }
        *free -= len;
        Some(Share { budget: Arc::clone(self), len })
    }

    /// Takes `len` bytes if they are free now.
    pub fn try_take(self: &Arc<Self>, len: usize) -> Option<Share> {
        self.take_unless(len, || true)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        *self.budget.free.lock() += self.len;
        self.budget.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_wait_ends_when_others_return_bytes() {
        let budget = Budget::new(10);
        let first = budget.take(7);
        assert!(budget.try_take(4).is_none());
        let second = budget.try_take(3);
        assert!(second.is_some());
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| drop(budget.take(10)));
            std::thread::sleep(Duration::from_millis(20));
            assert!(!waiter.is_finished(), "it took what was not there");
            drop((first, second));
        });
        assert!(budget.try_take(10).is_some());
    }

    #[test]
    fn a_wait_ends_when_the_job_stops() {
        let budget = Budget::new(10);
        let _kept = budget.take(7);
        let stop = AtomicBool::new(false);
        let stopped = || stop.load(Ordering::Relaxed);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| budget.take_unless(10, stopped).is_none());
            std::thread::sleep(Duration::from_millis(20));
            assert!(!waiter.is_finished(), "it took what was not there");
            stop.store(true, Ordering::Relaxed);
            assert!(waiter.join().unwrap());
        });
        assert!(budget.take_unless(3, || true).is_some(), "what is free is given in any case");
    }
}
