//! The numbers under which files with several names are listed.
//!
//! A number is kept even after all names of its file were listed. The walk may reach the file again
//! through a followed link, another source or another mount. It must not get a second number.

use crate::memory_budget::MemoryBudget;
use haul_model::{Fault, FileId, Side};
use std::collections::HashMap;
use std::mem::size_of;
use std::num::NonZeroU64;

/// Maximum memory per file, in bytes. A table that has just grown uses seven of sixteen places,
/// with one control byte each. While it grows, the old table exists too.
const COST: u64 = (size_of::<(FileId, u64)>() as u64 + 1) * 16 / 7 * 3 / 2;

/// The numbers of the files.
pub(super) struct Groups {
    numbers: HashMap<FileId, u64>,
    memory_budget: MemoryBudget,
}

impl Groups {
    /// An empty table, with memory for `memory_max` bytes.
    pub(super) fn of(memory_max: Option<NonZeroU64>) -> Self {
        Self { numbers: HashMap::new(), memory_budget: MemoryBudget::of(memory_max) }
    }

    /// The number of an object with several names; 0 without an object.
    ///
    /// # Errors
    /// When the table is full.
    pub(super) fn number(&mut self, id: Option<FileId>) -> Result<u64, Fault> {
        let Some(id) = id else { return Ok(0) };
        if let Some(number) = self.numbers.get(&id) {
            return Ok(*number);
        }
        if !self.memory_budget.take(COST) {
            return Err(self.memory_budget.fault(Side::Source));
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
    fn a_file_beyond_the_bound_is_refused_and_the_others_keep_their_numbers() {
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
    fn a_million_files_need_less_than_half_of_the_default_memory() {
        let mut memory_budget = MemoryBudget::of(None);
        assert!(memory_budget.take(2 * COST * 1_000_000));
    }
}
