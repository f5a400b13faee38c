//! Looks up directories and their entries before the listing reaches them, on threads that have
//! time for it.

use super::{DirState, Receiver, RecvDir};
use crate::dirs::DirNode;
use crate::prefetch::{Names, Prefetched};
use haul_model::{Kind, MAX_DEPTH, Name};
use haul_proto::ListItem;
use haul_tree::Meta;
use std::collections::VecDeque;
use std::sync::Arc;

/// Maximum number of directories that were looked up ahead.
const DIRS_MAX: usize = 64;

/// Directories that were looked up ahead, by index, in the order of the listing.
#[derive(Default)]
pub(super) struct Prefetching(VecDeque<(u64, Prefetched)>);

impl Prefetching {
    /// True if there is room for another. Only one thread looks ahead in a listing.
    fn has_room(&self) -> bool {
        self.0.len() < DIRS_MAX
    }

    /// Stores the directory `index`.
    pub(super) fn keep(&mut self, index: u64, prefetched: Prefetched) {
        self.0.push_back((index, prefetched));
    }

    /// Takes out the directory `index`. Those before it are dropped.
    pub(super) fn take(&mut self, index: u64) -> Option<Prefetched> {
        let passed = self.0.iter().take_while(|(at, _)| *at < index).count();
        self.0.drain(..passed);
        let is_next = self.0.front().is_some_and(|(at, _)| *at == index);
        if is_next { self.0.pop_front().map(|(_, prefetched)| prefetched) } else { None }
    }
}

/// Follows a listing from a wire, on the thread that decodes it for the lister, and finds the
/// directories to look up ahead. It checks no rules: the lister refuses items that break one.
#[derive(Default)]
pub(super) struct Scout {
    /// The number of entries so far: they are numbered from 1.
    passed: u64,
    /// The open directories after the last part: their indexes, and their nodes if found.
    open: Vec<(u64, Option<Arc<DirNode>>)>,
}

/// A directory that a [`Scout`] reaches.
pub(super) struct Ahead<'i> {
    number: u64,
    /// The index of the parent, and its node if it was found.
    above: u64,
    parent: Option<Arc<DirNode>>,
    /// The name; `None` for the destination itself.
    name: Option<&'i Name>,
    /// The items after it in this part.
    behind: &'i [ListItem],
}

impl Scout {
    /// Processes the next part. `look` is called for each directory, and returns its node.
    pub(super) fn pass(
        &mut self,
        items: &[ListItem],
        look: impl Fn(Ahead<'_>) -> Option<Arc<DirNode>>,
    ) {
        for (at, item) in items.iter().enumerate() {
            match item {
                ListItem::Entry { dir, entry } => {
                    self.passed += 1;
                    if entry.kind == Kind::Dir && self.open.len() < MAX_DEPTH {
                        let last = self.open.last().filter(|(number, _)| number == dir);
                        let parent = last.and_then(|(_, node)| node.clone());
                        let (name, behind) = (entry.name.as_ref(), &items[at + 1..]);
                        let number = self.passed;
                        let node = look(Ahead { number, above: *dir, parent, name, behind });
                        self.open.push((number, node));
                    }
                }
                ListItem::Rival(_) | ListItem::Fault { .. } => self.passed += 1,
                ListItem::DirEnd { dir } => {
                    self.open.pop_if(|(number, _)| number == dir);
                }
                _ => {}
            }
        }
    }
}

impl<'i> Ahead<'i> {
    /// The names of its entries in this part that are no directories.
    fn names(&self) -> impl Iterator<Item = &'i Name> + use<'i> {
        let in_it = self.behind.iter().map_while(|item| match item {
            ListItem::Entry { entry, .. } if entry.kind != Kind::Dir => Some(entry.name.as_ref()),
            ListItem::Rival(rival) => Some(rival.entry.name.as_ref()),
            ListItem::Entry { .. } | ListItem::DirEnd { .. } => None,
            _ => Some(None),
        });
        in_it.flatten()
    }
}

impl Receiver<'_> {
    /// See [`ReceiverPort::prefetch`](crate::link::ReceiverPort::prefetch).
    pub(super) fn prefetch_dir(
        &self,
        above: u64,
        name: &Name,
        entries: &mut Names<'_>,
    ) -> Option<Prefetched> {
        self.prefetch_child(above, &self.listed_dir(above)?, name, entries)
    }

    /// Looks up a directory of the listing, and stores the result for the lister.
    pub(super) fn prefetch_listed(&self, dir: Ahead<'_>) -> Option<Arc<DirNode>> {
        if self.job.is_ending() || !self.listing.lock().prefetching.has_room() {
            return None;
        }
        let names = dir.names();
        let Ahead { number, above, parent, name, .. } = dir;
        let parent = parent.or_else(|| self.listed_dir(above))?;
        let Some(name) = name else { return Some(parent) };
        let found = self.prefetch_child(above, &parent, name, names)?;
        let node = Arc::clone(found.dir());
        self.listing.lock().prefetching.keep(number, found);
        Some(node)
    }

