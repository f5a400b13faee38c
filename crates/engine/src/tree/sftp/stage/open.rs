//! The files of a stage on the server, one open in each session.

use crate::tree::sftp::SftpHost;
use haul_model::{BLOCK_LEN, BlockHash};
use haul_sftp::{Attrs, Client, FileType, OpenFlags, RemoteFile, SftpError, StatusCode};
use std::io;
use std::sync::Arc;

/// What a stage is made with, until its own mode is set.
const PRIVATE_MODE: u32 = 0o600;

/// The stage's files on the server. Dropped before it has its name, it is
/// removed there, unless it can be continued.
pub(super) struct Open {
    pub(super) host: Arc<SftpHost>,
    pub(super) dir: Vec<u8>,
    pub(super) path: Vec<u8>,
    /// The same file in each session, until it is closed.
    pub(super) files: Vec<RemoteFile>,
    pub(super) keep: bool,
    pub(super) is_published: bool,
}

impl Open {
    pub(super) fn create(host: &Arc<SftpHost>, dir: &[u8], path: Vec<u8>) -> io::Result<Self> {
        let first = host.client().open(&path, OpenFlags::CreateNew, Some(PRIVATE_MODE));
        let first = host.wrote(dir, first)?;
        Self::in_all_sessions(host, dir, path, first)
    }

    /// What an earlier copy has left; it may have its final mode already.
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
            return Err(io::Error::other(
                "what stands in the place of an interrupted copy is no file",
            ));
        }
        let first = match client.open(&path, OpenFlags::Write, None) {
            Err(error) if error.status() == Some(StatusCode::PermissionDenied) => {
                host.io(client.set_attrs(&path, Attrs::with_mode(PRIVATE_MODE)))?;
                client.open(&path, OpenFlags::Write, None)
            }
            opened => opened,
        };
        Self::in_all_sessions(host, dir, path, host.io(first)?).map(Some)
    }

    /// Cuts or extends it.
    pub(super) fn cut(&self, len: u64) -> io::Result<()> {
        let attrs = Attrs { size: Some(len), ..Attrs::default() };
        self.host.io(self.files[0].set_attrs(attrs))
    }

    fn in_all_sessions(
        host: &Arc<SftpHost>,
        dir: &[u8],
        path: Vec<u8>,
        first: RemoteFile,
    ) -> io::Result<Self> {
        let (host, dir) = (Arc::clone(host), dir.to_vec());
        let mut open =
            Self { host, dir, path, files: vec![first], keep: false, is_published: false };
        let others = &open.host.clients()[1..];
        let write = |client: &Client| client.open(&open.path, OpenFlags::Write, None);
        let others = open.host.in_each(others, write)?;
        open.files.extend(others);
        Ok(open)
    }

    /// The same file in each session, for reading: a handle is for one of both.
    pub(super) fn for_reading(&self) -> io::Result<Vec<RemoteFile>> {
        let open = |client: &Client| client.open(&self.path, OpenFlags::Read, None);
        self.host.in_each(self.host.clients(), open)
    }

    /// Whether the last of `blocks` is what the server has there.
    pub(super) fn has_last(&self, blocks: &[BlockHash]) -> io::Result<bool> {
        let Some((last, before)) = blocks.split_last() else { return Ok(false) };
        let index = before.len() as u64;
        let mut block = vec![0; BLOCK_LEN as usize];
        let file = self.host.io(self.host.client().open(&self.path, OpenFlags::Read, None))?;
        let read = self.host.io(file.read_at(&mut block, index * BLOCK_LEN))?;
        Ok(read == block.len() && BlockHash::of(index, &block) == *last)
    }

    /// What came of a writing.
    pub(super) fn written<T>(&self, result: Result<T, SftpError>) -> io::Result<T> {
        self.host.wrote(&self.dir, result)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        // There are servers that make anew what is closed after its removal.
        self.files.clear();
        if !self.keep && !self.is_published {
            // In a session that has ended it stays, and so do others.
            let _ = self.host.client().remove_file(&self.path);
        }
    }
}

/// Whether a file of `len` bytes finds room, where the server tells.
pub(super) fn check_room(host: &SftpHost, dir: &[u8], len: u64) -> io::Result<()> {
    match host.room(dir) {
        Some(room) if room < len => Err(io::Error::new(
            io::ErrorKind::StorageFull,
            format!("the file has {len} bytes, and the host has room for {room}"),
        )),
        _ => Ok(()),
    }
}
