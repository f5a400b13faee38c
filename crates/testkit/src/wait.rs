//! Waiting for what another thread or process does.

use std::thread;
use std::time::{Duration, Instant};

/// How often is looked.
const POLL: Duration = Duration::from_millis(1);

/// Waits for `condition` to hold; `false` if `limit` passed before it did. It is
/// looked at once at least.
pub fn holds_within(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    loop {
        if condition() {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        thread::sleep(POLL);
    }
}
