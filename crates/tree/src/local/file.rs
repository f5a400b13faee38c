//! Files of this machine that are read.

use crate::shared::{SharedBlock, SharedBlocks, Version};
use crate::spool::Spooled;
use crate::{Seal, SourceFile, StagedFile};
use haul_model::Timestamp;
use haul_store::RESUME_LEN_MIN;
use haul_sys::{Dir, Stat};
use std::any::Any;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// A file of this machine, open for reading.
pub(crate) struct LocalSource {
    file: File,
    opened: Stat,
    /// The file is large and was not cached at the first read. The check costs a little time, so it
    /// is left out if the file is opened for another purpose.
    cold: OnceLock<bool>,
    /// Part of a cold file was released.
    released: AtomicBool,
    /// No other process can change it.
    fixed: bool,
    /// Blocks shared with other jobs.
    shared: Option<Arc<SharedBlocks>>,
}

impl LocalSource {
    /// The content of a file in a tree.
    pub(super) fn of(file: File, opened: Stat, shared: Option<Arc<SharedBlocks>>) -> Self {
        let (cold, released) = (OnceLock::new(), AtomicBool::new(false));
        Self { file, opened, cold, released, fixed: false, shared }
    }

    /// Content that was cached before, or has just been written.
    fn private(file: File, opened: Stat, fixed: bool) -> Self {
        let (cold, released) = (OnceLock::from(false), AtomicBool::new(false));
        Self { file, opened, cold, released, fixed, shared: None }
    }

    /// Checks before the first read whether the file is cold: large and not cached, judging by three
    /// samples.
    fn check_cold(&self) {
        let size = self.opened.size;
        let is_cached = |at: u64| haul_sys::is_cached(&self.file, at);
        let is_cold =
            || size >= RESUME_LEN_MIN && ![1, 2, 3].iter().any(|part| is_cached(size / 4 * part));
        self.cold.get_or_init(is_cold);
    }
}

impl From<Spooled> for LocalSource {
    fn from(Spooled { file, stat, fixed }: Spooled) -> Self {
        Self::private(file, stat, fixed)
    }
}

/// True if the reported size says nothing about the content. Files that the kernel generates have
/// no storage. A file that is reported as empty is read to find out.
pub(super) fn is_of_unknown_size(file: &File, stat: &Stat) -> io::Result<bool> {
    match stat.size {
        // An empty file may have grown since.
        0 => {
            Ok(haul_sys::read_full(file, &mut [0], 0)? > 0 && haul_sys::file_stat(file)?.size == 0)
        }
        _ => Ok(stat.allocated == 0 && haul_sys::is_generated(file)),
    }
}

/// Converts the error of creating an entry in `dir`. It names the cause if no entry can ever be
/// created there.
pub(super) fn creation_error(dir: &Dir, error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied
            if haul_sys::is_generated(dir) =>
        {
            let why = "the kernel generates its content, as in /proc: nothing can be added";
            io::Error::new(io::ErrorKind::Unsupported, why)
        }
        _ => error,
    }
}

/// The written content of `stage`, for reading before it is sealed, if that takes no round trips.
///
/// # Errors
/// Errors of duplicating the handle, and of `fstat`.
pub fn written(stage: &dyn StagedFile) -> io::Result<Option<Box<dyn SourceFile>>> {
    let Some(file) = stage.handle() else { return Ok(None) };
    let opened = haul_sys::file_stat(file)?;
    Ok(Some(Box::new(LocalSource::private(file.try_clone()?, opened, true))))
}

impl<'f> dyn SourceFile + 'f {
    /// The file, if it is on this machine.
    fn local(&self) -> Option<&LocalSource> {
        self.as_any()?.downcast_ref()
    }

    /// The time of its last change of any kind when it was opened, if its file system keeps that;
    /// see `keeps_ctime` of [`crate::TreeDir`].
    pub fn ctime(&self) -> Option<Timestamp> {
        let LocalSource { file, opened: Stat { mtime, ctime, .. }, .. } = self.local()?;
        haul_sys::keeps_ctime(file, *mtime, *ctime).then_some(*ctime)
    }

    /// Block `index` of its content, within the size at opening, and its hash. The block is read
    /// once for all jobs that read it at about the same time. `None` if this job should read it
    /// alone.
    pub fn shared_block(&self, index: u64) -> Option<io::Result<Arc<SharedBlock>>> {
        let file = self.local()?;
        let shared = file.shared.as_ref()?;
        self.ctime()?;
        shared.block(&Version::of(&file.opened), index, |bytes, at| file.read_at(bytes, at))
    }

    /// Reports that `range`, in bytes, is not needed any more. Content that was not cached before
    /// need not stay cached.
    pub fn release(&self, range: Range<u64>) {
        if let Some(file) = self.local().filter(|file| file.cold.get() == Some(&true)) {
            file.released.store(true, Ordering::Relaxed);
            haul_sys::drop_cached(&file.file, range);
        }
    }

    /// The open file, if any, through which the system can move its content, share it, or make it
    /// durable.
    pub fn handle(&self) -> Option<&File> {
        let file = self.local()?;
        file.check_cold();
        Some(&file.file)
    }
}

impl SourceFile for LocalSource {
    fn seal(&self) -> Seal {
        Seal { size: self.opened.size, mtime: self.opened.mtime }
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.check_cold();
        haul_sys::read_full(&self.file, buf, offset)
    }

    fn next_data(&self, from: u64) -> io::Result<Option<std::ops::Range<u64>>> {
        let size = self.opened.size;
        // The storage covers its whole length, so it has no holes.
        if self.opened.allocated >= size {
            return Ok((from < size).then_some(from..size));
        }
        Ok(haul_sys::next_data(&self.file, from, size))
    }

    /// The modification time can be set back after a change; the change time can't.
    fn seal_now(&self) -> io::Result<(Seal, bool)> {
        if self.fixed {
            return Ok((self.seal(), false));
        }
        let Stat { size, mtime, ctime, .. } = haul_sys::file_stat(&self.file)?;
        let is_touched = ctime != self.opened.ctime;
        let may_hide_changes = is_touched && haul_sys::keeps_ctime(&self.file, mtime, ctime);
        Ok((Seal { size, mtime }, may_hide_changes))
    }
}

/// Drops parts that were still in use when they were released: by a slow thread, in a pipe, or by
/// read-ahead.
impl Drop for LocalSource {
    fn drop(&mut self) {
        if *self.released.get_mut() {
            haul_sys::drop_cached(&self.file, 0..0);
        }
    }
}
