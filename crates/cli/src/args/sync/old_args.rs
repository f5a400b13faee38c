//! `--old-args`: several paths in one source of a host, as rsync took them before version 3.2.4.

use crate::error::CommandError;
use haul::{Location, Machine};
use std::env;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// The environment variable with the effect of `--old-args`, unless it is empty or 0.
const VARIABLE: &str = "RSYNC_OLD_ARGS";

/// True if sources are split. An option requests it, or the environment without `--secluded-args`.
///
/// # Errors
/// If options request both.
pub(super) fn is_enabled(
    requested: Option<bool>,
    secluded_args: bool,
) -> Result<bool, CommandError> {
    let of_environment =
        || env::var_os(VARIABLE).is_some_and(|value| !value.is_empty() && value != "0");
    match (requested, secluded_args) {
        (Some(true), true) => {
            Err(CommandError::usage("--secluded-args and --old-args exclude each other"))
        }
        (Some(requested), _) => Ok(requested),
        (None, secluded_args) => Ok(!secluded_args && of_environment()),
    }
}

/// Splits the remote sources of `paths` at spaces. The last path is the destination, unless it is
/// the only one.
pub(super) fn split(paths: Vec<OsString>) -> Vec<OsString> {
    let sources = paths.len().saturating_sub(1).max(1);
    let mut all = Vec::new();
    for (at, path) in paths.into_iter().enumerate() {
        match at < sources {
            true => all.extend(parts(path)),
            false => all.push(path),
        }
    }
    all
}

/// The sources in `source`. All paths are on the same host. A space after a backslash belongs to
/// its path, as it did for the remote shell.
fn parts(source: OsString) -> Vec<OsString> {
    let Ok(Location { machine: Machine::Remote(_), path, given }) = Location::parse(&source) else {
        return vec![source];
    };
    let host = given.strip_suffix(&*path).unwrap_or_default();
    if !host.ends_with(b":") {
        return vec![source];
    }
    let mut paths = vec![Vec::new()];
    let mut bytes = path.iter().peekable();
    while let Some(byte) = bytes.next() {
        let last = paths.last_mut().expect("there is one from the beginning");
        match byte {
            b'\\' if bytes.peek() == Some(&&b' ') => last.extend(bytes.next()),
            b' ' if last.is_empty() => {}
            b' ' => paths.push(Vec::new()),
            _ => last.push(*byte),
        }
    }
    if paths.len() > 1 {
        paths.pop_if(|path| path.is_empty());
    }
    let of_host = |path: Vec<u8>| OsString::from_vec([host, &path].concat());
    paths.into_iter().map(of_host).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_of_a_host_are_split_at_spaces() {
        for (source, told) in [
            ("host:one two", &["host:one", "host:two"][..]),
            ("me@host:/a/b  c* ", &["me@host:/a/b", "me@host:c*"]),
            ("host:one\\ two three", &["host:one two", "host:three"]),
            ("host:a\\*b", &["host:a\\*b"]),
            ("host:", &["host:"]),
            ("one two", &["one two"]),
            ("ssh://host/one two", &["ssh://host/one two"]),
        ] {
            let dest = "host:the dest";
            let split = split(vec![source.into(), dest.into()]);
            assert_eq!(split, [told, &[dest]].concat(), "{source}");
        }
        assert_eq!(split(vec!["host:a b".into()]), ["host:a", "host:b"]);
        assert!(is_enabled(Some(true), true).is_err());
        assert!(!is_enabled(None, true).expect("no error"));
    }
}
