//! An SFTP server that is odd on purpose: it serves real files, in two threads of
//! this process and over a pair of pipes, and differs from OpenSSH's as servers
//! may, or as no server may.
//!
//! Written from the draft (draft-ietf-secsh-filexfer-02) and from nothing of
//! haul's, so that a mistake in haul's reading of it shows.

use std::collections::VecDeque;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use self::files::Files;
use self::packet::Packet;

mod files;
mod packet;

/// The longest request that is taken, in bytes.
const REQUEST_LEN_MAX: usize = 300 << 10;

/// Requests that are read ahead of being served.
const AHEAD_MAX: usize = 4096;

/// How long a server that answers in another order waits for more to answer.
const GATHER_WAIT: Duration = Duration::from_millis(3);

/// How long a server that wants more requests of a type waits for them.
const MORE_WAIT: Duration = Duration::from_millis(500);

/// How long a server that has stopped answering keeps its streams open, unless
/// it is dropped before.
const STALL_MAX: Duration = Duration::from_secs(60);

/// The ways in which a server is unusual.
#[derive(Debug, Clone)]
pub struct Oddities {
    /// The most content in one request, in bytes: reads are cut to it, longer
    /// writes are refused.
    pub chunk_max: usize,
    /// The extensions that it announces and has: `posix-rename@openssh.com`,
    /// `limits@openssh.com` and `fsync@openssh.com` are known.
    pub extensions: Vec<&'static str>,
    /// Every rename replaces what has the name.
    pub replaces_on_rename: bool,
    /// Answers everything that is asked within a moment in the reverse order.
    pub reversed: bool,
    /// Does requests of this type, as the draft numbers them, only when so many
    /// of them wait; a peer that sends no more has to be patient.
    pub gathered: Option<(u8, usize)>,
    /// Answers each read with less than was asked for, if that is more than a
    /// byte.
    pub short_reads: bool,
    /// Its form of listings.
    pub listing: Listing,
    /// Says that each link points to a path of so many bytes.
    pub target_len: Option<usize>,
    /// Reports each entry as shorter by so many bytes than it is.
    pub hidden: u64,
    /// After this many requests it does what no server does.
    pub fault: Option<(usize, Fault)>,
}

/// A server's answers to the parts of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listing {
    /// The entries.
    Honest,
    /// The entries without their times.
    Untimed,
    /// The entries, and one of this name.
    And(&'static [u8]),
    /// As many entries as a packet holds, all of them of this name, for ever.
    Endless(&'static [u8]),
    /// The entries, and then answers with none in place of the end.
    EndsEmpty,
}

/// Faults that no real server has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Neither answers nor reads any more.
    Stall,
    /// Closes its streams.
    Die,
    /// Closes its streams in the middle of an answer.
    DieInAnswer,
    /// Claims that the next packet has this length.
    Claim(u32),
    /// Answers what was not asked.
    UnknownId,
    /// Answers twice.
    Twice,
    /// Answers with another kind of reply.
    WrongKind,
    /// Answers with a type that there is not.
    UnknownType,
    /// Answers with success and no result.
    EmptySuccess,
    /// Answers a read with more than was asked for.
    TooMuch,
    /// Answers a read with nothing.
    Nothing,
    /// Answers only behind the answer to the next request.
    Late,
    /// Refuses the request, whatever it is. It was done all the same.
    Refuse,
    /// Refuses the request, and does not do it.
    Deny,
    /// Reports success, and does nothing.
    Pretend,
    /// Answers that nothing more is there.
    End,
    /// Answers a read with a byte changed.
    Garble,
}

impl Fault {
    /// True if what is asked is done all the same.
    fn is_done(self) -> bool {
        !matches!(self, Self::Die | Self::Deny | Self::Pretend)
    }
}

impl Default for Oddities {
    fn default() -> Self {
        Self {
            chunk_max: 32 << 10,
            extensions: vec!["posix-rename@openssh.com"],
            replaces_on_rename: false,
            reversed: false,
            gathered: None,
            short_reads: false,
            listing: Listing::Honest,
            target_len: None,
            hidden: 0,
            fault: None,
        }
    }
}

/// A running server. Dropping it wakes it from a stall; it ends when its input
/// does.
#[derive(Debug)]
pub struct OddSftp {
    stalled: Arc<Stall>,
    max_pending: Arc<AtomicUsize>,
    gather_timeouts: Arc<AtomicUsize>,
    requests: Arc<AtomicUsize>,
    asked: Arc<Mutex<Vec<u8>>>,
}

