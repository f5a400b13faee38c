//! One entry of a tree, as the sender lists it and the receiver compares it.

use crate::{Attributes, Kept, Name};
use serde::{Deserialize, Serialize};

/// A point in time, in nanoseconds resolution, as file systems keep it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "RawTimestamp")]
pub struct Timestamp {
    /// Seconds since 1970-01-01 00:00 UTC; negative before.
    pub secs: i64,
    /// Nanoseconds within the second, below 1,000,000,000.
    pub nanos: u32,
}

/// A timestamp as it arrives, before its bound is checked: the operating
/// system gives nanoseconds beyond a second a meaning of their own ("now").
#[derive(Deserialize)]
struct RawTimestamp {
    secs: i64,
    nanos: u32,
}

impl TryFrom<RawTimestamp> for Timestamp {
    type Error = &'static str;

    fn try_from(raw: RawTimestamp) -> Result<Self, Self::Error> {
        if raw.nanos >= 1_000_000_000 {
            return Err("a timestamp has more nanoseconds than a second holds");
        }
        Ok(Self { secs: raw.secs, nanos: raw.nanos })
    }
}

/// Which object of the local system an entry is. Never sent over a wire: the
/// numbers mean nothing on another machine.
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
        /// Where it points, exactly as stored; never followed by the receiver.
        target: Box<[u8]>,
    },
    /// A FIFO, socket or device: listed so that it can be reported, and made anew
    /// if [`Entry::special`] says what it is.
    Special,
}

/// The kind of a FIFO, socket or device, as a job tells it that makes it anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Special {
    /// A FIFO.
    Fifo,
    /// A socket: only its name is made.
    Socket,
    /// A device that is written in blocks.
    Block(Device),
    /// A device that is written in characters.
    Char(Device),
}

/// The number of a device, in the two parts that all systems tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// The driver.
    pub major: u32,
    /// The device of that driver.
    pub minor: u32,
}

impl Special {
    /// The attribute by which a job makes it anew.
    pub const fn kept(self) -> Kept {
        match self {
            Self::Fifo | Self::Socket => Kept::SPECIALS,
            Self::Block(_) | Self::Char(_) => Kept::DEVICES,
        }
    }
}

impl Kind {
    /// The same for showing: of a link without its target.
    #[must_use]
    pub fn without_target(&self) -> Self {
        match self {
            Self::Symlink { .. } => Self::Symlink { target: Box::default() },
            kind => kind.clone(),
        }
    }
}

/// One entry of a listing. Over a wire it has those fields that a mask in front of
/// them names, but for `id` and `leads_to`, which mean nothing elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The name in its directory; `None` stands for the root itself, which
    /// only a job's own source can be (`haul copy -r . DEST`).
    pub name: Option<Name>,
    /// File, directory, link or other.
    pub kind: Kind,
    /// Its attributes.
    pub attributes: Attributes,
    /// A number that the object keeps as long as it exists, to tell it from one
    /// that takes its place, made of its inode and its file system; 0 if there is
    /// none. Of a file that is not large enough to be continued, in a copy between a
    /// client and an agent, it lasts as long as the machine runs, and no object of
    /// another machine has it.
    pub inode: u64,
    /// When it last changed in any way, where its file system can be believed
    /// about that: nobody can set it back. Told of files that are large enough to
    /// be continued.
    pub ctime: Option<Timestamp>,
    /// It is a file that has holes, which a copy is to have too.
    pub has_holes: bool,
    /// A number that all names of one file have, and no other file of the job; 0 if it has
    /// one name, or that does not matter.
    pub links: u64,
    /// The kind of a [`Kind::Special`] that is made anew, or asked about.
    pub special: Option<Special>,
    /// It is a directory on the way to a source, and nothing is told of it but its name.
    pub is_way: bool,
    /// It is a directory that was listed before, for an earlier source, with these attributes.
    pub is_again: bool,
    /// The object itself, known only where it was listed.
    pub id: Option<FileId>,
    /// The object that a symbolic link leads to, known only where it was listed.
    pub leads_to: Option<FileId>,
}

impl Entry {
    /// An entry of which nothing more is known, or told.
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
            is_way: false,
            is_again: false,
            id: None,
            leads_to: None,
        }
    }

    /// The size of a regular file, 0 for all else.
    pub fn size(&self) -> u64 {
        match self.kind {
            Kind::File { size } => size,
            _ => 0,
        }
    }

    /// The length that a listing shows: of a link it is that of its target, and a directory
    /// has none of its own.
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
        let time = |nanos| Timestamp::try_from(RawTimestamp { secs: -1, nanos });
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
