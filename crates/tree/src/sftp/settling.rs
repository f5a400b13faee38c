//! Times in whole seconds. A file that changes within the second of its time, after it was
//! looked at, shows the same time again; so it is read when that second is over.
//!
//! The server's clock is not known. But when it tells a time that its clock has set, that
//! time is past there, so a second later the second of that time is over, wherever that
//! clock stands. Only of which files the time may be of now is a matter of two clocks: of
//! those whose time is near to what ours shows.

use haul_model::Timestamp;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A second, and what clocks lag behind by which a system sets the times of files.
const SECOND: Duration = Duration::from_millis(1050);

/// How far the server's clock may be from ours, in seconds.
const CLOCKS_APART_MAX: u64 = 10;

/// Times that are remembered: one more than are near to now on both sides.
const REMEMBERED_MAX: usize = 2 * CLOCKS_APART_MAX as usize + 1;

/// The times near to now that the server has told, each with the moment when it first did.
#[derive(Default)]
pub(super) struct Settling(Mutex<VecDeque<(i64, Instant)>>);

impl Settling {
    /// The server has told that `mtime` of a file: until then a change of it may not show
    /// in that. `None` if it shows already.
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

/// True if the server's clock may show that second, as far as ours tells.
pub(super) fn is_near_to_now(mtime: Timestamp) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    mtime.secs.abs_diff(now) <= CLOCKS_APART_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ago: i64) -> Timestamp {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
        Timestamp { secs: now as i64 - ago, nanos: 0 }
    }

    #[test]
    fn only_a_time_near_to_now_is_waited_for() {
        let settling = Settling::default();
        for old in [CLOCKS_APART_MAX as i64 + 2, -(CLOCKS_APART_MAX as i64) - 2, 1 << 40] {
            assert_eq!(settling.until(at(old)), None, "{old}");
        }
        for recent in [0, 5, -5] {
            assert!(settling.until(at(recent)).is_some(), "{recent}");
        }
    }

    #[test]
    fn a_second_is_waited_for_once() {
        let settling = Settling::default();
        let mtime = at(1);
        let until = settling.until(mtime).expect("it was told just now");
        assert_eq!(settling.until(mtime), Some(until));
        std::thread::sleep(until.saturating_duration_since(Instant::now()));
        assert_eq!(settling.until(mtime), None);
    }
}
