//! A job as a struct: its sources, its destination, its task and rules, and its connections.

use crate::cache::CacheConfig;
use haul_model::{
    Altered, Compression, Fault, Filter, Kept, Logins, Mirror, Ports, Side, Task, Via,
    escape_bytes, os_text,
};
use haul_net::Connection;
use haul_proto::{HandshakeError, LANES_MAX, NamedDest, NamedSources};
use haul_sftp::Session;
use haul_sys::{Access, Dir, Links, confine};
use haul_tree::Tree;
use std::borrow::Cow;
use std::num::{NonZeroU8, NonZeroU64};
use std::path::PathBuf;
use std::time::Duration;

/// The full description of a job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Job {
    /// The sources.
    pub sources: NamedSources,
    /// The destination.
    pub dest: NamedDest,
    /// The change of symbolic links' targets on this machine's side.
    pub munging: Munging,
    /// A directory on this machine for the content of named FIFOs and devices, in files without
    /// names. Without it, such sources are refused.
    pub spool: Option<PathBuf>,
    /// The directory on this machine for records of created directories, for destinations that
    /// can't store them: the directory of the journals of uploads.
    pub state: Option<PathBuf>,
    /// The chunk cache of this machine. Without one, neither side offers or stores chunks.
    pub cache: Option<CacheConfig>,
    /// The task of both roles.
    pub task: Task,
    /// The rules that exclude parts of the sources.
    pub filter: Filter,
    /// Attributes that replace those of the sources.
    pub altered: Altered,
    /// A secret by which the agents of this job's runs find each other, if the job may be retried.
    /// The next agent ends its predecessor, and takes its locks.
    pub token: Option<[u8; 16]>,
    /// The connections to other machines.
    pub wire: WireOptions,
    /// Bytes of memory that each role in this process may use for hard links; `None` for the
    /// default.
    pub links_memory_max: Option<NonZeroU64>,
}

/// How a job uses connections to other machines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WireOptions {
    /// Maximum bytes of content per second, after compression.
    pub rate: Option<NonZeroU64>,
    /// The compression of listings and contents.
    pub compression: Compression,
    /// The kind of connection for contents to an agent.
    pub via: Via,
    /// The first and last port that the agent may open for that; `None` for any.
    pub ports: Option<Ports>,
    /// Logins to the agent's host besides the first, for contents through ssh. Between two hosts,
    /// the number of direct connections besides the first. If the user has not set it, it follows
    /// from the round trip of a call.
    pub logins: Logins,
}

/// A change of symbolic links' targets by one of the roles.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Munging {
    /// There is none.
    #[default]
    No,
    /// The Sender lists munged links with their original targets.
    Undone,
    /// The Receiver munges links, so that they lead nowhere.
    Done,
}

impl Job {
    /// Reads the names of users and groups in advance, if this job sends names. Call it before a
    /// thread is confined.
    pub(crate) fn preload_accounts(&self) -> Result<(), JobError> {
        if !self.sends_account_names() && self.altered.is_empty() {
            return Ok(());
        }
        haul_sys::preload_accounts().map_err(JobError::Threads)
    }

    /// True if contents may use direct connections.
    pub fn uses_direct(&self) -> bool {
        self.has_contents() && self.wire.via != Via::Ssh
    }

    /// Logins besides the first, for contents.
    pub(crate) fn further_logins(&self) -> Logins {
        if self.has_contents() && self.wire.via != Via::Tcp {
            self.wire.logins
        } else {
            Logins::UpTo(0)
        }
    }

    /// The number of direct connections that the user wants; `None` if it follows from the round
    /// trip.
    pub(crate) fn direct_connections(&self) -> Option<NonZeroU8> {
        match self.wire.logins {
            Logins::Chosen => None,
            Logins::UpTo(others) => NonZeroU8::new(others.saturating_add(1).min(LANES_MAX)),
        }
    }

    /// This machine's file systems, for that side of the job.
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

    /// True if the Sender sends the names of users and groups.
    pub(crate) fn sends_account_names(&self) -> bool {
        let of_accounts = Kept::OWNER.with(Kept::ACL).with(Kept::SET_ID);
        let is_numeric = self.task.copies().is_some_and(|policy| policy.numeric_ids);
        self.task.keeps().has_any(of_accounts) && !is_numeric
    }

