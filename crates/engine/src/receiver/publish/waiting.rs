//! Delayed publication in a mirror. The files wait, whole and with their attributes, until
//! everything else is done. Then they are published, directory by directory. A job that ends before
//! that leaves all old files as they were.
//!
//! They wait under their final names in private directories ([`DelayedBatch`]), one on each file
//! system. So memory holds none of these names, only the directories in which files will appear,
//! and their parents.
//!
//! A job that loses its connection or is killed leaves the waiting files. The next job to the same
//! destination takes them over. A waiting file with the right length, time and attributes is not
//! sent again.

use super::naming;
use crate::JobError;
use crate::dirs::DirNode;
use crate::receiver::context::JobContext;
use crate::receiver::{DirState, Pending, Publisher, RecvDir, parent_fault};
use haul_model::{
    Attributes, Entry, Fault, FaultKind, FileId, Kept, Kind, Name, Outcome, Sameness, Side,
    Timestamp,
};
use haul_plan::changes;
use haul_store::{DelayedBatch, OnExisting, Row, RowNumber, StaleStages};
use haul_tree::{Meta, SealedFile, TreeDir};
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// The SELinux label, which copies ignore.
const LABEL: &[u8] = b"security.selinux";
const ACLS: &[u8] = b"system.posix_acl_";
const DEFAULT_ACL: &[u8] = b"system.posix_acl_default";

/// The mode bit of a directory that makes new entries inherit its group.
const SET_GROUP_ID: u32 = 0o2000;

/// Maximum number of directories in memory. If there are more, files are published before the end.
const DIRS_MAX: usize = 1 << 18;

/// Files that wait for the end of the job, and the directories in which they will appear.
#[derive(Default)]
pub(crate) struct Waiting {
    /// The batches, by device.
    batches: Mutex<HashMap<u64, Arc<DelayedBatch>>>,
    /// Objects with several names that an earlier job left waiting, and that this job already uses.
    claimed: Mutex<HashSet<FileId>>,
    /// Settled directories, each behind its subdirectories.
    dirs: Mutex<Vec<Arc<RecvDir>>>,
    /// There were more than [`DIRS_MAX`] directories.
    has_overflowed: AtomicBool,
}

/// A file that waits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WaitingFile {
    /// The device of the file system.
    device: u64,
    row: Row,
    /// The object of the file.
    pub(crate) id: FileId,
}

impl RecvDir {
    /// The number of the row in which this directory's files wait.
    fn row_number(&self) -> RowNumber {
        *self.row.get_or_init(|| RowNumber::of(&self.path_of(None)))
    }
}

