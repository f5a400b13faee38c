//! The connections over which a Sender's contents leave: lane 0, the wire of the job, and
//! those that have joined it. Whoever sends takes one for each pack, each file and each
//! block of a large one; a lane that takes less gets less. On a long way, and over several
//! logins, a block waits until a lane is free. If one that has joined is lost,
//! the receiver reports what it has of it, and the rest is sent over the others.

use super::ledger::{Implausible, OnFate};
use super::outgoing::{Frames, Outbox};
use super::squeeze::Effort;
use crate::control::{CANCEL_POLL, Control};
use haul_model::BLOCK_LEN;
use haul_net::Killer;
use haul_proto::{LANES_MAX, LaneOver, Message, PACK_TARGET, Taken};
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A lane that contents leave by.
#[derive(Clone)]
pub(crate) struct Lane {
    /// Its number.
    pub(crate) number: u8,
    /// The queue of the frames that leave by it.
    pub(crate) outbox: Arc<Outbox>,
    /// Small files go by it in packs of about so many bytes.
    pub(crate) pack_len: usize,
    /// Set in the copy that a worker has: the lane is held until that is dropped.
    _held: Option<Arc<()>>,
}

impl Lane {
    /// A lane of which nothing is known yet.
    pub(crate) fn new(number: u8, outbox: Arc<Outbox>) -> Self {
        Self { number, outbox, pack_len: PACK_TARGET, _held: None }
    }

    /// The same as one of a long round trip: a pack is so short that the end of a job does
    /// not wait for a slow lane.
    fn for_a_moment(&self) -> Self {
        let len = self.outbox.flow().within(PACK_TIME).unwrap_or(0);
        let pack_len = len.clamp(PACK_LEN_MIN, PACK_TARGET as u64) as usize;
        Self { pack_len, ..self.clone() }
    }

    /// The lane as a worker has it: held until this is dropped.
    fn held(self) -> Self {
        Self { _held: Some(Arc::clone(&self.outbox.held)), ..self }
    }

    /// True if no worker holds it, and at most [`WAITING_FEW`] frames wait for its writer.
    fn is_free(&self) -> bool {
        Arc::strong_count(&self.outbox.held) == 1 && self.outbox.waiting() <= WAITING_FEW
    }

    /// True if a block is sent within [`QUICK_TIME`], with all that waits before it: to wait for
    /// another lane saves nothing.
    fn is_quick(&self) -> bool {
        self.outbox.flow().written() >= BUFFERED_MAX && self.due(BLOCK_LEN) <= QUICK_TIME
    }

    /// True if a block by it would be what the job ends with: in half of its time all that is
    /// `left` would be sent by the `others`, in whole blocks. Half, since a pace is that of the
    /// last frames, and changes; one that is as slow never counts. Whoever has `waited` so long
    /// for them waits in vain: they have stalled.
    fn holds_up<'l>(
        &self,
        others: impl Iterator<Item = &'l Self>,
        left: u64,
        waited: Duration,
    ) -> bool {
        if self.outbox.flow().pace().is_none() {
            return false;
        }
        let time = self.due(BLOCK_LEN) / 2;
        let blocks = |lane: &Self| lane.outbox.flow().room_within(time) / BLOCK_LEN;
        waited < time && others.map(blocks).sum::<u64>() >= left.div_ceil(BLOCK_LEN)
    }

    /// Contents that have left by it, or wait, and are not known to have arrived.
    fn on_their_way(&self) -> usize {
        self.outbox.ledger.as_ref().map_or(0, |ledger| ledger.on_their_way())
    }

    /// True if all that it had has arrived, nobody is about to give it more, and its pace is known.
    fn has_nothing_to_do(&self) -> bool {
        let is_held = Arc::strong_count(&self.outbox.held) > 1;
        let flow = self.outbox.flow();
        !is_held && flow.is_empty() && self.on_their_way() == 0 && flow.pace().is_some()
    }

    /// The time until so many bytes more have left by it, at its pace so far.
    fn due(&self, len: u64) -> Duration {
        self.outbox.flow().due(len)
    }

    fn due_of_pack(&self) -> Duration {
        self.due(self.pack_len as u64)
    }
}

