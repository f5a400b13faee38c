//! Contents on their way in: all connections of a job share them. A lane that is lost is told
//! to the Sender with what has come by it.

use super::Receiver;
use super::incoming::Incoming;
use crate::pool::Pool;
use haul_net::Killer;
use haul_proto::{Arrived, LANES_MAX, Taken};
use haul_store::Route;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Contents on their way in.
pub(crate) struct Arrivals {
    pub(crate) pool: Pool,
    /// Files that arrive in pieces.
    pub(super) incoming: Mutex<HashMap<u64, Arc<Incoming>>>,
    /// Lanes may join.
    pub(super) expects_lanes: bool,
    /// The user sees the progress by them.
    tells: bool,
    /// By their numbers.
    lanes: Mutex<[Inlet; LANES_MAX as usize + 1]>,
    /// Lanes have joined.
    has_lanes: AtomicBool,
    /// One was lost: contents may come once more.
    has_lost: AtomicBool,
    /// The highest number of a file that was begun.
    begun_max: AtomicU64,
}

/// A lane.
#[derive(Default)]
enum Inlet {
    /// It has not joined.
    #[default]
    Unknown,
    /// Somebody reads from it.
    Open(Killer),
    /// Nothing comes by it any more.
    Over,
}

impl Arrivals {
    /// Nothing has arrived yet; what does is read into buffers of `pool`.
    pub(crate) fn new(pool: Pool, expects_lanes: bool, tells: bool) -> Self {
        let (incoming, lanes) = (Mutex::default(), Mutex::default());
        let (has_lanes, has_lost) = (AtomicBool::new(false), AtomicBool::new(false));
        let begun_max = AtomicU64::new(0);
        Self { pool, incoming, expects_lanes, tells, lanes, has_lanes, has_lost, begun_max }
    }

    /// A lane joins, which `killer` ends; `false` if it can't any more.
    pub(crate) fn join(&self, lane: u8, killer: Killer) -> bool {
        let mut lanes = self.lanes.lock();
        let Some(inlet @ Inlet::Unknown) = lanes.get_mut(usize::from(lane)) else { return false };
        *inlet = Inlet::Open(killer);
        self.has_lanes.store(true, Ordering::Relaxed);
        true
    }

    /// Blocks may be on their way over several lanes.
    pub(super) fn has_lanes(&self) -> bool {
        self.has_lanes.load(Ordering::Relaxed)
    }

    /// Contents may come once more.
    pub(super) fn has_lost(&self) -> bool {
        self.has_lost.load(Ordering::Relaxed)
    }

    /// How pieces come by that lane.
    pub(super) fn route(&self, lane: u8) -> Route {
        Route { lane, may_repeat: self.has_lost() }
    }

    /// The Sender can send nothing more over a lane. Its reader reports the frames taken, or this
    /// does if there is none.
    pub(super) fn give_up(&self, receiver: &Receiver<'_>, lane: u8) {
        let mut lanes = self.lanes.lock();
        match lanes.get_mut(usize::from(lane)) {
            Some(Inlet::Open(killer)) => {
                killer.kill();
                killer.kill();
            }
            Some(inlet @ Inlet::Unknown) => {
                *inlet = Inlet::Over;
                drop(lanes);
                receiver.job.sender.taken(Taken { lane, frames: 0, is_over: true });
            }
            Some(Inlet::Over) | None => {}
        }
    }

    /// Tells the user what has come by a lane, if nobody else does.
    pub(super) fn tell(&self, receiver: &Receiver<'_>, lane: u8, arrived: Arrived) {
        if self.tells && lane != 0 {
            receiver.job.sender.arrived(arrived);
        }
    }

    /// A file begins to come in pieces.
    pub(super) fn begin(&self, index: u64) {
        self.begun_max.fetch_max(index, Ordering::Relaxed);
    }

    /// True if a slow lane may bring something of that file, though it has ended.
    pub(super) fn may_be_late(&self, index: u64) -> bool {
        self.expects_lanes && index <= self.begun_max.load(Ordering::Relaxed)
    }

    /// Nothing more comes by a lane, from which so many frames were taken: has the Sender send
    /// the rest again. Gives how many lanes are left.
    pub(crate) fn lose(&self, receiver: &Receiver<'_>, lane: u8, frames: u64) -> usize {
        // Before anything of it comes by another.
        self.has_lost.store(true, Ordering::Relaxed);
        let left = {
            let mut lanes = self.lanes.lock();
            if let Some(inlet) = lanes.get_mut(usize::from(lane)) {
                *inlet = Inlet::Over;
            }
            lanes.iter().filter(|inlet| matches!(inlet, Inlet::Open(_))).count()
        };
        tracing::debug!(lane, frames, "a lane is lost");
        receiver.job.sender.taken(Taken { lane, frames, is_over: true });
        left
    }
}
