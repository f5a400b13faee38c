//! Paths as users write them, split by their text alone, so that both sides of a connection agree.

use crate::{Name, NameError};

/// A path, split at its last component.
pub struct Split<'p> {
    /// The directory of the last component.
    pub parent: &'p [u8],
    /// The last component. `None` if the path is `/`, or ends with `.` or `..`.
    pub name: Option<&'p [u8]>,
    /// The path without slashes at its end.
    pub whole: &'p [u8],
    /// The path ended with a slash, and means a directory.
    pub slash: bool,
}

/// Splits `path`. An empty path is `.`, as in `host:`.
pub fn split(path: &[u8]) -> Split<'_> {
    let len = path.iter().rposition(|b| *b != b'/').map_or(0, |last| last + 1);
    let slash = len < path.len();
    let whole = match &path[..len] {
        b"" if slash => &b"/"[..],
        b"" => b".",
        trimmed => trimmed,
    };
    let (parent, last) = match whole.iter().rposition(|b| *b == b'/') {
        Some(0) => (&b"/"[..], &whole[1..]),
        Some(at) => (&whole[..at], &whole[at + 1..]),
        None => (&b"."[..], whole),
    };
    let name = (!matches!(last, b"" | b"." | b"..")).then_some(last);
    Split { parent, name, whole, slash }
}

/// The components of `path` in their order. Repeated, leading and trailing slashes are ignored.
pub fn components(path: &[u8]) -> impl Iterator<Item = &[u8]> + Clone {
    path.split(|byte| *byte == b'/').filter(|part| !part.is_empty())
}

/// Joins `dir` and `below`, without slashes at the end of `dir`. If `below` is empty or `.`, the
/// result is `dir`, which may then be a file.
pub fn join(dir: &[u8], below: &[u8]) -> Vec<u8> {
    let Split { whole, .. } = split(dir);
    match (whole, below) {
        (_, b"" | b".") => whole.to_vec(),
        (b".", _) => below.to_vec(),
        (b"/", _) => [b"/", below].concat(),
        _ => [whole, b"/", below].concat(),
    }
}

/// The path of [`join_upwards`].
pub fn path_upwards<'n>(names: impl Iterator<Item = &'n Name> + Clone) -> Vec<u8> {
    let mut path = Vec::new();
    join_upwards(names, &mut path);
    path
}

/// Sets `path` to the path of an entry. Its name comes first in `names`, then those of the
/// directories above it. The path is `.` if there are none.
pub fn join_upwards<'n>(names: impl Iterator<Item = &'n Name> + Clone, path: &mut Vec<u8>) {
    let len = names.clone().map(|name| name.as_bytes().len() + 1).sum::<usize>();
    path.clear();
    path.resize(len.saturating_sub(1), b'/');
    let mut end = path.len();
    for name in names {
        let name = name.as_bytes();
        path[end - name.len()..end].copy_from_slice(name);
        end = (end - name.len()).saturating_sub(1);
    }
    if path.is_empty() {
        path.push(b'.');
    }
}

/// The name of the source at `path` on the wire. `None` if it is a directory without a name of its
/// own.
///
/// # Errors
/// If the last component is not a valid name.
pub fn wire_name(path: &[u8]) -> Result<Option<Name>, NameError> {
    split(path).name.map(Name::new).transpose()
}

/// Maximum length of a path in messages, in bytes. A tree can be deeper than any path that the
/// system accepts.
const SHOWN_LEN_MAX: usize = 4096;

/// `path` for messages. A path that is too long is cut at its beginning.
pub fn shown(path: Vec<u8>) -> Vec<u8> {
    match path.len().checked_sub(SHOWN_LEN_MAX) {
        None | Some(0) => path,
        Some(cut) => [b"...", &path[cut + 3..]].concat(),
    }
}

/// Replaces a leading `~` by the home directory, which is the working directory of an agent.
pub fn without_tilde(path: &[u8]) -> &[u8] {
    match path {
        b"~" => b".",
        [b'~', b'/', rest @ ..] => match rest.iter().position(|b| *b != b'/') {
            Some(start) => &rest[start..],
            None => b".",
        },
        path => path,
    }
}

/// `path` without a trailing `/.`, which means the content of the directory.
pub fn without_dot(path: &[u8]) -> &[u8] {
    match path {
        [dir @ .., b'/', b'.'] if !dir.is_empty() => dir,
        path => path,
    }
}

