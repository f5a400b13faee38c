//! The error of an attribute that can't be set on an entry, while everything else succeeded.

use haul_model::Kept;
use std::io;

/// Describes an owner, an access control list or an extended attribute that could not be set.
#[derive(Debug)]
pub struct NotKept(String);

impl std::fmt::Display for NotKept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotKept {}

impl NotKept {
    /// A system error of this `kind` with the text `message`.
    pub(crate) fn error(kind: io::ErrorKind, message: String) -> io::Error {
        io::Error::new(kind, Self(message))
    }

    /// True if `error` is of this type.
    pub fn is(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|inner| inner.is::<Self>())
    }
}

/// The result of setting an attribute. Ignores [`NotKept`] if `which` allows that.
pub(crate) fn ignore_not_kept(which: Kept, set: io::Result<()>) -> io::Result<()> {
    match set {
        Err(error) if which.has(Kept::AS_POSSIBLE) && NotKept::is(&error) => Ok(()),
        set => set,
    }
}
