//! The start of a client's visit: greetings, and requests until a job. It runs on its own thread,
//! with another thread for writing. So a silent client is noticed at any time, and a client that
//! waits for a long answer gets signs of life.

use super::CLIENT;
use super::calls::Asked;
use crate::assembly::PeerInput;
use crate::link::greeting::{PROGRAM, read_message_behind};
use crate::link::wire::{self, Outbox, ReadEnd, read_first_header, read_payload, refused};
use crate::marker::Held;
use crate::request::{self, Measuring};
use crate::watchdog::{Watch, Watchdog, keepalive_after, silence_of};
use crate::{JobError, Rights};
use haul_net::{ConnectError, Killer, Writer};
use haul_proto::{
    Abort, Called, Caps, FrameType, Header, Hello, JobRequest, Join, Message, Role, check_hello,
    encode, frame_bytes,
};
use std::io::{self, BufRead, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{Builder, JoinHandle};

/// A client that has greeted.
pub(super) struct Client {
    input: PeerInput,
    outbox: Arc<Outbox>,
    /// Returns the stream from the writer when it has ended.
    written: crossbeam_channel::Receiver<io::Result<Writer>>,
    writer: JoinHandle<()>,
    watchdog: Arc<Watchdog>,
    killer: Killer,
    caps: Caps,
}

/// The requests that a client may make before its job.
pub(super) struct RequestContext {
    /// The requests that it may make.
    pub(super) rights: Rights,
    pub(super) measuring: Measuring,
    /// It may have this machine call other hosts.
    pub(super) calls: bool,
    /// The last call that it has requested for its next job.
    pub(super) asked: Option<Asked>,
    /// The number of requests so far.
    pub(super) requests: Arc<AtomicU64>,
}

/// The two streams to a client, between messages.
pub(super) struct ClientStreams {
    pub(super) input: PeerInput,
    pub(super) output: Writer,
    pub(super) watchdog: Arc<Watchdog>,
    /// Closes both streams.
    pub(super) killer: Killer,
    /// The negotiated capabilities. Before the greetings, the capabilities that this side offers.
    pub(super) caps: Caps,
}

/// The end of a client's requests.
pub(super) struct LastRequest {
    pub(super) client: Client,
    pub(super) asked: LastMessage,
    /// The call to another host that the client has requested, if any.
    pub(super) call: Option<Asked>,
}

/// A message that ends a client's requests.
pub(super) enum LastMessage {
    /// Starts a job, with its task and this side's role.
    Job(Box<JobRequest>),
    /// Joins a job that the client has started on another connection.
    Join(Join),
    /// Ends the visit, and keeps the connection.
    Rest,
}

/// Greets and answers requests until a job; `None` if the client leaves without one.
///
/// # Errors
/// When the client breaks the protocol, is silent, or its streams fail.
pub(super) fn begin(
    streams: ClientStreams,
    context: RequestContext,
) -> Result<Option<LastRequest>, JobError> {
    let (done, begun) = crossbeam_channel::bounded(1);
    let (watchdog, killer) = (Arc::clone(&streams.watchdog), streams.killer.clone());
    let marker = Held::default();
    let held = Arc::clone(&marker);
    let talking = Builder::new().name("talking".to_owned()).spawn(move || {
        // If the client was silent, nobody waits for this.
        let _ = done.send(serve_requests(streams, context, held));
    });
    let talking = talking.map_err(JobError::Threads)?;
    let heard = Watch::new(&watchdog, CLIENT).receive(&begun);
    *marker.lock() = None;
    if heard.is_err() {
        killer.kill();
    }
    let talked = talking.join();
    match heard? {
        Ok(begun) => begun,
        Err(_) => match talked {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => unreachable!("it reports its result before it ends"),
        },
    }
}

fn serve_requests(
    streams: ClientStreams,
    mut context: RequestContext,
    marker: Held,
) -> Result<Option<LastRequest>, JobError> {
    let ClientStreams { mut input, mut output, watchdog, killer, caps } = streams;
    let hello = match greet(&mut input, &mut output, caps) {
        Ok(hello) => hello,
        Err(ReadEnd::Refused(error)) => {
            let abort = Message::Abort(Abort::Protocol(error.to_string()));
            let _ = output.write_all(&encode(&abort));
            return Err(error);
        }
        Err(ReadEnd::Lost(error)) => return Err(super::lost(&error)),
    };
    watchdog.greeted(silence_of(hello.silence_seconds));
    let streams = ClientStreams { input, output, watchdog, killer, caps: hello.caps };
    let mut client = Client::from_streams(streams)?;
    match client.read_requests(&mut context, &marker) {
        Ok(Some(asked)) => Ok(Some(LastRequest { client, asked, call: context.asked })),
        Ok(None) => {
            // The client has left, and needs no unread answers.
            let _ = client.into_streams();
            Ok(None)
        }
        Err(ReadEnd::Refused(error)) => {
            client.send_message(&Message::Abort(Abort::Protocol(error.to_string())));
            let _ = client.into_streams();
            Err(error)
        }
        Err(ReadEnd::Lost(error)) => Err(super::lost(&error)),
    }
}

/// Exchanges greetings. Returns the client's greeting with the negotiated capabilities.
fn greet(input: &mut impl Read, output: &mut Writer, offers: Caps) -> Result<Hello, ReadEnd> {
    let header = read_first_header(input)?;
    if header.kind != FrameType::Hello {
        return Err(refused("the client sent no greeting"));
    }
    let hello = Hello::decode(&read_payload(input, header)?).map_err(refused)?;
    let caps = check_hello(&hello).map(|caps| caps.and(offers));
    // A client of another version receives the greeting too, and can report the mismatch.
    let welcome = Hello::ours(caps.clone().unwrap_or_default(), hello.silence_seconds, PROGRAM);
    output.write_all(&frame_bytes(FrameType::Welcome, &welcome.encode()))?;
    output.flush()?;
    Ok(Hello { caps: caps.map_err(refused)?, ..hello })
}

impl Client {
    /// The client at the other end of `streams`, after the greetings.
    ///
    /// # Errors
    /// When the writer's thread can't be started.
    pub(super) fn from_streams(streams: ClientStreams) -> Result<Self, JobError> {
        let ClientStreams { input, mut output, watchdog, killer, caps } = streams;
        let (outbox, frames) = Outbox::new(false);
        let (back, written) = crossbeam_channel::bounded(1);
        let keepalive_after = keepalive_after(watchdog.max());
        let write = move || {
            let end = wire::run_writer(&mut output, &frames, Vec::new(), keepalive_after, None);
            drop(frames);
            let _ = back.send(end.map(|()| output));
        };
        let writer = Builder::new().name("writer".to_owned()).spawn(write);
        let writer = writer.map_err(JobError::Threads)?;
        Ok(Self { input, outbox, written, writer, watchdog, killer, caps })
    }

    /// Answers requests until the client starts or joins a job, or rests; `None` if it leaves.
    fn read_requests(
        &mut self,
        context: &mut RequestContext,
        marker: &Held,
    ) -> Result<Option<LastMessage>, ReadEnd> {
        let RequestContext { rights, measuring, calls, asked, requests } = context;
        // A client that leaves between two messages has received all answers.
        while let Some(header) = self.next_header()? {
            match read_message_behind(header, &mut self.input)? {
                Message::Job(JobRequest { task, role: Role::Sender(sources), .. })
                    if sources.follow && task.removes().is_some() && task.mirrors().is_none() =>
                {
                    return Err(refused("the client asked to remove the targets of links"));
                }
                Message::Job(job) if asked.is_some() && !may_call(&job) => {
                    return Err(refused("the client asked a host that sends nothing to connect"));
                }
                Message::Job(job) => return Ok(Some(LastMessage::Job(Box::new(job)))),
                Message::Call(call) if self.caps.has(Caps::CALLS) => {
                    let called = match Asked::new(call, *calls) {
                        Ok(call) => Called::Key(asked.insert(call).identity.public()),
                        Err(reason) => Called::Failed(reason),
                    };
                    self.send_message(&Message::Called(called));
                }
                Message::Join(join) if self.caps.has(Caps::LANES) => {
                    return Ok(Some(LastMessage::Join(join)));
                }
                Message::Rest if self.caps.has(Caps::SESSIONS) => {
                    return Ok(Some(LastMessage::Rest));
                }
                Message::Request(request) => {
                    requests.fetch_add(1, Ordering::Relaxed);
                    request::answer(request, &self.outbox, marker, *rights)?;
                }
                Message::Measure(asked) if self.caps.has(Caps::MEASURES) => {
                    measuring.answer(asked, &mut self.input, &self.outbox)?;
                }
                _ => return Err(refused("the client sent neither a request nor a job")),
            }
        }
        Ok(None)
    }

    /// The header of the next frame except signs of life; `None` once the client has left.
    fn next_header(&mut self) -> Result<Option<Header>, ReadEnd> {
        loop {
            match self.input.fill_buf() {
                Ok([]) => return Ok(None),
                Ok(_) => {}
                Err(error) if is_disconnect(&error) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
            let header = read_first_header(&mut self.input)?;
            if header.kind != FrameType::Alive {
                return Ok(Some(header));
            }
        }
    }

    /// A handle that disconnects the client.
    pub(super) fn killer(&self) -> Killer {
        self.killer.clone()
    }

    /// The negotiated capabilities.
    pub(super) fn caps(&self) -> Caps {
        self.caps
    }

    /// Queues a message.
    pub(super) fn send_message(&self, message: &Message) {
        self.outbox.send_message(message);
    }

    /// Ends the writer once it has sent everything, which may take as long as the client may be
    /// silent.
    ///
    /// # Errors
    /// When the client no longer reads.
    pub(super) fn into_streams(self) -> Result<ClientStreams, JobError> {
        let Self { input, outbox, written, writer, watchdog, killer, caps } = self;
        outbox.close();
        let output = match watchdog.max() {
            Some(max) => written.recv_timeout(max).map_err(|_| {
                // This ends the writer.
                killer.kill();
                let (host, seconds) = (CLIENT.to_owned(), max.as_secs());
                JobError::Connection(ConnectError::Silent { host, seconds })
            })?,
            None => written.recv().unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into())),
        };
        let output = output.map_err(|error| super::lost(&error))?;
        // The thread is about to end.
        drop(writer.join());
        Ok(ClientStreams { input, output, watchdog, killer, caps })
    }
}

/// True if the client has closed the connection, as an ending process does.
fn is_disconnect(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset)
}

/// True if the job may call another host: this side sends, and accepts no connections itself.
fn may_call(job: &JobRequest) -> bool {
    matches!(job.role, Role::Sender(_)) && job.direct.is_none() && job.joins.is_none()
}
