//! Why haul was not deployed, or not removed.

use haul_engine::JobError;
use haul_model::Fault;
use haul_sftp::SftpError;

/// Why haul was not deployed, or not removed. All text in it is escaped and may
/// be shown. What was there before still is, and nothing is left but what
/// another deployment removes.
#[derive(Debug, thiserror::Error)]
pub enum DeployError {
    /// The program that is to be deployed can't be.
    #[error("{path}: {why}")]
    Program {
        /// Where it is here.
        path: String,
        /// The problem with it.
        why: String,
    },
    /// There is no connection, or it ended; or the user interrupted.
    #[error(transparent)]
    Job(#[from] JobError),
    /// The login runs a haul, whatever is asked for (`ForceCommand`, or `command=`
    /// in front of a key).
    #[error("this login to {host} runs only haul")]
    Bound {
        /// The host.
        host: String,
    },
    /// The host's commands do not tell what is needed.
    #[error("{host}: unexpected output of uname, id, date and pwd: \"{said}\"")]
    Untold {
        /// The host.
        host: String,
        /// Its words.
        said: String,
    },
    /// The program is for another kind of machine.
    #[error("this haul is built for {ours}, but {host} is {theirs}")]
    Misfit {
        /// The host.
        host: String,
        /// The output of `uname -sm` there.
        theirs: String,
        /// System and processor of the program.
        ours: String,
    },
    /// Something on the way to where haul is deployed is not as it must be.
    #[error("{host}:{path}: {why}")]
    Place {
        /// The host.
        host: String,
        /// Its subject.
        path: String,
        /// The problem with it.
        why: &'static str,
        /// A remedy for the user.
        hint: &'static str,
    },
    /// Another haul is there, and the host's SFTP server can't put one in its place
    /// without a moment in which there is none.
    #[error("{host}:{path}: the server can't replace a file in one step")]
    Irreplaceable {
        /// The host.
        host: String,
        /// The haul that is there.
        path: String,
    },
    /// The host's SFTP server did not do what was asked.
    #[error("{host}: {error}")]
    Sftp {
        /// The host.
        host: String,
        /// The error of the request.
        error: SftpError,
    },
    /// It could not be uploaded.
    #[error("{host}:{path}: {fault}")]
    Upload {
        /// The host.
        host: String,
        /// The file there.
        path: String,
        /// The fault.
        fault: Fault,
    },
    /// The bytes that arrived are not those that were sent.
    #[error("{host}:{path}: the uploaded file reads back different")]
    Differs {
        /// The host.
        host: String,
        /// The file.
        path: String,
    },
    /// The upload is no haul there.
    #[error("the uploaded program does not run as haul on {host}: {cause}")]
    DoesNotStart {
        /// The host.
        host: String,
        /// How it failed.
        cause: String,
        /// The most likely cause.
        suspect: Suspect,
    },
    /// The same of a program that has none of haul's own words in it.
    #[error(
        "the uploaded program does not look like haul, and does not run as haul on {host}: {cause}"
    )]
    NoHaul {
        /// The host.
        host: String,
        /// How it failed.
        cause: String,
    },
    /// The upload is another version of haul.
    #[error("the uploaded program is haul {theirs}, but this is haul {}", super::VERSION)]
    Version {
        /// Its version.
        theirs: String,
    },
}

/// Why a haul may not start on a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Suspect {
    /// It needs a loader, and most often libraries, of the host.
    Libraries,
    /// Programs in that directory may not be run.
    Directory,
}
