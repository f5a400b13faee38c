//! Times in whole seconds. If a file changes twice within one second, its time stays the same. So a
//! file is read only once the second of its time is over.
//!
//! The server's clock is unknown. But a time that its clock has set is past there, so one second
//! after the server first reports it, that second is over. Both clocks matter only for deciding
//! which times may be current: those near to our own clock.

use haul_model::Timestamp;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A second, plus the lag of the clock that a system sets file times from.
const SECOND: Duration = Duration::from_millis(1050);

/// The assumed maximum difference between the server's clock and ours, in seconds.
const CLOCK_SKEW_MAX: u64 = 10;

/// Number of remembered times: one more than are near to now on both sides.
const REMEMBERED_MAX: usize = 2 * CLOCK_SKEW_MAX as usize + 1;

/// Times near to now, each with the moment when the server first reported it.
#[derive(Default)]
pub(super) struct Settling(Mutex<VecDeque<(i64, Instant)>>);

impl Settling {
    /// Returns the moment until which a change of a file may not show in its reported `mtime`.
    /// `None` if it shows already.
    pub(super) fn until(&self, mtime: Timestamp) -> Option<Instant> {
        if !is_near_to_now(mtime) {
            return None;
        }
        let now = Instant::now();
        let mut told = self.0.lock();
        let first = match told.iter().find(|(secs, _)| *secs == mtime.secs) {
            Some((_, first)) => *first,
            None => {
                if told.len() == REMEMBERED_MAX {
                    told.pop_front();
                }
                told.push_back((mtime.secs, now));
                now
            }
        };
        Some(first + SECOND).filter(|until| *until > now)
    }
}

/// True if `mtime` may be the current second on the server's clock.
pub(super) fn is_near_to_now(mtime: Timestamp) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    mtime.secs.abs_diff(now) <= CLOCK_SKEW_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ago: i64) -> Timestamp {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
        Timestamp { secs: now as i64 - ago, nanos: 0 }
    }

    #[test]
    fn only_times_near_to_now_are_awaited() {
        let settling = Settling::default();
        for old in [CLOCK_SKEW_MAX as i64 + 2, -(CLOCK_SKEW_MAX as i64) - 2, 1 << 40] {
            assert_eq!(settling.until(at(old)), None, "{old}");
        }
        for recent in [0, 5, -5] {
            assert!(settling.until(at(recent)).is_some(), "{recent}");
        }
    }

    #[test]
    fn each_second_is_awaited_once() {
        let settling = Settling::default();
        let mtime = at(1);
        let until = settling.until(mtime).expect("it was told just now");
        assert_eq!(settling.until(mtime), Some(until));
        std::thread::sleep(until.saturating_duration_since(Instant::now()));
        assert_eq!(settling.until(mtime), None);
    }
}
