//! A job in plain words: its sources, its destination, its task and rules, and where the
//! two roles run.

use crate::cache::CachePlace;
use haul_model::{
    Altered, Backup, Compression, Fault, Filter, Kept, Logins, Mirror, Naming, Ports, Side, Task,
    Via, escape_bytes, os_text,
};
use haul_net::Connection;
use haul_proto::{HandshakeError, LANES_MAX};
use haul_sftp::Session;
use haul_sys::{Access, Dir, Links, confine};
use haul_tree::Tree;
use std::borrow::Cow;
use std::num::{NonZeroU8, NonZeroU64};
use std::path::PathBuf;
use std::time::Duration;

/// Everything that a job is told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Job {
    /// The sources, as paths of the machine where the sender runs. Relative
    /// ones start in the working directory (here) or home directory (there).
    pub sources: Vec<Vec<u8>>,
    /// The directory in which all sources of a mirror begin, if they are a list of paths in
    /// it: none leads out of it, unless links are followed.
    pub base: Option<Vec<u8>>,
    /// The destination, a path of the machine where the receiver runs.
    pub dest: Vec<u8>,
    /// The destination must be a directory: several sources, or a job that is
    /// one of several into the same destination.
    pub into_dir: bool,
    /// Directories may be copied (`-r`).
    pub recursive: bool,
    /// Symbolic links are followed (`-L`, or no `-r`).
    pub follow: bool,
    /// The targets of symbolic links that this machine's side changes.
    pub munging: Munging,
    /// A directory of this machine for the content of named FIFOs and devices, in files
    /// without names. Without a directory they are refused.
    pub spool: Option<PathBuf>,
    /// The directory of this machine for records of the directories that jobs have made,
    /// where these can't remember that themselves: the one for the journals of uploads.
    pub state: Option<PathBuf>,
    /// The chunk cache of this machine; without one, no chunks are offered or kept on either
    /// side.
    pub cache: Option<CachePlace>,
    /// The task of both roles.
    pub task: Task,
    /// The rules that leave out parts of the sources.
    pub filter: Filter,
    /// Attributes that entries get in place of those of the sources.
    pub altered: Altered,
    /// A number for the one source and the destination's name, if the job may make its
    /// destination. A directory that an earlier job with the same number has made is
    /// the new name again, and nothing to copy into.
    pub origin: Option<[u8; 16]>,
    /// The names that entries got in an earlier run of this job, whose connection was
    /// lost: they get the same.
    pub naming: Option<Naming>,
    /// A secret by which the agents of this job's runs know each other, if it may have
    /// several: the next one ends the one before, and takes its locks.
    pub token: Option<[u8; 16]>,
    /// The directories of a mirror's [`Bases`](haul_model::Bases), as paths of the machine
    /// where the receiver runs. Relative ones start in the destination.
    pub bases: Vec<Vec<u8>>,
    /// Where what a mirror replaces or removes is kept, if it is; a path of that machine.
    pub backup: Option<Backup>,
    /// The directory in which files are staged, as those of bases; without one each is
    /// where it will appear.
    pub staging: Option<Vec<u8>>,
    /// Bytes of content that may be moved in a second, as they travel: compressed, if they are.
    pub rate: Option<NonZeroU64>,
    /// The way in which listings and contents are compressed on a wire.
    pub compression: Compression,
    /// The way that contents take to an agent.
    pub via: Via,
    /// The first and the last port that the agent may open for that; any if there are none.
    pub ports: Option<Ports>,
    /// Logins to the agent's host besides the first, for contents that go through ssh. From
    /// one host to another it is the number of direct connections besides the first, which
    /// is left to the time that a call takes if the user has named none.
    pub logins: Logins,
    /// Bytes of memory that each role of this process may take for hard links, if not as
    /// many as usual.
    pub links_memory_max: Option<NonZeroU64>,
}

/// A change of the targets of symbolic links, by one of the roles.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Munging {
    /// There is none.
    #[default]
    No,
    /// The Sender tells those that were made to lead nowhere as they were.
    Undone,
    /// The Receiver has links lead nowhere.
    Done,
}

impl Job {
    /// Has the names of users and groups known, if they travel in this job. To be called
    /// before a thread is confined.
    pub(crate) fn expect_accounts(&self) -> Result<(), JobError> {
        if self.names_accounts() || !self.altered.is_empty() {
            haul_sys::expect_accounts().map_err(JobError::Threads)
        } else {
            Ok(())
        }
    }

    /// True if contents may travel over connections past ssh.
    pub fn goes_directly(&self) -> bool {
        self.has_contents() && self.via != Via::Ssh
    }

    /// Logins besides the first, over which contents may travel.
    pub(crate) fn further_logins(&self) -> Logins {
        match self.has_contents() && self.via != Via::Tcp {
            true => self.logins,
            false => Logins::UpTo(0),
        }
    }

    /// The direct connections that are asked for; `None` leaves their number to how far away
    /// the host is.
    pub(crate) fn direct_connections(&self) -> Option<NonZeroU8> {
        match self.logins {
            Logins::Chosen => None,
            Logins::UpTo(others) => NonZeroU8::new(others.saturating_add(1).min(LANES_MAX)),
        }
    }

