//! Further connections of a job: how they are opened on either side, and what they carry
//! then. The client calls where the agent told it to (`calling.rs`), or logs in again
//! (`beside.rs`); the agent lets in who has the key that the client told, or its secret, and
//! nobody learns more than that he is hung up on.

use super::beside::Beside;
use super::calling::Direct;
use super::carrier::{Carrier, Inlet};
use super::lost::OnLaneLost;
use crate::callers::let_in;
use crate::control::{CANCEL_POLL, Control};
use crate::crew::Crew;
use crate::link::wire::{Lane, OnLeaving, Outbox, ReadEnd, run_writer};
use crate::receiver::{Arrivals, Receiver, read_lane};
use crate::sender::{Readers, run_reader};
use crate::vigil::sign_after;
use crate::workers::workers;
use crate::{Event, JobError, LinkEvent};
use crossbeam_channel::Sender as Giver;
use haul_net::{Closer, DirectListener, Killer, Onlooker};
use haul_proto::{Join, LANES_MAX, Message, encode};
use haul_sys::{HandedOver, Handover};
use haul_tree::lock;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Content that is left of a job, in bytes, below which nobody is called: it would be over
/// before they are there.
pub(super) const CALLED_MIN: u64 = 2 << 20;

/// How often is looked how much is left.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Content that a lane is worth, in bytes.
pub(super) const LANE_LEN: u64 = 4 << 20;

/// Buffers that a lane adds to those that go round.
const BUFFERS_PER_LANE: usize = 3;

/// How long logins that are on their way may take to be let in when the job is done. To cut one
/// before looks like an attack to some servers: OpenSSH 9.8 and later refuse an address after
/// many of those (`PerSourcePenalties`).
const LOGIN_WAIT_MAX: Duration = Duration::from_secs(1);

/// How lanes of a job come about on this side.
pub(crate) enum Joining {
    /// This side opens them: directly, or by logins where that is not asked for or fails.
    Opens { direct: Option<Direct>, beside: Option<Beside> },
    /// The other side does.
    LetsIn {
        direct: Option<DirectListener>,
        /// By this, processes of further logins hand over their streams.
        handover: Option<Handover>,
    },
}

impl Joining {
    /// Begins what can't be done by a thread that is confined.
    pub(super) fn begin_unconfined(&mut self, crew: Crew<'_, '_>) {
        if let Self::Opens { beside, .. } = self
            && let Some(logins) = beside
            && let Err(error) = logins.begin_starter(crew)
        {
            tracing::debug!(%error, "nobody logs in again");
            *beside = None;
        }
    }
}

