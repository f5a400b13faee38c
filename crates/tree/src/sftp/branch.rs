//! A file of a host that is open in several sessions.

use super::SftpHost;
use super::attrs::seal_of;
use crate::Seal;
use crate::parallel::map_parallel;
use haul_sftp::{Attrs, RemoteFile, SftpError};
use std::io;

/// The file that was `opened` in a session other than the first, if it is a regular file with this
/// `seal`. `None` if the server refuses to open it in this session, or reports another seal because
/// the file grows or was replaced. The job then does not use the session for this file.
///
/// # Errors
/// The end of the session; an entry that is not a regular file.
pub(super) fn branch(
    host: &SftpHost,
    opened: Result<(RemoteFile, Attrs), SftpError>,
    seal: Option<Seal>,
) -> io::Result<Option<RemoteFile>> {
    let (file, found) = match opened {
        Err(error) if error.session().is_none() => {
            tracing::debug!(%error, "a session is done without");
            return Ok(None);
        }
        opened => host.io(opened)?,
    };
    // Writing follows a link: no link may have replaced the file.
    let found = seal_of(&found)?;
    Ok(seal.is_none_or(|seal| seal == found).then_some(file))
}

/// Sends requests about one file in all its sessions, at the same time.
pub(super) fn in_each<T: Send>(
    first: RemoteFile,
    others: Vec<RemoteFile>,
    ask: impl Fn(RemoteFile) -> Result<T, SftpError> + Sync,
) -> Result<Vec<T>, SftpError> {
    let files = std::iter::once(first).chain(others).collect();
    map_parallel(files, ask).into_iter().collect()
}
