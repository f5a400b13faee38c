//! Connections to the places that locations name.

use crate::config::Settings;
use crate::error::CommandError;
use crate::location::Machine;
use crate::progress::Screen;
use crate::report::{Report, remote_line};
use crate::server::known;
use haul_engine::{Greeted, Job, JobError, LinkEvent, Requests, Standing};
use haul_model::{Compression, Task, Via};
use haul_net::{
    Congestion, ConnectError, Connection, Diagnostics, Patience, Reaching, ServerVia, SshTarget,
};
use std::num::NonZeroU8;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long an SFTP server may be silent, unless the user says otherwise, in seconds. One
/// that is at work says nothing.
pub(crate) const SFTP_SILENCE_SECONDS: u32 = 60;

/// How long a login may take when the connection was lost: somebody may have to look for a
/// password again.
const LOGIN_AGAIN_MAX: Duration = Duration::from_secs(60);

/// The course to take where a host turns out to have no haul.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WithoutHaul {
    /// It fails.
    Fail,
    /// It goes on through the host's SFTP server, and that is told.
    GoOn,
    /// It goes on, and nothing is said of it.
    GoOnQuietly,
}

/// How a host is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reach {
    /// The course where there is no haul.
    pub(crate) without_haul: WithoutHaul,
    /// Logins, at most, for contents that go by ssh or through SFTP. Where the user has not
    /// said it, haul chooses by ssh, and there is one through SFTP.
    pub(crate) parallel: Option<NonZeroU8>,
    /// How often in a row a lost connection is made again.
    pub(crate) retries: u32,
    /// The user has said how long it may be silent.
    pub(crate) has_timeout: bool,
    /// A host without haul gets one first.
    pub(crate) deploy: bool,
    pub(crate) server: UseServer,
    /// The congestion control of what is sent to a server by QUIC.
    pub(crate) congestion: Congestion,
}

/// The use of the server of a host, if the user is enrolled at one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UseServer {
    Never,
    /// If one is known, by the protocol that serves best.
    IfKnown,
    /// By that protocol, or by the one that serves best.
    Always(Option<ServerVia>),
}

/// How each host of a command is reached.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Reaches {
    hosts: Vec<(SshTarget, Reach)>,
    /// Files of this machine that words which name a host may have meant.
    here_instead: Vec<(SshTarget, String)>,
    /// The words of the command say how to compress, and not the configuration alone.
    asks_to_compress: bool,
    /// The same of a bound on the rate.
    asks_for_rate: bool,
    /// The same of the connections that contents take.
    asks_for_way: bool,
}

impl Reaches {
    /// Adds a host.
    pub(crate) fn add(&mut self, target: &SshTarget, reach: Reach) {
        self.hosts.push((target.clone(), reach));
    }

    /// The words that name `target` may have meant a file of this machine.
    pub(crate) fn add_here_instead(&mut self, target: &SshTarget, file: String) {
        self.here_instead.push((target.clone(), file));
    }

    /// The same, for these words of the command about the way that contents take.
    pub(crate) fn asking(self, words: &Settings) -> Self {
        Self {
            asks_to_compress: words.compress.is_some(),
            asks_for_rate: words.bwlimit.is_some(),
            asks_for_way: words.via.is_some(),
            ..self
        }
    }

    /// `job` as it runs through SFTP: what the configuration alone says of haul is put aside.
    pub(crate) fn without_defaults_of_haul(&self, job: &Job) -> Job {
        let compression = match self.asks_to_compress {
            true => job.compression,
            false => Compression::Auto,
        };
        let rate = job.rate.filter(|_| self.asks_for_rate);
        let via = if self.asks_for_way { job.via } else { Via::Auto };
        Job { compression, rate, via, ..job.clone() }
    }

