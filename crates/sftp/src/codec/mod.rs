//! The packets of SFTP version 3, without I/O: requests to bytes, bytes to replies. The format is
//! that of draft-ietf-secsh-filexfer-02, with OpenSSH's extensions (its file `PROTOCOL`, section
//! 4).
//!
//! A packet is a length (4 bytes, big-endian, not counting itself), a type (1 byte), an ID that
//! ties the reply to its request (4 bytes), and the rest.

mod reply;
mod request;
#[cfg(test)]
mod tests;
mod wire;

use self::wire::{Decoder, Put};
pub(crate) use reply::data_len;
pub use reply::{
    Answer, Expected, FsStats, HEADER_LEN, Header, Limits, Names, RawEntry, ReplyKind,
    TARGET_LEN_MAX,
};
pub(crate) use request::PATH_LEN_MAX;
pub use request::{OpenFlags, Request};
use std::{fmt, io};

/// The longest packet from a server, in bytes after its length. OpenSSH's own client has the same
/// limit, so every server that works with it is accepted.
pub const PACKET_LEN_MAX: u32 = 256 << 10;

/// The longest piece of a file in one packet, in bytes. OpenSSH's server has this limit. It leaves
/// room for the other fields.
pub const CHUNK_LEN_MAX: u32 = 255 << 10;

/// The longest handle of an open file, in bytes (section 6.2 of the draft).
pub const HANDLE_LEN_MAX: usize = 256;

/// A violation of the protocol by a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    /// The packet is longer than any packet may be, or than requested.
    #[error("a packet of {len} bytes; at most {max} are allowed")]
    TooLong {
        /// The announced length.
        len: u32,
        /// The limit.
        max: u32,
    },
    /// The packet ends before its content does.
    #[error("a packet that ends too early")]
    Truncated,
    /// No reply has this type.
    #[error("a packet of the unknown type {0}")]
    UnknownType(u8),
    /// No request has this ID, or it was answered already.
    #[error("an answer to the unknown request {0}")]
    UnknownId(u32),
    /// A reply of this type can't answer the request.
    #[error("{reply:?} as the answer to {request}")]
    WrongReply {
        /// The request.
        request: &'static str,
        /// The reply.
        reply: ReplyKind,
    },
    /// Success without a result, for a request that needs one.
    #[error("success without a result as the answer to {0}")]
    EmptySuccess(&'static str),
    /// A handle is longer than [`HANDLE_LEN_MAX`].
    #[error("a file handle of {0} bytes")]
    HandleTooLong(usize),
    /// Attributes have flags that version 3 does not know, so their end is unknown.
    #[error("attributes with the unknown flags {0:#x}")]
    UnknownAttrs(u32),
    /// A request for one path was answered with another number of paths.
    #[error("{0} names where one was requested")]
    NameCount(u32),
    /// A read was answered with no data instead of the end of the file.
    #[error("an empty answer to a read")]
    EmptyData,
}

/// The only supported version.
pub(crate) const VERSION: u32 = 3;

/// The client's whole greeting.
pub(crate) const INIT: [u8; 9] = [0, 0, 0, 5, 1, 0, 0, 0, VERSION as u8];

/// An extension that haul can use if the server announces it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extension {
    /// A rename that replaces an existing file in one step.
    PosixRename,
    /// Making content durable.
    Fsync,
    /// The free space of a file system.
    Statvfs,
    /// Setting attributes of a symbolic link itself.
    Lsetstat,
    /// The server's limits.
    Limits,
    /// Hard links.
    HardLink,
}

impl Extension {
    /// Every extension in order, with its name on the wire and the supported version, as servers
    /// announce them.
    pub const ALL: [(Self, &'static str, &'static [u8]); 6] = [
        (Self::PosixRename, "posix-rename@openssh.com", b"1"),
        (Self::Fsync, "fsync@openssh.com", b"1"),
        (Self::Statvfs, "statvfs@openssh.com", b"2"),
        (Self::Lsetstat, "lsetstat@openssh.com", b"1"),
        (Self::Limits, "limits@openssh.com", b"1"),
        (Self::HardLink, "hardlink@openssh.com", b"1"),
    ];

    /// Its name on the wire.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    fn bit(self) -> u16 {
        1 << self as u16
    }
}

/// The extensions that a server has announced.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Extensions(u16);

impl Extensions {
    /// True if the server has this one.
    pub fn has(self, extension: Extension) -> bool {
        self.0 & extension.bit() != 0
    }

    fn add(&mut self, name: &[u8], version: &[u8]) {
        let is_it = |known: &&(_, &str, &[u8])| (known.1.as_bytes(), known.2) == (name, version);
        if let Some((known, ..)) = Extension::ALL.iter().find(is_it) {
            self.0 |= known.bit();
        }
    }
}

/// Reads the rest of a server's greeting, after the version.
///
/// # Errors
/// [`PacketError::Truncated`].
pub fn decode_version(payload: &[u8]) -> Result<Extensions, PacketError> {
    let mut from = Decoder::new(payload);
    let mut extensions = Extensions::default();
    while from.remaining() > 0 {
        extensions.add(from.string()?, from.string()?);
    }
    Ok(extensions)
}

const SIZE: u32 = 0x1;
const OWNER: u32 = 0x2;
const MODE: u32 = 0x4;
const TIMES: u32 = 0x8;
const EXTENDED: u32 = 0x8000_0000;

/// Known attributes of a file, or attributes to set. Each is optional on the wire.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Attrs {
    /// Length in bytes. Setting it truncates or extends the file.
    pub size: Option<u64>,
    /// The IDs of its user and group.
    pub owner: Option<(u32, u32)>,
    /// `st_mode`: the file type and the mode bits. Setting it uses the low 12 bits.
    pub mode: Option<u32>,
    /// The times of its last read and its last write.
    pub times: Option<Times>,
}

