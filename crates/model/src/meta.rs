//! Metadata of an existing entry.

use crate::{Attributes, FileId, Kind, Special, Timestamp};
use std::io;

/// The metadata of an entry, without its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meta {
    /// The kind. The target of a link is read separately.
    pub kind: MetaKind,
    /// Its attributes.
    pub attributes: Attributes,
    /// The time of the last change of content or attributes, if known.
    pub ctime: Option<Timestamp>,
    /// The object, if the tree is on this machine.
    pub id: Option<FileId>,
    /// A file that takes less storage than its length, and so may have holes.
    pub is_thin: bool,
    /// The owner, if known.
    pub owner: Option<Owner>,
    /// The number of hard links. 1 if unknown.
    pub links: u64,
    /// The kind of a [`MetaKind::Special`], if known.
    pub special: Option<Special>,
}

/// The owner of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// The user's number.
    pub user: u32,
    /// The group's number.
    pub group: u32,
}

/// The kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetaKind {
    /// A regular file of `size` bytes.
    File {
        /// Its length in bytes.
        size: u64,
    },
    /// A directory.
    Dir,
    /// A symbolic link.
    Symlink,
    /// Another kind.
    Special,
}

impl Meta {
    /// Metadata without further fields.
    pub fn new(kind: MetaKind, attributes: Attributes) -> Self {
        Self {
            kind,
            attributes,
            ctime: None,
            id: None,
            is_thin: false,
            owner: None,
            links: 1,
            special: None,
        }
    }

    /// True if it is a regular file.
    pub fn is_file(&self) -> bool {
        matches!(self.kind, MetaKind::File { .. })
    }

    /// The kind for a listing. `target` reads the target of a link.
    pub fn listed_kind(&self, target: impl FnOnce() -> io::Result<Vec<u8>>) -> io::Result<Kind> {
        Ok(match self.kind {
            MetaKind::File { size } => Kind::File { size },
            MetaKind::Dir => Kind::Dir,
            MetaKind::Symlink => Kind::Symlink { target: target()?.into() },
            MetaKind::Special => Kind::Special,
        })
    }
}

/// The handling of an existing file with the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnExisting {
    /// It is kept. No such file is expected.
    Keep,
    /// It is replaced.
    Replace,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_is_listed_with_what_a_link_points_to() {
        let target = || Ok(b"t".to_vec());
        let link = Kind::Symlink { target: b"t"[..].into() };
        for (kind, listed) in [
            (MetaKind::File { size: 7 }, Kind::File { size: 7 }),
            (MetaKind::Dir, Kind::Dir),
            (MetaKind::Symlink, link),
            (MetaKind::Special, Kind::Special),
        ] {
            let time = Timestamp { secs: 0, nanos: 0 };
            let meta = Meta::new(kind, Attributes::new(0o644, time));
            assert_eq!(meta.is_file(), matches!(kind, MetaKind::File { .. }));
            assert_eq!(meta.listed_kind(target).expect("known"), listed);
        }
    }
}
