//! Further connections of a job: how they are opened on either side, and what they carry
//! then. The client calls where the agent told it to; the agent lets in who has the key
//! that the client told, and nobody learns more than that he is hung up on.

use crate::callers::let_in;
use crate::control::{CANCEL_POLL, Control};
use crate::crew::Crew;
use crate::link::wire::{Lane, Outbox, READ_AHEAD, ReadEnd, run_writer};
use crate::receiver::{Arrivals, Receiver, read_lane};
use crate::sender::{Readers, run_reader};
use crate::vigil::{Vigil, sign_after};
use crate::workers::workers;
use crate::{Event, JobError, LinkEvent};
use crossbeam_channel::{Receiver as Told, Sender as Giver};
use haul_model::escape_controls;
use haul_net::{ConnectError, Direct, DirectListener, Identity, Killer, Patience};
use haul_proto::{DirectOffer, Join, LANES_MAX, Message, encode};
use haul_tree::lock;
use std::io::{self, BufReader, Write};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long a host may take to answer a call, where the job goes on meanwhile.
const CALL_MAX: Duration = Duration::from_secs(3);

/// The same where it can't.
const REQUIRED_CALL_MAX: Duration = Duration::from_secs(10);

/// Content that is left of a job, in bytes, below which nobody is called: it would be over
/// before they are there.
const CALLED_MIN: u64 = 2 << 20;

/// How often is looked how much is left.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Content that a lane is worth, in bytes.
const LANE_LEN: u64 = 4 << 20;

/// How many lanes there are at most, by the time that a call takes: one of them is held up
/// by that the more, the longer it takes to be heard.
const BY_ROUND_TRIP: [(Duration, u8); 2] =
    [(Duration::from_millis(2), 2), (Duration::from_millis(20), 4)];

/// Buffers that a lane adds to those that go round.
const BUFFERS_PER_LANE: usize = 3;

/// How lanes of a job come about on this side.
pub(crate) enum Joining {
    /// This side calls.
    Calls {
        identity: Identity,
        /// Where the agent is reached, as soon as it has told.
        offer: Told<Result<DirectOffer, String>>,
        is_required: bool,
    },
    /// This side is called.
    IsCalled(DirectListener),
}

/// The part of a lane on this side.
#[derive(Clone)]
pub(super) enum Part<'a> {
    /// Contents leave by it.
    Sends(Arc<Readers<'a>>),
    /// Contents come by it.
    Receives(Arc<Receiver<'a>>, Arc<Arrivals>),
}

/// The lanes that have joined, and who hangs up on them.
#[derive(Default)]
pub(super) struct Joined(Mutex<Hangup>);

#[derive(Default)]
struct Hangup {
    lanes: Vec<Ends>,
    has_ended: bool,
}

/// The ways to end a lane.
struct Ends {
    killer: Killer,
    outbox: Option<Arc<Outbox>>,
}

impl Ends {
    fn end(&self) {
        if let Some(outbox) = &self.outbox {
            outbox.close();
            outbox.cut();
        }
        self.killer.kill();
    }
}

impl Joined {
    fn add(&self, killer: Killer, outbox: Option<Arc<Outbox>>) {
        let ends = Ends { killer, outbox };
        let mut hangup = lock(&self.0);
        match hangup.has_ended {
            true => ends.end(),
            false => hangup.lanes.push(ends),
        }
    }

    /// Hangs up on all that have joined, and on those that still do.
    pub(super) fn hang_up(&self) {
        let mut hangup = lock(&self.0);
        hangup.has_ended = true;
        hangup.lanes.iter().for_each(Ends::end);
    }
}

/// A job whose lanes are being opened.
pub(super) struct Opening<'scope, 'env, 'a> {
    pub(super) crew: Crew<'scope, 'env>,
    pub(super) part: Part<'a>,
    pub(super) joined: Arc<Joined>,
    /// Contents go over lanes that have joined alone.
    pub(super) requires_joined: bool,
    /// The peer's name for messages.
    pub(super) peer: String,
    /// The longest silence of either side.
    pub(super) silence_max: Option<Duration>,
    /// Held by all threads that may wait for the peer.
    pub(super) at_work: Giver<()>,
}