/// True if two names in one directory may be the same entry. Some file systems ignore case, or the
/// encoding of a character.
pub fn may_be_same_name(one: &[u8], other: &[u8]) -> bool {
    one.eq_ignore_ascii_case(other) || !(one.is_ascii() && other.is_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_joined_from_its_end() {
        let cases: [(&[&str], &[u8]); 3] = [(&[], b"."), (&["a"], b"a"), (&["c", "bb"], b"bb/c")];
        let mut path = b"of/another/that/is/longer".to_vec();
        for (names, joined) in cases {
            let names: Vec<_> =
                names.iter().map(|name| Name::new(name.as_bytes()).unwrap()).collect();
            join_upwards(names.iter(), &mut path);
            assert_eq!(path, joined);
        }
    }

    #[test]
    fn paths_are_taken_apart_as_a_shell_user_means_them() {
        type Case = (&'static [u8], &'static [u8], Option<&'static [u8]>, bool);
        let cases: &[Case] = &[
            (b"a", b".", Some(b"a"), false),
            (b"a/", b".", Some(b"a"), true),
            (b"/a", b"/", Some(b"a"), false),
            (b"/a//b//", b"/a/", Some(b"b"), true),
            (b"a/b", b"a", Some(b"b"), false),
            (b".", b".", None, false),
            (b"..", b".", None, false),
            (b"a/..", b"a", None, false),
            (b"/", b"/", None, true),
            (b"", b".", None, false),
        ];
        for (path, parent, name, slash) in cases {
            let split = split(path);
            assert_eq!(
                (split.parent, split.name, split.slash),
                (*parent, *name, *slash),
                "{path:?}"
            );
        }
    }

    #[test]
    fn a_path_for_showing_is_bounded_and_keeps_its_end() {
        for len in [0, 1, SHOWN_LEN_MAX - 1, SHOWN_LEN_MAX] {
            assert_eq!(shown(vec![b'x'; len]), vec![b'x'; len]);
        }
        let long = shown([&vec![b'x'; SHOWN_LEN_MAX][..], b"/end"].concat());
        assert_eq!(long.len(), SHOWN_LEN_MAX);
        assert!(long.starts_with(b"...x") && long.ends_with(b"x/end"));
    }

    #[test]
    fn what_is_in_a_directory_is_said_with_a_dot() {
        let cases: [(&[u8], &[u8]); 6] = [
            (b"a/.", b"a"),
            (b"/a//.", b"/a/"),
            (b"a", b"a"),
            (b"a.", b"a."),
            (b".", b"."),
            (b"/.", b"/."),
        ];
        for (path, dir) in cases {
            assert_eq!(without_dot(path), dir, "{path:?}");
        }
    }

    #[test]
    fn a_tilde_is_the_home_directory() {
        assert_eq!(without_tilde(b"~"), b".");
        assert_eq!(without_tilde(b"~/"), b".");
        assert_eq!(without_tilde(b"~/a"), b"a");
        assert_eq!(without_tilde(b"~//etc"), b"etc");
        assert_eq!(without_tilde(b"~other/a"), b"~other/a");
        assert_eq!(without_tilde(b"./~"), b"./~");
    }

    #[test]
    fn a_path_below_a_directory_has_one_slash_between() {
        let cases: [(&[u8], &[u8], &[u8]); 8] = [
            (b"a", b"b", b"a/b"),
            (b"a//", b"b/c", b"a/b/c"),
            (b"/", b"b", b"/b"),
            (b".", b"b", b"b"),
            (b"", b"b", b"b"),
            (b"a/", b"", b"a"),
            (b"a", b".", b"a"),
            (b"/", b".", b"/"),
        ];
        for (dir, below, joined) in cases {
            assert_eq!(join(dir, below), joined, "{dir:?} {below:?}");
        }
    }

    #[test]
    fn slashes_make_no_components_and_dots_no_names() {
        let all: Vec<_> = components(b"//a/./b//").collect();
        assert_eq!(all, [&b"a"[..], b".", b"b"]);
        assert_eq!(wire_name(b"a/b/"), Ok(Some(Name::new(b"b").unwrap())));
        assert_eq!(wire_name(b"a/.."), Ok(None));
        assert_eq!(wire_name(b"a\0"), Err(NameError::Nul));
        let names = [b"c", b"b"].map(|name| Name::new(name).unwrap());
        assert_eq!(path_upwards(names.iter()), b"b/c");
    }

    #[test]
    fn the_whole_of_a_path_has_no_slash_at_its_end() {
        let cases: [(&[u8], &[u8]); 5] =
            [(b"a//", b"a"), (b"/", b"/"), (b"//", b"/"), (b"", b"."), (b"/a/b", b"/a/b")];
        for (path, whole) in cases {
            assert_eq!(split(path).whole, whole, "{path:?}");
        }
    }

    #[test]
    fn names_that_some_file_system_takes_for_one_may_be_one() {
        assert!(may_be_same_name(b"File", b"fILE") && may_be_same_name(b"a", b"a"));
        assert!(!may_be_same_name(b"a", b"b"));
        // An accent may be a character by itself.
        let (one, two) = ("\u{e9}".as_bytes(), "e\u{301}".as_bytes());
        assert!(may_be_same_name(one, two) && may_be_same_name(one, b"e"));
        assert!(may_be_same_name(b"e", one));
    }
}
