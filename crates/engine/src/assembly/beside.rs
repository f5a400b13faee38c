//! Logins of a client beside the first: how they are begun, a few at a time, while the job is
//! at work, and what becomes of those that fail.

use super::carrier::{Carrier, Login};
use super::joining::{CALLED_MIN, LANE_LEN, Opening};
use super::wire::{FromPeer, listen};
use crate::LinkEvent;
use crate::control::CANCEL_POLL;
use crate::crew::Crew;
use crate::link::greeting::{hello, read_message, welcome};
use crate::link::wire::{ReadEnd, aborted, refused};
use crate::vigil::Vigil;
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use haul_model::escape_controls;
use haul_net::{Closer, ConnectError, Connection, Further, Patience};
use haul_proto::{Join, JoinSecret, LANES_MAX, Message, encode};
use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Logins that are made at the same time: a server that is asked for more before these are
/// known may refuse them (`MaxStartups`)...
const AT_ONCE_MAX: usize = 2;

/// ...and if one has joined, and none was refused.
const AT_ONCE_MORE_MAX: usize = 4;

/// How long a login may take. Nobody is asked for a password.
const LOGIN_MAX: Duration = Duration::from_secs(30);

/// The pause after a login that failed; after each further one it is twice as long.
const PAUSE_MIN: Duration = Duration::from_millis(250);

/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(4);

/// Logins in a row that may fail.
const FAILURES_MAX: u32 = 6;

/// The wish of a client for further logins.
pub(crate) struct Beside {
    secret: JoinSecret,
    /// How many, at most.
    count: u8,
    further: Further,
    patience: Patience,
    starts: Option<Starts>,
}

/// Logins as they are begun.
struct Starts {
    ask: Sender<()>,
    begun: Receiver<Result<Connection, ConnectError>>,
}

/// A login that came to nothing.
struct Failure {
    reason: String,
    /// Another one would fail as well.
    is_final: bool,
    /// The host may have taken the lane's number.
    has_greeted: bool,
}

impl Beside {
    /// Up to `count` logins to the host at the other end of `closer`; `None` if none are
    /// wanted, or it can't be logged in to.
    pub(crate) fn new(count: u8, closer: &Closer) -> Option<Self> {
        let further = closer.further().filter(|_| count > 0)?;
        let secret = haul_sys::secret().ok()?;
        let patience = Patience { login_max: Some(LOGIN_MAX), ..closer.patience() };
        Some(Self { secret, count, further, patience, starts: None })
    }

    /// The secret by which they find the job.
    pub(crate) fn secret(&self) -> JoinSecret {
        self.secret
    }

    /// Begins the thread that starts ssh: one that is confined can't.
    pub(super) fn begin_starter(&mut self, crew: Crew<'_, '_>) -> io::Result<()> {
        let (ask, asked) = bounded::<()>(LANES_MAX.into());
        let (tell, begun) = bounded(LANES_MAX.into());
        let further = self.further.clone();
        crew.try_begin("starter", move || {
            for () in asked {
                if tell.send(further.connect()).is_err() {
                    return;
                }
            }
        })?;
        self.starts = Some(Starts { ask, begun });
        Ok(())
    }

    /// The first words on a login.
    fn words(&self, lane: u8) -> Vec<u8> {
        let joins = Message::Join(Join { lane, secret: Some(self.secret) });
        [hello(self.patience), encode(&joins)].concat()
    }
}

/// How far the logins are.
struct Course {
    /// How many there shall be, at most.
    count: u8,
    /// Numbers that no lane has had.
    free: Vec<u8>,
    on_their_way: usize,
    joined: u8,
    /// Failures in a row.
    failures: u32,
    has_failed: bool,
    /// No login is begun before.
    pause_until: Instant,
    /// Why no further one is made.
    given_up: Option<String>,
}

impl Course {
    fn new(count: u8) -> Self {
        Self {
            count,
            free: (1..=LANES_MAX).rev().collect(),
            on_their_way: 0,
            joined: 0,
            failures: 0,
            has_failed: false,
            pause_until: Instant::now(),
            given_up: None,
        }
    }

    /// The number of a lane that is to be logged in for now, where so many bytes are `left`.
    fn next(&mut self, left: u64) -> Option<u8> {
        let wanted = left.div_ceil(LANE_LEN).min(self.count.into()) as usize;
        let at_once = match self.joined > 0 && !self.has_failed {
            true => AT_ONCE_MORE_MAX,
            false => AT_ONCE_MAX,
        };
        let is_time = self.given_up.is_none()
            && self.on_their_way < at_once
            && usize::from(self.joined) + self.on_their_way < wanted
            && Instant::now() >= self.pause_until;
        let lane = if is_time { self.free.pop() } else { None };
        self.on_their_way += usize::from(lane.is_some());
        lane
    }

    fn is_over(&self) -> bool {
        let is_all = self.joined >= self.count || self.free.is_empty();
        self.on_their_way == 0 && (is_all || self.given_up.is_some())
    }

    fn join(&mut self) {
        self.on_their_way -= 1;
        self.joined += 1;
        self.failures = 0;
    }

