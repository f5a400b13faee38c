//! Small files on their way from the server.

use super::{has_room, tag, untag};
use crate::Client;
use crate::client::succeeded;
use crate::codec::{Answer, Attrs, OpenFlags, Request, StatusCode};
use crate::error::{Cause, SessionError, SftpError};
use crate::session::{Payload, Port};
use std::collections::{HashMap, VecDeque};

/// A small file to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Get {
    /// The caller's number for it.
    pub key: u64,
    /// Its path. A link at its end is followed.
    pub path: Vec<u8>,
    /// How much of it is read, in bytes: its length, as far as it is known.
    pub len: u32,
}

/// A file that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Got {
    /// Its content, which is less than was asked for if the file is shorter.
    pub content: Vec<u8>,
    /// The file's attributes before it was read.
    pub before: Attrs,
    /// Its attributes afterwards. If size and modification time are the same, this
    /// is its content; when it was last read changes by reading.
    pub after: Attrs,
}

/// Reads small files, many at a time.
pub struct Gets {
    client: Client,
    port: Port,
    jobs: HashMap<u64, Job>,
    next_job: u64,
    /// Content of the files in flight, in bytes.
    bytes: usize,
    finished: VecDeque<(u64, Result<Got, SftpError>)>,
}

struct Job {
    get: Get,
    handle: Box<[u8]>,
    /// Answers that must come before the next step.
    awaited: usize,
    /// The parts to be read: offset, and number of bytes.
    wanted: Vec<(usize, usize)>,
    /// How many bytes are asked for, by where they begin.
    asked: HashMap<usize, usize>,
    /// Where the file ends, as far as that has shown.
    end: usize,
    got: Got,
    failed: Option<Cause>,
}

/// Which of a file's requests an answer is for.
const OPEN: u64 = 0;
const BEFORE: u64 = 1;
const AFTER: u64 = 2;
/// From here on it is a read, at the offset beyond it.
const READ: u64 = 3;

impl Gets {
    /// No files yet.
    pub fn new(client: &Client) -> Self {
        Self {
            client: client.clone(),
            port: client.port_for_small(),
            jobs: HashMap::new(),
            next_job: 0,
            bytes: 0,
            finished: VecDeque::new(),
        }
    }

    /// Begins a file. Goes on with others before, while too many are in flight.
    pub fn push(&mut self, get: Get) {
        let len = get.len as usize;
        while !has_room(&self.client, self.jobs.len(), self.bytes, len) {
            self.step();
        }
        let open =
            Request::Open { path: &get.path, flags: OpenFlags::Read, attrs: Attrs::default() };
        let number = self.next_job;
        self.next_job += 1;
        let checked = self.client.check(&open, &get.path);
        let sent = checked
            .and_then(|()| Ok(self.port.send(tag(number, OPEN), &open, Payload::NONE)?))
            .map_err(|cause| SftpError::new(&open, &get.path, cause));
        if let Err(error) = sent {
            self.finished.push_back((get.key, Err(error)));
            return;
        }
        let none = Attrs::default();
        let got = Got { content: vec![0; len], before: none, after: none };
        let job = Job {
            get,
            handle: Box::default(),
            awaited: 1,
            wanted: vec![(0, len)],
            asked: HashMap::new(),
            end: len,
            got,
            failed: None,
        };
        self.bytes += len;
        self.jobs.insert(number, job);
    }

    /// How many files are begun and not told by [`Self::next_done`] yet.
    pub fn pending(&self) -> usize {
        self.jobs.len() + self.finished.len()
    }

    /// The next file that was read or has failed, by its key, in any order.
    /// `None` if there are no more.
    pub fn next_done(&mut self) -> Option<(u64, Result<Got, SftpError>)> {
        while self.finished.is_empty() && !self.jobs.is_empty() {
            self.step();
        }
        self.finished.pop_front()
    }

    /// As [`Self::next_done`], but of those that are done already: it waits for
    /// none.
    pub fn take_done(&mut self) -> Option<(u64, Result<Got, SftpError>)> {
        self.finished.pop_front()
    }

