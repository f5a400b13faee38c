//! Names of entries, as bytes. A [`Name`] is never absolute, never `..`, and contains no separator.
//! It can be joined below a root without further checks.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

/// Longest name of one path component, in bytes (`NAME_MAX` on Linux and macOS).
pub const MAX_NAME_LEN: usize = 255;

/// Maximum depth of a tree, in directories below the root.
///
/// A path of one-byte names reaches Linux's `PATH_MAX` at 2,048 levels. The bound keeps a peer from
/// choosing our recursion depth.
pub const MAX_DEPTH: usize = 2048;

/// The reason why some bytes are not a [`Name`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// No bytes between two separators.
    #[error("the name is empty")]
    Empty,
    /// `.` or `..`, which refer to other directories.
    #[error("the name is \".\" or \"..\"")]
    Dots,
    /// A `/` inside the name.
    #[error("the name contains a \"/\"")]
    Separator,
    /// A NUL byte, at which the operating system would cut the name.
    #[error("the name contains a NUL byte")]
    Nul,
    /// More than [`MAX_NAME_LEN`] bytes.
    #[error("the name is longer than 255 bytes")]
    TooLong,
}

/// The name of one directory entry: 1 to 255 bytes without `/` and NUL, and neither `.` nor `..`.
/// It need not be UTF-8. Clones share the bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<[u8]>);

impl Name {
    /// Checks `bytes` and copies them.
    ///
    /// # Errors
    /// The rule that the bytes violate.
    pub fn new(bytes: &[u8]) -> Result<Self, NameError> {
        match bytes {
            b"" => Err(NameError::Empty),
            b"." | b".." => Err(NameError::Dots),
            _ if bytes.len() > MAX_NAME_LEN => Err(NameError::TooLong),
            _ if bytes.contains(&b'/') => Err(NameError::Separator),
            _ if bytes.contains(&0) => Err(NameError::Nul),
            _ => Ok(Self(bytes.into())),
        }
    }

    /// The name's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The name for calls of the operating system.
    pub fn as_os_str(&self) -> &OsStr {
        OsStr::from_bytes(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", crate::escape_bytes(&self.0))
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bytes = <&[u8]>::deserialize(deserializer)?;
        Self::new(bytes).map_err(serde::de::Error::custom)
    }
}

/// The names that the entries of a job get at the destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Naming {
    /// Their own names, in the destination.
    Own,
    /// The name of the destination, for the only source.
    Given,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        assert_eq!(Name::new(b""), Err(NameError::Empty));
        assert_eq!(Name::new(b"."), Err(NameError::Dots));
        assert_eq!(Name::new(b".."), Err(NameError::Dots));
        assert_eq!(Name::new(b"a/b"), Err(NameError::Separator));
        assert_eq!(Name::new(b"a\0"), Err(NameError::Nul));
        assert_eq!(Name::new(&[b'x'; 256]), Err(NameError::TooLong));
        assert!(Name::new(&[b'x'; 255]).is_ok());
        assert!(Name::new(b"...").is_ok());
        assert!(Name::new(b"\xff\n\x1b").is_ok());
    }

    proptest! {
        #[test]
        fn no_name_is_a_path_or_climbs(bytes in prop::collection::vec(prop::sample::select(b"a./\0".to_vec()), 0..12)) {
            let leads_elsewhere = bytes.is_empty()
                || bytes == b"."
                || bytes == b".."
                || bytes.contains(&b'/')
                || bytes.contains(&0);
            prop_assert_eq!(Name::new(&bytes).is_err(), leads_elsewhere);
        }
    }

    #[test]
    fn a_name_is_shown_escaped() {
        let name = Name::new(b"a\n\xff").unwrap();
        assert_eq!(format!("{name:?}"), "\"a\\n\\xff\"");
        assert_eq!(name.as_os_str(), OsStr::from_bytes(b"a\n\xff"));
    }
}