/// From this time on that a message takes there and back, a connection is slow to begin with,
/// and no processor is what is short: then all are called at once, and the wire of the job
/// carries contents, too: blocks to the end, what is smaller until a lane is faster.
pub(crate) const LONG_ROUND_TRIP: Duration = Duration::from_millis(15);

/// The time that a pack may take where the way is long, or over one of several logins, and its
/// least length in bytes.
const PACK_TIME: Duration = Duration::from_millis(100);
const PACK_LEN_MIN: u64 = 128 << 10;

/// The frames that may wait for a lane that is free: its writer sends them until a block comes.
const WAITING_FEW: usize = 1;

/// The time after which a block that waits looks again if a lane is free.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// A block that takes a lane no longer than this doesn't wait for another: it would be sent when
/// it has looked a few times.
const QUICK_TIME: Duration = Duration::from_millis(20);

/// The time that a lane may need at least, or stall, when it has the last blocks of a job:
/// a connection that has lost what it sent takes as long to find out, and to repeat blocks costs
/// something, too.
const NEEDED_MIN: Duration = Duration::from_secs(1);

/// No more than so many bytes are in pipes, ssh and sockets: what a lane has taken beyond that
/// has crossed the link.
const BUFFERED_MAX: u64 = 8 << 20;

/// Content that a lane to a host far away is worth, in bytes: it takes several round trips until
/// it is fast. Who calls for it counts content as it is, for nobody knows yet how far that
/// shrinks; [`Lanes::worth`] counts what leaves.
pub(crate) const FAR_LANE_LEN: u64 = 16 << 20;

/// Content that is to be sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    /// Its length, in bytes, about.
    pub(crate) len: u64,
    /// It is a block, or as long as one, and sent as it is: it waits for a lane that is free, and
    /// holds that.
    pub(crate) is_block: bool,
    /// The length of all content that the job has been asked for so far.
    pub(crate) of_job: u64,
}

/// The contents that take the wire of the job, and not a lane that has joined.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum ByWire {
    /// All as long as none has joined, and some where that pays.
    #[default]
    Any,
    /// All: it is a connection like the lanes.
    AsALane,
    /// The first of them, and all if none joins: it leads through a third machine.
    First,
    /// None.
    Nothing,
}

impl ByWire {
    /// The contents that take the wire where there may be direct connections: none if these are
    /// required. The wire is like them if it `is_direct` itself.
    pub(crate) fn beside_direct(is_required: bool, is_direct: bool) -> Self {
        match (is_required, is_direct) {
            (true, _) => Self::Nothing,
            (false, true) => Self::AsALane,
            (false, false) => Self::Any,
        }
    }
}

/// Content from one host to another that passes through a third machine as a matter of
/// course, in bytes: it is worth no connection of its own.
pub const RELAYED_FIRST: u64 = 2 << 20;

/// How long content waits then for a lane to join.
const AWAITED_MAX: Duration = Duration::from_secs(1);

/// The lanes of a Sender.
pub(crate) struct Lanes {
    main: Lane,
    by_wire: ByWire,
    /// Content has waited for a lane to join.
    is_awaited: AtomicBool,
    /// Nothing waits for that any more, unless it has to.
    has_waited: AtomicBool,
    /// It takes long for a message to come back.
    is_long: AtomicBool,
    /// A lane like the wire of the job has joined: that carries contents, too.
    has_alike: AtomicBool,
    joined: Mutex<Vec<Lane>>,
    has_joined: Condvar,
    /// All that have ever joined, by their numbers.
    known: Mutex<BTreeMap<u8, (Arc<Outbox>, Killer)>>,
}

