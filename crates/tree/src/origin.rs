//! Records in a directory which job has created it as a new name.

use haul_sys::Dir;

/// The extended attribute that records which job has created a directory of this machine.
pub const ATTRIBUTE: &str = "user.haul.origin";

/// Records in `dir` that a job of `origin` created it. If that fails, a repeated command copies
/// into the directory, as cp does.
pub(crate) fn remember(dir: &Dir, origin: &[u8; 16]) {
    if let Some(value) = value(dir, origin) {
        let _ = haul_sys::set_attribute(dir, ATTRIBUTE, &value);
    }
}

/// Removes the record in `dir`. If that fails, the same command takes `dir` as its new name again.
pub(crate) fn forget(dir: &Dir) {
    let _ = haul_sys::remove_attribute(dir, ATTRIBUTE);
}

/// True if a job of `origin` made `dir`.
pub(crate) fn is_of(dir: &Dir, origin: &[u8; 16]) -> bool {
    haul_sys::attribute(dir, ATTRIBUTE).is_some_and(|there| Some(there) == value(dir, origin))
}

/// The value includes the inode, so that a copy of the directory with its attributes does not
/// count.
fn value(dir: &Dir, origin: &[u8; 16]) -> Option<[u8; 24]> {
    let mut value = [0; 24];
    value[..16].copy_from_slice(origin);
    value[16..].copy_from_slice(&dir.stat_self().ok()?.id.ino.to_le_bytes());
    Some(value)
}
