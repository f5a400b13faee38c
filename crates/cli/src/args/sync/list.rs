//! The file of `--files-from`: paths below the only source, interpreted as in rsync.

use super::super::filter::read_named;
use crate::error::CommandError;
use haul::{Location, Machine};
use haul_engine::Links;
use haul_model::{Fault, Side, escape_bytes, words};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Maximum length of a list, in bytes: it is kept in memory.
pub(crate) const LIST_LEN_MAX: u64 = 64 << 20;

/// A list that is on the remote host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RemoteList {
    /// The path on the host.
    pub(crate) path: Vec<u8>,
    /// Paths end with NUL instead of a line end.
    pub(crate) zeros: bool,
}

/// The paths of a list. For a list on the host they are empty, and its location is returned.
pub(super) type Paths = (Vec<Vec<u8>>, Option<RemoteList>);

/// Reads the list, or returns its location if it is on `host`, the remote side of the command. A
/// local list is reached only through `links`.
///
/// # Errors
/// A usage error if it can't be read, or is on another host.
pub(super) fn read(
    path: &OsStr,
    zeros: bool,
    links: Links,
    host: &Machine,
) -> Result<Paths, CommandError> {
    let shown = escape_bytes(path.as_bytes());
    let there = |path: &[u8]| RemoteList { path: path.to_vec(), zeros };
    let usage = |why: &str| CommandError::usage(format!("--files-from={shown}: {why}"));
    let location = match path.as_bytes().strip_prefix(b":") {
        Some(path) if *host != Machine::Local => return Ok((Vec::new(), Some(there(path)))),
        Some(_) => {
            return Err(usage("the list can't be on a host if source and destination are local"));
        }
        None => Location::parse(path).ok().filter(|location| location.machine != Machine::Local),
    };
    if let Some(location) = location {
        return match is_at(&location.machine, host) {
            true => Ok((Vec::new(), Some(there(&location.path)))),
            false => Err(usage("the list must be local, or on the host of this copy")),
        };
    }
    let too_long = format!("it is larger than {} MiB", LIST_LEN_MAX >> 20);
    let text = read_named(path, links, LIST_LEN_MAX, &too_long).map_err(|error| {
        let fault = Fault::from_io(Side::Source, "read it", &error);
        usage(&fault.message).for_named_file(&fault)
    })?;
    Ok((paths(&text, zeros), None))
}

/// True if `list` is on `host`. A user or port that `list` omits is taken from `host`.
fn is_at(list: &Machine, host: &Machine) -> bool {
    list.host().zip(host.host()).is_some_and(|(list, host)| {
        list.name() == host.name()
            && (list.user().is_none() || list.user() == host.user())
            && (list.port().is_none() || list.port() == host.port())
    })
}

/// The paths in `text`, without comments.
pub(crate) fn paths(text: &[u8], zeros: bool) -> Vec<Vec<u8>> {
    let is_end = |byte: &u8| if zeros { *byte == 0 } else { matches!(byte, b'\n' | b'\r') };
    let lines = text.split(is_end).filter(|line| !matches!(line, [] | [b'#' | b';', ..]));
    lines.map(sanitize_path).collect()
}

/// Makes `path` stay inside its directory: leading slashes are removed, and each `..` removes the
/// part before it.
fn sanitize_path(path: &[u8]) -> Vec<u8> {
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in words::components(path) {
        match part {
            b".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    if parts.is_empty() {
        return b".".to_vec();
    }
    let is_open = path.ends_with(b"/") || path.ends_with(b"/..");
    let end: &[u8] = if is_open { b"/" } else { b"" };
    [&parts.join(&b'/'), end].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_below_their_directory() {
        let cases: [(&[u8], &[u8]); 12] = [
            (b"a/b", b"a/b"),
            (b"/a//b/", b"a/b/"),
            (b"../a", b"a"),
            (b"a/../../../b", b"b"),
            (b"a/b/../c", b"a/c"),
            (b"a/./b", b"a/./b"),
            (b"a/./../b", b"a/b"),
            (b"a/b/..", b"a/"),
            (b"..", b"."),
            (b"/", b"."),
            (b".", b"."),
            (b"a/.", b"a/."),
        ];
        for (path, expected) in cases {
            assert_eq!(sanitize_path(path), expected, "{}", path.escape_ascii());
        }
    }

    #[test]
    fn lines_are_paths_but_for_comments() {
        let text = b"# no\n; no\n\na b\r\n #c\nlast";
        assert_eq!(paths(text, false), [&b"a b"[..], b" #c", b"last"]);
        assert_eq!(paths(b"#no\0a\nb\0\0c", true), [&b"a\nb"[..], b"c"]);
    }
}