impl<'scope, 'env, 'a: 'scope> Opening<'scope, 'env, 'a> {
    /// Begins the thread that opens them.
    pub(super) fn begin(self, joining: Joining) {
        let crew = self.crew;
        let is_required = matches!(joining, Joining::Calls { is_required: true, .. });
        let begun = crew.try_begin("lanes", move || match joining {
            Joining::Calls { identity, offer, is_required } => {
                self.call(&identity, &offer, is_required);
            }
            Joining::IsCalled(listener) => self.let_in(&listener),
        });
        // Without it all goes through ssh.
        if let Err(error) = begun
            && is_required
        {
            crew.control().fail(JobError::Threads(error));
        }
    }

    fn control(&self) -> &'scope Control<'scope> {
        self.crew.control()
    }

    /// Calls the agent, as often as there shall be lanes.
    fn call(&self, identity: &Identity, offer: &Told<Result<DirectOffer, String>>, required: bool) {
        let Some(offer) = self.until_ended(|| offer.recv_timeout(CANCEL_POLL).ok()) else { return };
        let is_time = || match required {
            // An empty file, or the end of one that is there, may have to be told.
            true => self.has_files_left(),
            false => self.left() >= CALLED_MIN,
        };
        let Some(()) = self.until_ended(|| self.wait_unless(is_time())) else { return };
        let called = offer.map_err(io::Error::other);
        let called = called.and_then(|offer| self.call_lanes(identity, &offer, required));
        let tell = |news| self.control().monitor().event(Event::Link(news));
        let host = &*self.peer;
        match called {
            // The job has ended, which is no fault of the call.
            Ok(0) => {}
            Err(_) if self.control().stopped() || self.has_ended() => {}
            Ok(connections) => tell(LinkEvent::Direct { host, connections }),
            Err(error) if required => {
                // The agent may be done without.
                self.control().linger();
                let (host, detail) = (self.peer.clone(), error.to_string());
                self.control().fail(ConnectError::NotDirect { host, detail }.into());
            }
            Err(error) => {
                let reason = &*escape_controls(&error.to_string());
                tell(LinkEvent::NotDirect { host, reason });
            }
        }
    }

    /// Gives how many there are.
    fn call_lanes(
        &self,
        identity: &Identity,
        offer: &DirectOffer,
        required: bool,
    ) -> io::Result<u8> {
        let patience = if required { REQUIRED_CALL_MAX } else { CALL_MAX };
        let (mut lanes_max, mut joined) = (LANES_MAX, 0);
        for lane in 1..=LANES_MAX {
            let is_worth_it = lane == 1 || self.left() >= u64::from(lane - 1) * LANE_LEN;
            if lane > lanes_max || !is_worth_it || self.control().stopped() {
                break;
            }
            let begin = Instant::now();
            let goes_on = || !self.control().stopped() && !self.has_ended();
            let stands = Direct::connect(offer.address, identity, offer.key, patience, &goes_on)
                .and_then(|direct| self.take(lane, direct, encode(&Message::Join(Join { lane }))));
            match stands {
                Ok(()) => joined = lane,
                Err(error) if lane == 1 => return Err(error),
                // There are others.
                Err(error) => {
                    tracing::debug!(lane, %error, "no further direct connection");
                    break;
                }
            }
            let took = begin.elapsed() / 2;
            tracing::debug!(lane, ?took, "a direct connection stands");
            let by_time = BY_ROUND_TRIP.iter().find(|(max, _)| took < *max);
            lanes_max = by_time.map_or(LANES_MAX, |(_, lanes)| *lanes);
        }
        Ok(joined)
    }

    /// Bytes of the listed files that are not done.
    fn left(&self) -> u64 {
        let progress = self.control().monitor().progress();
        let total = progress.bytes_total.load(Ordering::Relaxed);
        total.saturating_sub(progress.bytes_done.load(Ordering::Relaxed))
    }

    /// True if listed files are not done.
    fn has_files_left(&self) -> bool {
        let progress = self.control().monitor().progress();
        let done = progress.files_done.load(Ordering::Relaxed);
        progress.files_total.load(Ordering::Relaxed) > done
    }

    /// Something if `there_is`, or nothing after a while.
    fn wait_unless(&self, there_is: bool) -> Option<()> {
        if !there_is {
            std::thread::sleep(LOOK_AGAIN);
        }
        there_is.then_some(())
    }

    /// Looks again and again, until the job ends.
    fn until_ended<T>(&self, look: impl Fn() -> Option<T>) -> Option<T> {
        while !self.control().stopped() && !self.has_ended() {
            if let Some(found) = look() {
                return Some(found);
            }
        }
        None
    }

    fn has_ended(&self) -> bool {
        lock(&self.joined.0).has_ended
    }

    /// Lets in who has the client's key, until the job ends or all lanes are taken.
    fn let_in(&self, listener: &DirectListener) {
        let goes_on = || !self.control().stopped() && !self.has_ended();
        let_in(listener, &goes_on, &|lane, direct| self.take(lane, direct, Vec::new()));
    }

    /// Takes a connection as a lane of that number, on which `greeting` is said first.
    fn take(&self, lane: u8, mut direct: Direct, greeting: Vec<u8>) -> io::Result<()> {
        let (killer, round_trip) = (direct.killer()?, direct.round_trip());
        let (crew, control) = (self.crew, self.control());
        let at_work = self.at_work.clone();
        match &self.part {
            Part::Sends(readers) => {
                let sign_after = sign_after(self.silence_max);
                let (outbox, frames) = readers.lanes.beside();
                self.joined.add(killer.clone(), Some(Arc::clone(&outbox)));
                let joins = Lane::new(lane, outbox);
                readers.lanes.expect(&joins, killer);
                let (lost, senders) = (self.on_loss(), Arc::clone(readers));
                crew.try_begin("lane writer", move || {
                    let _at_work = at_work;
                    let mut output = direct.into_writer();
                    let sent =
                        run_writer(&mut output, &frames, greeting, sign_after, Some(control));
                    drop(output);
                    if !control.stopped()
                        && let Some(left) = senders.lanes.lose(lane, frames, control)
                    {
                        lost.tell(control, left, sent);
                    }
                })?;
                let lanes = readers.lanes.join(joins, round_trip);
                readers.pool.add(BUFFERS_PER_LANE);
                if lanes > workers() {
                    let readers = Arc::clone(readers);
                    // The others take this lane, too.
                    let _ = crew.try_begin("file reader", move || run_reader(&readers, control));
                }
            }
            Part::Receives(receiver, arrivals) => {
                self.joined.add(killer.clone(), None);
                if !arrivals.join(lane, killer.clone()) {
                    return Err(io::ErrorKind::AlreadyExists.into());
                }
                arrivals.pool.add(BUFFERS_PER_LANE);
                let vigil = Vigil::new(Patience::default());
                vigil.greeted(self.silence_max);
                let (receiver, arrivals) = (Arc::clone(receiver), Arc::clone(arrivals));
                let (heard, lost) = (Arc::clone(&vigil), self.on_loss());
                crew.try_begin("lane reader", move || {
                    let _at_work = at_work;
                    let (frames, end) = match direct.write_all(&greeting) {
                        Ok(()) => {
                            let input = heard.listen(direct);
                            let input = BufReader::with_capacity(READ_AHEAD, input);
                            read_lane(input, &receiver, &arrivals, lane)
                        }
                        Err(error) => (0, Err(error.into())),
                    };
                    match end {
                        Err(ReadEnd::Lost(error)) if !control.stopped() => {
                            let left = arrivals.lose(&receiver, lane, frames);
                            lost.tell(control, left, Err(error));
                        }
                        Err(end @ ReadEnd::Refused(_)) => end.report(control, &lost.peer),
                        Ok(()) | Err(ReadEnd::Lost(_)) => {}
                    }
                })?;
                control.watch(&vigil, &self.peer, killer);
            }
        }
        Ok(())
    }

    fn on_loss(&self) -> OnLaneLost {
        OnLaneLost { peer: self.peer.clone(), requires_joined: self.requires_joined }
    }
}

/// The consequences of a lost lane for the job.
struct OnLaneLost {
    peer: String,
    requires_joined: bool,
}

impl OnLaneLost {
    /// A lane has ended before the job, and so many are left.
    fn tell(self, control: &Control<'_>, left: usize, end: io::Result<()>) {
        let error = end.err().unwrap_or_else(|| io::ErrorKind::BrokenPipe.into());
        let Self { peer: host, requires_joined } = self;
        if left > 0 {
            return;
        }
        if requires_joined {
            // The peer may have said why, or that all is done.
            control.linger();
            return ReadEnd::Lost(error).report(control, &host);
        }
        let reason = &*escape_controls(&format!("the direct connections were lost: {error}"));
        control.monitor().event(Event::Link(LinkEvent::NotDirect { host: &host, reason }));
    }
}
