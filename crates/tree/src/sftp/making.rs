//! A directory that a host's server is creating.

use super::SftpHost;
use haul_sftp::{FileType, Later, SftpError, StatusCode};
use std::io;
use std::sync::{Arc, OnceLock};

/// A directory whose creation was requested.
pub(super) struct Making {
    host: Arc<SftpHost>,
    path: Vec<u8>,
    later: Later,
    /// After a refusal: true if another process has created it.
    by_others: OnceLock<bool>,
}

impl Making {
    pub(super) fn new(host: &Arc<SftpHost>, path: &[u8], later: Later) -> Self {
        let (host, path) = (Arc::clone(host), path.to_vec());
        Self { host, path, later, by_others: OnceLock::new() }
    }

    /// Waits until the directory exists.
    ///
    /// # Errors
    /// Why it could not be made.
    pub(super) fn wait(&self) -> io::Result<()> {
        let Err(error) = self.later.wait() else { return Ok(()) };
        let (above, name) = self.above_and_name();
        if *self.by_others.get_or_init(|| self.is_by_others(&error)) {
            if self.host.spells(above, name)? {
                return Ok(());
            }
            let message = "its name is that of another entry of this job";
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, message));
        }
        self.host.wrote(above, Err(error))
    }

    /// The path of its parent, and its name there.
    fn above_and_name(&self) -> (&[u8], &[u8]) {
        let mut parts = self.path.rsplitn(2, |&byte| byte == b'/');
        let name = parts.next().unwrap_or_default();
        (parts.next().filter(|above| !above.is_empty()).unwrap_or(b"/"), name)
    }

    /// True if the server refused because another copy, running at the same time, has created it.
    /// The protocol has no status for an existing name.
    fn is_by_others(&self, error: &SftpError) -> bool {
        if error.status() != Some(StatusCode::Failure) {
            return false;
        }
        let there = self.host.client().lstat(&self.path);
        there.is_ok_and(|attrs| attrs.file_type() == Some(FileType::Dir))
    }
}
