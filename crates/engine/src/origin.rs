//! Where a directory comes from that a job made under a new name: what the same words
//! mean when they are given again. To a directory that is there they would mean one
//! in it.

use crate::words;
use haul_model::ContentHash;
use haul_sys::Dir;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Under which name a directory of this machine keeps it in mind: an extended
/// attribute, where the file system has these.
pub(crate) const ATTRIBUTE: &str = "user.haul.origin";

/// A number for the source at `source`, on `host` or here, that gets the name which
/// `dest` ends with; `None` if nothing can be made under it.
pub fn origin(host: Option<&str>, source: &[u8], dest: &[u8]) -> Option<[u8; 16]> {
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

/// Has `dir` keep in mind that a job of `origin` made it. Where that can't be done
/// the same words mean a directory in it when they are given again, as to cp.
pub(crate) fn remember(dir: &Dir, origin: &[u8; 16]) {
    if let Some(value) = value(dir, origin) {
        let _ = haul_sys::set_attribute(dir, ATTRIBUTE, &value);
    }
}

/// Whether a job of `origin` made `dir`.
pub(crate) fn is_of(dir: &Dir, origin: &[u8; 16]) -> bool {
    haul_sys::attribute(dir, ATTRIBUTE).is_some_and(|there| Some(there) == value(dir, origin))
}

/// A copy of the directory that has its attributes, too, was not made by that job.
fn value(dir: &Dir, origin: &[u8; 16]) -> Option<[u8; 24]> {
    let mut value = [0; 24];
    value[..16].copy_from_slice(origin);
    value[16..].copy_from_slice(&dir.stat_self().ok()?.id.ino.to_le_bytes());
    Some(value)
}
