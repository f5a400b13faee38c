//! Connections to the places that locations name.

use crate::config::Settings;
use crate::endpoint::{Call, UseServer, diagnostics};
use crate::error::CommandError;
use crate::location::Machine;
use crate::progress::Screen;
use crate::report::Report;
use haul_engine::{Job, JobError, Requests, Standing};
use haul_model::{Compression, Task, Via};
use haul_net::{Congestion, ConnectError, Connection, Patience, SshTarget};
use std::num::NonZeroU8;
use std::time::{Duration, Instant};

/// How long an SFTP server may be silent, unless the user says otherwise, in seconds. One
/// that is at work says nothing.
pub(crate) const SFTP_SILENCE_SECONDS: u32 = 60;

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

/// A host that answers requests.
pub(crate) struct Answering {
    pub(crate) requests: Requests,
    /// Its SFTP server answers, and this is why.
    pub(crate) missing: Option<ConnectError>,
    /// How long it took until it answered.
    pub(crate) login: Duration,
}

impl Answering {
    /// The haul of a host, or its SFTP server if it has none.
    ///
    /// # Errors
    /// When there is no way to either, or the user has `cancelled`.
    pub(crate) fn at(call: &Call<'_>, cancelled: &dyn Fn() -> bool) -> Result<Self, CommandError> {
        let begun = Instant::now();
        let missing = match Requests::remote_unless(call.connect()?, cancelled) {
            Err(JobError::Connection(error)) if error.lacks_haul() => error,
            answer => {
                let (requests, login) = (answer?, begun.elapsed());
                return Ok(Self { requests, missing: None, login });
            }
        };
        if call.reach.without_haul == WithoutHaul::Fail {
            return Err(missing.into());
        }
        match Self::at_sftp(call.target, &call.reach, call.screen) {
            Ok(answering) => Ok(Self { missing: Some(missing), ..answering }),
            Err(neither) => Err(neither_helps(missing, &neither)),
        }
    }

    /// The SFTP server of a host.
    ///
    /// # Errors
    /// When there is no way to it.
    pub(crate) fn at_sftp(
        target: &SshTarget,
        reach: &Reach,
        screen: &Screen,
    ) -> Result<Self, JobError> {
        let begun = Instant::now();
        let requests = Requests::sftp(connect_sftp(target, reach, screen)?)?;
        Ok(Self { requests, missing: None, login: begun.elapsed() })
    }
}

/// The error where haul is `missing`. SFTP would have been of help; it is not what is wrong.
pub(crate) fn neither_helps(missing: ConnectError, neither: &JobError) -> CommandError {
    let error = CommandError::from(missing);
    error.with_hint(format!("SFTP does not work either: {neither}"))
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
                let sftp = Answering::at_sftp(target, &self.reaches.of(target), &self.screen);
                let explained = |e: JobError| self.reaches.explained(target, e.into());
                (sftp.map_err(explained)?.requests, false)
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
        let reach = self.reaches.of(target);
        let call = Call {
            target,
            reach,
            may_be_kept: true,
            is_again,
            has_content: self.task.is_some_and(|task| !task.keeps_destination()),
            screen: &self.screen,
            tell: &|event| self.report.link(event),
        };
        let Answering { requests, missing, .. } = Answering::at(&call, cancelled)?;
        if missing.is_some() && reach.without_haul == WithoutHaul::GoOn {
            let message = "no haul there: using SFTP";
            self.report.warning(target.display().as_bytes(), message);
        }
        Ok((requests, missing.is_some_and(|missing| missing.runs_nothing())))
    }
}
