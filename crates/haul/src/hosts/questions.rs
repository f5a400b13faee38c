//! Questions to hosts, before a job or in place of one. A question changes nothing, so it is
//! repeated after a lost connection.

use super::Hosts;
use crate::error::Error;
use crate::location::Machine;
use crate::peer::Peers;
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

    /// Asks `machine`; see [`Hosts::ask`].
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

    /// Asks a question whose answer has several parts. `parts` returns how many have arrived. After
    /// a connection that returned new parts, attempts are counted from 0 again.
    ///
    /// # Errors
    /// See [`Self::ask`].
    pub fn ask_in_parts<T>(
        &mut self,
        machine: &Machine,
        parts: &dyn Fn() -> u64,
        question: impl FnMut(&mut Requests) -> Result<T, RequestError>,
    ) -> Result<Result<T, Fault>, Error> {
        self.hosts.ask(machine, &mut self.peers, self.monitor, parts, question)
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