impl Publisher<'_> {
    /// Makes a whole file wait for the end of the job.
    pub(crate) fn keep_waiting(
        &self,
        pending: &Pending,
        mut sealed: Box<dyn SealedFile>,
    ) -> Result<Outcome, Fault> {
        let Pending { dir, name, on_existing, .. } = pending;
        let mut wait = || -> io::Result<Outcome> {
            let (batch, row) = self.row_of(dir, *on_existing)?;
            sealed.wait(&batch, row, name)?;
            dir.waiting.fetch_add(1, Ordering::Relaxed);
            Ok(Outcome::Copied)
        };
        wait().map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => naming::name_taken(),
            _ => Fault::from_io(Side::Destination, "keep the file until the job ends", &error),
        })
    }

    /// The row in which files for `dir` wait, and its batch.
    fn row_of(
        &self,
        dir: &RecvDir,
        on_existing: OnExisting,
    ) -> io::Result<(Arc<DelayedBatch>, Row)> {
        let DirState::Open(node) = &dir.state else { return Err(io::ErrorKind::NotFound.into()) };
        let batch = self.batch_of(dir, node)?;
        dir.record_waiting();
        Ok((batch, Row { number: dir.row_number(), on_existing }))
    }

    /// The batch of the file system of `node`, the directory of `dir`. Creates it if there is none.
    fn batch_of(&self, dir: &RecvDir, node: &Arc<DirNode>) -> io::Result<Arc<DelayedBatch>> {
        let device = node.id().ok_or(io::ErrorKind::Unsupported)?.dev;
        let mut batches = self.waiting.batches.lock();
        if let Some(batch) = batches.get(&device) {
            return Ok(Arc::clone(batch));
        }
        let top = self.top_of(node);
        let mut above = Some(dir);
        while let Some(here) = above {
            if matches!(&here.state, DirState::Open(node) if node.id() == top.id()) {
                here.make_writable();
            }
            above = here.parent.as_deref();
        }
        let batch = Arc::new(top.handle()?.begin_batch()?);
        batches.insert(device, Arc::clone(&batch));
        Ok(batch)
    }

    /// The batch of a file system, if it has one.
    fn batch_on(&self, device: u64) -> Option<Arc<DelayedBatch>> {
        self.waiting.batches.lock().get(&device).cloned()
    }

    /// The directory that holds the batch for files in `node`: the highest directory of the
    /// destination on the same file system. All directories between them must allow batches.
    fn top_of<'n>(&self, node: &'n Arc<DirNode>) -> &'n Arc<DirNode> {
        let mut top = node;
        while let Some((above, _)) = top.place() {
            let is_outside = self.job.rename.is_some() && above.place().is_none();
            let is_elsewhere = above.id().map(|id| id.dev) != node.id().map(|id| id.dev);
            if is_outside || is_elsewhere || !may_have_lots(above.meta()) {
                break;
            }
            top = above;
        }
        top
    }

    /// Takes over the batch that an earlier job left in `dir`, if `dir` is a directory for batches.
    pub(crate) fn take_over_lot_in(&self, dir: &RecvDir) {
        let DirState::Open(node) = &dir.state else { return };
        if self.job.delays_updates()
            && !dir.fresh
            && Arc::ptr_eq(self.top_of(node), node)
            && let Some(id) = node.id()
            && let Ok(handle) = node.handle()
            && let Some(batch) = handle.take_over_batch(&|| dir.make_writable())
        {
            // A batch that the job already has stays. A file system may be mounted in several
            // places; files that wait in another of them are sent again.
            let batch = Arc::new(batch);
            self.waiting.batches.lock().entry(id.dev).or_insert_with(|| Arc::clone(&batch));
        }
    }

    /// Leaves the waiting files to the next job, if this one ended with `error` because its
    /// connection was lost.
    pub(crate) fn leave_waiting(&self, error: &JobError) {
        if matches!(error, JobError::Connection(_)) {
            self.waiting.batches.lock().values().for_each(|batch| batch.abandon());
        }
    }

    /// Reuses the whole file that an earlier job left waiting. False if there is none, or it is not
    /// the file that this job would write.
    pub(crate) fn reuse_waiting(&self, file: &Pending) -> io::Result<bool> {
        let Pending { dir, name, entry, on_existing, .. } = file;
        if !matches!(self.job.plan.compare_by, Sameness::SizeAndTime | Sameness::Size) {
            return Ok(false);
        }
        let DirState::Open(node) = &dir.state else { return Ok(false) };
        let Some(batch) = node.id().and_then(|id| self.batch_on(id.dev)) else { return Ok(false) };
        let keeps = self.job.plan.keeps.with(Kept::TIMES).with(Kept::MODE);
        let handle = node.handle()?;
        for left in [OnExisting::Keep, OnExisting::Replace] {
            let row = Row { number: dir.row_number(), on_existing: left };
            let Some(before) = handle.previous_row(&batch, row)? else { continue };
            let Some(there) = self.job.stat_entry(&*before, name)? else { continue };
            let entry = &*self.times.as_kept(entry, node, Some(&there));
            // A file with several names may belong to another file by now, or may still be
            // resumable.
            let is_own = there.links == 1 || self.job.is_hard_linked(entry);
            let found = changes(entry, &there, None, keeps);
            let is_it = found.is_empty()
                && is_own
                && is_like_new(&self.job, node, &*before, name, &there)?
                && (self.job.may_have_holes(entry)
                    || !before.has_lost_content(name, &there, self.job.plan.sync)?)
                && self.claim_exclusively(&there);
            if !is_it {
                // A large file is resumed under its other name.
                before.remove_file(name)?;
                continue;
            }
            if self.job.plan.sync {
                before.sync(Some(name))?;
            }
            let (batch, to) = self.row_of(dir, *on_existing)?;
            batch.claim(row, name, to)?;
            dir.waiting.fetch_add(1, Ordering::Relaxed);
            return Ok(true);
        }
        Ok(false)
    }

    /// False if this job already uses the object `there` under another of its names. The names of
    /// one old file may belong to two files by now.
    fn claim_exclusively(&self, there: &Meta) -> bool {
        let id = there.id.filter(|_| there.links > 1);
        id.is_none_or(|id| self.waiting.claimed.lock().insert(id))
    }

    /// The place where the file `name` of `dir` waits, if it waits.
    pub(crate) fn waits(&self, dir: &RecvDir, name: &Name) -> Option<WaitingFile> {
        let (number, DirState::Open(node)) = (*dir.row.get()?, &dir.state) else { return None };
        let device = node.id()?.dev;
        let batch = self.batch_on(device)?;
        let of = |on_existing| {
            let row = Row { number, on_existing };
            Some(WaitingFile { device, row, id: batch.id(row, name)? })
        };
        of(OnExisting::Keep).or_else(|| of(OnExisting::Replace))
    }

    /// Makes a further name of the waiting file `first` wait, too. False if `first` is published by
    /// now.
    pub(crate) fn link_waiting(
        &self,
        (place, first): (WaitingFile, &Name),
        dir: &RecvDir,
        name: &Name,
        on_existing: OnExisting,
    ) -> io::Result<bool> {
        let (batch, row) = self.row_of(dir, on_existing)?;
        if !self.batch_on(place.device).is_some_and(|other| Arc::ptr_eq(&batch, &other)) {
            return Err(io::ErrorKind::CrossesDevices.into());
        }
        match batch.link(place.row, first, place.id, row, name) {
            Ok(()) => {
                dir.waiting.fetch_add(1, Ordering::Relaxed);
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// True if the settled `dir` gets its attributes only at the end of the job.
    pub(crate) fn defer_sealing(&self, dir: &Arc<RecvDir>) -> bool {
        if !dir.has_waiting() {
            return false;
        }
        if let Some(parent) = &dir.parent {
            parent.record_waiting();
        }
        let dirs = {
            let mut dirs = self.waiting.dirs.lock();
            dirs.push(Arc::clone(dir));
            if dirs.len() < DIRS_MAX { Vec::new() } else { std::mem::take(&mut *dirs) }
        };
        if !dirs.is_empty() {
            if !self.waiting.has_overflowed.swap(true, Ordering::Relaxed) {
                let message = format!(
                    "files are waiting in {DIRS_MAX} directories: renaming them into place before the end"
                );
                self.job.warn(b".", &message);
            }
            self.publish_in(&dirs);
            self.seal_all(&dirs);
        }
        true
    }

    /// Publishes the waiting files, once everything else is done.
    pub(crate) fn publish_delayed(&self) {
        let dirs = std::mem::take(&mut *self.waiting.dirs.lock());
        self.publish_in(&dirs);
        // Before directories get modes that keep their owner from writing. After a lost connection,
        // the files that still wait are left.
        if !self.job.control.stopped() {
            self.waiting.batches.lock().clear();
        }
        self.seal_all(&dirs);
    }

    fn seal_all(&self, dirs: &[Arc<RecvDir>]) {
        for dir in dirs {
            self.sealing.seal(dir);
            self.durability.sync_dir(dir);
        }
    }

    fn publish_in(&self, dirs: &[Arc<RecvDir>]) {
        for dir in dirs {
            let Some(number) = dir.row.get().copied() else { continue };
            let rows = [OnExisting::Replace, OnExisting::Keep];
            let published: Result<u64, Fault> = rows
                .map(|on_existing| self.publish_row(dir, Row { number, on_existing }))
                .into_iter()
                .sum();
            let left = dir.waiting.load(Ordering::Relaxed);
            let whole =
                published.and_then(|found| match found >= left || self.job.control.stopped() {
                    true => Ok(()),
                    false => Err(removed_while_waiting(left - found)),
                });
            if let Err(fault) = whole {
                self.job.fail_late(&dir.path_of(None), fault);
            }
        }
    }

    /// Publishes the files of a row. Returns their number.
    fn publish_row(&self, dir: &Arc<RecvDir>, row: Row) -> Result<u64, Fault> {
        let failed =
            |error: io::Error| Fault::from_io(Side::Destination, "find the waiting files", &error);
        let DirState::Open(node) = &dir.state else { return Err(parent_fault()) };
        let batch = node.id().and_then(|id| self.batch_on(id.dev));
        let Some(batch) = batch else { return Ok(0) };
        let (seen, by_rsync) = (OnceLock::new(), OnceLock::new());
        let names = batch.names(row).map_err(failed)?;
        for name in &names {
            if self.job.control.stopped() {
                return Ok(0);
            }
            match self.publish_one(dir, node, (&batch, row), name, &seen) {
                Err(fault) => self.job.fail_late(&dir.path_of(Some(name)), fault),
                Ok(()) => {
                    let by_rsync = by_rsync.get_or_init(|| self.left_by_rsync(dir, node));
                    // rsync may not have left this file. Its other files stay.
                    let _ = by_rsync.as_ref().map(|(_, left)| left.remove_file(name));
                }
            }
        }
        if let (Some(Some((name, _))), Ok(handle)) = (by_rsync.into_inner(), node.handle()) {
            // The directory stays if it is not empty.
            let _ = handle.remove_dir(&name);
        }
        batch.end(row.number);
        Ok(names.len() as u64)
    }

    /// The directory in `dir` in which an interrupted rsync left its delayed files, and its name.
    /// `None` if the job copies an entry of that name.
    fn left_by_rsync(
        &self,
        dir: &RecvDir,
        node: &Arc<DirNode>,
    ) -> Option<(Name, Arc<dyn TreeDir>)> {
        const NAME: &[u8] = b".~tmp~";
        let name = Name::new(NAME).ok().filter(|_| !dir.fresh)?;
        let left = node.handle().ok()?.open_dir(&name, false).ok()?;
        self.job.excludes(dir, Some(&name), true).then_some((name, left))
    }

    fn publish_one(
        &self,
        dir: &RecvDir,
        node: &Arc<DirNode>,
        (batch, row): (&DelayedBatch, Row),
        name: &Name,
        seen: &OnceLock<StaleStages>,
    ) -> Result<(), Fault> {
        const ACTION: &str = "rename the file into place";
        let failed = |error: io::Error| Fault::from_io(Side::Destination, ACTION, &error);
        let handle = node.handle().map_err(failed)?;
        if let (Some(claims), Some(id)) = (dir.claims(), batch.id(row, name)) {
            claims.bring(id);
        }
        self.removals.clear_place(dir, name, row.on_existing)?;
        // Only the name and the kind matter by now.
        let none = Attributes::new(0, Timestamp { secs: 0, nanos: 0 });
        let entry = Entry::new(Some(name.clone()), Kind::File { size: 0 }, none);
        self.naming.assign_name(ACTION, dir, name, &entry, row.on_existing, |how| {
            handle.publish_delayed(batch, row, name, how)
        })?;
        // The partial files of this file are not needed any more.
        handle.remove_stale(name, seen);
        Ok(())
    }
}

/// The fault of a directory for which `count` files waited that are gone.
fn removed_while_waiting(count: u64) -> Fault {
    let message = format!("another program removed {count} of its new files while they waited");
    Fault::new(Side::Destination, FaultKind::Changed, message)
}

/// True if this user can create entries in a directory with this metadata, or can change its mode
/// to do so. Access lists are ignored.
fn may_have_lots(dir: &Meta) -> bool {
    /// The rights of others to write and to search.
    const WRITABLE: u32 = 0o003;
    dir.owner.is_none_or(|owner| {
        let rights = if haul_sys::is_in_group(owner.group) { WRITABLE << 3 } else { WRITABLE };
        haul_sys::is_root()
            || owner.user == haul_sys::effective_user()
            || dir.attributes.mode & rights == rights
    })
}

/// True if the file `name` of `from`, once given the kept attributes, equals a new file in `node`.
pub(crate) fn is_like_new(
    job: &JobContext<'_>,
    node: &Arc<DirNode>,
    from: &dyn TreeDir,
    name: &Name,
    there: &Meta,
) -> io::Result<bool> {
    let keeps = job.plan.keeps;
    let handle = node.handle()?;
    let above = node.meta();
    let group = match above.owner {
        Some(owner) if above.attributes.mode & SET_GROUP_ID != 0 => owner.group,
        _ => haul_sys::effective_group(),
    };
    let is_owned = there.owner.is_some_and(|owner| {
        (keeps.has(Kept::USER) || owner.user == haul_sys::effective_user())
            && (keeps.has(Kept::GROUP) || owner.group == group)
    });
    let is_given = |attribute: &Vec<u8>| {
        attribute == LABEL
            || keeps.has(if attribute.starts_with(ACLS) { Kept::ACL } else { Kept::XATTRS })
    };
    let inherits =
        || Ok::<_, io::Error>(handle.attribute_names(None)?.iter().any(|name| name == DEFAULT_ACL));
    Ok(is_owned
        && handle.has_distinct_names()
        && from.attribute_names(Some(name))?.iter().all(is_given)
        && (keeps.has(Kept::ACL) || !inherits()?))
}