    /// `error`, with the file of this machine that was meant, perhaps, where there is no
    /// way to `target`.
    pub(crate) fn explained(&self, target: &SshTarget, error: CommandError) -> CommandError {
        use ConnectError as E;
        let no_way = matches!(
            error.source.downcast_ref(),
            Some(E::Unreachable { .. } | E::HostKey { .. } | E::LoginRefused { .. })
        );
        let files = self.here_instead.iter().filter(|(named, _)| no_way && named == target);
        files.fold(error, |error, (_, file)| {
            error.with_hint(format!("write '{file}' for the local file"))
        })
    }

    /// How `target` is reached: as it was added, or as if nothing was said.
    pub(crate) fn of(&self, target: &SshTarget) -> Reach {
        let found = self.hosts.iter().find(|(added, _)| added == target);
        found.map_or(
            Reach {
                without_haul: WithoutHaul::GoOn,
                parallel: None,
                retries: 0,
                has_timeout: false,
                deploy: false,
                server: UseServer::Never,
                congestion: Congestion::default(),
            },
            |(_, reach)| *reach,
        )
    }

    /// The same, and nothing is said of hosts without haul.
    pub(crate) fn quietly(mut self) -> Self {
        for (_, reach) in &mut self.hosts {
            if reach.without_haul == WithoutHaul::GoOn {
                reach.without_haul = WithoutHaul::GoOnQuietly;
            }
        }
        self
    }
}

/// Connects to `target` for a job; what ssh has to say is shown on `screen`.
pub(crate) fn connect(
    target: &SshTarget,
    task: Task,
    screen: &Screen,
) -> Result<Connection, ConnectError> {
    match task.keeps_destination() {
        true => haul_net::connect_briefly(target, diagnostics(screen)),
        false => haul_net::connect(target, diagnostics(screen)),
    }
}

/// How long the agent at the other end of a kept connection may take to greet. A connection
/// that takes longer is made anew.
const GREETING_MAX: Duration = Duration::from_secs(2);

/// The connection to the agent of `target` that an earlier command has left, if there is one and
/// the agent still answers.
pub(crate) fn kept(target: &SshTarget, screen: &Screen) -> Option<Greeted> {
    match requests_kept(target, screen)?.into_standing()? {
        Standing::Agent(greeted) => Some(greeted),
        Standing::Sftp(_) => None,
    }
}

/// The same for requests.
fn requests_kept(target: &SshTarget, screen: &Screen) -> Option<Requests> {
    let connection = haul_net::connect_kept(target, diagnostics(screen))?;
    let begun = Instant::now();
    let greeted = Requests::remote_unless(connection, &|| begun.elapsed() > GREETING_MAX);
    if let Err(error) = &greeted {
        tracing::debug!(%error, "the kept connection does not answer");
    }
    greeted.ok()
}

