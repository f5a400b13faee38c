//! Publishing: gives whole files their names, at once or at the end of the job.

pub(super) mod backup;
pub(super) mod durable;
pub(super) mod hold;
pub(super) mod naming;
pub(super) mod removals;
pub(super) mod sealing;
pub(super) mod waiting;

use self::backup::not_backed_up;
use super::{Backups, Durability, JobContext, Naming, Pending, Removals, Sealing, Times};
use crate::dirs::{local_number, local_object};
use crate::originals::{Originals, also_a_source};
use crate::receiver::{DirState, parent_fault};
use haul_model::{Changes, Entry, Fault, FaultKind, FileId, OrFault, Outcome, Side, Updating};
use haul_proto::Object;
use haul_store::OnExisting;
use haul_tree::{Meta, SealedFile};
use hold::Holding;
use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use waiting::Waiting;

/// Publishes files: at once, when they are durable, or at the end of the job.
pub(crate) struct Publisher<'a> {
    pub(super) job: Arc<JobContext<'a>>,
    pub(super) times: Arc<Times<'a>>,
    pub(super) backups: Arc<Backups<'a>>,
    pub(super) removals: Arc<Removals<'a>>,
    pub(super) naming: Arc<Naming<'a>>,
    pub(super) sealing: Arc<Sealing<'a>>,
    pub(super) durability: Arc<Durability<'a>>,
    /// Files that wait for the end of the job.
    pub(super) waiting: Waiting,
    /// Files that wait until they are durable.
    pub(super) holding: Holding,
}

impl<'a> Publisher<'a> {
    /// Creates the publisher of a destination with these `times`. It removes no source, and no
    /// directory that holds one.
    pub(super) fn of(
        times: &Arc<Times<'a>>,
        backups: Arc<Backups<'a>>,
        originals: Option<Originals>,
        source_lineage: HashSet<FileId>,
    ) -> Arc<Self> {
        Arc::new(Self {
            job: Arc::clone(&times.job),
            times: Arc::clone(times),
            naming: Naming::of(&backups, originals),
            removals: Removals::of(&backups, source_lineage),
            backups,
            sealing: Sealing::of(times),
            durability: Durability::of(&times.job),
            waiting: Waiting::default(),
            holding: Holding::default(),
        })
    }
}

impl Publisher<'_> {
    /// Publishes a file, or makes it wait for the end of the job.
    pub(super) fn publish(
        &self,
        pending: &Pending,
        mut sealed: Box<dyn SealedFile>,
    ) -> Result<Outcome, Fault> {
        const ACTION: &str = "rename the file into place";
        let failed = |error: io::Error| Fault::from_io(Side::Destination, ACTION, &error);
        let Pending { dir, name, entry, on_existing, .. } = pending;
        if self.job.delays_updates() {
            return self.keep_waiting(pending, sealed);
        }
        if let Some(there) = self.naming.file_to_update(pending)? {
            return self.naming.update(pending, &there, sealed);
        }
        if let Some(claims) = dir.claims()
            && let Some(id) = sealed.id().map_err(failed)?
        {
            // Before the file is published, so that another entry that finds it recognises it.
            claims.bring(id);
        }
        self.removals.clear_place(dir, name, *on_existing)?;
        let outcome = self
            .naming
            .assign_name(ACTION, dir, name, entry, *on_existing, |how| sealed.publish(name, how));
        match &outcome {
            Ok(Outcome::Copied) => dir.remove_stale(name),
            // A later job can use the content.
            Err(fault) if fault.kind != FaultKind::Taken => {}
            _ => sealed.discard(),
        }
        outcome
    }
}

impl Naming<'_> {
    /// The existing file of `pending`, if it will be updated in place: the new content is staged and
    /// verified as usual, and then written into the file, which keeps its other names. A file that is also a source
    /// must not change: it is replaced if it has other names, and fails otherwise.
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
        self.backups.back_up_as_copy(node, name).map_err(not_backed_up)?;
        let mtime = sealed.write_into(name, id).map_err(|error| failed(&error))?;
        let mut attributes = entry.attributes.clone();
        attributes.mtime = mtime;
        let entry = Entry { attributes, ..entry.clone() };
        let stat_result = node.handle().and_then(|handle| self.job.stat_entry(&*handle, name));
        let now = stat_result.map_err(|error| failed(&error))?;
        self.update_attributes(node, name, &entry, now.as_ref())?;
        if self.job.plan.sync {
            node.handle()
                .and_then(|handle| handle.sync(Some(name)))
                .or_fault(Side::Destination, "flush it to stable storage")?;
        }
        sealed.discard();
        Ok(Outcome::Copied)
    }
}

fn failed(error: &io::Error) -> Fault {
    Fault::from_io(Side::Destination, "write into the file", error)
}
