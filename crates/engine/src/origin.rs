//! Where a directory comes from that a job made under a new name: what the same words
//! mean when they are given again. To a directory that is there they would mean one
//! in it.

use haul_model::{ContentHash, Name, words};
use haul_store::{Journals, Origins};
use haul_tree::TreeDir;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A number for the source at `source`, on `host` or here, that gets the name which
/// `dest` ends with; `None` if nothing can be made under it.
pub(crate) fn origin(host: Option<&str>, source: &[u8], dest: &[u8]) -> Option<[u8; 16]> {
    let name = words::split(dest).name?;
    let (host, path) = match host {
        Some(host) => (host.as_bytes().to_vec(), source.to_vec()),
        None => {
            let path = std::fs::canonicalize(Path::new(OsStr::from_bytes(source))).ok()?;
            (haul_sys::node_name(), path.into_os_string().into_encoded_bytes())
        }
    };
    // None of them has a NUL in it.
    let hash = ContentHash::of(&[host.as_slice(), &path, name].join(&0));
    hash.as_bytes().first_chunk().copied()
}

/// True if it is on record in the directory `state` that a job of `origin` has made
/// `dir`, which can't keep that in mind itself.
pub(crate) fn is_on_record(state: Option<&Path>, dir: &dyn TreeDir, origin: &[u8; 16]) -> bool {
    let place = state.and_then(|state| Some((state, dir.place_on_record(None)?)));
    place.is_some_and(|(state, place)| has_record(state, &place, origin))
}

/// The same of the directory that `place` stands for.
pub(crate) fn has_record(state: &Path, place: &[u8], origin: &[u8; 16]) -> bool {
    Origins::find(state).is_ok_and(|origins| origins.has(place, origin))
}

/// Puts on record in the directory `state` that a job of `origin` makes `name` in
/// `above`, where that directory can't keep it in mind. It is before it is made: so
/// the record is there whatever ends the job. Where that can't be done, the same words
/// mean a directory in it when they are given again, as to cp.
pub(crate) fn put_on_record(
    state: Option<&Path>,
    above: &dyn TreeDir,
    name: &Name,
    origin: &[u8; 16],
) {
    let place = state.and_then(|state| Some((state, above.place_on_record(Some(name))?)));
    let Some((state, place)) = place else { return };
    let recorded = Journals::open(state)
        .and_then(|journals| Origins::beside(&journals).remember(&place, origin));
    if let Err(error) = recorded {
        tracing::debug!(%error, "no record of what was made");
    }
}
