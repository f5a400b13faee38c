//! Memory of directories that a helper has read, and that goes back to it.
//!
//! Many allocators, glibc's among them, take what is freed back into the arena of the thread
//! that had it allocated, under the lock of that arena. A helper needs its own all the time:
//! a walk that freed what the helper has made would wait for it again and again.

use super::{Found, PlaceListing, Subdirs};
use crate::dirs::DirNode;
use std::collections::VecDeque;
use std::sync::Arc;

/// Empty lists that are kept, at most.
const LISTS_MAX: usize = 32;

/// Entries that an empty list has room for, beyond which it is not kept.
const ROOM_MAX: usize = 256;

/// Directories that are looked at again for each that comes.
const LOOKS: usize = 4;

/// Directories that are kept, at most: who remembers one for the whole job, as that of a file
/// with further names, frees it then.
const DIRS_MAX: usize = 256;

/// Lists of entries that the walk has emptied.
#[derive(Default)]
pub(super) struct Emptied(Vec<Vec<Found>>);

impl Emptied {
    pub(super) fn keep(&mut self, list: Vec<Found>) {
        debug_assert!(list.is_empty(), "an entry would be listed in another directory");
        if self.0.len() < LISTS_MAX && list.capacity() <= ROOM_MAX {
            self.0.push(list);
        }
    }

    pub(super) fn take(&mut self) -> Option<Vec<Found>> {
        self.0.pop()
    }
}

/// Directories that a helper has read, until nobody else has anything of them, or there are
/// too many.
#[derive(Default)]
pub(super) struct Made(VecDeque<Parts>);

/// The memory of one directory that a helper has read, but for its entries.
struct Parts {
    subdirs: Arc<Subdirs>,
    /// The directory at the destination.
    there: Option<Arc<DirNode>>,
}

impl Made {
    /// Keeps what was made for `listed`, and frees some of what others are done with.
    pub(super) fn keep(&mut self, listed: &PlaceListing) {
        for _ in 0..LOOKS {
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
    /// True if somebody else has one of them.
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

    /// A directory that a helper has read, with nothing in it.
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
            is_way: false,
            entries: Vec::new(),
            missing: Vec::new(),
            faults: Vec::new(),
            is_closed: false,
            subdirs: Arc::new(subdirs),
            prefetched: None,
        }
    }

    #[test]
    fn what_others_have_is_kept_until_they_are_done_with_it() {
        let mut made = Made::default();
        let used = listed();
        let (node, subdirs) = (used.node.clone().unwrap(), Arc::downgrade(&used.subdirs));
        made.keep(&used);
        drop(used);
        let weak = Arc::downgrade(&node);
        made.keep(&listed());
        assert!(subdirs.upgrade().is_some(), "its node is in use");
        drop(node);
        assert!(weak.upgrade().is_some(), "others free nothing");
        made.keep(&listed());
        assert!(weak.upgrade().is_none() && subdirs.upgrade().is_none());
        for _ in 0..100 {
            made.keep(&listed());
        }
        assert!(made.0.len() <= 2, "directories that nobody has are kept");
    }

    #[test]
    fn what_others_have_for_long_is_not_kept_with_it() {
        let (mut made, used) = (Made::default(), listed());
        for _ in 0..DIRS_MAX * 2 {
            made.keep(&used);
        }
        assert_eq!(made.0.len(), DIRS_MAX);
    }

    #[test]
    fn empty_lists_are_kept_within_bounds() {
        let mut emptied = Emptied::default();
        emptied.keep(Vec::with_capacity(ROOM_MAX + 1));
        assert!(emptied.take().is_none(), "it is as large as a large directory");
        for _ in 0..=LISTS_MAX {
            emptied.keep(Vec::with_capacity(ROOM_MAX));
        }
        assert_eq!(emptied.0.len(), LISTS_MAX);
        assert_eq!(emptied.take().map(|list| list.capacity()), Some(ROOM_MAX));
    }
}
