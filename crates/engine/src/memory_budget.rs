//! Bounds the memory of each role for a job's hard links. Files with several names are stored until
//! the job ends, because another name of each may follow. An entry beyond the bound fails: a
//! separate file would not be a copy of a hard link.

use haul_model::{Fault, FaultKind, Side};
use std::num::NonZeroU64;

/// The default bound, in bytes per role. A million files with several names in about ten thousand
/// directories fit in, and the process stays below 200 MiB.
const LINKS_MEMORY_MAX: u64 = 176 << 20;

/// The overhead of an allocation in bytes, its minimum size, and its alignment, as in glibc.
const ALLOCATED_EXTRA: u64 = 8;
const ALLOCATED_MIN: u64 = 32;
const ALLOCATED_STEP: u64 = 16;

/// The bytes in use, and their bound.
pub(crate) struct MemoryBudget {
    taken: u64,
    max: u64,
}

impl MemoryBudget {
    /// Room for `max` bytes, or for the default.
    pub(crate) fn of(max: Option<NonZeroU64>) -> Self {
        Self { taken: 0, max: max.map_or(LINKS_MEMORY_MAX, NonZeroU64::get) }
    }

    /// Takes `bytes` if they are free. Returns false otherwise.
    pub(crate) fn take(&mut self, bytes: u64) -> bool {
        let has_room = self.taken + bytes <= self.max;
        if has_room {
            self.taken += bytes;
        }
        has_room
    }

    /// Takes `bytes` that belong to others that were taken, even beyond the bound.
    pub(crate) fn take_beyond_limit(&mut self, bytes: u64) {
        self.taken += bytes;
    }

    /// Gives back what was taken.
    pub(crate) fn release(&mut self, bytes: u64) {
        self.taken -= bytes;
    }

    /// The fault of a name beyond the bound.
    pub(crate) fn fault(&self, side: Side) -> Fault {
        let max = match self.max >> 20 {
            0 => format!("{} bytes", self.max),
            mib => format!("{mib} MiB"),
        };
        let message = format!(
            "its hard links can't be preserved: those of this job need more than {max} of memory; copy in parts, or without hard links"
        );
        Fault::new(side, FaultKind::Io, message)
    }
}

/// The cost of an allocation of `len` bytes.
pub(crate) const fn allocated(len: usize) -> u64 {
    let len = (len as u64 + ALLOCATED_EXTRA).next_multiple_of(ALLOCATED_STEP);
    if len < ALLOCATED_MIN { ALLOCATED_MIN } else { len }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_beyond_the_bound_are_refused_until_others_are_given_back() {
        let mut memory_budget = MemoryBudget::of(NonZeroU64::new(100));
        assert!(memory_budget.take(60));
        assert!(!memory_budget.take(41));
        assert!(memory_budget.take(40));
        assert!(!memory_budget.take(1));
        memory_budget.release(60);
        assert!(memory_budget.take(60));
        memory_budget.take_beyond_limit(10);
        memory_budget.release(60);
        assert!(!memory_budget.take(51));
        assert!(memory_budget.take(50));
    }

    #[test]
    fn the_fault_names_the_bound() {
        let message = |max| MemoryBudget::of(max).fault(Side::Source).message;
        assert!(message(None).contains("need more than 176 MiB of memory"), "{}", message(None));
        let few = message(NonZeroU64::new(1000));
        assert!(few.contains("need more than 1000 bytes of memory"), "{few}");
    }

    #[test]
    fn allocations_cost_what_the_allocator_takes() {
        let costs = [0, 1, 24, 25, 40, 41, 255].map(allocated);
        assert_eq!(costs, [32, 32, 32, 48, 48, 64, 272]);
    }
}