    /// The full paths of the sources.
    pub(crate) fn source_paths(&self) -> impl Iterator<Item = Cow<'_, [u8]>> {
        self.sources.paths.iter().map(|path| match &self.sources.base {
            Some(base) => Cow::Owned([&**base, b"/", path].concat()),
            None => Cow::Borrowed(&**path),
        })
    }

    /// Confines this thread, and the threads that it starts, to the actions of a Receiver with this
    /// reach. Peers cause what happens there.
    pub(crate) fn confine_receiver(&self, Reach { below, reads }: &Reach) {
        let confined = confine(match self.task.copies() {
            Some(_) => Access::Below { writes: below, reads },
            None => Access::ReadOnly,
        });
        // Outside of the macro, which evaluates its arguments only if they are logged.
        tracing::debug!(confined, "receiving");
    }
}

/// The directories of this machine that a confined Receiver can use.
pub(crate) struct Reach {
    /// Directories in which it writes.
    pub(crate) below: Vec<Dir>,
    /// Directories that it only reads.
    pub(crate) reads: Vec<Dir>,
}

/// The connections to a host's SFTP server.
pub struct SftpRoute {
    /// Connections to the server, at least one. The job starts with the first session, and the
    /// others join it. A failed one is reported as a warning. The content of large files uses all
    /// of them.
    pub connections: Vec<Connection>,
    /// An open session on which requests were answered. With it no connections are needed.
    pub open_session: Option<Session>,
    /// The directory on this machine for the journals of uploads, created if missing. If it can't
    /// be used, or others can write to it, a warning is reported. Without it, uploads are not
    /// resumed.
    pub journals: Option<PathBuf>,
    /// The longest silence of the server while an answer is awaited; `None` for the timeout of the
    /// connections.
    pub silence_max: Option<Duration>,
}

/// Minimum number of open files that a process needs for a job.
const OPEN_FILES_MIN: u64 = 64;

/// The reason why a job as a whole ended early.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the variants describe their fields")]
pub enum JobError {
    /// The job is invalid: nothing was done.
    #[error("{0}")]
    Usage(String),
    /// The destination as a whole can't be used.
    ///
    /// - `path`: the path, escaped.
    /// - `fault`: the problem with it.
    #[error("{path}: {fault}")]
    Destination { path: String, fault: Fault },
    /// The connection could not be made or used, or it broke.
    #[error(transparent)]
    Connection(#[from] haul_net::ConnectError),
    /// The peer broke the protocol.
    #[error("{0}")]
    Protocol(String),
    /// The haul on a host uses another version of the protocol.
    ///
    /// - `host`: the host, safe to show.
    /// - `cause`: both versions.
    #[error("{host}: {cause}")]
    Version { host: String, cause: HandshakeError },
    /// No SFTP session was opened, or it ended too early.
    ///
    /// - `host`: the host, safe to show.
    #[error("{host}: {cause}")]
    Sftp { host: String, cause: haul_sftp::SessionError },
    /// The system allows no more threads.
    #[error("can't start a thread: {}", os_text(.0))]
    Threads(std::io::Error),
    /// The system allows too few open files.
    #[error("the limit of open files is {0}, but haul needs {OPEN_FILES_MIN}")]
    OpenFiles(u64),
    /// A thread of the job panicked, which is a bug in haul.
    #[error("internal error")]
    Panicked,
    /// The user interrupted.
    #[error("interrupted")]
    Interrupted,
}

impl JobError {
    /// Raises the limit of open files as far as the system allows.
    ///
    /// # Errors
    /// When the limit is too low.
    pub(crate) fn of_open_files() -> Result<(), Self> {
        haul_sys::raise_open_files();
        match haul_sys::open_files_max() {
            Some(max @ ..OPEN_FILES_MIN) => Err(Self::OpenFiles(max)),
            _ => Ok(()),
        }
    }

    /// The error for a destination `path` that can't be read.
    pub(crate) fn unusable(path: &[u8], error: &std::io::Error) -> Self {
        let fault = Fault::from_io(Side::Destination, "read the directory's metadata", error);
        Self::Destination { path: escape_bytes(path), fault }
    }

    /// The error for several sources and a `path` that is no directory.
    pub(crate) fn needs_directory(path: &[u8]) -> Self {
        let path = escape_bytes(path);
        Self::Usage(format!(
            "{path}: not a directory, which several sources need; add a slash to create it"
        ))
    }
}
