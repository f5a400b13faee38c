//! Operations that only a host's directories have, which are known by their paths. They are no part
//! of the contract: each says what holds for other directories. The removal of an origin record
//! works for both.

use super::dir::{PRIVATE_FILE_MODE, SftpDir};
use crate::{PRIVATE_DIR_MODE, PendingOperation, ResumablePart, TreeDir};
use haul_model::{BLOCK_LEN, Name};
use haul_sftp::{Attrs, Extension, OpenFlags, RemoteFile};
use haul_store::{SourceId, marker_name};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl<'d> dyn TreeDir + 'd {
    /// The directory, if it is on a host.
    pub(super) fn on_host(&self) -> Option<&SftpDir> {
        self.as_any()?.downcast_ref()
    }

    /// Its path on its machine, if the tree knows only paths.
    pub fn remote_path(&self) -> Option<&[u8]> {
        self.on_host().map(|dir| &*dir.path)
    }

    /// Announces lookups of many names, most of which do not exist. If each lookup takes a round
    /// trip, the directory is listed first.
    pub fn expect_lookups(&self) {
        if let Some(dir) = self.on_host() {
            dir.expects_lookups.store(true, Ordering::Relaxed);
        }
    }

    /// Returns the pending creation of this directory, if any. Waiting for it reports why it
    /// failed.
    pub fn pending_creation(&self) -> Option<PendingOperation> {
        let made = Arc::clone(self.on_host()?.made.as_ref()?);
        Some(Box::new(move || made.wait()))
    }

    /// True if reopening the directory restores all state that is lost with this handle. Only the
    /// handle of a directory that this job has created knows that the creation is pending.
    pub fn can_reopen(&self) -> bool {
        self.on_host().is_none_or(|dir| dir.made.is_none() && dir.known.lock().made.is_empty())
    }

    /// True if a listing has removed leftovers of killed jobs here, which changed its times.
    pub fn was_cleaned(&self) -> bool {
        self.on_host().is_some_and(|dir| dir.host.cleaned.lock().contains(&dir.path))
    }

    /// True if this name leads to an entry now, however the directory spells it. For trees without
    /// object IDs.
    ///
    /// # Errors
    /// Errors of the server.
    pub fn has(&self, name: &Name) -> io::Result<bool> {
        self.on_host().map_or(Ok(true), |dir| dir.host.has_name(&dir.path_of(name.as_bytes())))
    }

    /// The part of an incomplete copy of `source` to `name` that is kept, if the storage knows more
    /// than the job has written.
    pub fn kept(&self, name: &Name, source: &SourceId) -> Option<ResumablePart> {
        let dir = self.on_host()?;
        let part = dir.part(name, source).map(|part| {
            let blocks = part.kept(dir.host.client().has(Extension::Fsync));
            let path = dir.path_of(part.stage.as_bytes());
            ResumablePart { len: blocks * BLOCK_LEN, path }
        });
        Some(part.unwrap_or_default())
    }

    /// Records that a job of `origin` has made this directory, if the storage can and
    /// [`TreeDir::make_dir`] has not done so.
    pub fn record_origin(&self, origin: &[u8; 16]) {
        let Some(dir) = self.on_host().filter(|dir| dir.ready().is_ok()) else { return };
        let (path, mode) = (dir.path_of(marker_name(origin).as_bytes()), Some(PRIVATE_FILE_MODE));
        let made = dir.host.client().open(&path, OpenFlags::CreateNew, mode);
        if let Err(error) = made.and_then(RemoteFile::close) {
            dir.host.record_loss(&error);
        }
    }

    /// Removes the record after the end of that job.
    pub fn remove_origin_record(&self, origin: &[u8; 16]) {
        if let Some(dir) = self.local_dir().ok().filter(|_| self.has_origin(origin)) {
            crate::origin::forget(&dir);
        }
        let Some(dir) = self.on_host() else { return };
        let (client, path) = (dir.host.client(), dir.path_of(marker_name(origin).as_bytes()));
        let forgotten = client.stat(&dir.path).and_then(|Attrs { mode, times, .. }| {
            // The directory has its final mode and times already, and keeps them.
            let mode = mode.map(|mode| mode & 0o7777);
            let is_closed = mode.is_some_and(|mode| mode & 0o300 != 0o300);
            if let (Some(mode), true) = (mode, is_closed) {
                client.set_attrs(&dir.path, Attrs::with_mode(mode | PRIVATE_DIR_MODE))?;
            }
            let removed = client.remove_file(&path);
            let mode = mode.filter(|_| is_closed);
            client.set_attrs(&dir.path, Attrs { mode, times, ..Attrs::default() })?;
            removed
        });
        if let Err(error) = forgotten {
            dir.host.record_loss(&error);
        }
    }
}
