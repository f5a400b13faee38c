//! What all directories and files of one host have in common.

use crate::budget::Budget;
use haul_model::{ContentHash, FileId};
use haul_sftp::{Client, Extension, SessionError, SftpError, StatusCode};
use haul_store::{Placement, Publication};
use haul_sys::Dir;
use std::io;
use std::sync::{Arc, OnceLock};

/// Content of a host's files that may be in memory at the same time, in bytes:
/// more than most links hold in a round trip.
const BUDGET_LEN: usize = 32 << 20;

/// Why the session with a host ended before its time. Whoever meets it first puts
/// it down; nothing else can be asked then, and no file is at fault.
#[derive(Debug, Default)]
pub(crate) struct Lost(OnceLock<SessionError>);

impl Lost {
    /// The reason, if the session has ended.
    pub(crate) fn reason(&self) -> Option<&SessionError> {
        self.0.get()
    }

    fn look_at(&self, error: &SftpError) {
        if let Some(end) = error.session() {
            // Another thread may have met it first, with the same reason.
            let _ = self.0.set(end.clone());
        }
    }
}

/// A host that is reached through its SFTP server, over one session or several.
pub(crate) struct SftpHost {
    clients: Vec<Client>,
    /// Tells it from other hosts, in the identities of its files.
    name: Vec<u8>,
    lost: Arc<Lost>,
    /// Content on its way from the host.
    pub(crate) budget: Arc<Budget>,
    /// Where the journals of uploads are kept on this machine.
    pub(crate) journals: Option<Arc<Dir>>,
}

impl SftpHost {
    /// The host called `name`, with a client for each session, one at least.
    pub(crate) fn new(
        clients: Vec<Client>,
        name: &str,
        lost: &Arc<Lost>,
        journals: Option<Arc<Dir>>,
    ) -> Arc<Self> {
        debug_assert!(!clients.is_empty(), "nobody to ask");
        Arc::new(Self {
            clients,
            name: name.as_bytes().to_vec(),
            lost: Arc::clone(lost),
            budget: Budget::new(BUDGET_LEN),
            journals,
        })
    }

    /// Who asks about all but the content of large files.
    pub(crate) fn client(&self) -> &Client {
        &self.clients[0]
    }

    /// One client for each session.
    pub(crate) fn clients(&self) -> &[Client] {
        &self.clients
    }

    /// What tells the directory at `path` from all others, of this host and
    /// others.
    pub(crate) fn place(&self, path: &[u8]) -> Vec<u8> {
        [&*self.name, b":", path].concat()
    }

    /// The identity of what has this path, which must be free of links. Through
    /// this protocol there are no numbers of files.
    pub(crate) fn id_of(&self, path: &[u8]) -> FileId {
        let of = |bytes: &[u8]| {
            let hash = ContentHash::of(bytes);
            u64::from_le_bytes(*hash.as_bytes().first_chunk().expect("a hash has 32 bytes"))
        };
        FileId { dev: of(&self.name).max(1), ino: of(path).max(1) }
    }

    /// Bytes that the file system of the directory `dir` has room for, where the
    /// server tells.
    pub(crate) fn room(&self, dir: &[u8]) -> Option<u64> {
        if !self.client().has(Extension::Statvfs) {
            return None;
        }
        let stats = self.io(self.client().fs_stats(dir)).ok()?;
        Some(stats.available_blocks.saturating_mul(stats.fragment_len))
    }

    /// Gives the file `stage` its name `path`.
    pub(crate) fn publish(
        &self,
        stage: &[u8],
        path: &[u8],
        placement: Placement,
    ) -> io::Result<Publication> {
        let client = self.client();
        let can_replace = client.has(Extension::PosixRename);
        if placement != Placement::Keep && can_replace {
            return self.io(client.rename_over(stage, path)).map(|()| Publication::Published);
        }
        let is_taken = || match client.lstat(path) {
            Err(error) if error.status() == Some(StatusCode::NoSuchFile) => Ok(false),
            looked => self.io(looked).map(|_| true),
        };
        // Whether a rename replaces what is there is the server's choice.
        let taken = is_taken()?;
        if taken && placement == Placement::Keep {
            return Ok(Publication::Kept);
        }
        if taken {
            self.io(client.remove_file(path))?;
        }
        match client.rename(stage, path) {
            Err(error) => {
                self.look_at(&error);
                if placement == Placement::Keep && is_taken()? {
                    return Ok(Publication::Kept);
                }
                self.io(Err(error))
            }
            Ok(()) => Ok(Publication::Published),
        }
    }

    /// What the server has answered, as the storage's own result. The end of the
    /// session is put down.
    pub(crate) fn io<T>(&self, result: Result<T, SftpError>) -> io::Result<T> {
        result.map_err(|error| {
            self.look_at(&error);
            io::Error::new(error.io_kind(), error.cause)
        })
    }

    /// Puts it down if `error` is the session's end.
    pub(crate) fn look_at(&self, error: &SftpError) {
        self.lost.look_at(error);
    }
}
