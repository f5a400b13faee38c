//! The way to a destination: creates the directories above it, and names the one that can't be
//! opened.

use haul_model::{Fault, FaultKind, Name, Side, escape_bytes, is_missing, words};
use haul_tree::{MetaKind, Tree, TreeDir};
use std::io;
use std::sync::Arc;

/// Maximum number of directories above a destination that are examined.
pub(super) const ANCESTORS_MAX: usize = haul_model::MAX_DEPTH * 2;

/// The error of a path that does not exist.
pub(super) fn missing() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "no such file or directory")
}

/// Creates the directory `name` in `dir`, waits for it, and opens it.
///
/// # Errors
/// If it can't be created or opened.
pub(super) fn create(dir: &dyn TreeDir, name: &Name) -> io::Result<Arc<dyn TreeDir>> {
    dir.make_dir(name, 0o777, None)?;
    let created = dir.open_dir(name, false)?;
    created.pending_creation().map_or(Ok(()), |wait| wait())?;
    Ok(created)
}

/// True if `path` leads to something that is no directory, or to nothing.
pub(super) fn resolves_to_non_dir(tree: &dyn Tree, path: &[u8]) -> bool {
    let split = words::split(path);
    let Some(Ok(name)) = split.name.map(Name::new) else { return false };
    let there = tree.open(split.parent).and_then(|dir| dir.stat(&name, true));
    there.is_ok_and(|there| there.is_none_or(|meta| meta.kind != MetaKind::Dir))
}

/// The fault of a directory that could not be created: `part` of the user's `path`.
pub(super) fn create_fault(path: &[u8], part: &[u8], error: &io::Error) -> Fault {
    let action = match part == words::split(path).whole {
        true => "create the directory".to_owned(),
        false => format!("create {} above it", escape_bytes(part)),
    };
    let mut fault = Fault::from_io(Side::Destination, &action, error);
    // The directory above exists, but accepts no entry.
    if fault.kind == FaultKind::NotFound {
        fault.kind = FaultKind::Io;
    }
    fault
}

/// The fault of `part` of the user's `path`, which could not be opened because of `error`. It names
/// the first directory on the way that can't be opened.
pub(super) fn open_fault(tree: &dyn Tree, path: &[u8], part: &[u8], error: io::Error) -> Fault {
    let (part, error) = first_missing(tree, part, error);
    let whole = words::split(path);
    let action = match part {
        part if part == whole.whole => "open the directory".to_owned(),
        part if part == whole.parent => "open the directory above it".to_owned(),
        part => format!("open {} above it", escape_bytes(part)),
    };
    Fault::from_io(Side::Destination, &action, &error)
}

/// The first directory on the way to `part`, or `part` itself, that does not exist, and its error.
/// A directory that may not be read can still be passed, so the search for an earlier one stops
/// there.
fn first_missing<'p>(
    tree: &dyn Tree,
    mut part: &'p [u8],
    mut error: io::Error,
) -> (&'p [u8], io::Error) {
    for _ in 0..ANCESTORS_MAX {
        let split = words::split(part);
        if split.name.is_none() || !is_missing(&error) {
            break;
        }
        match tree.open(split.parent) {
            Err(above) if is_missing(&above) => (part, error) = (split.parent, above),
            _ => break,
        }
    }
    (part, error)
}