impl Lanes {
    /// Lane 0 alone, by which these contents go.
    pub(crate) fn new(main: Arc<Outbox>, by_wire: ByWire) -> Self {
        let main = Lane::new(0, main);
        let (joined, has_joined) = (Mutex::default(), Condvar::new());
        let has_alike = AtomicBool::new(by_wire == ByWire::AsALane);
        let is_long = AtomicBool::new(false);
        let (is_awaited, has_waited) = (AtomicBool::new(false), AtomicBool::new(false));
        Self {
            main,
            by_wire,
            is_awaited,
            has_waited,
            is_long,
            has_alike,
            joined,
            has_joined,
            known: Mutex::default(),
        }
    }

    /// The wire of the job.
    pub(crate) fn main(&self) -> Lane {
        self.main.clone()
    }

    /// The lane for the next content of this worker; `None` if the job ends before there is one.
    /// For a block it is held until it is dropped: **a worker lets go of its last lane before it
    /// asks**, or it may wait for itself.
    pub(crate) fn of(&self, worker: usize, load: Load, control: &Control<'_>) -> Option<Lane> {
        let begin = Instant::now();
        let mut joined = self.joined.lock();
        loop {
            let lane = match joined.is_empty() {
                false => self.soonest(&joined, worker, load, begin.elapsed()),
                true => self.wire_takes(load.len).then(|| self.main.clone()),
            };
            if let Some(lane) = lane {
                // Whoever reads more than it sends holds up no block of others.
                return Some(if load.is_block { lane.held() } else { lane });
            }
            if control.stopped() {
                return None;
            }
            let patience = if joined.is_empty() {
                self.is_awaited.store(true, Ordering::Relaxed);
                if begin.elapsed() >= AWAITED_MAX {
                    self.await_no_more();
                }
                CANCEL_POLL
            } else {
                LOOK_AGAIN
            };
            self.has_joined.wait_for(&mut joined, patience);
        }
    }

    /// True if the wire of the job takes so many bytes while no lane has joined.
    fn wire_takes(&self, len: u64) -> bool {
        match self.by_wire {
            ByWire::Any | ByWire::AsALane => true,
            ByWire::First if self.has_waited.load(Ordering::Relaxed) => true,
            ByWire::First => self.main.outbox.flow().all().saturating_add(len) <= RELAYED_FIRST,
            ByWire::Nothing => false,
        }
    }

    /// True if content has waited for a lane to join, and such a call is worth it.
    pub(crate) fn is_awaited(&self) -> bool {
        self.is_awaited.load(Ordering::Relaxed)
    }

    /// Content waits no more for the first lane to join, unless it has to: none does, or one
    /// has.
    pub(crate) fn await_no_more(&self) {
        self.has_waited.store(true, Ordering::Relaxed);
        self.has_joined.notify_all();
    }

    /// The lane that sends this content soonest; of equal ones each worker has its own.
    /// `None` if it is a block, and every lane has one, or would hold up the end of the job; it
    /// has `waited` so long for another.
    fn soonest(
        &self,
        joined: &[Lane],
        worker: usize,
        load: Load,
        waited: Duration,
    ) -> Option<Lane> {
        let has_alike = self.has_alike.load(Ordering::Relaxed);
        let is_long = self.is_long.load(Ordering::Relaxed);
        let is_far = is_long && !has_alike;
        let count = if is_far { self.worth(joined, load.of_job) } else { joined.len() };
        let joined = &joined[..count];
        let (before, from) = joined.split_at(worker % count);
        let lanes = from.iter().chain(before);
        if !is_long && !has_alike {
            return lanes.min_by_key(|lane| lane.due_of_pack()).cloned();
        }
        let is_taken = matches!(self.by_wire, ByWire::Any | ByWire::AsALane);
        let main = is_taken.then_some(&self.main);
        if load.is_block {
            // The first bytes of a new connection fill buffers and do not show its pace, and a
            // block that one lane has can't go by another. So a lane gets a block when its last
            // one is nearly gone, and none for which all would wait at the end.
            let takes = |lane: &&Lane| lane.is_free() || !is_long && lane.is_quick();
            let free = lanes.clone().chain(main).filter(takes);
            let lane = free.min_by_key(|lane| lane.due(BLOCK_LEN))?;
            let others = lanes.chain(main).filter(|other| other.number != lane.number);
            let left = self.left_of(joined, load.of_job);
            return (!lane.holds_up(others, left, waited)).then(|| lane.clone());
        }
        let main = main.filter(|_| has_alike || !self.is_outrun(joined));
        lanes.chain(main).map(Lane::for_a_moment).min_by_key(Lane::due_of_pack)
    }

