//! How a server says that something worked or failed (section 7 of the draft).

use super::PacketError;
use super::wire::Take;
use std::fmt;
use std::io;

/// The most of a server's own words that is kept, in bytes.
const MESSAGE_LEN_MAX: usize = 512;

/// A server's verdict on a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// The verdict.
    pub code: StatusCode,
    /// The server's words about it, cut to 512 bytes, as they came. OpenSSH
    /// says no more than the code does.
    pub message: Box<[u8]>,
}

/// The verdicts of version 3. "Failure" is all that most servers say about a
/// full disk, a name that is taken, or a directory that is not empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusCode {
    /// It worked.
    Ok,
    /// Nothing more is there to be read.
    Eof,
    /// Nothing has that name.
    NoSuchFile,
    /// The user may not.
    PermissionDenied,
    /// It failed.
    Failure,
    /// The server did not understand the request.
    BadMessage,
    /// The server does not do this.
    Unsupported,
    /// A code that version 3 has no meaning for, or not at a server.
    Other(u32),
}

impl Status {
    pub(super) fn decode(from: &mut Take) -> Result<Self, PacketError> {
        let code = StatusCode::from_number(from.u32()?);
        // Some servers end here.
        let message = if from.left() == 0 { &[][..] } else { from.string()? };
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

    /// The nearest that the standard library has.
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
