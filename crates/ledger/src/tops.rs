//! The directories at the top of the sources, by their objects. If a host has restarted, its file
//! system may not be mounted yet: then another object has the name, and all would count as extras.

use super::position::Keys;
use haul_model::Task;
use rustc_hash::FxHashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

/// Maximum number of directories whose objects are recorded.
const TOPS_MAX: usize = 1 << 16;

/// The objects of the directories at the top of the sources.
#[derive(Debug, Default)]
pub(crate) struct Tops {
    /// The key of the sources that they are from: of this job, or of earlier parts of a mirror.
    sources: u64,
    /// The objects, by the keys of their entries.
    objects: FxHashMap<u64, u64>,
    /// An earlier run listed them, or the part of the mirror before this one, which removes extras.
    compares: bool,
    /// Extras are removed.
    removes_extras: bool,
    /// This run has listed another object than before.
    pub(crate) has_other: bool,
}

impl Tops {
    /// Prepares for a job with `task` and these sources. Only parts of one mirror that remove
    /// extras are compared with one another.
    pub(crate) fn begin(&mut self, task: &Task, paths: &[Vec<u8>], base: Option<&[u8]>) {
        let removes_extras = task.mirrors().is_some_and(|mirror| mirror.delete.is_some());
        let by = BuildHasherDefault::<DefaultHasher>::default();
        let sources = by.hash_one((paths, base));
        let mut objects = std::mem::take(&mut self.objects);
        // Where sources are removed, directories have other numbers than where they are copied.
        if self.sources != sources || !removes_extras {
            objects.clear();
        }
        let compares = !objects.is_empty();
        *self = Self { sources, objects, compares, removes_extras, has_other: false };
    }

    /// Begins another run of the job.
    pub(crate) fn begin_rerun(&mut self) {
        (self.compares, self.has_other) = (true, false);
    }

    /// Records the object of a directory; 0 if it is unknown. `false` if the job removes extras,
    /// and there was another object before, here or at another top.
    pub(crate) fn is_same(&mut self, keys: Keys, object: u64) -> bool {
        let has_room = self.objects.len() < TOPS_MAX;
        match self.objects.get(&keys.own) {
            _ if object == 0 => {}
            Some(before) => self.has_other |= self.compares && *before != object,
            None if has_room => drop(self.objects.insert(keys.own, object)),
            None => {}
        }
        !(self.has_other && self.removes_extras)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_model::{Delete, Mirror, Policy};

    #[test]
    fn directories_beyond_the_bound_are_not_compared() {
        let delete = Some(Delete { ignore_errors: false });
        let task = Task::Sync(Policy::default(), Mirror { delete, ..Mirror::default() });
        let mut tops = Tops::default();
        tops.begin(&task, &[], None);
        let keys = |n: usize| Keys::of_path(n.to_string().as_bytes());
        assert!((0..=TOPS_MAX).all(|n| tops.is_same(keys(n), 1)));
        tops.begin_rerun();
        assert!(tops.is_same(keys(TOPS_MAX), 2) && !tops.is_same(keys(TOPS_MAX - 1), 2));
    }
}
