//! The statistics at the end of a mirror.

/// The statistics that a mirror prints at its end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Stats {
    #[default]
    None,
    /// One line about the work done.
    Line,
    /// The lines of rsync, then that line.
    Block,
}
