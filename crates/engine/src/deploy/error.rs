//! Why haul was not deployed, or not removed.

use crate::JobError;
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
        /// What is wrong with it.
        why: String,
    },
    /// There is no connection, or it ended; or the user interrupted.
    #[error(transparent)]
    Job(#[from] JobError),
    /// The login runs a haul, whatever is asked for (`ForceCommand`, or `command=`
    /// in front of a key).
    #[error("this login to {host} runs haul, and no other command")]
    Bound {
        /// The host.
        host: String,
    },
    /// The host's commands do not tell what is needed.
    #[error("{host} does not say what it is as uname, id, date and pwd do: \"{said}\"")]
    Untold {
        /// The host.
        host: String,
        /// What it said.
        said: String,
    },
    /// The program is for another kind of machine.
    #[error("this haul is for {ours}, and {host} is {theirs}")]
    Misfit {
        /// The host.
        host: String,
        /// What `uname -sm` says there.
        theirs: String,
        /// System and processor of the program.
        ours: String,
    },
    /// Something on the way to where haul is deployed is not as it must be.
    #[error("{host}:{path}: {why}")]
    Place {
        /// The host.
        host: String,
        /// What it is about.
        path: String,
        /// What is wrong with it.
        why: &'static str,
        /// What the user can do.
        hint: &'static str,
    },
    /// The host's SFTP server did not do what was asked.
    #[error("{host}: {error}")]
    Sftp {
        /// The host.
        host: String,
        /// What it did not do.
        error: SftpError,
    },
    /// What arrived is not what was sent.
    #[error("{host}:{path}: what was uploaded reads back as something else")]
    Differs {
        /// The host.
        host: String,
        /// The file.
        path: String,
    },
    /// What was uploaded is no haul there.
    #[error("what was uploaded does not start as haul on {host}: {cause}")]
    DoesNotStart {
        /// The host.
        host: String,
        /// How it failed.
        cause: String,
        /// What is most likely wrong.
        suspect: Suspect,
    },
    /// The same of a program that has none of haul's own words in it.
    #[error(
        "what was uploaded does not look like haul, and does not start as one on {host}: {cause}"
    )]
    NoHaul {
        /// The host.
        host: String,
        /// How it failed.
        cause: String,
    },
    /// What was uploaded is another version of haul.
    #[error("what was uploaded is haul {theirs}, and this is haul {}", crate::remote::PROGRAM)]
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

impl DeployError {
    /// What the user can do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            // The caller knows more about connections.
            Self::Job(_) => None,
            Self::Program { .. } => Some(
                "'cargo xtask dist' builds a haul that can be deployed; --binary PATH says where it is",
            ),
            Self::Bound { .. } => Some("use the haul that is there, or a login that is not bound"),
            Self::Untold { .. } => Some(
                "haul can be deployed only where sh, uname, id, date and pwd are; install it by hand",
            ),
            Self::Misfit { .. } => Some(
                "name a haul that was built for that machine with --binary PATH, or install one there by hand",
            ),
            Self::Place { hint, .. } => Some(hint),
            Self::Sftp { .. } => Some("there must be room and the right to write on the host"),
            Self::Differs { .. } => {
                Some("run the same command again; if it fails again, look at the host's disk")
            }
            Self::NoHaul { .. } => Some(
                "name a haul with --binary PATH: 'cargo xtask dist' builds one, and without --binary it is this one",
            ),
            Self::DoesNotStart { suspect: Suspect::Libraries, .. } => Some(
                "it needs libraries of the host, as new as here: 'cargo xtask dist' builds a haul that needs none, for --binary PATH",
            ),
            Self::DoesNotStart { suspect: Suspect::Directory, .. } => {
                Some("the directory may be mounted 'noexec'; install haul elsewhere by hand")
            }
            Self::Version { .. } => {
                Some("deploy with that version, or name one of this version with --binary PATH")
            }
        }
    }
}