    /// Waits for one answer, and does what is next for its file.
    fn step(&mut self) {
        // Each file has something asked for.
        let Some((tag, answer)) = self.port.next() else { return };
        let (number, part) = untag(tag);
        let Some(job) = self.jobs.get_mut(&number) else { return };
        job.awaited -= 1;
        match (part, answer.map_err(Cause::from).and_then(succeeded)) {
            (OPEN, Ok(Answer::Handle(handle))) => job.handle = handle,
            (OPEN, Err(cause)) => return self.close(number, Err(("open", cause))),
            (BEFORE, Ok(Answer::Attrs(attrs))) => job.got.before = attrs,
            (AFTER, Ok(Answer::Attrs(attrs))) => job.got.after = attrs,
            (READ.., answer) => job.take_content((part - READ) as usize, answer, &self.port),
            (_, Ok(_)) => {}
            (_, Err(cause)) => drop(job.failed.get_or_insert(cause)),
        }
        if job.awaited == 0 {
            self.go_on(number, part == OPEN);
        }
    }

    /// All that was asked of a file is answered: it is done, unless something
    /// remains to be read.
    fn go_on(&mut self, number: u64, is_open: bool) {
        let Some(job) = self.jobs.get_mut(&number) else { return };
        job.wanted.retain(|(offset, _)| *offset < job.end);
        if job.failed.is_none() && (is_open || !job.wanted.is_empty()) {
            let sent = ask(&self.client, &mut self.port, number, job, is_open);
            if let Err(error) = sent {
                self.close(number, Err(("read", error.into())));
            }
            return;
        }
        // It was read; what is said to this changes nothing.
        let _ = self.port.tell(&Request::Close { handle: &job.handle });
        let failed = job.failed.take();
        job.got.content.truncate(job.end);
        let got = Got { content: std::mem::take(&mut job.got.content), ..job.got };
        self.close(number, failed.map_or(Ok(got), |cause| Err(("read", cause))));
    }

    fn close(&mut self, number: u64, result: Result<Got, (&'static str, Cause)>) {
        if let Some(job) = self.jobs.remove(&number) {
            self.bytes -= job.get.len as usize;
            let result =
                result.map_err(|(operation, cause)| SftpError::of(operation, &job.get.path, cause));
            self.finished.push_back((job.get.key, result));
        }
    }
}

impl Job {
    fn take_content(&mut self, offset: usize, answer: Result<Answer, Cause>, port: &Port) {
        let asked = self.asked.remove(&offset).unwrap_or(0);
        match answer {
            Ok(Answer::Data { buffer, len }) => {
                let bytes = port.content(buffer, len);
                self.got.content[offset..offset + len].copy_from_slice(&bytes);
                if len < asked {
                    self.wanted.push((offset + len, asked - len));
                }
            }
            Ok(_) => {}
            Err(Cause::Status(status)) if status.code == StatusCode::Eof => {
                self.end = self.end.min(offset);
            }
            Err(cause) => drop(self.failed.get_or_insert(cause)),
        }
    }
}

/// Asks for what is wanted, and what the file is before and after that: a server
/// does in order what concerns one file (section 6.1 of the draft).
fn ask(
    client: &Client,
    port: &mut Port,
    number: u64,
    job: &mut Job,
    is_first: bool,
) -> Result<(), SessionError> {
    let handle = &*job.handle;
    if is_first {
        port.send(tag(number, BEFORE), &Request::Fstat { handle }, Payload::NONE)?;
        job.awaited += 1;
    }
    for (start, len) in std::mem::take(&mut job.wanted) {
        let mut offset = start;
        while offset < start + len {
            let piece = (start + len - offset).min(client.read_len());
            let read = Request::Read { handle, offset: offset as u64, len: piece as u32 };
            port.send(tag(number, READ + offset as u64), &read, Payload::NONE)?;
            job.asked.insert(offset, piece);
            job.awaited += 1;
            offset += piece;
        }
    }
    port.send(tag(number, AFTER), &Request::Fstat { handle }, Payload::NONE)?;
    job.awaited += 1;
    Ok(())
}

impl Drop for Gets {
    fn drop(&mut self) {
        for job in self.jobs.values().filter(|job| !job.handle.is_empty()) {
            if self.port.tell(&Request::Close { handle: &job.handle }).is_err() {
                return;
            }
        }
        let _ = self.port.flush();
    }
}
