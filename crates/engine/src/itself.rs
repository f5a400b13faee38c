//! Refuses to move something onto itself: a host may have mounted what is here, or the
//! other way round, and here a mount may show a directory in a second place. Numbers of
//! files differ on the two sides of such a mount, so something is made on one side and
//! looked for on the other. A mount may remember what was in a directory, and not show
//! what is made behind its back: then something is made on the other side too, and looked
//! for on this one. Where both sides remember, they agree on a new directory, of which
//! neither can remember anything, and look in it.

use crate::request::{RequestError, Requests};
use haul_model::words;
use haul_model::{Fault, FaultKind, Name, Side};
use haul_proto::Marked;
use haul_sys::Dir;
use haul_tree::sftp::join;
use haul_tree::{Mark, Sight, sight};
use std::collections::BTreeSet;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Which end of a move is on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Near {
    /// Its source.
    Source,
    /// Its destination.
    Destination,
}

/// True if moving `source` into the directory `dest`, or, without `into`, to the
/// name `dest`, would find itself there. `peer` answers for the end that is not
/// `near`. Of several sources each directory that holds some is tried once, and then
/// is among the `tried`.
///
/// # Errors
/// When nothing can be asked; when something had to be made at an end to see it, and
/// that can't be done, or what was made can't be removed again.
pub(crate) fn is_onto_itself(
    source: &[u8],
    dest: &[u8],
    into: bool,
    near: Near,
    peer: &mut Requests,
    tried: &mut BTreeSet<Vec<u8>>,
) -> Result<bool, RequestError> {
    let (from, to) = (words::split(source), words::split(dest));
    let name = from.name.unwrap_or_default();
    let (to_dir, to_name) =
        if into { (to.whole, name) } else { (to.parent, to.name.unwrap_or(b".")) };
    let mut are_one = |source: &[u8], dest: &[u8]| match near {
        Near::Source => are_one(source, dest, Side::Source, peer),
        Near::Destination => are_one(dest, source, Side::Destination, peer),
    };
    if words::may_be_one_name(name, to_name) && !tried.contains(from.parent) {
        if are_one(from.parent, to_dir)? {
            return Ok(true);
        }
        // Not before: who gets no answer asks again.
        tried.insert(from.parent.to_vec());
    }
    // Both may be directories, and the same one mounted in both places.
    are_one(from.whole, &join(to_dir, to_name))
}

/// True if the directories `near` of this machine and `far` of the peer are one. What
/// is no directory holds nothing, and is no fault.
fn are_one(near: &[u8], far: &[u8], side: Side, peer: &mut Requests) -> Result<bool, RequestError> {
    let Ok(dir) = Dir::open(Path::new(std::ffi::OsStr::from_bytes(near))) else {
        return Ok(false);
    };
    // Where none can be made, the other end's tells.
    let mark = Mark::make(&dir).ok();
    let both = mark.is_none() || !dir.is_known();
    let is_one = match peer.mark(far, mark.as_ref().map(Mark::name), both) {
        Ok(Marked::Shown) => Ok(true),
        Ok(Marked::Hidden) => Ok(false),
        Ok(Marked::Made(name)) => {
            let shows = shows_here(&dir, far, &name, side, peer);
            let unmarked = peer.unmark();
            match shows {
                // It is gone, and the other end may remember that something is in it.
                Ok(true) => shows,
                shows => unmarked.and(shows),
            }
        }
        Err(RequestError::Fault(Fault {
            kind: FaultKind::NotFound | FaultKind::NotDirectory,
            ..
        })) => Ok(false),
        // On one machine more is proven when something is removed.
        Err(RequestError::Fault(_)) if peer.are_here() => Ok(false),
        Err(error) => Err(error),
    };
    // Last, since it gives the directory its time back.
    mark.map_or(Ok(()), Mark::remove).map_err(|error| failed(side, &error))?;
    is_one
}

/// True if the directory `name`, which was made in `far` of the peer, shows in `dir`.
fn shows_here(
    dir: &Dir,
    far: &[u8],
    name: &Name,
    side: Side,
    peer: &mut Requests,
) -> Result<bool, RequestError> {
    let seen = sight(dir, name, |inner| {
        peer.stat(&join(&join(far, name.as_bytes()), inner.as_bytes()), false)
    });
    let looked = match seen.map_err(|error| failed(side, &error))? {
        Sight::Shown => return Ok(true),
        Sight::Hidden => return Ok(false),
        Sight::Unsure(_) if peer.are_here() => return Ok(false),
        Sight::Unsure(error) => return Err(failed(side, &error)),
        Sight::Made(looked) => looked,
    };
    match looked {
        Ok(_) => Ok(true),
        Err(RequestError::Fault(Fault {
            kind: FaultKind::NotFound | FaultKind::NotDirectory,
            ..
        })) => Ok(false),
        Err(error) => Err(error),
    }
}

fn failed(side: Side, error: &io::Error) -> RequestError {
    Fault::from_io(side, "check whether it is the source itself", error).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_is_one_directory_under_two_paths_is_seen() {
        let temp = tempfile::tempdir().unwrap();
        let path = |name: &str| temp.path().join(name).into_os_string().into_encoded_bytes();
        for dir in ["a/tree", "b/tree"] {
            fs::create_dir_all(temp.path().join(dir)).unwrap();
        }
        // As a mount would: the same directory elsewhere.
        std::os::unix::fs::symlink("a", temp.path().join("mount")).unwrap();
        fs::create_dir(temp.path().join("c")).unwrap();
        std::os::unix::fs::symlink("../a/tree", temp.path().join("c/tree")).unwrap();
        for near in [Near::Source, Near::Destination] {
            let onto = |source: &str, dest: &str, into| {
                let (peer, tried) = (&mut Requests::local(), &mut BTreeSet::new());
                is_onto_itself(&path(source), &path(dest), into, near, peer, tried).unwrap()
            };
            assert!(onto("a/file", "mount", true));
            assert!(onto("a/file", "mount/", true));
            assert!(onto("a/file", "mount/file", false));
            assert!(onto("a/file", "mount/FILE", false));
            assert!(onto("a/tree", "c", true));
            assert!(onto("a/tree", "c/tree", false));
            assert!(!onto("a/file", "mount/other", false));
            assert!(!onto("a/file", "b", true));
            assert!(!onto("a/tree", "b", true));
            assert!(!onto("a/tree", "b/new", false));
        }
        for dir in ["a", "a/tree", "b", "b/tree"] {
            let entries = fs::read_dir(temp.path().join(dir)).unwrap();
            assert!(entries.flatten().all(|entry| entry.file_name() == "tree"), "{dir}");
        }
    }
}
