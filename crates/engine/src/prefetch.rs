//! Metadata of the destination that is looked up ahead of the comparison, if that is behind. The
//! helpers of a walk do this if both roles are in one process; otherwise the thread that decodes a
//! listing does.

use crate::dirs::DirNode;
use haul_model::{EXTENDED_LEN_MAX, Extended, Name};
use haul_tree::Meta;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The age at which metadata is no longer used. A job that waits, for room or for a slow disk,
/// looks it up again.
const AGE_MAX: Duration = Duration::from_secs(1);

/// The time after which no further entry of a directory is looked up, because the walk may already
/// wait for it.
const LOOKUP_TIME_MAX: Duration = Duration::from_millis(100);

/// Lookups between two checks of the clock, which are expensive.
const CLOCK_CHECK_EVERY: usize = 4;

/// The most entries of a directory that are looked up.
const ENTRIES_MAX: usize = 2048;

/// Bytes of extended attributes in a directory after which no further entry is looked up.
const EXTENDED_MAX: usize = EXTENDED_LEN_MAX;

/// The names of entries, in order.
pub(crate) type Names<'n> = dyn Iterator<Item = &'n Name> + 'n;

/// A directory of the destination, and the metadata of entries in it.
pub(crate) struct Prefetched {
    node: Arc<DirNode>,
    /// The names of `metas`, concatenated in the order of the listing.
    names: Vec<u8>,
    /// The start of the first name that was not taken yet.
    at: usize,
    /// The end of each name, and its metadata.
    metas: std::vec::IntoIter<(usize, Meta)>,
    /// When the lookups started.
    since: Instant,
}

