//! Faults of a source file during reading.

use super::{SourceFile, changed};
use haul_model::{Fault, FaultKind, OrFault, Side};

/// How a source has changed since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceChange {
    /// It is the same.
    None,
    /// Its size and time are the same, but its content may have changed.
    Uncertain,
    /// It is longer. The rest may have changed, too.
    Grown,
}

/// The change of the source since it was opened.
///
/// # Errors
/// [`FaultKind::Changed`] if it has changed, and not only grown.
pub fn change_since_opened(source: &dyn SourceFile) -> Result<SourceChange, Fault> {
    let (now, may_hide_changes) =
        source.seal_now().or_fault(Side::Source, "read its metadata again")?;
    let opened = source.seal();
    match now.size > opened.size {
        true => Ok(SourceChange::Grown),
        false if now != opened => Err(changed()),
        false if may_hide_changes => Ok(SourceChange::Uncertain),
        false => Ok(SourceChange::None),
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
            && source.seal_now()?.0.size == 0)
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
