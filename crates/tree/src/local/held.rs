//! Operations that only directories of this machine have, because they are held open. They are not
//! part of the contract of trees. Each operation states its result for other directories.

use super::LocalDir;
use super::file::LocalSource;
use crate::spare_handles::retry_open;
use crate::{Meta, MetaKind, PRIVATE_DIR_MODE, SourceFile, StagedFile, TreeDir};
use haul_model::{Attributes, Extended, Kept, Name};
use haul_store::{Cleaned, DelayedBatch, Leftovers, OnExisting, Publication, Row, Stage};
use haul_sys::{Dir, Loss};
use std::io;
use std::sync::Arc;

/// Files of this length and longer, in bytes, are always opened to check for lost content. Smaller
/// ones are opened if they date from before the machine's start, or have too little storage.
/// Opening all would double the cost of comparing a tree.
const ALWAYS_CHECKED_MIN: u64 = 1 << 20;

/// Prefixes of link targets that refer to an open file of a process.
const DESCRIPTOR_PREFIXES: [&[u8]; 2] = [b"/proc/self/fd/", b"/dev/fd/"];

impl<'d> dyn TreeDir + 'd {
    /// The directory, if it is held open.
    fn opened(&self) -> io::Result<&Arc<Dir>> {
        self.held().ok_or_else(|| io::ErrorKind::Unsupported.into())
    }

    /// A handle with which the system can confine a thread to this directory, or walk up from it.
    ///
    /// # Errors
    /// Also if the directory is not on this machine.
    pub fn local_dir(&self) -> io::Result<Dir> {
        self.opened()?.try_clone()
    }

    /// True if the file system is of a kind with stable object IDs, where a new entry is visible at
    /// once through every mount.
    pub fn has_known_file_system(&self) -> bool {
        self.held().is_some_and(|dir| dir.has_known_file_system())
    }

    /// False if the content of a file may have to be written in order.
    pub fn supports_random_writes(&self) -> bool {
        self.held().is_none_or(|dir| dir.has_known_file_system())
    }

    /// True unless the storage may treat two names in this directory as one. Irrelevant where
    /// objects have no IDs.
    pub fn has_distinct_names(&self) -> bool {
        self.held().is_none_or(|dir| dir.has_distinct_names())
    }

    /// True if `sync_all` works here.
    pub fn supports_sync_all(&self) -> bool {
        self.held().is_some_and(|dir| dir.supports_sync_all())
    }

    /// Makes all data written to this file system durable.
    ///
    /// # Errors
    /// Errors of `syncfs`.
    pub fn sync_all(&self) -> io::Result<()> {
        self.opened()?.sync_file_system()
    }

    /// A lasting ID of this directory's file system; 0 if there is none.
    pub fn volume(&self) -> u64 {
        self.held().map_or(0, haul_sys::volume_id)
    }

    /// True if this directory's file system keeps the time of every change of a file in
    /// [`Meta::ctime`]. Some keep a copy of the modification time there instead.
    pub fn keeps_ctime(&self, of: &Meta) -> bool {
        let keeps =
            |(dir, ctime): (&Arc<Dir>, _)| haul_sys::keeps_ctime(dir, of.attributes.mtime, ctime);
        self.held().zip(of.ctime).is_some_and(keeps)
    }

    /// True if the regular file `name`, with the metadata `meta`, has holes left by a power cut or
    /// a failed write. A file created with holes looks the same: the caller must know that this one
    /// was not. Small files without other signs of a loss are only opened if `each` is set.
    ///
    /// # Errors
    /// Errors of opening the file.
    pub fn has_lost_content(&self, name: &Name, meta: &Meta, each: bool) -> io::Result<bool> {
        let (MetaKind::File { size }, Some(dir)) = (meta.kind, self.held()) else {
            return Ok(false);
        };
        let of_this_start = || haul_sys::boot_time().zip(meta.ctime).is_some_and(|(s, c)| c >= s);
        let is_suspect = || size >= ALWAYS_CHECKED_MIN || meta.is_thin || !of_this_start();
        if size == 0 || !(each || is_suspect()) {
            return Ok(false);
        }
        let (file, stat) = retry_open(|| dir.open_file(name, false))?;
        Ok(Loss::of(&file) == Loss::Hole && haul_sys::has_unwritten_blocks(&file, stat.size))
    }

