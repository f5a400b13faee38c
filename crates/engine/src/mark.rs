//! Marks that a client requests; see [`haul_tree::Mark`].

use haul_model::{Fault, Name, Side};
use haul_proto::Marked;
use haul_sys::Dir;
use haul_tree::Mark;
use parking_lot::Mutex;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// The mark that a client has requested, until it is removed or the client leaves.
pub(crate) type Held = Arc<Mutex<Option<Mark>>>;

/// Answers [`haul_proto::Request::Mark`] for this machine.
///
/// # Errors
/// When the directory can't be opened, or the mark can't be made.
pub(crate) fn mark(
    path: &[u8],
    mark: Option<&Name>,
    both: bool,
    held: &Held,
) -> Result<Marked, Fault> {
    *held.lock() = None;
    let failed = |error: &io::Error| {
        Fault::from_io(Side::Destination, "check whether it is the source itself", error)
    };
    let path = if path.is_empty() { b"." } else { path };
    let dir = Dir::open(Path::new(OsStr::from_bytes(path))).map_err(|error| failed(&error))?;
    if let Some(mark) = mark {
        match dir.stat(mark) {
            Ok(_) => return Ok(Marked::Shown),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(&error)),
        }
    }
    if !both && dir.is_known() {
        return Ok(Marked::Hidden);
    }
    let made = Mark::make_new_dir(&dir).map_err(|error| failed(&error))?;
    let name = made.name().clone();
    *held.lock() = Some(made);
    Ok(Marked::Made(name))
}

/// Answers [`haul_proto::Request::Unmark`].
///
/// # Errors
/// When the mark can't be removed.
pub(crate) fn unmark(held: &Held) -> Result<(), Fault> {
    let mark = held.lock().take();
    let removed = mark.map_or(Ok(()), Mark::remove);
    removed.map_err(|error| {
        Fault::from_io(Side::Destination, "remove a temporary entry from it", &error)
    })
}
