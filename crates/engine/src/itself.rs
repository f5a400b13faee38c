//! Whether a move to a host or from one would move something onto itself: the
//! host may have mounted what is here, or the other way round. Numbers of files
//! differ on the two sides of such a mount, so something is made on this side and
//! looked for on the other.

use crate::request::{RequestError, Requests};
use crate::tree::sftp::join;
use crate::words;
use haul_model::{Fault, FaultKind, Side};
use haul_store::private_name;
use haul_sys::Dir;
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
/// machine; where nothing can be made, it is not seen.
///
/// # Errors
/// When nothing can be asked or made, or what was made can't be removed again.
pub fn is_onto_itself(
    source: &[u8],
    dest: &[u8],
    into: bool,
    near: Near,
    peer: &mut Requests,
) -> Result<bool, RequestError> {
    let (from, to) = (words::split(source), words::split(dest));
    let name = from.name.unwrap_or_default();
    let (to_dir, to_name) =
        if into { (to.whole, name) } else { (to.parent, to.name.unwrap_or(b".")) };
    let mut shows = |here: &[u8], there: &[u8]| match near {
        Near::Source => shows(here, there, peer),
        Near::Destination => shows(there, here, peer),
    };
    if may_be_one_name(name, to_name) && shows(from.parent, to_dir)? {
        return Ok(true);
    }
    // Both may be directories, and the same one mounted in both places.
    shows(from.whole, &join(to_dir, to_name))
}

/// Whether two names of one directory may be the same entry: some file systems
/// don't tell upper case from lower, or ways to write a character.
pub(crate) fn may_be_one_name(one: &[u8], other: &[u8]) -> bool {
    one.eq_ignore_ascii_case(other) || !(one.is_ascii() && other.is_ascii())
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
    let near = Path::new(std::ffi::OsStr::from_bytes(near));
    // What is no directory holds nothing, and what can't be written to is told
    // by those who have to.
    let Ok(dir) = Dir::open(near) else { return Ok(false) };
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

/// Makes a private file in `dir` for a moment, in which `look` is asked for what it
/// sees of its name. `None` where nothing can be made.
///
/// # Errors
/// When `dir` can't be looked at, or what was made can't be removed again.
pub(crate) fn with_mark<T>(dir: &Dir, look: impl FnOnce(&[u8]) -> T) -> io::Result<Option<T>> {
    let time = dir.stat_self()?.mtime;
    let name = private_name();
    if dir.create_private(&name).is_err() {
        return Ok(None);
    }
    let looked = look(name.as_bytes());
    dir.remove_private(&name)?;
    // It has the time of its source, and another one would be no fault of it.
    let _ = haul_sys::set_mtime(dir, time);
    Ok(Some(looked))
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
                is_onto_itself(&path(source), &path(dest), into, near, &mut Requests::local())
                    .unwrap()
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
