//! Publishing: gives whole files their names, at once or at the end of the job.

pub(super) mod backup;
pub(super) mod durable;
pub(super) mod hold;
pub(super) mod naming;
pub(super) mod removals;
pub(super) mod sealing;
pub(super) mod waiting;

use super::{Backups, Durability, JobContext, Naming, Pending, Removals, Sealing, Times};
use crate::originals::Originals;
use haul_model::{Fault, FaultKind, FileId, Outcome, Side};
use haul_tree::SealedFile;
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
