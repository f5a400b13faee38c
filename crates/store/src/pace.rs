//! How often a stage that can be continued makes its content durable.

use std::time::Duration;

/// When the next checkpoint is due: as soon as both have been reached since the
/// last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Blocks that were put on record.
    pub blocks: u64,
    /// Time that has passed.
    pub every: Duration,
}

impl Default for Pace {
    /// 64 MiB, and five seconds: a short copy pays nothing.
    fn default() -> Self {
        Self { blocks: 16, every: Duration::from_secs(5) }
    }
}
