//! Identifies a directory that a job created under a new name, so that the same command means the
//! same when it is run again. Otherwise an existing directory would be copied into.

use haul_model::{ContentHash, Name, words};
use haul_store::Records;
use haul_tree::TreeDir;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::UNIX_EPOCH;

/// A number for the source `source`, on `host` or here, that gets the name at the end of `dest`.
/// `None` if `dest` has no name or the source does not exist. In a move the number also covers the
/// birth time of a source here, if that is known: a later source with this path gets another one.
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
            let found = is_move.then(|| std::fs::metadata(&path)).and_then(Result::ok);
            let born =
                found.and_then(|found| found.created().ok()?.duration_since(UNIX_EPOCH).ok());
            let object = born.map(|born| format!("\0{}", born.as_nanos()));
            let path = path.into_os_string().into_encoded_bytes();
            (haul_sys::node_name(), [path, object.unwrap_or_default().into_bytes()].concat())
        }
    };
    // No host and no path contains a NUL, and no birth time a slash.
    let hash = ContentHash::of(&[host.as_slice(), &path, name].join(&0));
    hash.as_bytes().first_chunk().copied()
}

/// True if a job of `origin` created `dir`: `dir` stores that itself, or the directory `state` has a
/// record of it.
pub(crate) fn has_origin(state: Option<&Path>, dir: &dyn TreeDir, origin: &[u8; 16]) -> bool {
    let place = || state.and_then(|state| Some((state, dir.origin_key(None)?)));
    dir.has_origin(origin)
        || place().is_some_and(|(state, place)| haul_store::has_origin(state, &place, origin))
}

/// Forgets that a job of `origin` created `dir`. If that fails, the same command means `dir` again.
pub(crate) fn forget_origin(state: Option<&Path>, dir: &dyn TreeDir, origin: &[u8; 16]) {
    dir.remove_origin_record(origin);
    if let Some((state, place)) = state.and_then(|state| Some((state, dir.origin_key(None)?))) {
        let _ = Records::open(state).and_then(|records| records.forget_origin(&place, origin));
    }
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