/// Connects to the server of `target`, if the user is enrolled at one and does not ask for ssh.
/// If it does not answer, and the user has enrolled through ssh, ssh starts an agent there
/// that serves this client as the server would, unless the user insists on the server. A login
/// `is_again` if an earlier connection was lost. `tell` reports whether the server or ssh is
/// used.
///
/// # Errors
/// When there is no way to the server, or it has another key.
pub(crate) fn by_server(
    target: &SshTarget,
    reach: &Reach,
    (screen, is_again): (&Screen, bool),
    tell: &dyn Fn(LinkEvent<'_>),
) -> Result<Option<Connection>, JobError> {
    let Reach { server, congestion, .. } = *reach;
    if server == UseServer::Never {
        return Ok(None);
    }
    let failed = |error: CommandError| JobError::Usage(error.to_string());
    let Some(known) = known::find(target.host()).map_err(failed)? else {
        return match server {
            UseServer::Always(_) => {
                let host = target.display();
                Err(JobError::Usage(format!("{host}: no server of this host is known")))
            }
            UseServer::IfKnown | UseServer::Never => Ok(None),
        };
    };
    let identity = known::identity().map_err(failed)?;
    let via = match server {
        UseServer::Always(Some(via)) => via,
        _ => known.usual_via(),
    };
    let reaching = Reaching { patience: target.patience(), via, congestion };
    let insists = matches!(server, UseServer::Always(_));
    let host = &*target.display();
    let connected = match (known.connect(&identity, reaching), &known.login) {
        (Err(away @ ConnectError::NoServer { .. }), Some(login)) if !insists => {
            tell(LinkEvent::ServerAway { host, reason: &away.to_string() });
            let (target, diagnostics) = match is_again {
                true => again(target),
                false => (target.clone(), diagnostics(screen)),
            };
            login.connect(&target, identity.key(), diagnostics)
        }
        (connected, _) => connected.inspect(|connection| {
            let is_quic = connection.closer.is_quic();
            tell(LinkEvent::Server { host, is_quic });
        }),
    };
    Ok(Some(connected?))
}

/// Connects again after the connection was lost. What ssh has to say is in the error, if it
/// fails; the login may not take long, so that there are further attempts. The connection
/// `is_brief` if it carries no content of files.
pub(crate) fn connect_again(
    target: &SshTarget,
    is_brief: bool,
) -> Result<Connection, ConnectError> {
    let (target, silent) = again(target);
    match is_brief {
        true => haul_net::connect_briefly(&target, silent),
        false => haul_net::connect(&target, silent),
    }
}

/// `target` as it is connected to again, and the place of ssh's words.
fn again(target: &SshTarget) -> (SshTarget, Diagnostics) {
    let silence_max = target.patience().silence_max;
    let login_max = silence_max.map(|silence| silence.max(LOGIN_AGAIN_MAX));
    let target = target.clone().with_patience(Patience { silence_max, login_max });
    (target, Arc::new(|_: &[u8]| {}))
}

/// Connects to the SFTP server of `target`.
pub(crate) fn connect_sftp(
    target: &SshTarget,
    reach: &Reach,
    screen: &Screen,
) -> Result<Connection, ConnectError> {
    let patience = match reach.has_timeout {
        true => target.patience(),
        false => Patience::of_seconds(SFTP_SILENCE_SECONDS),
    };
    haul_net::connect_sftp(&target.clone().with_patience(patience), diagnostics(screen))
}

/// Shows on `screen` what ssh has to say.
pub(crate) fn diagnostics(screen: &Screen) -> Diagnostics {
    let screen = screen.clone();
    Arc::new(move |line: &[u8]| screen.line(&remote_line(line)))
}

/// The places that single requests have gone to, one connection for each.
pub(crate) struct Peers<'r> {
    report: &'r dyn Report,
    screen: Screen,
    reaches: Reaches,
    /// The task of the job that comes next, if one does.
    task: Option<Task>,
    open: Vec<Open>,
}

/// Connections that are to be kept are, and the others closed.
impl Drop for Peers<'_> {
    fn drop(&mut self) {
        self.open.drain(..).for_each(|open| open.requests.leave());
    }
}

/// A place that requests have gone to.
struct Open {
    machine: Machine,
    requests: Requests,
    /// The host starts no program.
    is_sftp_only: bool,
}

/// The way to a host that was asked.
pub(crate) struct WayThere {
    pub(crate) standing: Standing,
    /// The host starts no program.
    pub(crate) is_sftp_only: bool,
}

impl<'r> Peers<'r> {
    /// No connection yet. What ssh has to say is shown on `screen`, which belongs to
    /// `report`.
    pub(crate) fn new(report: &'r dyn Report, screen: &Screen, reaches: Reaches) -> Self {
        Self { report, screen: screen.clone(), reaches, task: None, open: Vec::new() }
    }

    /// The same, over connections that a job with that task can go on with.
    pub(crate) fn before(mut self, task: Task) -> Self {
        self.task = Some(task);
        self
    }

    /// The hosts whose hauls have greeted.
    pub(crate) fn greeted(&self) -> impl Iterator<Item = &SshTarget> {
        let open = self.open.iter().filter(|open| open.requests.are_at_agent());
        open.filter_map(|open| open.machine.host())
    }

