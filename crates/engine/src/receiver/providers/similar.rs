//! Files with names like that of a file which the destination lacks: an older release, or a
//! log of another day, of which it may have much.

use crate::receiver::{DirState, Pending};
use haul_model::Name;
use haul_tree::{Meta, MetaKind, TreeEntry};
use std::cmp::Reverse;

/// Files that are looked at, at most: those with the names that are most like it.
const LOOKED_AT_MAX: usize = 64;

/// The shortest one of them that is of use, in bytes.
const LEN_MIN: u64 = 16 << 10;

/// The name of a file in the directory of `file` that may have much of it: the one of its
/// length and time, as if it had got a new name, else the one with the name most like it.
pub(crate) fn find(file: &Pending) -> Option<Name> {
    let DirState::Open(node) = &file.dir.state else { return None };
    let dir = node.handle().ok()?;
    let may_be = |entry: &TreeEntry| {
        entry.is_dir != Some(true)
            && entry.name != file.name
            && !haul_store::is_private(&entry.name)
    };
    let likeness = |entry: TreeEntry| {
        let like = likeness(entry.name.as_bytes(), file.name.as_bytes());
        (Reverse(like), entry.name)
    };
    let mut names: Vec<_> = dir.entries().ok()?.into_iter().filter(may_be).map(likeness).collect();
    names.sort_unstable();
    names.truncate(LOOKED_AT_MAX);
    let is_it = |meta: &Meta| {
        meta.kind == MetaKind::File { size: file.entry.size() }
            && meta.attributes.mtime.secs == file.entry.attributes.mtime.secs
    };
    let mut most_alike = None;
    for (Reverse(likeness), name) in names {
        let Ok(Some(meta)) = dir.stat(&name, false) else { continue };
        if is_it(&meta) {
            return Some(name);
        }
        let is_of_use = matches!(meta.kind, MetaKind::File { size: LEN_MIN.. });
        if is_of_use && is_alike(likeness, &name, &file.name) && most_alike.is_none() {
            most_alike = Some(name);
        }
    }
    most_alike
}

/// The bytes that two names have in common at their beginnings and ends.
fn likeness(one: &[u8], other: &[u8]) -> usize {
    let same = |(one, other): &(&u8, &u8)| one == other;
    let head = one.iter().zip(other).take_while(same).count();
    let (one, other) = (&one[head..], &other[head..]);
    head + one.iter().rev().zip(other.iter().rev()).take_while(same).count()
}

/// True if names that have so much in common may be of versions of one file.
fn is_alike(likeness: usize, one: &Name, other: &Name) -> bool {
    likeness * 2 > one.as_bytes().len().max(other.as_bytes().len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_versions_are_alike() {
        let name = |name: &str| Name::new(name.as_bytes()).expect("a name");
        let are = |one: &str, other: &str| {
            let like = likeness(one.as_bytes(), other.as_bytes());
            is_alike(like, &name(one), &name(other))
        };
        assert!(
            are("linux-6.1.tar", "linux-6.2.tar")
                && are("log.1", "log.22")
                && are("a.iso", "a2.iso")
        );
        assert!(!are("photos.tar", "letters.txt") && !are("a", "b") && !are("x.iso", "longer.iso"));
        assert_eq!((likeness(b"aaa", b"aa"), likeness(b"", b"x")), (2, 0));
    }
}
