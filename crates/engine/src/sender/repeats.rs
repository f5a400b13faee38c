//! Contents that were lost with a lane, and are sent once more over the others.

use super::pieces::given_up;
use super::read::{Reader, Readers};
use super::stripes::{Striped, Turn};
use super::{Item, Sender};
use crate::link::wire::{OnLoss, OutFrame, Tally};
use crossbeam_channel::{Receiver as Calls, Sender as Call, unbounded};
use haul_model::Fault;
use haul_proto::{FileEnd, FileSeal, LaneEnd, Message};
use haul_tree::{is_longer, lock};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

/// Workers that are called to what was lost of a file, at most.
const CALLED_MAX: usize = 2;

/// A part of a file that is sent as stripes.
pub(super) enum StripePart {
    /// A block, and how much of it counts as sent.
    Block(u64, Tally),
    /// The word that all was sent that goes over this lane.
    LaneEnd(u8),
    /// The end, on a lane that may have had no such word: those for whose it stands, as a
    /// set of bits.
    End(u8),
}

/// Parts of a file that were lost.
#[derive(Default)]
pub(super) struct Lost {
    /// Blocks, with how much of each counts as sent.
    pub(super) blocks: BTreeMap<u64, Tally>,
    /// The lanes whose [`StripePart::LaneEnd`] was, as a set of bits.
    pub(super) lanes: u8,
    pub(super) has_end: bool,
}

impl Lost {
    pub(super) fn is_empty(&self) -> bool {
        self.blocks.is_empty() && self.lanes == 0 && !self.has_end
    }

    pub(super) fn add(&mut self, other: Self) {
        self.blocks.extend(other.blocks);
        self.lanes |= other.lanes;
        self.has_end |= other.has_end;
    }
}

/// Something that is sent once more.
pub(super) enum Again {
    /// Files that go in a pack, or whose hash alone is told.
    Files(Vec<u64>),
    /// One in pieces over one lane.
    Whole(u64),
    /// Parts of one that is sent as stripes.
    Stripes(Arc<Striped>),
}

/// The files that are being sent as stripes, what was lost, and how workers are called to
/// both.
pub(crate) struct Stripes {
    open: Mutex<Vec<Arc<Striped>>>,
    again: Mutex<VecDeque<Again>>,
    call: Call<()>,
    /// A word for each worker that may help.
    pub(super) calls: Calls<()>,
}

impl Default for Stripes {
    fn default() -> Self {
        let (call, calls) = unbounded();
        Self { open: Mutex::default(), again: Mutex::default(), call, calls }
    }
}

impl Stripes {
    /// Takes a file, and calls so many workers to it.
    pub(super) fn begin(&self, file: &Arc<Striped>, helpers: usize) {
        lock(&self.open).push(Arc::clone(file));
        for _ in 0..helpers {
            let _ = self.call.send(());
        }
    }

    /// A file of which blocks are left.
    pub(super) fn open(&self) -> Option<Arc<Striped>> {
        let mut open = lock(&self.open);
        open.retain(|file| file.has_blocks());
        open.first().cloned()
    }

    /// Something that was lost.
    pub(super) fn again(&self) -> Option<Again> {
        lock(&self.again).pop_front()
    }

    fn add(&self, again: Again) {
        lock(&self.again).push_back(again);
        let _ = self.call.send(());
    }

    /// Parts of a file were lost, and are to be sent.
    fn repeat(&self, file: &Arc<Striped>) {
        if file.has_blocks() && !lock(&self.open).iter().any(|open| Arc::ptr_eq(open, file)) {
            self.begin(file, CALLED_MAX);
        }
        self.add(Again::Stripes(Arc::clone(file)));
    }

    /// The call that has this sent once more.
    pub(super) fn on_loss(self: &Arc<Self>, again: Again) -> OnLoss {
        let stripes = Arc::clone(self);
        Box::new(move || stripes.add(again))
    }

    /// The same for a part of a file.
    fn on_part_lost(self: &Arc<Self>, file: &Arc<Striped>, part: StripePart) -> OnLoss {
        let (stripes, file) = (Arc::clone(self), Arc::clone(file));
        Box::new(move || {
            file.lose(part);
            stripes.repeat(&file);
        })
    }

    /// The same for a lane of which more than was told may be lost.
    fn on_settled(self: &Arc<Self>, file: &Arc<Striped>) -> OnLoss {
        let (stripes, file) = (Arc::clone(self), Arc::clone(file));
        Box::new(move || {
            file.settled();
            stripes.repeat(&file);
        })
    }
}

