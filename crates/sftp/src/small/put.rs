//! Small files on their way to the server.
//!
//! Each is made under a private name, and gets its own name when the server has
//! confirmed all of it: content, length, mode and time.

use super::{has_room, tag, untag};
use crate::Client;
use crate::client::{check_path, succeeded};
use crate::codec::{Answer, Attrs, OpenFlags, Request, Times};
use crate::error::{Cause, SessionError, SftpError};
use crate::session::{Payload, Port};
use std::collections::{HashMap, VecDeque};

/// What a file is made with, until its own mode is set.
const PRIVATE_MODE: u32 = 0o600;

/// A small file to be written.
#[derive(Debug, Clone)]
pub struct Put<C> {
    /// What the caller calls it.
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
    /// Replace what has the path, in one step, which needs
    /// [`crate::Extension::PosixRename`]. Otherwise a path that is taken is
    /// a failure at OpenSSH's server, and may be replaced at others.
    pub replace: bool,
}

/// Writes small files, many at a time. Dropped with files in flight, it has them
/// removed, unless the session has ended.
pub struct Puts<C> {
    client: Client,
    port: Port,
    jobs: HashMap<u64, Job<C>>,
    next_job: u64,
    /// Content of the files in flight, in bytes.
    bytes: usize,
    finished: VecDeque<(u64, Result<(), SftpError>)>,
}

struct Job<C> {
    put: Put<C>,
    len: usize,
    /// Answers that must come before the next step.
    awaited: usize,
    /// Why it fails, though there may be answers to come.
    failed: Option<SftpError>,
}

/// Which of a file's requests an answer is for.
const OPEN: u64 = 0;
const WRITE: u64 = 1;
const ATTRS: u64 = 2;
const STAT: u64 = 3;
const CLOSE: u64 = 4;
const RENAME: u64 = 5;
const REMOVE: u64 = 6;

impl<C: AsRef<[u8]>> Puts<C> {
    /// No files yet.
    pub fn new(client: &Client) -> Self {
        Self {
            client: client.clone(),
            port: client.port(),
            jobs: HashMap::new(),
            next_job: 0,
            bytes: 0,
            finished: VecDeque::new(),
        }
    }

