//! The items of a listing, and the users and groups that they name.

use haul_model::{Entry, Fault, Kind, Name};
use serde::{Deserialize, Deserializer, Serialize};

/// One item of a listing.
///
/// Entries and faults are numbered from 1 in the order of sending. The number of a directory is
/// used in `dir` fields. 0 is the root. The order within a directory:
///
/// 1. All entries that are not directories, in ascending order of their names.
/// 2. In a comparison, the names of the subdirectories ([`ListItem::Subdirs`]).
/// 3. The subdirectories in that order. Each is followed at once by its content and its
///    [`ListItem::DirEnd`].
///
/// Unless described otherwise, `dir` is the number of the directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the variants describe their fields")]
pub enum ListItem {
    /// An entry of the directory `dir`.
    Entry { dir: u64, entry: Entry },
    /// An entry of `dir` that can't be listed.
    ///
    /// - `name`: its name, or a source's path as the user typed it. Only for messages.
    Fault { dir: u64, name: Vec<u8>, fault: Fault },
    /// The end of a directory.
    DirEnd { dir: u64 },
    /// Names of directories in `dir` that will be listed. In a comparison all names come before the
    /// first of these directories.
    ///
    /// - `names`: the names, in ascending order across all such items.
    Subdirs { dir: u64, names: Vec<Name> },
    /// An entry at the place of an earlier source of the job. Its content is not requested. The
    /// Receiver reports its outcome by the policy.
    Rival(Box<Rival>),
    /// The name of a user or group whose number later entries have.
    Account(Account),
    /// The directory that was listed last is sent without its content.
    Closed { dir: u64 },
    /// A source that does not exist, and must not exist at the destination either.
    ///
    /// - `dir`: the number of the directory that contains its place.
    /// - `name`: its name.
    Missing { dir: u64, name: Name },
    /// The user who moves the sources: the first item of a move that keeps everything. Entries of
    /// this user may become the Receiver's own.
    ///
    /// - `user`: the number of the user.
    /// - `group`: the number of that user's group.
    Mover { user: u32, group: u32 },
}

/// An entry that would replace one of an earlier source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rival {
    /// Number of the directory.
    pub dir: u64,
    /// The entry: a file or a symbolic link.
    pub entry: Entry,
    /// The first entry at this place, without its name.
    pub first: Entry,
    /// Both are the same object.
    pub is_same: bool,
    /// The fault of the entry if it would replace the first.
    pub fault: Fault,
}

/// Minimum [`ListItem::cost`] of an item with an outcome. It bounds the number of items in
/// [`LIST_WINDOW`](crate::LIST_WINDOW).
pub const ITEM_COST_MIN: u64 = 64;

impl ListItem {
    /// The item's share of [`LIST_WINDOW`](crate::LIST_WINDOW): roughly the memory in bytes of an
    /// entry in flight on either side.
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
            // These items are not entries, and have no outcome.
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

/// Maximum number of users and groups in one job.
pub const ACCOUNTS_MAX: usize = 64 << 10;

/// Maximum length of the name of a user or group, in bytes.
pub const ACCOUNT_NAME_MAX: usize = 256;

/// A user or group of the Sender's machine. It is sent by name, because its number has no meaning
/// elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// It is a group.
    pub is_group: bool,
    /// Its number there.
    pub number: u32,
    /// Its name there.
    #[serde(deserialize_with = "short_name")]
    pub name: Box<[u8]>,
}

fn short_name<'de, D: Deserializer<'de>>(input: D) -> Result<Box<[u8]>, D::Error> {
    let name = Box::<[u8]>::deserialize(input)?;
    if name.len() > ACCOUNT_NAME_MAX {
        return Err(serde::de::Error::custom("the name of a user or group is too long"));
    }
    Ok(name)
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
