//! The time at which a command ends, even if work is left.

use std::time::{Instant, SystemTime};

/// The end, by one of two clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deadline {
    /// After an elapsed time. Time in which the machine sleeps does not count.
    Passed(Instant),
    /// At a time of the system clock.
    Clock(SystemTime),
}

impl Deadline {
    pub(crate) fn is_expired(self) -> bool {
        match self {
            Self::Passed(end) => Instant::now() >= end,
            Self::Clock(end) => SystemTime::now() >= end,
        }
    }
}
