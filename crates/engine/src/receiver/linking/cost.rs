//! The memory, in bytes, for files with several names. Names that wait for the first one's outcome
//! are not counted: they have no outcome, so the listing window bounds them.

use super::{First, Group, Place};
use crate::dirs::DirNode;
use crate::memory_budget::allocated;
use crate::receiver::RecvDir;
use crate::receiver::publish::waiting::WaitingFile;
use haul_model::{FileId, Name};
use std::mem::size_of;

/// Places paid for each used place in the nodes of a B-tree. At least five of eleven are used, and
/// the nodes also have counts and edges.
const PLACES: u64 = 3;

/// One object, in a comparison.
pub(super) const OF_OBJECT: u64 = PLACES * size_of::<(u64, Option<FileId>)>() as u64;

/// An object in a hash set, with the table's control byte for each place. At least three eighths of
/// the places are used. While the table grows, the old one of half the size exists, too.
const OF_CLAIMED: u64 = 4 * (size_of::<FileId>() as u64 + 1);

/// A first name, without its directory. `waits`: it waits for the end of the job.
pub(super) fn of_first(name: &Name, waits: bool) -> u64 {
    let place = PLACES * size_of::<(u64, Group)>() as u64;
    let waits = if waits { allocated(size_of::<WaitingFile>()) + OF_CLAIMED } else { 0 };
    place + allocated(size_of::<First>()) + of_name(name) + waits
}

/// The directory of a first name and its parents, each counted once: they live as long as the name.
pub(super) fn of_place(place: &Place) -> u64 {
    match place {
        Place::Existing(node) => of_nodes(node),
        Place::Absent(dir) => of_dirs(dir),
    }
}

fn of_nodes(node: &DirNode) -> u64 {
    let mut cost = 0;
    let mut next = Some(node);
    while let Some(node) = next.filter(|node| node.count_once()) {
        cost += shared::<DirNode>() + node.place().map_or(0, |(_, name)| of_name(name));
        next = node.place().map(|(above, _)| &**above);
    }
    cost
}

/// A `RecvDir` also stores its listed name, and the last three names listed in it.
fn of_dirs(dir: &RecvDir) -> u64 {
    let mut cost = 0;
    let mut next = Some(dir);
    while let Some(dir) = next.filter(|dir| dir.count_once()) {
        cost += shared::<RecvDir>() + dir.shown.as_ref().map_or(0, of_name);
        cost += 3 * allocated(haul_model::MAX_NAME_LEN);
        next = dir.parent.as_deref();
    }
    cost
}

fn of_name(name: &Name) -> u64 {
    allocated(name.as_bytes().len())
}

/// A value behind an `Arc`, with both counts.
const fn shared<T>() -> u64 {
    allocated(size_of::<T>() + 2 * size_of::<usize>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dirs::{DirNode, OpenDirs};
    use crate::memory_budget::MemoryBudget;
    use crate::receiver::dirs::DirState;
    use std::os::unix::ffi::OsStrExt;
    use std::sync::Arc;

    fn name(text: &str) -> Name {
        Name::new(text.as_bytes()).expect("a name")
    }

    #[test]
    fn a_name_costs_more_the_longer_it_is() {
        let of_first = |len| of_first(&name(&"a".repeat(len)), false);
        let (short, long) = (of_first(1), of_first(255));
        assert_eq!(long - short, 240);
        assert!(short >= size_of::<First>() as u64 + size_of::<(u64, Group)>() as u64);
    }

    #[test]
    fn a_directory_and_its_parents_are_counted_once() {
        let temp = tempfile::tempdir().expect("a directory");
        std::fs::create_dir_all(temp.path().join("a/b")).expect("made");
        let tree = haul_tree::local_tree(false, false, haul_sys::Links::All);
        let root = tree.open(temp.path().as_os_str().as_bytes()).expect("opened");
        let root = DirNode::root(root, None, &Arc::new(OpenDirs::default())).expect("a root");
        let above = DirNode::open(&root, name("a"), false).expect("opened");
        let dir = DirNode::open(&above, name("b"), false).expect("opened");
        let place = Place::Existing(dir);
        let each = shared::<DirNode>();
        assert_eq!(of_place(&place), 3 * each + 2 * of_name(&name("a")));
        assert_eq!(of_place(&place), 0);
        let beside = DirNode::open(&root, name("a"), false).expect("opened");
        assert_eq!(of_place(&Place::Existing(beside)), each + of_name(&name("a")));

        let root = RecvDir::new(None, None, DirState::Absent, false, None);
        let dir = RecvDir::new(Some(root), Some(name("a")), DirState::Absent, false, None);
        let place = Place::Absent(dir);
        assert!(of_place(&place) > 2 * shared::<RecvDir>());
        assert_eq!(of_place(&place), 0);
    }

    #[test]
    fn a_million_hard_linked_files_fit() {
        let mut memory_budget = MemoryBudget::of(None);
        let dirs = 20_000 * (shared::<DirNode>() + of_name(&name("a directory of some name")));
        let each = of_first(&name("name_of_some_24_letters_"), false);
        assert!(memory_budget.take(1_000_000 * each + dirs), "{each} each, and {dirs}");
    }
}
