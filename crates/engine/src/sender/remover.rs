//! The end of a move between machines: sources that the destination is known to have
//! are set aside, the Receiver is asked whether it still has them, and only then they
//! go. So of two moves against each other none removes what the other has counted upon,
//! and a source is never the one that was found at the destination.

use super::remove::{Heard, Verdict, end_aside, set_aside};
use super::{Item, Sender, linked};
use crate::aside::Aside;
use crate::control::CANCEL_POLL;
use haul_model::{Fault, FaultKind, Outcome, Side, Summary};
use haul_proto::{Prove, Proven, Removal};
use haul_tree::Tree;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::Ordering;

/// Sources that are set aside at the same time, at most: what a killed move leaves under
/// such names. On a link with 100 ms that is 5,000 in a second.
const ASIDE_MAX: usize = 512;

/// Sources that are asked about, or reported, at once.
const BATCH_LEN: usize = 128;

/// Removes the sources of one job.
pub(crate) struct Remover<'r, 'a> {
    sender: &'r Sender<'a>,
    tree: &'r dyn Tree,
    sources: &'r [Vec<u8>],
    /// Tells the user.
    tell: &'r dyn Fn(Vec<Removal>),
    /// Messages that have arrived and were not looked at yet.
    later: VecDeque<Next>,
    aside: HashMap<u64, (Item, Aside)>,
    asks: Vec<Prove>,
    told: Vec<Removal>,
    /// The job's figures, when all have their outcome.
    done: Option<Summary>,
}

enum Next {
    /// An outcome.
    Judge(Box<Item>, Outcome),
    /// It has waited, and goes.
    Remove(Item),
}

impl<'r, 'a> Remover<'r, 'a> {
    /// Of the job of `sender`, whose sources are `sources` of `tree`.
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

    /// Removes what may be removed by what is `heard`, and ends the job. If that ends
    /// early, what was set aside gets its name back.
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
                // It is called something else now.
                Err(fault) if fault.kind == FaultKind::Changed => {
                    self.told.extend(linked::told(&item, Err(fault)));
                }
                Err(fault) => tracing::debug!(%fault, "a source that was set aside stays"),
                Ok(()) => {}
            }
        }
        self.flush();
    }

    /// The next message. Gathered removals are reported as soon as there is nothing
    /// more to read; `None` after a moment.
    fn hear(&mut self, heard: &crossbeam_channel::Receiver<Heard>) -> Option<Heard> {
        if let Ok(next) = heard.try_recv() {
            return Some(next);
        }
        self.flush();
        // It holds the other end itself.
        heard.recv_timeout(CANCEL_POLL).ok()
    }

    fn is_idle(&self) -> bool {
        self.later.is_empty() && self.aside.is_empty()
    }

    /// Continues with the outcomes that arrived, as far as sources can be set aside.
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
                // They leave the window now, or have done so.
                let go = |(item, _)| Next::Remove(Item { cost: 0, ..item });
                all.into_iter().map(go).for_each(|next| self.later.push_front(next));
            }
            // It is asked about in the end.
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

    /// Nothing has to be proven of it.
    fn stays(&mut self, index: u64) {
        self.asks.push(Prove { index, aside: None });
    }

    /// Sets a source aside, and asks about it.
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

    /// Removes sources that were set aside, or puts them back.
    fn take_proofs(&mut self, proven: Vec<Proven>) {
        for Proven { index, result } in proven {
            // Only what was asked for comes here.
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

    /// Goes on with those that have waited for all sources to be seen.
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
