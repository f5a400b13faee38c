//! One thread writes or reads many small files at the same time, so that no file costs a round trip
//! of its own.
//!
//! A file takes several steps. A step is a set of requests that are sent together and need the
//! answers of the step before. The files wait in one queue. The first one takes the answers of its
//! step, sends the next, and moves to the end. Servers answer in order, so the answers for the next
//! file arrive next.

mod get;
mod put;

pub use get::{Get, Gets, Got};
pub use put::{Put, Puts};

use crate::Client;
use std::collections::VecDeque;

/// Most files in flight. A file takes three round trips, so with one of 50 ms this is 3,200 files a
/// second.
const FILES_MAX: usize = 480;

/// Most content in flight, in bytes. A larger file is sent alone.
const BYTES_MAX: usize = 8 << 20;

/// A file in flight.
trait Job {
    /// The length of its content, in bytes.
    fn len(&self) -> usize;

    /// Waits for the answers of the current step, and sends the next. Returns false after the last.
    fn advance(&mut self, client: &Client) -> bool;
}

/// The files in flight through one session.
struct Queue<J> {
    client: Client,
    jobs: VecDeque<J>,
    /// Content of `jobs`, in bytes.
    bytes: usize,
    finished: VecDeque<J>,
}

impl<J: Job> Queue<J> {
    fn new(client: &Client) -> Self {
        let (jobs, finished) = (VecDeque::new(), VecDeque::new());
        Self { client: client.clone(), jobs, bytes: 0, finished }
    }

    /// Waits until a file of `len` bytes can be added.
    fn wait_for_capacity(&mut self, len: usize) {
        // Half of the server's limit, as there may be other callers.
        let files_max = match self.client.limits().open_handles / 2 {
            0 => FILES_MAX,
            limit => usize::try_from(limit).map_or(FILES_MAX, |limit| limit.min(FILES_MAX)),
        };
        while self.jobs.len() >= files_max
            || (!self.jobs.is_empty() && self.bytes + len > BYTES_MAX)
        {
            self.step();
        }
    }

    fn push(&mut self, job: J) {
        self.bytes += job.len();
        self.jobs.push_back(job);
    }

    fn pending(&self) -> usize {
        self.jobs.len() + self.finished.len()
    }

    /// Waits for the next finished file; `None` if no file is left.
    fn next_done(&mut self) -> Option<J> {
        while self.finished.is_empty() && !self.jobs.is_empty() {
            self.step();
        }
        self.finished.pop_front()
    }

    /// Advances the first file by one step.
    fn step(&mut self) {
        let Some(mut job) = self.jobs.pop_front() else { return };
        if job.advance(&self.client) {
            self.jobs.push_back(job);
        } else {
            self.bytes -= job.len();
            self.finished.push_back(job);
        }
    }
}
