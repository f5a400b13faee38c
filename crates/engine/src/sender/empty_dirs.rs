//! Removes the directories of a move's sources that have become empty. It does not use `walk`: it
//! removes directories from the bottom up, compares each with its counterpart at the destination,
//! and inspects no entries.

use crate::Job;
use crate::dirs::{DirNode, OpenDirs};
use crate::link::{Proof, same};
use crate::parked::Parked;
use haul_model::{Fault, FaultKind, FileId, Filter, MAX_DEPTH, Name, Side, is_mounted, words};
use haul_tree::{LocalTree, Marker, Tree, TreeDir, TreeEntry};
use std::io;
use std::sync::Arc;

/// The directory at the destination that corresponds to a source directory.
pub(crate) struct Twin {
    /// The directory that contains it.
    pub(crate) above: Arc<DirNode>,
    /// Its name there.
    pub(crate) name: Name,
}

/// The directories of a destination on this machine that correspond to sources.
pub(crate) struct Twins {
    root: Arc<DirNode>,
    rename: Option<Name>,
    dest: Vec<u8>,
}

impl Twins {
    /// The twins in the destination `root` of `job`. `rename` is the new name of a single source.
    ///
    /// # Errors
    /// When the destination can't be read.
    pub(crate) fn new(
        root: &Arc<dyn TreeDir>,
        rename: Option<&Name>,
        job: &Job,
    ) -> io::Result<Self> {
        let root = DirNode::root(Arc::clone(root), None, &Arc::<OpenDirs>::default())?;
        Ok(Self { root, rename: rename.cloned(), dest: job.dest.path.clone() })
    }

    /// The twin of `source`; `None` if it has no name of its own.
    ///
    /// # Errors
    /// When its parent directory can't be opened.
    pub(crate) fn of(&self, source: &[u8]) -> Result<Option<Twin>, Fault> {
        let named = words::without_dot(source);
        let is_whole = named.len() < source.len();
        let split = words::split(if is_whole { &self.dest } else { named });
        let Some(Ok(name)) = split.name.map(Name::new) else { return Ok(None) };
        if !is_whole {
            let name = self.rename.clone().unwrap_or(name);
            return Ok(Some(Twin { above: Arc::clone(&self.root), name }));
        }
        let above = LocalTree::PLAIN.open(split.parent);
        let above = above.and_then(|above| DirNode::root(above, None, &Arc::default()));
        Ok(Some(Twin { above: above.map_err(failed)?, name }))
    }
}

/// Removes the directory at `path` of `tree` and the empty directories below it, deepest first.
/// Returns false if an entry is left. A path without a name, or one that no longer exists, counts
/// as removed. If both sides are on this machine, each directory is first proven to differ from its
/// `twin`. Directories that `filter` excludes from the job were not copied, and stay.
///
/// # Errors
/// The reason why an empty directory can't be removed. A directory that is no longer `walked`
/// stays.
pub(crate) fn remove_empty(
    tree: &dyn Tree,
    path: &[u8],
    walked: Option<FileId>,
    twin: Option<Twin>,
    filter: &Filter,
) -> Result<bool, Fault> {
    let is_nameless = words::without_dot(path).len() < path.len();
    let split = words::split(words::without_dot(path));
    let Some(Ok(name)) = split.name.map(Name::new) else { return Ok(true) };
    let root = tree.open(split.parent).map_err(failed)?;
    let root = DirNode::root(root, None, &Arc::<OpenDirs>::default()).map_err(failed)?;
    match DirNode::open(&root, name.clone(), false) {
        Ok(node) if node.id() != walked => Err(exchanged()),
        Ok(node) => {
            let is_excluded = |path: Vec<u8>| {
                // In the job, paths may start below this directory.
                let own = if is_nameless { name.as_bytes().len() + 1 } else { 0 };
                !filter.is_empty() && filter.hides(&path[own..], true) != Some(false)
            };
            remove_below(&root, node, name.clone(), twin, &is_excluded)
        }
        Err(error) => match FaultKind::of(&error) {
            FaultKind::NotFound => Ok(true),
            FaultKind::NotDirectory | FaultKind::Link => Err(exchanged()),
            _ => Err(failed(error)),
        },
    }
}

/// A directory on the current path.
struct Level {
    above: Arc<DirNode>,
    node: Arc<DirNode>,
    name: Name,
    entries: std::vec::IntoIter<TreeEntry>,
    /// All of its inspected entries were removed.
    is_emptied: bool,
    twin: Option<Twin>,
}

