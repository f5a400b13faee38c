//! Questions to hosts, before a job or in place of one. None of them changes anything, so one
//! whose connection is lost is asked again, as a job is run again.

use super::Hosts;
use crate::error::Error;
use crate::location::Machine;
use crate::peer::Peers;
use haul_engine::{Monitor, RequestError, Requests};
use haul_model::Fault;

/// The hosts that are asked, and the monitor that is told of lost connections.
pub struct Questions<'q> {
    hosts: &'q Hosts,
    peers: Peers,
    monitor: &'q dyn Monitor,
}

impl<'q> Questions<'q> {
    /// Questions to `peers`; `hosts` remembers which of them have greeted.
    pub fn new(hosts: &'q Hosts, peers: Peers, monitor: &'q dyn Monitor) -> Self {
        Self { hosts, peers, monitor }
    }

    /// Asks `machine`; see [`Hosts::ask`].
    ///
    /// # Errors
    /// When there is no way to it, or none any more.
    pub fn ask<T>(
        &mut self,
        machine: &Machine,
        question: impl FnMut(&mut Requests) -> Result<T, RequestError>,
    ) -> Result<Result<T, Fault>, Error> {
        self.ask_in_parts(machine, &|| 0, question)
    }

    /// The same for a question whose answer comes in several parts; `parts` tells how many have
    /// come so far. After a connection that brought some, attempts to ask again are counted
    /// from the beginning.
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

    /// The hosts that are asked.
    pub fn hosts(&self) -> &'q Hosts {
        self.hosts
    }

    /// The monitor that is told.
    pub fn monitor(&self) -> &'q dyn Monitor {
        self.monitor
    }

    /// The hosts that were asked, with the connections that stand.
    pub fn into_peers(self) -> Peers {
        self.peers
    }
}
