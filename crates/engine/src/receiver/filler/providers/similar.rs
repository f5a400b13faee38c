//! Finds files with a name similar to that of a missing file, such as an older release or the log
//! of another day. They may have much of its content.

use crate::receiver::{DirState, Pending};
use haul_model::Name;
use haul_tree::{Meta, MetaKind, TreeEntry};
use std::cmp::Reverse;

/// Maximum number of files that are examined: those with the most similar names.
const CANDIDATES_MAX: usize = 64;

/// Minimum length, in bytes, of a useful file.
const LEN_MIN: u64 = 16 << 10;

/// The name of a file beside `file` that may have much of its content. A file with the same length
/// and time is preferred: it may be the same file before a renaming. Otherwise the most similar
/// name is used.
pub(crate) fn find(file: &Pending) -> Option<Name> {
    let DirState::Open(node) = &file.dir.state else { return None };
    let dir = node.handle().ok()?;
    let may_be = |entry: &TreeEntry| {
        entry.is_dir != Some(true)
            && entry.name != file.name
            && !haul_store::is_private(&entry.name)
    };
    let similarity = |entry: TreeEntry| {
        let like = similarity(entry.name.as_bytes(), file.name.as_bytes());
        (Reverse(like), entry.name)
    };
    let mut names: Vec<_> =
        dir.entries().ok()?.into_iter().filter(may_be).map(similarity).collect();
    names.sort_unstable();
    names.truncate(CANDIDATES_MAX);
    let is_it = |meta: &Meta| {
        meta.kind == MetaKind::File { size: file.entry.size() }
            && meta.attributes.mtime.secs == file.entry.attributes.mtime.secs
    };
    let mut best = None;
    for (Reverse(similarity), name) in names {
        let Ok(Some(meta)) = dir.stat(&name, false) else { continue };
        if is_it(&meta) {
            return Some(name);
        }
        let is_useful = matches!(meta.kind, MetaKind::File { size: LEN_MIN.. });
        if is_useful && is_similar(similarity, &name, &file.name) && best.is_none() {
            best = Some(name);
        }
    }
    best
}

/// The number of bytes that two names share at their beginnings and ends.
fn similarity(one: &[u8], other: &[u8]) -> usize {
    let same = |(one, other): &(&u8, &u8)| one == other;
    let head = one.iter().zip(other).take_while(same).count();
    let (one, other) = (&one[head..], &other[head..]);
    head + one.iter().rev().zip(other.iter().rev()).take_while(same).count()
}

/// True if names with this likeness may belong to versions of one file.
fn is_similar(similarity: usize, one: &Name, other: &Name) -> bool {
    similarity * 2 > one.as_bytes().len().max(other.as_bytes().len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_versions_are_alike() {
        let name = |name: &str| Name::new(name.as_bytes()).expect("a name");
        let are = |one: &str, other: &str| {
            let like = similarity(one.as_bytes(), other.as_bytes());
            is_similar(like, &name(one), &name(other))
        };
        assert!(
            are("linux-6.1.tar", "linux-6.2.tar")
                && are("log.1", "log.22")
                && are("a.iso", "a2.iso")
        );
        assert!(!are("photos.tar", "letters.txt") && !are("a", "b") && !are("x.iso", "longer.iso"));
        assert_eq!((similarity(b"aaa", b"aa"), similarity(b"", b"x")), (2, 0));
    }
}
