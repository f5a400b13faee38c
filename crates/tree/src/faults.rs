//! Faults of a source file while it is read.

use super::SourceFile;
use haul_model::{Fault, FaultKind, Side};

/// The source is what it was when it was opened.
///
/// # Errors
/// [`FaultKind::Changed`] if it isn't.
pub fn check_unchanged(source: &dyn SourceFile) -> Result<(), Fault> {
    let now = source.seal_now();
    let now = now.map_err(|error| Fault::from_io(Side::Source, "look at it again", &error))?;
    if now == source.seal() { Ok(()) } else { Err(changed()) }
}

/// The fault of a source that changed while it was read.
pub fn changed() -> Fault {
    Fault::new(Side::Source, FaultKind::Changed, "it changed while it was read, and was not copied")
}

/// A file whose size is 0 is empty.
///
/// # Errors
/// If it isn't: its content can't be copied as a whole, and must not be passed
/// off as nothing.
pub fn check_size(source: &dyn SourceFile) -> Result<(), Fault> {
    match source.has_no_size() {
        Ok(false) => Ok(()),
        Ok(true) => Err(Fault::new(
            Side::Source,
            FaultKind::Special,
            "its size is not known before it is read, as in /proc; it is not copied",
        )),
        Err(error) => Err(Fault::from_io(Side::Source, "read", &error)),
    }
}
