//! Logins of a client beside the first: how they are begun, while the job is at work or the
//! first takes long, and what becomes of those that fail.

use super::carrier::{Carrier, Login};
use super::chosen::{self, Choice};
use super::joining::{CALLED_MIN, LANE_LEN, Opening, Part};
use super::wire::{FromPeer, listen};
use crate::LinkEvent;
use crate::control::CANCEL_POLL;
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

/// Logins that are made at the same time when one has failed: a server that is asked for more
/// before these are known may refuse them (`MaxStartups`).
const AT_ONCE_MAX: usize = 2;

/// How long the first login may take before others are begun beside it. Behind a link that is
/// short it stands by then, and how much there is to do is known; behind a long one it takes
/// the longer. It has knocked by then, so that a server that refuses some refuses the others.
const EARLY_AFTER: Duration = Duration::from_millis(250);

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
    wish: Wish,
    further: Further,
    patience: Patience,
    starts: Option<Starts>,
}

/// How many there shall be besides the first.
enum Wish {
    /// So many at most, and as many of them as are worth it.
    UpTo(u8),
    /// As many as are found out to be worth it.
    Chosen(Choice),
}

/// Logins as they are begun.
struct Starts {
    ask: Sender<()>,
    begun: Receiver<Result<Connection, ConnectError>>,
}

/// A login on its way.
#[derive(Clone, Copy)]
struct Attempt {
    lane: u8,
    begun: Instant,
    /// The first login did not stand when it was begun.
    is_early: bool,
}

/// The end of a login.
struct Told {
    attempt: Attempt,
    stands: Result<Login, Failure>,
}

/// A login that came to nothing.
struct Failure {
    reason: String,
    /// Another one would fail as well.
    is_final: bool,
    /// The user may be asked on the first login for what it lacked.
    may_be_asked: bool,
    /// The host may have taken the lane's number.
    has_greeted: bool,
}

impl Beside {
    /// So many `logins` to the host at the other end of `closer`; `None` if none are wanted,
    /// or it can't be logged in to.
    pub(crate) fn new(logins: Logins, closer: &Closer) -> Option<Self> {
        let wish = match logins {
            Logins::UpTo(0) => return None,
            Logins::UpTo(count) => Wish::UpTo(count.min(LANES_MAX)),
            Logins::Chosen => Wish::Chosen(Choice::new(closer)?),
        };
        let further = closer.further()?;
        let secret = haul_sys::secret().ok()?;
        let patience = Patience { login_max: Some(LOGIN_MAX), ..closer.patience() };
        Some(Self { secret, wish, further, patience, starts: None })
    }

    /// The secret by which they find the job.
    pub(crate) fn secret(&self) -> JoinSecret {
        self.secret
    }

    /// Begins the thread that starts ssh, and watches the first one before that: one that is
    /// confined can't.
    pub(super) fn begin_starter(&mut self, crew: Crew<'_, '_>) -> io::Result<()> {
        let watch = match &mut self.wish {
            Wish::UpTo(_) => None,
            Wish::Chosen(choice) => Some(choice.watch()),
        };
        let (ask, asked) = bounded::<()>(LANES_MAX.into());
        let (tell, begun) = bounded(LANES_MAX.into());
        let (further, control) = (self.further.clone(), crew.control());
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
    /// Content that each is worth, in bytes.
    lane_len: u64,
    /// Failures in a row that are one too many.
    failures_max: u32,
    /// Numbers that no lane has had.
    free: Vec<u8>,
    on_their_way: usize,
    joined: u8,
    /// Failures in a row; of logins that are on their way at the same time the first counts.
    failures: u32,
    has_failed: bool,
    /// The time from which on a login was begun whose failure counts.
    counts_from: Instant,
    /// No login is begun before.
    pause_until: Instant,
    /// Why no further one is made.
    given_up: Option<String>,
}

impl Course {
    /// As many as the user wants.
    fn wanted(count: u8) -> Self {
        Self::new(count, LANE_LEN, FAILURES_MAX)
    }

