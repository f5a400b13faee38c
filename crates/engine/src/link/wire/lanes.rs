//! Chooses the connection for each content of a Sender: lane 0, the wire of the job, or a lane that
//! has joined. A worker takes a lane for each pack, each file and each block of a large file. A
//! slower lane gets less. On a long link, and over several logins, a block waits for a free lane.
//! If a joined lane is lost, the Receiver reports the frames that it has from it. The rest is sent
//! over other lanes.

use super::compression_control::Effort;
use super::ledger::{Implausible, OnFate};
use super::outgoing::{Frames, Outbox};
use crate::control::{CANCEL_POLL, Control};
use haul_model::BLOCK_LEN;
use haul_net::Killer;
use haul_proto::{LANES_MAX, LaneOver, Message, PACK_TARGET, Taken};
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A lane over which contents are sent.
#[derive(Clone)]
pub(crate) struct Lane {
    /// Its number.
    pub(crate) number: u8,
    /// The queue of its frames.
    pub(crate) outbox: Arc<Outbox>,
    /// The approximate length of a pack on this lane, in bytes.
    pub(crate) pack_len: usize,
    /// Set in a worker's copy. The lane is held until the copy is dropped.
    _held: Option<Arc<()>>,
}

impl Lane {
    /// A new lane.
    pub(crate) fn new(number: u8, outbox: Arc<Outbox>) -> Self {
        Self { number, outbox, pack_len: PACK_TARGET, _held: None }
    }

    /// The same lane with the pack length for a long round trip. A pack is so short that a slow
    /// lane does not delay the end of the job.
    fn with_short_packs(&self) -> Self {
        let len = self.outbox.flow().within(PACK_TIME).unwrap_or(0);
        let pack_len = len.clamp(PACK_LEN_MIN, PACK_TARGET as u64) as usize;
        Self { pack_len, ..self.clone() }
    }

    /// The lane for a worker. It is held until this value is dropped.
    fn held(self) -> Self {
        Self { _held: Some(Arc::clone(&self.outbox.held)), ..self }
    }

    /// True if no worker holds the lane and at most [`FREE_QUEUE_MAX`] frames wait for its writer.
    fn is_free(&self) -> bool {
        Arc::strong_count(&self.outbox.held) == 1 && self.outbox.waiting() <= FREE_QUEUE_MAX
    }

    /// True if a block would be sent within [`QUICK_TIME`], including everything queued before it.
    /// Waiting for another lane would save nothing.
    fn is_quick(&self) -> bool {
        self.outbox.flow().written() >= BUFFERED_MAX && self.due(BLOCK_LEN) <= QUICK_TIME
    }

    /// True if a block on this lane would finish last and delay the end of the job. That is so if
    /// the `others` would send all that is `left`, in whole blocks, within half of the block's
    /// time. Half, because a pace is measured over the last frames only, and changes. If the worker
    /// has already `waited` that long, the others have stalled, and the result is false.
    fn delays_end<'l>(
        &self,
        others: impl Iterator<Item = &'l Self>,
        left: u64,
        waited: Duration,
    ) -> bool {
        if self.outbox.flow().pace().is_none() {
            return false;
        }
        let time = self.due(BLOCK_LEN) / 2;
        let blocks = |lane: &Self| lane.outbox.flow().capacity_within(time) / BLOCK_LEN;
        waited < time && others.map(blocks).sum::<u64>() >= left.div_ceil(BLOCK_LEN)
    }

    /// The number of unconfirmed contents on this lane, including queued ones.
    fn unconfirmed(&self) -> usize {
        self.outbox.ledger.as_ref().map_or(0, |ledger| ledger.unconfirmed())
    }

    /// True if everything on this lane has arrived, no worker holds it, and its pace is known.
    fn is_idle(&self) -> bool {
        let is_held = Arc::strong_count(&self.outbox.held) > 1;
        let flow = self.outbox.flow();
        !is_held && flow.is_empty() && self.unconfirmed() == 0 && flow.pace().is_some()
    }

    /// The time until `len` more bytes have left, at the current pace.
    fn due(&self, len: u64) -> Duration {
        self.outbox.flow().due(len)
    }

    fn due_of_pack(&self) -> Duration {
        self.due(self.pack_len as u64)
    }
}

/// A round trip from which a new connection is slow at first, and processors are not the
/// bottleneck. Then all lanes are called at once. The wire of the job carries contents too: blocks
/// to the end, smaller contents until a lane is faster.
pub(crate) const LONG_ROUND_TRIP: Duration = Duration::from_millis(15);

