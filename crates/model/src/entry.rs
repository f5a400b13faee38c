//! One entry of a tree, as the Sender lists it and the Receiver compares it.

use crate::{Attributes, Kept, Name};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

/// A point in time with a resolution of nanoseconds, as file systems store it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Timestamp {
    /// Seconds since 1970-01-01 00:00 UTC; negative before.
    pub secs: i64,
    /// Nanoseconds within the second, below 1,000,000,000.
    #[serde(deserialize_with = "nanos")]
    pub nanos: u32,
}

/// Checks the bound of received nanoseconds. The operating system gives larger ones another meaning
/// ("now").
fn nanos<'de, D: Deserializer<'de>>(input: D) -> Result<u32, D::Error> {
    match u32::deserialize(input)? {
        nanos if nanos < 1_000_000_000 => Ok(nanos),
        _ => Err(D::Error::custom("a timestamp has more nanoseconds than a second holds")),
    }
}

/// The identity of an object on the local system. It is never sent, because the numbers have no
/// meaning on another machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileId {
    /// The device number.
    pub dev: u64,
    /// The inode number.
    pub ino: u64,
}

/// The kind of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// A regular file.
    File {
        /// Its length in bytes when it was listed.
        size: u64,
    },
    /// A directory.
    Dir,
    /// A symbolic link.
    Symlink {
        /// The target as stored. The Receiver never follows it.
        target: Box<[u8]>,
    },
    /// A FIFO, socket or device. It is always listed, so that it can be reported. It is created if
    /// [`Entry::special`] is set.
    Special,
}

/// The kind of a FIFO, socket or device, for jobs that create it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Special {
    /// A FIFO.
    Fifo,
    /// A socket: only its name is created.
    Socket,
    /// A block device.
    Block(Device),
    /// A character device.
    Char(Device),
}

/// The number of a device, as major and minor number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// The driver.
    pub major: u32,
    /// The device of the driver.
    pub minor: u32,
}

/// An entry without content that is created in one step.
#[derive(Debug, Clone, Copy)]
pub enum NewEntry<'a> {
    /// A symbolic link to this target.
    Symlink(&'a [u8]),
    /// A FIFO, socket or device.
    Special(Special),
}

impl Special {
    /// The attribute of jobs that create it.
    pub const fn kept(self) -> Kept {
        match self {
            Self::Fifo | Self::Socket => Kept::SPECIALS,
            Self::Block(_) | Self::Char(_) => Kept::DEVICES,
        }
    }
}

impl Kind {
    /// The kind for messages: a link without its target.
    #[must_use]
    pub fn without_target(&self) -> Self {
        match self {
            Self::Symlink { .. } => Self::Symlink { target: Box::default() },
            kind => kind.clone(),
        }
    }
}

/// One entry of a listing. On a wire it has the fields that its mask names. `id` and `leads_to` are
/// never sent, because they have no meaning elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The name in its directory. `None` for the root of a source itself (`haul copy -r . DEST`).
    pub name: Option<Name>,
    /// File, directory, link or other.
    pub kind: Kind,
    /// Its attributes.
    pub attributes: Attributes,
    /// A number of the object, from its inode and its file system, that differs from that of an
    /// object that replaces it. 0 if there is none. For a file that is too small to be resumed, in
    /// a copy between a client and an agent, it is valid until the machine restarts, and unique
    /// among machines.
    pub inode: u64,
    /// The time of the last change of content or attributes, which can't be set. Only for files
    /// that are large enough to be resumed, on file systems that store it reliably.
    pub ctime: Option<Timestamp>,
    /// A file with holes, which the copy should have, too.
    pub has_holes: bool,
    /// A number that is the same for all names of one file, and unique in the job. 0 if the file
    /// has one name, or hard links are not kept.
    pub links: u64,
    /// The kind of a [`Kind::Special`] that is created or queried.
    pub special: Option<Special>,
    /// A directory above a source, of which only the name is sent.
    pub is_implied_dir: bool,
    /// A directory that was listed before for an earlier source, with these attributes.
    pub is_repeated: bool,
    /// The object, only where it was listed.
    pub id: Option<FileId>,
    /// The target of a symbolic link, only where it was listed.
    pub leads_to: Option<FileId>,
}

impl Entry {
    /// An entry without further fields.
    pub fn new(name: Option<Name>, kind: Kind, attributes: Attributes) -> Self {
        Self {
            name,
            kind,
            attributes,
            inode: 0,
            ctime: None,
            has_holes: false,
            links: 0,
            special: None,
            is_implied_dir: false,
            is_repeated: false,
            id: None,
            leads_to: None,
        }
    }

    /// The size of a regular file. 0 for other kinds.
    pub fn size(&self) -> u64 {
        match self.kind {
            Kind::File { size } => size,
            _ => 0,
        }
    }

    /// The length in a listing. For a link it is the length of the target, for a directory 0.
    pub fn shown_len(&self) -> u64 {
        match &self.kind {
            Kind::File { size } => *size,
            Kind::Symlink { target } => target.len() as u64,
            Kind::Dir | Kind::Special => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_no_more_nanoseconds_than_a_second() {
        let time = |nanos| {
            let sent = postcard::to_allocvec(&Timestamp { secs: -1, nanos }).expect("encoded");
            postcard::from_bytes::<Timestamp>(&sent)
        };
        assert_eq!(time(999_999_999), Ok(Timestamp { secs: -1, nanos: 999_999_999 }));
        assert!(time(1_000_000_000).is_err());
    }

    #[test]
    fn devices_are_kept_by_themselves() {
        let device = Device { major: 1, minor: 2 };
        let all = [Special::Fifo, Special::Socket, Special::Block(device), Special::Char(device)];
        let kept = [Kept::SPECIALS, Kept::SPECIALS, Kept::DEVICES, Kept::DEVICES];
        assert_eq!(all.map(Special::kept), kept);
    }

    #[test]
    fn a_link_is_shown_without_its_target() {
        let link = |target: &[u8]| Kind::Symlink { target: target.into() };
        assert_eq!(link(b"abc").without_target(), link(b""));
        assert_eq!(Kind::File { size: 7 }.without_target(), Kind::File { size: 7 });
    }

    #[test]
    fn only_files_have_a_size_and_links_show_that_of_their_target() {
        let target = || Kind::Symlink { target: b"abc"[..].into() };
        for (kind, size, shown_len) in [
            (Kind::File { size: 7 }, 7, 7),
            (target(), 0, 3),
            (Kind::Dir, 0, 0),
            (Kind::Special, 0, 0),
        ] {
            let time = Timestamp { secs: 0, nanos: 0 };
            let entry = Entry::new(None, kind, Attributes::new(0o644, time));
            assert_eq!((entry.size(), entry.shown_len()), (size, shown_len), "{:?}", entry.kind);
        }
    }
}