    /// As many as haul has chosen: nobody has asked for them, so the first that is refused is
    /// the last.
    fn chosen(count: u8) -> Self {
        Self::new(count, chosen::LANE_LEN, 1)
    }

    fn new(count: u8, lane_len: u64, failures_max: u32) -> Self {
        Self {
            count,
            lane_len,
            failures_max,
            free: (1..=LANES_MAX).rev().collect(),
            on_their_way: 0,
            joined: 0,
            failures: 0,
            has_failed: false,
            counts_from: Instant::now(),
            pause_until: Instant::now(),
            given_up: None,
        }
    }

    /// A login that is to be begun now, where so many bytes are `left`,
    /// or the first login is still on its way.
    fn next(&mut self, left: u64, is_early: bool) -> Option<Attempt> {
        let wanted = left.div_ceil(self.lane_len).min(self.count.into()) as usize;
        let at_once = match (self.has_failed, is_early) {
            (false, _) => wanted,
            (true, false) => AT_ONCE_MAX,
            (true, true) => 0,
        };
        let is_time = self.given_up.is_none()
            && self.on_their_way < at_once
            && usize::from(self.joined) + self.on_their_way < wanted
            && Instant::now() >= self.pause_until;
        let lane = if is_time { self.free.pop() } else { None }?;
        self.on_their_way += 1;
        Some(Attempt { lane, begun: Instant::now(), is_early })
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

    fn fail(&mut self, attempt: Attempt, failure: Failure) {
        let Attempt { lane, begun, is_early } = attempt;
        let Failure { reason, is_final, may_be_asked, has_greeted } = failure;
        tracing::debug!(lane, %reason, "a further login has failed");
        self.on_their_way -= 1;
        self.has_failed = true;
        if !has_greeted {
            self.free.push(lane);
        }
        if begun >= self.counts_from {
            let pause = PAUSE_MIN.saturating_mul(1 << self.failures.min(16)).min(PAUSE_MAX);
            self.counts_from = Instant::now();
            self.pause_until = self.counts_from + pause;
            self.failures += 1;
        }
        let is_final = is_final && !(is_early && may_be_asked);
        if is_final || self.failures >= self.failures_max {
            self.given_up = Some(reason);
        }
    }
}

impl<'scope, 'a: 'scope> Opening<'scope, '_, 'a> {
    /// Logs in further while the job is at work or its first login takes long, as often as
    /// that is worth it.
    pub(super) fn log_in(&self, beside: Beside) {
        let (course, is_wished) = match &beside.wish {
            Wish::UpTo(count) => (self.awaited(*count), true),
            Wish::Chosen(choice) => (self.choose(choice).map(Course::chosen), false),
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
        if let Some(reason) = course.given_up.filter(|_| is_wished && self.goes_on()) {
            self.tell(LinkEvent::NotLoggedIn { host, reason: &escape_controls(&reason) });
        }
    }

    /// Up to `count` logins, when it is time for them.
    fn awaited(&self, count: u8) -> Option<Course> {
        let begun = Instant::now();
        // A host that was lost is found by one.
        let may_be_early = !self.control().monitor().progress().told.is_again();
        let is_time = || match self.is_early() {
            true => {
                may_be_early && begun.elapsed() >= EARLY_AFTER && self.may_be_left() >= CALLED_MIN
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
            while let Some(attempt) = course.next(self.may_be_left(), self.is_early()) {
                if let Err(failure) = self.begin_login(beside, starts, attempt, &tell) {
                    course.fail(attempt, failure);
                }
            }
            let Ok(Told { attempt, stands }) = told.recv_timeout(CANCEL_POLL) else { continue };
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

    /// Bytes of the listed files that are not done; any number of them while only the agent
    /// knows.
    fn may_be_left(&self) -> u64 {
        match (&self.part, self.is_early()) {
            (Part::Receives(..), true) => u64::MAX,
            _ => self.left(),
        }
    }

    /// Begins a login, on a thread of its own that tells what came of it.
    fn begin_login(
        &self,
        beside: &Beside,
        starts: &Starts,
        attempt: Attempt,
        tell: &Sender<Told>,
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
        self.joined.begin_login(lane, killer.clone());
        let has_begun = self.crew.try_begin("login", move || {
            let stands = log_in(connection, &words, vigil, silence_max);
            joined.end_login(lane);
            // Nobody takes it when the job has ended.
            let _ = tell.send(Told { attempt, stands });
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
        let may_be_asked = matches!(error, ConnectError::HostKey { changed: false, .. });
        Self { reason, is_final, may_be_asked, has_greeted }
    }

    /// It is the fault of this machine.
    fn here(error: io::Error) -> Self {
        let (is_final, may_be_asked, has_greeted) = (true, false, true);
        Self { reason: error.to_string(), is_final, may_be_asked, has_greeted }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MUCH: u64 = u64::MAX;

    fn failure(is_final: bool, may_be_asked: bool) -> Failure {
        Failure { reason: "no".to_owned(), is_final, may_be_asked, has_greeted: false }
    }

    /// The logins that are begun now.
    fn begun(course: &mut Course, left: u64, is_early: bool) -> Vec<Attempt> {
        std::iter::from_fn(|| course.next(left, is_early)).collect()
    }

    fn lanes(attempts: &[Attempt]) -> Vec<u8> {
        attempts.iter().map(|attempt| attempt.lane).collect()
    }

    #[test]
    fn as_many_are_begun_at_once_as_are_wanted_and_worth_it() {
        let mut course = Course::wanted(3);
        assert_eq!(lanes(&begun(&mut course, MUCH, true)), [1, 2, 3]);
        let mut course = Course::wanted(3);
        assert_eq!(lanes(&begun(&mut course, LANE_LEN + 1, false)), [1, 2]);
        course.join();
        assert_eq!(lanes(&begun(&mut course, MUCH, false)), [3]);
        assert!(begun(&mut course, MUCH, false).is_empty());
        course.join();
        course.join();
        assert!(course.is_over());
    }

    #[test]
    fn those_that_fail_together_are_one_failure_and_then_there_are_fewer_at_once() {
        let mut course = Course::wanted(7);
        let attempts = begun(&mut course, MUCH, true);
        assert_eq!(attempts.len(), 7);
        for attempt in attempts {
            course.fail(attempt, failure(false, false));
        }
        assert_eq!((course.failures, course.on_their_way), (1, 0));
        assert!(!course.is_over());
        std::thread::sleep(PAUSE_MIN);
        assert!(begun(&mut course, MUCH, true).is_empty(), "the first does not stand");
        assert_eq!(begun(&mut course, MUCH, false).len(), AT_ONCE_MAX);
    }

    #[test]
    fn a_key_that_the_user_is_asked_about_may_be_known_when_the_first_stands() {
        for (is_early, may_be_asked, is_over) in
            [(true, true, false), (true, false, true), (false, true, true)]
        {
            let mut course = Course::wanted(1);
            let attempt = course.next(MUCH, is_early).expect("one is begun");
            course.fail(attempt, failure(true, may_be_asked));
            assert_eq!(course.is_over(), is_over);
        }
    }

    #[test]
    fn of_those_that_nobody_has_asked_for_the_first_that_is_refused_is_the_last() {
        let mut course = Course::chosen(7);
        let attempts = begun(&mut course, chosen::LANE_LEN * 3, false);
        assert_eq!(attempts.len(), 3, "they are not worth it for less");
        course.fail(attempts[0], failure(false, false));
        assert!(begun(&mut course, MUCH, false).is_empty());
        course.join();
        assert!(!course.is_over(), "one is on its way");
        course.join();
        assert!(course.is_over());
    }
}
