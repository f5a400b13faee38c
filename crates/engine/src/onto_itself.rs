//! Refuses to move a source onto itself. A host may have mounted this machine's directory or the
//! other way round, and a mount here may show a directory in a second place.
//!
//! File numbers differ on the two sides of such a mount, so an entry is created on one side and
//! looked up on the other. A mount may show a cached directory without the new entry. Then an entry
//! is also created on the other side, and looked up on this one. If both sides cache, both agree on
//! a new directory, which neither can have cached, and look into it.

use crate::request::{RequestError, Requests};
use haul_model::{Fault, FaultKind, Name, Side, words};
use haul_proto::Marked;
use haul_sys::Dir;
use haul_tree::sftp::join;
use haul_tree::{Marker, Visibility, check_visibility};
use std::collections::BTreeSet;
use std::io;

/// The end of a move that is on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LocalEnd {
    /// Its source.
    Source,
    /// Its destination.
    Destination,
}

/// True if moving `source` into the directory `dest`, or without `into` to the name `dest`, would
/// hit the source itself. `peer` answers for the other end than `near`. Each parent directory of
/// sources is checked once, and then added to `tried`.
///
/// # Errors
/// When the peer can't be asked, or when a required test entry can't be created or removed.
pub(crate) fn is_onto_itself(
    source: &[u8],
    dest: &[u8],
    into: bool,
    near: LocalEnd,
    peer: &mut Requests,
    tried: &mut BTreeSet<Vec<u8>>,
) -> Result<bool, RequestError> {
    let (from, to) = (words::split(source), words::split(dest));
    let name = from.name.unwrap_or_default();
    let (to_dir, to_name) =
        if into { (to.whole, name) } else { (to.parent, to.name.unwrap_or(b".")) };
    let mut are_one = |source: &[u8], dest: &[u8]| match near {
        LocalEnd::Source => are_one(source, dest, Side::Source, peer),
        LocalEnd::Destination => are_one(dest, source, Side::Destination, peer),
    };
    if words::may_be_same_name(name, to_name) && !tried.contains(from.parent) {
        if are_one(from.parent, to_dir)? {
            return Ok(true);
        }
        // Only after an answer: a retry after a lost connection checks again.
        tried.insert(from.parent.to_vec());
    }
    // Both may be directories, and the same one mounted in both places.
    are_one(from.whole, &join(to_dir, to_name))
}

/// True if the directories `near` on this machine and `far` on the peer are the same. A path that
/// is not a directory is no fault.
fn are_one(near: &[u8], far: &[u8], side: Side, peer: &mut Requests) -> Result<bool, RequestError> {
    let Ok(dir) = Dir::open_raw(near) else {
        return Ok(false);
    };
    // If no mark can be made here, the other end's mark decides.
    let marker = Marker::make(&dir).ok();
    let both = marker.is_none() || !dir.has_known_file_system();
    let is_one = match peer.marker(far, marker.as_ref().map(Marker::name), both) {
        Ok(Marked::Shown) => Ok(true),
        Ok(Marked::Hidden) => Ok(false),
        Ok(Marked::Made(name)) => {
            let shows = appears_locally(&dir, far, &name, side, peer);
            let unmarked = peer.remove_marker();
            match shows {
                // The directory is already gone, but the other end may have cached an entry in it.
                // So the result of `remove_marker` does not count.
                Ok(true) => shows,
                shows => unmarked.and(shows),
            }
        }
        Err(RequestError::Fault(Fault {
            kind: FaultKind::NotFound | FaultKind::NotDirectory,
            ..
        })) => Ok(false),
        // On one machine, the removal proves more.
        Err(RequestError::Fault(_)) if peer.is_local() => Ok(false),
        Err(error) => Err(error),
    };
    // Last, because this restores the directory's time.
    marker.map_or(Ok(()), Marker::remove).map_err(|error| failed(side, &error))?;
    is_one
}

/// True if the directory `name`, which was created in the peer's `far`, appears in `dir`.
fn appears_locally(
    dir: &Dir,
    far: &[u8],
    name: &Name,
    side: Side,
    peer: &mut Requests,
) -> Result<bool, RequestError> {
    let seen = check_visibility(dir, name, |inner| {
        peer.stat(&join(&join(far, name.as_bytes()), inner.as_bytes()), false)
    });
    let looked = match seen.map_err(|error| failed(side, &error))? {
        Visibility::Shown => return Ok(true),
        Visibility::Hidden => return Ok(false),
        Visibility::Unsure(_) if peer.is_local() => return Ok(false),
        Visibility::Unsure(error) => return Err(failed(side, &error)),
        Visibility::Made(looked) => looked,
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
    fn one_directory_under_two_paths_is_detected() {
        let temp = tempfile::tempdir().unwrap();
        let path = |name: &str| temp.path().join(name).into_os_string().into_encoded_bytes();
        for dir in ["a/tree", "b/tree"] {
            fs::create_dir_all(temp.path().join(dir)).unwrap();
        }
        // Like a mount: the same directory in another place.
        std::os::unix::fs::symlink("a", temp.path().join("mount")).unwrap();
        fs::create_dir(temp.path().join("c")).unwrap();
        std::os::unix::fs::symlink("../a/tree", temp.path().join("c/tree")).unwrap();
        for near in [LocalEnd::Source, LocalEnd::Destination] {
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
