//! One end of a wire, as a job uses it: the stream from the peer, and the writer.

use super::WriterWork;
use super::carrier::{PeerInput, watch_reader};
use super::opening::calling::{CallSettings, Callee};
use super::opening::further_logins::FurtherLogins;
use super::opening::{Joining, Joins};
use super::roster::Roster;
use crate::control::Control;
use crate::link::greeting::welcome;
use crate::link::wire::{ByWire, End, Frames, Offers, OnLeaving, Outbox, ReadEnd, run_writer};
use crate::sender::Sender;
use crate::threads::JobThreads;
use crate::watchdog::{Watchdog, keepalive_after};
use crossbeam_channel::{Sender as Giver, bounded};
use haul_net::Writer;
use haul_proto::Caps;
use parking_lot::{Condvar, Mutex};
use std::io::Read;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// One end of a wire.
pub(crate) struct Wire {
    pub(crate) outbox: Arc<Outbox>,
    frames: Frames,
    output: Writer,
    input: Input,
    /// Sent first.
    greeting: Vec<u8>,
    /// The longest silence of either side.
    silence_max: Option<Duration>,
    /// How lanes join, if any may.
    pub(crate) joining: Option<Box<Joining>>,
    /// The contents that are sent over this wire itself, not over lanes.
    pub(crate) by_wire: ByWire,
}

/// The streams of a wire on which both sides have sent Rest. The reader has read nothing after
/// Rest. Each stream is returned once its thread has ended.
#[derive(Clone, Default)]
pub(crate) struct IdleStreams(Arc<(Mutex<Returned>, Condvar)>);

/// The streams that the threads of a wire have returned.
#[derive(Default)]
struct Returned {
    /// The reader has ended.
    has_read: bool,
    input: Option<PeerInput>,
    output: Option<Writer>,
}

impl IdleStreams {
    /// Takes both streams, if both were returned.
    pub(crate) fn take(&self) -> Option<(PeerInput, Writer)> {
        let Returned { input, output, .. } = std::mem::take(&mut *self.0.0.lock());
        input.filter(|input| input.buffer().is_empty()).zip(output)
    }

    /// Waits up to `timeout` for the peer's Rest. False if none arrives.
    pub(crate) fn is_complete_within(&self, timeout: Duration) -> bool {
        let (returned, changed) = &*self.0;
        let reads = |returned: &mut Returned| !returned.has_read;
        let mut returned = returned.lock();
        changed.wait_while_for(&mut returned, reads, timeout);
        returned.input.is_some()
    }

    /// The reader has ended. `input` is set if the peer has sent Rest.
    fn read(&self, input: Option<PeerInput>) {
        let mut returned = self.0.0.lock();
        returned.has_read = true;
        returned.input = input;
        self.0.1.notify_all();
    }
}

/// The stream that a job reads.
pub(crate) struct Input {
    stream: PeerInput,
    /// The peer's name in messages.
    peer: String,
    /// The greeting of this side. Set until the peer has greeted.
    pending_greeting: Option<Greeting>,
    outbox: Arc<Outbox>,
    idle_streams: IdleStreams,
    /// Receives the agent's direct address, if the agent is asked for it.
    offers: Option<Offers>,
}

/// The greeting of a client, which its agent returns.
pub(crate) struct Greeting {
    pub(crate) bytes: Vec<u8>,
    pub(crate) watchdog: Arc<Watchdog>,
    /// The longest silence of the peer after its greeting.
    pub(crate) silence_max: Option<Duration>,
    /// The client offers to keep the connection.
    pub(crate) keeps: bool,
}

impl Wire {
    /// The wire of a client to the agent `peer`. It sends `greeting` first.
    pub(crate) fn of_client(
        reader: Box<dyn Read + Send>,
        output: Writer,
        peer: &str,
        mut greeting: Greeting,
    ) -> Self {
        let (bytes, silence_max) = (std::mem::take(&mut greeting.bytes), greeting.silence_max);
        let stream = watch_reader(reader, &greeting.watchdog);
        let mut wire = Self::new(stream, output, peer, bytes, silence_max);
        wire.input.pending_greeting = Some(greeting);
        wire
    }

    /// The wire to a peer after both greetings, with capabilities `caps`. It sends `request` first.
    pub(crate) fn of_greeted(
        stream: PeerInput,
        output: Writer,
        peer: &str,
        caps: Caps,
        request: Vec<u8>,
        silence_max: Option<Duration>,
    ) -> Self {
        let wire = Self::new(stream, output, peer, request, silence_max);
        wire.outbox.greeted(caps);
        wire
    }

