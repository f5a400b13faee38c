//! Names of one file in the sources, and of what is in directories and bases.

use crate::case::Case;
use crate::entry::{Entry, is_in};
use crate::relations::{is_in_base, tells, told};
use std::collections::BTreeSet;

/// Where bases have what is at `path` in the destination or a source.
pub(crate) fn of_bases(path: &[u8]) -> Vec<Vec<u8>> {
    let rest = path.iter().position(|byte| *byte == b'/').map_or(&b""[..], |at| &path[at..]);
    [&b"prev"[..], b"older"].map(|base| [base, rest].concat()).to_vec()
}

/// The paths in the sources of the file that `path` tells of, if it has several, one of which
/// is in a base, too.
pub(crate) fn names_with_base<'c>(case: &'c Case, path: &[u8]) -> Vec<&'c [u8]> {
    let names = names_of(case, path);
    if names.iter().any(|name| is_in_base(case, name)) { names } else { Vec::new() }
}

/// The paths in the sources of the file that `path` tells of, if it has several.
pub(crate) fn names_of<'c>(case: &'c Case, path: &[u8]) -> Vec<&'c [u8]> {
    fn first<'c>((path, entry): (&'c Vec<u8>, &'c Entry)) -> &'c [u8] {
        entry.first().unwrap_or(path)
    }
    let own = || case.state.iter().filter(|(other, _)| is_in(other, b"src"));
    let told: BTreeSet<_> =
        own().filter(|(other, _)| tells(case, other, path)).map(first).collect();
    let names: Vec<_> = own().filter(|one| told.contains(first(*one))).collect();
    let names: Vec<&[u8]> = names.into_iter().map(|(name, _)| &**name).collect();
    if names.len() > 1 { names } else { Vec::new() }
}

/// The names, as they are told, of the directories in which `path` is.
pub(crate) fn above_of(case: &Case, path: &[u8]) -> Vec<String> {
    let above = |name: String| name.rsplit_once('/').map_or(String::new(), |(dir, _)| dir.into());
    told(case, path).into_iter().map(above).collect()
}
