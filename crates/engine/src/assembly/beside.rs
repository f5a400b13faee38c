//! Logins of a client beside the first: how they are begun, while the job is at work or the
//! first takes long. What becomes of those that fail or are lost is in `course.rs`.

use super::carrier::{Carrier, Login};
use super::chosen::Choice;
use super::course::{Attempt, Course, Failure, First};
use super::joining::{CALLED_MIN, LOOK_AGAIN, LaneRole, Opening};
use super::wire::{FromPeer, listen};
use crate::LinkEvent;
use crate::crew::Crew;
use crate::link::greeting::{hello, read_message, welcome};
use crate::link::wire::{ReadEnd, aborted, refused};
use crate::vigil::Vigil;
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use haul_model::{Logins, escape_controls};
use haul_net::{Closer, ConnectError, Connection, Further, Patience};
use haul_proto::{Join, JoinSecret, LANES_MAX, Message, encode};
use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long the first login may take before others are begun beside it. Behind a link that is
/// short it stands by then, and how much there is to do is known; behind a long one it takes
/// the longer. It has knocked by then, so that a server that refuses some refuses the others.
const EARLY_AFTER: Duration = Duration::from_millis(250);

/// How long a login may take. Nobody is asked for a password.
const LOGIN_MAX: Duration = Duration::from_secs(30);

/// The wish of a client for further logins.
pub(crate) struct Beside {
    secret: JoinSecret,
    wish: Wish,
    /// Set if the first login can be looked at.
    choice: Option<Choice>,
    further: Further,
    patience: Patience,
    starts: Option<Starts>,
}

/// How many there shall be besides the first.
enum Wish {
    /// So many at most, and as many of them as are worth it.
    UpTo(u8),
    /// As many as are found out to be worth it.
    Chosen,
}

/// Logins as they are begun.
struct Starts {
    ask: Sender<()>,
    begun: Receiver<Result<Connection, ConnectError>>,
}

/// The end of a login.
struct EndedLogin {
    attempt: Attempt,
    stands: Result<Login, Failure>,
}

impl Beside {
    /// So many `logins` to the host at the other end of `closer`; `None` if none are wanted,
    /// or it can't be logged in to.
    pub(crate) fn new(logins: Logins, closer: &Closer) -> Option<Self> {
        let choice = Choice::new(closer);
        let wish = match logins {
            Logins::UpTo(0) => return None,
            Logins::UpTo(count) => Wish::UpTo(count.min(LANES_MAX)),
            Logins::Chosen if choice.is_none() => return None,
            Logins::Chosen => Wish::Chosen,
        };
        let further = closer.further()?;
        let secret = haul_sys::secret().ok()?;
        let patience = Patience { login_max: Some(LOGIN_MAX), ..closer.patience() };
        Some(Self { secret, wish, choice, further, patience, starts: None })
    }

    /// The secret by which they find the job.
    pub(crate) fn secret(&self) -> JoinSecret {
        self.secret
    }