    fn fail(&mut self, lane: u8, failure: Failure) {
        let Failure { reason, is_final, has_greeted } = failure;
        tracing::debug!(lane, %reason, "a further login has failed");
        self.on_their_way -= 1;
        self.has_failed = true;
        if !has_greeted {
            self.free.push(lane);
        }
        let pause = PAUSE_MIN.saturating_mul(1 << self.failures.min(16)).min(PAUSE_MAX);
        self.pause_until = Instant::now() + pause;
        self.failures += 1;
        if is_final || self.failures >= FAILURES_MAX {
            self.given_up = Some(reason);
        }
    }
}

impl<'scope, 'a: 'scope> Opening<'scope, '_, 'a> {
    /// Logs in further while the job is at work, as often as that is worth it.
    pub(super) fn log_in(&self, beside: Beside) {
        let progress = self.control().monitor().progress();
        let is_time = || progress.reached() && self.left() >= CALLED_MIN;
        let Some(()) = self.until_ended(|| self.wait_unless(is_time())) else { return };
        let Some(starts) = &beside.starts else { return };
        let (tell, told) = unbounded();
        let mut course = Course::new(beside.count);
        while self.goes_on() && !course.is_over() {
            while let Some(lane) = course.next(self.left()) {
                let begun = self.begin_login(&beside, starts, lane, &tell);
                if let Err(failure) = begun {
                    course.fail(lane, failure);
                }
            }
            let Ok((lane, stands)) = told.recv_timeout(CANCEL_POLL) else { continue };
            let joined = stands.and_then(|login| {
                self.take(lane, Carrier::Login(Box::new(login)), Vec::new()).map_err(Failure::here)
            });
            match joined {
                Ok(()) => course.join(),
                Err(failure) => course.fail(lane, failure),
            }
        }
        let host = &*self.peer;
        if course.joined > 0 {
            self.tell(LinkEvent::LoggedIn { host, connections: course.joined + 1 });
        }
        if let Some(reason) = course.given_up.filter(|_| self.goes_on()) {
            self.tell(LinkEvent::NotLoggedIn { host, reason: &escape_controls(&reason) });
        }
    }

    /// Begins a login, on a thread of its own that tells what came of it.
    fn begin_login(
        &self,
        beside: &Beside,
        starts: &Starts,
        lane: u8,
        tell: &Sender<(u8, Result<Login, Failure>)>,
    ) -> Result<(), Failure> {
        let gone = || Failure::here(io::ErrorKind::BrokenPipe.into());
        starts.ask.send(()).map_err(|_| gone())?;
        let connection = starts.begun.recv().map_err(|_| gone())?;
        let connection = connection.map_err(|error| Failure::of(&error, false))?;
        let killer = connection.closer.killer();
        let vigil = Vigil::new(beside.patience);
        let (words, silence_max) = (beside.words(lane), self.silence_max);
        let (joined, tell, watch) = (Arc::clone(&self.joined), tell.clone(), Arc::clone(&vigil));
        self.joined.begin_login(lane, killer.clone());
        let begun = self.crew.try_begin("login", move || {
            let stands = log_in(connection, &words, vigil, silence_max);
            joined.end_login(lane);
            // Nobody takes it when the job has ended.
            let _ = tell.send((lane, stands));
        });
        begun.map_err(|error| {
            self.joined.end_login(lane);
            Failure::here(error)
        })?;
        self.control().watch(&watch, &self.peer, killer);
        Ok(())
    }
}

/// Says `words` over a connection, and waits until the agent of the job has taken it.
fn log_in(
    connection: Connection,
    words: &[u8],
    vigil: Arc<Vigil>,
    silence_max: Option<Duration>,
) -> Result<Login, Failure> {
    let Connection { reader, mut writer, closer } = connection;
    let mut input = listen(reader, &vigil);
    let mut has_greeted = false;
    let mut stands = || {
        writer.write_all(words)?;
        writer.flush()?;
        welcome(&mut input, closer.peer())?;
        has_greeted = true;
        vigil.greeted(silence_max);
        hear_joined(&mut input)
    };
    match stands() {
        Ok(()) => {
            let (output, is_watched, giver) = (writer, true, None);
            Ok(Login { input, output, vigil, is_watched, closer, giver })
        }
        Err(ReadEnd::Refused(error)) => {
            // The agent may not have come to wait for logins yet. Who says so took nothing.
            let (reason, is_final) = (error.to_string(), !has_greeted);
            Err(Failure { reason, is_final, has_greeted: false })
        }
        Err(ReadEnd::Lost(_)) => {
            drop((input, writer));
            Err(Failure::of(&closer.explain(), has_greeted))
        }
    }
}

/// Reads that the agent of the job has taken this connection.
fn hear_joined(input: &mut FromPeer) -> Result<(), ReadEnd> {
    match read_message(input)? {
        Message::Join(_) => Ok(()),
        Message::Abort(abort) => Err(ReadEnd::Refused(aborted(abort))),
        _ => Err(refused("the host said something else than that a login has joined")),
    }
}

impl Failure {
    /// Why there is no connection.
    fn of(error: &ConnectError, has_greeted: bool) -> Self {
        let reason = match error {
            ConnectError::Stopped { .. } => "the login took too long".to_owned(),
            error => error.to_string(),
        };
        let is_final = !error.retriable() && !matches!(error, ConnectError::Stopped { .. });
        Self { reason, is_final, has_greeted }
    }

    /// It is the fault of this machine.
    fn here(error: io::Error) -> Self {
        Self { reason: error.to_string(), is_final: true, has_greeted: true }
    }
}
