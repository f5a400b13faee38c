//! The beginning of a client's visit: greetings, and requests, until a job comes.
//! All of it happens on a thread of its own, and another one writes: a client that
//! falls silent is noticed whatever this side is doing, and one that waits for a
//! long answer is told that this side is there.

use super::CLIENT;
use super::calls::{Asked, Calls};
use crate::assembly::FromPeer;
use crate::link::greeting::{PROGRAM, read_message_behind};
use crate::link::wire::{self, Outbox, ReadEnd, read_first_header, read_payload, refused};
use crate::mark::Held;
use crate::request::{self, Measuring};
use crate::vigil::{Vigil, Watch, sign_after, silence_of};
use crate::{JobError, Rights};
use haul_net::{ConnectError, Killer, Writer};
use haul_proto::{
    Abort, Caps, FrameType, Header, Hello, JobRequest, Join, Message, Role, check_hello, encode,
    frame_bytes,
};
use std::io::{self, BufRead, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{Builder, JoinHandle};

/// A client that has greeted.
pub(super) struct Client {
    input: FromPeer,
    outbox: Arc<Outbox>,
    /// The writer gives back what it wrote to.
    written: crossbeam_channel::Receiver<io::Result<Writer>>,
    writer: JoinHandle<()>,
    vigil: Arc<Vigil>,
    killer: Killer,
    caps: Caps,
}

/// The requests that a client may make before its job.
pub(super) struct Asking {
    /// The requests that it may make.
    pub(super) rights: Rights,
    pub(super) measuring: Measuring,
    /// To other hosts, in the job that comes.
    pub(super) calls: Calls,
    /// The number of requests so far.
    pub(super) requests: Arc<AtomicU64>,
}

/// The two streams to a client, on which nothing is being said.
pub(super) struct Line {
    pub(super) input: FromPeer,
    pub(super) output: Writer,
    pub(super) vigil: Arc<Vigil>,
    /// Lets go of both.
    pub(super) killer: Killer,
    /// In force, once greetings were said. Before, those that this side offers.
    pub(super) caps: Caps,
}

/// The end of a client's requests.
pub(super) struct LastRequest {
    pub(super) client: Client,
    pub(super) asked: Asks,
    /// The call to another host that it has asked for, if it has.
    pub(super) call: Option<Asked>,
}

/// Words of a client behind which it makes no more requests.
pub(super) enum Asks {
    /// It begins a job: its task, and this side's part in it.
    Job(Box<JobRequest>),
    /// It joins one that it has begun elsewhere.
    Join(Join),
    /// It ends its visit, and keeps the connection.
    Rest,
}

/// Greets and answers requests until a job comes; `None` if none does.
///
/// # Errors
/// When the client breaks the protocol, is silent, or its streams fail.
pub(super) fn begin(line: Line, asking: Asking) -> Result<Option<LastRequest>, JobError> {
    let (done, begun) = crossbeam_channel::bounded(1);
    let (vigil, killer) = (Arc::clone(&line.vigil), line.killer.clone());
    let mark = Held::default();
    let held = Arc::clone(&mark);
    let talking = Builder::new().name("talking".to_owned()).spawn(move || {
        // Nobody waits for it any more if the client was silent.
        let _ = done.send(talk(line, asking, held));
    });
    let talking = talking.map_err(JobError::Threads)?;
    let heard = Watch::new(&vigil, CLIENT).receive(&begun);
    *mark.lock() = None;
    if heard.is_err() {
        killer.kill();
    }
    let talked = talking.join();
    match heard? {
        Ok(begun) => begun,
        Err(_) => match talked {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => unreachable!("it says what came of it before it ends"),
        },
    }
}

fn talk(line: Line, mut asking: Asking, mark: Held) -> Result<Option<LastRequest>, JobError> {
    let Line { mut input, mut output, vigil, killer, caps } = line;
    let hello = match greet(&mut input, &mut output, caps) {
        Ok(hello) => hello,
        Err(ReadEnd::Refused(error)) => {
            let abort = Message::Abort(Abort::Protocol(error.to_string()));
            let _ = output.write_all(&encode(&abort));
            return Err(error);
        }
        Err(ReadEnd::Lost(error)) => return Err(super::lost(&error)),
    };
    vigil.greeted(silence_of(hello.silence_seconds));
    let line = Line { input, output, vigil, killer, caps: hello.caps };
    let mut client = Client::of_line(line)?;
    match client.hear_job(&mut asking, &mark) {
        Ok(Some(asked)) => {
            let call = asking.calls.take();
            Ok(Some(LastRequest { client, asked, call }))
        }
        Ok(None) => {
            // It has left: what it did not take was of no use to it.
            let _ = client.into_line();
            Ok(None)
        }
        Err(ReadEnd::Refused(error)) => {
            client.tell(&Message::Abort(Abort::Protocol(error.to_string())));
            let _ = client.into_line();
            Err(error)
        }
        Err(ReadEnd::Lost(error)) => Err(super::lost(&error)),
    }
}

/// Exchanges greetings. The client's settings are in force, as far as this side `offers` them.
fn greet(input: &mut impl Read, output: &mut Writer, offers: Caps) -> Result<Hello, ReadEnd> {
    let header = read_first_header(input)?;
    if header.kind != FrameType::Hello {
        return Err(refused("the client sent no greeting"));
    }
    let hello = Hello::decode(&read_payload(input, header)?).map_err(refused)?;
    let caps = check_hello(&hello).map(|caps| caps.intersection(offers));
    // A client of another version receives ours, and can say what is wrong.
    let welcome = Hello::ours(caps.clone().unwrap_or_default(), hello.silence_seconds, PROGRAM);
    output.write_all(&frame_bytes(FrameType::Welcome, &welcome.encode()))?;
    output.flush()?;
    Ok(Hello { caps: caps.map_err(refused)?, ..hello })
}

impl Client {
    /// The client at the other end of `line`, which has greeted.
    ///
    /// # Errors
    /// When there is no thread to write to it.
    pub(super) fn of_line(line: Line) -> Result<Self, JobError> {
        let Line { input, mut output, vigil, killer, caps } = line;
        let (outbox, frames) = Outbox::new(false);
        let (back, written) = crossbeam_channel::bounded(1);
        let sign_after = sign_after(vigil.max());
        let write = move || {
            let end = wire::run_writer(&mut output, &frames, Vec::new(), sign_after, None);
            drop(frames);
            let _ = back.send(end.map(|()| output));
        };
        let writer = Builder::new().name("writer".to_owned()).spawn(write);
        let writer = writer.map_err(JobError::Threads)?;
        Ok(Self { input, outbox, written, writer, vigil, killer, caps })
    }

    /// Answers requests until a job comes, or the client joins one; `None` if it does neither.
    fn hear_job(&mut self, asking: &mut Asking, mark: &Held) -> Result<Option<Asks>, ReadEnd> {
        let Asking { rights, measuring, calls, requests } = asking;
        // A client that goes away between two messages has what it wanted.
        while let Some(header) = self.next_header()? {
            match read_message_behind(header, &mut self.input)? {
                Message::Job(JobRequest {
                    task, role: Role::Sender { follow: true, .. }, ..
                }) if task.removes().is_some() && task.mirrors().is_none() => {
                    return Err(refused("the client asked to remove the targets of links"));
                }
                Message::Job(job) if calls.is_asked() && !may_call(&job) => {
                    return Err(refused("the client asked a host that sends nothing to connect"));
                }
                Message::Job(job) => return Ok(Some(Asks::Job(Box::new(job)))),
                Message::Call(call) if self.caps.has(Caps::CALLS) => {
                    let called = calls.ask(call);
                    self.tell(&Message::Called(called));
                }
                Message::Join(join) if self.caps.has(Caps::LANES) => {
                    return Ok(Some(Asks::Join(join)));
                }
                Message::Rest if self.caps.has(Caps::SESSIONS) => return Ok(Some(Asks::Rest)),
                Message::Request(request) => {
                    requests.fetch_add(1, Ordering::Relaxed);
                    request::answer(request, &self.outbox, mark, *rights)?;
                }
                Message::Measure(asked) if self.caps.has(Caps::MEASURES) => {
                    measuring.answer(asked, &mut self.input, &self.outbox)?;
                }
                _ => return Err(refused("the client sent neither a request nor a job")),
            }
        }
        Ok(None)
    }

    /// The header of the next frame that says something; `None` once the client has left.
    fn next_header(&mut self) -> Result<Option<Header>, ReadEnd> {
        loop {
            match self.input.fill_buf() {
                Ok([]) => return Ok(None),
                Ok(_) => {}
                Err(error) if is_hang_up(&error) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
            let header = read_first_header(&mut self.input)?;
            if header.kind != FrameType::Alive {
                return Ok(Some(header));
            }
        }
    }

    /// Lets go of the client.
    pub(super) fn killer(&self) -> Killer {
        self.killer.clone()
    }

    /// The capabilities that are in force.
    pub(super) fn caps(&self) -> Caps {
        self.caps
    }

    /// Queues a message.
    pub(super) fn tell(&self, message: &Message) {
        self.outbox.tell(message);
    }

    /// Ends the writer, when it has sent all. That may take as long as silence may.
    ///
    /// # Errors
    /// When the client takes nothing any more.
    pub(super) fn into_line(self) -> Result<Line, JobError> {
        let Self { input, outbox, written, writer, vigil, killer, caps } = self;
        outbox.close();
        let output = match vigil.max() {
            Some(max) => written.recv_timeout(max).map_err(|_| {
                // The writer leaves.
                killer.kill();
                let (host, seconds) = (CLIENT.to_owned(), max.as_secs());
                JobError::Connection(ConnectError::Silent { host, seconds })
            })?,
            None => written.recv().unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into())),
        };
        let output = output.map_err(|error| super::lost(&error))?;
        // It has nothing left to do.
        drop(writer.join());
        Ok(Line { input, output, vigil, killer, caps })
    }
}

/// True if the client has closed the connection: a process that ends does it without a word.
fn is_hang_up(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset)
}

/// True if a call to another host makes sense in a job: this side sends, and is not called
/// itself.
fn may_call(job: &JobRequest) -> bool {
    matches!(job.role, Role::Sender { .. }) && job.direct.is_none() && job.joins.is_none()
}
