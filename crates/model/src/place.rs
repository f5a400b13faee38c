//! The place of a source at the destination, by the text of its path alone. So both sides of a
//! connection compute the same one.

use crate::words;
use crate::{MAX_DEPTH, Name, NameError, Relative};

/// The end of the part of a path that a relative source drops.
const CUT: &[u8] = b"/./";

/// A source, and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The directory in which the names begin: a path on the sources' machine.
    pub start: Vec<u8>,
    /// The path from the directory of a list to `start`. Empty without a list.
    pub inner: Vec<Name>,
    /// The path from `start` to the source, which is also its path in the destination. Empty if the
    /// source is the content of `start` itself.
    pub names: Vec<Name>,
    /// The path ended with a slash or a dot, and means the content of a directory.
    pub slash: bool,
    /// The path begins with `./`, and also means the first directory itself without its content.
    pub dot: bool,
}

/// The reason why a source has no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PlaceError {
    /// It would be outside of the destination.
    #[error("a relative path must not have \"..\" in it")]
    Parent,
    /// A name in it is invalid.
    #[error(transparent)]
    Name(#[from] NameError),
    /// It is too deep.
    #[error("more than {MAX_DEPTH} names deep")]
    Deep,
}

impl Place {
    /// The place of the source `path`. It is an entry of a list in the directory `base` if that is
    /// given.
    ///
    /// # Errors
    /// [`PlaceError`].
    pub fn of(path: &[u8], base: Option<&[u8]>, relative: Relative) -> Result<Self, PlaceError> {
        if relative == Relative::No {
            return match base {
                Some(base) => Self::in_list(path, base),
                None => Self::plain(path),
            };
        }
        let cut = path.windows(CUT.len()).position(|here| here == CUT);
        let (front, rest) = match cut {
            Some(0) => (&b"/"[..], &path[CUT.len()..]),
            Some(at) => (&path[..at], &path[at + CUT.len()..]),
            None if path.starts_with(b"/") => (&b"/"[..], path),
            None => (&b"."[..], path),
        };
        let (start, inner) = match base {
            Some(base) => (below(base, front), names(front)?),
            None => (front.to_vec(), Vec::new()),
        };
        let names = names(rest)?;
        let slash = names.is_empty() || ends_open(rest);
        let dot = rest.starts_with(b"./") && rest.len() > 2;
        Ok(Self { start, inner, names, slash, dot })
    }

    /// The place of a source that keeps only its last name.
    fn plain(path: &[u8]) -> Result<Self, PlaceError> {
        let split = words::split(path);
        let (start, names) = match split.name {
            Some(name) => (split.parent, vec![Name::new(name)?]),
            None => (split.whole, Vec::new()),
        };
        let slash = split.slash || names.is_empty();
        Ok(Self { start: start.to_vec(), inner: Vec::new(), names, slash, dot: false })
    }

    /// The place of a source in a list in the directory `base`.
    fn in_list(path: &[u8], base: &[u8]) -> Result<Self, PlaceError> {
        let mut inner = names(path)?;
        let name = if ends_open(path) { None } else { inner.pop() };
        let start = inner.iter().fold(base.to_vec(), |start, name| below(&start, name.as_bytes()));
        let slash = name.is_none();
        Ok(Self { start, inner, names: name.into_iter().collect(), slash, dot: false })
    }
}

/// The names in a path, without `.`.
fn parts(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    words::components(path).filter(|part| *part != b".")
}

fn names(path: &[u8]) -> Result<Vec<Name>, PlaceError> {
    if parts(path).any(|part| part == b"..") {
        return Err(PlaceError::Parent);
    }
    let names = parts(path).map(Name::new).collect::<Result<Vec<_>, _>>()?;
    if names.len() > MAX_DEPTH { Err(PlaceError::Deep) } else { Ok(names) }
}

/// True if `path` means the content of a directory.
fn ends_open(path: &[u8]) -> bool {
    path.ends_with(b"/") || path.ends_with(b"/.")
}

/// The path `path` below the directory `base`. A leading slash is ignored.
fn below(base: &[u8], path: &[u8]) -> Vec<u8> {
    let start = path.iter().position(|byte| *byte != b'/').unwrap_or(path.len());
    words::join(base, &path[start..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(path: &[u8], base: Option<&[u8]>, relative: Relative) -> String {
        match Place::of(path, base, relative) {
            Ok(Place { start, names, slash, dot, .. }) => {
                let dot = if dot { " ." } else { "" };
                let names: Vec<_> = names.iter().map(Name::as_bytes).collect();
                let (start, names) = (start.escape_ascii(), names.join(&b' '));
                let slash = if slash { " /" } else { "" };
                format!("{start}:{dot} {}{slash}", names.escape_ascii())
            }
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_relative_source_keeps_its_path_from_the_dot_on() {
        let cases: [(&[u8], &str); 14] = [
            (b"a/b", ".: a b"),
            (b"./a//b/", ".: . a b /"),
            (b"a/b/.", ".: a b /"),
            (b"/a/b", "/: a b"),
            (b"x/y/./a/b", "x/y: a b"),
            (b"x/././a", "x: . a"),
            (b"/./a", "/: a"),
            (b"x/./", "x:  /"),
            (b".", ".:  /"),
            (b"./", ".:  /"),
            (b"x/./a/./b/", "x: a b /"),
            (b"../a", "a relative path must not have \"..\" in it"),
            (b"../x/./a", "../x: a"),
            (b"a/..", "a relative path must not have \"..\" in it"),
        ];
        for (path, expected) in cases {
            assert_eq!(shown(path, None, Relative::Yes), expected, "{}", path.escape_ascii());
        }
    }

    #[test]
    fn a_plain_source_keeps_its_last_name() {
        let cases: [(&[u8], &str); 6] = [
            (b"a", ".: a"),
            (b"x/a", "x: a"),
            (b"x/a/", "x: a /"),
            (b"..", "..:  /"),
            (b"x/.", "x/.:  /"),
            (b"/", "/:  /"),
        ];
        for (path, expected) in cases {
            assert_eq!(shown(path, None, Relative::No), expected, "{}", path.escape_ascii());
        }
    }

    #[test]
    fn a_relative_source_has_no_more_names_than_a_path_may_have() {
        let names = |count| names(&b"a/".repeat(count)).map(|names| names.len());
        assert_eq!(names(MAX_DEPTH), Ok(MAX_DEPTH));
        assert_eq!(names(MAX_DEPTH + 1), Err(PlaceError::Deep));
    }

    #[test]
    fn a_source_of_a_list_stays_below_its_directory() {
        let base: Option<&[u8]> = Some(b"dir/");
        let parent = "a relative path must not have \"..\" in it";
        let cases: [(&[u8], &str, &str); 6] = [
            (b"a/b", "dir: a b", "dir/a: b"),
            (b"/a/b/", "dir: a b /", "dir/a/b:  /"),
            (b"x/./a", "dir/x: a", "dir/x: a"),
            (b".", "dir:  /", "dir/:  /"),
            (b"/etc/./x/../y", parent, parent),
            (b"../x/./a", parent, parent),
        ];
        for (path, relative, plain) in cases {
            assert_eq!(shown(path, base, Relative::Yes), relative, "{}", path.escape_ascii());
            assert_eq!(shown(path, base, Relative::No), plain, "{}", path.escape_ascii());
        }
    }
}
