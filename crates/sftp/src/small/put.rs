//! Small files on their way to the server.
//!
//! Each is made under a private name, and gets its own name when the server has confirmed its
//! content, length, mode and time.

mod job;

use super::Queue;
use crate::Client;
use crate::codec::Times;
use crate::error::SftpError;
use crate::naming::Existing;
use crate::session::Batch;
use job::Job;

/// A small file to be written.
#[derive(Debug, Clone)]
pub struct Put<C> {
    /// The caller's number for it.
    pub key: u64,
    /// The path under which it is made; it must be free.
    pub stage: Vec<u8>,
    /// The path that it gets when it is whole.
    pub path: Vec<u8>,
    /// Its content.
    pub content: C,
    /// The low 12 bits of its mode.
    pub mode: u32,
    /// Its times.
    pub times: Times,
    /// It fails if the server refuses to set its mode and times, or with [`crate::Cause::Time`]
    /// if it does not take its time; see [`Puts::has_lost_attributes`] and
    /// [`Puts::has_lost_time`].
    pub needs_attributes: bool,
    /// The fate of an existing file at the path; see [`Client::name_file`]. If it stays, the
    /// name is looked up before the rename, since some servers replace.
    pub existing: Existing,
    /// The server makes it durable before it gets its name, which needs
    /// [`crate::Extension::Fsync`]. The protocol can't make the name itself durable.
    pub sync: bool,
    /// It is read back before it gets its name: the stage is opened again after the server
    /// has confirmed all writes and has closed it. The server may answer from its memory. A
    /// difference is [`crate::Cause::Differs`].
    pub verify: bool,
}

/// Writes small files, many at a time. If it is dropped with files in flight, it removes them
/// and waits for that, unless the session ends.
///
/// A file takes three round trips (open; write, set, look and close; rename), and two more to
/// be read back. Those of different files overlap.
pub struct Puts<C: AsRef<[u8]>> {
    queue: Queue<Job<C>>,
    has_lost_time: bool,
    has_lost_attributes: bool,
}

impl<C: AsRef<[u8]>> Puts<C> {
    /// No files yet.
    pub fn new(client: &Client) -> Self {
        Self { queue: Queue::new(client), has_lost_time: false, has_lost_attributes: false }
    }

    /// Begins a file. Advances others first, while too many are in flight.
    pub fn push(&mut self, put: Put<C>) {
        self.queue.make_room(put.content.as_ref().len());
        let job = Job::begin(&self.queue.client, put);
        self.queue.push(job);
    }

    /// True if the server has stored another time for a file than it was given.
    pub fn has_lost_time(&self) -> bool {
        self.has_lost_time
    }

    /// True if the server has refused to set the mode and times of a file, through its
    /// handle and by its path.
    pub fn has_lost_attributes(&self) -> bool {
        self.has_lost_attributes
    }

    /// How many files are begun, and not returned by [`Self::next_done`] yet.
    pub fn pending(&self) -> usize {
        self.queue.pending()
    }

    /// Waits for the next file that is done or has failed, in any order, and returns its key
    /// and the outcome. `None` if there are no more.
    pub fn next_done(&mut self) -> Option<(u64, Result<(), SftpError>)> {
        let job = self.queue.next_done()?;
        Some(self.end(job))
    }

    /// Like [`Self::next_done`], without waiting.
    pub fn take_done(&mut self) -> Option<(u64, Result<(), SftpError>)> {
        let job = self.queue.finished.pop_front()?;
        Some(self.end(job))
    }

    fn end(&mut self, job: Job<C>) -> (u64, Result<(), SftpError>) {
        self.has_lost_time |= job.has_lost_time;
        self.has_lost_attributes |= job.has_lost_attributes;
        job.into_result()
    }
}

impl<C: AsRef<[u8]>> Drop for Puts<C> {
    fn drop(&mut self) {
        let mut batch = Batch::new(self.queue.client.port_for_small(), b"");
        self.queue.jobs.drain(..).for_each(|job| job.give_up(&mut batch));
        // If the session ends before, the stages stay.
        drop(batch.wait());
    }
}
