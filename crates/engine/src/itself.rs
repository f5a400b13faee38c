//! Whether a move would move something onto itself: a host may have mounted what is
//! here, or the other way round, and here a mount may show a directory in a second
//! place. Numbers of files differ on the two sides of such a mount, so something is
//! made on one side and looked for on the other.

use crate::request::{RequestError, Requests};
use haul_model::words;
use haul_model::{Fault, FaultKind, Side};
use haul_sys::Dir;
use haul_tree::sftp::join;
use haul_tree::with_mark;
use std::collections::BTreeSet;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Which end of a move is on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Near {
    /// Its source.
    Source,
    /// Its destination.
    Destination,
}

/// Whether moving `source` into the directory `dest`, or, without `into`, to the
/// name `dest`, would find itself there. `peer` answers for the end that is not
/// `near`. It is found by what is made for a moment in a directory of this
/// machine; where nothing can be made, it is not seen. A mount that remembers what
/// was in a directory does not show what is made behind its back: where both ends
/// are here, that is made through it, too. Of several sources each
/// directory that holds some is tried once, and then is among the `tried`.
///
/// # Errors
/// When nothing can be asked or made, or what was made can't be removed again.
pub fn is_onto_itself(
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
    let mut shows = |here: &[u8], there: &[u8]| match near {
        Near::Source if peer.are_here() && may_remember(there) => {
            Ok(shows(here, there, peer)? || shows(there, here, peer)?)
        }
        Near::Source => shows(here, there, peer),
        Near::Destination => shows(there, here, peer),
    };
    let is_new = words::may_be_one_name(name, to_name) && tried.insert(from.parent.to_vec());
    if is_new && shows(from.parent, to_dir)? {
        return Ok(true);
    }
    // Both may be directories, and the same one mounted in both places.
    shows(from.whole, &join(to_dir, to_name))
}

/// Whether the directory `path` may be on a mount that does not look at each entry
/// when it is asked for it.
fn may_remember(path: &[u8]) -> bool {
    open(path).is_ok_and(|dir| !dir.syncs_as_a_whole())
}

fn open(path: &[u8]) -> io::Result<Dir> {
    Dir::open(Path::new(std::ffi::OsStr::from_bytes(path)))
}

/// Whether what is made in the directory `near` shows in `far` of the peer.
fn shows(near: &[u8], far: &[u8], peer: &mut Requests) -> Result<bool, RequestError> {
    let failed = |error: &io::Error| {
        RequestError::from(Fault::from_io(
            Side::Destination,
            "see whether it is the source itself",
            error,
        ))
    };
    // What is no directory holds nothing, and what can't be written to is told
    // by those who have to.
    let Ok(dir) = open(near) else { return Ok(false) };
    let looked = with_mark(&dir, |name| peer.stat(&join(far, name), false));
    match looked.map_err(|error| failed(&error))? {
        Some(Ok(_)) => Ok(true),
        None
        | Some(Err(RequestError::Fault(Fault {
            kind: FaultKind::NotFound | FaultKind::NotDirectory,
            ..
        }))) => Ok(false),
        Some(Err(error)) => Err(error),
    }
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
