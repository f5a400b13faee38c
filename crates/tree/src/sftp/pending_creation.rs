//! A directory that a host's server is creating.

use super::SftpHost;
use haul_sftp::{FileType, PendingAnswer, SftpError, StatusCode};
use std::io;
use std::sync::{Arc, OnceLock};

/// A directory whose creation was requested.
pub(super) struct PendingCreation {
    host: Arc<SftpHost>,
    path: Vec<u8>,
    pending_answer: PendingAnswer,
    /// After a refusal: true if another process has created it.
    created_by_other: OnceLock<bool>,
}

impl PendingCreation {
    pub(super) fn new(host: &Arc<SftpHost>, path: &[u8], pending_answer: PendingAnswer) -> Self {
        let (host, path) = (Arc::clone(host), path.to_vec());
        Self { host, path, pending_answer, created_by_other: OnceLock::new() }
    }

    /// Waits until the directory exists.
    ///
    /// # Errors
    /// Why it could not be made.
    pub(super) fn wait(&self) -> io::Result<()> {
        let Err(error) = self.pending_answer.wait() else { return Ok(()) };
        let (parent, name) = self.parent_and_name();
        if *self.created_by_other.get_or_init(|| self.was_created_by_other(&error)) {
            if self.host.has_spelling(parent, name)? {
                return Ok(());
            }
            let message = "its name is that of another entry of this job";
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, message));
        }
        self.host.check_write(parent, Err(error))
    }

    /// The path of its parent, and its name there.
    fn parent_and_name(&self) -> (&[u8], &[u8]) {
        let mut parts = self.path.rsplitn(2, |&byte| byte == b'/');
        let name = parts.next().unwrap_or_default();
        (parts.next().filter(|parent| !parent.is_empty()).unwrap_or(b"/"), name)
    }

    /// True if the server refused because another copy, running at the same time, has created it.
    /// The protocol has no status for an existing name.
    fn was_created_by_other(&self, error: &SftpError) -> bool {
        if error.status() != Some(StatusCode::Failure) {
            return false;
        }
        let there = self.host.client().lstat(&self.path);
        there.is_ok_and(|attrs| attrs.file_type() == Some(FileType::Dir))
    }
}
