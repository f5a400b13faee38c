//! Marks that a client requests; see [`haul_tree::Marker`].

use haul_model::{Fault, Name, OrFault, Side};
use haul_proto::Marked;
use haul_sys::Dir;
use haul_tree::Marker;
use parking_lot::Mutex;
use std::io;
use std::sync::Arc;

/// The mark that a client has requested, until it is removed or the client leaves.
pub(crate) type Held = Arc<Mutex<Option<Marker>>>;

/// Answers [`haul_proto::Request::Marker`] for this machine.
///
/// # Errors
/// When the directory can't be opened, or the mark can't be made.
pub(crate) fn marker(
    path: &[u8],
    marker: Option<&Name>,
    both: bool,
    held: &Held,
) -> Result<Marked, Fault> {
    *held.lock() = None;
    let failed = |error: &io::Error| {
        Fault::from_io(Side::Destination, "check whether it is the source itself", error)
    };
    let path = if path.is_empty() { b"." } else { path };
    let dir = Dir::open_raw(path).map_err(|error| failed(&error))?;
    if let Some(marker) = marker {
        match dir.stat(marker) {
            Ok(_) => return Ok(Marked::Shown),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(&error)),
        }
    }
    if !both && dir.has_known_file_system() {
        return Ok(Marked::Hidden);
    }
    let made = Marker::make_new_dir(&dir).map_err(|error| failed(&error))?;
    let name = made.name().clone();
    *held.lock() = Some(made);
    Ok(Marked::Made(name))
}

/// Answers [`haul_proto::Request::RemoveMarker`].
///
/// # Errors
/// When the mark can't be removed.
pub(crate) fn remove_marker(held: &Held) -> Result<(), Fault> {
    let marker = held.lock().take();
    marker
        .map_or(Ok(()), Marker::remove)
        .or_fault(Side::Destination, "remove a temporary entry from it")
}
