//! The thread that ends a session if requests wait and no bytes move. Callers that wait for a
//! reply, or are blocked in a write, get an error.

use super::shared::{PendingState, SessionState};
use crate::error::SessionError;
use std::time::Duration;

/// How many checks are made within the timeout for silence.
const CHECKS: u32 = 8;

/// Factor of the timeout during a request that can take minutes, such as fsync of a large file.
/// OpenSSH's server does nothing else meanwhile. If the host itself is lost, ssh reports that.
pub const SLOW_FACTOR: u32 = 10;

/// Watches until the session has ended. It counts checks instead of time. So it excludes the time
/// in which this process is suspended, and in which it waits for a local file to send.
pub(super) fn run(shared: &SessionState, silence_max: Duration) {
    let mut last = shared.activity.moved();
    let mut quiet_checks = 0;
    while let Some(waits) = shared.wait_ended(silence_max / CHECKS) {
        let now = shared.activity.moved();
        if now != last || waits == PendingState::No || shared.activity.is_reading_file() {
            last = now;
            quiet_checks = 0;
            continue;
        }
        quiet_checks += 1;
        let factor = if waits == PendingState::Slow { SLOW_FACTOR } else { 1 };
        if quiet_checks >= CHECKS.saturating_mul(factor) {
            let silence = silence_max.saturating_mul(factor);
            shared.end(SessionError::Silent { seconds: silence.as_secs() });
            return;
        }
    }
}
