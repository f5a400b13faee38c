//! Identifies a directory that a job created under a new name, so that the same command means the
//! same when it is run again. Otherwise an existing directory would be copied into.

use haul_model::{ContentHash, Name, words};
use haul_store::Records;
use haul_tree::TreeDir;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A number for the source `source`, on `host` or here, that gets the name at the end of `dest`.
/// `None` if `dest` has no name or the source does not exist. `is_move`: what takes the place of a
/// source here after it was moved is another source.
pub(crate) fn origin(
    host: Option<&str>,
    source: &[u8],
    dest: &[u8],
    is_move: bool,
) -> Option<[u8; 16]> {
    let name = words::split(dest).name?;
    let (host, path) = match host {
        Some(host) => (host.as_bytes().to_vec(), source.to_vec()),
        None => {
            let path = std::fs::canonicalize(Path::new(OsStr::from_bytes(source))).ok()?;
            let found = std::fs::metadata(&path).ok().filter(|_| is_move);
            let object = found.map(|it| format!("\0{}\0{:?}", it.ino(), it.created().ok()));
            let path = path.into_os_string().into_encoded_bytes();
            (haul_sys::node_name(), [path, object.unwrap_or_default().into_bytes()].concat())
        }
    };
    // No name contains a NUL.
    let hash = ContentHash::of(&[host.as_slice(), &path, name].join(&0));
    hash.as_bytes().first_chunk().copied()
}

/// True if the directory `state` has a record that a job of `origin` created `dir`, for a directory
/// that can't store this itself.
pub(crate) fn has_origin_record(
    state: Option<&Path>,
    dir: &dyn TreeDir,
    origin: &[u8; 16],
) -> bool {
    let place = state.and_then(|state| Some((state, dir.origin_key(None)?)));
    place.is_some_and(|(state, place)| haul_store::has_origin(state, &place, origin))
}

/// Records in the directory `state` that a job of `origin` creates `name` in `above`, if that
/// directory can't store this itself. The record is written first, so it exists however the job
/// ends. Without a record, the same command copies into the directory when it is run again, like
/// cp.
pub(crate) fn record_origin(
    state: Option<&Path>,
    above: &dyn TreeDir,
    name: &Name,
    origin: &[u8; 16],
) {
    let place = state.and_then(|state| Some((state, above.origin_key(Some(name))?)));
    let Some((state, place)) = place else { return };
    let recorded = Records::open(state).and_then(|records| records.remember_origin(&place, origin));
    if let Err(error) = recorded {
        tracing::debug!(%error, "no record of what was made");
    }
}
