//! The leases of a Sender's contents: a worker that sends a content over a lane has a lease on it,
//! which ends when it has arrived. What is lost with the lane is sent once more.

use super::pieces::given_up;
use super::read::Reader;
use super::stripes::{Step, Striped, Turn};
use crate::link::wire::{Lanes, OnFate, OutFrame};
use crossbeam_channel::{Receiver as Calls, Sender as Call, unbounded};
use haul_proto::{FileEnd, Message};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

/// A content that is sent over one lane.
#[derive(Clone)]
pub(super) enum Lease {
    /// Files that go in a pack, or whose hash alone is sent.
    Files(Vec<u64>),
    /// One in pieces.
    Whole(u64),
    /// A block.
    Block(Arc<Striped>, Turn),
}

/// Something to do for a worker before it takes another file.
pub(super) enum Task {
    /// This was lost.
    Repeat(Lease),
    /// Blocks of this file are left, or it is at its end.
    Help(Arc<Striped>),
}

/// The files that are being sent as stripes, what else was lost, and how workers are called to
/// both.
pub(crate) struct Stripes {
    open: Mutex<Vec<Arc<Striped>>>,
    lost: Mutex<VecDeque<Lease>>,
    call: Call<()>,
    /// A word for each worker that may help.
    pub(super) calls: Calls<()>,
}

impl Default for Stripes {
    fn default() -> Self {
        let (call, calls) = unbounded();
        Self { open: Mutex::default(), lost: Mutex::default(), call, calls }
    }
}

impl Stripes {
    /// Takes a file, and calls so many workers to it.
    pub(super) fn begin(&self, file: &Arc<Striped>, helpers: usize) {
        self.open.lock().push(Arc::clone(file));
        (0..helpers).for_each(|_| self.call());
    }

    fn call(&self) {
        let _ = self.call.send(());
    }

    /// The next thing to do, if there is one.
    pub(super) fn next(&self) -> Option<Task> {
        if let Some(lost) = self.lost.lock().pop_front() {
            return Some(Task::Repeat(lost));
        }
        let mut open = self.open.lock();
        open.retain(|file| !file.is_over());
        open.iter().find(|file| file.needs_hands()).cloned().map(Task::Help)
    }

    /// Takes blocks from lanes that would hold up the end, when nothing is left to be begun.
    pub(super) fn take_back(&self, lanes: &Lanes) {
        let files = self.open.lock().clone();
        files.iter().flat_map(|file| file.may_lose()).for_each(|lane| lanes.cut_if_slow(lane));
    }

    /// A lease ends.
    fn settle(&self, lease: Lease, has_arrived: bool) {
        let needs_hands = match lease {
            Lease::Block(file, turn) => file.settle(turn, has_arrived),
            lost => {
                self.lost.lock().extend((!has_arrived).then_some(lost));
                !has_arrived
            }
        };
        if needs_hands {
            self.call();
        }
    }

    fn on_fate(self: &Arc<Self>, lease: Lease) -> OnFate {
        let stripes = Arc::clone(self);
        Box::new(move |has_arrived| stripes.settle(lease, has_arrived))
    }
}

impl Reader<'_, '_> {
    /// Queues the last frame of a leased content, or the mark behind it. `None` if the job ends.
    pub(super) fn hand_over(&self, frame: OutFrame, lease: Lease) -> Option<()> {
        match &self.readers.stripes {
            Some(stripes) if self.lane.number != 0 => {
                let frame = frame.with_fate(stripes.on_fate(lease.clone()));
                self.outbox().send(frame).map_or_else(|| self.lost(lease), Some)
            }
            // On the wire of the job all messages follow the content.
            stripes => {
                self.outbox().send(frame)?;
                stripes.iter().for_each(|stripes| stripes.settle(lease.clone(), true));
                Some(())
            }
        }
    }

    /// A leased content could not be sent, or not all of it: it comes back if that is for the
    /// lane. `None` if the job ends.
    ///
    /// It comes back when the receiver has reported what it has of the lane. Before that, parts
    /// may still be on their way over the lane, and could arrive between the repeated ones.
    pub(super) fn lost(&self, lease: Lease) -> Option<()> {
        let has_lost_lane = self.lane.number != 0 && !self.control.stopped();
        let stripes = self.readers.stripes.as_ref().filter(|_| has_lost_lane)?;
        self.readers.lanes.unsent(self.lane.number, stripes.on_fate(lease));
        Some(())
    }

    /// Does what comes before other files. `None` if the job ends.
    pub(super) fn attend_to(&mut self, task: Task, scratch: &mut Vec<u8>) -> Option<()> {
        match task {
            Task::Help(file) | Task::Repeat(Lease::Block(file, _)) => self.help(&file, scratch),
            Task::Repeat(Lease::Files(files)) => {
                self.sender.send_again(&files);
                Some(())
            }
            Task::Repeat(Lease::Whole(index)) if self.sender.ledger.is_awaited(index) => {
                self.sender.send_again(&[index]);
                Some(())
            }
            // The receiver has reported it already, and only waits for the end.
            Task::Repeat(Lease::Whole(index)) => {
                self.take_lane(0, false)?;
                let end = FileEnd { index, result: Err(given_up()), by_blocks: false };
                let end = OutFrame::message(&Message::FileEnd(end));
                self.hand_over(end, Lease::Whole(index))
            }
        }
    }

    /// Does what is due at the end of a file. `None` if the job ends.
    pub(super) fn end_stripes(&self, file: &Striped) -> Option<()> {
        while let Some(step) = file.step() {
            match step {
                Step::Find(hash) => {
                    let end = self.seal_at_end(&*file.source, hash);
                    if self.control.stopped() {
                        return None;
                    }
                    file.ends_with(end);
                }
                Step::Tell(result) => {
                    self.offers_again(&file.item, &result);
                    self.sender.ledger.hashed(&file.item, &result);
                    let end = FileEnd { index: file.item.index, result, by_blocks: true };
                    let main = self.readers.lanes.main().outbox;
                    main.send(OutFrame::message(&Message::FileEnd(end)))?;
                    file.told();
                }
            }
        }
        Some(())
    }
}

#[cfg(test)]
#[path = "repeats_tests.rs"]
mod tests;