    fn new(
        stream: PeerInput,
        output: Writer,
        peer: &str,
        greeting: Vec<u8>,
        silence_max: Option<Duration>,
    ) -> Self {
        let (outbox, frames) = Outbox::new(output.pipe().is_some());
        let input = Input {
            stream,
            peer: peer.to_owned(),
            pending_greeting: None,
            outbox: Arc::clone(&outbox),
            idle_streams: IdleStreams::default(),
            offers: None,
        };
        let (joining, by_wire) = (None, ByWire::Any);
        Self { outbox, frames, output, input, greeting, silence_max, joining, by_wire }
    }

    /// Lets a client open lanes: by calls if the agent is asked for its direct address, and by
    /// logins.
    pub(crate) fn with_lanes(
        mut self,
        calling: Option<CallSettings>,
        is_required: bool,
        further_logins: Option<FurtherLogins>,
    ) -> Self {
        let callee = calling.map(|calling| self.callee(calling, is_required));
        let opens = callee.is_some() || further_logins.is_some();
        self.joining = opens.then(|| Joining::Opens { callee, further_logins }.into());
        self
    }

    /// Lets an agent open lanes by calls to a receiving agent, at the address from its client.
    pub(crate) fn with_calls(mut self, calling: CallSettings, is_required: bool) -> Self {
        self.by_wire = if is_required { ByWire::Nothing } else { ByWire::First };
        let (callee, further_logins) = (Some(self.callee(calling, is_required)), None);
        self.joining = Some(Joining::Opens { callee, further_logins }.into());
        self
    }

    fn callee(&mut self, calling: CallSettings, is_required: bool) -> Callee {
        let (offers, offer) = bounded(1);
        self.input.offers = Some(offers);
        Callee { calling, offer, is_required, checked_offer: OnceLock::new() }
    }

    /// The streams, once they are at rest.
    pub(crate) fn idle_streams(&self) -> IdleStreams {
        self.input.idle_streams.clone()
    }

    /// The way in which lanes join this wire; they are registered in `roster`.
    pub(super) fn joins(&mut self, roster: &Arc<Roster>) -> Joins {
        let (joining, by_wire) = (self.joining.take(), self.by_wire);
        let (roster, peer) = (Arc::clone(roster), self.input.peer.clone());
        Joins { joining, by_wire, roster, peer, silence_max: self.silence_max }
    }

    /// Starts the thread that sends the greeting and the queue, until the job has nothing more to
    /// send. `sender` counts the contents. Returns the rest of the wire, and the writer's work if
    /// no thread could be started.
    pub(super) fn begin_writer<'scope, 'a: 'scope>(
        self,
        threads: JobThreads<'scope, '_>,
        sender: Option<Arc<Sender<'a>>>,
        at_work: Giver<()>,
    ) -> ((Input, Arc<Outbox>), Option<WriterWork<'scope>>) {
        let Self { outbox, frames, mut output, input, greeting, silence_max, .. } = self;
        let (control, peer) = (threads.control(), input.peer.clone());
        let (outbox_of_input, idle_streams) = (Arc::clone(&outbox), input.idle_streams.clone());
        let write = move || {
            let _at_work = at_work;
            let on_leaving = |index, len| {
                if let Some(sender) = &sender {
                    sender.ledger.count_sent(index, len);
                }
            };
            let of_job = Some((control, &on_leaving as OnLeaving<'_>));
            let keepalive_after = keepalive_after(silence_max);
            let sent = run_writer(&mut output, &frames, greeting, keepalive_after, of_job);
            drop(frames);
            match sent {
                Ok(()) => {
                    idle_streams.0.0.lock().output = outbox_of_input.rests().then_some(output)
                }
                Err(error) => {
                    drop(output);
                    // The peer may have sent the reason, or that the job is done.
                    control.linger();
                    ReadEnd::Lost(error).report(control, &peer);
                }
            }
        };
        let instead =
            threads.spawn_or_return("writer", Box::new(write) as WriterWork<'scope>).err();
        ((input, outbox), instead)
    }
}

impl Input {
    /// Runs `read` until the job has ended. Ends the job if the stream ends before.
    pub(super) fn read(
        mut self,
        control: &Control<'_>,
        read: impl FnOnce(&mut PeerInput, Option<&Offers>) -> Result<End, ReadEnd>,
    ) {
        let greeted = match self.pending_greeting {
            None => Ok(()),
            Some(Greeting { watchdog, silence_max, keeps, .. }) => {
                welcome(&mut self.stream, &self.peer, keeps).map(|welcome| {
                    self.outbox.greeted(welcome.caps);
                    watchdog.greeted(silence_max);
                })
            }
        };
        match greeted.and_then(|()| read(&mut self.stream, self.offers.as_ref())) {
            Ok(End::Rest) => return self.idle_streams.read(Some(self.stream)),
            Ok(End::Job) => {}
            Err(end) => end.report(control, &self.peer),
        }
        self.idle_streams.read(None);
    }
}