impl Sender<'_> {
    /// Has these files read once more, unless they are dealt with.
    fn send_again(&self, files: &[u64]) {
        let items: Vec<Item> = {
            let mut in_flight = lock(&self.in_flight);
            let mut repeated = |index: &u64| {
                let item = in_flight.items.get_mut(index)?;
                item.is_repeated = true;
                Some(Item::clone(item))
            };
            files.iter().filter_map(&mut repeated).collect()
        };
        self.queue_up(items);
    }
}

impl Readers<'_> {
    /// More is to be sent of this.
    fn go_on_with(&self, file: &Arc<Striped>) {
        if let Some(stripes) = &self.stripes {
            stripes.add(Again::Stripes(Arc::clone(file)));
        }
    }
}

impl Reader<'_, '_> {
    /// True if the lane of this worker is lost, and the job goes on.
    pub(super) fn has_lost_lane(&self) -> bool {
        self.lane.number != 0 && !self.control.stopped()
    }

    /// Queues the last frame of a part, which comes back if it is lost. `None` if it can't
    /// be sent.
    pub(super) fn send_or_lose(
        &self,
        frame: OutFrame,
        on_loss: impl FnOnce(&Arc<Stripes>) -> OnLoss,
    ) -> Option<()> {
        let frame = match &self.readers.stripes {
            Some(stripes) if self.lane.number != 0 => frame.or_lost(on_loss(stripes)),
            _ => frame,
        };
        self.outbox().send(frame)
    }

    /// Sends what was lost. `None` if the job ends.
    pub(super) fn repeat(&mut self, again: Again, scratch: &mut [u8]) -> Option<()> {
        match again {
            Again::Files(files) => self.sender.send_again(&files),
            Again::Whole(index) if self.sender.is_awaited(index) => {
                self.sender.send_again(&[index]);
            }
            // The receiver has told of it already, and only waits for the end.
            Again::Whole(index) => {
                self.take_lane(0, false)?;
                let result = Err(given_up());
                let end = Message::FileEnd(FileEnd { index, result, lanes: 0 });
                let on_loss = |stripes: &Arc<Stripes>| stripes.on_loss(Again::Whole(index));
                if self.send_or_lose(OutFrame::message(&end), on_loss).is_none() {
                    self.lost(Again::Whole(index))?;
                }
            }
            Again::Stripes(file) => return self.repeat_stripes(&file, scratch),
        }
        Some(())
    }

    /// This could not be sent, or not all of it: it is sent again if that is for the lane.
    /// `None` if the job ends.
    pub(super) fn lost(&self, again: Again) -> Option<()> {
        self.lost_with_lane(|stripes| stripes.on_loss(again))
    }

    /// The same for a block of a file.
    pub(super) fn lost_block(&self, file: &Arc<Striped>, block: StripePart) -> Option<()> {
        self.lost_with_lane(|stripes| stripes.on_part_lost(file, block))
    }

    /// Calls `on_loss` when the receiver has said what it has of the lane. Not before: what
    /// has left of this by the lane may still be on its way, and must not arrive between the
    /// parts of that which is sent again.
    fn lost_with_lane(&self, on_loss: impl FnOnce(&Arc<Stripes>) -> OnLoss) -> Option<()> {
        let stripes = self.readers.stripes.as_ref().filter(|_| self.has_lost_lane())?;
        self.readers.lanes.unsent(self.lane.number, on_loss(stripes));
        Some(())
    }

    /// Sends what was lost of a file whose end was told, all over one lane: what ends a lost
    /// lane must not be there before what went over it. `None` if the job ends.
    fn repeat_stripes(&mut self, file: &Arc<Striped>, scratch: &mut [u8]) -> Option<()> {
        let lost = self.readers.lanes.at_once(|| file.take_lost());
        let Some((mut lost, result, lanes)) = lost else { return Some(()) };
        self.take_lane(0, false)?;
        let sent = self.repeat_parts(file, &mut lost, (result, lanes), scratch);
        if sent.is_none() {
            if !self.has_lost_lane() {
                return None;
            }
            self.lose_unsettled(file, lost);
        }
        if file.repeated() {
            self.readers.go_on_with(file);
        }
        Some(())
    }

