//! How the entries of a case relate to each other: by their names, their kinds, and what is told
//! of them.

use crate::case::Case;
use crate::entry::{Entry, Kind, is_in};
use haul_model::escape_bytes;
use std::collections::BTreeSet;
use std::mem::discriminant;

/// True if a file with that path may have rules.
pub(crate) fn is_of_rules(path: &[u8]) -> bool {
    path.ends_with(b".cvsignore") || path.ends_with(b".rsync-filter")
}

/// The path of which this may be the backup.
pub(crate) fn without_suffix(path: &[u8]) -> Option<&[u8]> {
    path.strip_suffix(b".old").or_else(|| path.strip_suffix(b"~"))
}

/// The path of which this is the backup in the directory for backups.
pub(crate) fn backed_up(case: &Case, path: &[u8]) -> Option<Vec<u8>> {
    let of = match case.flags.iter().find_map(|flag| flag.strip_prefix("--backup-dir="))? {
        "kept" => path.strip_prefix(case.dest())?.strip_prefix(b"/kept/")?,
        _ => path.strip_prefix(b"kept/")?,
    };
    let of = match case.has_word("--suffix") {
        true => of.strip_suffix(b".old")?,
        false => of,
    };
    Some([case.dest(), b"/", of].concat())
}

/// Links and what is no file are made anew where anything differs.
pub(crate) fn is_made_anew(entry: &Entry) -> bool {
    !matches!(entry.kind, Kind::Dir | Kind::File(_) | Kind::Name(_))
}

/// True if what is at `path`, also by another name, is made anew where anything differs, in the
/// destination, a source or a base.
pub(crate) fn is_anew_at(case: &Case, path: &[u8]) -> bool {
    let names = told(case, path);
    let is_like = |other: &[u8]| {
        let rest = other.iter().position(|byte| *byte == b'/');
        let rest = rest.map(|at| escape_bytes(&other[at + 1..]));
        other == path || told(case, other).iter().chain(&rest).any(|name| names.contains(name))
    };
    case.state.iter().filter(|(other, _)| is_like(other)).any(|(_, entry)| match &entry.kind {
        Kind::Name(first) => case.state.get(first).is_some_and(is_made_anew),
        _ => is_made_anew(entry),
    })
}

/// True if what is at `path`, in the destination or a source, has several names.
pub(crate) fn is_linked(case: &Case, path: &[u8]) -> bool {
    let linked = linked(case);
    told(case, path).iter().any(|name| linked.contains(name))
}

/// True if `path` is that of an entry of the directory `dir`.
pub(crate) fn is_right_in(path: &[u8], dir: &[u8]) -> bool {
    path.rsplitn(2, |byte| *byte == b'/').nth(1).is_some_and(|above| above == dir)
}

/// True if another directory has something by the name that `path` has in the destination.
pub(crate) fn is_in_base(case: &Case, path: &[u8]) -> bool {
    let Some(at) = path.iter().position(|byte| *byte == b'/') else { return false };
    [&b"prev"[..], b"older"]
        .iter()
        .any(|base| case.state.contains_key(&[base, &path[at..]].concat()))
}

/// True if a source has something of another kind by the name of what is at `path` in the
/// destination.
pub(crate) fn is_swapped(case: &Case, path: &[u8]) -> bool {
    case.state.get(path).is_some_and(|there| {
        let kind = discriminant(&there.kind);
        let own = case.state.iter().filter(|(other, _)| is_in(other, b"src"));
        let mut same = own.filter(|(other, _)| tells(case, other, path));
        same.any(|(_, entry)| discriminant(&entry.kind) != kind)
    })
}

/// True if what is at `path` in a source is in a directory that its owner may not write, and
/// that is made.
pub(crate) fn is_in_new_closed(case: &Case, path: &[u8]) -> bool {
    let is_there = |dir: &[u8]| {
        let is_dir = |entry: &Entry| entry.kind == Kind::Dir;
        let there = case.state.iter().filter(|(other, _)| !is_in(other, b"src"));
        there.filter(|(_, entry)| is_dir(entry)).any(|(other, _)| tells(case, dir, other))
    };
    let is_closed = |(dir, entry): (&Vec<u8>, &Entry)| {
        entry.kind == Kind::Dir && entry.mode & 0o200 == 0 && is_in(path, dir) && path != dir
    };
    let mut own = case.state.iter().filter(|(other, _)| is_in(other, b"src"));
    own.any(|one| is_closed(one) && !is_there(one.0))
}

