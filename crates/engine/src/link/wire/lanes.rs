//! The connections over which a Sender's contents leave: lane 0, the wire of the job, and
//! those that have joined it. Whoever sends takes one for each pack, each file and each
//! block of a large one; a lane that takes less gets less. If one that has joined is lost,
//! the receiver says what it has of it, and the rest is sent over the others.

use super::flow::Flow;
use super::ledger::{Implausible, OnLoss};
use super::outgoing::{Frames, Outbox};
use super::squeeze::Effort;
use crate::control::{CANCEL_POLL, Control};
use haul_net::Killer;
use haul_proto::{LANES_MAX, LaneOver, Message, PACK_TARGET, Taken};
use haul_tree::lock;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// A lane that contents leave by.
#[derive(Clone)]
pub(crate) struct Lane {
    /// Its number.
    pub(crate) number: u8,
    /// The queue of that which leaves by it.
    pub(crate) outbox: Arc<Outbox>,
    /// Small files go by it in packs of about so many bytes.
    pub(crate) pack_len: usize,
}

impl Lane {
    /// A lane of which nothing is known yet.
    pub(crate) fn new(number: u8, outbox: Arc<Outbox>) -> Self {
        Self { number, outbox, pack_len: PACK_TARGET }
    }

    /// The same as one of a long round trip: a pack is so short that the end of a job does
    /// not wait for a slow lane.
    fn for_a_moment(&self) -> Self {
        let len = self.outbox.flow().within(PACK_TIME).unwrap_or(0);
        let pack_len = len.clamp(PACK_LEN_MIN, PACK_TARGET as u64) as usize;
        Self { pack_len, ..self.clone() }
    }

    fn due(&self) -> Duration {
        self.outbox.flow().due(self.pack_len as u64)
    }
}

/// From this time on that a message takes there and back, a connection is slow to begin with,
/// and no processor is what is short: then all are called at once, and the wire of the job
/// carries contents, too, until one that has joined is faster.
pub(crate) const LONG_ROUND_TRIP: Duration = Duration::from_millis(15);

/// The time that a pack may take on such a lane, and its least length in bytes.
const PACK_TIME: Duration = Duration::from_millis(100);
const PACK_LEN_MIN: u64 = 128 << 10;

/// What leaves by such a lane is as long as this, in bytes, or the lane is not worth it: it takes
/// several round trips until it is fast, and takes from the others what it loses meanwhile.
pub(crate) const FAR_LANE_LEN: u64 = 16 << 20;

/// A content that is to be sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    /// About so many bytes.
    pub(crate) len: u64,
    /// Bytes of all contents that the job was asked for so far.
    pub(crate) of_job: u64,
}

/// The contents that take the wire of the job, and not a lane that has joined.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum ByWire {
    /// All as long as none has joined, and some where that pays.
    #[default]
    Any,
    /// The first of them, and all if none joins: it leads through a third machine.
    First,
    /// None.
    Nothing,
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
    /// Held while the losses of a lane are told: they are seen all or none.
    settling: Mutex<()>,
}

