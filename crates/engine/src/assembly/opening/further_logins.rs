//! Opens further logins of a client, during the job or while the first login is slow. `schedule.rs`
//! decides how many and when.

use super::chosen::Choice;
use super::{AttemptResult, LEFT_MIN, Opening};
use crate::assembly::carrier::{Carrier, Login, PeerInput, watch_reader};
use crate::assembly::schedule::{Attempt, Failure, Schedule};
use crate::link::greeting::{hello, read_message, welcome};
use crate::link::wire::{ReadEnd, aborted, refused};
use crate::threads::JobThreads;
use crate::watchdog::Watchdog;
use crossbeam_channel::{Receiver, Sender, bounded};
use haul_model::Logins;
use haul_net::{Closer, ConnectError, Connection, ExtraLogins, Timeouts};
use haul_proto::{Join, JoinSecret, LANES_MAX, Message, encode};
use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long the first login may take before further logins start. On a short link it is connected
/// by then, and the amount of work is known. On a long link it has reached the server by then, so a
/// server that refuses some logins refuses the later ones.
const EARLY_AFTER: Duration = Duration::from_millis(250);

/// The longest duration of a login. These logins never ask for a password.
const LOGIN_MAX: Duration = Duration::from_secs(30);

/// The client's request for further logins.
pub(crate) struct FurtherLogins {
    secret: JoinSecret,
    /// The most further logins.
    logins: Logins,
    /// Set if the first login can be observed.
    choice: Option<Choice>,
    extra_logins: ExtraLogins,
    timeouts: Timeouts,
    starter: Option<LoginStarter>,
}

/// The channels to the thread that starts logins.
struct LoginStarter {
    ask: Sender<()>,
    begun: Receiver<Result<Connection, ConnectError>>,
}

impl FurtherLogins {
    /// Up to `logins` further logins to the host at the other end of `closer`. `None` if none are
    /// wanted, or if the host can't be logged in to again.
    pub(crate) fn new(logins: Logins, closer: &Closer) -> Option<Self> {
        let choice = Choice::new(closer);
        if logins == Logins::UpTo(0) || logins == Logins::Chosen && choice.is_none() {
            return None;
        }
        let extra_logins = closer.extra_logins()?;
        let secret = haul_sys::secret().ok()?;
        let timeouts = Timeouts { login_max: Some(LOGIN_MAX), ..closer.timeouts() };
        Some(Self { secret, logins, choice, extra_logins, timeouts, starter: None })
    }

    /// The secret by which these logins find the job.
    pub(crate) fn secret(&self) -> JoinSecret {
        self.secret
    }

    /// Starts the thread that starts ssh. Unless the user asked for logins, it observes the first
    /// login before that. A confined thread could do neither.
    pub(in crate::assembly) fn begin_starter(
        &mut self,
        threads: JobThreads<'_, '_>,
    ) -> io::Result<()> {
        let (extra_logins, control) = (self.extra_logins.clone(), threads.control());
        let mut watch = self.choice.clone();
        // The user asked for logins: they are started during the observation.
        if self.is_requested()
            && let Some(watch) = watch.take()
        {
            threads.try_spawn("watch", move || watch.watch(control))?;
        }
        let (ask, asked) = bounded::<()>(LANES_MAX.into());
        let (results, begun) = bounded(LANES_MAX.into());
        threads.try_spawn("starter", move || {
            if let Some(watch) = watch {
                watch.watch(control);
            }
            for () in asked {
                if results.send(extra_logins.connect()).is_err() {
                    return;
                }
            }
        })?;
        self.starter = Some(LoginStarter { ask, begun });
        Ok(())
    }

    /// The round trip to the host, if it is known.
    pub(in crate::assembly) fn round_trip(&self) -> Option<Duration> {
        self.choice.as_ref()?.round_trip()
    }

    /// True if the first login was accepted without any question to the user.
    pub(in crate::assembly) fn is_unattended(&self, is_early: bool) -> bool {
        self.choice.as_ref().map_or(!is_early, Choice::is_unattended)
    }

    /// True if the user asked for further logins.
    pub(in crate::assembly) fn is_requested(&self) -> bool {
        self.logins != Logins::Chosen
    }

    /// The first bytes sent on a login.
    fn greeting(&self, lane: u8) -> Vec<u8> {
        let joins = Message::Join(Join { lane, secret: Some(self.secret) });
        [hello(false, self.timeouts), encode(&joins)].concat()
    }

