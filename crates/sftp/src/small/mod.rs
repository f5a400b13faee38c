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
pub use put::{Put, Puts, Stored};

use crate::Client;
use crate::session::Batch;
use std::collections::VecDeque;
use std::ops::ControlFlow;

/// Most files in flight. A file takes three round trips, so with one of 50 ms this is 3,200 files a
/// second.
const FILES_MAX: usize = 480;

/// Most content in flight, in bytes. A larger file is sent alone.
const BYTES_MAX: usize = 8 << 20;

/// A file in flight.
pub trait Transfer: Sized {
    /// The file as the caller describes it.
    type File;
    /// The caller's key for the file, and the result.
    type Done;

    /// The length of the content of `file`, in bytes.
    fn len(file: &Self::File) -> usize;

    /// Sends the first request.
    fn begin(client: &Client, file: Self::File) -> Self;

    /// Waits for the answers of the current step, and sends the next. Returns the result after the
    /// last.
    fn advance(self, client: &Client) -> ControlFlow<Self::Done, Self>;

    /// Adds the requests that undo the steps so far to `batch`.
    fn abort(self, batch: &mut Batch);
}

/// The files in flight through one session. If it is dropped before they are done, it undoes their
/// steps and waits for that, unless the session ends.
pub struct Queue<T: Transfer> {
    client: Client,
    /// Each with the length of its content, in bytes.
    transfers: VecDeque<(usize, T)>,
    /// Content of `transfers`, in bytes.
    bytes: usize,
    finished: VecDeque<T::Done>,
}

impl<T: Transfer> Queue<T> {
    /// An empty queue.
    pub fn new(client: &Client) -> Self {
        let (transfers, finished) = (VecDeque::new(), VecDeque::new());
        Self { client: client.clone(), transfers, bytes: 0, finished }
    }

    /// Starts a file. While too many are in flight, it advances these first.
    pub fn push(&mut self, file: T::File) {
        // Half of the server's limit, as there may be other callers.
        let files_max = match self.client.limits().open_handles / 2 {
            0 => FILES_MAX,
            limit => usize::try_from(limit).map_or(FILES_MAX, |limit| limit.min(FILES_MAX)),
        };
        let len = T::len(&file);
        while self.transfers.len() >= files_max
            || (!self.transfers.is_empty() && self.bytes + len > BYTES_MAX)
        {
            self.step();
        }
        self.bytes += len;
        self.transfers.push_back((len, T::begin(&self.client, file)));
    }

    /// The number of files not returned by [`Self::next_done`] yet.
    pub fn pending(&self) -> usize {
        self.transfers.len() + self.finished.len()
    }

    /// Waits for the next file that is complete or has failed, in any order. Returns its key and
    /// the result, or `None` if no file is left.
    pub fn next_done(&mut self) -> Option<T::Done> {
        while self.finished.is_empty() && !self.transfers.is_empty() {
            self.step();
        }
        self.try_next_done()
    }

    /// Like [`Self::next_done`], without waiting.
    pub fn try_next_done(&mut self) -> Option<T::Done> {
        self.finished.pop_front()
    }

    /// Advances the first file by one step.
    fn step(&mut self) {
        let Some((len, transfer)) = self.transfers.pop_front() else { return };
        match transfer.advance(&self.client) {
            ControlFlow::Continue(transfer) => self.transfers.push_back((len, transfer)),
            ControlFlow::Break(done) => {
                self.bytes -= len;
                self.finished.push_back(done);
            }
        }
    }
}

impl<T: Transfer> Drop for Queue<T> {
    fn drop(&mut self) {
        let mut batch = Batch::new(self.client.port_for_small(), b"");
        self.transfers.drain(..).for_each(|(_, transfer)| transfer.abort(&mut batch));
        // If the session ends before, the stages stay.
        drop(batch.wait());
    }
}
