//! Errors of a request, and of the whole session.

use crate::codec::{PacketError, Request, Status, StatusCode};
use haul_model::{NameError, escape_bytes, os_text};
use haul_net::{ConnectError, NO_LOGIN};
use std::io;
use std::sync::Arc;

/// Why a session could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// There is no connection, or no SFTP server at its other end.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The server's greeting was not accepted.
    #[error("{host}: {cause}")]
    Session {
        /// The server, safe to show.
        host: String,
        /// The cause.
        cause: SessionError,
    },
}

/// Why a session was lost. No further requests are possible in it.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SessionError {
    /// The stream from the server ended.
    #[error("the server ended the SFTP session")]
    Closed,
    /// Reading or writing the stream failed.
    #[error("the SFTP session broke: {}", os_text(.0))]
    Broken(Arc<io::Error>),
    /// The server broke the protocol.
    #[error("the server broke the SFTP protocol: {0}")]
    Protocol(#[from] PacketError),
    /// The server has another version.
    #[error("the server has SFTP version {0}, but haul needs version 3")]
    Version(u32),
    /// The answer was not that of an SFTP server.
    #[error("the host sent text instead of SFTP: \"{text}\"")]
    NotSftp {
        /// The beginning of the answer, safe to show.
        text: String,
    },
    /// Requests waited, but no data moved.
    #[error("no data from the server for {seconds} s")]
    Silent {
        /// The time of silence.
        seconds: u64,
    },
    /// This side ended the session.
    #[error("the SFTP session was closed by this side")]
    Stopped,
}

/// The failure of an operation.
#[derive(Debug, Clone, thiserror::Error)]
#[error("can't {operation} '{path}': {cause}")]
pub struct SftpError {
    /// The operation, as in "can't ... PATH".
    pub operation: &'static str,
    /// The path as it was sent, safe to show.
    pub path: String,
    /// The cause.
    pub cause: Cause,
}

/// The cause of a request's failure.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Cause {
    /// The server reported a failure.
    #[error("{}", shown(.0))]
    Status(Status),
    /// The server lacks a needed extension.
    #[error("the server does not support {0}")]
    Missing(&'static str),
    /// The path can't be sent.
    #[error("{0}")]
    Path(&'static str),
    /// A directory has an entry with an invalid name.
    #[error("the server lists an entry with an invalid name: {0}")]
    EntryName(NameError),
    /// A directory has more entries than the limit.
    #[error("the server lists more than {0} entries")]
    TooManyEntries(usize),
    /// A link target is longer than any path can be.
    #[error("the server reports a target of more than {0} bytes")]
    LongTarget(usize),
    /// The server reports another length of a file than was written.
    #[error("{written} bytes were written, but the server has {found}")]
    Length {
        /// The number of bytes written.
        written: u64,
        /// The number of bytes that the server has.
        found: u64,
    },
    /// The server reports another time of a file than was set.
    #[error("the server does not store the given time")]
    Time,
    /// The content on the server differs from what was written.
    #[error("it reads back different from what was written")]
    Differs,
    /// The name exists, and its entry must stay.
    #[error("the name is taken")]
    NameExists,
    /// Replacing a file in steps was not completed.
    #[error(transparent)]
    OnlyStaged(Box<OnlyStaged>),
    /// A file that is open for writing can't be read; see [`crate::OpenFlags`].
    #[error("it is open for writing only")]
    WriteOnly,
    /// The local source of the content can't be read.
    #[error("reading the source failed: {}", os_text(.0))]
    Source(Arc<io::Error>),
    /// The session has ended.
    #[error(transparent)]
    Session(#[from] SessionError),
}

/// The paths of two files, neither of which has its final name.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{cause}; the new file is complete at '{stage}', and the old one may be at '{backup}'")]
pub struct OnlyStaged {
    /// The path of the new file, safe to show.
    pub stage: String,
    /// The path of the old file, unless it has its name back, safe to show.
    pub backup: String,
    /// Why the new file was not renamed.
    pub cause: Cause,
}

impl SessionError {
    /// Advice for the user.
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

    /// The end of the session, if that is the cause. No further requests are possible then.
    pub fn session(&self) -> Option<&SessionError> {
        match self.cause.innermost() {
            Cause::Session(error) => Some(error),
            _ => None,
        }
    }

    /// The error of reading the local source, if that is the cause.
    pub fn source_error(&self) -> Option<&io::Error> {
        match self.cause.innermost() {
            Cause::Source(error) => Some(error),
            _ => None,
        }
    }

    /// The server's status, if it is the cause.
    pub fn status(&self) -> Option<StatusCode> {
        match self.cause.innermost() {
            Cause::Status(status) => Some(status.code),
            _ => None,
        }
    }

    /// True if the server denies or does not support the operation.
    pub fn is_refusal(&self) -> bool {
        matches!(self.status(), Some(StatusCode::PermissionDenied | StatusCode::Unsupported))
    }

    /// The nearest kind of the standard library.
    pub fn io_kind(&self) -> io::ErrorKind {
        match self.cause.innermost() {
            Cause::Status(status) => status.code.io_kind(),
            Cause::Missing(_) | Cause::Time => io::ErrorKind::Unsupported,
            Cause::Path(_) | Cause::WriteOnly => io::ErrorKind::InvalidInput,
            Cause::EntryName(_) | Cause::TooManyEntries(_) | Cause::LongTarget(_) => {
                io::ErrorKind::InvalidData
            }
            Cause::NameExists => io::ErrorKind::AlreadyExists,
            Cause::Length { .. } | Cause::Differs | Cause::OnlyStaged(_) => io::ErrorKind::Other,
            Cause::Source(error) => error.kind(),
            Cause::Session(_) => io::ErrorKind::ConnectionAborted,
        }
    }
}

impl Cause {
    /// The original cause.
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
            // The server has closed the stream, noticed by reading or by writing.
            io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe => Self::Closed,
            _ => Self::Broken(Arc::new(error)),
        }
    }
}

/// The status as text, with the server's message if that adds to the code.
fn shown(status: &Status) -> String {
    /// Messages of OpenSSH and similar servers that only repeat the code.
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
