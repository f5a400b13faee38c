//! The end of a move between machines. Each source that the destination has is set aside. It is
//! removed only after the Receiver confirms that its copy still exists. So two opposite moves never
//! remove both copies, and the copy can't be the source itself.

use super::remove::{RemoverMessage, Verdict, end_aside, set_aside};
use super::{Item, Sender, linked};
use crate::control::CANCEL_POLL;
use crate::parked::Parked;
use haul_model::{Fault, FaultKind, Outcome, Side, Summary};
use haul_proto::{Prove, Proven, Removal};
use haul_tree::Tree;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::Ordering;

/// The most sources that are set aside at the same time: a killed move leaves these under temporary
/// names. On a link with 100 ms this allows 5,000 removals per second.
const ASIDE_MAX: usize = 512;

/// Sources per proof request or report.
const BATCH_LEN: usize = 128;

/// Removes the sources of one job.
pub(crate) struct Remover<'r, 'a> {
    sender: &'r Sender<'a>,
    tree: &'r dyn Tree,
    sources: &'r [Vec<u8>],
    /// Reports to the user.
    report: &'r dyn Fn(Vec<Removal>),
    /// Messages that have arrived and are not processed yet.
    queue: VecDeque<Next>,
    parked: HashMap<u64, (Item, Parked)>,
    requests: Vec<Prove>,
    told: Vec<Removal>,
    /// The job's figures, once all entries have their outcome.
    done: Option<Summary>,
}

enum Next {
    /// An outcome.
    Decide(Box<Item>, Outcome),
    /// A source that has waited for its other names, and is removed.
    Remove(Item),
}

impl<'r, 'a> Remover<'r, 'a> {
    /// Removes the `sources` of the job of `sender`, in `tree`.
    pub(crate) fn new(
        sender: &'r Sender<'a>,
        tree: &'r dyn Tree,
        sources: &'r [Vec<u8>],
        report: &'r dyn Fn(Vec<Removal>),
    ) -> Self {
        let (queue, parked) = (VecDeque::new(), HashMap::new());
        let (requests, told) = (Vec::new(), Vec::new());
        Self { sender, tree, sources, report, queue, parked, requests, told, done: None }
    }

    /// Removes sources according to `messages`, and ends the job. If the job ends early, sources
    /// that were set aside get their names back.
    pub(crate) fn run(mut self, messages: &crossbeam_channel::Receiver<RemoverMessage>) {
        let mut has_waited = false;
        while !self.sender.control.stopped() {
            self.process_queue();
            if let (Some(summary), true) = (self.done, self.is_idle()) {
                if has_waited {
                    return self.end(summary);
                }
                has_waited = true;
                self.take_linked();
                continue;
            }
            match self.next_message(messages) {
                Some(RemoverMessage::Outcome(item, outcome)) => {
                    self.queue.push_back(Next::Decide(item, outcome));
                }
                Some(RemoverMessage::Proven(proven)) => self.take_proofs(proven),
                Some(RemoverMessage::Done(summary)) => self.done = Some(summary),
                None => {}
            }
        }
        for (item, parked) in std::mem::take(&mut self.parked).into_values() {
            match end_aside(&item, parked, Err(interrupted())) {
                // Its name could not be restored.
                Err(fault) if fault.kind == FaultKind::Changed => {
                    self.told.extend(linked::told(&item, Err(fault)));
                }
                Err(fault) => tracing::debug!(%fault, "a source was not removed"),
                Ok(()) => {}
            }
        }
        self.flush();
    }

    /// Returns the next message, or `None` after a moment. Reports the collected removals when no
    /// message is waiting.
    fn next_message(
        &mut self,
        messages: &crossbeam_channel::Receiver<RemoverMessage>,
    ) -> Option<RemoverMessage> {
        if let Ok(next) = messages.try_recv() {
            return Some(next);
        }
        self.flush();
        // The sending end is in `self.sender`, so it is never disconnected.
        messages.recv_timeout(CANCEL_POLL).ok()
    }

    fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.parked.is_empty()
    }

    /// Processes received outcomes while more sources can be set aside.
    fn process_queue(&mut self) {
        while self.parked.len() < ASIDE_MAX
            && let Some(next) = self.queue.pop_front()
        {
            match next {
                Next::Decide(item, outcome) => self.decide(*item, &outcome),
                Next::Remove(item) => self.begin(item),
            }
            if self.requests.len() >= BATCH_LEN || self.told.len() >= BATCH_LEN {
                self.flush();
            }
        }
    }

    fn decide(&mut self, mut item: Item, outcome: &Outcome) {
        match self.sender.removing.decide(&item, outcome) {
            Verdict::Remove(_) => return self.begin(item),
            Verdict::RemoveAll(all) => {
                // They leave the window now, or have already left it.
                let go = |(item, _)| Next::Remove(Item { cost: 0, ..item });
                all.into_iter().map(go).for_each(|next| self.queue.push_front(next));
            }
            // Processed at the end.
            Verdict::Waits => {}
            Verdict::Reported(removal) => {
                self.told.push(removal);
                self.skip_proof(item.index);
            }
            Verdict::Stays if self.sender.removing.may_remove(&item, outcome) => {
                self.skip_proof(item.index)
            }
            Verdict::Stays => {}
        }
        self.sender.ledger.release_cost(std::mem::take(&mut item.cost));
    }

    /// Tells the Receiver that this source needs no proof.
    fn skip_proof(&mut self, index: u64) {
        self.requests.push(Prove { index, parked: None });
    }

    /// Sets a source aside, and requests a proof.
    fn begin(&mut self, item: Item) {
        let index = item.index;
        match set_aside(&item) {
            Ok(parked) => {
                self.requests.push(Prove { index, parked: Some(parked.name().clone()) });
                self.parked.insert(index, (item, parked));
            }
            Err(fault) => {
                self.skip_proof(index);
                self.conclude(&item, Err(fault));
            }
        }
    }

    /// Removes sources that were set aside, or restores their names.
    fn take_proofs(&mut self, proven: Vec<Proven>) {
        for Proven { index, result } in proven {
            // Only requested proofs arrive here.
            let Some((item, parked)) = self.parked.remove(&index) else { continue };
            let held = result.map_err(|fault| Fault { side: Side::Destination, ..fault });
            let result = end_aside(&item, parked, held);
            self.conclude(&item, result);
        }
    }

    fn conclude(&mut self, item: &Item, result: Result<(), Fault>) {
        self.told.extend(linked::told(item, result));
        self.sender.ledger.release_cost(item.cost);
    }

    /// Continues with the files that waited for all sources to be processed.
    fn take_linked(&mut self) {
        let waited = self.sender.removing.take_linked(&mut |removal| self.told.push(removal));
        // They have left the window.
        let go = |(item, _)| Next::Remove(Item { cost: 0, ..item });
        self.queue.extend(waited.into_iter().map(go));
    }

    fn flush(&mut self) {
        if !self.requests.is_empty() {
            let requested =
                self.requests.iter().filter(|ask| ask.parked.is_some()).map(|ask| ask.index);
            self.sender.removing.requested.lock().extend(requested);
            self.sender.receiver.prove(std::mem::take(&mut self.requests));
        }
        if !self.told.is_empty() {
            (self.report)(std::mem::take(&mut self.told));
        }
    }

    fn end(mut self, summary: Summary) {
        let mut left = Vec::new();
        self.sender
            .removing
            .remove_dirs(self.tree, self.sources, None, &mut |removal| left.push(removal));
        self.told.append(&mut left);
        self.told.push(Removal::End);
        self.sender.removing.has_removed_all.store(true, Ordering::Release);
        self.flush();
        self.sender.control.finish(Ok(summary));
    }
}

/// The job ends before the Receiver has answered.
fn interrupted() -> Fault {
    let message = "not removed: its copy was not verified";
    Fault::new(Side::Source, FaultKind::Io, message)
}