    /// The open directory `number` of the listing, if it existed before the job.
    fn listed_dir(&self, number: u64) -> Option<Arc<DirNode>> {
        let open = self.listing.lock().open.iter().find(|(at, _)| *at == number)?.1.clone();
        match &open.state {
            // A directory that the job created holds only entries of the job.
            DirState::Open(node) if !open.fresh => Some(Arc::clone(node)),
            _ => None,
        }
    }

    /// Looks up the directory `name` in `parent`, whose index is `above`, and `entries` in it.
    fn prefetch_child<'n>(
        &self,
        above: u64,
        parent: &Arc<DirNode>,
        name: &Name,
        entries: impl Iterator<Item = &'n Name>,
    ) -> Option<Prefetched> {
        // A job that removes sources looks at the last moment.
        let is_useful = self.job.ends.reads_cheaply
            && !self.job.copies_nothing()
            && !self.job.only_removes()
            && self.job.plan.moving.is_none();
        if !is_useful || (above == 0 && self.job.rename.is_some()) {
            return None;
        }
        let node = DirNode::open(parent, name.clone(), false).ok()?;
        let handle = node.handle().ok()?;
        // An entry of another name may be published in the place of one that was looked up.
        if !handle.has_distinct_names() {
            return None;
        }
        let look = |name: &Name| self.job.stat_entry(&*handle, name).ok()?;
        Some(Prefetched::of(Arc::clone(&node), entries, look))
    }
}

impl RecvDir {
    /// The metadata of `name` that was looked up ahead, if any.
    pub(super) fn prefetched(&self, name: &Name) -> Option<Meta> {
        self.prefetched.lock().as_mut()?.take(name)
    }

    /// Drops the looked-up metadata, once all these entries were listed.
    pub(super) fn forget_prefetched(&self) {
        *self.prefetched.lock() = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dirs::OpenDirs;
    use haul_model::{Attributes, Entry, Fault, FaultKind, Side, Timestamp, escape_bytes};
    use haul_tree::{LocalTree, Tree};
    use std::cell::RefCell;
    use std::os::unix::ffi::OsStrExt;

    const FILE: Kind = Kind::File { size: 1 };

    fn item(dir: u64, name: &str, kind: Kind) -> ListItem {
        let attributes = Attributes::new(0o600, Timestamp { secs: 0, nanos: 0 });
        let name = (!name.is_empty()).then(|| Name::new(name.as_bytes()).unwrap());
        ListItem::Entry { dir, entry: Entry::new(name, kind, attributes) }
    }

    #[test]
    fn directories_get_the_numbers_and_places_of_the_listing() {
        let temp = tempfile::tempdir().unwrap();
        let dir = LocalTree::PLAIN.open(temp.path().as_os_str().as_bytes()).unwrap();
        let root = DirNode::root(dir, None, &Arc::new(OpenDirs::default())).unwrap();
        let fault = Fault::new(Side::Source, FaultKind::Io, "can't read");
        let parts = [
            vec![
                item(0, "", Kind::Dir),
                item(1, "a", FILE),
                ListItem::Fault { dir: 1, name: b"b".to_vec(), fault },
                item(1, "sub", Kind::Dir),
                item(4, "c", FILE),
                item(4, "d", FILE),
            ],
            vec![
                item(4, "e", FILE),
                item(4, "below", Kind::Dir),
                ListItem::DirEnd { dir: 8 },
                ListItem::DirEnd { dir: 4 },
                item(1, "z", Kind::Dir),
                item(9, "f", FILE),
                item(9, "g", Kind::Dir),
            ],
        ];
        let seen = RefCell::new(Vec::new());
        let mut scout = Scout::default();
        for part in &parts {
            scout.pass(part, |dir| {
                let names =
                    dir.names().map(|name| escape_bytes(name.as_bytes())).collect::<Vec<_>>();
                let name = dir.name.map(|name| escape_bytes(name.as_bytes())).unwrap_or_default();
                seen.borrow_mut().push(format!(
                    "{} {name} in {} {}: {}",
                    dir.number,
                    dir.above,
                    dir.parent.is_some(),
                    names.join(" ")
                ));
                (dir.number != 4).then(|| Arc::clone(&root))
            });
        }
        let expected = [
            "1  in 0 false: a",
            "4 sub in 1 true: c d",
            "8 below in 4 false: ",
            "9 z in 1 true: f",
            "11 g in 9 true: ",
        ];
        assert_eq!(seen.into_inner(), expected);
    }
}
