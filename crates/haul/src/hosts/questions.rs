//! Questions to hosts, before a job or in place of one. A question changes nothing, so it is
//! repeated after a lost connection.

use super::Hosts;
use crate::error::Error;
use crate::host::Host;
use crate::location::Machine;
use crate::peer::Peers;
use crate::retry::Attempts;
use haul_engine::{Monitor, RequestError, Requests};
use haul_model::Fault;

/// The hosts to ask, and the monitor that is notified of lost connections.
pub struct Questions<'q> {
    hosts: &'q Hosts,
    peers: Peers,
    monitor: &'q dyn Monitor,
}

impl<'q> Questions<'q> {
    /// Creates questions to `peers`. `hosts` records which of them have greeted.
    pub fn new(hosts: &'q Hosts, peers: Peers, monitor: &'q dyn Monitor) -> Self {
        Self { hosts, peers, monitor }
    }

    /// Asks `machine`, over an open connection or a new one. If the connection is lost or can't be
    /// made at the moment, the `question` is repeated, provided that the host's haul has greeted
    /// before.
    ///
    /// # Errors
    /// If the machine can't be reached, or no longer.
    pub fn ask<T>(
        &mut self,
        machine: &Machine,
        question: impl FnMut(&mut Requests) -> Result<T, RequestError>,
    ) -> Result<Result<T, Fault>, Error> {
        self.ask_in_parts(machine, &|| 0, question)
    }

    /// Like [`Self::ask`], for a question whose answer has several parts. `parts` returns how many
    /// have arrived. After a connection that returned new parts, attempts are counted from 0 again.
    ///
    /// # Errors
    /// See [`Self::ask`].
    pub fn ask_in_parts<T>(
        &mut self,
        machine: &Machine,
        parts: &dyn Fn() -> u64,
        mut question: impl FnMut(&mut Requests) -> Result<T, RequestError>,
    ) -> Result<Result<T, Fault>, Error> {
        let Self { hosts, peers, monitor } = self;
        let (mut attempts, mut is_reconnect) = (Attempts::new(*monitor), false);
        let mut parts_before = parts();
        loop {
            let reached = peers.reach(machine, is_reconnect, *monitor);
            let answer = reached.map(|requests| {
                attempts.connected();
                question(requests)
            });
            hosts.record_greeted(peers);
            let error = match answer {
                Ok(Ok(answer)) => return Ok(Ok(answer)),
                Ok(Err(RequestError::Fault(fault))) => return Ok(Err(fault)),
                Ok(Err(RequestError::Job(error))) => error.into(),
                Err(error) => error,
            };
            peers.leave(machine);
            let parts_now = parts();
            if parts_now > parts_before {
                attempts.made_progress();
            }
            parts_before = parts_now;
            let known = machine.host().filter(|host| hosts.greeted().contains(host));
            let retries = known.map_or(0, |host| host.retries);
            let host = known.map(Host::to_string).unwrap_or_default();
            attempts.wait(&host, retries, error)?;
            is_reconnect = true;
        }
    }

    /// Closes the connections. Later questions open new ones, and do not report hosts without haul.
    pub(crate) fn hang_up(&mut self) {
        self.peers = Peers::new(self.hosts.diagnostics()).quietly();
    }

    /// The hosts of the command.
    pub fn hosts(&self) -> &'q Hosts {
        self.hosts
    }

    /// The monitor that is notified.
    pub fn monitor(&self) -> &'q dyn Monitor {
        self.monitor
    }

    /// The machines that were asked, with their open connections.
    pub fn into_peers(self) -> Peers {
        self.peers
    }
}