/// The part of a lane on this side.
#[derive(Clone)]
pub(super) enum LaneRole<'a> {
    /// Contents leave by it.
    Sends(Arc<Readers<'a>>),
    /// Contents come by it.
    Receives(Arc<Receiver<'a>>, Arc<Arrivals>),
}

/// The lanes that have joined, those that are about to, and who hangs up on them.
#[derive(Default)]
pub(super) struct Joined {
    hangup: Mutex<Hangup>,
    /// A login is on its way no more, one that had joined was lost, or the job has ended.
    changed: Condvar,
}

#[derive(Default)]
struct Hangup {
    lanes: Vec<Ends>,
    /// Logins on their way.
    logins: Vec<OnItsWay>,
    /// The numbers that were taken, a bit for each.
    taken: u8,
    /// Logins that had joined and were lost, and of which nobody has heard yet.
    lost: u8,
    /// That the last lane was lost was told.
    has_told: bool,
    has_ended: bool,
}

/// The ways to end a lane.
struct Ends {
    killer: Killer,
    outbox: Option<Arc<Outbox>>,
}

/// A login that is on its way.
struct OnItsWay {
    /// The number of its lane.
    lane: u8,
    killer: Killer,
    /// Its ssh, if it is one.
    ssh: Option<Onlooker>,
}

impl OnItsWay {
    /// True if the host has let it in, as far as that can be seen.
    fn is_let_in(&self) -> bool {
        let ssh = self.ssh.as_ref();
        ssh.is_some_and(|ssh| ssh.look(haul_sys::has_session) == Some(true))
    }
}

impl Ends {
    fn end(&self) {
        if let Some(outbox) = &self.outbox {
            outbox.close();
            outbox.cut();
        }
        kill(&self.killer);
    }
}

/// Ends a connection on which nothing is worth waiting for.
fn kill(killer: &Killer) {
    // The first time only asks a process to end.
    killer.kill();
    killer.kill();
}

impl Joined {
    fn add(&self, killer: Killer, outbox: Option<Arc<Outbox>>) {
        let ends = Ends { killer, outbox };
        let mut hangup = lock(&self.hangup);
        match hangup.has_ended {
            true => ends.end(),
            false => hangup.lanes.push(ends),
        }
    }

    /// Takes a number for a lane; `false` if it was taken before.
    fn take(&self, lane: u8) -> bool {
        let mut hangup = lock(&self.hangup);
        let is_free = hangup.taken & (1 << lane) == 0;
        hangup.taken |= 1 << lane;
        hangup.has_told = false;
        is_free
    }

    /// True for the first who asks since a lane has joined: of several that are lost together
    /// one is told.
    pub(super) fn tells_loss(&self) -> bool {
        !std::mem::replace(&mut lock(&self.hangup).has_told, true)
    }

    /// True if the loss of all lanes was told, and none has joined since.
    pub(super) fn has_lost_all(&self) -> bool {
        lock(&self.hangup).has_told
    }

    /// A login for a lane is on its way.
    pub(super) fn begin_login(&self, lane: u8, closer: &Closer) {
        let (killer, ssh) = (closer.killer(), closer.onlooker());
        let mut hangup = lock(&self.hangup);
        match hangup.has_ended {
            true => kill(&killer),
            false => hangup.logins.push(OnItsWay { lane, killer, ssh }),
        }
    }

    /// It is no more.
    pub(super) fn end_login(&self, lane: u8) {
        lock(&self.hangup).logins.retain(|login| login.lane != lane);
        self.changed.notify_all();
    }

    /// A login that had joined was lost.
    pub(super) fn lose_login(&self) {
        lock(&self.hangup).lost += 1;
        self.changed.notify_all();
    }

    /// Waits a while for logins to be lost: how many were since this was asked last, if the
    /// job has not ended.
    pub(super) fn lost_logins(&self) -> Option<u8> {
        let hangup = lock(&self.hangup);
        let is_quiet = |hangup: &mut Hangup| hangup.lost == 0 && !hangup.has_ended;
        let waited = self.changed.wait_timeout_while(hangup, CANCEL_POLL, is_quiet);
        let mut hangup = waited.unwrap_or_else(PoisonError::into_inner).0;
        let lost = std::mem::take(&mut hangup.lost);
        (lost > 0 && !hangup.has_ended).then_some(lost)
    }

    fn has_ended(&self) -> bool {
        lock(&self.hangup).has_ended
    }

    /// Hangs up on all that have joined, and on those that still do. Where the job is done,
    /// logins on their way get a moment before.
    pub(super) fn hang_up(&self, is_done: bool) {
        let mut hangup = lock(&self.hangup);
        hangup.has_ended = true;
        self.changed.notify_all();
        let deadline = Instant::now() + LOGIN_WAIT_MAX;
        while is_done && !hangup.logins.iter().all(OnItsWay::is_let_in) && Instant::now() < deadline
        {
            let waited = self.changed.wait_timeout(hangup, LOOK_AGAIN);
            hangup = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        hangup.lanes.iter().for_each(Ends::end);
        hangup.logins.iter().for_each(|login| kill(&login.killer));
    }
}

/// A job whose lanes are being opened.
pub(super) struct Opening<'scope, 'env, 'a> {
    pub(super) crew: Crew<'scope, 'env>,
    pub(super) part: LaneRole<'a>,
    pub(super) joined: Arc<Joined>,
    /// Contents go over lanes that have joined alone.
    pub(super) requires_joined: bool,
    /// The other side opens them.
    pub(super) lets_in: bool,
    /// The peer's name for messages.
    pub(super) peer: String,
    /// The longest silence of either side.
    pub(super) silence_max: Option<Duration>,
    /// Held by all threads that may wait for the peer.
    pub(super) at_work: Giver<()>,
}

impl<'scope, 'env, 'a: 'scope> Opening<'scope, 'env, 'a> {
    /// Begins the threads that open them.
    pub(super) fn begin(self, joining: Joining) {
        let (crew, is_required) = (self.crew, self.requires_joined);
        let opening = Arc::new(self);
        let begun = match joining {
            Joining::Opens { direct, beside } => {
                crew.try_begin("lanes", move || opening.open(direct, beside))
            }
            Joining::LetsIn { direct, handover } => {
                let lets_in = Arc::clone(&opening);
                let by_handover = handover.map_or(Ok(()), |handover| {
                    crew.try_begin("lanes", move || lets_in.take_over(&handover))
                });
                let directly = direct.map_or(Ok(()), |listener| {
                    crew.try_begin("lanes", move || opening.let_in(&listener))
                });
                by_handover.and(directly)
            }
        };
        // Without it all goes through the first connection.
        if let Err(error) = begun
            && is_required
        {
            crew.control().fail(JobError::Threads(error));
        }
    }

    /// Opens them: by logins where no direct connection stands.
    fn open(&self, direct: Option<Direct>, beside: Option<Beside>) {
        let round_trip = || beside.as_ref().and_then(Beside::round_trip);
        if direct.is_some_and(|direct| self.call(&direct, round_trip)) {
            return;
        }
        if let LaneRole::Sends(readers) = &self.part {
            readers.lanes.await_no_more();
        }
        if let Some(beside) = beside {
            self.log_in(beside);
        }
    }

    pub(super) fn control(&self) -> &'scope Control<'scope> {
        self.crew.control()
    }

    /// News of them for the user.
    pub(super) fn tell(&self, news: LinkEvent<'_>) {
        self.control().monitor().event(Event::Link(news));
    }

    /// Bytes of the listed files that are not done.
    pub(super) fn left(&self) -> u64 {
        let progress = self.control().monitor().progress();
        let total = progress.bytes_total.load(Ordering::Relaxed);
        total.saturating_sub(progress.bytes_done.load(Ordering::Relaxed))
    }

    /// Bytes of content that were transferred.
    pub(super) fn transferred(&self) -> u64 {
        self.control().monitor().progress().bytes_transferred.load(Ordering::Relaxed)
    }

    /// True if nothing more is listed.
    pub(super) fn has_listed_all(&self) -> bool {
        self.control().monitor().progress().listed_all.load(Ordering::Relaxed)
    }

    /// True if listed files are not done.
    pub(super) fn has_files_left(&self) -> bool {
        let progress = self.control().monitor().progress();
        let done = progress.files_done.load(Ordering::Relaxed);
        progress.files_total.load(Ordering::Relaxed) > done
    }

    /// Something if `there_is`, or nothing after a while.
    pub(super) fn wait_unless(&self, there_is: bool) -> Option<()> {
        if !there_is {
            std::thread::sleep(LOOK_AGAIN);
        }
        there_is.then_some(())
    }

    /// Looks again and again, until the job ends.
    pub(super) fn until_ended<T>(&self, look: impl Fn() -> Option<T>) -> Option<T> {
        while self.goes_on() {
            if let Some(found) = look() {
                return Some(found);
            }
        }
        None
    }

    /// True while lanes may still join.
    pub(super) fn goes_on(&self) -> bool {
        !self.control().stopped() && !self.joined.has_ended()
    }

    /// Lets in who has the client's key, until the job ends or all lanes are taken.
    fn let_in(&self, listener: &DirectListener) {
        let take = |lane, direct| self.take(lane, Carrier::Direct(Box::new(direct)), Vec::new());
        let_in(listener, &|| self.goes_on(), &take);
    }

    /// Takes what processes that know the client's secret hand over, until the job ends.
    fn take_over(&self, handover: &Handover) {
        while self.goes_on() {
            let taken = match handover.take_within(CANCEL_POLL) {
                Ok(None) => continue,
                Ok(Some(given)) => self.take_given(given),
                Err(error) => {
                    std::thread::sleep(CANCEL_POLL);
                    Err(error)
                }
            };
            if let Err(error) = taken {
                tracing::debug!(%error, "a login does not join");
            }
        }
    }

    /// Takes a login as a lane, and tells the client.
    fn take_given(&self, given: HandedOver) -> io::Result<()> {
        let lane = given.number;
        if !(1..=LANES_MAX).contains(&lane) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let joins = encode(&Message::Join(Join { lane, secret: None }));
        self.take(lane, Carrier::given(given, self.silence_max)?, joins)
    }

    /// Takes a connection as a lane of that number, on which `greeting` is said first.
    pub(super) fn take(&self, lane: u8, carrier: Carrier, greeting: Vec<u8>) -> io::Result<()> {
        if !self.joined.take(lane) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        match &self.part {
            LaneRole::Sends(readers) => self.send_by(readers, lane, carrier, greeting),
            LaneRole::Receives(receiver, arrivals) => {
                self.receive_by((receiver, arrivals), lane, carrier, &greeting)
            }
        }
    }

    fn send_by(
        &self,
        readers: &Arc<Readers<'a>>,
        lane: u8,
        carrier: Carrier,
        greeting: Vec<u8>,
    ) -> io::Result<()> {
        let (killer, round_trip) = (carrier.killer()?, carrier.round_trip());
        let (crew, control) = (self.crew, self.control());
        let at_work = self.at_work.clone();
        let sign_after = sign_after(self.silence_max);
        let (outbox, frames) = readers.lanes.beside();
        self.joined.add(killer.clone(), Some(Arc::clone(&outbox)));
        let joins = Lane::new(lane, outbox);
        readers.lanes.expect(&joins, killer);
        let (lost, senders) = (self.on_loss(&carrier), Arc::clone(readers));
        crew.try_begin("lane writer", move || {
            let _at_work = at_work;
            let (mut output, rest) = carrier.into_output();
            let on_leaving = |index, len| senders.sender.leaves(index, len);
            let of_job = Some((control, &on_leaving as OnLeaving<'_>));
            let sent = run_writer(&mut output, &frames, greeting, sign_after, of_job);
            drop((output, rest));
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
        Ok(())
    }

    fn receive_by(
        &self,
        (receiver, arrivals): (&Arc<Receiver<'a>>, &Arc<Arrivals>),
        lane: u8,
        carrier: Carrier,
        greeting: &[u8],
    ) -> io::Result<()> {
        let (killer, lost) = (carrier.killer()?, self.on_loss(&carrier));
        let (crew, control) = (self.crew, self.control());
        let at_work = self.at_work.clone();
        self.joined.add(killer.clone(), None);
        let Inlet { input, vigil, is_watched, rest } =
            carrier.into_input(greeting, self.silence_max)?;
        if !arrivals.join(lane, killer.clone()) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        arrivals.pool.add(BUFFERS_PER_LANE);
        let (receiver, arrivals) = (Arc::clone(receiver), Arc::clone(arrivals));
        crew.try_begin("lane reader", move || {
            let _at_work = at_work;
            let (frames, end) = read_lane(input, &receiver, &arrivals, lane);
            drop(rest);
            match end {
                Err(ReadEnd::Lost(error)) if !control.stopped() => {
                    let left = arrivals.lose(&receiver, lane, frames);
                    lost.tell(control, left, Err(error));
                }
                Err(end @ ReadEnd::Refused(_)) => end.report(control, &lost.peer),
                Ok(()) | Err(ReadEnd::Lost(_)) => {}
            }
        })?;
        if !is_watched {
            control.watch(&vigil, &self.peer, killer);
        }
        Ok(())
    }

    fn on_loss(&self, carrier: &Carrier) -> OnLaneLost {
        let Self { requires_joined, lets_in, .. } = *self;
        let (peer, is_direct) = (self.peer.clone(), carrier.is_direct());
        let joined = Arc::clone(&self.joined);
        OnLaneLost { peer, requires_joined, lets_in, is_direct, joined }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_lanes_that_are_lost_together_one_is_told() {
        let joined = Joined::default();
        for lanes in [[1, 2], [3, 4]] {
            assert!(lanes.iter().all(|lane| joined.take(*lane)));
            assert_eq!(lanes.map(|_| joined.tells_loss()), [true, false]);
        }
    }
}
