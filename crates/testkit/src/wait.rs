//! Waiting for what another thread or process does.

use std::panic::resume_unwind;
use std::thread;
use std::time::{Duration, Instant};

/// The shortest pause between two looks.
const POLL_MIN: Duration = Duration::from_millis(1);

/// The longest one.
const POLL_MAX: Duration = Duration::from_millis(20);

/// A pause is so many times as long as the look before it: looking through all processes
/// takes milliseconds, and what is waited for needs the processor, too.
const PAUSE_FACTOR: u32 = 9;

/// Waits for `condition` to hold; `false` if `limit` passed before it did. It is
/// looked at once at least.
pub fn holds_within(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let mut looked = Instant::now();
    let end = looked + limit;
    loop {
        if condition() {
            return true;
        }
        let took = looked.elapsed();
        if looked + took >= end {
            return false;
        }
        thread::sleep((took * PAUSE_FACTOR).clamp(POLL_MIN, POLL_MAX));
        looked = Instant::now();
    }
}

/// Runs `work` in a thread of its own. For code that runs for ever if there is a fault in it: then
/// the test fails, and does not hang.
///
/// # Panics
///
/// If `work` panics, or is not over within `limit`.
#[track_caller]
pub fn ends_within(limit: Duration, work: impl FnOnce() + Send + 'static) {
    let work = thread::spawn(work);
    assert!(holds_within(limit, || work.is_finished()), "it is not over after {limit:?}");
    work.join().unwrap_or_else(|panic| resume_unwind(panic));
}
