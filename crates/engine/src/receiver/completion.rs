//! Completion: settles directories and ends the job. A directory is settled with its last entry,
//! and the job with the root.
//!
//! If the Sender removes its sources, their copies are remembered from the outcome until the Sender
//! asks for proof that a copy still exists.

use super::{
    Chunks, DirState, JobContext, Pending, Publisher, RecvDir, as_source_fault, disk_space,
};
use crate::Event;
use crate::link::Proof;
use haul_model::{Entry, Fault, FaultKind, Kind, Name, Outcome, Side, Summary};
use haul_proto::{
    ITEM_COST_MIN, LIST_WINDOW, NAMES_WAITING_MAX, OutcomeItem, Prove, Proven, Removal,
};
use haul_tree::Meta;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Maximum number of proofs that are kept for a remote Sender, about 30 MiB. It covers the entries
/// of a listing window, the names of files with several names that wait for the end, and as many
/// that are being removed.
const PROOFS_MAX: usize = (LIST_WINDOW / ITEM_COST_MIN) as usize + 2 * NAMES_WAITING_MAX;

/// The remembered copies, by the index of the source. `None` if the compared object is unknown.
type Proofs = HashMap<u64, Option<Proof>>;

/// Settles directories, and ends the job.
pub(crate) struct Completion<'a> {
    job: Arc<JobContext<'a>>,
    pub(super) publisher: Arc<Publisher<'a>>,
    chunks: Option<Arc<Chunks>>,
    /// The Sender removes its sources, and asks for proofs before.
    pub(super) keeps_proofs: bool,
    proofs: Mutex<Proofs>,
    /// The Sender removes its sources and reports each. The job ends when it reports the last.
    awaits_removals: bool,
    /// The summary of a job that waits only for those reports.
    settled: Mutex<Option<Summary>>,
    /// Everything is settled, and Done is being sent: the Sender may disconnect.
    done: AtomicBool,
}

impl<'a> Completion<'a> {
    /// Creates the completion of a job. `here`: copies of sources that the Sender removes can be
    /// identified on this side.
    pub(super) fn of(
        publisher: &Arc<Publisher<'a>>,
        chunks: Option<Arc<Chunks>>,
        here: bool,
    ) -> Arc<Self> {
        let job = Arc::clone(&publisher.job);
        let removes = job.removes();
        Arc::new(Self {
            keeps_proofs: removes && here,
            awaits_removals: removes && job.ends.sender_reports_removals,
            job,
            publisher: Arc::clone(publisher),
            chunks,
            proofs: Mutex::default(),
            settled: Mutex::default(),
            done: AtomicBool::new(false),
        })
    }

    /// Takes the remembered copy of the source `index`.
    pub(super) fn take_proof(&self, index: u64) -> Option<Proof> {
        self.proofs.lock().remove(&index).flatten()
    }
}

