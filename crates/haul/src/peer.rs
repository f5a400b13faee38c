//! Connections for single requests to the machines of locations.

use crate::endpoint::Call;
use crate::error::Error;
use crate::host::{Host, WithoutHaul};
use crate::location::Machine;
use haul_engine::{Event, JobError, Monitor, OpenConnection, Requests};
use haul_model::Task;
use haul_net::{ConnectError, Connection, Diagnostics, Service, Timeouts};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Timeout of a silent SFTP server, in seconds, unless the user sets one. A working server sends
/// nothing.
pub(crate) const SFTP_SILENCE_SECONDS: u32 = 60;

/// Connects to the SFTP server of `host`.
pub(crate) fn connect_sftp(
    host: &Host,
    diagnostics: &Diagnostics,
) -> Result<Connection, ConnectError> {
    let timeout = match host.has_timeout {
        true => host.timeouts(),
        false => Timeouts::from_seconds(SFTP_SILENCE_SECONDS),
    };
    let target = host.ssh().clone().with_timeouts(timeout);
    haul_net::connect(&target, Service::Sftp, Arc::clone(diagnostics))
}

/// A host that answered.
pub struct AnsweringHost {
    /// Takes requests.
    pub requests: Requests,
    /// Set if the host's SFTP server answered: why there is no haul.
    pub missing: Option<ConnectError>,
    /// The time until the host answered.
    pub login: Duration,
}

impl AnsweringHost {
    /// Connects to the haul of a host, or to its SFTP server if it has none.
    ///
    /// # Errors
    /// If neither can be reached, or the user has cancelled.
    pub fn at(call: &Call<'_>) -> Result<Self, Error> {
        let begun = Instant::now();
        let missing = match call.greet() {
            Err(Error::Job(JobError::Connection(error))) if error.is_haul_missing() => error,
            answer => {
                let (requests, login) = (answer?, begun.elapsed());
                return Ok(Self { requests, missing: None, login });
            }
        };
        if call.host.without_haul == WithoutHaul::Fail {
            return Err(missing.into());
        }
        match Self::at_sftp(call.host, call.diagnostics) {
            Ok(answering) => Ok(Self { missing: Some(missing), ..answering }),
            Err(sftp) => Err(Error::Neither { missing, sftp: Box::new(sftp) }),
        }
    }

    /// Connects to the SFTP server of a host.
    ///
    /// # Errors
    /// If the server can't be reached.
    pub fn at_sftp(host: &Host, diagnostics: &Diagnostics) -> Result<Self, JobError> {
        let begun = Instant::now();
        let requests = Requests::sftp(connect_sftp(host, diagnostics)?)?;
        Ok(Self { requests, missing: None, login: begun.elapsed() })
    }
}

/// The machines that single requests were sent to, with one connection for each.
pub struct Peers {
    diagnostics: Diagnostics,
    /// Hosts without haul are not reported.
    is_quiet: bool,
    /// The task of the next job, if there is one.
    task: Option<Task>,
    open: Vec<Open>,
}

/// Keeps the connections that are to be kept, and closes the others.
impl Drop for Peers {
    fn drop(&mut self) {
        self.open.drain(..).for_each(|open| open.requests.leave());
    }
}

/// A machine that requests were sent to.
struct Open {
    machine: Machine,
    requests: Requests,
    /// The host starts no program.
    is_sftp_only: bool,
}

/// The connection to a host that answered.
pub struct HostConnection {
    /// The connection.
    pub connection: OpenConnection,
    /// The host starts no program.
    pub is_sftp_only: bool,
}

impl Peers {
    /// Creates the set, without connections. `diagnostics` receives the output of ssh.
    pub fn new(diagnostics: &Diagnostics) -> Self {
        let (is_quiet, task, open) = (false, None, Vec::new());
        Self { diagnostics: Arc::clone(diagnostics), is_quiet, task, open }
    }

    /// Does not report hosts without haul.
    pub fn quietly(mut self) -> Self {
        self.is_quiet = true;
        self
    }

    /// Makes connections that a job with this task can use afterwards.
    pub fn before(mut self, task: Task) -> Self {
        self.task = Some(task);
        self
    }

    /// The hosts whose hauls have greeted.
    pub fn greeted(&self) -> impl Iterator<Item = &Host> {
        let open = self.open.iter().filter(|open| open.requests.is_agent());
        open.filter_map(|open| open.machine.host())
    }

    /// Takes the connection to `machine`, if there is one, for the next job.
    pub fn take_connection(&mut self, machine: &Machine) -> Option<HostConnection> {
        let found = self.open.iter().position(|open| open.machine == *machine)?;
        let Open { requests, is_sftp_only, .. } = self.open.swap_remove(found);
        let connection = requests.into_connection()?;
        Some(HostConnection { connection, is_sftp_only })
    }

    /// Connects to `machine`, unless there is a connection. `is_reconnect` if an earlier one was
    /// lost.
    ///
    /// # Errors
    /// If the machine can't be reached, or `monitor` reports that the user has cancelled.
    pub fn reach(
        &mut self,
        machine: &Machine,
        is_reconnect: bool,
        monitor: &dyn Monitor,
    ) -> Result<&mut Requests, Error> {
        let open = self.open.iter().position(|open| open.machine == *machine);
        let index = match open {
            Some(index) => index,
            None => {
                let (requests, is_sftp_only) = match machine {
                    Machine::Local => (Requests::local(), false),
                    Machine::Remote(host) if host.by_sftp => {
                        (AnsweringHost::at_sftp(host, &self.diagnostics)?.requests, false)
                    }
                    Machine::Remote(host) => self.agent(host, is_reconnect, monitor)?,
                };
                self.open.push(Open { machine: machine.clone(), requests, is_sftp_only });
                self.open.len() - 1
            }
        };
        Ok(&mut self.open[index].requests)
    }

    /// Closes the connection to `machine`, if there is one.
    pub fn leave(&mut self, machine: &Machine) {
        self.open.retain(|open| open.machine != *machine);
    }

    /// Connects to the haul of a host, or to its SFTP server if it has none. Returns true if the
    /// host starts no program.
    fn agent(
        &self,
        host: &Host,
        is_reconnect: bool,
        monitor: &dyn Monitor,
    ) -> Result<(Requests, bool), Error> {
        let call = Call {
            host,
            may_be_kept: true,
            is_reconnect,
            has_content: self.task.is_some_and(|task| !task.keeps_destination()),
            diagnostics: &self.diagnostics,
            on_event: &|event| monitor.event(Event::Link(event)),
            server_is_silent: false,
            cancelled: &|| monitor.cancelled(),
        };
        let AnsweringHost { requests, missing, .. } = AnsweringHost::at(&call)?;
        if missing.is_some() && host.without_haul == WithoutHaul::Continue && !self.is_quiet {
            let (path, message) = (host.to_string(), "no haul there: using SFTP");
            monitor.event(Event::Warning { side: None, path: path.as_bytes(), message });
        }
        Ok((requests, missing.is_some_and(|missing| missing.has_no_shell())))
    }
}
