//! The time at which a command ends, whatever is left to do.

use std::time::{Instant, SystemTime};

/// Such a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// When so much time has passed: that in which the machine sleeps does not count.
    Passed(Instant),
    /// When the clock shows it.
    Clock(SystemTime),
}

impl Until {
    /// True from that time on.
    pub(crate) fn is_over(self) -> bool {
        match self {
            Self::Passed(end) => Instant::now() >= end,
            Self::Clock(end) => SystemTime::now() >= end,
        }
    }
}