/// The longest time for a pack on a long link or over several logins, and its minimum length in
/// bytes.
const PACK_TIME: Duration = Duration::from_millis(100);
const PACK_LEN_MIN: u64 = 128 << 10;

/// The most frames that may wait for a free lane. Its writer is busy with them until a block
/// arrives.
const FREE_QUEUE_MAX: usize = 1;

/// The interval at which a waiting block checks for a free lane.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// If a block needs at most this time on a lane, it does not wait for another one: it would be sent
/// after a few checks.
const QUICK_TIME: Duration = Duration::from_millis(20);

/// Minimum time that a lane with the last blocks of a job must need, or stall, before it is cut. A
/// connection takes about as long to recover from a loss, and repeated blocks cost something.
const NEEDED_MIN: Duration = Duration::from_secs(1);

/// The most bytes in pipes, ssh and sockets. Further bytes that a lane has accepted have crossed
/// the link.
const BUFFERED_MAX: u64 = 8 << 20;

/// Minimum content per lane to a distant host, in bytes: a lane takes several round trips to become
/// fast. The caller counts content before compression, because its ratio is not known yet.
/// [`Lanes::lanes_worth_using`] counts compressed bytes.
pub(crate) const FAR_LANE_LEN: u64 = 16 << 20;

/// A content to be sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    /// Its approximate length, in bytes.
    pub(crate) len: u64,
    /// It is a block, or a plain content of at least that length. It waits for a free lane, and
    /// holds it.
    pub(crate) is_block: bool,
    /// The length of all contents that the job has requested so far, in bytes.
    pub(crate) of_job: u64,
}

/// The contents that use the wire of the job instead of a joined lane.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum ByWire {
    /// All while no lane has joined, and afterwards those for which that is useful.
    #[default]
    Any,
    /// All: the wire is a connection like the lanes.
    AsALane,
    /// The first contents, and all if no lane joins: the wire passes through a third machine.
    First,
    /// None.
    Nothing,
}

impl ByWire {
    /// The contents that use the wire if there may be direct connections: none if those are
    /// required. The wire is like them if it `is_direct` itself.
    pub(crate) fn with_direct(is_required: bool, is_direct: bool) -> Self {
        match (is_required, is_direct) {
            (true, _) => Self::Nothing,
            (false, true) => Self::AsALane,
            (false, false) => Self::Any,
        }
    }
}

/// Content between two hosts that always passes through this machine, in bytes. It is not worth a
/// direct connection.
pub const RELAYED_FIRST: u64 = 2 << 20;

/// The longest wait of content for the first lane after that.
const AWAITED_MAX: Duration = Duration::from_secs(1);

/// The lanes of a Sender.
pub(crate) struct Lanes {
    main: Lane,
    by_wire: ByWire,
    /// Content has waited for a lane to join.
    is_awaited: AtomicBool,
    /// Content waits no longer for a lane, unless it must.
    has_waited: AtomicBool,
    /// The round trip is long.
    is_long: AtomicBool,
    /// A lane like the wire of the job has joined, so the wire carries contents too.
    has_equal_lane: AtomicBool,
    joined: Mutex<Vec<Lane>>,
    has_joined: Condvar,
    /// All lanes that ever joined, by number.
    known: Mutex<BTreeMap<u8, (Arc<Outbox>, Killer)>>,
}

impl Lanes {
    /// Lane 0 alone, for the contents in `by_wire`.
    pub(crate) fn new(main: Arc<Outbox>, by_wire: ByWire) -> Self {
        Self {
            main: Lane::new(0, main),
            by_wire,
            is_awaited: AtomicBool::new(false),
            has_waited: AtomicBool::new(false),
            is_long: AtomicBool::new(false),
            has_equal_lane: AtomicBool::new(by_wire == ByWire::AsALane),
            joined: Mutex::default(),
            has_joined: Condvar::new(),
            known: Mutex::default(),
        }
    }

    /// The wire of the job.
    pub(crate) fn main(&self) -> Lane {
        self.main.clone()
    }

    /// The lane for the next content of `worker`; `None` if the job ends first. For a block, the
    /// lane is held until it is dropped. **A worker must drop its last lane first**, or it may wait
    /// for itself.
    pub(crate) fn of(&self, worker: usize, load: Load, control: &Control<'_>) -> Option<Lane> {
        let begin = Instant::now();
        let mut joined = self.joined.lock();
        loop {
            let lane = match joined.is_empty() {
                false => self.soonest(&joined, worker, load, begin.elapsed()),
                true => self.wire_takes(load.len).then(|| self.main.clone()),
            };
            if let Some(lane) = lane {
                // A worker that reads more than it sends must not hold a lane.
                return Some(if load.is_block { lane.held() } else { lane });
            }
            if control.stopped() {
                return None;
            }
            let timeout = if joined.is_empty() {
                self.is_awaited.store(true, Ordering::Relaxed);
                if begin.elapsed() >= AWAITED_MAX {
                    self.stop_waiting();
                }
                CANCEL_POLL
            } else {
                POLL_INTERVAL
            };
            self.has_joined.wait_for(&mut joined, timeout);
        }
    }

