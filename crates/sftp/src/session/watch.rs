//! The thread that ends a session if requests wait and no bytes move. Callers that wait for a
//! reply, or are blocked in a write, get an error.

use super::shared::{State, Waits};
use crate::error::SessionError;
use std::time::Duration;

/// How many checks are made within the timeout for silence.
const LOOKS: u32 = 8;

/// Factor of the timeout during a request that can take minutes, such as fsync of a large file.
/// OpenSSH's server does nothing else meanwhile. If the host itself is lost, ssh reports that.
pub const SLOW_FACTOR: u32 = 10;

/// Watches until the session has ended. It counts checks instead of time. So it excludes the time
/// in which this process is suspended, and in which it waits for a local file to send.
pub(super) fn run(shared: &State, silence_max: Duration) {
    let mut last = shared.signs().moved();
    let mut quiet_looks = 0;
    while let Some(waits) = shared.wait_ended(silence_max / LOOKS) {
        let now = shared.signs().moved();
        if now != last || waits == Waits::No || shared.signs().is_at_disk() {
            last = now;
            quiet_looks = 0;
            continue;
        }
        quiet_looks += 1;
        let factor = if waits == Waits::Slow { SLOW_FACTOR } else { 1 };
        if quiet_looks >= LOOKS.saturating_mul(factor) {
            let silence = silence_max.saturating_mul(factor);
            shared.end(SessionError::Silent { seconds: silence.as_secs() });
            return;
        }
    }
}
