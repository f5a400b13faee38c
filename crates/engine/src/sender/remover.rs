//! The end of a move between machines. Each source that the destination has is set aside. It is
//! removed only after the Receiver confirms that its copy still exists. So two opposite moves never
//! remove both copies, and the copy can't be the source itself.

use super::remove::{Heard, Verdict, end_aside, set_aside};
use super::{Item, Sender, linked};
use crate::aside::Aside;
use crate::control::CANCEL_POLL;
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
    tell: &'r dyn Fn(Vec<Removal>),
    /// Messages that have arrived and are not processed yet.
    later: VecDeque<Next>,
    aside: HashMap<u64, (Item, Aside)>,
    asks: Vec<Prove>,
    told: Vec<Removal>,
    /// The job's figures, once all entries have their outcome.
    done: Option<Summary>,
}

enum Next {
    /// An outcome.
    Judge(Box<Item>, Outcome),
    /// A source that has waited for its other names, and is removed.
    Remove(Item),
}

impl<'r, 'a> Remover<'r, 'a> {
    /// Removes the `sources` of the job of `sender`, in `tree`.
    pub(crate) fn new(
        sender: &'r Sender<'a>,
        tree: &'r dyn Tree,
        sources: &'r [Vec<u8>],
        tell: &'r dyn Fn(Vec<Removal>),
    ) -> Self {
        let (later, aside) = (VecDeque::new(), HashMap::new());
        let (asks, told) = (Vec::new(), Vec::new());
        Self { sender, tree, sources, tell, later, aside, asks, told, done: None }
    }

    /// Removes sources according to `heard`, and ends the job. If the job ends early, sources that
    /// were set aside get their names back.
    pub(crate) fn run(mut self, heard: &crossbeam_channel::Receiver<Heard>) {
        let mut has_waited = false;
        while !self.sender.control.stopped() {
            self.go_on();
            if let (Some(summary), true) = (self.done, self.is_idle()) {
                if has_waited {
                    return self.end(summary);
                }
                has_waited = true;
                self.take_linked();
                continue;
            }
            match self.hear(heard) {
                Some(Heard::Outcome(item, outcome)) => {
                    self.later.push_back(Next::Judge(item, outcome));
                }
                Some(Heard::Proven(proven)) => self.take_proofs(proven),
                Some(Heard::Done(summary)) => self.done = Some(summary),
                None => {}
            }
        }
        for (item, aside) in std::mem::take(&mut self.aside).into_values() {
            match end_aside(&item, aside, Err(interrupted())) {
                // Its name could not be restored.
                Err(fault) if fault.kind == FaultKind::Changed => {
                    self.told.extend(linked::told(&item, Err(fault)));
                }
                Err(fault) => tracing::debug!(%fault, "a source that was set aside stays"),
                Ok(()) => {}
            }
        }
        self.flush();
    }

    /// Returns the next message, or `None` after a moment. Reports the collected removals when no
    /// message is waiting.
    fn hear(&mut self, heard: &crossbeam_channel::Receiver<Heard>) -> Option<Heard> {
        if let Ok(next) = heard.try_recv() {
            return Some(next);
        }
        self.flush();
        // The sending end is in `self.sender`, so it is never disconnected.
        heard.recv_timeout(CANCEL_POLL).ok()
    }

    fn is_idle(&self) -> bool {
        self.later.is_empty() && self.aside.is_empty()
    }

    /// Processes received outcomes while more sources can be set aside.
    fn go_on(&mut self) {
        while self.aside.len() < ASIDE_MAX
            && let Some(next) = self.later.pop_front()
        {
            match next {
                Next::Judge(item, outcome) => self.judge(*item, &outcome),
                Next::Remove(item) => self.begin(item),
            }
            if self.asks.len() >= BATCH_LEN || self.told.len() >= BATCH_LEN {
                self.flush();
            }
        }
    }

    fn judge(&mut self, mut item: Item, outcome: &Outcome) {
        match self.sender.removing.judge(&item, outcome) {
            Verdict::Goes(_) => return self.begin(item),
            Verdict::AllGo(all) => {
                // They leave the window now, or have already left it.
                let go = |(item, _)| Next::Remove(Item { cost: 0, ..item });
                all.into_iter().map(go).for_each(|next| self.later.push_front(next));
            }
            // Processed at the end.
            Verdict::Waits => {}
            Verdict::Told(removal) => {
                self.told.push(removal);
                self.stays(item.index);
            }
            Verdict::Stays if self.sender.removing.may_go(&item, outcome) => self.stays(item.index),
            Verdict::Stays => {}
        }
        self.sender.ledger.make_room(std::mem::take(&mut item.cost));
    }

    /// Tells the Receiver that this source needs no proof.
    fn stays(&mut self, index: u64) {
        self.asks.push(Prove { index, aside: None });
    }

    /// Sets a source aside, and requests a proof.
    fn begin(&mut self, item: Item) {
        let index = item.index;
        match set_aside(&item) {
            Ok(aside) => {
                self.asks.push(Prove { index, aside: Some(aside.name().clone()) });
                self.aside.insert(index, (item, aside));
            }
            Err(fault) => {
                self.stays(index);
                self.conclude(&item, Err(fault));
            }
        }
    }

    /// Removes sources that were set aside, or restores their names.
    fn take_proofs(&mut self, proven: Vec<Proven>) {
        for Proven { index, result } in proven {
            // Only requested proofs arrive here.
            let Some((item, aside)) = self.aside.remove(&index) else { continue };
            let held = result.map_err(|fault| Fault { side: Side::Destination, ..fault });
            let result = end_aside(&item, aside, held);
            self.conclude(&item, result);
        }
    }

    fn conclude(&mut self, item: &Item, result: Result<(), Fault>) {
        self.told.extend(linked::told(item, result));
        self.sender.ledger.make_room(item.cost);
    }

    /// Continues with the files that waited for all sources to be processed.
    fn take_linked(&mut self) {
        let waited = self.sender.removing.take_linked(&mut |removal| self.told.push(removal));
        // They have left the window.
        let go = |(item, _)| Next::Remove(Item { cost: 0, ..item });
        self.later.extend(waited.into_iter().map(go));
    }

    fn flush(&mut self) {
        if !self.asks.is_empty() {
            let asked = self.asks.iter().filter(|ask| ask.aside.is_some()).map(|ask| ask.index);
            self.sender.removing.asked.lock().extend(asked);
            self.sender.receiver.prove(std::mem::take(&mut self.asks));
        }
        if !self.told.is_empty() {
            (self.tell)(std::mem::take(&mut self.told));
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
