//! The file of a stage on the server.

use crate::sftp::SftpHost;
use haul_model::{BLOCK_LEN, BlockHash};
use haul_sftp::{Attrs, FileType, OpenFlags, RemoteFile, SftpError, StatusCode};
use std::io;
use std::sync::Arc;

/// The mode of a stage until its final mode is set.
const PRIVATE_MODE: u32 = 0o600;

/// The stage's file on the server. If it is dropped before it is published, it is removed, unless
/// it can be continued.
pub(super) struct Open {
    pub(super) host: Arc<SftpHost>,
    pub(super) dir: Vec<u8>,
    pub(super) path: Vec<u8>,
    /// The file in the first session, until it is closed.
    pub(super) file: Option<RemoteFile>,
    pub(super) keep: bool,
    pub(super) is_published: bool,
}

impl Open {
    pub(super) fn create(host: &Arc<SftpHost>, dir: &[u8], path: Vec<u8>) -> io::Result<Self> {
        let file = host.client().open(&path, OpenFlags::CreateNew, Some(PRIVATE_MODE));
        Ok(Self::of(host, dir, path, host.check_write(dir, file)?))
    }

    /// Opens the stage that an earlier copy left, which may have its final mode already.
    pub(super) fn existing(
        host: &Arc<SftpHost>,
        dir: &[u8],
        path: Vec<u8>,
    ) -> io::Result<Option<Self>> {
        let client = host.client();
        let attrs = match client.lstat(&path) {
            Err(error) if error.status() == Some(StatusCode::NoSuchFile) => return Ok(None),
            attrs => host.io(attrs)?,
        };
        let is_file = attrs.file_type() == Some(FileType::File);
        if !is_file {
            return Err(io::Error::other("the partial file is not a regular file"));
        }
        let file = match client.open(&path, OpenFlags::Write, None) {
            Err(error) if error.status() == Some(StatusCode::PermissionDenied) => {
                host.io(client.set_attrs(&path, Attrs::with_mode(PRIVATE_MODE)))?;
                client.open(&path, OpenFlags::Write, None)
            }
            opened => opened,
        };
        Ok(Some(Self::of(host, dir, path, host.io(file)?)))
    }

    /// The file in the first session.
    pub(super) fn file(&self) -> io::Result<&RemoteFile> {
        self.file.as_ref().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Truncates or extends the file. Returns false if the server refuses that.
    pub(super) fn truncate(&self, len: u64) -> io::Result<bool> {
        let attrs = Attrs { size: Some(len), ..Attrs::default() };
        match self.file()?.set_attrs(attrs) {
            Err(error) if error.is_refusal() => Ok(false),
            truncate => self.host.io(truncate).map(|()| true),
        }
    }

    fn of(host: &Arc<SftpHost>, dir: &[u8], path: Vec<u8>, file: RemoteFile) -> Self {
        let (host, dir, file) = (Arc::clone(host), dir.to_vec(), Some(file));
        Self { host, dir, path, file, keep: false, is_published: false }
    }

    /// True if the server's content matches the last of `blocks`.
    pub(super) fn matches_last(&self, blocks: &[BlockHash]) -> io::Result<bool> {
        let Some((last, before)) = blocks.split_last() else { return Ok(false) };
        let index = before.len() as u64;
        let mut block = vec![0; BLOCK_LEN as usize];
        let file = self.host.io(self.host.client().open(&self.path, OpenFlags::Read, None))?;
        let read = self.host.io(file.read_at(&mut block, index * BLOCK_LEN))?;
        Ok(read == block.len() && BlockHash::of(index, &block) == *last)
    }

    /// The result of a write.
    pub(super) fn written<T>(&self, result: Result<T, SftpError>) -> io::Result<T> {
        self.host.check_write(&self.dir, result)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        // Some servers recreate a file that is removed before it is closed.
        self.file = None;
        if !self.keep && !self.is_published {
            // If the session has ended, the file stays.
            let _ = self.host.client().remove_file(&self.path);
        }
    }
}

/// Checks that a file of `len` bytes fits, if the server reports the free space.
pub(super) fn check_free_space(host: &SftpHost, dir: &[u8], len: u64) -> io::Result<()> {
    match host.free_space(dir) {
        Some(free_space) if free_space.bytes < len => {
            Err(io::Error::new(io::ErrorKind::StorageFull, "not enough space on the host"))
        }
        _ => Ok(()),
    }
}