impl Completion<'_> {
    /// True if Done may have been sent.
    pub(crate) fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    /// True if nothing more is expected from the Sender.
    pub(crate) fn is_over(&self) -> bool {
        self.is_done() && (!self.awaits_removals || self.job.control.has_ended())
    }

    /// True if the Sender reports what it removes.
    pub(crate) fn awaits_removals(&self) -> bool {
        self.awaits_removals
    }

    /// Settles one entry of `dir`. With its last entry, the directory gets its mode and time, and
    /// is itself settled in its parent.
    pub(crate) fn settle(&self, dir: Arc<RecvDir>) {
        let mut dir = dir;
        while dir.settle_one() {
            match self.end_dir(&dir) {
                Some(parent) => dir = parent,
                None => return,
            }
        }
    }

    /// Ends `dir`, whose entries are all settled: sets its mode and time. The end of the root ends
    /// the job. Returns the parent.
    fn end_dir(&self, dir: &Arc<RecvDir>) -> Option<Arc<RecvDir>> {
        if !self.publisher.defer_sealing(dir) {
            self.publisher.sealing.seal(dir);
            self.publisher.durability.sync_dir(dir);
        }
        if let Some(parent) = &dir.parent {
            return Some(Arc::clone(parent));
        }
        self.publisher.publish_delayed();
        self.publisher.sealing.wait_for_sealing(0);
        self.publisher.durability.sync_names();
        // A job that ended early is not done, even if everything is settled.
        if !self.job.control.stopped() {
            let summary = self.job.reporter.summary();
            self.job.control.finish_reading();
            if self.awaits_removals {
                *self.settled.lock() = Some(summary);
                self.job.sender.done(summary);
                return None;
            }
            self.done.store(true, Ordering::Release);
            self.job.sender.done(summary);
            self.job.control.finish(Ok(summary));
        }
        None
    }

    /// Records the outcome of a wanted file, of which `moved` bytes were counted as done.
    pub(crate) fn finish(&self, pending: Pending, moved: u64, outcome: Outcome) -> OutcomeItem {
        let outcome = match outcome {
            Outcome::Failed(fault) if fault.kind == FaultKind::NoSpace => {
                Outcome::Failed(disk_space::with_space_details(&self.job, fault, &pending, moved))
            }
            outcome => outcome,
        };
        let path = || pending.dir.path_of(pending.entry.name.as_ref());
        if let Outcome::Failed(fault) = &outcome {
            self.publisher.removals.withhold_removals(fault);
        }
        if let Some(chunks) = &self.chunks {
            chunks.end(&self.job, &pending, &outcome);
        }
        let outcome = self.job.as_synced(pending.reading.outcome(outcome), pending.found);
        self.job.report(pending.index, path, &pending.entry.kind, moved, &outcome);
        self.job.close(pending.cost);
        OutcomeItem { index: pending.index, outcome }
    }

    /// Takes the Sender's reports about its removed sources.
    pub(crate) fn take_removals(&self, removals: Vec<Removal>) {
        for removal in removals {
            match removal {
                Removal::Source { path, kind, result } => {
                    let result = result.map_err(as_source_fault);
                    self.report_removal(&path, &kind, result.as_ref().copied());
                }
                Removal::End => {
                    let Some(summary) = self.settled.lock().take() else {
                        return self
                            .job
                            .fail_protocol("it removed sources before all were compared");
                    };
                    for (path, kind) in
                        self.job.control.monitor().progress().report_log.take_removed()
                    {
                        self.report_removal(&path, &kind, Ok(()));
                    }
                    self.done.store(true, Ordering::Release);
                    return self.job.control.finish(Ok(summary));
                }
            }
        }
    }

    fn report_removal(&self, path: &[u8], kind: &Kind, result: Result<(), &Fault>) {
        let monitor = self.job.control.monitor();
        monitor.progress().report_log.removed(path);
        monitor.event(Event::Removed { path, kind, result });
    }

    /// Remembers the copy that was found identical to the source `entry`, which will be removed.
    /// The Sender takes the proof or asks for it after the outcome.
    pub(super) fn keep_proof(
        &self,
        index: u64,
        dir: &RecvDir,
        name: &Name,
        entry: &Entry,
        meta: Option<Meta>,
        outcome: &Outcome,
    ) {
        let rule = self.job.plan.removes;
        if !self.keeps_proofs || !rule.is_some_and(|rule| rule.allows(outcome)) {
            return;
        }
        let proof = match (&dir.state, meta.filter(|meta| meta.id.is_some()), &entry.name) {
            (DirState::Open(dir), Some(meta), Some(source)) => {
                let (dir, name, source) = (Arc::clone(dir), name.clone(), source.clone());
                Some(Proof { dir, name, source, meta })
            }
            _ => None,
        };
        let mut proofs = self.proofs.lock();
        proofs.insert(index, proof);
        let is_too_many = proofs.len() > PROOFS_MAX && self.job.ends.sender_reports_removals;
        drop(proofs);
        if is_too_many {
            self.job.fail_protocol("it did not report which sources stay");
        }
    }

    /// Checks that the copies of sources that the Sender has set aside still exist, and reports the
    /// results. The job fails if no proof was kept for one of them.
    pub(crate) fn prove(&self, requested: Vec<Prove>) {
        let mut proven = Vec::with_capacity(requested.len());
        for Prove { index, parked } in requested {
            let Some(proof) = self.proofs.lock().remove(&index) else {
                return self.job.fail_protocol("it requested a proof of an unlisted entry");
            };
            let Some(parked) = parked else { continue };
            let result = match proof {
                Some(proof) => proof.holds(&parked).map_err(Fault::clipped),
                None => {
                    let message = "not removed: its copy can't be distinguished from other entries";
                    Err(Fault::new(Side::Destination, FaultKind::Io, message))
                }
            };
            proven.push(Proven { index, result });
        }
        if !proven.is_empty() {
            self.job.sender.proven(proven);
        }
    }
}
