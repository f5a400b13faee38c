//! Errors that end a job, or a single request to a host.

use crate::deploy::DeployError;
use crate::files::FileError;
use crate::host::Host;
use crate::location::LocationError;
use haul_engine::JobError;
use haul_net::ConnectError;

/// The reason why a whole request, or a question to a host, ended early.
///
/// The failure of a single entry is not an error: it is an event, and is counted in
/// [`Summary::failed`](crate::Summary::failed).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the variants describe their fields")]
pub enum Error {
    /// The request is invalid. Nothing was done.
    ///
    /// - `what`: the invalid part, and why it is invalid.
    /// - `instead`: an alternative for the user.
    #[error("{what}")]
    Usage { what: String, instead: Option<&'static str> },
    /// A location can't be parsed.
    #[error(transparent)]
    Location(#[from] LocationError),
    /// The job ended early, or could not begin.
    #[error(transparent)]
    Job(#[from] JobError),
    /// A job over SFTP ended early, or could not begin.
    #[error(transparent)]
    ThroughSftp(JobError),
    /// The host has no usable haul, and its SFTP server can't be used either.
    #[error("{missing}")]
    Neither {
        /// Why haul can't be used.
        #[source]
        missing: ConnectError,
        /// Why SFTP can't be used.
        sftp: Box<JobError>,
    },
    /// A copy between two hosts failed because one of them has no haul.
    #[error("{missing}")]
    LacksHaul {
        /// Why haul can't be used there.
        #[source]
        missing: ConnectError,
        /// The host of the destination.
        to: String,
    },
    /// A copy between two hosts was refused because one of them is reached by SFTP.
    ///
    /// - `host`: the host that is reached by SFTP.
    /// - `to`: the host of the destination.
    #[error("{host}: a copy between hosts needs haul on both")]
    NotBetween { host: String, to: String },
    /// haul can't be installed on a host.
    #[error(transparent)]
    Deploy(#[from] DeployError),
    /// This user is not enrolled at a server of this host.
    #[error("no server of {host} is known")]
    NotEnrolled { host: String },
    /// The copying part of a move ended early, with an error that was reported. The sources are
    /// kept.
    #[error("not removing the sources")]
    SourcesStay,
    /// A file of this user can't be read or written.
    #[error(transparent)]
    File(#[from] FileError),
}

impl From<ConnectError> for Error {
    fn from(error: ConnectError) -> Self {
        JobError::from(error).into()
    }
}

/// The class of an [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The request is invalid.
    Usage,
    /// The connection can't be made, or was lost.
    Connection,
    /// The peer speaks another protocol version, or violated the protocol.
    Protocol,
    /// The destination as a whole can't be used.
    Destination,
    /// The caller cancelled.
    Interrupted,
    /// The local system reported an error.
    Io,
}

impl Error {
    /// An invalid request, without an alternative.
    pub(crate) fn usage(what: impl Into<String>) -> Self {
        Self::Usage { what: what.into(), instead: None }
    }

    /// An invalid request, and an alternative to it.
    pub(crate) fn refused(what: String, instead: &'static str) -> Self {
        Self::Usage { what, instead: Some(instead) }
    }

    /// The class of this error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Usage { .. } | Self::Location(_) | Self::NotBetween { .. } => ErrorKind::Usage,
            Self::NotEnrolled { .. } => ErrorKind::Usage,
            Self::Neither { .. } | Self::LacksHaul { .. } => ErrorKind::Connection,
            Self::File(error) if error.problem().is_usage_error() => ErrorKind::Usage,
            Self::File(_) | Self::SourcesStay => ErrorKind::Io,
            Self::Job(error) | Self::ThroughSftp(error) => of_job(error),
            Self::Deploy(DeployError::Job(error)) => of_job(error),
            Self::Deploy(DeployError::Program { .. }) => ErrorKind::Usage,
            Self::Deploy(_) => ErrorKind::Destination,
        }
    }

    /// The connection error in this error, if there is one.
    pub fn connection(&self) -> Option<&ConnectError> {
        match self {
            Self::Job(JobError::Connection(error))
            | Self::ThroughSftp(JobError::Connection(error))
            | Self::Deploy(DeployError::Job(JobError::Connection(error)))
            | Self::Neither { missing: error, .. }
            | Self::LacksHaul { missing: error, .. } => Some(error),
            _ => None,
        }
    }

    /// Adds the host to the path of a destination that can't be used.
    pub(crate) fn at_host(mut self, host: &Host) -> Self {
        if let Self::Job(JobError::Destination { path, .. })
        | Self::ThroughSftp(JobError::Destination { path, .. }) = &mut self
        {
            path.insert_str(0, &format!("{host}:"));
        }
        self
    }
}

fn of_job(error: &JobError) -> ErrorKind {
    match error {
        JobError::Usage(_) => ErrorKind::Usage,
        JobError::Connection(error) if error.is_usage_error() => ErrorKind::Usage,
        JobError::Connection(_) => ErrorKind::Connection,
        JobError::Protocol(_) | JobError::Version { .. } => ErrorKind::Protocol,
        JobError::Sftp { cause, .. } if cause.retriable() => ErrorKind::Connection,
        JobError::Sftp { .. } => ErrorKind::Protocol,
        JobError::Destination { .. } => ErrorKind::Destination,
        JobError::Interrupted => ErrorKind::Interrupted,
        JobError::Threads(_) | JobError::OpenFiles(_) | JobError::Panicked => ErrorKind::Io,
    }
}