    /// Begins the thread that starts ssh, and watches the first one before that: one that is
    /// confined can't.
    pub(super) fn begin_starter(&mut self, crew: Crew<'_, '_>) -> io::Result<()> {
        let (further, control) = (self.further.clone(), crew.control());
        let mut watch = self.choice.as_ref().map(Choice::watch);
        // Some are begun meanwhile.
        if matches!(self.wish, Wish::UpTo(_))
            && let Some(watch) = watch.take()
        {
            crew.try_begin("watch", move || watch.run(control))?;
        }
        let (ask, asked) = bounded::<()>(LANES_MAX.into());
        let (tell, begun) = bounded(LANES_MAX.into());
        crew.try_begin("starter", move || {
            if let Some(watch) = watch {
                watch.run(control);
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

    /// True if the first login is let in, and has asked the user for nothing that others can't
    /// ask for.
    fn needs_nobody(&self, is_early: bool) -> bool {
        self.choice.as_ref().map_or(!is_early, Choice::needs_nobody)
    }

    /// The first words on a login.
    fn words(&self, lane: u8) -> Vec<u8> {
        let joins = Message::Join(Join { lane, secret: Some(self.secret) });
        [hello(false, self.patience), encode(&joins)].concat()
    }
}

impl<'scope, 'a: 'scope> Opening<'scope, '_, 'a> {
    /// Logs in further while the job is at work or its first login takes long, as often as
    /// that is worth it.
    pub(super) fn log_in(&self, beside: Beside) {
        let (course, is_wished) = match beside.wish {
            Wish::UpTo(count) => (self.awaited(count), true),
            Wish::Chosen => (beside.choice.as_ref().and_then(|it| self.choose(it)), false),
        };
        let (Some(mut course), Some(starts)) = (course, &beside.starts) else { return };
        self.follow(&mut course, &beside, starts);
        // Where the first comes to nothing, that is what counts.
        if course.joined == 0 {
            let stands = self.until_ended(|| self.wait_unless(!self.is_early()));
            let Some(()) = stands else { return };
        }
        let host = &*self.peer;
        if course.joined > 0 {
            self.tell(LinkEvent::LoggedIn { host, connections: course.joined + 1 });
        }
        if let Some(reason) = course.given_up.as_ref().filter(|_| is_wished && self.goes_on()) {
            self.tell(LinkEvent::NotLoggedIn { host, reason: &escape_controls(reason) });
        }
        self.make_again(&mut course, &beside, starts);
    }

    /// Puts others in the place of those that are lost, as long as there are numbers for them
    /// and none is refused.
    fn make_again(&self, course: &mut Course, beside: &Beside, starts: &Starts) {
        while course.makes_again() {
            let Some(lost) = self.until_ended(|| self.joined.lost_logins()) else { return };
            course.lose(lost);
            self.follow(course, beside, starts);
        }
    }

    /// Up to `count` logins, when it is time for them.
    fn awaited(&self, count: u8) -> Option<Course> {
        let begun = Instant::now();
        // A host that was lost is found by one.
        let may_be_early = !self.control().monitor().progress().told.is_again();
        let is_time = || match self.is_early() {
            true => {
                let is_much = || self.may_be_left().is_none_or(|left| left >= CALLED_MIN);
                may_be_early && begun.elapsed() >= EARLY_AFTER && is_much()
            }
            false => self.left() >= CALLED_MIN,
        };
        self.until_ended(|| self.wait_unless(is_time()))?;
        Some(Course::wanted(count))
    }

    /// Logs in as `course` says, until all have joined, no more are tried, or the job ends.
    fn follow(&self, course: &mut Course, beside: &Beside, starts: &Starts) {
        let (tell, told) = unbounded();
        while self.goes_on() && !course.is_over() {
            let is_early = self.is_early();
            let first = First { is_early, needs_nobody: beside.needs_nobody(is_early) };
            while let Some(attempt) = course.next(self.may_be_left(), first) {
                if let Err(failure) = self.begin_login(beside, starts, attempt, &tell) {
                    course.fail(attempt, failure);
                }
            }
            let Ok(EndedLogin { attempt, stands }) = told.recv_timeout(LOOK_AGAIN) else {
                continue;
            };
            let lane = attempt.lane;
            let joined = stands.and_then(|login| {
                self.take(lane, Carrier::Login(Box::new(login)), Vec::new()).map_err(Failure::here)
            });
            match joined {
                Ok(()) => course.join(),
                Err(failure) => course.fail(attempt, failure),
            }
        }
    }

    /// True if the agent has not greeted yet.
    pub(super) fn is_early(&self) -> bool {
        !self.control().monitor().progress().reached()
    }

    /// Bytes of the listed files that are not done; `None` while only the agent knows.
    pub(super) fn may_be_left(&self) -> Option<u64> {
        match (&self.part, self.is_early()) {
            (LaneRole::Receives(..), true) => None,
            _ => Some(self.left()),
        }
    }

    /// Begins a login, on a thread of its own that tells what came of it.
    fn begin_login(
        &self,
        beside: &Beside,
        starts: &Starts,
        attempt: Attempt,
        tell: &Sender<EndedLogin>,
    ) -> Result<(), Failure> {
        let lane = attempt.lane;
        let gone = || Failure::here(io::ErrorKind::BrokenPipe.into());
        starts.ask.send(()).map_err(|_| gone())?;
        let connection = starts.begun.recv().map_err(|_| gone())?;
        let connection = connection.map_err(|error| Failure::of(&error, false))?;
        let killer = connection.closer.killer();
        let vigil = Vigil::new(beside.patience);
        let (words, silence_max) = (beside.words(lane), self.silence_max);
        let (joined, tell, watch) = (Arc::clone(&self.joined), tell.clone(), Arc::clone(&vigil));
        self.joined.begin_login(lane, &connection.closer);
        let has_begun = self.crew.try_begin("login", move || {
            let stands = log_in(connection, &words, vigil, silence_max);
            joined.end_login(lane);
            // Nobody takes it when the job has ended.
            let _ = tell.send(EndedLogin { attempt, stands });
        });
        has_begun.map_err(|error| {
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

    /// It is the fault of this machine.
    fn here(error: io::Error) -> Self {
        let (is_final, may_be_asked, has_greeted) = (true, false, true);
        Self { reason: error.to_string(), is_final, may_be_asked, has_greeted }
    }
}
