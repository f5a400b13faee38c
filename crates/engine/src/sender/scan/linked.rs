//! Numbers of the files of several names that a walk has come to.
//!
//! None is forgotten when as many names were listed as it has: the walk may come to it once
//! more, by a link that is followed, another source or another mount, and would take it for
//! another file.

use crate::room::Room;
use haul_model::{Fault, FileId, Side};
use std::collections::HashMap;
use std::mem::size_of;
use std::num::NonZeroU64;

/// The most that one costs: a table is half as full as it may be when it has grown (seven of
/// sixteen places, with a byte each), and while it grows the old one is there as well.
const COST: u64 = (size_of::<(FileId, u64)>() as u64 + 1) * 16 / 7 * 3 / 2;

/// Those that are kept as such.
pub(super) struct Groups {
    numbers: HashMap<FileId, u64>,
    room: Room,
}

impl Groups {
    /// None yet, in a job with memory for so many bytes of them.
    pub(super) fn of(memory_max: Option<NonZeroU64>) -> Self {
        Self { numbers: HashMap::new(), room: Room::of(memory_max) }
    }

    /// The number by which an object with several names is listed, 0 where none is given.
    ///
    /// # Errors
    /// When there are too many.
    pub(super) fn number(&mut self, id: Option<FileId>) -> Result<u64, Fault> {
        let Some(id) = id else { return Ok(0) };
        if let Some(number) = self.numbers.get(&id) {
            return Ok(*number);
        }
        if !self.room.take(COST) {
            return Err(self.room.fault(Side::Source));
        }
        let number = self.numbers.len() as u64 + 1;
        self.numbers.insert(id, number);
        Ok(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_one_too_many_is_refused_and_the_others_keep_their_numbers() {
        let id = |ino| Some(FileId { dev: 1, ino });
        let mut groups = Groups::of(NonZeroU64::new(3 * COST));
        for ino in [10, 20, 30] {
            assert_eq!(groups.number(id(ino)).ok(), Some(ino / 10));
        }
        assert!(groups.number(id(40)).is_err());
        assert_eq!(groups.number(id(20)).ok(), Some(2));
        assert!(groups.number(id(40)).is_err());
        assert_eq!(groups.number(None).ok(), Some(0));
    }

    #[test]
    fn a_million_cost_less_than_half_of_what_there_is() {
        let mut room = Room::of(None);
        assert!(room.take(2 * COST * 1_000_000));
    }
}
