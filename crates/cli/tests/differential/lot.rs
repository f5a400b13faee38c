//! Draws by lot, all of which follow from a seed.

use haul_testkit::content::Stream;

/// A stream of draws.
pub(crate) struct Lot(Stream);

impl Lot {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Stream::new(seed))
    }

    /// A number below `bound`, which must not be zero.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.0.below(bound as u64)).expect("it is below one that is a usize")
    }

    /// True so many times of a hundred.
    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of `all`, of which there is at least one.
    pub(crate) fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}
