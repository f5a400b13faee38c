//! The parts of a move that need one side only: giving sources their new names
//! where both are on one file system, and removing directories that have become
//! empty. What can't be renamed is copied, compared and removed by jobs.

use crate::dirs::{DirNode, OpenDirs};
use crate::receiver::Destination;
use crate::tree::{LocalTree, Tree, TreeEntry};
use crate::{CopyJob, JobError, words};
use haul_model::{Conflict, Fault, FaultKind, FileId, MAX_DEPTH, Name, Outcome, Side, Skip};
use haul_sys::{Dir, Stat};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
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
/// it means to a copy.
///
/// # Errors
/// When the destination can't be used.
pub fn relocate(
    sources: &[Vec<u8>],
    dest: &[u8],
    into_dir: bool,
    conflict: Conflict,
) -> Result<Relocated, JobError> {
    let job = CopyJob { dest: dest.to_vec(), into_dir, ..CopyJob::default() };
    let destination = Destination::find(&LocalTree, &job)?;
    let root = destination.local_root().map_err(|error| JobError::unusable(dest, &error))?;
    let new_name = destination.rename.as_ref();
    let outcomes = sources.iter().map(|source| match rename(source, &root, new_name, conflict) {
        Ok(outcome) => outcome,
        Err(fault) => Some(Outcome::Failed(fault)),
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

fn rename(
    path: &[u8],
    to: &Dir,
    new_name: Option<&Name>,
    conflict: Conflict,
) -> Result<Option<Outcome>, Fault> {
    let (dir, name) = find(path)?;
    let stat = dir.stat(&name).map_err(|error| source("look at it", &error))?;
    let new_name = new_name.unwrap_or(&name);
    let there = match to.stat(new_name) {
        Ok(stat) => Some(stat),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => {
            return Err(Fault::from_io(Side::Destination, "look at the destination", &error));
        }
    };
    if let Some(there) = there
        && let Some(skip) = decide(&stat, &there, conflict)?
    {
        return Ok(Some(Outcome::Skipped(skip)));
    }
    match dir.rename_to(&name, to, new_name, there.is_some()) {
        Ok(()) => Ok(Some(Outcome::Copied)),
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

/// Removes the directory at `path` of `tree` and those below it, deepest first, as
/// far as they are empty; `false` if something is in them. One that has no name of
/// its own, or is gone, is no matter.
///
/// # Errors
/// Why an empty one can't be removed; what is no longer the directory `walked` is
/// left.
pub(crate) fn remove_empty(
    tree: &dyn Tree,
    path: &[u8],
    walked: Option<FileId>,
) -> Result<bool, Fault> {
    let fails = |error: io::Error| source("remove the directory", &error);
    let split = words::split(words::without_dot(path));
    let Some(Ok(name)) = split.name.map(Name::new) else { return Ok(true) };
    let root = tree.open(split.parent).map_err(fails)?;
    let root = DirNode::root(root, None, &Arc::<OpenDirs>::default()).map_err(fails)?;
    match DirNode::open(&root, name.clone(), false) {
        Ok(node) if node.id() != walked => Err(exchanged()),
        Ok(node) => remove_below(&root, node, name),
        Err(error) => match FaultKind::of(&error) {
            FaultKind::NotFound => Ok(true),
            FaultKind::NotDirectory | FaultKind::Link => Err(exchanged()),
            _ => Err(fails(error)),
        },
    }
}

fn remove_below(root: &Arc<DirNode>, node: Arc<DirNode>, name: Name) -> Result<bool, Fault> {
    let fails = |error: io::Error| source("remove the directory", &error);
    let subdirs = |node: &Arc<DirNode>| -> io::Result<std::vec::IntoIter<TreeEntry>> {
        Ok(node.handle()?.entries()?.into_iter())
    };
    let mut is_empty = true;
    let entries = subdirs(&node).map_err(fails)?;
    // With each directory whether all that was looked at in it is gone.
    let mut levels = vec![(Arc::clone(root), node, name, entries, true)];
    loop {
        let depth = levels.len();
        let Some((_, node, _, entries, is_bare)) = levels.last_mut() else { break };
        if let Some(TreeEntry { name, is_dir, .. }) = entries.next() {
            if is_dir == Some(false) {
                *is_bare = false;
                continue;
            }
            let node = Arc::clone(node);
            match DirNode::open(&node, name.clone(), false) {
                Ok(below) if depth < MAX_DEPTH => {
                    let entries = subdirs(&below).map_err(fails)?;
                    levels.push((node, below, name, entries, true));
                }
                _ => *is_bare = false,
            }
            continue;
        }
        let Some((parent, _, name, _, is_bare)) = levels.pop() else { break };
        let removed = match is_bare {
            true => parent.handle().and_then(|parent| parent.remove_dir(&name)),
            false => Err(io::ErrorKind::DirectoryNotEmpty.into()),
        };
        match removed {
            Ok(()) => {}
            Err(error) if is_not_empty(&error) => {
                is_empty = false;
                if let Some((.., is_bare)) = levels.last_mut() {
                    *is_bare = false;
                }
            }
            Err(error) if is_mounted(&error) => return Err(mounted()),
            Err(error) => return Err(fails(error)),
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

/// Whether a directory is busy because a file system is mounted on it.
fn is_mounted(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ResourceBusy
}

fn exchanged() -> Fault {
    let message = "another has taken its place, and stays";
    Fault::new(Side::Source, FaultKind::Changed, message)
}

fn mounted() -> Fault {
    let message = "a file system is mounted on it; it stays";
    Fault::new(Side::Source, FaultKind::Io, message)
}

fn source(action: &str, error: &io::Error) -> Fault {
    Fault::from_io(Side::Source, action, error)
}
