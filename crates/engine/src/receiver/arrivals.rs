//! Arrivals: the state that all connections of a job share for arriving contents. When a lane is
//! lost, the Sender gets the number of frames that arrived over it.

use super::{Incoming, Receiver};
use crate::pool::Pool;
use haul_net::Killer;
use haul_proto::{Arrived, LANES_MAX, Taken};
use haul_store::Route;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The arriving contents of a job.
pub(crate) struct Arrivals {
    pub(crate) pool: Pool,
    /// Files that arrive in pieces, by index.
    pub(super) incoming: Mutex<HashMap<u64, Arc<Incoming>>>,
    /// Lanes may join.
    pub(super) expects_lanes: bool,
    /// The Sender's side needs reports of arrived content, to show progress.
    reports: bool,
    /// The lanes, by number.
    lanes: Mutex<[LaneState; LANES_MAX as usize + 1]>,
    /// A lane has joined.
    has_lanes: AtomicBool,
    /// A lane was lost: contents may be sent again.
    has_lost_lane: AtomicBool,
    /// The highest index of a file that was begun.
    begun_max: AtomicU64,
}

/// The state of a lane.
#[derive(Default)]
enum LaneState {
    /// The lane has not joined.
    #[default]
    Unknown,
    /// A thread reads from it.
    Open(Killer),
    /// Nothing more arrives over it.
    Ended,
}

impl Arrivals {
    /// Creates the state before anything has arrived. Contents are read into buffers of `pool`.
    pub(crate) fn new(pool: Pool, expects_lanes: bool, reports: bool) -> Self {
        let (incoming, lanes) = (Mutex::default(), Mutex::default());
        let (has_lanes, has_lost_lane) = (AtomicBool::new(false), AtomicBool::new(false));
        let begun_max = AtomicU64::new(0);
        Self { pool, incoming, expects_lanes, reports, lanes, has_lanes, has_lost_lane, begun_max }
    }

    /// Registers a lane, which `killer` ends; `false` if it can't join any more.
    pub(crate) fn join(&self, lane: u8, killer: Killer) -> bool {
        let mut lanes = self.lanes.lock();
        let Some(state @ LaneState::Unknown) = lanes.get_mut(usize::from(lane)) else {
            return false;
        };
        *state = LaneState::Open(killer);
        self.has_lanes.store(true, Ordering::Relaxed);
        true
    }

    /// True if blocks may arrive over several lanes.
    pub(super) fn has_lanes(&self) -> bool {
        self.has_lanes.load(Ordering::Relaxed)
    }

    /// True if contents may be sent again.
    pub(super) fn has_lost_lane(&self) -> bool {
        self.has_lost_lane.load(Ordering::Relaxed)
    }

    /// The route of pieces over `lane`.
    pub(super) fn route(&self, lane: u8) -> Route {
        Route { lane, may_repeat: self.has_lost_lane() }
    }

    /// Ends a lane over which the Sender can send nothing more. Its reader reports the frames
    /// taken. Without a reader, this does.
    pub(super) fn end_lane(&self, receiver: &Receiver<'_>, lane: u8) {
        let mut lanes = self.lanes.lock();
        match lanes.get_mut(usize::from(lane)) {
            Some(LaneState::Open(killer)) => {
                killer.kill();
                killer.kill();
            }
            Some(state @ LaneState::Unknown) => {
                *state = LaneState::Ended;
                drop(lanes);
                receiver.job.sender.taken(Taken { lane, frames: 0, is_over: true });
            }
            Some(LaneState::Ended) | None => {}
        }
    }

    /// Reports what arrived over an additional lane, if the Sender's side needs that.
    pub(super) fn report_arrived(&self, receiver: &Receiver<'_>, lane: u8, arrived: Arrived) {
        if self.reports && lane != 0 {
            receiver.job.sender.arrived(arrived);
        }
    }

    /// Records that a file arrives in pieces.
    pub(super) fn begin(&self, index: u64) {
        self.begun_max.fetch_max(index, Ordering::Relaxed);
    }

    /// True if a slow lane may deliver late pieces of this file.
    pub(super) fn may_be_late(&self, index: u64) -> bool {
        self.expects_lanes && index <= self.begun_max.load(Ordering::Relaxed)
    }

    /// Records that a lane is over after `frames` frames, so that the Sender sends the rest again.
    /// Returns how many lanes are left.
    pub(crate) fn lose(&self, receiver: &Receiver<'_>, lane: u8, frames: u64) -> usize {
        // Before any of its content arrives over another lane.
        self.has_lost_lane.store(true, Ordering::Relaxed);
        let left = {
            let mut lanes = self.lanes.lock();
            if let Some(state) = lanes.get_mut(usize::from(lane)) {
                *state = LaneState::Ended;
            }
            lanes.iter().filter(|state| matches!(state, LaneState::Open(_))).count()
        };
        tracing::debug!(lane, frames, "a lane is lost");
        receiver.job.sender.taken(Taken { lane, frames, is_over: true });
        left
    }
}
