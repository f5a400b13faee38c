//! Room for one more open file: handles that are kept only to save time are given
//! up when the process, or the system, may have no more.

use haul_sys::is_out_of_handles;
use parking_lot::{Mutex, MutexGuard};
use std::io;
use std::sync::Weak;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long a thread waits for what others have in use at the moment.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// How often it looks whether they have given something back.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Handles that are kept to save time.
pub trait Spare: Send + Sync {
    /// Closes all that nobody uses at this moment. Must not wait.
    fn close_idle(&self);
}

/// Everything that keeps such handles: the limit is the process's, not a job's.
static SPARES: Mutex<Vec<Weak<dyn Spare>>> = Mutex::new(Vec::new());

/// Set while waiting has been of no use, so that not every entry waits in vain.
static IN_VAIN: AtomicBool = AtomicBool::new(false);

/// Makes `spare` known, as long as it lives.
pub fn add_spare(spare: Weak<dyn Spare>) {
    let mut spares = spares();
    spares.retain(|spare| spare.strong_count() > 0);
    spares.push(spare);
}

/// Does `open` again, for a while, as long as it fails for want of handles.
///
/// # Errors
/// Those of `open`.
pub(crate) fn with_room<T>(mut open: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let first = open();
    if !first.as_ref().is_err_and(is_out_of_handles) {
        return first;
    }
    let patience = if IN_VAIN.load(Ordering::Relaxed) { Duration::ZERO } else { WAIT_MAX };
    let deadline = Instant::now() + patience;
    loop {
        let idle: Vec<_> = spares().iter().filter_map(Weak::upgrade).collect();
        idle.iter().for_each(|spare| spare.close_idle());
        let opened = open();
        if !opened.as_ref().is_err_and(is_out_of_handles) {
            IN_VAIN.store(false, Ordering::Relaxed);
            return opened;
        }
        if Instant::now() >= deadline {
            IN_VAIN.store(true, Ordering::Relaxed);
            return opened;
        }
        thread::sleep(LOOK_EVERY);
    }
}

fn spares() -> MutexGuard<'static, Vec<Weak<dyn Spare>>> {
    SPARES.lock()
}
