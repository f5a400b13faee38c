//! Names and relative paths as bytes. A value of these types can't be absolute,
//! can't climb with `..`, and can't hide a separator; whoever holds one may
//! join it below a root without looking at it again.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;

/// Longest name of one path component, in bytes (`NAME_MAX` on Linux and macOS).
pub const MAX_NAME_LEN: usize = 255;

/// Deepest tree that is walked, in directories below the root.
///
/// A path of one-byte names reaches Linux's `PATH_MAX` at 2,048 levels; the
/// bound keeps a peer from choosing our recursion.
pub const MAX_DEPTH: usize = 2048;

/// Why some bytes are not a [`Name`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Nothing between two separators.
    #[error("the name is empty")]
    Empty,
    /// `.` or `..`, which name another place than an entry.
    #[error("the name is \".\" or \"..\"")]
    Dots,
    /// A `/` inside of the name.
    #[error("the name contains a \"/\"")]
    Separator,
    /// A NUL byte, at which the operating system would cut the name.
    #[error("the name contains a NUL byte")]
    Nul,
    /// More than [`MAX_NAME_LEN`] bytes.
    #[error("the name is longer than 255 bytes")]
    TooLong,
}

/// The name of one directory entry: 1 to 255 bytes without `/` and NUL, and
/// neither `.` nor `..`. It need not be UTF-8.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Box<[u8]>);

impl Name {
    /// Checks `bytes` and keeps them.
    ///
    /// # Errors
    /// Says which rule the bytes break.
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

    /// The name as the operating system takes it.
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

/// A path below some root: names joined by `/`. Empty means the root itself.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelPath(Vec<u8>);

impl RelPath {
    /// The root itself.
    pub const fn root() -> Self {
        Self(Vec::new())
    }

    /// Parses `bytes`, every component of which must be a [`Name`].
    ///
    /// # Errors
    /// The first rule that a component breaks; an absolute path and a doubled
    /// separator are [`NameError::Empty`].
    pub fn parse(bytes: &[u8]) -> Result<Self, NameError> {
        if bytes.is_empty() {
            return Ok(Self::root());
        }
        for component in bytes.split(|&b| b == b'/') {
            Name::new(component)?;
        }
        Ok(Self(bytes.to_vec()))
    }

    /// This path with `name` below it.
    pub fn join(&self, name: &Name) -> Self {
        let mut bytes = Vec::with_capacity(self.0.len() + 1 + name.0.len());
        bytes.extend_from_slice(&self.0);
        if !bytes.is_empty() {
            bytes.push(b'/');
        }
        bytes.extend_from_slice(&name.0);
        Self(bytes)
    }

    /// The bytes, without a leading or a trailing `/`.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether this is the root itself.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", crate::escape_bytes(&self.0))
    }
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

    #[test]
    fn paths_that_lead_elsewhere_are_refused() {
        assert_eq!(RelPath::parse(b"/etc"), Err(NameError::Empty));
        assert_eq!(RelPath::parse(b"a//b"), Err(NameError::Empty));
        assert_eq!(RelPath::parse(b"a/"), Err(NameError::Empty));
        assert_eq!(RelPath::parse(b"a/../b"), Err(NameError::Dots));
        assert!(RelPath::parse(b"").expect("the root").is_root());
        assert_eq!(RelPath::parse(b"a/b").expect("plain").as_bytes(), b"a/b");
    }

    proptest! {
        #[test]
        fn a_joined_path_parses_to_itself(parts in prop::collection::vec("[a-z.]{1,5}", 1..6)) {
            let names: Vec<Name> = parts.iter().filter_map(|p| Name::new(p.as_bytes()).ok()).collect();
            let joined = names.iter().fold(RelPath::root(), |path, name| path.join(name));
            prop_assert_eq!(RelPath::parse(joined.as_bytes()).expect("made of names"), joined);
        }

        #[test]
        fn no_parsed_path_is_absolute_or_climbs(bytes in prop::collection::vec(prop::sample::select(b"a./\0".to_vec()), 0..12)) {
            if let Ok(path) = RelPath::parse(&bytes) {
                prop_assert!(!path.as_bytes().starts_with(b"/"));
                prop_assert!(path.as_bytes().split(|&b| b == b'/').all(|c| c != b".."));
                prop_assert!(!path.as_bytes().contains(&0));
            }
        }
    }
}
