//! Where a directory comes from that a job made under a new name: what the same words
//! mean when they are given again. To a directory that is there they would mean one
//! in it.

use haul_model::ContentHash;
use haul_model::words;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

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
