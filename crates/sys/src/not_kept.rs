//! The error of an attribute that an entry can't be given where it is, while all else could
//! be done.

use haul_model::Kept;
use std::io;

/// An owner, an access control list or an extended attribute that could not be set, in words.
#[derive(Debug)]
pub struct NotKept(String);

impl std::fmt::Display for NotKept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotKept {}

impl NotKept {
    /// The error of the system that is of this `kind` and says `message`.
    pub(crate) fn error(kind: io::ErrorKind, message: String) -> io::Error {
        io::Error::new(kind, Self(message))
    }

    /// True if `error` is one of these.
    pub fn is(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|inner| inner.is::<Self>())
    }
}

/// The result of setting an attribute, where those of `which` may have to be done without.
pub(crate) fn as_possible(which: Kept, set: io::Result<()>) -> io::Result<()> {
    match set {
        Err(error) if which.has(Kept::AS_POSSIBLE) && NotKept::is(&error) => Ok(()),
        set => set,
    }
}
