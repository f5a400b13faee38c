//! The destination's copies of sources that the Sender is about to remove: remembered
//! from their outcome on until the Sender asks for it, so that it can be proven at the
//! moment of the removal. And the Sender's reports of the removals.

use super::dirs::{DirState, RecvDir};
use super::{Receiver, of_sender};
use crate::Event;
use crate::link::Proof;
use haul_model::{Entry, Fault, FaultKind, Kind, Name, Outcome, Side};
use haul_proto::{ITEM_COST_MIN, LIST_WINDOW, NAMES_WAITING_MAX, Prove, Proven, Removal};
use haul_tree::Meta;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Proofs that are kept for a Sender at the other end of a wire, at most: some 30 MiB.
/// Those of the entries of a listing window, and of names that wait for the end since their
/// files have several, and as many that go.
const PROOFS_MAX: usize = (LIST_WINDOW / ITEM_COST_MIN) as usize + 2 * NAMES_WAITING_MAX;

/// By the numbers of the sources. There is none where it can't be told which object was
/// compared.
pub(super) type Proofs = HashMap<u64, Option<Proof>>;

impl Receiver<'_> {
    /// Takes the Sender's reports about its sources.
    pub(crate) fn take_removals(&self, removals: Vec<Removal>) {
        for removal in removals {
            match removal {
                Removal::Source { path, kind, result } => {
                    let result = result.map_err(of_sender);
                    self.tell_removal(&path, &kind, result.as_ref().copied());
                }
                Removal::End => {
                    let Some(summary) = self.settled.lock().take() else {
                        return self.refuse("it removed sources before all were compared");
                    };
                    for (path, kind) in self.control.monitor().progress().told.take_gone() {
                        self.tell_removal(&path, &kind, Ok(()));
                    }
                    self.done.store(true, Ordering::Release);
                    return self.control.finish(Ok(summary));
                }
            }
        }
    }

    fn tell_removal(&self, path: &[u8], kind: &Kind, result: Result<(), &Fault>) {
        let monitor = self.control.monitor();
        monitor.progress().told.removed(path);
        monitor.event(Event::Removed { path, kind, result });
    }

    /// Keeps in mind what was found to be the same as the source `entry` that is now to
    /// be removed. The Sender takes it, or asks for it, when it has heard the outcome.
    pub(super) fn keep_proof(
        &self,
        index: u64,
        dir: &RecvDir,
        name: &Name,
        entry: &Entry,
        meta: Option<Meta>,
        outcome: &Outcome,
    ) {
        let rule = self.task.removes();
        if !self.gives_proofs || !rule.is_some_and(|rule| rule.allows(outcome)) {
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
        let is_too_many = proofs.len() > PROOFS_MAX && self.sender.is_far();
        drop(proofs);
        if is_too_many {
            self.refuse("it did not report which sources stay");
        }
    }

    /// Looks whether the destination still has what was compared with sources that the
    /// Sender has set aside, and reports. The job fails if nothing was kept for one of them.
    pub(crate) fn prove(&self, asked: Vec<Prove>) {
        let mut proven = Vec::with_capacity(asked.len());
        for Prove { index, aside } in asked {
            let Some(proof) = self.proofs.lock().remove(&index) else {
                return self.refuse("it requested a proof of an unlisted entry");
            };
            let Some(aside) = aside else { continue };
            let result = match proof {
                Some(proof) => proof.holds(&aside).map_err(Fault::clipped),
                None => {
                    let message = "not removed: its copy can't be told from other entries";
                    Err(Fault::new(Side::Destination, FaultKind::Io, message))
                }
            };
            proven.push(Proven { index, result });
        }
        if !proven.is_empty() {
            self.sender.proven(proven);
        }
    }
}
