//! The tree of a host's SFTP server, for hosts that have no haul.
//!
//! The protocol has no handles of directories: a directory is a path, and each operation sends one.
//! So links planted during a job are not guarded against as in the local tree; see
//! `docs/reference/sftp.md`. The rest of the contract holds. Existing links below a destination are
//! not followed, and a name never shows an incomplete entry.

mod attrs;
mod dir;
mod host;
mod known;
mod pending_creation;
mod remote;
mod same;
mod sessions;
mod settling;
mod small;
mod source;
mod stage;

pub use attrs::meta_of;
pub use host::{SessionLoss, SftpHost};
pub use sessions::Sessions;
pub use small::{Downloads, Fetched, Lane, PutError, SmallFile, Uploads};

use super::{Tree, TreeDir};
use crate::dir::Capabilities;
use crate::parallel::run_both;
pub use dir::SftpDir;
use haul_model::Name;
use haul_model::words;
use haul_sftp::{Attrs, FileType, SftpError, StatusCode};
use parking_lot::Mutex;
use std::io;
use std::sync::Arc;

/// The tree of a host.
pub struct SftpTree {
    host: Arc<SftpHost>,
    /// The job writes to it. A directory is listed once, for all entries that are written to it.
    is_destination: bool,
    /// The parent of a missing destination.
    parent: Mutex<Option<PrefetchedParent>>,
}

/// A directory that was looked up before it is needed.
struct PrefetchedParent {
    /// The path that it will be opened with.
    path: Vec<u8>,
    dir: SftpDir,
}

impl SftpTree {
    /// The tree that a job reads.
    pub fn source(host: &Arc<SftpHost>) -> Self {
        Self { host: Arc::clone(host), is_destination: false, parent: Mutex::default() }
    }

    /// The tree that a job writes to.
    pub fn destination(host: &Arc<SftpHost>) -> Self {
        Self { host: Arc::clone(host), is_destination: true, parent: Mutex::default() }
    }

    /// The directory at `path`, for a single listing, without a lookup first.
    pub fn unasked(&self, path: &[u8]) -> Arc<dyn TreeDir> {
        let path = relative_to_home(path).to_vec();
        Arc::new(SftpDir::new(&self.host, path, None, None, self.is_destination, true))
    }

    /// The directory at `path`. A missing path is mostly a new name in its parent, so the parent is
    /// looked up at the same time.
    fn open_or_parent(&self, path: &[u8]) -> io::Result<SftpDir> {
        let split = words::split(path);
        let Some(name) = split.name.and_then(|name| Name::new(name).ok()) else {
            return self.found(self.ask(path));
        };
        let (parent, whole) = run_both(|| self.open_with(split.parent, &name), || self.ask(path));
        let is_missing = |error: &SftpError| error.status() == Some(StatusCode::NoSuchFile);
        if whole.as_ref().is_err_and(is_missing)
            && let Ok(dir) = parent
        {
            *self.parent.lock() = Some(PrefetchedParent { path: split.parent.to_vec(), dir });
        }
        self.found(whole)
    }

    /// The directory at `path`, with the server's answer about `name`.
    fn open_with(&self, path: &[u8], name: &Name) -> io::Result<SftpDir> {
        let of_name = join(relative_to_home(path), name.as_bytes());
        let (there, dir) = run_both(|| self.host.client().lstat(&of_name), || self.ask(path));
        let dir = self.found(dir)?;
        // An error is reported when the name is needed.
        if let Ok(there) = found_or_missing(there) {
            dir.known.lock().ahead = Some((name.clone(), there));
        }
        Ok(dir)
    }

    fn ask(&self, path: &[u8]) -> Result<(Attrs, Box<[u8]>), SftpError> {
        self.host.client().stat_and_real_path(relative_to_home(path))
    }

    /// Converts an answer about a directory.
    fn found(&self, asked: Result<(Attrs, Box<[u8]>), SftpError>) -> io::Result<SftpDir> {
        let (attrs, real) = self.host.io(asked)?;
        if attrs.file_type() != Some(FileType::Dir) {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        let (host, is_destination) = (&self.host, self.is_destination);
        Ok(SftpDir::new(host, real.into_vec(), Some(attrs), None, is_destination, true))
    }
}

impl Tree for SftpTree {
    fn open(&self, path: &[u8]) -> io::Result<Arc<dyn TreeDir>> {
        let parent = self.parent.lock().take_if(|parent| parent.path == path);
        let dir = match parent {
            Some(parent) => parent.dir,
            None if self.is_destination => self.open_or_parent(path)?,
            None => self.found(self.ask(path))?,
        };
        Ok(Arc::new(dir))
    }

    fn open_for_search(&self, path: &[u8], first: Option<&Name>) -> io::Result<Arc<dyn TreeDir>> {
        match first {
            Some(name) => Ok(Arc::new(self.open_with(path, name)?)),
            None => self.open(path),
        }
    }

    fn absolute_path(&self, path: &[u8]) -> io::Result<Vec<u8>> {
        Ok(self.host.io(self.host.client().real_path(relative_to_home(path)))?.into_vec())
    }

    fn capabilities(&self) -> Capabilities {
        self.host.capabilities(self.is_destination)
    }

    fn lane(&self, number: usize) -> Option<Lane<'_>> {
        Some(Lane { host: &self.host, client: self.host.sessions.wait(number)? })
    }
}

/// The path to send to the server: it starts in the user's home directory.
pub fn relative_to_home(path: &[u8]) -> &[u8] {
    match words::without_tilde(path) {
        b"" => b".",
        path => path,
    }
}

/// The attributes in an answer; `None` if the entry does not exist.
fn found_or_missing(asked: Result<Attrs, SftpError>) -> Result<Option<Attrs>, SftpError> {
    match asked {
        Err(error) if error.status() == Some(StatusCode::NoSuchFile) => Ok(None),
        asked => asked.map(Some),
    }
}

/// The path of `below` in the directory `dir`, both in the server's form.
pub fn join(dir: &[u8], below: &[u8]) -> Vec<u8> {
    let slash: &[u8] = if dir.ends_with(b"/") { b"" } else { b"/" };
    [dir, slash, below].concat()
}
