//! The parts of a move that need one side only: giving sources their new names
//! where both are on one file system, and removing directories that have become
//! empty. What can't be renamed is copied, compared and removed by jobs.

use crate::aside::{self, Aside};
use crate::dirs::{DirNode, OpenDirs};
use crate::link::{Proof, same};
use crate::receiver::Destination;
use crate::{CopyJob, JobError};
use haul_model::words;
use haul_model::{
    Conflict, Fault, FaultKind, FileId, MAX_DEPTH, Name, Outcome, Side, Skip, is_mounted,
};
use haul_sys::{Dir, Stat};
use haul_tree::{LocalDir, LocalTree, Mark, Tree, TreeEntry};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What came of the renaming.
#[derive(Debug, Default)]
pub struct Relocated {
    /// The fate of each source, in their order: `Copied` for what has its new
    /// name; `None` for what has to be copied.
    pub outcomes: Vec<Option<Outcome>>,
    /// The sources keep their names, in the destination; else the one source gets
    /// the destination's.
    pub into: bool,
}

/// Renames what can be renamed: `sources` into, or to, `dest`, which means what
/// it means to a copy; `state` is that of a [`CopyJob`].
///
/// # Errors
/// When the destination can't be used.
pub fn relocate(
    sources: &[Vec<u8>],
    dest: &[u8],
    into_dir: bool,
    conflict: Conflict,
    origin: Option<[u8; 16]>,
    state: Option<PathBuf>,
) -> Result<Relocated, JobError> {
    let job = CopyJob { dest: dest.to_vec(), into_dir, origin, state, ..CopyJob::default() };
    let destination = Destination::find(&LocalTree, &job)?;
    let root =
        destination.root.system_handle().map_err(|error| JobError::unusable(dest, &error))?;
    let new_name = destination.rename.as_ref();
    let mut moved = Vec::new();
    let outcomes = sources.iter().map(|source| {
        rename(source, &root, new_name, conflict, &mut moved)
            .unwrap_or_else(|fault| Some(Outcome::Failed(fault)))
    });
    Ok(Relocated { outcomes: outcomes.collect(), into: new_name.is_none() })
}

/// Whether the source at `path` is what the words say: with a slash at their
/// end, a directory and no link to one.
///
/// # Errors
/// What is wrong with it.
pub fn find_source(path: &[u8]) -> Result<(), Fault> {
    find(path).map(|_| ())
}

/// `moved` are the objects that were renamed before, by this very move: none takes
/// the place of another.
fn rename(
    path: &[u8],
    to: &Dir,
    new_name: Option<&Name>,
    conflict: Conflict,
    moved: &mut Vec<FileId>,
) -> Result<Option<Outcome>, Fault> {
    let (dir, name) = find(path)?;
    let dir = LocalDir::new(dir);
    let looked = dir.held().stat(&name).or_else(|error| {
        let is_missing = error.kind() == io::ErrorKind::NotFound;
        if is_missing && aside::restore_one(&dir, &name) {
            dir.held().stat(&name)
        } else {
            Err(error)
        }
    });
    let (dir, stat) = (dir.held(), looked.map_err(|error| source("look at it", &error))?);
    let new_name = new_name.unwrap_or(&name);
    let there = match to.stat(new_name) {
        Ok(stat) => Some(stat),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => {
            return Err(Fault::from_io(Side::Destination, "look at the destination", &error));
        }
    };
    if let Some(there) = there
        && moved.contains(&there.id)
    {
        let message = "what was moved just now has its name at the destination";
        return Err(Fault::new(Side::Destination, FaultKind::Io, message));
    }
    if let Some(there) = there
        && let Some(skip) = decide(&stat, &there, conflict)?
    {
        return Ok(Some(Outcome::Skipped(skip)));
    }
    match dir.rename_to(&name, to, new_name, there.is_some()) {
        Ok(()) => {
            moved.push(stat.id);
            Ok(Some(Outcome::Copied))
        }
        // Another file system, or a directory that both have: entry by entry.
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => Ok(None),
        Err(error)
            if there.is_some_and(|there| there.is_dir())
                && (is_not_empty(&error) || is_mounted(&error)) =>
        {
            Ok(None)
        }
        Err(error) if stat.is_dir() && error.kind() == io::ErrorKind::InvalidInput => {
            let message = "the directory would be moved into itself";
            Err(Fault::new(Side::Source, FaultKind::IntoItself, message))
        }
        Err(error) if is_mounted(&error) => Err(mounted()),
        Err(error) => Err(Fault::from_io(Side::Destination, "rename it", &error)),
    }
}