    /// True if the wire of the job takes `len` bytes while no lane has joined.
    fn wire_takes(&self, len: u64) -> bool {
        match self.by_wire {
            ByWire::Any | ByWire::AsALane => true,
            ByWire::First if self.has_waited.load(Ordering::Relaxed) => true,
            ByWire::First => self.main.outbox.flow().all().saturating_add(len) <= RELAYED_FIRST,
            ByWire::Nothing => false,
        }
    }

    /// True if content has waited for a lane, so that a call is worthwhile.
    pub(crate) fn is_awaited(&self) -> bool {
        self.is_awaited.load(Ordering::Relaxed)
    }

    /// Ends the wait for the first lane, because it has joined or never will. Content that must not
    /// use the wire still waits.
    pub(crate) fn stop_waiting(&self) {
        self.has_waited.store(true, Ordering::Relaxed);
        self.has_joined.notify_all();
    }

    /// The lane that sends this content soonest. Among equal lanes, each worker prefers another
    /// one. `None` for a block if every lane has one, or if the lane would delay the end of the
    /// job. The worker has `waited` this long.
    fn soonest(
        &self,
        joined: &[Lane],
        worker: usize,
        load: Load,
        waited: Duration,
    ) -> Option<Lane> {
        let has_equal_lane = self.has_equal_lane.load(Ordering::Relaxed);
        let is_long = self.is_long.load(Ordering::Relaxed);
        let is_far = is_long && !has_equal_lane;
        let count = if is_far { self.lanes_worth_using(joined, load.of_job) } else { joined.len() };
        let joined = &joined[..count];
        let (before, from) = joined.split_at(worker % count);
        let lanes = from.iter().chain(before);
        if !is_long && !has_equal_lane {
            return lanes.min_by_key(|lane| lane.due_of_pack()).cloned();
        }
        let is_taken = matches!(self.by_wire, ByWire::Any | ByWire::AsALane);
        let main = is_taken.then_some(&self.main);
        if load.is_block {
            // The first bytes of a new connection fill buffers and do not show its pace, and a
            // block can't change its lane. So a lane gets a block only when its last one is nearly
            // sent, and if the block would not delay the end.
            let takes = |lane: &&Lane| lane.is_free() || !is_long && lane.is_quick();
            let free = lanes.clone().chain(main).filter(takes);
            let lane = free.min_by_key(|lane| lane.due(BLOCK_LEN))?;
            let others = lanes.chain(main).filter(|other| other.number != lane.number);
            let left = self.unqueued_len(joined, load.of_job);
            return (!lane.delays_end(others, left, waited)).then(|| lane.clone());
        }
        let main = main.filter(|_| has_equal_lane || !self.is_slower_than_lanes(joined));
        lanes.chain(main).map(Lane::with_short_packs).min_by_key(Lane::due_of_pack)
    }

    /// Bytes of requested content that are not queued yet, at least one block.
    fn unqueued_len(&self, joined: &[Lane], asked_for: u64) -> u64 {
        let content = |lane: &Lane| lane.outbox.flow().content();
        let queued = joined.iter().chain([&self.main]).map(content).sum();
        asked_for.saturating_sub(queued).max(BLOCK_LEN)
    }

    /// True if a joined lane is faster than the wire of the job.
    fn is_slower_than_lanes(&self, joined: &[Lane]) -> bool {
        let pace = |lane: &Lane| lane.outbox.flow().pace();
        let fastest = joined.iter().filter_map(pace).min();
        fastest.is_some() && pace(&self.main) > fastest
    }

    /// The number of lanes, in the order of joining, that `asked_for` bytes are worth, assuming the
    /// compression ratio so far.
    fn lanes_worth_using(&self, joined: &[Lane], asked_for: u64) -> usize {
        let (mut content, mut leaves) = (0_u64, 0_u64);
        for lane in joined.iter().chain([&self.main]) {
            content += lane.outbox.flow().content();
            leaves += lane.outbox.flow().all();
        }
        // The caller's count is right if nothing was sent yet, or if content shrinks little.
        if leaves > content / 2 || content == 0 {
            return joined.len();
        }
        let leaves = u128::from(asked_for) * u128::from(leaves) / u128::from(content);
        let count = 1 + leaves / u128::from(FAR_LANE_LEN);
        joined.len().min(count.try_into().unwrap_or(usize::MAX))
    }

