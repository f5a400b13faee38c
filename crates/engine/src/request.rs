//! Single requests beside jobs: stat, list and hash, here or at a peer.

use crate::JobError;
use haul_model::{ContentHash, Entry, Fault};
use haul_net::Connection;

/// Answers requests about one machine's files: this one's, or a peer's.
pub struct Requests {}

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The path can't be looked at; the next request may fare better.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The connection is of no more use.
    #[error(transparent)]
    Job(#[from] JobError),
}

impl Requests {
    /// Requests about this machine.
    pub fn local() -> Self {
        Self {}
    }

    /// Requests to the agent at the other end of `connection`.
    ///
    /// # Errors
    /// When the peer does not greet, or speaks another version.
    pub fn remote(connection: Connection) -> Result<Self, JobError> {
        let _ = connection;
        Ok(Self {})
    }

    /// What stands at `path`; a symbolic link is followed if `follow` says so.
    /// The entry's name is the path's last component, or `None` if it has none.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub fn stat(&mut self, path: &[u8], follow: bool) -> Result<Entry, RequestError> {
        let _ = (path, follow);
        Err(JobError::Usage("placeholder".into()).into())
    }

    /// The entries of the directory at `path` in ascending order of their
    /// bytes, handed to `each` as they arrive. An entry that could not be read
    /// arrives as a fault with its name.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub fn list(
        &mut self,
        path: &[u8],
        each: &mut dyn FnMut(Result<Entry, (Vec<u8>, Fault)>),
    ) -> Result<(), RequestError> {
        let _ = (path, each);
        Err(JobError::Usage("placeholder".into()).into())
    }

    /// The BLAKE3 hash of the file at `path`, links followed.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub fn hash(&mut self, path: &[u8]) -> Result<ContentHash, RequestError> {
        let _ = path;
        Err(JobError::Usage("placeholder".into()).into())
    }
}

/// Serves one client: reads requests and jobs from `input`, answers on
/// `output`, and returns when the client is gone.
///
/// # Errors
/// When the client breaks the protocol or the streams fail.
pub fn serve(
    input: impl std::io::Read + Send + 'static,
    output: impl std::io::Write + Send + 'static,
) -> Result<(), JobError> {
    let _ = (input, output);
    Ok(())
}
