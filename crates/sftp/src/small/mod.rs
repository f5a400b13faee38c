//! Many small files, written or read by one thread at the same time, so that none costs a
//! round trip of its own.
//!
//! A file takes several steps: requests that are sent together, and that need the answers of
//! the step before. The files wait in one queue. The first one takes the answers of its step,
//! sends the next, and goes to the end: servers answer in order, so the answers for the next
//! file are the next to arrive.

mod get;
mod put;

pub use get::{Get, Gets, Got};
pub use put::{Put, Puts};

use crate::Client;
use std::collections::VecDeque;

/// Files in flight, at most. With a round trip of 50 ms, three of which a file
/// takes, it makes 3,200 files a second.
const FILES_MAX: usize = 480;

/// Content in flight, at most, in bytes; a larger file goes alone.
const BYTES_MAX: usize = 8 << 20;

/// A file on its way.
trait Job {
    /// The length of its content, in bytes.
    fn len(&self) -> usize;

    /// Waits for the answers of its step, and sends the next; false if that was the last.
    fn advance(&mut self, client: &Client) -> bool;
}

/// Files on their way through one session.
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

    /// Waits until a file of `len` bytes may be added.
    fn make_room(&mut self, len: usize) {
        // Half of what the server allows, for there may be other callers.
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