    /// Sends these parts; leaves in `lost` what could not be sent.
    fn repeat_parts(
        &self,
        file: &Arc<Striped>,
        lost: &mut Lost,
        (told, lanes): (Result<FileSeal, Fault>, u8),
        scratch: &mut [u8],
    ) -> Option<()> {
        let mut result = told.clone();
        while let (Ok(_), Some((&block, tally))) = (&result, lost.blocks.first_key_value()) {
            let turn = Turn { block, tally: tally.clone() };
            if let Err(fault) = self.send_block(file, &turn, scratch)? {
                result = Err(fault);
            }
            lost.blocks.remove(&block);
        }
        if let (Ok(_), Err(fault)) = (&result, is_longer(&*file.source)) {
            result = Err(fault);
        }
        lost.blocks.clear();
        if lost.has_end || result != told {
            lost.has_end = true;
            self.offers_again(&file.item, &result);
            file.ends_with(&result, lanes);
            let end = FileEnd { index: file.item.index, result, lanes };
            self.send_part(file, StripePart::End(0), &Message::FileEnd(end))?;
            lost.has_end = false;
        }
        for lane in lanes_of(lost.lanes) {
            self.send_part(file, StripePart::LaneEnd(lane), &lane_end(file, lane))?;
            lost.lanes &= !(1 << lane);
        }
        Some(())
    }

    fn send_part(&self, file: &Arc<Striped>, part: StripePart, message: &Message) -> Option<()> {
        self.send_or_lose(OutFrame::message(message), |stripes| stripes.on_part_lost(file, part))
    }

    /// Ends the part of a file that is a block: it is queued.
    pub(super) fn end_block(&self, file: &Arc<Striped>, block: StripePart) -> Option<()> {
        match &self.readers.stripes {
            Some(stripes) if self.lane.number != 0 => {
                let on_loss = stripes.on_part_lost(file, block);
                self.outbox().send(OutFrame::end_of_part(on_loss))
            }
            _ => Some(()),
        }
    }

    /// These parts were to leave by the lane of this worker, which is lost.
    fn lose_unsettled(&self, file: &Arc<Striped>, lost: Lost) {
        self.lose_with(self.lane.number, file, lost);
    }

    fn lose_with(&self, lane: u8, file: &Arc<Striped>, lost: Lost) {
        let Some(stripes) = &self.readers.stripes else { return };
        file.lose_unsettled(lost);
        self.readers.lanes.unsent(lane, stripes.on_settled(file));
    }

    /// Tells the end of a file that went over these lanes. `None` if the job ends.
    pub(super) fn end_stripes(
        &mut self,
        file: &Arc<Striped>,
        result: Result<FileSeal, Fault>,
        lanes: u8,
    ) -> Option<()> {
        self.offers_again(&file.item, &result);
        self.sender.hashed(&file.item, &result);
        let first = self.lane.number;
        for lane in lanes_of(lanes).filter(|lane| *lane != first) {
            // All that goes over it of this file is queued.
            let outbox = self.readers.lanes.outbox(lane);
            let mut frame = OutFrame::message(&lane_end(file, lane));
            if let (Some(stripes), 1..) = (&self.readers.stripes, lane) {
                frame = frame.or_lost(stripes.on_part_lost(file, StripePart::LaneEnd(lane)));
            }
            if outbox.and_then(|outbox| outbox.send(frame)).is_none() {
                if lane == 0 || self.control.stopped() {
                    return None;
                }
                self.lose_with(lane, file, Lost { lanes: 1 << lane, ..Lost::default() });
            }
        }
        loop {
            let own = 1 << self.lane.number;
            let told = if lanes == own { 0 } else { lanes };
            file.ends_with(&result, told);
            let end = FileEnd { index: file.item.index, result: result.clone(), lanes: told };
            // The first one has no other end on this lane: it stands for that, too.
            let stands_for = if self.lane.number == first { own & lanes } else { 0 };
            let part = StripePart::End(stands_for & told);
            if self.send_part(file, part, &Message::FileEnd(end)).is_some() {
                break;
            }
            if !self.has_lost_lane() {
                return None;
            }
            if stands_for != 0 {
                self.lose_unsettled(file, Lost { lanes: stands_for, ..Lost::default() });
            }
            self.take_lane(0, false)?;
        }
        if file.end() {
            self.readers.go_on_with(file);
        }
        Some(())
    }
}

fn lane_end(file: &Striped, lane: u8) -> Message {
    Message::LaneEnd(LaneEnd { index: file.item.index, lane })
}

/// The lanes in a set of bits.
fn lanes_of(set: u8) -> impl Iterator<Item = u8> {
    (0..u8::BITS as u8).filter(move |lane| set & (1 << lane) != 0)
}

#[cfg(test)]
#[path = "repeats_tests.rs"]
mod tests;