#[derive(Debug, Default)]
struct Stall {
    over: Mutex<bool>,
    wake: Condvar,
}

impl OddSftp {
    /// Serves the files of this machine, relative paths below `dir`. Returns the
    /// server's output and input besides.
    pub fn serve(dir: &Path, odd: Oddities) -> io::Result<(Self, PipeReader, PipeWriter)> {
        let (input, to_server) = io::pipe()?;
        let (from_server, output) = io::pipe()?;
        let (sender, receiver) = sync_channel(AHEAD_MAX);
        let this = Self {
            stalled: Arc::default(),
            max_pending: Arc::default(),
            gather_timeouts: Arc::default(),
            requests: Arc::default(),
            asked: Arc::default(),
        };
        let mut server = Server {
            files: Files::new(dir, &odd),
            odd,
            requests: receiver,
            gathering: Vec::new(),
            output,
            served: Arc::clone(&this.requests),
            asked: Arc::clone(&this.asked),
            max_pending: Arc::clone(&this.max_pending),
            gather_timeouts: Arc::clone(&this.gather_timeouts),
            stalled: Arc::clone(&this.stalled),
        };
        thread::Builder::new().name("odd-in".into()).spawn(move || receive(input, &sender))?;
        // The peer is gone, or this server has gone as it was to.
        let serve = move || drop(server.run());
        thread::Builder::new().name("odd-out".into()).spawn(serve)?;
        Ok((this, from_server, to_server))
    }

    /// The most requests that it had to answer at one time; counted by a server
    /// that answers in the reverse order.
    pub fn max_pending(&self) -> usize {
        self.max_pending.load(Ordering::Relaxed)
    }

    /// How many times fewer requests of the type that it gathers came than it
    /// waited for.
    pub fn gather_timeouts(&self) -> usize {
        self.gather_timeouts.load(Ordering::Relaxed)
    }

    /// How many requests have come, the greeting not counted.
    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }

    /// The types of the requests that have come, in their order, as the draft
    /// numbers them; those of extensions are 200.
    pub fn asked(&self) -> Vec<u8> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for OddSftp {
    fn drop(&mut self) {
        *self.stalled.over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.stalled.wake.notify_all();
    }
}

/// Reads requests until there are no more.
fn receive(mut input: impl Read, requests: &SyncSender<Vec<u8>>) {
    loop {
        let mut len = [0; 4];
        if input.read_exact(&mut len).is_err() {
            return;
        }
        let len = u32::from_be_bytes(len) as usize;
        assert!((1..=REQUEST_LEN_MAX).contains(&len), "a request of {len} bytes");
        let mut request = vec![0; len];
        if input.read_exact(&mut request).is_err() || requests.send(request).is_err() {
            return;
        }
    }
}

struct Server {
    odd: Oddities,
    files: Files,
    requests: Receiver<Vec<u8>>,
    /// Those of the type that it gathers.
    gathering: Vec<Vec<u8>>,
    output: PipeWriter,
    served: Arc<AtomicUsize>,
    asked: Arc<Mutex<Vec<u8>>>,
    max_pending: Arc<AtomicUsize>,
    gather_timeouts: Arc<AtomicUsize>,
    stalled: Arc<Stall>,
}

impl Server {
    fn run(&mut self) -> io::Result<()> {
        let Ok(init) = self.requests.recv() else { return Ok(()) };
        assert_eq!(init, [1, 0, 0, 0, 3], "the client greets with version 3");
        let mut greeting = Packet::new(2, 3);
        for name in &self.odd.extensions {
            greeting.string(name.as_bytes());
            greeting.string(b"1");
        }
        self.output.write_all(&greeting.bytes())?;
        let mut late = None;
        loop {
            let Some(batch) = self.next_batch() else { return Ok(()) };
            let mut answers: VecDeque<Vec<u8>> = VecDeque::new();
            for request in batch {
                let number = self.served.fetch_add(1, Ordering::Relaxed);
                self.asked.lock().unwrap_or_else(PoisonError::into_inner).push(request[0]);
                let answer = match self.odd.fault {
                    Some((after, fault)) if number == after && !fault.is_done() => Vec::new(),
                    _ => self.files.answer(&request, &self.odd.extensions),
                };
                match self.odd.fault {
                    Some((after, Fault::Late)) if number == after => late = Some(answer),
                    Some((after, fault)) if number == after => {
                        for answer in answers.drain(..) {
                            self.output.write_all(&answer)?;
                        }
                        if !self.inject(fault, &request, &answer)? {
                            return Ok(());
                        }
                    }
                    _ if self.odd.reversed => answers.push_front(answer),
                    _ => {
                        answers.push_back(answer);
                        answers.extend(late.take());
                    }
                }
            }
            for answer in answers {
                self.output.write_all(&answer)?;
            }
        }
    }

