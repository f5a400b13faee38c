//! The items of a listing.

use crate::Account;
use haul_model::{Entry, Fault, Kind, Name};
use serde::{Deserialize, Serialize};

/// One item of a listing.
///
/// Entries and faults are numbered in the order of their sending, from 1; a
/// directory's number is also its name in the `dir` fields. 0 is the root.
/// Within a directory, first come all entries that are no directories, in
/// ascending order of their names, then in a comparison the names of the directories
/// ([`ListItem::Subdirs`]), then the directories in that order, each followed at once
/// by its own content and its [`ListItem::DirEnd`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ListItem {
    /// An entry of the directory `dir`.
    Entry {
        /// Number of the directory.
        dir: u64,
        /// The entry.
        entry: Entry,
    },
    /// Something in `dir` that can't be listed.
    Fault {
        /// Number of the directory.
        dir: u64,
        /// Its name, or a source's path as the user gave it; for showing only.
        name: Vec<u8>,
        /// The fault.
        fault: Fault,
    },
    /// The directory's last entry was listed.
    DirEnd {
        /// Number of the directory.
        dir: u64,
    },
    /// Names of directories in `dir` that will be listed. In a comparison those of all
    /// come before the first of them is.
    Subdirs {
        /// Number of the directory.
        dir: u64,
        /// Their names, in ascending order, also behind those of an item before.
        names: Vec<Name>,
    },
    /// An entry whose place an earlier source of the same job has. No content of it
    /// is wanted; the receiver tells by the policy what becomes of it.
    Rival(Box<Rival>),
    /// The name of a user or group whose number an entry behind it has.
    Account(Account),
    /// Nothing of what is in the directory, which was listed last, is told.
    Closed {
        /// Number of the directory.
        dir: u64,
    },
    /// A source that is not there, and that the destination shall not have either.
    Missing {
        /// Number of the directory that has its place.
        dir: u64,
        /// Its name.
        name: Name,
    },
    /// Who moves the sources: the first item of a move in which what would lose something
    /// stays. What is this user's own may become the receiver's own.
    Mover {
        /// The number of the user.
        user: u32,
        /// The number of that user's group.
        group: u32,
    },
}

/// An entry that would replace what an earlier source of the job has brought.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rival {
    /// Number of the directory.
    pub dir: u64,
    /// The entry: a file or a symbolic link.
    pub entry: Entry,
    /// The entry that was listed first, without its name.
    pub first: Entry,
    /// Both are one object.
    pub is_same: bool,
    /// The entry's fault, if it would replace the first.
    pub fault: Fault,
}

/// The least [`ListItem::cost`] of an item that has an outcome: so many of them at most are under
/// way as this goes into [`LIST_WINDOW`](crate::LIST_WINDOW).
pub const ITEM_COST_MIN: u64 = 64;

impl ListItem {
    /// The item's share of [`LIST_WINDOW`](crate::LIST_WINDOW): about the bytes of memory that an entry under
    /// way takes on either side.
    pub fn cost(&self) -> u64 {
        let len_of = |entry: &Entry| {
            let target = match &entry.kind {
                Kind::Symlink { target } => target.len(),
                _ => 0,
            };
            let extended = entry.attributes.extended.as_ref().map_or(0, |all| 64 + all.len());
            entry.name.as_ref().map_or(0, |name| name.as_bytes().len()) + target + extended
        };
        let names = match self {
            Self::Entry { entry, .. } => len_of(entry),
            Self::Rival(rival) => {
                let Rival { entry, first, fault, .. } = &**rival;
                len_of(entry) + len_of(first) + fault.message.len()
            }
            Self::Fault { name, fault, .. } => name.len() + fault.message.len(),
            // They are no entries, and have no outcome.
            Self::DirEnd { .. }
            | Self::Subdirs { .. }
            | Self::Account(_)
            | Self::Closed { .. }
            | Self::Missing { .. }
            | Self::Mover { .. } => return 0,
        };
        ITEM_COST_MIN + names as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_model::{Attributes, Extended, FaultKind, Side, Timestamp, Xattr};

    #[test]
    fn no_item_with_an_outcome_costs_less_than_the_least() {
        let fault = Fault::new(Side::Source, FaultKind::Io, "");
        let least = ListItem::Fault { dir: 0, name: Vec::new(), fault };
        assert_eq!(least.cost(), ITEM_COST_MIN);
    }

    #[test]
    fn an_item_costs_more_by_its_names_and_attributes() {
        let name = |name: &[u8]| Name::new(name).expect("a name");
        let attributes = Attributes::new(0o644, Timestamp { secs: 0, nanos: 0 });
        let xattr = Xattr { name: b"user.a"[..].into(), value: b"1234"[..].into() };
        let extended = Extended { xattrs: vec![xattr], ..Extended::default() };
        let file = Entry::new(Some(name(b"abc")), Kind::File { size: 7 }, attributes);
        let mut rich = file.clone();
        rich.attributes.extended = Some(Box::new(extended));
        let link = Entry { kind: Kind::Symlink { target: b"target"[..].into() }, ..file.clone() };
        let fault = Fault::new(Side::Source, FaultKind::Io, "fault");
        let rival = Rival {
            dir: 0,
            entry: file.clone(),
            first: Entry { name: None, ..link.clone() },
            is_same: false,
            fault: fault.clone(),
        };
        for (item, more) in [
            (ListItem::Entry { dir: 0, entry: file }, 3),
            (ListItem::Entry { dir: 0, entry: rich }, 3 + 64 + 10),
            (ListItem::Entry { dir: 0, entry: link }, 3 + 6),
            (ListItem::Fault { dir: 0, name: b"name".to_vec(), fault }, 4 + 5),
            (ListItem::Rival(Box::new(rival)), 3 + 6 + 5),
        ] {
            assert_eq!(item.cost(), ITEM_COST_MIN + more, "{item:?}");
        }
        let account = Account { is_group: false, number: 1, name: b"name"[..].into() };
        for item in [
            ListItem::DirEnd { dir: 0 },
            ListItem::Subdirs { dir: 0, names: vec![name(b"a")] },
            ListItem::Account(account),
            ListItem::Closed { dir: 0 },
            ListItem::Missing { dir: 0, name: name(b"a") },
            ListItem::Mover { user: 1, group: 2 },
        ] {
            assert_eq!(item.cost(), 0, "{item:?}");
        }
    }
}
