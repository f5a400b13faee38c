//! The trees of a case as a description, from which they are made, and shrunk.

use crate::lot::Lot;
use std::collections::BTreeMap;

/// All that is below the directory of a case: path to entry. Directories are in it before
/// what they hold, since the order is that of the paths.
pub(crate) type TreeState = BTreeMap<Vec<u8>, Entry>;

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) kind: Kind,
    pub(crate) mode: u32,
    /// Seconds and nanoseconds since 1970.
    pub(crate) mtime: (i64, u32),
    pub(crate) atime: i64,
    pub(crate) owner: (u32, u32),
    pub(crate) xattrs: BTreeMap<&'static str, &'static str>,
    /// A user may read it by its ACL.
    pub(crate) acl: bool,
    /// Entries that are made in it have such an ACL.
    pub(crate) default_acl: bool,
}

impl Entry {
    /// The path of the file of which it is another name.
    pub(crate) fn first(&self) -> Option<&[u8]> {
        if let Kind::Name(first) = &self.kind { Some(first) } else { None }
    }
}

/// The kind of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    Dir,
    File(Content),
    /// Another name of the file at that path, which comes first.
    Name(Vec<u8>),
    Link(Vec<u8>),
    Fifo,
    Socket,
    /// A device with its numbers: a character device, or else a block device.
    Device(bool, u32, u32),
}

/// The content of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content {
    /// So many bytes that follow from a seed, those of another seed from a place on.
    Noise {
        len: usize,
        seed: u64,
        from: usize,
        other: u64,
    },
    /// A hole of so many bytes with `seed` as its last bytes.
    Hole {
        len: u64,
        seed: u64,
    },
    Text(String),
}

/// User of the case if it is not root.
pub(crate) const USER: u32 = 65_534;

const SIZES: &[usize] =
    &[0, 0, 1, 5, 5, 5, 20, 20, 699, 700, 701, 4095, 4096, 4097, 32_768, 65_537, 300_000, 600_000];

const SECONDS: &[i64] = &[
    1_000_000_000,
    1_000_000_001,
    1_500_000_000,
    1_500_000_000,
    1_600_000_000,
    -86_400,
    0,
    1,
    4_200_000_000,
    7_000_000_000,
];

const NANOS: &[u32] = &[0, 0, 0, 1, 500_000_000, 999_999_999];

/// Draws one of that kind, for a tree that belongs to root or to another.
pub(crate) fn entry(lot: &mut Lot, kind: Kind, is_root: bool) -> Entry {
    let (files, dirs): (&[u32], &[u32]) = match is_root {
        true => (
            &[0o644, 0o600, 0o755, 0o444, 0o4755, 0o2711, 0o666, 0o640, 0],
            &[0o755, 0o755, 0o700, 0o555, 0o2755, 0o1777, 0o500],
        ),
        false => (
            &[0o644, 0o600, 0o755, 0o444, 0o640, 0o4711, 0o600, 0o200, 0],
            &[0o755, 0o755, 0o700, 0o750, 0o2755, 0o1777, 0o555, 0o500],
        ),
    };
    let usual = if lot.chance(55) { 1 } else { usize::MAX };
    let modes = if kind == Kind::Dir { dirs } else { files };
    let mode = *lot.pick(&modes[..usual.min(modes.len())]);
    let can_have = matches!(kind, Kind::Dir | Kind::File(_));
    let own = if is_root { 0 } else { USER };
    let owner = match lot.below(10) {
        0 => (1, 2),
        1 if is_root => (12_345, 12_346),
        2 if is_root => (USER, 0),
        3 if is_root => (0, USER),
        _ => (own, own),
    };
    // rsync wants to change the modes of others' directories. Links are made anew, which
    // works for those of others too.
    let is_made = !matches!(kind, Kind::File(_));
    let owner = if is_made && !is_root { (own, own) } else { owner };
    let mut xattrs = BTreeMap::new();
    if can_have && lot.chance(12) {
        for name in ["user.a", "user.b", "user.long-name.c"] {
            if lot.chance(50) {
                xattrs.insert(name, *lot.pick(&["", "x", "value", "other value"]));
            }
        }
    }
    Entry {
        mode,
        mtime: time(lot),
        atime: *lot.pick(&[1_100_000_000, 1_200_000_000]),
        owner,
        xattrs,
        acl: can_have && (is_root || kind != Kind::Dir) && lot.chance(7),
        default_acl: is_root && kind == Kind::Dir && lot.chance(5),
        kind,
    }
}

pub(crate) fn time(lot: &mut Lot) -> (i64, u32) {
    let few = if lot.chance(60) { 3 } else { SECONDS.len() };
    (SECONDS[lot.below(few)], *lot.pick(NANOS))
}

pub(crate) fn content(lot: &mut Lot) -> Content {
    let few = if lot.chance(70) { 7 } else { SIZES.len() };
    match lot.below(20) {
        0 => Content::Hole { len: 200_000, seed: lot.below(3) as u64 },
        1 => Content::Hole { len: 1 << 20, seed: lot.below(3) as u64 },
        _ => {
            let (len, seed) = (SIZES[lot.below(few)], lot.below(4) as u64);
            Content::Noise { len, seed, from: len, other: 0 }
        }
    }
}

impl Content {
    /// Another one of the same length.
    pub(crate) fn other(&self, lot: &mut Lot) -> Self {
        match self {
            Self::Noise { len, seed, .. } => {
                let from = lot.below(len + 1);
                Self::Noise { len: *len, seed: *seed, from, other: 7 }
            }
            Self::Hole { len, seed } => Self::Hole { len: *len, seed: seed + 1 },
            Self::Text(text) => Self::Text(text.chars().rev().collect()),
        }
    }

    /// A longer one that begins with the same bytes, or a shorter one.
    pub(crate) fn resized(&self, lot: &mut Lot) -> Self {
        match self {
            Self::Noise { len, seed, .. } => {
                let new = if lot.chance(50) { len / 2 } else { len + 1 + lot.below(*len + 3) };
                Self::Noise { len: new, seed: *seed, from: new, other: 0 }
            }
            Self::Hole { len, seed } => Self::Hole { len: len + 70_000, seed: *seed },
            Self::Text(text) => Self::Text(text.clone() + "\n"),
        }
    }
}

/// The path of what is called `name` in `dir`.
pub(crate) fn below(dir: &[u8], name: &[u8]) -> Vec<u8> {
    [dir, b"/", name].concat()
}

/// True if `path` is `dir` or below it.
pub(crate) fn is_in(path: &[u8], dir: &[u8]) -> bool {
    path.strip_prefix(dir).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

/// Takes `path` out, and all that is below it. Of a file that loses its first name the
/// next one becomes that.
pub(crate) fn remove(state: &mut TreeState, path: &[u8]) {
    let gone: Vec<_> = state.keys().filter(|other| is_in(other, path)).cloned().collect();
    for path in gone {
        let Some(entry) = state.remove(&path) else { continue };
        let mut heir: Option<Vec<u8>> = None;
        for (other, further) in state.iter_mut() {
            match &further.kind {
                Kind::Name(first) if *first == path => match &heir {
                    None => {
                        further.kind = entry.kind.clone();
                        heir = Some(other.clone());
                    }
                    Some(heir) => further.kind = Kind::Name(heir.clone()),
                },
                _ => {}
            }
        }
    }
}
