//! The connections over which a Sender's contents leave: lane 0, the wire of the job, and
//! those that have joined it. Whoever sends takes one for each pack, each file and each
//! block of a large one; a lane that takes less gets less. If one that has joined is lost,
//! the receiver says what it has of it, and the rest is sent over the others.

use super::ledger::{Implausible, OnLoss};
use super::outgoing::{Frames, Outbox};
use crate::control::{CANCEL_POLL, Control};
use haul_net::Killer;
use haul_proto::{LANES_MAX, LaneOver, Message, PACK_TARGET, Taken};
use haul_tree::lock;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

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
/// and no processor is what is short: then the wire of the job carries contents, too, until
/// one that has joined is faster.
const LONG_ROUND_TRIP: Duration = Duration::from_millis(15);

/// The time that a pack may take on such a lane, and its least length in bytes.
const PACK_TIME: Duration = Duration::from_millis(100);
const PACK_LEN_MIN: u64 = 128 << 10;

/// The lanes of a Sender.
pub(crate) struct Lanes {
    main: Lane,
    /// Contents wait for lanes that join.
    requires_joined: bool,
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
    /// Lane 0 alone, by which contents go until another has joined, unless that is required.
    pub(crate) fn new(main: Arc<Outbox>, requires_joined: bool) -> Self {
        let main = Lane::new(0, main);
        let (joined, has_joined) = (Mutex::default(), Condvar::new());
        let (known, settling) = (Mutex::default(), Mutex::default());
        let (is_long, has_alike) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { main, requires_joined, is_long, has_alike, joined, has_joined, known, settling }
    }

    /// The lane for the next content of this worker; `None` if the job ends before there
    /// is one.
    pub(crate) fn of(&self, worker: usize, control: &Control<'_>) -> Option<Lane> {
        let mut joined = lock(&self.joined);
        loop {
            if !joined.is_empty() {
                return Some(self.soonest(&joined, worker));
            }
            if !self.requires_joined {
                return Some(self.main.clone());
            }
            if control.stopped() {
                return None;
            }
            joined = match self.has_joined.wait_timeout(joined, CANCEL_POLL) {
                Ok((joined, _)) => joined,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
    }

    /// The lane by which a pack is soonest gone; of equal ones each worker has its own.
    fn soonest(&self, joined: &[Lane], worker: usize) -> Lane {
        let (before, from) = joined.split_at(worker % joined.len());
        let lanes = from.iter().chain(before);
        let has_alike = self.has_alike.load(Ordering::Relaxed);
        if !self.is_long.load(Ordering::Relaxed) && !has_alike {
            return lanes.min_by_key(|lane| lane.due()).unwrap_or(&self.main).clone();
        }
        let pace = |lane: &Lane| lane.outbox.flow().pace();
        let fastest = joined.iter().filter_map(pace).min();
        let is_slower = !has_alike && pace(&self.main) > fastest && fastest.is_some();
        let main = (!self.requires_joined && !is_slower).then_some(&self.main);
        let lanes = lanes.chain(main).map(Lane::for_a_moment);
        lanes.min_by_key(Lane::due).unwrap_or_else(|| self.main.clone())
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
        self.has_joined.notify_all();
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
