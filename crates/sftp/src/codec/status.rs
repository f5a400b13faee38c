//! A server's success and failure replies (section 7 of the draft).

use super::PacketError;
use super::wire::Decoder;
use std::fmt;
use std::io;

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
    pub(super) fn decode(from: &mut Decoder) -> Result<Self, PacketError> {
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
