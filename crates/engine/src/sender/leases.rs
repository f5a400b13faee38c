//! The leases of a Sender's contents. A worker that sends a content over a lane leases it until it
//! has arrived. Contents that are lost with the lane are sent again.

use super::item::given_up;
use super::ledger::Ledger;
use super::pieces::seal_at_end;
use super::read::Reader;
use super::stripes::{BlockTask, EndStep, Striped};
use crate::link::wire::{Lanes, OnFate, OutFrame};
use crossbeam_channel::{Receiver as Calls, Sender as Call, unbounded};
use haul_proto::{FileEnd, INCOMING_MAX, Message};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

/// Maximum number of files sent as stripes that have no outcome. Their ends go over the job's own
/// connection, and may be far behind the blocks. A Receiver refuses more than [`INCOMING_MAX`].
const BEGUN_MAX: usize = INCOMING_MAX / 2;

/// A content that is sent over one lane.
#[derive(Clone)]
pub(super) enum Lease {
    /// Files in a pack, or files whose hash alone is sent.
    Files(Vec<u64>),
    /// A file in pieces.
    Whole(u64),
    /// A block.
    Block(Arc<Striped>, BlockTask),
}

/// A task for a worker that comes before the next file.
pub(super) enum Task {
    /// Send a lost content again.
    Repeat(Lease),
    /// Send blocks of this file, or its end.
    Help(Arc<Striped>),
}

/// The files that are sent as stripes, other lost contents, and the calls to workers that should
/// help.
pub(crate) struct Stripes {
    open: Mutex<Vec<Arc<Striped>>>,
    /// The files that have begun and may have no outcome yet.
    begun: Mutex<Vec<u64>>,
    lost: Mutex<VecDeque<Lease>>,
    wake: Call<()>,
    /// One message for each worker that may help.
    pub(super) wakeups: Calls<()>,
}

impl Default for Stripes {
    fn default() -> Self {
        let (wake, wakeups) = unbounded();
        let (open, begun, lost) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { open, begun, lost, wake, wakeups }
    }
}

impl Stripes {
    /// True if another file may begin: fewer than [`BEGUN_MAX`] have no outcome.
    pub(super) fn may_begin(&self, ledger: &Ledger, index: u64) -> bool {
        let mut begun = self.begun.lock();
        begun.retain(|other| *other != index && ledger.is_awaited(*other));
        let has_room = begun.len() < BEGUN_MAX;
        begun.extend(has_room.then_some(index));
        has_room
    }

    /// Adds a file, and calls `helpers` workers to it.
    pub(super) fn begin(&self, file: &Arc<Striped>, helpers: usize) {
        self.open.lock().push(Arc::clone(file));
        (0..helpers).for_each(|_| self.wake());
    }

    fn wake(&self) {
        let _ = self.wake.send(());
    }

    /// The next task, if there is one.
    pub(super) fn next(&self) -> Option<Task> {
        if let Some(lost) = self.lost.lock().pop_front() {
            return Some(Task::Repeat(lost));
        }
        let mut open = self.open.lock();
        open.retain(|file| !file.is_over());
        open.iter().find(|file| file.needs_workers()).cloned().map(Task::Help)
    }

    /// Takes blocks back from lanes that would delay the end. Called when nothing is left to start.
    pub(super) fn take_back(&self, lanes: &Lanes) {
        let files = self.open.lock().clone();
        files
            .iter()
            .flat_map(|file| file.stealable_lanes())
            .for_each(|lane| lanes.cut_if_slow(lane));
    }

    /// Ends a lease.
    fn settle(&self, lease: Lease, has_arrived: bool) {
        let needs_workers = match lease {
            Lease::Block(file, block_task) => file.settle(block_task, has_arrived),
            lost => {
                self.lost.lock().extend((!has_arrived).then_some(lost));
                !has_arrived
            }
        };
        if needs_workers {
            self.wake();
        }
    }

    fn on_fate(self: &Arc<Self>, lease: Lease) -> OnFate {
        let stripes = Arc::clone(self);
        Box::new(move |has_arrived| stripes.settle(lease, has_arrived))
    }
}

impl Reader<'_, '_> {
    /// Queues the last frame of a leased content, or the mark after it. `None` if the job ends.
    pub(super) fn send_leased(&self, frame: OutFrame, lease: Lease) -> Option<()> {
        match &self.readers.stripes {
            Some(stripes) if self.lane.number != 0 => {
                let frame = frame.with_fate(stripes.on_fate(lease.clone()));
                self.outbox().send(frame).map_or_else(|| self.lost(lease), Some)
            }
            // On the job's own wire, all messages follow the content.
            stripes => {
                self.outbox().send(frame)?;
                stripes.iter().for_each(|stripes| stripes.settle(lease.clone(), true));
                Some(())
            }
        }
    }

    /// Returns a leased content that was not completely sent, if its lane was lost. `None` if the
    /// job ends.
    ///
    /// The lease ends only when the Receiver has reported the frames that it has from the lane.
    /// Until then, parts may still arrive over the lane, between parts that are sent again.
    pub(super) fn lost(&self, lease: Lease) -> Option<()> {
        let has_lost_lane = self.lane.number != 0 && !self.control.stopped();
        let stripes = self.readers.stripes.as_ref().filter(|_| has_lost_lane)?;
        self.readers.lanes.unsent(self.lane.number, stripes.on_fate(lease));
        Some(())
    }

    /// Performs a task that comes before other files. `None` if the job ends.
    pub(super) fn run_task(&mut self, task: Task, scratch: &mut Vec<u8>) -> Option<()> {
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
            // The Receiver has reported its outcome, and only waits for its end.
            Task::Repeat(Lease::Whole(index)) => {
                self.take_lane(0, false)?;
                let end = FileEnd { index, result: Err(given_up()), by_blocks: false };
                let end = OutFrame::message(&Message::FileEnd(end));
                self.send_leased(end, Lease::Whole(index))
            }
        }
    }

    /// Performs the steps that are due at the end of a file. `None` if the job ends.
    pub(super) fn end_stripes(&self, file: &Striped) -> Option<()> {
        while let Some(step) = file.step() {
            match step {
                EndStep::ComputeEnd(hash) => {
                    let end = seal_at_end(self.sender, &file.item, &*file.source, hash);
                    if self.control.stopped() {
                        return None;
                    }
                    file.set_end(end);
                }
                EndStep::SendEnd(result) => {
                    self.allow_repeat_after(&file.item, &result);
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
#[path = "leases_tests.rs"]
mod tests;
