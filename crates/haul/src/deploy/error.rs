//! Errors of installing or removing haul.

use haul_engine::JobError;
use haul_model::Fault;
use haul_sftp::SftpError;

/// The reason why haul was not installed or not removed. All text is escaped, and safe to show. An
/// earlier installation is kept. A later installation removes what is left.
///
/// In all variants, `host` is the host.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the variants describe their fields")]
pub enum DeployError {
    /// The program can't be installed.
    ///
    /// - `path`: the path on this machine.
    /// - `why`: the reason.
    #[error("{path}: {why}")]
    Program { path: String, why: String },
    /// The connection can't be made, or was lost. Or the user has cancelled.
    #[error(transparent)]
    Job(#[from] JobError),
    /// The login runs only haul (`ForceCommand`, or `command=` in front of a key).
    #[error("this login to {host} runs only haul")]
    Bound { host: String },
    /// The host's commands do not report the required facts.
    ///
    /// - `said`: their output.
    #[error("{host}: unexpected output of uname, id, date and pwd: \"{said}\"")]
    FactsMissing { host: String, said: String },
    /// The program is built for another kind of machine.
    ///
    /// - `theirs`: the output of `uname -sm` there.
    /// - `ours`: system and processor of the program.
    #[error("this haul is built for {ours}, but {host} is {theirs}")]
    WrongMachine { host: String, theirs: String, ours: String },
    /// The directory, or one above it, is not safe.
    ///
    /// - `path`: the path of the unsafe entry.
    /// - `why`: the reason.
    /// - `hint`: a remedy for the user.
    #[error("{host}:{path}: {why}")]
    Place { host: String, path: String, why: &'static str, hint: &'static str },
    /// Another haul is installed, and the host's SFTP server can't replace a file in one step.
    ///
    /// - `path`: the path of the installed haul.
    #[error("{host}:{path}: the server can't replace a file in one step")]
    Irreplaceable { host: String, path: String },
    /// A request to the host's SFTP server failed.
    ///
    /// - `error`: the error of the request.
    #[error("{host}: {error}")]
    Sftp { host: String, error: SftpError },
    /// The upload failed.
    ///
    /// - `path`: the file there.
    #[error("{host}:{path}: {fault}")]
    Upload { host: String, path: String, fault: Fault },
    /// The uploaded file has a different content.
    ///
    /// - `path`: the path of the file.
    #[error("{host}:{path}: the uploaded file reads back different")]
    Differs { host: String, path: String },
    /// The uploaded program does not run as haul.
    ///
    /// - `cause`: how it failed.
    /// - `suspect`: the most likely cause.
    #[error("the uploaded program does not run as haul on {host}: {cause}")]
    DoesNotStart { host: String, cause: String, suspect: LikelyCause },
    /// The uploaded program does not run as haul, and does not contain haul's marker.
    ///
    /// - `cause`: how it failed.
    #[error(
        "the uploaded program does not look like haul, and does not run as haul on {host}: {cause}"
    )]
    NoHaul { host: String, cause: String },
    /// The uploaded program is another version of haul.
    ///
    /// - `theirs`: its version.
    #[error("the uploaded program is haul {theirs}, but this is haul {}", super::VERSION)]
    Version { theirs: String },
}

/// The likely reason why haul does not start on a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LikelyCause {
    /// The program needs a loader, and most often libraries, of the host.
    Libraries,
    /// The directory does not allow programs to be executed.
    Directory,
}
