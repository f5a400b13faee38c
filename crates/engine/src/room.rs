//! The memory that each role has for the hard links of a job: all files of several names are
//! kept in mind until it ends, for any of them may get another name. What does not fit in is
//! a fault of its entry, for a file of its own in the place of a hard link is no copy.

use haul_model::{Fault, FaultKind, Side};
use std::num::NonZeroU64;

/// Bytes that a role takes for that, at most, unless the job says otherwise. A million files
/// of several names in some ten thousand directories fit in, and the process stays below
/// 200 MiB.
const LINKS_MEMORY_MAX: u64 = 176 << 20;

/// The bytes of an allocation besides its own, the least of both, and its steps, as in glibc.
const ALLOCATED_EXTRA: u64 = 8;
const ALLOCATED_MIN: u64 = 32;
const ALLOCATED_STEP: u64 = 16;

/// Bytes that are taken of those that may be.
pub(crate) struct Room {
    taken: u64,
    max: u64,
}

impl Room {
    /// None is taken of `max` bytes.
    pub(crate) fn of(max: Option<NonZeroU64>) -> Self {
        Self { taken: 0, max: max.map_or(LINKS_MEMORY_MAX, NonZeroU64::get) }
    }

    /// Takes `bytes` where there are as many. False if there are not.
    pub(crate) fn take(&mut self, bytes: u64) -> bool {
        let has_room = self.taken + bytes <= self.max;
        if has_room {
            self.taken += bytes;
        }
        has_room
    }

    /// Takes `bytes` that come along with others, even if these are the last.
    pub(crate) fn take_along(&mut self, bytes: u64) {
        self.taken += bytes;
    }

    /// Gives back what was taken.
    pub(crate) fn give_back(&mut self, bytes: u64) {
        self.taken -= bytes;
    }

    /// The fault of a name that is one too many.
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
    fn what_does_not_fit_in_is_refused_until_there_is_room_again() {
        let mut room = Room::of(NonZeroU64::new(100));
        assert!(room.take(60));
        assert!(!room.take(41));
        assert!(room.take(40));
        assert!(!room.take(1));
        room.give_back(60);
        assert!(room.take(60));
        room.take_along(10);
        room.give_back(60);
        assert!(!room.take(51));
        assert!(room.take(50));
    }

    #[test]
    fn the_fault_says_how_much_there_is() {
        let message = |max| Room::of(max).fault(Side::Source).message;
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
