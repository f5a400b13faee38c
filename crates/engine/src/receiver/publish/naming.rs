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
use crate::dirs::DirNode;
use crate::originals::Originals;
use crate::receiver::owners::loss_check;
use crate::receiver::self_copy::is_same_object;
use crate::receiver::{Backups, DirState, JobContext, Owners, RecvDir, metadata, parent_fault};
use haul_model::{Entry, Fault, FaultKind, Name, Outcome, Side, Skip};
use haul_plan::{changes, refusal};
use haul_store::{OnExisting, Publication};
use haul_tree::{Meta, TreeDir};
use parking_lot::Mutex;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

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
}

impl Naming<'_> {
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
        self.backups.back_up(node, name).map_err(not_backed_up)?;
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
}

/// The fault of an entry whose name another entry of the job has.
pub(crate) fn name_taken() -> Fault {
    let message = "its name is that of another entry of this job: the destination treats both \
                   names as the same";
    Fault::new(Side::Destination, FaultKind::Taken, message)
}

impl Naming<'_> {
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
}