impl Level {
    fn enter(
        above: &Arc<DirNode>,
        node: Arc<DirNode>,
        name: Name,
        twin: Option<Twin>,
    ) -> io::Result<Self> {
        let entries = node.handle()?.entries()?.into_iter();
        Ok(Self { above: Arc::clone(above), node, name, entries, is_emptied: true, twin })
    }

    /// The level of the subdirectory `name`.
    fn below(&self, node: Arc<DirNode>, name: Name) -> io::Result<Self> {
        let twin = match &self.twin {
            None => None,
            Some(Twin { above, name: own }) => {
                let above = DirNode::open(above, own.clone(), false)?;
                Some(Twin { above, name: name.clone() })
            }
        };
        Self::enter(&self.node, node, name, twin)
    }

    /// Removes the directory. Returns false if an entry is left.
    fn remove(&self) -> Result<bool, Fault> {
        if !self.is_emptied {
            return Ok(false);
        }
        let above = self.above.handle().map_err(failed)?;
        let removed = |result: io::Result<()>| match result {
            Ok(()) => Ok(true),
            Err(error) if is_not_empty(&error) => Ok(false),
            Err(error) if is_mounted(&error) => Err(mounted()),
            Err(error) => Err(failed(error)),
        };
        let Some(Twin { above: to, name }) = &self.twin else {
            return removed(above.remove_dir(&self.name));
        };
        let there = to.handle().and_then(|to| to.stat(name, false));
        let there = there.map_err(failed)?.ok_or_else(missing)?;
        let (dir, name) = (Arc::clone(to), name.clone());
        let proof = Proof { dir, name, source: self.name.clone(), meta: there };
        let parked = match Parked::set(&*above, &self.name) {
            Ok(parked) => parked,
            // An overlay can't rename a directory of its lower layer.
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                return self
                    .prove_in_place(&proof)
                    .and_then(|()| removed(above.remove_dir(&self.name)));
            }
            Err(error) => return removed(Err(error)),
        };
        let result =
            proof.holds(parked.name()).and_then(|()| removed(above.remove_dir(parked.name())));
        if !matches!(result, Ok(true)) {
            parked.restore_name(&*above)?;
        }
        result
    }

    /// Proves that a directory that can't be set aside is not its twin: a new entry in it does not
    /// appear in the twin.
    fn prove_in_place(&self, proof: &Proof) -> Result<(), Fault> {
        let node = self.node.handle().map_err(failed)?;
        let own = node.local_dir().map_err(failed)?;
        let there = proof.dir.handle().and_then(|dir| dir.open_dir(&proof.name, false));
        let there = there.map_err(failed)?;
        let mark = Marker::make(&own).map_err(failed)?;
        let shows = there.stat(mark.name(), false);
        mark.remove().map_err(failed)?;
        match shows.map_err(failed)? {
            None => Ok(()),
            Some(_) => Err(same()),
        }
    }
}

fn remove_below(
    root: &Arc<DirNode>,
    node: Arc<DirNode>,
    name: Name,
    twin: Option<Twin>,
    is_excluded: &dyn Fn(Vec<u8>) -> bool,
) -> Result<bool, Fault> {
    let mut is_empty = true;
    let mut levels = vec![Level::enter(root, node, name, twin).map_err(failed)?];
    loop {
        let depth = levels.len();
        let Some(level) = levels.last_mut() else { break };
        if let Some(TreeEntry { name, is_dir, .. }) = level.entries.next() {
            if is_dir == Some(false) || is_excluded(level.node.path_of(Some(&name))) {
                level.is_emptied = false;
                continue;
            }
            match DirNode::open(&level.node, name.clone(), false) {
                Ok(below) if depth < MAX_DEPTH => {
                    let below = level.below(below, name).map_err(failed)?;
                    levels.push(below);
                }
                _ => level.is_emptied = false,
            }
            continue;
        }
        let Some(level) = levels.pop() else { break };
        if !level.remove()? {
            is_empty = false;
            if let Some(above) = levels.last_mut() {
                above.is_emptied = false;
            }
        }
    }
    Ok(is_empty)
}

/// True if a directory is not removed because it has entries.
pub(crate) fn is_not_empty(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists)
}

fn exchanged() -> Fault {
    let message = "not removed: it was replaced";
    Fault::new(Side::Source, FaultKind::Changed, message)
}

/// The copy of a directory no longer exists.
fn missing() -> Fault {
    let message = "not removed: the destination no longer has it";
    Fault::new(Side::Source, FaultKind::Changed, message)
}

fn failed(error: io::Error) -> Fault {
    Fault::from_io(Side::Source, "remove the directory", &error)
}

/// A mount point is not removed.
pub(crate) fn mounted() -> Fault {
    let message = "not removed: a file system is mounted on it";
    Fault::new(Side::Source, FaultKind::Io, message)
}
