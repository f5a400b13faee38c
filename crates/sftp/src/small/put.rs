//! Small files on their way to the server.
//!
//! Each is made under a private name, and gets its own name when the server has
//! confirmed all of it: content, length, mode and time.

mod job;

use super::{has_room, tag, untag};
use crate::Client;
use crate::client::{check_path, succeeded};
use crate::codec::{Extension, Request, Times};
use crate::error::{Cause, SessionError, SftpError};
use crate::naming::Existing;
use crate::session::{Payload, Port};
use job::Job;
use std::collections::{HashMap, VecDeque};

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
    /// It fails if the server refuses to set its mode and times, or with [`Cause::Time`]
    /// if it does not take its time; see [`Puts::has_lost_attributes`] and
    /// [`Puts::has_lost_time`].
    pub needs_attributes: bool,
    /// The fate of an existing file at the path; see [`Client::name_file`]. One that is
    /// to stay is looked for before the rename, since some servers replace in it.
    pub existing: Existing,
    /// Have the server make it durable before it gets its name, which needs
    /// [`Extension::Fsync`]. The name itself can't be made durable in this
    /// protocol.
    pub sync: bool,
    /// Read it back before it gets its name: the stage is opened again, when the
    /// server has confirmed all that was written and has closed it. The server
    /// may answer from its memory. A difference is [`Cause::Differs`].
    pub verify: bool,
}

/// Writes small files, many at a time. Dropped with files in flight, it has them
/// removed, unless the session has ended.
///
/// A file takes three round trips (open; write, set, look and close; rename),
/// and two more to be read back. Those of different files overlap.
pub struct Puts<C> {
    client: Client,
    port: Port,
    jobs: HashMap<u64, Job<C>>,
    next_job: u64,
    /// Content of the files in flight, in bytes.
    bytes: usize,
    finished: VecDeque<(u64, Result<(), SftpError>)>,
    has_lost_time: bool,
    has_lost_attributes: bool,
}

impl<C: AsRef<[u8]>> Puts<C> {
    /// No files yet.
    pub fn new(client: &Client) -> Self {
        Self {
            client: client.clone(),
            port: client.port_for_small(),
            jobs: HashMap::new(),
            next_job: 0,
            bytes: 0,
            finished: VecDeque::new(),
            has_lost_time: false,
            has_lost_attributes: false,
        }
    }

    /// Begins a file. Goes on with others before, while too many are in flight.
    pub fn push(&mut self, put: Put<C>) {
        let len = put.content.as_ref().len();
        while !has_room(&self.client, self.jobs.len(), self.bytes, len) {
            self.step();
        }
        if let Err(cause) = self.check(&put) {
            let error = SftpError::of("write", &put.path, cause);
            self.finished.push_back((put.key, Err(error)));
            return;
        }
        let number = self.next_job;
        self.next_job += 1;
        self.bytes += len;
        let mut job = Job::new(put);
        let sent = job.ask(&self.client, &mut Asker { port: &mut self.port, number });
        self.jobs.insert(number, job);
        self.check_sent(number, sent);
    }

    fn check(&self, put: &Put<C>) -> Result<(), Cause> {
        check_path(&put.stage)?;
        check_path(&put.path)?;
        put.existing.check()?;
        if put.sync && !self.client.has(Extension::Fsync) {
            return Err(Cause::Missing(Extension::Fsync.name()));
        }
        Ok(())
    }

    /// True if the server has shown another time of a file than it was given.
    pub fn has_lost_time(&self) -> bool {
        self.has_lost_time
    }

    /// True if the server has refused to set the mode and times of a file, through its
    /// handle and by its path.
    pub fn has_lost_attributes(&self) -> bool {
        self.has_lost_attributes
    }

    /// How many files are begun and not told by [`Self::next_done`] yet.
    pub fn pending(&self) -> usize {
        self.jobs.len() + self.finished.len()
    }

    /// The next file that is done or has failed, by its key, in any order.
    /// `None` if there are no more.
    pub fn next_done(&mut self) -> Option<(u64, Result<(), SftpError>)> {
        while self.finished.is_empty() && !self.jobs.is_empty() {
            self.step();
        }
        self.finished.pop_front()
    }

    /// As [`Self::next_done`], but of those that are done already: it waits for
    /// none.
    pub fn take_done(&mut self) -> Option<(u64, Result<(), SftpError>)> {
        self.finished.pop_front()
    }

    /// Waits for one answer, and does what is next for its file.
    fn step(&mut self) {
        // Each file has something asked for.
        let Some((tag, answer)) = self.port.next() else { return };
        let (number, part) = untag(tag);
        let Some(job) = self.jobs.get_mut(&number) else { return };
        let answer = answer.map_err(Cause::from).and_then(succeeded);
        let mut asker = Asker { port: &mut self.port, number };
        let taken = job.take(part, answer, &self.client, &mut asker);
        let sent = match taken {
            Ok(()) if job.is_answered() => {
                let goes_on = job.advance();
                self.has_lost_time |= job.has_lost_time();
                self.has_lost_attributes |= job.has_lost_attributes();
                if !goes_on {
                    return self.close(number);
                }
                job.ask(&self.client, &mut asker)
            }
            sent => sent,
        };
        self.check_sent(number, sent);
    }

    /// A request that could not be sent: the session is over.
    fn check_sent(&mut self, number: u64, sent: Result<(), SessionError>) {
        if let Err(error) = sent {
            if let Some(job) = self.jobs.get_mut(&number) {
                job.fail("write", error.into());
            }
            self.close(number);
        }
    }

    fn close(&mut self, number: u64) {
        if let Some(job) = self.jobs.remove(&number) {
            self.bytes -= job.content_len();
            self.finished.push_back(job.into_result());
        }
    }
}

/// Asks for one file.
struct Asker<'a> {
    port: &'a mut Port,
    number: u64,
}

impl Asker<'_> {
    fn send(
        &mut self,
        part: u64,
        request: &Request<'_>,
        payload: Payload<'_>,
    ) -> Result<(), SessionError> {
        self.port.send(tag(self.number, part), request, payload)
    }
}

impl<C> Drop for Puts<C> {
    fn drop(&mut self) {
        for job in self.jobs.values() {
            if job.give_up(&self.port).is_err() {
                return;
            }
        }
        let _ = self.port.flush();
    }
}
