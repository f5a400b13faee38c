//! The thread that sees to it that nobody waits for ever: it ends a session in
//! which requests wait and nothing moves. It reaches those who wait for a reply
//! as well as those who are blocked in writing.

use super::shared::Shared;
use crate::error::SessionError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How many times within the longest silence is looked.
const LOOKS: u32 = 8;

/// Watches until the session has ended.
pub(super) fn run(shared: &Shared, silence_max: Duration) {
    let mut last = shared.moved().load(Ordering::Relaxed);
    let mut since = Instant::now();
    loop {
        let (has_ended, requests_wait) = shared.wait_ended(silence_max / LOOKS);
        if has_ended {
            return;
        }
        let now = shared.moved().load(Ordering::Relaxed);
        if now != last || !requests_wait {
            last = now;
            since = Instant::now();
        } else if since.elapsed() >= silence_max {
            shared.end(SessionError::Silent { seconds: silence_max.as_secs() });
            return;
        }
    }
}
