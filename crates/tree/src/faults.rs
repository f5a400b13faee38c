//! Faults of a source file during reading.

use super::{SourceFile, changed};
use haul_model::{Fault, FaultKind, Side};

/// True if the source has grown since it was opened; false if it is unchanged.
///
/// # Errors
/// [`FaultKind::Changed`] if it has changed in another way.
pub fn has_grown(source: &dyn SourceFile) -> Result<bool, Fault> {
    let now = source.seal_now();
    let now =
        now.map_err(|error| Fault::from_io(Side::Source, "read its metadata again", &error))?;
    let opened = source.seal();
    match now.size > opened.size {
        false if now != opened => Err(changed()),
        has_grown => Ok(has_grown),
    }
}

/// Checks that a file of size 0 is empty.
///
/// # Errors
/// If it has content: such a file can't be copied as a whole, and must not be copied as empty. A
/// file that has grown since it was opened was empty then.
pub fn check_size(source: &dyn SourceFile) -> Result<(), Fault> {
    let has_unknown_size = || {
        Ok(source.seal().size == 0
            && source.read_at(&mut [0], 0)? > 0
            && source.seal_now()?.size == 0)
    };
    match has_unknown_size() {
        Ok(false) => Ok(()),
        Ok(true) => Err(Fault::new(
            Side::Source,
            FaultKind::Special,
            "its size is unknown before reading, as in /proc: not copied",
        )),
        Err(error) => Err(Fault::from_io(Side::Source, "read", &error)),
    }
}