    /// Bytes of content, at least a block, that were asked for and are not queued yet.
    fn left_of(&self, joined: &[Lane], asked_for: u64) -> u64 {
        let content = |lane: &Lane| lane.outbox.flow().content();
        let queued = joined.iter().chain([&self.main]).map(content).sum();
        asked_for.saturating_sub(queued).max(BLOCK_LEN)
    }

    /// True if one of those that have joined is faster than the wire of the job.
    fn is_outrun(&self, joined: &[Lane]) -> bool {
        let pace = |lane: &Lane| lane.outbox.flow().pace();
        let fastest = joined.iter().filter_map(pace).min();
        fastest.is_some() && pace(&self.main) > fastest
    }

    /// The number of lanes, the first of those that have joined, that `asked_for` bytes of content
    /// are worth, if these shrink as far as what was sent.
    fn worth(&self, joined: &[Lane], asked_for: u64) -> usize {
        let (mut content, mut leaves) = (0_u64, 0_u64);
        for lane in joined.iter().chain([&self.main]) {
            content += lane.outbox.flow().content();
            leaves += lane.outbox.flow().all();
        }
        // Nothing was sent yet, or it shrinks so little that the caller has counted well.
        if leaves > content / 2 || content == 0 {
            return joined.len();
        }
        let leaves = u128::from(asked_for) * u128::from(leaves) / u128::from(content);
        let count = 1 + leaves / u128::from(FAR_LANE_LEN);
        joined.len().min(count.try_into().unwrap_or(usize::MAX))
    }

    /// How the next frame by `lane` is compressed, if it is to be. A lane that is new has an
    /// empty queue however slow the link is: that counts only where all are empty.
    pub(crate) fn effort(&self, lane: &Lane) -> Option<Effort> {
        let waiting = match lane.outbox.waiting() {
            0 => usize::from(self.are_waiting()),
            many => many,
        };
        self.main.outbox.squeeze.effort(waiting)
    }

    fn are_waiting(&self) -> bool {
        let joined = self.joined.lock();
        joined.iter().chain([&self.main]).any(|lane| lane.outbox.waiting() > 0)
    }

    /// A queue for another lane, which compresses as lane 0 does, and its end for the
    /// writer.
    pub(crate) fn beside(&self) -> (Arc<Outbox>, Frames) {
        self.main.outbox.beside()
    }

    /// A lane is about to join, which `killer` ends.
    pub(crate) fn expect(&self, lane: &Lane, killer: Killer) {
        self.known.lock().insert(lane.number, (Arc::clone(&lane.outbox), killer));
    }

    /// Contents take this lane, too, from now on, whose other end answers within
    /// `round_trip`; without one it is a connection like the wire of the job. Gives how many
    /// have joined.
    pub(crate) fn join(&self, lane: Lane, round_trip: Option<Duration>) -> usize {
        let is_long = round_trip.is_some_and(|time| time >= LONG_ROUND_TRIP);
        self.is_long.fetch_or(is_long, Ordering::Relaxed);
        self.has_alike.fetch_or(round_trip.is_none(), Ordering::Relaxed);
        let mut joined = self.joined.lock();
        // One that was lost meanwhile is closed before it leaves.
        if !lane.outbox.is_closed() {
            joined.push(lane);
        }
        // Not before it is there: content that waits would take the wire.
        self.await_no_more();
        joined.len()
    }

