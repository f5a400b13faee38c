//! The mark by which a directory is known again that a job made as a new name.

use haul_sys::Dir;

/// The extended attribute in which a directory of this machine remembers the job that
/// made it, where the file system has such attributes.
pub const ATTRIBUTE: &str = "user.haul.origin";

/// Has `dir` remember that a job of `origin` made it. Where that can't be done the same
/// words mean a directory in it when they are given again, as to cp.
pub(crate) fn remember(dir: &Dir, origin: &[u8; 16]) {
    if let Some(value) = value(dir, origin) {
        let _ = haul_sys::set_attribute(dir, ATTRIBUTE, &value);
    }
}

/// True if a job of `origin` made `dir`.
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