/// Seconds since 1970-01-01 00:00 UTC, up to 2106. The protocol has no finer and no earlier times:
/// servers send those cut to 32 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// The time of the last read.
    pub accessed: u32,
    /// The time of the last change of content.
    pub modified: u32,
}

impl Times {
    /// True if a file that was set to these times may report `found`. Some servers keep even
    /// seconds only. If nothing is reported, no time is known to be lost.
    pub fn are_kept_as(&self, found: &Attrs) -> bool {
        let is_kept = |found: u32| found == self.modified || found == self.modified & !1;
        found.times.is_none_or(|times| is_kept(times.modified))
    }
}

/// The kind of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileType {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// A symbolic link.
    Symlink,
    /// Any other kind.
    Special,
}

impl Attrs {
    /// The mode only, for new files and directories.
    pub fn with_mode(mode: u32) -> Self {
        Self { mode: Some(mode), ..Self::default() }
    }

    /// The kind of file; `None` if the server does not report modes.
    pub fn file_type(&self) -> Option<FileType> {
        /// `S_IFMT`. Its values are the same on all systems.
        const TYPE_MASK: u32 = 0o170_000;
        Some(match self.mode? & TYPE_MASK {
            0o100_000 => FileType::File,
            0o040_000 => FileType::Dir,
            0o120_000 => FileType::Symlink,
            _ => FileType::Special,
        })
    }

    fn decode(from: &mut Decoder) -> Result<Self, PacketError> {
        let flags = from.u32()?;
        let unknown = flags & !(SIZE | OWNER | MODE | TIMES | EXTENDED);
        if unknown != 0 {
            return Err(PacketError::UnknownAttrs(unknown));
        }
        let mut attrs = Self::default();
        if flags & SIZE != 0 {
            attrs.size = Some(from.u64()?);
        }
        if flags & OWNER != 0 {
            attrs.owner = Some((from.u32()?, from.u32()?));
        }
        if flags & MODE != 0 {
            attrs.mode = Some(from.u32()?);
        }
        if flags & TIMES != 0 {
            attrs.times = Some(Times { accessed: from.u32()?, modified: from.u32()? });
        }
        if flags & EXTENDED != 0 {
            // Each pair takes bytes of the packet, so a large count ends soon.
            for _ in 0..from.u32()? {
                let _ = (from.string()?, from.string()?);
            }
        }
        Ok(attrs)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
        out.put_u32(
            flag(self.size.is_some(), SIZE)
                | flag(self.owner.is_some(), OWNER)
                | flag(self.mode.is_some(), MODE)
                | flag(self.times.is_some(), TIMES),
        );
        if let Some(size) = self.size {
            out.put_u64(size);
        }
        if let Some((user, group)) = self.owner {
            out.put_u32(user);
            out.put_u32(group);
        }
        if let Some(mode) = self.mode {
            out.put_u32(mode);
        }
        if let Some(times) = self.times {
            out.put_u32(times.accessed);
            out.put_u32(times.modified);
        }
    }
}

/// Most bytes of a server's message that are kept.
const MESSAGE_LEN_MAX: usize = 512;

/// A server's status for a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// The status code.
    pub code: StatusCode,
    /// The server's message, cut to 512 bytes, not escaped. OpenSSH's says no more than the code
    /// does.
    pub message: Box<[u8]>,
}

/// The status codes of version 3. Most servers only report "Failure" for a full disk, an existing
/// name, or a directory that is not empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusCode {
    /// Success.
    Ok,
    /// The end of the file or directory.
    Eof,
    /// The entry does not exist.
    NoSuchFile,
    /// The user lacks the permission.
    PermissionDenied,
    /// A failure without a known cause.
    Failure,
    /// The server did not understand the request.
    BadMessage,
    /// The server does not support the request.
    Unsupported,
    /// A code that version 3 does not define for servers.
    Other(u32),
}

impl Status {
    fn decode(from: &mut Decoder) -> Result<Self, PacketError> {
        let code = StatusCode::from_number(from.u32()?);
        // Some servers send no message.
        let message = if from.remaining() == 0 { &[][..] } else { from.string()? };
        Ok(Self { code, message: message[..message.len().min(MESSAGE_LEN_MAX)].into() })
    }
}

impl StatusCode {
    fn from_number(number: u32) -> Self {
        match number {
            0 => Self::Ok,
            1 => Self::Eof,
            2 => Self::NoSuchFile,
            3 => Self::PermissionDenied,
            4 => Self::Failure,
            5 => Self::BadMessage,
            8 => Self::Unsupported,
            other => Self::Other(other),
        }
    }

    /// The nearest kind of the standard library.
    pub fn io_kind(self) -> io::ErrorKind {
        match self {
            Self::Eof => io::ErrorKind::UnexpectedEof,
            Self::NoSuchFile => io::ErrorKind::NotFound,
            Self::PermissionDenied => io::ErrorKind::PermissionDenied,
            Self::Unsupported => io::ErrorKind::Unsupported,
            Self::Ok | Self::Failure | Self::BadMessage | Self::Other(_) => io::ErrorKind::Other,
        }
    }
}

impl fmt::Display for StatusCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ok => f.write_str("it worked"),
            Self::Eof => f.write_str("end of file"),
            Self::NoSuchFile => f.write_str("no such file or directory"),
            Self::PermissionDenied => f.write_str("permission denied"),
            Self::Failure => f.write_str("the server reports a failure without a reason"),
            Self::BadMessage => f.write_str("the server did not understand the request"),
            Self::Unsupported => f.write_str("the server does not support it"),
            Self::Other(code) => write!(f, "the server reports the unknown status {code}"),
        }
    }
}
