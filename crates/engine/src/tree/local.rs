//! The tree of this machine's file systems.

use super::{Meta, MetaKind, Seal, SealedFile, SourceFile, StagedFile, Tree, TreeDir, TreeEntry};
use haul_model::{BlockHash, Name, Timestamp};
use haul_store::{
    Cleaned, Leftovers, Placement, Publication, RESUME_LEN_MIN, Sealed, SourceId, Stage,
    StaleStages, Verified,
};
use haul_sys::{Dir, Stat};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// Mode bits that are kept: set-user-ID and set-group-ID would lend the new
/// owner's rights as long as the owner itself is not kept.
pub(crate) const KEPT_MODE: u32 = 0o1777;

/// The file systems of this machine.
#[derive(Debug)]
pub(crate) struct LocalTree;

impl Tree for LocalTree {
    fn open(&self, path: &[u8]) -> io::Result<Arc<dyn TreeDir>> {
        Ok(Arc::new(LocalDir::new(Dir::open(Path::new(OsStr::from_bytes(path)))?)))
    }
}

/// A directory of this machine.
#[derive(Debug)]
pub(crate) struct LocalDir(Arc<Dir>);

impl LocalDir {
    /// The tree's directory for an open handle.
    pub(crate) fn new(dir: Dir) -> Self {
        Self(Arc::new(dir))
    }
}

impl From<Stat> for Meta {
    fn from(stat: Stat) -> Self {
        let kind = if stat.is_file() {
            MetaKind::File { size: stat.size }
        } else if stat.is_dir() {
            MetaKind::Dir
        } else if stat.is_symlink() {
            MetaKind::Symlink
        } else {
            MetaKind::Special
        };
        Self { kind, mode: stat.mode, mtime: stat.mtime, id: Some(stat.id) }
    }
}

impl TreeDir for LocalDir {
    fn entries(&self) -> io::Result<Vec<TreeEntry>> {
        let entries = self.0.entries()?.into_iter();
        let listed = entries.map(|entry| TreeEntry {
            name: entry.name,
            is_dir: entry.is_dir,
            meta: None,
            target: None,
        });
        Ok(listed.collect())
    }