    /// Drops cached content of the regular file `name`, so that reading returns the content of the
    /// medium. Unwritten data, and pages that a program has mapped, remain. Does nothing where the
    /// system does not support it.
    ///
    /// # Errors
    /// Errors of opening the file.
    pub fn forget_cached(&self, name: &Name) -> io::Result<()> {
        let Some(dir) = self.held() else { return Ok(()) };
        let (file, _) = retry_open(|| dir.open_file(name, false))?;
        haul_sys::drop_cached(&file, 0..0);
        Ok(())
    }

    /// The extended attributes and access control lists in `which` of an entry, or of this
    /// directory. The name comes with whether to follow a link.
    ///
    /// # Errors
    /// Also if they exceed the limit of a listing.
    pub fn extended(
        &self,
        name: Option<(&Name, bool)>,
        which: Kept,
    ) -> io::Result<Option<Box<Extended>>> {
        match (self.held(), name) {
            (None, _) => Ok(None),
            (Some(dir), Some((name, true))) => {
                retry_open(|| haul_sys::extended_following(dir, name, which))
            }
            (Some(dir), Some((name, false))) => haul_sys::extended(dir, name, which),
            (Some(dir), None) => dir.extended_of(&**dir, which),
        }
    }

    /// The names of the extended attributes of `name`, or of this directory, if the storage reports
    /// them.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn attribute_names(&self, name: Option<&Name>) -> io::Result<Vec<Vec<u8>>> {
        self.held().map_or(Ok(Vec::new()), |dir| haul_sys::attribute_names(dir, name))
    }

    /// True if the symbolic link `name` refers to an open file of a process. Its target has no
    /// meaning for other processes.
    pub fn is_descriptor_link(&self, name: &Name) -> bool {
        let leads_there = |to: Vec<u8>| DESCRIPTOR_PREFIXES.iter().any(|of| to.starts_with(of));
        self.held().is_some_and(|dir| {
            haul_sys::is_generated(&**dir) || dir.read_link(name).is_ok_and(leads_there)
        })
    }

    /// Opens the regular file that the link `name` leads to, if all links on the way belong to root
    /// or to the user of this process. A tree that does not know the owners follows none.
    ///
    /// # Errors
    /// Also if a link on the way belongs to another user.
    pub fn open_link_target(&self, name: &Name) -> io::Result<Box<dyn SourceFile>> {
        let dir = self.held().ok_or_else(|| io::Error::other("it is a link"))?;
        let (file, stat) = retry_open(|| dir.open_link_target(name))?;
        Ok(Box::new(LocalSource::of(file, stat, None)))
    }

    /// Makes this directory writable for its owner. On this machine only if that is the user of
    /// this process.
    ///
    /// # Errors
    /// Errors of changing the mode.
    pub fn make_writable(&self) -> io::Result<()> {
        let mode_of = |mode: u32| (mode & PRIVATE_DIR_MODE != PRIVATE_DIR_MODE).then_some(mode);
        let Some(dir) = self.held() else {
            let Attributes { mode, mtime, .. } = self.stat_self()?.attributes;
            let Some(mode) = mode_of(mode) else { return Ok(()) };
            let writable = Attributes::new(mode | PRIVATE_DIR_MODE, mtime);
            return self.set_attributes(&writable, Kept::MODE)?.map_or(Ok(()), |wait| wait());
        };
        let now = haul_sys::file_stat(&**dir)?;
        match mode_of(now.mode) {
            Some(mode) if now.uid == haul_sys::effective_user() => {
                haul_sys::set_mode(&**dir, mode | PRIVATE_DIR_MODE)
            }
            _ => Ok(()),
        }
    }

    /// Renames `name` to `new`, which must not exist.
    ///
    /// # Errors
    /// Also if the tree can't do that in one step.
    pub fn rename(&self, name: &Name, new: &Name) -> io::Result<()> {
        let dir = self.opened()?;
        dir.rename_to(name, dir, new, false)
    }

    /// Like [`TreeDir::stage`], for a file that shares the whole content of `source`. Returns
    /// whether it does; if not, the file is empty. See [`crate::Capabilities::can_share_content`].
    ///
    /// # Errors
    /// Errors of creating a file.
    pub fn stage_sharing(
        &self,
        source: &dyn SourceFile,
    ) -> io::Result<(Box<dyn StagedFile>, bool)> {
        let (Some(dir), Some(source)) = (self.held(), source.handle()) else {
            return Ok((self.stage()?, false));
        };
        let (stage, shares) = retry_open(|| Stage::create_sharing(Arc::clone(dir), source))?;
        Ok((Box::new(stage), shares))
    }

    /// Starts a file in `at`, a directory of this machine, that will be published in this one.
    ///
    /// # Errors
    /// Also if this directory is not on this machine.
    pub fn stage_at(&self, at: &Dir) -> io::Result<Box<dyn StagedFile>> {
        let dir = self.opened()?;
        let create = || Stage::create_for(Arc::new(at.try_clone()?), Arc::clone(dir));
        Ok(Box::new(retry_open(create)?))
    }

    // Files that wait for the end of their job, or that an earlier job has left.

    /// Publishes the file `name`, which waits in row `row` of `batch`, in this directory.
    ///
    /// # Errors
    /// Errors of renaming.
    pub fn publish_delayed(
        &self,
        batch: &DelayedBatch,
        row: Row,
        name: &Name,
        on_existing: OnExisting,
    ) -> io::Result<Publication> {
        let dir = self.opened()?;
        retry_open(|| batch.publish(row, name, dir, on_existing))
    }

    /// Creates a directory in this one for files that wait for the end of their job.
    ///
    /// # Errors
    /// Also if this directory is not on this machine.
    pub fn begin_batch(&self) -> io::Result<DelayedBatch> {
        let dir = self.opened()?;
        retry_open(|| DelayedBatch::begin(Arc::clone(dir)))
    }

    /// Takes over such a directory that a killed or disconnected job has left in this one. If there
    /// is one, calls `make_parent_writable` first, which makes this directory writable.
    pub fn take_over_batch(&self, make_parent_writable: &dyn Fn()) -> Option<DelayedBatch> {
        DelayedBatch::take_over(self.held()?, make_parent_writable)
    }

    /// The directory of files that an earlier job has left in row `row` of `batch`, if any.
    ///
    /// # Errors
    /// Errors of opening it.
    pub fn previous_row(
        &self,
        batch: &DelayedBatch,
        row: Row,
    ) -> io::Result<Option<Arc<dyn TreeDir>>> {
        let dir = retry_open(|| batch.previous_row(row))?;
        Ok(dir.map(|dir| Arc::new(LocalDir::new(dir)) as Arc<dyn TreeDir>))
    }

    /// Removes leftovers of copies in this directory, as [`haul_store::Leftover`] does, and reports
    /// each to `each`.
    ///
    /// # Errors
    /// Errors of reading the directory.
    pub fn clean(
        &self,
        all: bool,
        dry_run: bool,
        each: &mut dyn FnMut(&[u8], io::Result<Cleaned>),
    ) -> io::Result<()> {
        let Some(dir) = self.held() else { return Ok(()) };
        for leftover in Leftovers::find(dir)?.iter() {
            if let Some(cleaned) = leftover.clean(dir, all, dry_run).transpose() {
                each(leftover.name().as_bytes(), cleaned);
            }
        }
        Ok(())
    }
}
