//! Errors that end a job, or a question to a host.

use crate::deploy::DeployError;
use crate::files::FileError;
use crate::host::Host;
use crate::location::LocationError;
use haul_engine::JobError;
use haul_net::ConnectError;

/// Why a job or a question as a whole ended.
///
/// What fails with a single entry is no such error: it is an event, and counts in
/// [`Summary::failed`](crate::Summary::failed).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The request can't be carried out as it is: nothing was done.
    #[error("{what}")]
    Usage {
        /// The part that can't be done, and why.
        what: String,
        /// A remedy.
        instead: Option<&'static str>,
    },
    /// A location can't be read.
    #[error(transparent)]
    Location(#[from] LocationError),
    /// The job ended early, or could not begin.
    #[error(transparent)]
    Job(#[from] JobError),
    /// A job over SFTP ended early.
    #[error(transparent)]
    ThroughSftp(JobError),
    /// The host has no haul that can be used, and its SFTP server does not help either.
    #[error("{missing}")]
    Neither {
        /// Why there is no haul.
        #[source]
        missing: ConnectError,
        /// Why there is no SFTP.
        sftp: Box<JobError>,
    },
    /// A copy from one host to another, of which one has no haul.
    #[error("{missing}")]
    LacksHaul {
        /// Why there is none.
        #[source]
        missing: ConnectError,
        /// The host of the destination.
        to: String,
    },
    /// A copy from one host to another, of which one is reached by SFTP.
    #[error("{host}: a copy between hosts needs haul on both")]
    NotBetween {
        /// The one that is reached by SFTP.
        host: String,
        /// The host of the destination.
        to: String,
    },
    /// haul can't be installed on a host.
    #[error(transparent)]
    Deploy(#[from] DeployError),
    /// This user is not enrolled at a server of that host.
    #[error("no server of {host} is known")]
    NotEnrolled {
        /// The host.
        host: String,
    },
    /// A copy that was to become a move has ended early, which was reported.
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
    /// The request can't be carried out as it is.
    Usage,
    /// There is no connection, or it broke.
    Connection,
    /// The peer speaks another version, or broke the rules of the protocol.
    Protocol,
    /// The destination as a whole can't be used.
    Destination,
    /// The caller has cancelled.
    Interrupted,
    /// Something of this machine failed.
    Io,
}

impl Error {
    /// The request can't be carried out.
    pub(crate) fn usage(what: impl Into<String>) -> Self {
        Self::Usage { what: what.into(), instead: None }
    }

    /// The same where something else can be done.
    pub(crate) fn refused(what: String, instead: &'static str) -> Self {
        Self::Usage { what, instead: Some(instead) }
    }

    /// Its class.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Usage { .. } | Self::Location(_) | Self::NotBetween { .. } => ErrorKind::Usage,
            Self::NotEnrolled { .. } => ErrorKind::Usage,
            Self::Neither { .. } | Self::LacksHaul { .. } => ErrorKind::Connection,
            Self::File(error) if error.problem().is_usage() => ErrorKind::Usage,
            Self::File(_) | Self::SourcesStay => ErrorKind::Io,
            Self::Job(error) | Self::ThroughSftp(error) => of_job(error),
            Self::Deploy(DeployError::Job(error)) => of_job(error),
            Self::Deploy(DeployError::Program { .. }) => ErrorKind::Usage,
            Self::Deploy(_) => ErrorKind::Destination,
        }
    }

    /// The error of a connection, if it is one.
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

    /// The same, which names the host with the destination that can't be used.
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
        JobError::Connection(error) if error.is_usage() => ErrorKind::Usage,
        JobError::Connection(_) => ErrorKind::Connection,
        JobError::Protocol(_) | JobError::Version { .. } => ErrorKind::Protocol,
        JobError::Sftp { cause, .. } if cause.retriable() => ErrorKind::Connection,
        JobError::Sftp { .. } => ErrorKind::Protocol,
        JobError::Destination { .. } => ErrorKind::Destination,
        JobError::Interrupted => ErrorKind::Interrupted,
        JobError::Threads(_) | JobError::OpenFiles(_) | JobError::Panicked => ErrorKind::Io,
    }
}