    fn stat(&self, name: &Name, follow: bool) -> io::Result<Option<Meta>> {
        let stat = if follow { self.0.stat_following(name) } else { self.0.stat(name) };
        match stat {
            Ok(stat) => Ok(Some(stat.into())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn stat_self(&self) -> io::Result<Meta> {
        Ok(self.0.stat_self()?.into())
    }

    fn read_link(&self, name: &Name) -> io::Result<Vec<u8>> {
        self.0.read_link(name)
    }

    fn open_dir(&self, name: &Name, follow: bool) -> io::Result<Arc<dyn TreeDir>> {
        let dir = if follow { self.0.open_dir_following(name) } else { self.0.open_dir(name) };
        Ok(Arc::new(Self::new(dir?)))
    }

    fn open_file(&self, name: &Name, follow: bool) -> io::Result<Box<dyn SourceFile>> {
        let (file, stat) = self.0.open_file(name, follow)?;
        let cold = is_cold(&file, stat.size);
        Ok(Box::new(LocalSource { file, opened: stat, cold }))
    }

    fn make_dir(&self, name: &Name, mode: u32) -> io::Result<()> {
        self.0.make_dir(name, mode)
    }

    fn make_symlink(
        &self,
        target: &[u8],
        name: &Name,
        mtime: Timestamp,
        placement: Placement,
    ) -> io::Result<Publication> {
        Publication::of_symlink(&self.0, target, name, mtime, placement)
    }

    fn stage(&self) -> io::Result<Box<dyn StagedFile>> {
        Ok(Box::new(LocalStage(Stage::create(Arc::clone(&self.0))?)))
    }

    fn stage_sharing(&self, source: &dyn SourceFile) -> io::Result<(Box<dyn StagedFile>, bool)> {
        let Some(source) = source.local() else { return Ok((self.stage()?, false)) };
        let (stage, shares) = Stage::create_sharing(Arc::clone(&self.0), source)?;
        Ok((Box::new(LocalStage(stage)), shares))
    }

    fn can_resume(&self, name: &Name, source: &SourceId) -> bool {
        Stage::can_resume(&self.0, name, source)
    }

    fn resume(
        &self,
        name: &Name,
        source: &SourceId,
    ) -> io::Result<(Box<dyn StagedFile>, Vec<BlockHash>)> {
        let (stage, blocks) = Stage::resume(Arc::clone(&self.0), name, source)?;
        Ok((Box::new(LocalStage(stage)), blocks))
    }

    fn remove_leftovers(&self, name: &Name, source: &SourceId) {
        haul_store::remove_leftovers(&self.0, name, source);
    }

    fn remove_stale(&self, name: &Name, seen: &OnceLock<StaleStages>) {
        seen.get_or_init(|| StaleStages::find(&self.0)).remove(&self.0, name);
    }

    fn clean(
        &self,
        all: bool,
        dry_run: bool,
        each: &mut dyn FnMut(&[u8], io::Result<Cleaned>),
    ) -> io::Result<()> {
        for leftover in Leftovers::find(&self.0)?.iter() {
            if let Some(cleaned) = leftover.clean(&self.0, all, dry_run).transpose() {
                each(leftover.name().as_bytes(), cleaned);
            }
        }
        Ok(())
    }

    fn remove_file(&self, name: &Name) -> io::Result<()> {
        self.0.remove_file(name)
    }

    fn remove_dir(&self, name: &Name) -> io::Result<()> {
        self.0.remove_dir(name)
    }

    fn local(&self) -> Option<&Dir> {
        Some(&self.0)
    }

    fn volume(&self) -> u64 {
        haul_sys::volume_id(&*self.0)
    }

    fn set_file_mode(&self, name: &Name, mode: u32) -> io::Result<()> {
        let (file, _) = self.0.open_file(name, false)?;
        haul_sys::set_mode(&file, mode & KEPT_MODE)
    }

    fn sync_file(&self, name: &Name) -> io::Result<()> {
        let (file, _) = self.0.open_file(name, false)?;
        file.sync_all()
    }

    fn set_meta(&self, mode: u32, mtime: Timestamp) -> io::Result<()> {
        // A set-group-ID bit that the directory inherited stays: it decides
        // about the group of what is made below.
        let now = self.0.stat_self()?;
        haul_sys::set_mode(&*self.0, (mode & KEPT_MODE) | (now.mode & !KEPT_MODE))?;
        haul_sys::set_mtime(&*self.0, mtime)
    }

    fn make_writable(&self) -> io::Result<()> {
        let now = self.0.stat_self()?;
        if now.mode & super::PRIVATE_DIR_MODE == super::PRIVATE_DIR_MODE
            || now.uid != haul_sys::effective_user()
        {
            return Ok(());
        }
        haul_sys::set_mode(&*self.0, now.mode | super::PRIVATE_DIR_MODE)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }

    fn syncs_as_a_whole(&self) -> bool {
        self.0.syncs_as_a_whole()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.0.sync_file_system()
    }
}

struct LocalSource {
    file: File,
    opened: Stat,
    /// It is large and was not in memory when it was opened.
    cold: bool,
}

/// Bytes before the end of what is released that may still have been in use
/// when something before was.
const RELEASE_LEN: u64 = 16 << 20;

/// Whether a large file is nowhere in memory, as far as three looks tell.
fn is_cold(file: &File, size: u64) -> bool {
    let looks = [size / 4, size / 2, size / 4 * 3];
    size >= RESUME_LEN_MIN && !looks.iter().any(|&at| haul_sys::is_cached(file, at))
}

impl SourceFile for LocalSource {
    fn seal(&self) -> Seal {
        Seal { size: self.opened.size, mtime: self.opened.mtime }
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        read_full(&self.file, buf, offset)
    }

    fn next_data(&self, from: u64) -> io::Result<Option<std::ops::Range<u64>>> {
        let size = self.opened.size;
        // It takes no less storage than its length, and so has no holes.
        if self.opened.allocated >= size {
            return Ok((from < size).then_some(from..size));
        }
        haul_sys::next_data(&self.file, from, size)
    }

    fn is_mostly_holes(&self) -> bool {
        self.opened.allocated < self.opened.size / 4
    }

    fn seal_now(&self) -> io::Result<Seal> {
        let stat = haul_sys::file_stat(&self.file)?;
        Ok(Seal { size: stat.size, mtime: stat.mtime })
    }

    fn release(&self, end: u64) {
        if self.cold {
            haul_sys::drop_cached(&self.file, end.saturating_sub(RELEASE_LEN)..end);
        }
    }

    fn local(&self) -> Option<&File> {
        Some(&self.file)
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

struct LocalStage(Stage);

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

    fn local(&self) -> Option<&File> {
        Some(self.0.file())
    }

    fn record(&self, block: BlockHash) -> io::Result<()> {
        self.0.record(block)
    }

    fn discard(self: Box<Self>) {
        self.0.discard();
    }

    fn seal(
        self: Box<Self>,
        proof: Verified,
        mode: u32,
        mtime: Timestamp,
    ) -> io::Result<Box<dyn SealedFile>> {
        Ok(Box::new(LocalSealed(self.0.seal(proof, mode & KEPT_MODE, mtime)?)))
    }
}

struct LocalSealed(Sealed);

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

    fn publish(self: Box<Self>, name: &Name, placement: Placement) -> io::Result<Publication> {
        self.0.publish(name, placement)
    }
}