    /// The way to `machine`, for the job that comes next, if somebody was asked there.
    pub(crate) fn take_way(&mut self, machine: &Machine) -> Option<WayThere> {
        let found = self.open.iter().position(|open| open.machine == *machine)?;
        let Open { requests, is_sftp_only, .. } = self.open.swap_remove(found);
        let standing = requests.into_standing()?;
        Some(WayThere { standing, is_sftp_only })
    }

    /// Connects to `machine`, unless its connection stands, and gives its number for
    /// [`Self::requests`]. It `is_again` if an earlier connection was lost.
    ///
    /// # Errors
    /// When there is no way to it, or the user has `cancelled`.
    pub(crate) fn reach(
        &mut self,
        machine: &Machine,
        is_again: bool,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<usize, CommandError> {
        if let Some(index) = self.open.iter().position(|open| open.machine == *machine) {
            return Ok(index);
        }
        let (requests, is_sftp_only) = match machine {
            Machine::Here => (Requests::local(), false),
            Machine::There(target) => {
                let agent = self.agent(target, is_again, cancelled);
                agent.map_err(|error| self.reaches.explained(target, error))?
            }
            Machine::Sftp(target) => {
                let requests = self.sftp(target);
                let explained = |e: JobError| self.reaches.explained(target, e.into());
                (requests.map_err(explained)?, false)
            }
        };
        self.open.push(Open { machine: machine.clone(), requests, is_sftp_only });
        Ok(self.open.len() - 1)
    }

    /// Requests to the machine with the number that [`Self::reach`] has given.
    pub(crate) fn requests(&mut self, index: usize) -> &mut Requests {
        &mut self.open[index].requests
    }

    /// Closes the connection to `machine`, if one stands.
    pub(crate) fn leave(&mut self, machine: &Machine) {
        self.open.retain(|open| open.machine != *machine);
    }

    /// Requests to the haul of a host, or to its SFTP server if it has none; and true if the
    /// host starts no program.
    fn agent(
        &self,
        target: &SshTarget,
        is_again: bool,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<(Requests, bool), CommandError> {
        let tell = |event: LinkEvent<'_>| self.report.link(event);
        let (reach, screen) = (self.reaches.of(target), (&self.screen, is_again));
        if let Some(connection) = by_server(target, &reach, screen, &tell)? {
            return Ok((Requests::remote_unless(connection, cancelled)?, false));
        }
        if !is_again && let Some(requests) = requests_kept(target, &self.screen) {
            return Ok((requests, false));
        }
        let connected = match self.task {
            _ if is_again => {
                connect_again(target, self.task.is_none_or(|task| task.keeps_destination()))
            }
            Some(task) => connect(target, task, &self.screen),
            None => haul_net::connect_briefly(target, diagnostics(&self.screen)),
        };
        let greeted = connected.map_err(JobError::from);
        let greeted = greeted.and_then(|it| Requests::remote_unless(it, cancelled));
        let missing = match greeted {
            Err(JobError::Connection(error)) if error.lacks_haul() => error,
            answer => return Ok((answer?, false)),
        };
        let without_haul = self.reaches.of(target).without_haul;
        if without_haul == WithoutHaul::Fail {
            return Err(missing.into());
        }
        match self.sftp(target) {
            Ok(requests) => {
                if without_haul == WithoutHaul::GoOn {
                    let host = target.display();
                    let message = "no haul there: using SFTP";
                    self.report.warning(host.as_bytes(), message);
                }
                Ok((requests, missing.runs_nothing()))
            }
            // That would have been of help; it is not what is wrong.
            Err(neither) => {
                let error = CommandError::from(missing);
                Err(error.with_hint(format!("SFTP does not work either: {neither}")))
            }
        }
    }

    fn sftp(&self, target: &SshTarget) -> Result<Requests, JobError> {
        Requests::sftp(connect_sftp(target, &self.reaches.of(target), &self.screen)?)
    }
}
