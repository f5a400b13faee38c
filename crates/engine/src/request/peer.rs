//! A connection to an agent that answers requests, until a job uses it.

use super::{RequestError, Session};
use crate::JobError;
use crate::assembly::{PeerInput, watch_reader};
use crate::link::greeting::{hello, read_message, welcome};
use crate::link::wire::{OutFrame, Outbox, ReadEnd, aborted, refused, run_writer};
use crate::watchdog::{Watch, Watchdog, keepalive_after};
use crossbeam_channel::{Receiver, Sender};
use haul_net::{Closer, ConnectError, Connection, HostAddresses, Writer};
use haul_proto::{Caps, Message, Reply, Request, Welcome};
use std::io;
use std::sync::Arc;
use std::thread::Builder;
use std::time::Duration;

/// The most unanswered requests, and also the most unread answers.
const AT_ONCE_MAX: usize = 128;

/// The longest wait for a peer's Rest.
const LEAVING_MAX: Duration = Duration::from_secs(2);

/// An agent. One thread writes, and sends signs of life between requests. Another thread reads as
/// many messages as are awaited, and never ahead.
pub(crate) struct Peer {
    outbox: Arc<Outbox>,
    /// Receives one item for each message to be read.
    awaited: Sender<()>,
    answers: Receiver<Result<Answer, ReadEnd>>,
    watch: Watch,
    watchdog: Arc<Watchdog>,
    closer: Option<Closer>,
    name: String,
    /// The negotiated capabilities.
    pub(crate) caps: Caps,
    /// The version of the peer's program.
    pub(super) version: String,
    /// The two threads return their streams here when they end.
    streams: (Receiver<PeerInput>, Receiver<Writer>),
}

/// A message of a peer.
enum Answer {
    /// It greets.
    Welcome(Box<Welcome>),
    Message(Box<Message>),
}

/// A connection to an agent that has greeted and answered all requests.
pub struct Greeted {
    pub(crate) input: PeerInput,
    pub(crate) output: Writer,
    pub(crate) watchdog: Arc<Watchdog>,
    pub(crate) closer: Closer,
    /// The negotiated capabilities.
    pub(crate) caps: Caps,
    /// The version of the peer's program.
    pub(crate) version: String,
}

impl Peer {
    /// Exchanges greetings with the agent of `session`, unless it has greeted already, or the user
    /// has `cancelled`.
    ///
    /// # Errors
    /// When the agent does not greet, or uses another version.
    pub(super) fn start(
        session: Session,
        cancelled: Option<&dyn Fn() -> bool>,
    ) -> Result<Self, JobError> {
        let (mut input, mut writer, watchdog, closer, greeted) = match session {
            Session::New(Connection { reader, writer, closer }) => {
                let watchdog = Watchdog::new(closer.timeouts());
                (watch_reader(reader, &watchdog), writer, watchdog, closer, None)
            }
            Session::Greeted(Greeted { input, output, watchdog, closer, caps, version }) => {
                (input, output, watchdog, closer, Some((caps, version)))
            }
        };
        let (name, timeout) = (closer.peer().to_owned(), closer.timeouts());
        let (keeps, mut is_greeted) = (closer.keeps(), greeted.is_some());
        let (outbox, frames) = Outbox::new(false);
        let hello = if is_greeted { Vec::new() } else { hello(keeps, timeout) };
        let (give_writer, writers) = crossbeam_channel::bounded(1);
        let write = move || {
            let keepalive_after = keepalive_after(timeout.silence_max);
            // If the connection breaks, the reader finds out why.
            if run_writer(&mut writer, &frames, hello, keepalive_after, None).is_ok() {
                let _ = give_writer.send(writer);
            }
        };
        let (awaited, awaits) = crossbeam_channel::bounded(AT_ONCE_MAX);
        let (messages, answers) = crossbeam_channel::bounded(AT_ONCE_MAX);
        let (give_reader, readers) = crossbeam_channel::bounded(1);
        let (watch, peer) = (Watch::new(&watchdog, &name), name.clone());
        let (refused, received) = (messages.clone(), Arc::clone(&watchdog));
        let read = move || {
            for () in awaits {
                let next = if is_greeted {
                    read_message(&mut input).map(|message| Answer::Message(Box::new(message)))
                } else {
                    let greeting = welcome(&mut input, &peer, keeps);
                    received.greeted(timeout.silence_max);
                    is_greeted = true;
                    greeting.map(|greeting| Answer::Welcome(Box::new(greeting)))
                };
                let is_end = next.is_err();
                if messages.send(next).is_err() || is_end {
                    return;
                }
            }
            let _ = give_reader.send(input);
        };
        let begin = |name: &str| Builder::new().name(name.to_owned());
        let begun = begin("writer").spawn(write).and_then(|_| begin("reader").spawn(read));
        if let Err(error) = begun {
            // The first request gets this as its answer.
            let _ = refused.send(Err(ReadEnd::Refused(JobError::Threads(error))));
        }
        let is_new = greeted.is_none();
        let (caps, version) = greeted.unwrap_or((Caps::NONE, String::new()));
        let (closer, streams) = (Some(closer), (readers, writers));
        let mut peer = Self {
            outbox,
            awaited,
            answers,
            watch,
            watchdog,
            closer,
            name,
            caps,
            version,
            streams,
        };
        if is_new {
            let _ = peer.awaited.send(());
            match peer.take_unless(cancelled)? {
                Answer::Welcome(greeting) => {
                    (peer.caps, peer.version) = (greeting.caps, greeting.program);
                }
                Answer::Message(_) => unreachable!("the greeting is read first"),
            }
        }
        Ok(peer)
    }

