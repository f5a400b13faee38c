//! Metadata of the destination that is looked up before the listing comes to it: by the
//! helpers of a walk, where both roles are in one process and the comparing is behind.

use crate::dirs::DirNode;
use haul_model::Name;
use haul_tree::Meta;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// For how long it is believed. A job that waits, for room or for a slow disk, looks again.
const AGE_MAX: Duration = Duration::from_secs(1);

/// A directory of the destination, and what was found in it.
pub(crate) struct Prefetched {
    node: Arc<DirNode>,
    /// The names of `metas` one behind the other, in the order of the listing.
    names: Vec<u8>,
    /// Where the first name begins that was not asked for yet.
    at: usize,
    /// What is there under each name, and where that name ends.
    metas: std::vec::IntoIter<(usize, Meta)>,
    since: Instant,
}

impl Prefetched {
    /// What `look` finds in `node` under each of `names`, which come in their order. What it
    /// doesn't find is not kept: it will be looked up when it is needed.
    pub(crate) fn of<'n>(
        node: Arc<DirNode>,
        names: impl Iterator<Item = &'n Name>,
        look: impl Fn(&Name) -> Option<Meta>,
    ) -> Self {
        let since = Instant::now();
        let (mut bytes, mut metas) = (Vec::new(), Vec::with_capacity(names.size_hint().0));
        for name in names {
            if let Some(meta) = look(name) {
                bytes.extend_from_slice(name.as_bytes());
                metas.push((bytes.len(), meta));
            }
        }
        Self { node, names: bytes, at: 0, metas: metas.into_iter(), since }
    }

    /// The directory.
    pub(crate) fn dir(&self) -> &Arc<DirNode> {
        &self.node
    }

    /// True if the directory is `name` in `parent`, and was looked at a moment ago.
    pub(crate) fn is_of(&self, parent: &Arc<DirNode>, name: &Name) -> bool {
        let is_there = |(above, own)| Arc::ptr_eq(above, parent) && own == name;
        self.is_recent() && self.node.place().is_some_and(is_there)
    }

    /// What was found under `name` a moment ago. Names are asked for in their order, each
    /// once.
    pub(crate) fn take(&mut self, name: &Name) -> Option<Meta> {
        while let Some((end, _)) = self.metas.as_slice().first() {
            let order = self.names[self.at..*end].cmp(name.as_bytes());
            if order.is_gt() {
                return None;
            }
            let (end, meta) = self.metas.next()?;
            self.at = end;
            if order.is_eq() {
                return self.is_recent().then_some(meta);
            }
        }
        None
    }

    fn is_recent(&self) -> bool {
        self.since.elapsed() < AGE_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dirs::OpenDirs;
    use haul_tree::{LocalTree, MetaKind, Tree};
    use std::fs;
    use std::os::unix::ffi::OsStrExt;

    fn name(text: &str) -> Name {
        Name::new(text.as_bytes()).unwrap()
    }

    /// What is found in a directory with a file for each of `there`, as long as its name,
    /// and nothing under those that begin with "no".
    fn found(there: &[&str]) -> Prefetched {
        let temp = tempfile::tempdir().unwrap();
        let dir = LocalTree.open(temp.path().as_os_str().as_bytes()).unwrap();
        for name in there.iter().filter(|name| !name.starts_with("no")) {
            fs::write(temp.path().join(name), name).unwrap();
        }
        let node = DirNode::root(dir, None, &Arc::new(OpenDirs::default())).unwrap();
        let names: Vec<_> = there.iter().map(|there| name(there)).collect();
        let handle = node.handle().unwrap();
        Prefetched::of(Arc::clone(&node), names.iter(), |name| handle.stat(name, false).unwrap())
    }

    fn size(meta: Option<Meta>) -> Option<u64> {
        match meta?.kind {
            MetaKind::File { size } => Some(size),
            _ => None,
        }
    }

    #[test]
    fn each_name_has_what_was_found_under_it_also_where_others_are_left_out() {
        let mut ahead = found(&["a", "bb", "ccc", "none", "ooooo", "zz"]);
        let mut take = |text| size(ahead.take(&name(text)));
        assert_eq!(take("0"), None);
        assert_eq!(take("a"), Some(1));
        assert_eq!(take("ccc"), Some(3));
        assert_eq!(take("bb"), None, "it is behind");
        assert_eq!(take("none"), None);
        assert_eq!(take("oo"), None);
        assert_eq!(take("ooooo"), Some(5));
        assert_eq!(take("zz"), Some(2));
        assert_eq!(take("zz"), None, "it is asked for once");
    }

    #[test]
    fn what_was_found_long_ago_is_not_believed() {
        let mut ahead = found(&["a", "bb"]);
        assert_eq!(size(ahead.take(&name("a"))), Some(1));
        ahead.since = Instant::now().checked_sub(AGE_MAX).unwrap();
        assert_eq!(size(ahead.take(&name("bb"))), None);
    }
}
