//! Logins of a client beside the first: how they are begun, while the job is at work or the
//! first takes long. Which are begun when is in `schedule.rs`.

use super::carrier::{Carrier, Login};
use super::chosen::Choice;
use super::opening::{Ended, LEFT_MIN, Opening};
use super::schedule::{Attempt, Failure, Schedule};
use super::wire::{FromPeer, listen};
use crate::crew::Crew;
use crate::link::greeting::{hello, read_message, welcome};
use crate::link::wire::{ReadEnd, aborted, refused};
use crate::vigil::Vigil;
use crossbeam_channel::{Receiver, Sender, bounded};
use haul_model::Logins;
use haul_net::{Closer, ConnectError, Connection, Further, Patience};
use haul_proto::{Join, JoinSecret, LANES_MAX, Message, encode};
use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long the first login may take before others are begun beside it. On a short link it is
/// connected by then, and the amount of work is known; on a long one it takes longer. It has
/// reached the server by then, so a server that refuses some logins refuses the others.
const EARLY_AFTER: Duration = Duration::from_millis(250);

/// How long a login may take. Nobody is asked for a password.
const LOGIN_MAX: Duration = Duration::from_secs(30);

/// The wish of a client for further logins.
pub(crate) struct Beside {
    secret: JoinSecret,
    /// How many there shall be, at most.
    logins: Logins,
    /// Set if the first login can be looked at.
    choice: Option<Choice>,
    further: Further,
    patience: Patience,
    starts: Option<Starts>,
}

/// Logins as they are begun.
struct Starts {
    ask: Sender<()>,
    begun: Receiver<Result<Connection, ConnectError>>,
}

impl Beside {
    /// So many `logins` to the host at the other end of `closer`; `None` if none are wanted,
    /// or it can't be logged in to.
    pub(crate) fn new(logins: Logins, closer: &Closer) -> Option<Self> {
        let choice = Choice::new(closer);
        if logins == Logins::UpTo(0) || logins == Logins::Chosen && choice.is_none() {
            return None;
        }
        let further = closer.further()?;
        let secret = haul_sys::secret().ok()?;
        let patience = Patience { login_max: Some(LOGIN_MAX), ..closer.patience() };
        Some(Self { secret, logins, choice, further, patience, starts: None })
    }

    /// The secret by which they find the job.
    pub(crate) fn secret(&self) -> JoinSecret {
        self.secret
    }

    /// Begins the thread that starts ssh, and watches the first one before that: one that is
    /// confined can't.
    pub(super) fn begin_starter(&mut self, crew: Crew<'_, '_>) -> io::Result<()> {
        let (further, control) = (self.further.clone(), crew.control());
        let mut watch = self.choice.clone();
        // Some are begun meanwhile.
        if self.is_wished()
            && let Some(watch) = watch.take()
        {
            crew.try_begin("watch", move || watch.watch(control))?;
        }
        let (ask, asked) = bounded::<()>(LANES_MAX.into());
        let (tell, begun) = bounded(LANES_MAX.into());
        crew.try_begin("starter", move || {
            if let Some(watch) = watch {
                watch.watch(control);
            }
            for () in asked {
                if tell.send(further.connect()).is_err() {
                    return;
                }
            }
        })?;
        self.starts = Some(Starts { ask, begun });
        Ok(())
    }

    /// The round trip to the host, if it is known.
    pub(super) fn round_trip(&self) -> Option<Duration> {
        self.choice.as_ref()?.round_trip()
    }

    /// True if the first login was accepted, and has asked the user for nothing that others can't
    /// ask for.
    pub(super) fn needs_nobody(&self, is_early: bool) -> bool {
        self.choice.as_ref().map_or(!is_early, Choice::needs_nobody)
    }

    /// True if the user has asked for them.
    pub(super) fn is_wished(&self) -> bool {
        self.logins != Logins::Chosen
    }

    /// The first words on a login.
    fn words(&self, lane: u8) -> Vec<u8> {
        let joins = Message::Join(Join { lane, secret: Some(self.secret) });
        [hello(false, self.patience), encode(&joins)].concat()
    }
}

impl<'scope, 'a: 'scope> Opening<'scope, '_, 'a> {
    /// Waits until further logins are worth it: while the job is at work, or its first login
    /// takes long. `None` if they are not, or the job ends before.
    pub(super) fn when_to_log_in(&self, beside: &Beside) -> Option<Schedule> {
        match beside.logins {
            Logins::UpTo(count) => self.awaited(count.min(LANES_MAX)),
            Logins::Chosen => beside.choice.as_ref().and_then(|choice| self.choose(choice)),
        }
    }

    /// Up to `count` logins, when it is time for them.
    fn awaited(&self, count: u8) -> Option<Schedule> {
        let begun = Instant::now();
        // A host that was lost is found by one.
        let may_be_early = !self.control().monitor().progress().told.is_again();
        let is_time = || match self.is_early() {
            true => {
                let is_much = || self.may_be_left().is_none_or(|left| left >= LEFT_MIN);
                may_be_early && begun.elapsed() >= EARLY_AFTER && is_much()
            }
            false => self.left() >= LEFT_MIN,
        };
        self.wait_for(|| is_time().then_some(()))?;
        Some(Schedule::wanted(count))
    }

    /// Begins a login, on a thread of its own that reports the result.
    pub(super) fn begin_login(
        &self,
        beside: &Beside,
        attempt: Attempt,
        tell: &Sender<Ended>,
    ) -> Result<(), Failure> {
        let lane = attempt.lane;
        let gone = || Failure::of_io(io::ErrorKind::BrokenPipe.into());
        let starts = beside.starts.as_ref().ok_or_else(gone)?;
        starts.ask.send(()).map_err(|_| gone())?;
        let connection = starts.begun.recv().map_err(|_| gone())?;
        let connection = connection.map_err(|error| Failure::of(&error, false))?;
        let killer = connection.closer.killer();
        let vigil = Vigil::new(beside.patience);
        let (words, silence_max) = (beside.words(lane), self.joins.silence_max);
        let (roster, tell, watch) =
            (Arc::clone(&self.joins.roster), tell.clone(), Arc::clone(&vigil));
        self.joins.roster.begin_login(lane, &connection.closer);
        let has_begun = self.crew.try_begin("login", move || {
            let stands = log_in(connection, &words, vigil, silence_max);
            roster.end_login(lane);
            // Nobody takes it when the job has ended.
            let _ = tell.send((attempt, stands.map(|login| Carrier::Login(login.into()))));
        });
        has_begun.map_err(|error| {
            self.joins.roster.end_login(lane);
            Failure::of_io(error)
        })?;
        self.control().watch(&watch, &self.joins.peer, killer);
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
        welcome(&mut input, closer.peer(), false)?;
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
            Err(Failure { reason, is_final, may_be_asked: false, has_greeted: false })
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
        _ => Err(refused("the host did not confirm that the login joined")),
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
        let may_be_asked = matches!(error, ConnectError::HostKey { changed: false, .. });
        Self { reason, is_final, may_be_asked, has_greeted }
    }
}
