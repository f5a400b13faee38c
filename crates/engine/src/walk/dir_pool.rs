//! Memory of directories that a helper has read, returned to that helper.
//!
//! Many allocators, including glibc's, return freed memory to the arena of the allocating thread,
//! under that arena's lock. A helper needs its arena all the time. If the walk freed a helper's
//! memory, it would wait for that lock again and again.

use super::{Found, PlaceListing, Subdirs};
use crate::dirs::DirNode;
use std::collections::VecDeque;
use std::sync::Arc;

/// The most empty lists that are kept.
const LISTS_MAX: usize = 32;

/// The capacity beyond which an empty list is not kept.
const CAPACITY_MAX: usize = 256;

/// Kept directories that are checked for each new one.
const CHECKS: usize = 4;

/// The most directories that are kept. If a directory is used for the whole job, as for a file with
/// several names, its user frees it.
const DIRS_MAX: usize = 256;

/// Lists of entries that the walk has emptied.
#[derive(Default)]
pub(super) struct ListPool(Vec<Vec<Found>>);

impl ListPool {
    pub(super) fn keep(&mut self, list: Vec<Found>) {
        debug_assert!(list.is_empty(), "an entry would be listed in another directory");
        if self.0.len() < LISTS_MAX && list.capacity() <= CAPACITY_MAX {
            self.0.push(list);
        }
    }

    pub(super) fn take(&mut self) -> Option<Vec<Found>> {
        self.0.pop()
    }
}

/// Directories that a helper has read, until no other thread uses them or there are too many.
#[derive(Default)]
pub(super) struct DirPool(VecDeque<Parts>);

/// The memory of one directory that a helper has read, without its entries.
struct Parts {
    subdirs: Arc<Subdirs>,
    /// The directory at the destination.
    there: Option<Arc<DirNode>>,
}

impl DirPool {
    /// Keeps the memory of `listed`, and frees some that other threads no longer use.
    pub(super) fn keep(&mut self, listed: &PlaceListing) {
        for _ in 0..CHECKS {
            let Some(parts) = self.0.pop_front() else { break };
            if parts.are_in_use() {
                self.0.push_back(parts);
            }
        }
        let there = listed.prefetched.as_ref().map(|ahead| Arc::clone(ahead.dir()));
        self.0.push_back(Parts { subdirs: Arc::clone(&listed.subdirs), there });
        if self.0.len() > DIRS_MAX {
            self.0.pop_front();
        }
    }
}

impl Parts {
    /// True if another thread uses one of them.
    fn are_in_use(&self) -> bool {
        let layers = self.subdirs.merged.layers.iter().map(|layer| &layer.node);
        let is_shared = |node: &Arc<DirNode>| Arc::strong_count(node) > 1;
        Arc::strong_count(&self.subdirs) > 1 || layers.chain(&self.there).any(is_shared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dirs::OpenDirs;
    use crate::walk::{Depth, Merged};
    use haul_tree::{LocalTree, Tree};
    use std::os::unix::ffi::OsStrExt;
    use std::sync::OnceLock;

    /// An empty directory that a helper has read.
    fn listed() -> PlaceListing {
        let temp = tempfile::tempdir().unwrap();
        let dir = LocalTree::PLAIN.open(temp.path().as_os_str().as_bytes()).unwrap();
        let node = DirNode::root(dir, None, &Arc::new(OpenDirs::default())).unwrap();
        let subdirs = Subdirs {
            merged: Merged::of(Arc::clone(&node), Depth::Open),
            names: Vec::new(),
            from: Vec::new(),
            number: 1,
            listed_as: OnceLock::new(),
        };
        PlaceListing {
            node: Some(node),
            is_implied_dir: false,
            entries: Vec::new(),
            missing: Vec::new(),
            faults: Vec::new(),
            is_closed: false,
            subdirs: Arc::new(subdirs),
            prefetched: None,
        }
    }

    #[test]
    fn memory_in_use_is_kept_until_its_users_are_done() {
        let mut dir_pool = DirPool::default();
        let used = listed();
        let (node, subdirs) = (used.node.clone().unwrap(), Arc::downgrade(&used.subdirs));
        dir_pool.keep(&used);
        drop(used);
        let weak = Arc::downgrade(&node);
        dir_pool.keep(&listed());
        assert!(subdirs.upgrade().is_some(), "its node is in use");
        drop(node);
        assert!(weak.upgrade().is_some(), "others free nothing");
        dir_pool.keep(&listed());
        assert!(weak.upgrade().is_none() && subdirs.upgrade().is_none());
        for _ in 0..100 {
            dir_pool.keep(&listed());
        }
        assert!(dir_pool.0.len() <= 2, "directories that nobody has are kept");
    }

    #[test]
    fn the_number_of_kept_directories_is_bounded() {
        let (mut dir_pool, used) = (DirPool::default(), listed());
        for _ in 0..DIRS_MAX * 2 {
            dir_pool.keep(&used);
        }
        assert_eq!(dir_pool.0.len(), DIRS_MAX);
    }

    #[test]
    fn empty_lists_are_kept_within_bounds() {
        let mut emptied = ListPool::default();
        emptied.keep(Vec::with_capacity(CAPACITY_MAX + 1));
        assert!(emptied.take().is_none(), "it is as large as a large directory");
        for _ in 0..=LISTS_MAX {
            emptied.keep(Vec::with_capacity(CAPACITY_MAX));
        }
        assert_eq!(emptied.0.len(), LISTS_MAX);
        assert_eq!(emptied.take().map(|list| list.capacity()), Some(CAPACITY_MAX));
    }
}