    /// The requests to be answered next: one, or all that come within a
    /// moment, or as many as are to be gathered.
    fn next_batch(&mut self) -> Option<Vec<Vec<u8>>> {
        while let Some((kind, count)) = self.odd.gathered {
            let request = match self.gathering.len() {
                0 => self.requests.recv().map_err(RecvTimeoutError::from),
                _ => self.requests.recv_timeout(MORE_WAIT),
            };
            match request {
                Ok(request) if request[0] == kind => self.gathering.push(request),
                Ok(request) => return Some(vec![request]),
                Err(RecvTimeoutError::Timeout) => {
                    self.gather_timeouts.fetch_add(1, Ordering::Relaxed);
                    return Some(std::mem::take(&mut self.gathering));
                }
                Err(RecvTimeoutError::Disconnected) => return None,
            }
            if self.gathering.len() == count {
                return Some(std::mem::take(&mut self.gathering));
            }
        }
        let mut batch = vec![self.requests.recv().ok()?];
        if self.odd.reversed {
            while let Ok(request) = self.requests.recv_timeout(GATHER_WAIT) {
                batch.push(request);
            }
        }
        self.max_pending.fetch_max(batch.len(), Ordering::Relaxed);
        Some(batch)
    }

    /// Does what no server does; whether it goes on.
    fn inject(&mut self, fault: Fault, request: &[u8], answer: &[u8]) -> io::Result<bool> {
        let id = u32::from_be_bytes([request[1], request[2], request[3], request[4]]);
        let send = |output: &mut PipeWriter, packet: Packet| {
            output.write_all(&packet.bytes()).map(|()| true)
        };
        match fault {
            // The answers are put off where they are gathered.
            Fault::Late => Ok(true),
            Fault::Stall => {
                let over = self.stalled.over.lock().unwrap_or_else(PoisonError::into_inner);
                let wait = self.stalled.wake.wait_timeout_while(over, STALL_MAX, |over| !*over);
                drop(wait);
                Ok(false)
            }
            Fault::Die => Ok(false),
            Fault::DieInAnswer => {
                self.output.write_all(&answer[..answer.len() - 1])?;
                Ok(false)
            }
            Fault::Claim(len) => {
                self.output.write_all(&len.to_be_bytes())?;
                self.output.write_all(&answer[4..])?;
                Ok(true)
            }
            Fault::UnknownId => send(&mut self.output, Packet::status(id ^ 0x4000_0000, 4)),
            Fault::Twice => {
                self.output.write_all(answer)?;
                self.output.write_all(answer)?;
                Ok(true)
            }
            Fault::WrongKind => {
                let mut wrong = Packet::new(if answer[4] == 105 { 102 } else { 105 }, id);
                wrong.u32(0);
                send(&mut self.output, wrong)
            }
            Fault::UnknownType => send(&mut self.output, Packet::new(99, id)),
            Fault::EmptySuccess => send(&mut self.output, Packet::status(id, 0)),
            Fault::TooMuch | Fault::Nothing => {
                let mut data = Packet::new(103, id);
                let len = if fault == Fault::Nothing { 0 } else { 200 << 10 };
                data.string(&vec![b'x'; len]);
                send(&mut self.output, data)
            }
            Fault::Pretend => send(&mut self.output, Packet::status(id, 0)),
            Fault::End => send(&mut self.output, Packet::status(id, 1)),
            Fault::Refuse | Fault::Deny => send(&mut self.output, Packet::status(id, 4)),
            Fault::Garble => {
                let mut answer = answer.to_vec();
                if let Some(last) = answer.last_mut() {
                    *last = !*last;
                }
                self.output.write_all(&answer).map(|()| true)
            }
        }
    }
}

#[cfg(test)]
mod tests;