impl Lanes {
    /// Lane 0 alone, by which these contents go.
    pub(crate) fn new(main: Arc<Outbox>, by_wire: ByWire) -> Self {
        let main = Lane::new(0, main);
        let (joined, has_joined) = (Mutex::default(), Condvar::new());
        let (known, settling) = (Mutex::default(), Mutex::default());
        let (is_long, has_alike) = (AtomicBool::new(false), AtomicBool::new(false));
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
            known,
            settling,
        }
    }

    /// The wire of the job.
    pub(crate) fn main(&self) -> Lane {
        self.main.clone()
    }

    /// The lane for the next content of this worker; `None` if the job ends before there is one.
    pub(crate) fn of(&self, worker: usize, load: Load, control: &Control<'_>) -> Option<Lane> {
        let begin = Instant::now();
        let mut joined = lock(&self.joined);
        loop {
            if !joined.is_empty() {
                return Some(self.soonest(&joined, worker, load.of_job));
            }
            if self.wire_takes(load.len) {
                return Some(self.main.clone());
            }
            if control.stopped() {
                return None;
            }
            self.is_awaited.store(true, Ordering::Relaxed);
            if begin.elapsed() >= AWAITED_MAX {
                self.await_no_more();
            }
            joined = match self.has_joined.wait_timeout(joined, CANCEL_POLL) {
                Ok((joined, _)) => joined,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
    }

    /// True if the wire of the job takes so many bytes while no lane has joined.
    fn wire_takes(&self, len: u64) -> bool {
        match self.by_wire {
            ByWire::Any => true,
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

    /// The lane by which a pack is soonest gone; of equal ones each worker has its own. The job
    /// was asked for so many bytes.
    fn soonest(&self, joined: &[Lane], worker: usize, asked_for: u64) -> Lane {
        let (is_long, has_alike) = (&self.is_long, self.has_alike.load(Ordering::Relaxed));
        let is_long = is_long.load(Ordering::Relaxed);
        let joined = match is_long && !has_alike {
            true => &joined[..self.worth(joined, asked_for)],
            false => joined,
        };
        let (before, from) = joined.split_at(worker % joined.len());
        let lanes = from.iter().chain(before);
        if !is_long && !has_alike {
            return lanes.min_by_key(|lane| lane.due()).unwrap_or(&self.main).clone();
        }
        let pace = |lane: &Lane| lane.outbox.flow().pace();
        let fastest = joined.iter().filter_map(pace).min();
        let is_slower = !has_alike && pace(&self.main) > fastest && fastest.is_some();
        let takes_main = self.by_wire == ByWire::Any && !is_slower;
        let main = takes_main.then_some(&self.main);
        let lanes = lanes.chain(main).map(Lane::for_a_moment);
        lanes.min_by_key(Lane::due).unwrap_or_else(|| self.main.clone())
    }

    /// How many of those that have joined, at least one, so many bytes are worth: who called for
    /// them did not know yet how far the content shrinks.
    fn worth(&self, joined: &[Lane], asked_for: u64) -> usize {
        let lanes = || joined.iter().chain([&self.main]);
        let sum = |bytes: fn(&Flow) -> u64| -> u64 {
            lanes().map(|lane| bytes(lane.outbox.flow())).sum()
        };
        let (content, shrunk) = (sum(Flow::content), sum(Flow::all));
        if shrunk >= content {
            return joined.len();
        }
        let leaves = u128::from(asked_for) * u128::from(shrunk) / u128::from(content);
        let lanes = 1 + leaves / u128::from(FAR_LANE_LEN);
        joined.len().min(lanes.try_into().unwrap_or(usize::MAX))
    }

    /// How the next frame by `lane` is compressed, if it is to be. Frames that wait for any lane
    /// show that the link is what is short; one that is new has none.
    pub(crate) fn effort(&self, lane: &Lane) -> Option<Effort> {
        let waiting = match lane.outbox.waiting() {
            0 => usize::from(self.are_waiting()),
            many => many,
        };
        self.main.outbox.squeeze.effort(waiting)
    }

    fn are_waiting(&self) -> bool {
        let joined = lock(&self.joined);
        joined.iter().chain([&self.main]).any(|lane| lane.outbox.waiting() > 0)
    }

    /// A queue for another lane, which compresses as lane 0 does, and its end for the
    /// writer.
    pub(crate) fn beside(&self) -> (Arc<Outbox>, Frames) {
        self.main.outbox.beside()
    }

    /// A lane is about to join, which `killer` ends.
    pub(crate) fn expect(&self, lane: &Lane, killer: Killer) {
        lock(&self.known).insert(lane.number, (Arc::clone(&lane.outbox), killer));
    }

    /// Contents take this lane, too, from now on, whose other end answers within
    /// `round_trip`; without one it is a connection like the wire of the job. Gives how many
    /// have joined.
    pub(crate) fn join(&self, lane: Lane, round_trip: Option<Duration>) -> usize {
        let is_long = round_trip.is_some_and(|time| time >= LONG_ROUND_TRIP);
        self.is_long.fetch_or(is_long, Ordering::Relaxed);
        self.has_alike.fetch_or(round_trip.is_none(), Ordering::Relaxed);
        let mut joined = lock(&self.joined);
        // One that was lost meanwhile is closed before it leaves.
        if !lane.outbox.is_closed() {
            joined.push(lane);
        }
        // Not before it is there: content that waits would take the wire.
        self.await_no_more();
        joined.len()
    }

    /// The queue of the lane of that number, unless that was lost.
    pub(crate) fn outbox(&self, number: u8) -> Option<Arc<Outbox>> {
        if number == 0 {
            return Some(Arc::clone(&self.main.outbox));
        }
        let joined = lock(&self.joined);
        let lane = joined.iter().find(|lane| lane.number == number)?;
        Some(Arc::clone(&lane.outbox))
    }

    /// The receiver tells how much it has of a lane.
    ///
    /// # Errors
    /// When that can't be.
    pub(crate) fn taken(&self, taken: Taken) -> Result<(), Implausible> {
        let Taken { lane, frames, is_over } = taken;
        if !(1..=LANES_MAX).contains(&lane) {
            return Err(Implausible("it speaks of a lane that there is not"));
        }
        let known = lock(&self.known).get(&lane).cloned();
        // One that it was called by may never have joined here.
        let Some((outbox, killer)) = known else { return Ok(()) };
        if let Some(ledger) = &outbox.ledger {
            ledger.taken(frames, is_over)?;
        }
        if is_over {
            outbox.close();
            self.leave(lane);
            outbox.cut();
            killer.kill();
            killer.kill();
        }
        Ok(())
    }

    /// No content takes that lane any more.
    fn leave(&self, number: u8) {
        lock(&self.joined).retain(|lane| lane.number != number);
    }

    /// The writer of a lane has ended: has all sent again of which the receiver does not say
    /// that it has come. Gives how many lanes are left; `None` if the job ends before.
    pub(crate) fn lose(&self, number: u8, frames: Frames, control: &Control<'_>) -> Option<usize> {
        let (outbox, killer) = lock(&self.known).get(&number).cloned()?;
        outbox.close();
        self.leave(number);
        killer.kill();
        killer.kill();
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
        self.at_once(|| ledger.settle());
        Some(lock(&self.joined).len())
    }

    /// Does this while no losses are being told.
    pub(crate) fn at_once<T>(&self, work: impl FnOnce() -> T) -> T {
        let _settling = lock(&self.settling);
        work()
    }

    /// Content that was to leave by that lane is lost with it, and `on_loss` is called when all else
    /// that is lost is known.
    pub(crate) fn unsent(&self, number: u8, on_loss: OnLoss) {
        let known = lock(&self.known).get(&number).map(|(outbox, _)| Arc::clone(outbox));
        let ledger = known.as_ref().and_then(|outbox| outbox.ledger.as_ref());
        let late = match ledger {
            Some(ledger) => ledger.unsent(on_loss),
            None => Some(on_loss),
        };
        if let Some(on_loss) = late {
            on_loss();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::{Body, OutFrame};
    use super::super::squeeze::Left;
    use super::*;
    use crate::monitor::Silent;
    use haul_model::Compression;
    use haul_proto::Caps;

    /// A body of so many bytes that were compressed.
    fn squeezed(len: usize) -> Body {
        Body::Squeezed { bytes: vec![0; len], len, took: Duration::ZERO }
    }

    /// Lanes without one that has joined, and the frames that are queued for the wire.
    fn lanes(by_wire: ByWire) -> (Lanes, Frames) {
        let (main, frames) = Outbox::new(false);
        (Lanes::new(main, by_wire), frames)
    }

    /// The number of the lane for a content of so many bytes.
    fn next_lane(lanes: &Lanes, len: u64, control: &Control<'_>) -> Option<u8> {
        lanes.of(0, Load { len, of_job: len }, control).map(|lane| lane.number)
    }

    /// So many lanes to a host that is far away join.
    fn join_far(lanes: &Lanes, count: u8) -> Vec<Frames> {
        let join = |number| {
            let (outbox, frames) = lanes.beside();
            lanes.join(Lane::new(number, outbox), Some(LONG_ROUND_TRIP));
            frames
        };
        (1..=count).map(join).collect()
    }

    #[test]
    fn what_shrinks_takes_no_more_lanes_than_what_is_left_of_it_is_worth() {
        const MANY: u8 = 4;
        let (lanes, _frames) = lanes(ByWire::Nothing);
        let _lanes_frames = join_far(&lanes, MANY);
        let worth = |len| lanes.worth(&lock(&lanes.joined), len);
        let len = u64::from(MANY) * FAR_LANE_LEN;
        assert_eq!(worth(len), 4, "nothing was sent yet");
        lanes.main.outbox.flow().queued(1000, 1000);
        assert_eq!(worth(len), 4, "it does not shrink");
        lanes.main.outbox.flow().queued(1000, 9000);
        assert_eq!([0, len, 2 * len, 5 * len, u64::MAX].map(worth), [1, 1, 2, 4, 4]);
        // All of them are free; those that are not worth it stay so.
        let load = Load { len: 1, of_job: len };
        let monitor = Silent::default();
        let control = Control::new(&monitor);
        for worker in 0..2 * usize::from(MANY) {
            assert_eq!(lanes.of(worker, load, &control).map(|lane| lane.number), Some(1));
        }
    }

    #[test]
    fn a_lane_that_is_new_does_not_tell_that_the_link_takes_more() {
        let (lanes, _frames) = lanes(ByWire::Any);
        let squeeze = &lanes.main.outbox.squeeze;
        squeeze.wish(Compression::Auto);
        squeeze.allow(Caps::OURS);
        let _lanes_frames = join_far(&lanes, 1);
        let joined = lock(&lanes.joined)[0].clone();
        // From now on an empty queue counts.
        let swallowed = OutFrame::content(vec![1], squeezed(4 << 20));
        let body = swallowed.body.as_ref().expect("a body");
        squeeze.sent(Left::of(body, Instant::now(), Duration::ZERO, false));
        let begin = lanes.effort(&joined).expect("compressed");
        lanes.main.outbox.send(OutFrame::content(vec![1], squeezed(1))).expect("there is room");
        let by_joined = || lanes.effort(&joined).expect("compressed");
        assert!((0..100).all(|_| by_joined() == begin), "the wire of the job is short");
    }

    #[test]
    fn the_first_content_goes_by_the_wire_and_more_waits_for_a_lane() {
        let monitor = Silent::default();
        let control = Control::new(&monitor);
        let (lanes, _frames) = lanes(ByWire::First);
        for _ in 0..2 {
            assert_eq!(next_lane(&lanes, RELAYED_FIRST / 2, &control), Some(0));
            lanes.main.outbox.flow().queued(RELAYED_FIRST as usize / 2, 0);
        }
        assert!(!lanes.is_awaited());
        std::thread::scope(|scope| {
            let next = scope.spawn(|| next_lane(&lanes, 1, &control));
            while !lanes.is_awaited() {
                std::thread::yield_now();
            }
            let (outbox, _frames) = lanes.beside();
            lanes.join(Lane::new(3, outbox), Some(Duration::ZERO));
            assert_eq!(next.join().expect("no panic"), Some(3));
        });
        // When that is lost nobody waits for another.
        lanes.leave(3);
        assert_eq!(next_lane(&lanes, u64::MAX, &control), Some(0));
    }

    #[test]
    fn if_no_lane_joins_the_rest_goes_by_the_wire_before_long() {
        let monitor = Silent::default();
        let control = Control::new(&monitor);
        let (lanes, _frames) = lanes(ByWire::First);
        let begin = Instant::now();
        assert_eq!(next_lane(&lanes, RELAYED_FIRST + 1, &control), Some(0));
        assert!(begin.elapsed() >= AWAITED_MAX && lanes.is_awaited());
        assert_eq!(next_lane(&lanes, u64::MAX, &control), Some(0));
    }
}
