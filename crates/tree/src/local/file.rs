//! Files of this machine: sources, staged files and sealed files.

use crate::shared::{SharedBlock, SharedBlocks, Version};
use crate::spool::Spooled;
use crate::{Seal, SealedFile, SourceFile, StagedFile};
use haul_model::{Attributes, BlockHash, FileId, Kept, Name, Timestamp};
use haul_store::{
    DelayedBatch, OnExisting, Proof, Publication, RESUME_LEN_MIN, Row, Sealed, Stage, Staged,
};
use haul_sys::{Dir, Loss, Stat};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

pub(super) struct LocalSource {
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

    /// Checks before the first read whether the file is cold.
    fn check_cold(&self) {
        self.cold.get_or_init(|| is_cold(&self.file, self.opened.size));
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
        0 => Ok(read_full(file, &mut [0], 0)? > 0 && haul_sys::file_stat(file)?.size == 0),
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

/// True if a large file is not cached, judging by three samples.
fn is_cold(file: &File, size: u64) -> bool {
    let looks = [size / 4, size / 2, size / 4 * 3];
    size >= RESUME_LEN_MIN && !looks.iter().any(|&at| haul_sys::is_cached(file, at))
}

impl SourceFile for LocalSource {
    fn seal(&self) -> Seal {
        Seal { size: self.opened.size, mtime: self.opened.mtime }
    }

    fn ctime(&self) -> Option<Timestamp> {
        let Stat { mtime, ctime, .. } = self.opened;
        haul_sys::keeps_ctime(&self.file, mtime, ctime).then_some(ctime)
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.check_cold();
        read_full(&self.file, buf, offset)
    }

    fn shared_block(&self, index: u64) -> Option<io::Result<Arc<SharedBlock>>> {
        let shared = self.shared.as_ref()?;
        self.ctime()?;
        shared.block(&Version::of(&self.opened), index, |bytes, at| self.read_at(bytes, at))
    }

    /// Checked when the file was opened.
    fn has_unknown_size(&self) -> io::Result<bool> {
        Ok(false)
    }

    fn next_data(&self, from: u64) -> io::Result<Option<std::ops::Range<u64>>> {
        let size = self.opened.size;
        // The storage covers its whole length, so it has no holes.
        if self.opened.allocated >= size {
            return Ok((from < size).then_some(from..size));
        }
        Ok(haul_sys::next_data(&self.file, from, size))
    }

    fn is_mostly_holes(&self) -> bool {
        self.opened.allocated < self.opened.size / 4
    }

    fn seal_now(&self) -> io::Result<Seal> {
        if self.fixed {
            return Ok(self.seal());
        }
        let stat = haul_sys::file_stat(&self.file)?;
        Ok(Seal { size: stat.size, mtime: stat.mtime })
    }

    fn release(&self, range: Range<u64>) {
        if self.cold.get() == Some(&true) {
            self.released.store(true, Ordering::Relaxed);
            haul_sys::drop_cached(&self.file, range);
        }
    }

    fn handle(&self) -> Option<&File> {
        self.check_cold();
        Some(&self.file)
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

/// Reads until `buf` is full or the file ends.
fn read_full(file: &File, mut buf: &mut [u8], mut offset: u64) -> io::Result<usize> {
    let wanted = buf.len();
    while !buf.is_empty() {
        match file.read_at(buf, offset) {
            Ok(0) => break,
            Ok(n) => {
                offset += n as u64;
                buf = &mut buf[n..];
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(wanted - buf.len())
}

pub(super) struct LocalStage(pub(super) Stage);

impl StagedFile for LocalStage {
    fn write_out(&mut self) {
        self.0.write_out();
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_at(bytes, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn punch_hole(&self, range: Range<u64>) -> bool {
        self.0.punch_hole(range)
    }

    fn write_sparse(&mut self) {
        self.0.write_sparse();
    }

    fn writes_sparse(&self) -> bool {
        self.0.writes_sparse()
    }

    fn begin_with(&self, source: &dyn SourceFile, range: Range<u64>) -> bool {
        let source = source.handle();
        source.is_some_and(|source| haul_sys::clone_range(source, self.0.file(), range))
    }

    fn reserve(&self, len: u64) -> io::Result<()> {
        haul_sys::reserve(self.0.file(), len)
    }

    fn handle(&self) -> Option<&File> {
        Some(self.0.file())
    }

    fn copies_small_files(&self) -> bool {
        self.0.copies_small_files()
    }

    fn written(&self) -> io::Result<Option<Box<dyn SourceFile>>> {
        let file = self.0.file().try_clone()?;
        let opened = haul_sys::file_stat(&file)?;
        Ok(Some(Box::new(LocalSource::private(file, opened, true))))
    }

    fn loss(&self) -> Loss {
        Loss::of(self.0.file())
    }

    fn record(&self, block: BlockHash) -> io::Result<()> {
        self.0.record(block)
    }

    fn is_sound(&self) -> bool {
        self.0.is_sound()
    }

    fn discard(self: Box<Self>) {
        self.0.discard();
    }

    fn seal(
        self: Box<Self>,
        proof: Proof,
        attributes: &Attributes,
        kept: Kept,
    ) -> io::Result<Box<dyn SealedFile>> {
        Ok(Box::new(LocalSealed(self.0.seal(proof, &attributes.over(0, kept), kept)?)))
    }
}

pub(super) struct LocalSealed(Sealed);

impl SealedFile for LocalSealed {
    fn start_write_back(&self) {
        haul_sys::start_write_back(self.0.file());
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }

    fn forget_cached(&self) {
        let file = self.0.file();
        haul_sys::drop_cached(file, 0..0);
        haul_sys::read_directly(file);
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        read_full(self.0.file(), buf, offset)
    }

    fn discard(self: Box<Self>) {
        self.0.discard();
    }

    fn id(&self) -> io::Result<Option<FileId>> {
        self.0.id().map(Some)
    }

    fn write_into(&self, name: &Name, id: FileId) -> io::Result<Timestamp> {
        self.0.write_into(name, id)
    }

    fn wait(&mut self, batch: &DelayedBatch, row: Row, name: &Name) -> io::Result<()> {
        self.0.wait(batch, row, name)
    }

    fn publish(&mut self, name: &Name, on_existing: OnExisting) -> io::Result<Publication> {
        self.0.publish(name, on_existing)
    }
}
