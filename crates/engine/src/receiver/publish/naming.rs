//! Naming: gives entries their names, so that no entry of the job takes another's place. On many
//! file systems two names can be the same, because of case or Unicode normalization. Then the
//! second entry fails, and the first stays.
//!
//! Where the file system is known to keep all names apart, a taken name was given by another
//! program. Elsewhere, in a directory that existed before the job, objects decide: `Claims`
//! records those that the job found or brought. In a directory that the job created, the listing
//! must also have the exact spelling of the name. Over SFTP, where objects have no numbers, only
//! the listing decides.

use super::backup::not_backed_up;
use crate::dirs::{DirNode, local_number, local_object};
use crate::originals::{Originals, also_a_source};
use crate::receiver::owners::loss_check;
use crate::receiver::self_copy::is_same_object;
use crate::receiver::{
    Backups, DirState, JobContext, Owners, Pending, RecvDir, metadata, parent_fault,
};
use haul_model::{
    Attributes, Changes, Entry, Fault, FaultKind, Kept, Name, OrFault, Outcome, Side, Skip,
    Updating,
};
use haul_plan::{changes, refusal};
use haul_proto::Object;
use haul_store::{OnExisting, Publication};
use haul_tree::{Meta, SealedFile, TreeDir};
use parking_lot::Mutex;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The bit in the mode of a file that is written into, after it was backed up. On files it has no
/// other effect. After a killed job, a part of the content is new: the backup is the old file.
const BEING_WRITTEN: u32 = 0o1000;

/// Records whether several sources may meet in one directory. The `Claims` of one walk do not
/// know the objects that another walk brought.
#[derive(Default)]
pub(crate) struct Merging {
    sources: AtomicUsize,
    /// One source has the destination itself as its place.
    has_nameless: AtomicBool,
}

impl Merging {
    /// Records a listed source.
    pub(crate) fn list(&self, name: Option<&Name>) {
        self.sources.fetch_add(1, Ordering::Relaxed);
        self.has_nameless.fetch_or(name.is_none(), Ordering::Relaxed);
    }

    fn may_merge(&self) -> bool {
        self.sources.load(Ordering::Relaxed) > 1 && self.has_nameless.load(Ordering::Relaxed)
    }
}

/// Gives entries their names, and refuses a name that another entry of the job has.
pub(crate) struct Naming<'a> {
    pub(crate) job: Arc<JobContext<'a>>,
    pub(crate) owners: Arc<Owners<'a>>,
    pub(crate) backups: Arc<Backups<'a>>,
    /// See [`Merging`].
    pub(crate) merging: Merging,
    /// Held while a file with several names is updated in place.
    pub(crate) updating: Mutex<()>,
    /// The sources, if they are on this machine.
    pub(crate) originals: Option<Originals>,
}

impl<'a> Naming<'a> {
    pub(crate) fn of(backups: &Arc<Backups<'a>>, originals: Option<Originals>) -> Arc<Self> {
        let (job, owners) = (Arc::clone(&backups.job), Arc::clone(&backups.owners));
        let (backups, merging, updating) =
            (Arc::clone(backups), Merging::default(), Mutex::default());
        Arc::new(Self { job, owners, backups, merging, updating, originals })
    }

    /// Gives an entry of `dir` its name with `publish`, called `action` in faults.
    ///
    /// # Errors
    /// Also if another entry of the job has the name.
    pub(crate) fn assign_name(
        &self,
        action: &str,
        dir: &RecvDir,
        name: &Name,
        entry: &Entry,
        on_existing: OnExisting,
        mut publish: impl FnMut(OnExisting) -> io::Result<Publication>,
    ) -> Result<Outcome, Fault> {
        let failed = |error: io::Error| loss_check::not_kept(self.job.plan.moving, action, &error);
        if publish(on_existing).map_err(failed)? == Publication::Published {
            return Ok(Outcome::Copied);
        }
        let DirState::Open(node) = &dir.state else { return Err(parent_fault()) };
        let handle = node.handle().map_err(failed)?;
        let existing = match handle.capabilities().has_object_ids {
            // The directory has another spelling of the name.
            false if !handle.has_spelling(name).map_err(failed)? => return Err(name_taken()),
            false => None,
            true => handle.stat(name, false).map_err(failed)?,
        };
        if let Some(existing) = &existing {
            self.check_claim(dir, &*handle, name, existing)?;
        }
        // Another program created it first.
        if self.job.plan.keeps_existing {
            return Ok(Outcome::Skipped(Skip::Exists));
        }
        if let Some(refusal) =
            existing.and_then(|existing| refusal(&existing, is_same_object(entry, existing.id)))
        {
            return Err(refusal);
        }
        self.backups.back_up((node, &dir.taken), name).map_err(not_backed_up)?;
        publish(OnExisting::Replace).map_err(failed)?;
        Ok(Outcome::Copied)
    }