    /// Waits until further logins are worthwhile: the job has enough left, or the first login is
    /// slow. `None` if they are not, or if the job ends first.
    pub(super) fn wait(&self, opening: &Opening<'_, '_, '_>) -> Option<Schedule> {
        match self.logins {
            Logins::UpTo(count) => Self::wait_for_content(opening, count.min(LANES_MAX)),
            Logins::Chosen => self.choice.as_ref().and_then(|choice| choice.choose(opening)),
        }
    }

    /// Begins a login, on a thread of its own that reports the result.
    pub(super) fn begin(
        &self,
        opening: &Opening<'_, '_, '_>,
        attempt: Attempt,
        results: &Sender<AttemptResult>,
    ) -> Result<(), Failure> {
        let lane = attempt.lane;
        let failure = || Failure::of_io(io::ErrorKind::BrokenPipe.into());
        let starter = self.starter.as_ref().ok_or_else(failure)?;
        starter.ask.send(()).map_err(|_| failure())?;
        let connection = starter.begun.recv().map_err(|_| failure())?;
        let connection = connection.map_err(|error| Failure::of(&error, false))?;
        let killer = connection.closer.killer();
        let watchdog = Watchdog::new(self.timeouts);
        let (greeting, silence_max) = (self.greeting(lane), opening.joins.silence_max);
        let (roster, results, watch) =
            (Arc::clone(&opening.joins.roster), results.clone(), Arc::clone(&watchdog));
        opening.joins.roster.begin_login(lane, &connection.closer);
        let has_begun = opening.threads.try_spawn("login", move || {
            let result = log_in(connection, &greeting, watchdog, silence_max);
            roster.end_login(lane);
            // The job may have ended, so nobody receives this.
            let _ = results.send((attempt, result.map(|login| Carrier::Login(login.into()))));
        });
        has_begun.map_err(|error| {
            opening.joins.roster.end_login(lane);
            Failure::of_io(error)
        })?;
        opening.control().watch(&watch, &opening.joins.peer, killer);
        Ok(())
    }

    /// Up to `count` logins, when it is time for them.
    fn wait_for_content(opening: &Opening<'_, '_, '_>, count: u8) -> Option<Schedule> {
        let begun = Instant::now();
        // After a lost connection, one login tests whether the host is back.
        let may_be_early = !opening.control().monitor().progress().report_log.is_rerun();
        let is_time = || match opening.is_early() {
            true => {
                let is_much = || opening.left_if_known().is_none_or(|left| left >= LEFT_MIN);
                may_be_early && begun.elapsed() >= EARLY_AFTER && is_much()
            }
            false => opening.left() >= LEFT_MIN,
        };
        opening.wait_for(|| is_time().then_some(()))?;
        Some(Schedule::wanted(count))
    }
}

/// Sends `greeting` over a connection, and waits until the agent of the job has accepted it.
fn log_in(
    connection: Connection,
    greeting: &[u8],
    watchdog: Arc<Watchdog>,
    silence_max: Option<Duration>,
) -> Result<Login, Failure> {
    let Connection { reader, mut writer, closer } = connection;
    let mut input = watch_reader(reader, &watchdog);
    let mut has_greeted = false;
    let mut result = || {
        writer.write_all(greeting)?;
        writer.flush()?;
        welcome(&mut input, closer.peer(), false)?;
        has_greeted = true;
        watchdog.greeted(silence_max);
        read_join_confirmation(&mut input)
    };
    match result() {
        Ok(()) => {
            let (output, is_watched, giver) = (writer, true, None);
            Ok(Login { input, output, watchdog, is_watched, closer, giver })
        }
        Err(ReadEnd::Refused(error)) => {
            // The agent may not accept logins yet. A peer that refuses has consumed nothing.
            let (reason, is_final) = (error.to_string(), !has_greeted);
            Err(Failure { reason, is_final, may_be_asked: false, has_greeted: false })
        }
        Err(ReadEnd::Lost(_)) => {
            drop((input, writer));
            Err(Failure::of(&closer.explain(), has_greeted))
        }
    }
}

/// Reads the confirmation that the agent of the job has accepted this connection.
fn read_join_confirmation(input: &mut PeerInput) -> Result<(), ReadEnd> {
    match read_message(input)? {
        Message::Join(_) => Ok(()),
        Message::Abort(abort) => Err(ReadEnd::Refused(aborted(abort))),
        _ => Err(refused("the host did not confirm that the login joined")),
    }
}

impl Failure {
    /// The reason for a failed connection.
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