    /// The compression of the next frame on `lane`, if any. The queue of a new lane is empty even
    /// on a slow link, so an empty queue counts only if all are empty.
    pub(crate) fn effort(&self, lane: &Lane) -> Option<Effort> {
        let waiting = match lane.outbox.waiting() {
            0 => usize::from(self.are_waiting()),
            many => many,
        };
        self.main.outbox.compression_control.effort(waiting)
    }

    fn are_waiting(&self) -> bool {
        let joined = self.joined.lock();
        joined.iter().chain([&self.main]).any(|lane| lane.outbox.waiting() > 0)
    }

    /// A queue for another lane, with the compression of lane 0, and its end for the writer.
    pub(crate) fn sibling(&self) -> (Arc<Outbox>, Frames) {
        self.main.outbox.sibling()
    }

    /// Registers a lane that is about to join. `killer` ends it.
    pub(crate) fn expect(&self, lane: &Lane, killer: Killer) {
        self.known.lock().insert(lane.number, (Arc::clone(&lane.outbox), killer));
    }

    /// Uses this lane for contents from now on. `round_trip` is its round trip, or `None` for a
    /// connection like the wire of the job. Returns the number of joined lanes.
    pub(crate) fn join(&self, lane: Lane, round_trip: Option<Duration>) -> usize {
        let is_long = round_trip.is_some_and(|time| time >= LONG_ROUND_TRIP);
        self.is_long.fetch_or(is_long, Ordering::Relaxed);
        self.has_equal_lane.fetch_or(round_trip.is_none(), Ordering::Relaxed);
        let mut joined = self.joined.lock();
        // A lane that was lost meanwhile is already closed.
        if !lane.outbox.is_closed() {
            joined.push(lane);
        }
        // Only now, or waiting content would use the wire.
        self.stop_waiting();
        joined.len()
    }

    /// Processes the Receiver's report about a lane.
    ///
    /// # Errors
    /// When the report can't be true.
    pub(crate) fn taken(&self, taken: Taken) -> Result<(), Implausible> {
        let Taken { lane, frames, is_over } = taken;
        if !(1..=LANES_MAX).contains(&lane) {
            return Err(Implausible("it named an unknown lane"));
        }
        // A lane that the Receiver accepted may never have joined here.
        let ledger = self.known.lock().get(&lane).and_then(|(outbox, _)| outbox.ledger.clone());
        if let Some(ledger) = ledger {
            ledger.taken(frames, is_over)?;
        }
        if is_over {
            self.end(lane);
        }
        Ok(())
    }

    /// Handles the end of a lane's writer: contents that the Receiver does not confirm are sent
    /// again. Returns the number of remaining lanes; `None` if the job ends first.
    pub(crate) fn lose(&self, number: u8, frames: Frames, control: &Control<'_>) -> Option<usize> {
        let outbox = self.end(number)?;
        frames.lose();
        if control.stopped() {
            return None;
        }
        tracing::debug!(lane = number, "a lane is lost");
        self.main.outbox.send_message(&Message::LaneOver(LaneOver { lane: number }));
        let ledger = outbox.ledger.as_ref()?;
        while !ledger.is_over_within(CANCEL_POLL) {
            if control.stopped() {
                return None;
            }
        }
        ledger.settle();
        Some(self.joined.lock().len())
    }

    /// Adds a content that never left its lost lane. `on_fate` is called together with the other
    /// losses.
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

    /// Ends lane `number` if it is too slow for the last blocks of a job. That is so if another
    /// idle lane would send them in less than half of the time, and had that time while this lane
    /// stalled. On a short link a disk is the bottleneck, and no other lane is faster.
    pub(crate) fn cut_if_slow(&self, number: u8) {
        if !self.is_long.load(Ordering::Relaxed) && !self.has_equal_lane.load(Ordering::Relaxed) {
            return;
        }
        let is_slow = {
            let joined = self.joined.lock();
            let Some(lane) = joined.iter().find(|lane| lane.number == number) else { return };
            let blocks = lane.unconfirmed().max(1) as u64;
            let free = joined.iter().filter(|lane| lane.is_idle());
            let sooner = free.map(|free| free.due(blocks * BLOCK_LEN)).min();
            sooner.is_some_and(|time| lane.outbox.flow().needs(NEEDED_MIN.max(time * 2)))
        };
        if is_slow {
            tracing::debug!(lane = number, "a slow lane is ended");
            self.end(number);
        }
    }

    /// Ends a lane. It gets no more content, and unconfirmed content is lost.
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