    /// Begins a file. Goes on with others before, while too many are in flight.
    pub fn push(&mut self, put: Put<C>) {
        let len = put.content.as_ref().len();
        while !has_room(&self.client, self.jobs.len(), self.bytes, len) {
            self.step();
        }
        let checked = check_path(&put.stage);
        let checked = checked.and_then(|()| self.client.check(&rename(&put), &put.path));
        if let Err(cause) = checked {
            let error = SftpError::of("write", &put.path, cause);
            self.finished.push_back((put.key, Err(error)));
            return;
        }
        let number = self.next_job;
        self.next_job += 1;
        let attrs = Attrs::with_mode(PRIVATE_MODE);
        let open = Request::Open { path: &put.stage, flags: OpenFlags::CreateNew, attrs };
        let sent = self.port.send(tag(number, OPEN), &open, Payload::NONE);
        self.bytes += len;
        self.jobs.insert(number, Job { put, len, awaited: 1, failed: None });
        if let Err(error) = sent {
            self.fail(number, "make", error.into());
        }
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

    /// Waits for one answer, and does what is next for its file.
    fn step(&mut self) {
        // Each file has something asked for.
        let Some((tag, answer)) = self.port.next() else { return };
        let (number, part) = untag(tag);
        let Some(job) = self.jobs.get_mut(&number) else { return };
        job.awaited -= 1;
        let answer = answer.map_err(Cause::from).and_then(succeeded);
        match (part, answer) {
            (OPEN, Ok(Answer::Handle(handle))) => {
                let sent = fill(&self.client, &mut self.port, number, job, &handle);
                self.check_sent(number, sent);
            }
            // Nothing was made that would have to go.
            (OPEN, Err(cause)) => self.fail(number, "make", cause),
            (RENAME, Ok(_)) => self.close(number, Ok(())),
            (REMOVE, _) => {
                let failed = job.failed.take();
                self.close(number, failed.map_or(Ok(()), Err));
            }
            (part, answer) => {
                if let Err(cause) = answer.and_then(|answer| job.judge(part, &answer)) {
                    let error = SftpError::of(operation(part), &job.put.path, cause);
                    job.failed.get_or_insert(error);
                }
                if job.awaited == 0 {
                    self.go_on(number);
                }
            }
        }
    }

    /// All that was asked of a file is answered: it gets its name, or goes.
    fn go_on(&mut self, number: u64) {
        let Some(job) = self.jobs.get_mut(&number) else { return };
        job.awaited = 1;
        let sent = if job.failed.is_some() {
            let remove = Request::Remove { path: &job.put.stage };
            self.port.send(tag(number, REMOVE), &remove, Payload::NONE)
        } else {
            self.port.send(tag(number, RENAME), &rename(&job.put), Payload::NONE)
        };
        self.check_sent(number, sent);
    }

    fn check_sent(&mut self, number: u64, sent: Result<(), SessionError>) {
        if let Err(error) = sent {
            self.fail(number, "write", error.into());
        }
    }

    fn fail(&mut self, number: u64, operation: &'static str, cause: Cause) {
        let Some(job) = self.jobs.get_mut(&number) else { return };
        let error = SftpError::of(operation, &job.put.path, cause);
        let first = job.failed.take().unwrap_or(error);
        self.close(number, Err(first));
    }

    fn close(&mut self, number: u64, result: Result<(), SftpError>) {
        if let Some(job) = self.jobs.remove(&number) {
            self.bytes -= job.len;
            self.finished.push_back((job.put.key, result));
        }
    }
}

impl<C> Job<C> {
    /// Whether an answer that is no failure is as it must be.
    fn judge(&self, part: u64, answer: &Answer) -> Result<(), Cause> {
        let written = self.len as u64;
        match (part, answer) {
            (STAT, Answer::Attrs(Attrs { size: Some(found), .. })) if *found != written => {
                Err(Cause::Length { written, found: *found })
            }
            _ => Ok(()),
        }
    }
}

/// Asks for all that needs the handle, at once: a server does in order what
/// concerns one file.
fn fill<C: AsRef<[u8]>>(
    client: &Client,
    port: &mut Port,
    number: u64,
    job: &mut Job<C>,
    handle: &[u8],
) -> Result<(), SessionError> {
    let mut offset = 0;
    for piece in job.put.content.as_ref().chunks(client.write_len()) {
        let write = Request::Write { handle, offset, len: piece.len() as u32 };
        port.send(tag(number, WRITE), &write, Payload::Bytes(piece))?;
        offset += piece.len() as u64;
        job.awaited += 1;
    }
    let times = Some(job.put.times);
    let attrs = Attrs { mode: Some(job.put.mode), times, ..Attrs::default() };
    port.send(tag(number, ATTRS), &Request::Fsetstat { handle, attrs }, Payload::NONE)?;
    port.send(tag(number, STAT), &Request::Fstat { handle }, Payload::NONE)?;
    port.send(tag(number, CLOSE), &Request::Close { handle }, Payload::NONE)?;
    job.awaited += 3;
    Ok(())
}

fn rename<C>(put: &Put<C>) -> Request<'_> {
    let (from, to) = (&*put.stage, &*put.path);
    if put.replace { Request::PosixRename { from, to } } else { Request::Rename { from, to } }
}

fn operation(part: u64) -> &'static str {
    match part {
        OPEN => "make",
        ATTRS => "set the attributes of",
        STAT => "look at",
        CLOSE => "close",
        RENAME => "rename",
        _ => "write",
    }
}

impl<C> Drop for Puts<C> {
    fn drop(&mut self) {
        for job in self.jobs.values() {
            // Behind what was asked for the file before. One that has got its
            // name by then is not found under this one.
            if self.port.tell(&Request::Remove { path: &job.put.stage }).is_err() {
                return;
            }
        }
        let _ = self.port.flush();
    }
}
