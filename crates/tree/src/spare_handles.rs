//! Room for one more open file. Handles that are kept only to save time are closed when the
//! process, or the system, may have no more.

use haul_sys::is_out_of_handles;
use parking_lot::Mutex;
use std::io;
use std::sync::Weak;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Timeout for handles that other threads are using.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// Pause between two attempts.
const RETRY_INTERVAL: Duration = Duration::from_millis(2);

/// Handles that are kept to save time.
pub trait Spare: Send + Sync {
    /// Closes all handles that are not in use. Must not block.
    fn close_idle(&self);
}

/// All owners of such handles. The limit is per process, not per job.
static SPARES: Mutex<Vec<Weak<dyn Spare>>> = Mutex::new(Vec::new());

/// Set after a wait in vain, so that not every entry waits again.
static HAS_TIMED_OUT: AtomicBool = AtomicBool::new(false);

/// Registers `spare` for its lifetime.
pub fn add_spare(spare: Weak<dyn Spare>) {
    let mut spares = SPARES.lock();
    spares.retain(|spare| spare.strong_count() > 0);
    spares.push(spare);
}

/// Calls `open`, and retries for a while if it fails for lack of handles.
///
/// # Errors
/// Errors of `open`.
pub(crate) fn retry_open<T>(mut open: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let first = open();
    if !first.as_ref().is_err_and(is_out_of_handles) {
        return first;
    }
    let timeout = if HAS_TIMED_OUT.load(Ordering::Relaxed) { Duration::ZERO } else { WAIT_MAX };
    let deadline = Instant::now() + timeout;
    loop {
        let idle: Vec<_> = SPARES.lock().iter().filter_map(Weak::upgrade).collect();
        idle.iter().for_each(|spare| spare.close_idle());
        let opened = open();
        if !opened.as_ref().is_err_and(is_out_of_handles) {
            HAS_TIMED_OUT.store(false, Ordering::Relaxed);
            return opened;
        }
        if Instant::now() >= deadline {
            HAS_TIMED_OUT.store(true, Ordering::Relaxed);
            return opened;
        }
        thread::sleep(RETRY_INTERVAL);
    }
}