    /// False if `name` may lead to an object that another entry brought under another spelling, in
    /// a directory that treats both names as one. In a directory that existed before the job, only
    /// objects of other sources are unknown to its `Claims`.
    pub(crate) fn has_exact_spelling(
        &self,
        dir: &RecvDir,
        handle: &dyn TreeDir,
        name: &Name,
    ) -> io::Result<bool> {
        let needs_check = dir.fresh || self.merging.may_merge();
        Ok(!needs_check || handle.has_distinct_names() || handle.has_spelling(name)?)
    }

    /// Checks that `existing`, to which the name of an entry leads in `dir`, belongs to no other
    /// entry.
    ///
    /// # Errors
    /// [`name_taken`], or a failure to read the directory.
    pub(crate) fn check_claim(
        &self,
        dir: &RecvDir,
        handle: &dyn TreeDir,
        name: &Name,
        existing: &Meta,
    ) -> Result<(), Fault> {
        let is_same_object = match (dir.claims(), existing.id) {
            (Some(claims), Some(id)) => claims.find(id, handle),
            _ => true,
        };
        let is_it = is_same_object && metadata(self.has_exact_spelling(dir, handle, name))?;
        if is_it { Ok(()) } else { Err(name_taken()) }
    }

    /// Sets the source's attributes that a kept file lacks.
    pub(crate) fn update_attributes(
        &self,
        node: &Arc<DirNode>,
        name: &Name,
        entry: &Entry,
        existing: Option<&Meta>,
    ) -> Result<(), Fault> {
        // The existing file may be the source itself, which keeps its attributes.
        let Some(existing) = existing.filter(|existing| !is_same_object(entry, existing.id)) else {
            return Ok(());
        };
        let keeps = self.job.plan.keeps;
        let which = changes(entry, existing, None, keeps).attributes(keeps);
        if which.is_empty() || self.job.plan.dry_run {
            return Ok(());
        }
        let attributes = self.owners.with_protected(&entry.attributes, Some(&existing.attributes));
        let set = node
            .handle()
            .and_then(|handle| handle.set_file_attributes(name, existing.id, &attributes, which));
        let action = "set the file's attributes";
        set.map_err(|error| loss_check::not_kept(self.job.plan.moving, action, &error))
    }

    /// The existing file of `pending`, if it will be updated in place: the new content is staged
    /// and verified as usual, and then written into the file, which keeps its other names. A file
    /// that is also a source must not change: it is replaced if it has other names, and fails
    /// otherwise.
    pub(crate) fn file_to_update(&self, pending: &Pending) -> Result<Option<Meta>, Fault> {
        let Some(existing) = self.update_target(pending)? else { return Ok(None) };
        if self.job.ends.sender_knows_sources {
            return Ok(Some(existing).filter(|existing| {
                pending.target.into.is_some() && pending.target.into == existing.id
            }));
        }
        match self.originals.as_ref().zip(existing.id) {
            Some((originals, id)) if originals.may_have(local_number(id), self.job.control) => {
                if existing.links == 1 {
                    Err(also_a_source(Side::Destination))
                } else {
                    Ok(None)
                }
            }
            _ => Ok(Some(existing)),
        }
    }

    /// Finds the file into which `pending` will be written. Returns its object for the Sender,
    /// which knows whether it is a source.
    pub(crate) fn resolve_update_target(&self, pending: &mut Pending) -> Option<Object> {
        if !self.job.ends.sender_knows_sources {
            return None;
        }
        // A fault is reported when the content has arrived.
        pending.target.into =
            self.update_target(pending).ok().flatten().and_then(|existing| existing.id);
        pending.target.into.map(local_object)
    }

