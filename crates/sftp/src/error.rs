//! Errors: of one request, and of the session as a whole.

use crate::codec::{PacketError, Request, Status, StatusCode};
use haul_model::{NameError, escape_bytes, os_text};
use haul_net::{ConnectError, NO_LOGIN};
use std::io;
use std::sync::Arc;

/// Why a session could not begin.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// There is no connection, or no SFTP at its other end.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The server's greeting was not taken.
    #[error("{host}: {cause}")]
    Session {
        /// The server, safe to show.
        host: String,
        /// Why.
        cause: SessionError,
    },
}

/// Why a session ended before its time. Nothing more can be asked in it.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SessionError {
    /// The stream from the server ended.
    #[error("the server ended the SFTP session")]
    Closed,
    /// Reading or writing the stream failed.
    #[error("the SFTP session broke: {}", os_text(.0))]
    Broken(Arc<io::Error>),
    /// The server sent what no server may send.
    #[error("the server broke the SFTP protocol: {0}")]
    Protocol(#[from] PacketError),
    /// The server speaks another version.
    #[error("the server has SFTP version {0}, but haul needs version 3")]
    Version(u32),
    /// Something else than a server answered.
    #[error("the host sent text instead of SFTP: \"{text}\"")]
    NotSftp {
        /// The beginning of what came, safe to show.
        text: String,
    },
    /// Requests waited, and nothing moved.
    #[error("no data from the server for {seconds} s")]
    Silent {
        /// How long.
        seconds: u64,
    },
    /// The session was ended from here.
    #[error("the SFTP session was closed by this side")]
    Stopped,
}

/// Why something that was asked of the server was not done.
#[derive(Debug, Clone, thiserror::Error)]
#[error("can't {operation} '{path}': {cause}")]
pub struct SftpError {
    /// The operation, as in "can't ... PATH".
    pub operation: &'static str,
    /// The path, as the server was told it, safe to show.
    pub path: String,
    /// The cause.
    pub cause: Cause,
}

/// The cause of a request's failure.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Cause {
    /// The server said no.
    #[error("{}", shown(.0))]
    Status(Status),
    /// The server does not have what this needs.
    #[error("the server does not support {0}")]
    Missing(&'static str),
    /// The path can't be sent.
    #[error("{0}")]
    Path(&'static str),
    /// A directory has an entry that can be no entry.
    #[error("the server lists an entry with an invalid name: {0}")]
    EntryName(NameError),
    /// A directory has more entries than can be looked at.
    #[error("the server lists more than {0} entries")]
    TooManyEntries(usize),
    /// A link points further than any path goes.
    #[error("the server reports a target of more than {0} bytes")]
    LongTarget(usize),
    /// The server has another length for a file than was written to it.
    #[error("{written} bytes were written, but the server has {found}")]
    Length {
        /// The number of bytes written.
        written: u64,
        /// The number of bytes that the server has.
        found: u64,
    },
    /// The server shows another time of a file than it was given.
    #[error("the server does not store the given time")]
    Time,
    /// The content that the server has is another than was written.
    #[error("it reads back different from what was written")]
    Differs,
    /// Something has the name that a file was to get, and was to stay.
    #[error("the name is taken")]
    Taken,
    /// A file was to be replaced in steps, and they were not done to the end.
    #[error(transparent)]
    OnlyStaged(Box<OnlyStaged>),
    /// A file that was opened to be written is to be read; see
    /// [`crate::OpenFlags`].
    #[error("it is open for writing only")]
    WriteOnly,
    /// The content to be written could not be read here.
    #[error("reading the source failed: {}", os_text(.0))]
    Source(Arc<io::Error>),
    /// The session is over.
    #[error(transparent)]
    Session(#[from] SessionError),
}

/// Where the files are of which neither has its name.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{cause}; the new file is complete at '{stage}', and the old one may be at '{aside}'")]
pub struct OnlyStaged {
    /// The path of the new file, safe to show.
    pub stage: String,
    /// The path of the existing file, unless it has its own, safe to show.
    pub aside: String,
    /// Why the new one did not get its name.
    pub cause: Cause,
}

impl SessionError {
    /// A remedy for the user.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Closed | Self::Broken(_) | Self::Silent { .. } => {
                Some("run the same command again: finished files are skipped")
            }
            Self::NotSftp { text } if text.as_bytes().starts_with(NO_LOGIN) => {
                Some("ask the host's administrator for a login that can use SFTP")
            }
            Self::NotSftp { .. } => Some(
                "make the shell's startup files on the host silent, or use 'internal-sftp' in its sshd_config",
            ),
            Self::Version(_) | Self::Protocol(_) => {
                Some("install haul on the host, or use another SFTP server there")
            }
            Self::Stopped => None,
        }
    }

    /// True if the same attempt may succeed later with nothing changed here.
    pub fn retriable(&self) -> bool {
        matches!(self, Self::Closed | Self::Broken(_) | Self::Silent { .. })
    }
}