/// True if a directory above `path`, here or in a source, lends the rights of its group.
pub(crate) fn is_below_lent(case: &Case, path: &[u8]) -> bool {
    let names = told(case, path);
    let lent =
        case.state.iter().filter(|(_, entry)| entry.kind == Kind::Dir && entry.mode & 0o2000 != 0);
    if case.flags.iter().any(|flag| flag.starts_with("--chmod=D2")) {
        return true;
    }
    lent.flat_map(|(dir, _)| told(case, dir)).any(|dir| {
        let is_below =
            |name: &String| dir.is_empty() || *name == dir || name.starts_with(&format!("{dir}/"));
        names.iter().any(is_below)
    })
}

/// True if a line of `source` and one of `there` have the same name.
pub(crate) fn tells(case: &Case, source: &[u8], there: &[u8]) -> bool {
    let there = told(case, there);
    told(case, source).iter().any(|name| there.contains(name))
}

/// True if the file at `path` in the destination has several names.
pub(crate) fn is_linked_there(case: &Case, path: &[u8]) -> bool {
    let is_name = |(other, entry): (&Vec<u8>, &Entry)| match &entry.kind {
        Kind::Name(first) => other == path || first == path,
        _ => false,
    };
    !path.starts_with(b"src/") && case.state.iter().any(is_name)
}

/// Names, as they are told, of all that has several, in the destination or, with `-H`, in
/// a source.
pub(crate) fn linked(case: &Case) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for (path, entry) in &case.state {
        if let Kind::Name(first) = &entry.kind
            && (case.has('H') || !is_in(path, b"src"))
        {
            all.extend([told(case, path), told(case, first)].into_iter().flatten());
        }
    }
    all
}

/// True if only the destination has what is at `path`, as far as the words of the case tell, or
/// it is, or is in, what makes way for something else.
pub(crate) fn is_extra(case: &Case, path: &[u8]) -> bool {
    let mut own = case.state.keys().filter(|other| is_in(other, b"src"));
    let makes_way = |dir: &&Vec<u8>| is_in(path, dir) && is_swapped(case, dir);
    !is_in(path, b"src")
        && case.state.contains_key(path)
        && (!own.any(|other| tells(case, other, path))
            || case.has('m')
            || case.has_word("--delete-excluded")
            || case.state.keys().any(|dir| makes_way(&dir)))
}

/// The paths of what haul tells that it could not back up, since it may not be read.
pub(crate) fn not_backed_up(case: &Case, errors: &str) -> Vec<Vec<u8>> {
    const WHY: &str = "back it up: Permission denied";
    let is_told = |path: &&Vec<u8>| {
        let told = format!("{}: can't ", escape_bytes(path));
        errors.lines().any(|line| line.contains(&told) && line.contains(WHY))
    };
    case.state.keys().filter(is_told).cloned().collect()
}

/// True if what is at `path` in the destination is as old as its source in whole seconds, or a
/// second newer, where that counts.
pub(crate) fn is_little_newer(case: &Case, path: &[u8]) -> bool {
    let Some(there) = case.state.get(path).filter(|_| !is_in(path, b"src")) else { return false };
    let time = |entry: &Entry| match entry.first() {
        Some(first) => case.state.get(first).map_or(entry.mtime.0, |first| first.mtime.0),
        None => entry.mtime.0,
    };
    let mut own = case.state.iter().filter(|(other, _)| is_in(other, b"src"));
    case.has('u')
        && case.has_word("--modify-window=-1")
        && own.any(|(other, entry)| {
            (0..=1).contains(&(time(there) - time(entry))) && tells(case, other, path)
        })
}

/// True if no more was to be removed than so many, and a directory has not made way.
pub(crate) fn is_bounded_in_the_way(case: &Case, errors: &str) -> bool {
    let stays = "can't make way: some entries of the directory there stay";
    case.has_word("--max-delete") && errors.contains(stays)
}

/// Names by which lines may tell of `path`, by what the sources and the destination are.
pub(crate) fn told(case: &Case, path: &[u8]) -> Vec<String> {
    let mut names = Vec::new();
    for root in case.sources.iter().chain([&case.dest]) {
        let root = root.strip_suffix(b".").unwrap_or(root);
        let is_dir = root.ends_with(b"/") || *root == case.dest;
        let root = root.strip_suffix(b"/").unwrap_or(root);
        let Some(rest) = path.strip_prefix(root) else { continue };
        let rest = rest.strip_prefix(b"/").unwrap_or(rest);
        let base = root.rsplit(|byte| *byte == b'/').next().unwrap_or(root);
        names.push(match (is_dir, rest.is_empty()) {
            (true, _) => escape_bytes(rest),
            (false, true) => escape_bytes(base),
            (false, false) => escape_bytes(&[base, b"/", rest].concat()),
        });
    }
    names
}
