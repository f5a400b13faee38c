//! The connections over which a Sender's contents leave: lane 0, the wire of the job, and
//! those that have joined it. Whoever sends takes one for each pack, each file and each
//! block of a large one; a lane that takes less gets less.

use super::outgoing::{Frames, Outbox};
use crate::control::{CANCEL_POLL, Control};
use haul_tree::lock;
use std::sync::{Arc, Condvar, Mutex};

/// A lane that contents leave by.
#[derive(Clone)]
pub(crate) struct Lane {
    /// Its number.
    pub(crate) number: u8,
    /// The queue of that which leaves by it.
    pub(crate) outbox: Arc<Outbox>,
}

/// The lanes of a Sender.
pub(crate) struct Lanes {
    main: Lane,
    /// Contents wait for lanes that join.
    requires_joined: bool,
    joined: Mutex<Vec<Lane>>,
    has_joined: Condvar,
}

impl Lanes {
    /// Lane 0 alone, by which contents go until another has joined, unless that is required.
    pub(crate) fn new(main: Arc<Outbox>, requires_joined: bool) -> Self {
        let main = Lane { number: 0, outbox: main };
        Self { main, requires_joined, joined: Mutex::default(), has_joined: Condvar::new() }
    }

    /// The lane for the next content of this worker; `None` if the job ends before there
    /// is one.
    pub(crate) fn of(&self, worker: usize, control: &Control<'_>) -> Option<Lane> {
        let mut joined = lock(&self.joined);
        loop {
            if !joined.is_empty() {
                return Some(joined[worker % joined.len()].clone());
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

    /// A queue for another lane, which compresses as lane 0 does, and its end for the
    /// writer.
    pub(crate) fn beside(&self) -> (Arc<Outbox>, Frames) {
        self.main.outbox.beside()
    }

    /// Contents take this lane, too, from now on. Gives how many have joined.
    pub(crate) fn join(&self, lane: Lane) -> usize {
        let mut joined = lock(&self.joined);
        joined.push(lane);
        self.has_joined.notify_all();
        joined.len()
    }

    /// The queue of the lane of that number.
    pub(crate) fn outbox(&self, number: u8) -> Option<Arc<Outbox>> {
        if number == 0 {
            return Some(Arc::clone(&self.main.outbox));
        }
        let joined = lock(&self.joined);
        let lane = joined.iter().find(|lane| lane.number == number)?;
        Some(Arc::clone(&lane.outbox))
    }
}