/// What is done with what stands at the new name: replaced, unless a reason is
/// given to let both be.
fn decide(stat: &Stat, there: &Stat, conflict: Conflict) -> Result<Option<Skip>, Fault> {
    let fault = |kind, message: &str| Err(Fault::new(Side::Destination, kind, message));
    if stat.id == there.id {
        return fault(FaultKind::SameFile, "source and destination are the same");
    }
    match (stat.is_dir(), there.is_dir()) {
        (true, true) => return Ok(None),
        (true, false) => {
            return fault(FaultKind::NotDirectory, "a file stands there at the destination");
        }
        (false, true) => {
            return fault(FaultKind::IsDirectory, "a directory stands there at the destination");
        }
        (false, false) => {}
    }
    if !there.is_file() && !there.is_symlink() {
        return fault(
            FaultKind::Special,
            "a device, FIFO or socket stands there at the destination, and is not replaced",
        );
    }
    Ok(match conflict {
        Conflict::Keep => Some(Skip::Exists),
        Conflict::ReplaceOlder if there.mtime >= stat.mtime => Some(Skip::NotOlder),
        _ => None,
    })
}

/// The directory at the destination that a source's directory was compared with.
pub(crate) struct Twin {
    /// What holds it.
    pub(crate) above: Arc<DirNode>,
    /// Its name there.
    pub(crate) name: Name,
}

/// The directories of a destination on this machine that sources were compared with.
pub(crate) struct Twins {
    root: Arc<DirNode>,
    rename: Option<Name>,
    dest: Vec<u8>,
}

impl Twins {
    /// Those of `destination`, which is that of `job`.
    ///
    /// # Errors
    /// When it can't be looked at.
    pub(crate) fn new(destination: &Destination, job: &CopyJob) -> io::Result<Self> {
        let open = Arc::<OpenDirs>::default();
        let root = DirNode::root(Arc::clone(&destination.root), None, &open)?;
        Ok(Self { root, rename: destination.rename.clone(), dest: job.dest.clone() })
    }

    /// The one of `source`; `None` if it has no name of its own.
    ///
    /// # Errors
    /// When what holds it can't be opened.
    pub(crate) fn of(&self, source: &[u8]) -> Result<Option<Twin>, Fault> {
        let named = words::without_dot(source);
        let is_whole = named.len() < source.len();
        let split = words::split(if is_whole { &self.dest } else { named });
        let Some(Ok(name)) = split.name.map(Name::new) else { return Ok(None) };
        if !is_whole {
            let name = self.rename.clone().unwrap_or(name);
            return Ok(Some(Twin { above: Arc::clone(&self.root), name }));
        }
        let above = LocalTree.open(split.parent);
        let above = above.and_then(|above| DirNode::root(above, None, &Arc::default()));
        Ok(Some(Twin { above: above.map_err(|error| failed(&error))?, name }))
    }
}

/// Removes the directory at `path` of `tree` and those below it, deepest first, as
/// far as they are empty; `false` if something is in them. One that has no name of
/// its own, or is gone, is no matter. Each is proven to be another than that of its
/// `twin`, where both are on this machine.
///
/// # Errors
/// Why an empty one can't be removed; what is no longer the directory `walked` is
/// left.
pub(crate) fn remove_empty(
    tree: &dyn Tree,
    path: &[u8],
    walked: Option<FileId>,
    twin: Option<Twin>,
) -> Result<bool, Fault> {
    let split = words::split(words::without_dot(path));
    let Some(Ok(name)) = split.name.map(Name::new) else { return Ok(true) };
    let root = tree.open(split.parent).map_err(|error| failed(&error))?;
    let root = DirNode::root(root, None, &Arc::<OpenDirs>::default());
    let root = root.map_err(|error| failed(&error))?;
    match DirNode::open(&root, name.clone(), false) {
        Ok(node) if node.id() != walked => Err(exchanged()),
        Ok(node) => remove_below(&root, node, name, twin),
        Err(error) => match FaultKind::of(&error) {
            FaultKind::NotFound => Ok(true),
            FaultKind::NotDirectory | FaultKind::Link => Err(exchanged()),
            _ => Err(failed(&error)),
        },
    }
}