impl SftpError {
    pub(crate) fn new(request: &Request<'_>, path: &[u8], cause: impl Into<Cause>) -> Self {
        Self::of(request.operation(), path, cause)
    }

    pub(crate) fn of(operation: &'static str, path: &[u8], cause: impl Into<Cause>) -> Self {
        Self { operation, path: escape_bytes(path), cause: cause.into() }
    }

    /// The session's end, if that is what this is about: then nothing else can
    /// be asked either.
    pub fn session(&self) -> Option<&SessionError> {
        match self.cause.innermost() {
            Cause::Session(error) => Some(error),
            _ => None,
        }
    }

    /// Why what was to be written could not be read here, if that is what went
    /// wrong.
    pub fn unread(&self) -> Option<&io::Error> {
        match self.cause.innermost() {
            Cause::Source(error) => Some(error),
            _ => None,
        }
    }

    /// The server's verdict, if it gave one.
    pub fn status(&self) -> Option<StatusCode> {
        match self.cause.innermost() {
            Cause::Status(status) => Some(status.code),
            _ => None,
        }
    }

    /// True if the server does not let the user do this, or can't do it at all.
    pub fn is_refusal(&self) -> bool {
        self.cause.is_refusal()
    }

    /// The nearest that the standard library has.
    pub fn io_kind(&self) -> io::ErrorKind {
        match self.cause.innermost() {
            Cause::Status(status) => status.code.io_kind(),
            Cause::Missing(_) | Cause::Time => io::ErrorKind::Unsupported,
            Cause::Path(_) | Cause::WriteOnly => io::ErrorKind::InvalidInput,
            Cause::EntryName(_) | Cause::TooManyEntries(_) | Cause::LongTarget(_) => {
                io::ErrorKind::InvalidData
            }
            Cause::Taken => io::ErrorKind::AlreadyExists,
            Cause::Length { .. } | Cause::Differs | Cause::OnlyStaged(_) => io::ErrorKind::Other,
            Cause::Source(error) => error.kind(),
            Cause::Session(_) => io::ErrorKind::ConnectionAborted,
        }
    }
}

impl Cause {
    /// See [`SftpError::is_refusal`].
    pub(crate) fn is_refusal(&self) -> bool {
        let refused = |code| matches!(code, StatusCode::PermissionDenied | StatusCode::Unsupported);
        matches!(self.innermost(), Self::Status(status) if refused(status.code))
    }

    /// The first cause, without what it led to.
    fn innermost(&self) -> &Self {
        match self {
            Self::OnlyStaged(staged) => staged.cause.innermost(),
            cause => cause,
        }
    }
}

impl From<SftpError> for io::Error {
    fn from(error: SftpError) -> Self {
        Self::new(error.io_kind(), error)
    }
}

impl From<io::Error> for SessionError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            // The server's end of the stream is closed, seen from either side.
            io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe => Self::Closed,
            _ => Self::Broken(Arc::new(error)),
        }
    }
}

/// A status with the server's own words, where they say more than the code.
fn shown(status: &Status) -> String {
    /// The words of OpenSSH and those who follow it about each code.
    const ADDS_NOTHING: [&[u8]; 8] = [
        b"",
        b"Success",
        b"End of file",
        b"No such file",
        b"Permission denied",
        b"Failure",
        b"Bad message",
        b"Operation unsupported",
    ];
    if ADDS_NOTHING.contains(&&*status.message) {
        return status.code.to_string();
    }
    format!("{}: {}", status.code, escape_bytes(&status.message))
}
