//! Faults of a source file while it is read.

use super::SourceFile;
use haul_model::{Fault, FaultKind, Side};

/// True if the source has become longer since it was opened; false if it is what it was
/// then.
///
/// # Errors
/// [`FaultKind::Changed`] if it is neither.
pub fn is_longer(source: &dyn SourceFile) -> Result<bool, Fault> {
    let now = source.seal_now();
    let now =
        now.map_err(|error| Fault::from_io(Side::Source, "read its metadata again", &error))?;
    let opened = source.seal();
    match now.size > opened.size {
        false if now != opened => Err(changed()),
        is_longer => Ok(is_longer),
    }
}

/// The fault of a source that changed while it was read.
pub fn changed() -> Fault {
    Fault::new(Side::Source, FaultKind::Changed, "it changed while it was read: not copied")
}

/// A file whose size is 0 is empty.
///
/// # Errors
/// If it isn't: its content can't be copied as a whole, and must not be passed
/// off as nothing. One that has grown since it was opened was empty then.
pub fn check_size(source: &dyn SourceFile) -> Result<(), Fault> {
    let has_no_size = || Ok(source.has_no_size()? && source.seal_now()?.size == 0);
    match has_no_size() {
        Ok(false) => Ok(()),
        Ok(true) => Err(Fault::new(
            Side::Source,
            FaultKind::Special,
            "its size is unknown before reading, as in /proc: not copied",
        )),
        Err(error) => Err(Fault::from_io(Side::Source, "read", &error)),
    }
}