    fn update_target(&self, pending: &Pending) -> Result<Option<Meta>, Fault> {
        let updates = self.job.plan.updating != Updating::Replaces;
        let is_new = pending.on_existing == OnExisting::Keep
            || pending.found.has(Changes::KIND)
            || pending.found.has(Changes::MISSING);
        if !updates || is_new {
            return Ok(None);
        }
        let DirState::Open(node) = &pending.dir.state else { return Err(parent_fault()) };
        let stat_result =
            node.handle().and_then(|handle| self.job.stat_entry(&*handle, &pending.name));
        match stat_result.map_err(|error| failed(&error))? {
            Some(existing) if existing.is_file() => Ok(Some(existing)),
            // The file was removed meanwhile.
            None => Ok(None),
            // The content of a base replaces the entry.
            Some(_) if pending.base.is_some() => Ok(None),
            Some(_) => {
                let message = "something else replaced it";
                Err(Fault::new(Side::Destination, FaultKind::Changed, message))
            }
        }
    }

    /// Writes the staged content into the file `existing`, and sets its attributes.
    pub(crate) fn update(
        &self,
        pending: &Pending,
        existing: &Meta,
        sealed: Box<dyn SealedFile>,
    ) -> Result<Outcome, Fault> {
        let Pending { dir, name, entry, .. } = pending;
        let DirState::Open(node) = &dir.state else { return Err(parent_fault()) };
        let Some(id) = existing.id else {
            return Err(failed(&io::ErrorKind::Unsupported.into()));
        };
        if dir.claims().is_some_and(|claims| !claims.has(id)) {
            let handle = node.handle().map_err(|error| failed(&error))?;
            self.check_claim(dir, &*handle, name, existing)?;
        }
        // Another entry may be another name of the same file: they are updated one by one.
        let _turn = (existing.links != 1).then(|| self.updating.lock());
        let own_mode = self.job.plan.ignores_source_modes;
        let marks =
            self.backups.is_enabled() && (own_mode || entry.attributes.mode & BEING_WRITTEN == 0);
        if marks && existing.attributes.mode & BEING_WRITTEN != 0 {
            self.backups.keep_older(Some(id));
        }
        self.backups.back_up_as_copy((node, &dir.taken), name).map_err(not_backed_up)?;
        let set_mode = |mode| {
            let attributes = Attributes::new(mode, existing.attributes.mtime);
            let which = Kept::MODE.with(Kept::SET_ID).with(Kept::LENT);
            node.handle()?.set_file_attributes(name, existing.id, &attributes, which)
        };
        let is_marked = marks && set_mode(existing.attributes.mode | BEING_WRITTEN).is_ok();
        let mtime = sealed.write_into(name, id).map_err(|error| failed(&error))?;
        let mut attributes = entry.attributes.clone();
        attributes.mtime = mtime;
        attributes.mode |= if is_marked { BEING_WRITTEN } else { 0 };
        let entry = Entry { attributes, ..entry.clone() };
        let stat = || node.handle().and_then(|handle| self.job.stat_entry(&*handle, name));
        let now = stat().map_err(|error| failed(&error))?;
        self.update_attributes(node, name, &entry, now.as_ref())?;
        if is_marked && let Some(now) = stat().map_err(|error| failed(&error))? {
            set_mode(now.attributes.mode & !BEING_WRITTEN).map_err(|error| failed(&error))?;
        }
        if self.job.plan.sync {
            node.handle()
                .and_then(|handle| handle.sync(Some(name)))
                .or_fault(Side::Destination, "flush it to stable storage")?;
        }
        sealed.discard();
        Ok(Outcome::Copied)
    }
}

/// The fault of an entry whose name another entry of the job has.
pub(crate) fn name_taken() -> Fault {
    let message = "its name is that of another entry of this job: the destination treats both \
                   names as the same";
    Fault::new(Side::Destination, FaultKind::Taken, message)
}

fn failed(error: &io::Error) -> Fault {
    Fault::from_io(Side::Destination, "write into the file", error)
}