    /// The file systems of this machine, as they hold that side of the job.
    pub(crate) fn local_tree(&self, side: Side) -> &'static dyn Tree {
        let is_guarded = |mirror: &Mirror| side == Side::Destination && !mirror.foreign_links;
        let links = match self.task.mirrors().is_some_and(is_guarded) {
            true => Links::Own,
            false => Links::All,
        };
        let keeps_atimes = self.task.mirrors().is_some_and(|mirror| mirror.keeps_atimes);
        haul_tree::local_tree(self.task.fakes(side), keeps_atimes, links)
    }

    pub(crate) fn has_contents(&self) -> bool {
        self.task.copies().is_some_and(|policy| !policy.dry_run)
    }

    /// True if the Sender tells the names of users and groups, where it tells of these.
    pub(crate) fn names_accounts(&self) -> bool {
        let of_accounts = Kept::OWNER.with(Kept::ACL).with(Kept::SET_ID);
        let is_numeric = self.task.copies().is_some_and(|policy| policy.numeric_ids);
        self.task.keeps().has_any(of_accounts) && !is_numeric
    }

    /// The sources as paths of their own.
    pub(crate) fn source_paths(&self) -> impl Iterator<Item = Cow<'_, [u8]>> {
        self.sources.iter().map(|path| match &self.base {
            Some(base) => Cow::Owned([&**base, b"/", path].concat()),
            None => Cow::Borrowed(&**path),
        })
    }

    /// Confines this thread, and those that it begins, to what a Receiver with this reach may
    /// do: the destination and what it uses besides. Peers cause what happens there.
    pub(crate) fn confine_receiver(&self, Reach { below, reads }: &Reach) {
        let confined = confine(match self.task.copies() {
            Some(_) => Access::Below { writes: below, reads },
            None => Access::ReadOnly,
        });
        // Not in the macro, which does nothing with its words unless they are logged.
        tracing::debug!(confined, "receiving");
    }
}

/// The directories of this machine that a Receiver reaches, once it is confined.
pub(crate) struct Reach {
    /// Those in which it works.
    pub(crate) below: Vec<Dir>,
    /// Those that it only reads.
    pub(crate) reads: Vec<Dir>,
}

/// The way to a host's SFTP server.
pub struct SftpRoute {
    /// Connections to it, one at least. The job begins with the first session that
    /// stands, the others join it, and one that fails is told as a warning; the
    /// content of large files takes all of them.
    pub connections: Vec<Connection>,
    /// A session by which requests were answered. With it no connections are needed.
    pub standing: Option<Session>,
    /// The directory on this machine where the journals of uploads are kept; it is
    /// made if it is missing. One that can't be used, or is not the user's alone,
    /// is told as a warning. Without one, uploads are not continued.
    pub journals: Option<PathBuf>,
    /// How long the server may be silent while it is asked, if not as long as the
    /// connections' own patience says.
    pub silence_max: Option<Duration>,
}

/// Files that a process has to be allowed to have open, to run a job.
const OPEN_FILES_MIN: u64 = 64;

/// Why a job as a whole ended early.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// The words of the job can't be carried out: nothing was done.
    #[error("{0}")]
    Usage(String),
    /// The destination as a whole can't be used.
    #[error("{path}: {fault}")]
    Destination {
        /// The path, escaped.
        path: String,
        /// The problem with it.
        fault: Fault,
    },
    /// The connection could not be made, broke, or the peer broke the rules.
    #[error(transparent)]
    Connection(#[from] haul_net::ConnectError),
    /// The peer said what the protocol does not allow.
    #[error("{0}")]
    Protocol(String),
    /// The haul on a host has another version of the protocol.
    #[error("{host}: {cause}")]
    Version {
        /// The host, safe to show.
        host: String,
        /// Both versions.
        cause: HandshakeError,
    },
    /// There is no SFTP session with the host, or it ended before its time.
    #[error("{host}: {cause}")]
    Sftp {
        /// The host, safe to show.
        host: String,
        /// Why.
        cause: haul_sftp::SessionError,
    },
    /// The system gives no more threads.
    #[error("can't start a thread: {}", os_text(.0))]
    Threads(std::io::Error),
    /// The system allows too few open files.
    #[error("the limit of open files is {0}, but haul needs {OPEN_FILES_MIN}")]
    OpenFiles(u64),
    /// A thread of the job panicked, which is a mistake in haul.
    #[error("internal error")]
    Panicked,
    /// The user interrupted.
    #[error("interrupted")]
    Interrupted,
}

impl JobError {
    /// Has as many files open as the system allows.
    ///
    /// # Errors
    /// When these are too few.
    pub(crate) fn of_open_files() -> Result<(), Self> {
        haul_sys::raise_open_files();
        match haul_sys::open_files_max() {
            Some(max @ ..OPEN_FILES_MIN) => Err(Self::OpenFiles(max)),
            _ => Ok(()),
        }
    }

    /// The destination `path` can't even be looked at.
    pub(crate) fn unusable(path: &[u8], error: &std::io::Error) -> Self {
        let fault = Fault::from_io(Side::Destination, "read the directory's metadata", error);
        Self::Destination { path: escape_bytes(path), fault }
    }
}
