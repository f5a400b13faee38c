//! The tree of a host's SFTP server, for hosts that have no haul.
//!
//! There are no handles of directories in that protocol: a directory is a path,
//! and each operation sends one. So what the other tree promises of links that
//! are planted while a job runs can't be kept here, see `docs/sftp.md`. All the
//! rest of the contract is: no link that stands below a destination is followed,
//! nothing appears under a name before it is whole.

mod attrs;
mod dir;
mod host;
mod known;
mod source;
mod stage;

pub(crate) use attrs::{kept, times_of};
pub(crate) use dir::SftpDir;
pub(crate) use host::{Lost, SftpHost};

use super::{Tree, TreeDir};
use crate::words;
use haul_sftp::FileType;
use std::io;
use std::sync::Arc;

/// The tree of a host.
pub(crate) struct SftpTree {
    host: Arc<SftpHost>,
    /// What the job writes to: what stands in a directory is looked at once, for
    /// all that comes into it.
    is_destination: bool,
}

impl SftpTree {
    /// The tree that a job reads.
    pub(crate) fn source(host: &Arc<SftpHost>) -> Self {
        Self { host: Arc::clone(host), is_destination: false }
    }

    /// The tree that a job writes to.
    pub(crate) fn destination(host: &Arc<SftpHost>) -> Self {
        Self { host: Arc::clone(host), is_destination: true }
    }
}

impl Tree for SftpTree {
    fn open(&self, path: &[u8]) -> io::Result<Arc<dyn TreeDir>> {
        let host = &self.host;
        let path = match words::without_tilde(path) {
            b"" => b".",
            path => path,
        };
        let (attrs, real) = host.io(host.client().stat_and_real_path(path))?;
        if attrs.file_type() != Some(FileType::Dir) {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        host.came_to(&real);
        Ok(SftpDir::open(host, real.into_vec(), Some(attrs), None, self.is_destination, true))
    }

    fn keeps_whole_seconds(&self) -> bool {
        true
    }
}

/// `below` in the directory `dir`, both as the server reads them.
pub(crate) fn join(dir: &[u8], below: &[u8]) -> Vec<u8> {
    let slash: &[u8] = if dir.ends_with(b"/") { b"" } else { b"/" };
    [dir, slash, below].concat()
}