    /// The receiver reports how much it has of a lane.
    ///
    /// # Errors
    /// When that can't be.
    pub(crate) fn taken(&self, taken: Taken) -> Result<(), Implausible> {
        let Taken { lane, frames, is_over } = taken;
        if !(1..=LANES_MAX).contains(&lane) {
            return Err(Implausible("it named an unknown lane"));
        }
        // One that it was called by may never have joined here.
        let ledger = self.known.lock().get(&lane).and_then(|(outbox, _)| outbox.ledger.clone());
        if let Some(ledger) = ledger {
            ledger.taken(frames, is_over)?;
        }
        if is_over {
            self.end(lane);
        }
        Ok(())
    }

    /// The writer of a lane has ended: has all sent again of which the receiver does not say
    /// that it has come. Gives how many lanes are left; `None` if the job ends before.
    pub(crate) fn lose(&self, number: u8, frames: Frames, control: &Control<'_>) -> Option<usize> {
        let outbox = self.end(number)?;
        frames.lose();
        if control.stopped() {
            return None;
        }
        tracing::debug!(lane = number, "a lane is lost");
        self.main.outbox.tell(&Message::LaneOver(LaneOver { lane: number }));
        let ledger = outbox.ledger.as_ref()?;
        while !ledger.is_over_within(CANCEL_POLL) {
            if control.stopped() {
                return None;
            }
        }
        ledger.settle();
        Some(self.joined.lock().len())
    }

    /// Content that was to leave by that lane is lost with it: `on_fate` is called when it is
    /// known what else is.
    pub(crate) fn unsent(&self, number: u8, on_fate: OnFate) {
        let known = self.known.lock().get(&number).map(|(outbox, _)| Arc::clone(outbox));
        let ledger = known.as_ref().and_then(|outbox| outbox.ledger.as_ref());
        let late = match ledger {
            Some(ledger) => ledger.unsent(on_fate),
            None => Some(on_fate),
        };
        if let Some(on_fate) = late {
            on_fate(false);
        }
    }

    /// Blocks that the lane of that number has are all that is left: ends the lane if another
    /// one with nothing to do would bring them in less than half of the time that they need, and
    /// had time for that while this one stood still. Where the way is short that is for want of
    /// a disk, and no other is faster.
    pub(crate) fn cut_if_slow(&self, number: u8) {
        if !self.is_long.load(Ordering::Relaxed) && !self.has_alike.load(Ordering::Relaxed) {
            return;
        }
        let is_slow = {
            let joined = self.joined.lock();
            let Some(lane) = joined.iter().find(|lane| lane.number == number) else { return };
            let blocks = lane.on_their_way().max(1) as u64;
            let free = joined.iter().filter(|lane| lane.has_nothing_to_do());
            let sooner = free.map(|free| free.due(blocks * BLOCK_LEN)).min();
            sooner.is_some_and(|time| lane.outbox.flow().needs(NEEDED_MIN.max(time * 2)))
        };
        if is_slow {
            tracing::debug!(lane = number, "a slow lane is ended");
            self.end(number);
        }
    }

    /// Ends a lane: no content takes it any more, and what is on its way is lost.
    fn end(&self, number: u8) -> Option<Arc<Outbox>> {
        let known = self.known.lock().get(&number).cloned();
        known.iter().for_each(|(outbox, _)| outbox.close());
        self.joined.lock().retain(|lane| lane.number != number);
        let (outbox, killer) = known?;
        outbox.cut();
        killer.kill();
        killer.kill();
        Some(outbox)
    }
}

#[cfg(test)]
#[path = "lanes_tests.rs"]
mod tests;
