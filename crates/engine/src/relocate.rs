//! The part of a move that needs one side only: it renames sources within one file system. Jobs
//! copy, compare and remove the other sources.

use crate::parked;
use crate::receiver::Destination;
use crate::sender::{is_not_empty, mounted};
use crate::{Job, JobError};
use haul_model::{
    Conflict, Fault, FaultKind, FileId, Name, Outcome, Side, Skip, is_mounted, words,
};
use haul_sys::{Dir, Stat};
use haul_tree::{LocalDir, LocalTree};
use std::io;
use std::sync::Arc;

/// The result of renaming.
#[derive(Debug, Default)]
pub(crate) struct Relocated {
    /// The outcome of each source, in order: `Copied` if it was renamed, `None` if it must be
    /// copied.
    pub(crate) outcomes: Vec<Option<Outcome>>,
    /// The sources keep their names, in the destination. Otherwise the single source gets the
    /// destination's name.
    pub(crate) into: bool,
}

/// Renames `sources` into, or to, the destination of `job`, which is interpreted as in a copy.
///
/// # Errors
/// When the destination can't be used.
pub(crate) fn relocate(
    sources: &[Vec<u8>],
    job: &Job,
    conflict: Conflict,
) -> Result<Relocated, JobError> {
    let destination = Destination::find(&LocalTree::PLAIN, job)?;
    let root =
        destination.root.local_dir().map_err(|error| JobError::unusable(&job.dest.path, &error))?;
    let new_name = destination.rename.as_ref();
    let mut moved = Vec::new();
    let outcomes = sources.iter().map(|source| {
        rename(source, &root, new_name, conflict, &mut moved)
            .unwrap_or_else(|fault| Some(Outcome::Failed(fault)))
    });
    let outcomes: Vec<_> = outcomes.collect();
    let has_failed = |outcome: &Option<Outcome>| matches!(outcome, Some(Outcome::Failed(_)));
    let into = new_name.is_none();
    if !outcomes.is_empty() && outcomes.iter().all(has_failed) {
        // A later copy of other sources creates it again.
        destination.made.remove_created();
    }
    Ok(Relocated { outcomes, into })
}

/// Checks the source at `path`. If its path ends with a slash, it must be a directory and not a
/// link to one.
///
/// # Errors
/// When it is not, or can't be inspected.
pub(crate) fn find_source(path: &[u8]) -> Result<(), Fault> {
    find(path).map(|_| ())
}

/// `moved` are the objects that this move has already renamed. None of them may be replaced.
fn rename(
    path: &[u8],
    to: &Dir,
    new_name: Option<&Name>,
    conflict: Conflict,
    moved: &mut Vec<FileId>,
) -> Result<Option<Outcome>, Fault> {
    let (dir, name) = find(path)?;
    let dir = Arc::new(dir);
    let looked = dir.stat(&name).or_else(|error| {
        let is_missing = error.kind() == io::ErrorKind::NotFound;
        if is_missing && parked::restore_one(&LocalDir::new(Arc::clone(&dir)), &name) {
            dir.stat(&name)
        } else {
            Err(error)
        }
    });
    let stat = looked.map_err(|error| source("read its metadata", &error))?;
    let new_name = new_name.unwrap_or(&name);
    let there = match to.stat(new_name) {
        Ok(stat) => Some(stat),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => {
            return Err(Fault::from_io(
                Side::Destination,
                "read the metadata of the destination",
                &error,
            ));
        }
    };
    if let Some(there) = there
        && moved.contains(&there.id)
    {
        let message = "an entry moved just now has this name at the destination";
        return Err(Fault::new(Side::Destination, FaultKind::Io, message));
    }
    if let Some(there) = there
        && let Some(skip) = decide(&stat, &there, conflict)?
    {
        return Ok(Some(Outcome::Skipped(skip)));
    }
    if there.is_some()
        && stat.is_symlink()
        && dir.read_link(&name).is_ok_and(|target| to.leads_to(&target, new_name))
    {
        return Err(Fault::of_link_to_itself());
    }
    match dir.rename_to(&name, to, new_name, there.is_some()) {
        Ok(()) => {
            moved.push(stat.id);
            Ok(Some(Outcome::Copied))
        }
        // Another file system, or a directory on both sides: it is moved entry by entry.
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
        // The system does not report which of the two directories it was.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && to.may_change() => {
            let fault = Fault::from_io(Side::Source, "rename it", &error);
            let message = format!("{fault}: you need write permission on its directory");
            Err(Fault { kind: FaultKind::Io, message, ..fault })
        }
        Err(error) => Err(Fault::from_io(Side::Destination, "rename it", &error)),
    }
}

/// Decides about the existing entry at the new name. It is replaced, unless a reason to keep both
/// is returned.
fn decide(stat: &Stat, there: &Stat, conflict: Conflict) -> Result<Option<Skip>, Fault> {
    let fault = |kind, message: &str| Err(Fault::new(Side::Destination, kind, message));
    if stat.id == there.id {
        return fault(FaultKind::SameFile, "source and destination are the same");
    }
    match (stat.is_dir(), there.is_dir()) {
        (true, true) => return Ok(None),
        (true, false) => {
            return fault(FaultKind::NotDirectory, "the destination has a file with this name");
        }
        (false, true) => {
            return fault(FaultKind::IsDirectory, "the destination has a directory with this name");
        }
        (false, false) => {}
    }
    if !there.is_file() && !there.is_symlink() {
        return fault(
            FaultKind::Special,
            "the destination has a device, FIFO or socket with this name, which haul does not replace",
        );
    }
    Ok(match conflict {
        Conflict::Keep => Some(Skip::Exists),
        Conflict::ReplaceOlder if there.mtime >= stat.mtime => Some(Skip::NotOlder),
        _ => None,
    })
}

/// The directory that contains the source at `path`, and its name in it.
fn find(path: &[u8]) -> Result<(Dir, Name), Fault> {
    let split = words::split(path);
    let fault = |kind, message: &str| Fault::new(Side::Source, kind, message);
    let name = split.name.ok_or_else(|| {
        fault(FaultKind::IntoItself, "not moved: the directory has no name of its own")
    })?;
    let name = Name::new(name).map_err(|error| fault(FaultKind::TooLong, &error.to_string()))?;
    let dir =
        Dir::open_raw(split.parent).map_err(|error| source("open the directory above", &error))?;
    if split.slash {
        match dir.stat(&name) {
            Ok(stat) if !stat.is_dir() => {
                let message = "it is not a directory; leave out the slash to move it";
                return Err(fault(FaultKind::NotDirectory, message));
            }
            _ => {}
        }
    }
    Ok((dir, name))
}

fn source(action: &str, error: &io::Error) -> Fault {
    Fault::from_io(Side::Source, action, error)
}