impl Prefetched {
    /// Calls `look` for each of `names` in `node`, in order. Entries that are not found, or that
    /// exceed a bound, are looked up later in their turn. So are files with several names, because
    /// the job may change them under another name first.
    pub(crate) fn of<'n>(
        node: Arc<DirNode>,
        names: impl Iterator<Item = &'n Name>,
        look: impl Fn(&Name) -> Option<Meta>,
    ) -> Self {
        Self::within(LOOKUP_TIME_MAX, node, names, look)
    }

    fn within<'n>(
        lookup_time_max: Duration,
        node: Arc<DirNode>,
        names: impl Iterator<Item = &'n Name>,
        look: impl Fn(&Name) -> Option<Meta>,
    ) -> Self {
        let since = Instant::now();
        let (mut bytes, mut extended_len) = (Vec::new(), 0);
        let mut metas = Vec::with_capacity(names.size_hint().0.min(ENTRIES_MAX));
        for (nth, name) in names.take(ENTRIES_MAX).enumerate() {
            let is_late = nth % CLOCK_CHECK_EVERY == 0 && since.elapsed() >= lookup_time_max;
            if extended_len > EXTENDED_MAX || is_late {
                break;
            }
            if let Some(meta) = look(name).filter(|meta| meta.links <= 1) {
                extended_len += meta.attributes.extended.as_deref().map_or(0, Extended::len);
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

    /// True if the directory is `name` in `parent`, and was looked up a moment ago. If it was
    /// replaced or changed since, it is opened and looked up again in its turn.
    pub(crate) fn is_of(&self, parent: &Arc<DirNode>, name: &Name) -> bool {
        let is_there = |(above, own)| Arc::ptr_eq(above, parent) && own == name;
        self.is_recent() && self.node.place().is_some_and(is_there) && self.node.is_as_opened()
    }

    /// The recent metadata of `name`. Names must be queried in order, each once.
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
    use haul_model::Xattr;
    use haul_tree::{LocalTree, MetaKind, Tree};
    use std::fs;
    use std::os::unix::ffi::OsStrExt;

    fn name(text: &str) -> Name {
        Name::new(text.as_bytes()).unwrap()
    }

    /// A directory with these files, each as long as its name, and its path.
    fn dir_with(files: &[&str]) -> (tempfile::TempDir, Arc<DirNode>) {
        let temp = tempfile::tempdir().unwrap();
        for name in files {
            fs::write(temp.path().join(name), name).unwrap();
        }
        let dir = LocalTree::PLAIN.open(temp.path().as_os_str().as_bytes()).unwrap();
        let node = DirNode::root(dir, None, &Arc::new(OpenDirs::default())).unwrap();
        (temp, node)
    }

    /// The entries of `node`. `look` may change the result of each lookup.
    fn found(
        node: &Arc<DirNode>,
        names: &[&str],
        look: impl Fn(Option<Meta>) -> Option<Meta>,
    ) -> Prefetched {
        let names: Vec<_> = names.iter().map(|text| name(text)).collect();
        let handle = node.handle().unwrap();
        let look = |name: &Name| look(handle.stat(name, false).unwrap());
        Prefetched::within(Duration::MAX, Arc::clone(node), names.iter(), look)
    }

    fn size(meta: Option<Meta>) -> Option<u64> {
        match meta?.kind {
            MetaKind::File { size } => Some(size),
            _ => None,
        }
    }

    #[test]
    fn each_name_has_its_own_metadata_although_others_are_skipped() {
        let (_temp, node) = dir_with(&["a", "bb", "ccc", "ooooo", "zz"]);
        let mut ahead = found(&node, &["a", "bb", "ccc", "none", "ooooo", "zz"], |meta| meta);
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
    fn old_metadata_is_not_used() {
        let (_temp, node) = dir_with(&["a", "bb"]);
        let mut ahead = found(&node, &["a", "bb"], |meta| meta);
        assert_eq!(size(ahead.take(&name("a"))), Some(1));
        ahead.since = Instant::now().checked_sub(AGE_MAX).unwrap();
        assert_eq!(size(ahead.take(&name("bb"))), None);
    }

    #[test]
    fn a_file_that_may_change_under_another_name_is_looked_up_in_its_turn() {
        let (temp, node) = dir_with(&["a", "bb", "ccc"]);
        fs::hard_link(temp.path().join("bb"), temp.path().join("other")).unwrap();
        let mut ahead = found(&node, &["a", "bb", "ccc"], |meta| meta);
        assert_eq!(size(ahead.take(&name("bb"))), None);
        assert_eq!(size(ahead.take(&name("ccc"))), Some(3));
    }

    #[test]
    fn a_directory_that_was_changed_or_replaced_is_not_used() {
        let (temp, above) = dir_with(&[]);
        let path = temp.path().join("d");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("a"), "").unwrap();
        let ahead = || {
            let node = DirNode::open(&above, name("d"), false).unwrap();
            found(&node, &["a"], |meta| meta)
        };
        let is_of = |ahead: &Prefetched| ahead.is_of(&above, &name("d"));
        let changed = ahead();
        assert!(is_of(&changed));
        // Some kernels report times in steps of a few milliseconds.
        std::thread::sleep(Duration::from_millis(20));
        fs::remove_file(path.join("a")).unwrap();
        assert!(!is_of(&changed));
        let replaced = ahead();
        fs::rename(&path, temp.path().join("away")).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(!is_of(&replaced));
        let gone = ahead();
        fs::remove_dir(&path).unwrap();
        assert!(!is_of(&gone));
    }

    #[test]
    fn looking_ahead_is_bounded_in_entries_bytes_and_time() {
        let (_temp, node) = dir_with(&["a"]);
        let names: Vec<_> = (0..=ENTRIES_MAX).map(|n| format!("{n:05}")).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let there = node.handle().unwrap().stat(&name("a"), false).unwrap().unwrap();
        let kept = |look: &dyn Fn(Meta) -> Meta| {
            found(&node, &names, |_| Some(look(there.clone()))).metas.len()
        };
        assert_eq!(kept(&|meta| meta), ENTRIES_MAX);
        let large = |mut meta: Meta| {
            let xattr =
                Xattr { name: (*b"user.a").into(), value: vec![0; EXTENDED_MAX / 4].into() };
            let extended = Extended { xattrs: vec![xattr], ..Extended::default() };
            meta.attributes.extended = Some(Box::new(extended));
            meta
        };
        assert_eq!(kept(&large), 4);
        let names: Vec<_> = names.iter().map(|text| name(text)).collect();
        let slow = |_: &Name| {
            std::thread::sleep(LOOKUP_TIME_MAX / 4);
            Some(there.clone())
        };
        let slow = Prefetched::of(Arc::clone(&node), names.iter(), slow);
        assert!(slow.metas.len() <= 4 + CLOCK_CHECK_EVERY);
    }
}
