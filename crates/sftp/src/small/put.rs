//! Uploads of small files.
//!
//! Each file is created under a private name. It is renamed into place once the server has
//! confirmed its content, length, mode and time.

mod job;

use super::Queue;
use crate::Client;
use crate::codec::Times;
use crate::error::SftpError;
use crate::naming::Existing;
use crate::session::Batch;
use job::Job;

/// A small file to write.
#[derive(Debug, Clone)]
pub struct Put<C> {
    /// The caller's key for it.
    pub key: u64,
    /// The path that it is created at, which must not exist.
    pub stage: Vec<u8>,
    /// Its final path.
    pub path: Vec<u8>,
    /// Its content.
    pub content: C,
    /// The low 12 bits of its mode.
    pub mode: u32,
    /// Its times.
    pub times: Times,
    /// Fail if the server refuses to set its mode and times, or does not keep its time
    /// ([`crate::Cause::Time`]). See also [`Puts::has_lost_attributes`] and
    /// [`Puts::has_lost_time`].
    pub needs_attributes: bool,
    /// How to treat an existing file at `path`; see [`Client::name_file`]. If it must stay, the
    /// name is looked up before the rename, since some servers replace.
    pub existing: Existing,
    /// Make the content durable before the rename. Needs [`crate::Extension::Fsync`]. The protocol
    /// can't make the name itself durable.
    pub sync: bool,
    /// Read the file back before the rename. It is opened again after the server has confirmed all
    /// writes and has closed it. The server may answer from memory. A difference is
    /// [`crate::Cause::Differs`].
    pub verify: bool,
}

/// Writes small files, many at a time. If it is dropped with files in flight, it removes them and
/// waits for that, unless the session ends.
///
/// A file takes three round trips (open; write, set, look and close; rename), and two more to read
/// it back. Those of different files overlap.
pub struct Puts<C: AsRef<[u8]>> {
    queue: Queue<Job<C>>,
    /// The server has stored another time for a file than was set.
    pub has_lost_time: bool,
    /// The server has refused to set the mode and times of a file, both through its handle and by
    /// path.
    pub has_lost_attributes: bool,
}

impl<C: AsRef<[u8]>> Puts<C> {
    /// An empty queue.
    pub fn new(client: &Client) -> Self {
        Self { queue: Queue::new(client), has_lost_time: false, has_lost_attributes: false }
    }

    /// Starts a file. While too many are in flight, it advances these first.
    pub fn push(&mut self, put: Put<C>) {
        self.queue.wait_for_capacity(put.content.as_ref().len());
        let job = Job::begin(&self.queue.client, put);
        self.queue.push(job);
    }

    /// The number of files not returned by [`Self::next_done`] yet.
    pub fn pending(&self) -> usize {
        self.queue.pending()
    }

    /// Waits for the next file that is complete or has failed, in any order. Returns its key and
    /// the result, or `None` if no file is left.
    pub fn next_done(&mut self) -> Option<(u64, Result<(), SftpError>)> {
        let job = self.queue.next_done()?;
        Some(self.end(job))
    }

    /// Like [`Self::next_done`], without waiting.
    pub fn try_next_done(&mut self) -> Option<(u64, Result<(), SftpError>)> {
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
        self.queue.jobs.drain(..).for_each(|job| job.abort(&mut batch));
        // If the session ends before, the stages stay.
        drop(batch.wait());
    }
}
