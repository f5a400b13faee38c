//! The request of a move, and its connection to the hosts. The engine's `run_move` does the moving.

use crate::error::Error;
use crate::hosts::Hosts;
use crate::legs::{Course, run_legs};
use crate::location::{Location, Machine};
use crate::peer::Peers;
use crate::request::Request;
use crate::state;
use haul_engine::{
    Leg, Machines, Monitor, MoveJob, NotCopied, RequestError, Requests, Summary, run_move,
};
use haul_model::{Fault, words};

impl Request {
    /// Refuses sources that can't be moved, before anything is moved.
    ///
    /// # Errors
    /// If both ends are on hosts, or a source has no name.
    pub fn refuse_to_move(&self) -> Result<(), Error> {
        let mut sources = self.sources.iter();
        if self.dest.machine != Machine::Here
            && let Some(source) = sources.find(|source| source.machine != Machine::Here)
        {
            let what = format!("{source}: can't move from one host to another");
            return Err(Error::refused(what, "move it to this machine first"));
        }
        if let Some(source) = self.sources.iter().find(|source| is_nameless(source)) {
            let what = format!("{source}: not moved: it has no name of its own");
            return Err(Error::refused(what, "name its entries"));
        }
        Ok(())
    }

    /// Moves the sources. Returns the figures of what was done, even if the move ended early.
    pub fn run_move(
        &self,
        hosts: &Hosts,
        peers: Peers,
        monitor: &dyn Monitor,
        course: &mut dyn Course,
    ) -> (Summary, Result<(), Error>) {
        let job = MoveJob {
            sources: self.sources.iter().map(Location::spot).collect(),
            dest: self.dest.spot(),
            dest_shown: self.dest.to_string(),
            policy: self.policy,
            state: state::journals(),
            rate: self.passage.rate,
            compression: self.passage.compression,
            via: self.passage.via,
            ports: self.passage.ports,
            cache: self.passage.cache(),
        };
        let mut reached = Reached { hosts, monitor, course, peers: Some(peers) };
        run_move(&job, &mut reached, monitor)
    }
}

/// True if a source has no name of its own. On a host, `~` is the home directory.
fn is_nameless(source: &Location) -> bool {
    let is_home = source.machine != Machine::Here && words::split(&source.path).whole == b"~";
    source.final_name().is_none() || is_home
}

/// The machines of a move, for the engine.
struct Reached<'m> {
    hosts: &'m Hosts,
    monitor: &'m dyn Monitor,
    course: &'m mut dyn Course,
    /// The connections for questions, until the engine hangs up.
    peers: Option<Peers>,
}

impl Machines for Reached<'_> {
    type Host = Machine;
    type Error = Error;

    fn ask<T>(
        &mut self,
        host: Option<&Machine>,
        question: impl FnMut(&mut Requests) -> Result<T, RequestError>,
    ) -> Result<Result<T, Fault>, Error> {
        // The copy reports hosts without haul.
        let new = || Peers::new(self.hosts.diagnostics()).quietly();
        let (peers, machine) = (self.peers.get_or_insert_with(new), host.unwrap_or(&Machine::Here));
        self.hosts.ask(machine, peers, self.monitor, &|| 0, question)
    }

    fn hang_up(&mut self) {
        self.peers = None;
    }

    fn copy(&mut self, legs: Vec<Leg<Machine>>, not_copied: &NotCopied) -> Result<Summary, Error> {
        let watch = not_copied.watch(self.monitor);
        match run_legs(legs, self.hosts, &watch, self.course) {
            (summary, false) => Ok(summary),
            (_, true) => Err(Error::SourcesStay),
        }
    }

    fn remove(&mut self, leg: &Leg<Machine>, monitor: &dyn Monitor) -> Result<(), Error> {
        self.course.removes(leg);
        self.hosts.run(leg, monitor).map(|_| ())
    }
}
