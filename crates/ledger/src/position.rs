//! An entry's place in the order of the walk, and the keys by which entries are recorded.

use haul_model::words;
use std::cmp::Ordering;
use std::hash::{DefaultHasher, Hasher};

/// An entry's place in the order of the walk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Position {
    /// The number of the source, where each is walked by itself.
    pub source: u64,
    /// Its path, raw.
    pub path: Vec<u8>,
    /// It is a directory.
    pub is_dir: bool,
    /// An earlier source has its place in the destination.
    pub is_rival: bool,
}

impl Position {
    /// The order of the walk: a directory, then its entries; first the entries that are no
    /// directories.
    pub(crate) fn is_after(&self, other: &Self) -> bool {
        let order = self.source.cmp(&other.source).then_with(|| {
            let (mut ours, mut theirs) = (parts(&self.path), parts(&other.path));
            loop {
                let (one, two) = match (ours.next(), theirs.next()) {
                    (Some(one), Some(two)) => (one, two),
                    (one, two) => return one.is_some().cmp(&two.is_some()),
                };
                if one != two {
                    let is_dir = |rest: &mut dyn Iterator<Item = &[u8]>, is_dir| {
                        is_dir || rest.next().is_some()
                    };
                    let ours = is_dir(&mut ours, self.is_dir);
                    return ours.cmp(&is_dir(&mut theirs, other.is_dir)).then(one.cmp(two));
                }
            }
        });
        order == Ordering::Greater
    }
}

/// The names in a path. `.` has none, and comes before all others.
fn parts(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/').filter(|part| !matches!(part, [] | [b'.']))
}

/// The keys of an entry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Keys {
    /// The key of the entry. Several sources can have one place, so the path alone is no key.
    pub(crate) own: u64,
    /// The key of its path. Of some entries, only the path is known.
    pub(crate) path: u64,
    /// The key of the path of its directory.
    pub(crate) above: u64,
}

impl Keys {
    /// The keys of an entry of which only the path is known.
    pub(crate) fn of_path(path: &[u8]) -> Self {
        let path = if path == b"." { b"" } else { path };
        let (above, below) =
            path.split_at(path.iter().rposition(|byte| *byte == b'/').unwrap_or_default());
        let mut hasher = DefaultHasher::new();
        hasher.write(above);
        let above = hasher.finish();
        hasher.write(below);
        let path = hasher.finish();
        Self { own: path, path, above }
    }

    pub(crate) fn of(position: &Position) -> Self {
        /// Odd, and the bits of its multiples are spread.
        const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
        let keys = Self::of_path(&position.path);
        let which = position.source * 2 + u64::from(position.is_rival);
        Self { own: keys.path.wrapping_add(which.wrapping_mul(SPREAD)), ..keys }
    }
}

pub(crate) fn key(path: &[u8]) -> u64 {
    Keys::of_path(path).path
}

/// The key of a path by which removals are recorded. They are reported in the form of
/// [`words::shown`].
pub(crate) fn key_shown(path: &[u8]) -> u64 {
    key(&words::shown(path.to_vec()))
}
