//! The pace of checkpoints of a stage that can be resumed.

use std::time::Duration;

/// The conditions for the next checkpoint. It is due when both are met since the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Number of recorded blocks.
    pub blocks: u64,
    /// Elapsed time.
    pub every: Duration,
}

impl Default for Pace {
    /// 64 MiB and five seconds, so that a short copy needs no checkpoint.
    fn default() -> Self {
        Self { blocks: 16, every: Duration::from_secs(5) }
    }
}
