//! Errors of installing or removing haul.

use haul_engine::JobError;
use haul_model::Fault;
use haul_sftp::SftpError;

/// The reason why haul was not installed or not removed. All text is escaped, and safe to show. An
/// earlier installation is kept. A later installation removes what is left.
#[derive(Debug, thiserror::Error)]
pub enum DeployError {
    /// The program can't be installed.
    #[error("{path}: {why}")]
    Program {
        /// The path on this machine.
        path: String,
        /// The reason.
        why: String,
    },
    /// The connection can't be made, or was lost. Or the user has cancelled.
    #[error(transparent)]
    Job(#[from] JobError),
    /// The login runs only haul (`ForceCommand`, or `command=` in front of a key).
    #[error("this login to {host} runs only haul")]
    Bound {
        /// The host.
        host: String,
    },
    /// The host's commands do not report the required facts.
    #[error("{host}: unexpected output of uname, id, date and pwd: \"{said}\"")]
    FactsMissing {
        /// The host.
        host: String,
        /// Their output.
        said: String,
    },
    /// The program is built for another kind of machine.
    #[error("this haul is built for {ours}, but {host} is {theirs}")]
    WrongMachine {
        /// The host.
        host: String,
        /// The output of `uname -sm` there.
        theirs: String,
        /// System and processor of the program.
        ours: String,
    },
    /// The directory, or one above it, is not safe.
    #[error("{host}:{path}: {why}")]
    Place {
        /// The host.
        host: String,
        /// The path of the unsafe entry.
        path: String,
        /// The reason.
        why: &'static str,
        /// A remedy for the user.
        hint: &'static str,
    },
    /// Another haul is installed, and the host's SFTP server can't replace a file in one step.
    #[error("{host}:{path}: the server can't replace a file in one step")]
    Irreplaceable {
        /// The host.
        host: String,
        /// The path of the installed haul.
        path: String,
    },
    /// A request to the host's SFTP server failed.
    #[error("{host}: {error}")]
    Sftp {
        /// The host.
        host: String,
        /// The error of the request.
        error: SftpError,
    },
    /// The upload failed.
    #[error("{host}:{path}: {fault}")]
    Upload {
        /// The host.
        host: String,
        /// The file there.
        path: String,
        /// The fault.
        fault: Fault,
    },
    /// The uploaded file has a different content.
    #[error("{host}:{path}: the uploaded file reads back different")]
    Differs {
        /// The host.
        host: String,
        /// The path of the file.
        path: String,
    },
    /// The uploaded program does not run as haul.
    #[error("the uploaded program does not run as haul on {host}: {cause}")]
    DoesNotStart {
        /// The host.
        host: String,
        /// How it failed.
        cause: String,
        /// The most likely cause.
        suspect: LikelyCause,
    },
    /// The uploaded program does not run as haul, and does not contain haul's marker.
    #[error(
        "the uploaded program does not look like haul, and does not run as haul on {host}: {cause}"
    )]
    NoHaul {
        /// The host.
        host: String,
        /// How it failed.
        cause: String,
    },
    /// The uploaded program is another version of haul.
    #[error("the uploaded program is haul {theirs}, but this is haul {}", super::VERSION)]
    Version {
        /// Its version.
        theirs: String,
    },
}

/// The likely reason why haul does not start on a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LikelyCause {
    /// The program needs a loader, and most often libraries, of the host.
    Libraries,
    /// The directory does not allow programs to be executed.
    Directory,
}
