//! The figures that a mirror is asked for.

/// The figures that a mirror tells at its end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Stats {
    /// None.
    #[default]
    None,
    /// A line of what was done.
    Line,
    /// In front of that the lines of rsync.
    Block,
}