    pub(super) fn ask(&mut self, request: Request) -> Result<Reply, RequestError> {
        self.outbox.send_message(&Message::Request(request));
        self.read()
    }

    /// Sends all `requests`, overlapping, and returns the results of `take` for the replies, in
    /// order. Each reply is one message.
    ///
    /// # Errors
    /// When the connection fails, and those of `take`.
    pub(super) fn ask_each<T>(
        &mut self,
        requests: impl Iterator<Item = Request>,
        mut take: impl FnMut(&mut Self, Reply) -> Result<T, JobError>,
    ) -> Result<Vec<T>, JobError> {
        let (mut taken, mut on_their_way) = (Vec::new(), 0);
        for request in requests {
            if on_their_way == AT_ONCE_MAX {
                let reply = self.take_reply()?;
                taken.push(take(self, reply)?);
                on_their_way -= 1;
            }
            // If the peer reads nothing, waiting for its reply reports that.
            let timeout = self.watchdog.max().unwrap_or(Duration::MAX);
            self.outbox.send_message_within(&Message::Request(request), timeout);
            let _ = self.awaited.send(());
            on_their_way += 1;
        }
        for _ in 0..on_their_way {
            let reply = self.take_reply()?;
            taken.push(take(self, reply)?);
        }
        Ok(taken)
    }

    pub(super) fn read(&mut self) -> Result<Reply, RequestError> {
        // A reader that has ended has sent the reason.
        let _ = self.awaited.send(());
        Ok(self.take_reply()?)
    }

    /// The next awaited reply.
    fn take_reply(&mut self) -> Result<Reply, JobError> {
        if let Answer::Message(message) = self.take_unless(None)?
            && let Message::Reply(reply) = *message
        {
            return Ok(reply);
        }
        Err(self.broken(refused("the peer sent no valid answer")))
    }

    fn take_unless(&mut self, cancelled: Option<&dyn Fn() -> bool>) -> Result<Answer, JobError> {
        let received = self.watch.receive_unless(&self.answers, cancelled)?;
        received
            .unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::BrokenPipe).into()))
            .map_err(|end| self.broken(end))
    }

    /// The error for a reply that does not fit the request.
    pub(super) fn refuse(&mut self, reply: Reply) -> RequestError {
        match reply {
            Reply::Fault(fault) => fault.into(),
            _ => self.broken(refused("the peer answered a different request")).into(),
        }
    }

    /// The addresses of the host, looked up by its name.
    pub(crate) fn host_addresses(&self) -> HostAddresses {
        let closer = self.closer.as_ref();
        closer.map_or_else(|| HostAddresses::at(Vec::new()), Closer::host_addresses)
    }

    /// Sends a frame within `limit`. If that fails, the next awaited message contains the reason.
    pub(crate) fn send_frame(&self, frame: OutFrame, limit: Duration) -> Option<()> {
        self.outbox.send_within(frame, limit)
    }

    /// The next message that is not a reply, if it arrives within `limit`.
    ///
    /// # Errors
    /// When the connection fails, the peer aborts, or nothing arrives.
    pub(crate) fn receive_within(&mut self, limit: Duration) -> Result<Message, JobError> {
        // A reader that has ended has sent the reason.
        let _ = self.awaited.send(());
        let received = self.watch.receive_within(&self.answers, limit)?;
        let Some(received) = received else {
            return Err(self.broken(refused("the peer did not finish in time")));
        };
        let end = || Err(io::Error::from(io::ErrorKind::BrokenPipe).into());
        match received.unwrap_or_else(|_| end()).map_err(|end| self.broken(end))? {
            Answer::Message(message) => match *message {
                Message::Abort(abort) => Err(self.broken(ReadEnd::Refused(aborted(abort)))),
                message => Ok(message),
            },
            Answer::Welcome(_) => unreachable!("the greeting is read first"),
        }
    }

    pub(crate) fn broken(&mut self, end: ReadEnd) -> JobError {
        match (end, self.closer.take()) {
            (ReadEnd::Refused(error), _) => error,
            (ReadEnd::Lost(_), Some(closer)) => {
                // The peer sees the end of the stream, and ends.
                self.outbox.close();
                closer.explain().into()
            }
            (ReadEnd::Lost(error), None) => ConnectError::lost(&self.name, &error).into(),
        }
    }

    /// Ends the visit. The connection is kept if that is wanted and the peer agrees.
    pub(super) fn leave(mut self) {
        if !self.caps.has(Caps::SESSIONS) {
            return;
        }
        self.outbox.send_message_within(&Message::Rest, LEAVING_MAX);
        let is_at_rest = matches!(self.receive_within(LEAVING_MAX), Ok(Message::Rest));
        if let Some(greeted) = self.into_greeted().filter(|_| is_at_rest)
            && greeted.input.buffer().is_empty()
        {
            let Greeted { input, output, closer, .. } = greeted;
            closer.keep(input.into_inner().into_inner(), output);
        }
    }

    /// The idle connection; `None` if it can't be used any more.
    pub(super) fn into_greeted(self) -> Option<Greeted> {
        let Self { outbox, awaited, watchdog, closer, caps, version, streams, .. } = self;
        let (readers, writers) = streams;
        // Nothing is awaited: the reader waits for this, and the writer has sent everything.
        drop(awaited);
        outbox.close();
        let timeout = watchdog.max().unwrap_or(Duration::MAX);
        let input = readers.recv_timeout(timeout).ok()?;
        let output = writers.recv_timeout(timeout).ok()?;
        Some(Greeted { input, output, watchdog, closer: closer?, caps, version })
    }
}