/// A directory on the way down.
struct Level {
    above: Arc<DirNode>,
    node: Arc<DirNode>,
    name: Name,
    entries: std::vec::IntoIter<TreeEntry>,
    /// All that was looked at in it is gone.
    is_bare: bool,
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
        Ok(Self { above: Arc::clone(above), node, name, entries, is_bare: true, twin })
    }

    /// That of the directory `name` in this one.
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

    /// Removes it; `false` if something is in it.
    fn remove(&self) -> Result<bool, Fault> {
        if !self.is_bare {
            return Ok(false);
        }
        let above = self.above.handle().map_err(|error| failed(&error))?;
        let removed = |result: io::Result<()>| match result {
            Ok(()) => Ok(true),
            Err(error) if is_not_empty(&error) => Ok(false),
            Err(error) if is_mounted(&error) => Err(mounted()),
            Err(error) => Err(failed(&error)),
        };
        let Some(Twin { above: to, name }) = &self.twin else {
            return removed(above.remove_dir(&self.name));
        };
        let there = to.handle().and_then(|to| to.stat(name, false));
        let there = there.map_err(|error| failed(&error))?;
        let there = there.ok_or_else(missing)?;
        let (dir, name) = (Arc::clone(to), name.clone());
        let proof = Proof { dir, name, source: self.name.clone(), meta: there };
        let aside = match Aside::set(&*above, &self.name) {
            Ok(aside) => aside,
            // An overlay renames no directory that is below it.
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                return self
                    .prove_in_place(&proof)
                    .and_then(|()| removed(above.remove_dir(&self.name)));
            }
            Err(error) => return removed(Err(error)),
        };
        let result =
            proof.holds(aside.name()).and_then(|()| removed(above.remove_dir(aside.name())));
        if !matches!(result, Ok(true)) {
            aside.put_back(&*above)?;
        }
        result
    }

    /// Proves that it can be removed where it can't be set aside: what is made in it
    /// does not show in the destination's.
    fn prove_in_place(&self, proof: &Proof) -> Result<(), Fault> {
        let node = self.node.handle().map_err(|error| failed(&error))?;
        let own = node.system_handle().map_err(|error| failed(&error))?;
        let there = proof.dir.handle().and_then(|dir| dir.open_dir(&proof.name, false));
        let there = there.map_err(|error| failed(&error))?;
        let mark = Mark::make(&own).map_err(|error| failed(&error))?;
        let shows = there.stat(mark.name(), false);
        mark.remove().map_err(|error| failed(&error))?;
        match shows.map_err(|error| failed(&error))? {
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
) -> Result<bool, Fault> {
    let mut is_empty = true;
    let first = Level::enter(root, node, name, twin);
    let mut levels = vec![first.map_err(|error| failed(&error))?];
    loop {
        let depth = levels.len();
        let Some(level) = levels.last_mut() else { break };
        if let Some(TreeEntry { name, is_dir, .. }) = level.entries.next() {
            if is_dir == Some(false) {
                level.is_bare = false;
                continue;
            }
            match DirNode::open(&level.node, name.clone(), false) {
                Ok(below) if depth < MAX_DEPTH => {
                    let below = level.below(below, name).map_err(|error| failed(&error))?;
                    levels.push(below);
                }
                _ => level.is_bare = false,
            }
            continue;
        }
        let Some(level) = levels.pop() else { break };
        if !level.remove()? {
            is_empty = false;
            if let Some(above) = levels.last_mut() {
                above.is_bare = false;
            }
        }
    }
    Ok(is_empty)
}

/// The directory that holds the source at `path`, and its name there.
fn find(path: &[u8]) -> Result<(Dir, Name), Fault> {
    let split = words::split(path);
    let fault = |kind, message: &str| Fault::new(Side::Source, kind, message);
    let name = split.name.ok_or_else(|| {
        fault(FaultKind::IntoItself, "a directory without a name of its own stays")
    })?;
    let name = Name::new(name).map_err(|error| fault(FaultKind::TooLong, &error.to_string()))?;
    let dir = Dir::open(Path::new(OsStr::from_bytes(split.parent)))
        .map_err(|error| source("open the directory above", &error))?;
    if split.slash {
        match dir.stat(&name) {
            Ok(stat) if !stat.is_dir() => {
                let message = "it is no directory; without the slash it is moved itself";
                return Err(fault(FaultKind::NotDirectory, message));
            }
            _ => {}
        }
    }
    Ok((dir, name))
}

fn is_not_empty(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists)
}

fn exchanged() -> Fault {
    let message = "another has taken its place, and stays";
    Fault::new(Side::Source, FaultKind::Changed, message)
}

/// There is nothing that would be left of a directory.
fn missing() -> Fault {
    let message = "it stays: the destination does not have it any more";
    Fault::new(Side::Source, FaultKind::Changed, message)
}

fn failed(error: &io::Error) -> Fault {
    source("remove the directory", error)
}

fn mounted() -> Fault {
    let message = "a file system is mounted on it; it stays";
    Fault::new(Side::Source, FaultKind::Io, message)
}

fn source(action: &str, error: &io::Error) -> Fault {
    Fault::from_io(Side::Source, action, error)
}
