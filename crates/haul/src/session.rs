//! A session: the connections that the requests of one caller share.

use crate::error::{Error, ErrorKind};
use crate::hosts::{Hosts, Questions};
use crate::legs::{Course, Next, in_parts, run_legs};
use crate::location::{Location, Machine};
use crate::missing::left_out;
use crate::peer::Peers;
use crate::request::{Passage, Ready, Request};
use crate::retry::Once;
use haul_engine::{At, Event, Leg, Monitor, Summary};
use haul_model::{Compression, Fault, Task};
use haul_net::{Diagnostics, Keep, Resting};
use std::cell::Cell;
use std::path::PathBuf;
use std::sync::Arc;

/// The connections that requests share. A request needs no new login if an earlier one used the
/// same host through ssh, and the host has haul. Other connections are opened again.
///
/// Requests of a session run one after the other, or at the same time in several threads, each with
/// a connection and a [`Monitor`] of its own. Dropping the session closes the connections. Each
/// request finds out again which hosts have haul, and which servers answer.
///
/// ```no_run
/// use haul::{Copy, Session, Silent};
///
/// let session = Session::new();
/// for day in ["mon", "tue"] {
///     let from = format!("logs/{day}").parse()?;
///     Copy::new([from], "nas:logs/".parse()?).run_in(&session, &Silent::default())?;
/// }
/// # Ok::<(), haul::Error>(())
/// ```
pub struct Session {
    diagnostics: Diagnostics,
    resting: Resting,
    /// The program to install on hosts without haul.
    deploys: Option<PathBuf>,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.resting.close();
    }
}

impl Default for Session {
    fn default() -> Self {
        Self::new()
    }
}

impl Session {
    /// Creates a session without connections. The lines of ssh's standard error are logged at the
    /// level `warn`.
    pub fn new() -> Self {
        let line = |line: &[u8]| tracing::warn!("ssh: {}", haul_model::escape_bytes(line));
        Self::with_diagnostics(Arc::new(line))
    }

    /// Creates a session whose `diagnostics` receives the lines of ssh's standard error, such as
    /// warnings about host keys.
    pub fn with_diagnostics(diagnostics: Diagnostics) -> Self {
        Self { diagnostics, resting: Resting::default(), deploys: None }
    }

    /// Installs `program`, a haul that is built for such hosts, on hosts without haul. By default
    /// files are sent through the SFTP server of such a host.
    #[must_use]
    pub fn deploying(mut self, program: impl Into<PathBuf>) -> Self {
        self.deploys = Some(program.into());
        self
    }

    /// Runs `parts` of the `task` of `request`.
    pub(crate) fn run(
        &self,
        request: &Request,
        task: Task,
        parts: &[Task],
        refuse: &dyn Fn(&Request) -> Result<(), Error>,
        events: &dyn Monitor,
    ) -> Result<Summary, Error> {
        let hosts = Hosts::new(&self.diagnostics);
        let Ready { request, unmatched, legs, peers } =
            self.prepare(request, task, &hosts, refuse, events)?;
        let (legs, missing) = left_out(&request, task, legs, &mut stays(events));
        hosts.go_on(peers, &legs);
        let watch = Once::new(events);
        let mut jobs = Jobs::new(&watch);
        let (mut summary, _) = run_legs(in_parts(legs, parts), &hosts, &watch, &mut jobs);
        summary.failed += unmatched + missing;
        jobs.end(summary)
    }

    /// Moves the sources of `request`.
    pub(crate) fn run_move(
        &self,
        request: &Request,
        events: &dyn Monitor,
    ) -> Result<Summary, Error> {
        let task = Task::Copy(request.policy);
        let hosts = Hosts::new(&self.diagnostics);
        let Ready { request, unmatched, legs, peers } =
            self.prepare(request, task, &hosts, &Request::refuse_to_move, events)?;
        let is_one = legs.len() == 1;
        let (legs, missing) = match is_one {
            true => left_out(&request, task, legs, &mut stays(events)),
            false => (legs, 0),
        };
        if legs.is_empty() {
            return Ok(Summary { failed: unmatched + missing, ..Summary::default() });
        }
        let watch = Once::new(events);
        let mut jobs = Jobs::new(&watch);
        let (mut summary, moved) = request.run_move(&hosts, peers, &watch, &mut jobs);
        summary.failed += unmatched;
        jobs.end(summary).and_then(|summary| moved.map(|()| summary))
    }

    fn prepare(
        &self,
        request: &Request,
        task: Task,
        hosts: &Hosts,
        refuse: &dyn Fn(&Request) -> Result<(), Error>,
        events: &dyn Monitor,
    ) -> Result<Ready, Error> {
        let request = self.reached(request)?;
        let peers = Peers::new(&self.diagnostics).quietly().before(task);
        let questions = Questions::new(hosts, peers, events);
        let complete = |request: &mut Request, questions: &mut Questions<'_>| match task {
            Task::Sync(_, mirror) => request.complete_mirror(&mirror, questions),
            _ => Ok(()),
        };
        request.prepare(task, questions, refuse, complete, &mut stays(events))
    }

    /// `request` with hosts that use the connections of this session.
    fn reached(&self, request: &Request) -> Result<Request, Error> {
        let mut request = request.clone();
        let Passage { rate, compression, .. } = request.passage;
        for Location { machine, .. } in request.sources.iter_mut().chain([&mut request.dest]) {
            let Machine::There(host) = machine else { continue };
            host.asks_for_rate |= rate.is_some();
            host.asks_to_compress |= compression != Compression::default();
            host.deploy = host.deploy.take().or_else(|| self.deploys.clone());
            let keep = Arc::new(Keep::Here(self.resting.clone()));
            let kept = host.clone().with_ssh(|ssh| Ok(ssh.with_keep(keep)));
            *host = kept?;
        }
        Ok(request)
    }
}

/// Reports a source that can't be copied.
fn stays(events: &dyn Monitor) -> impl FnMut(Option<String>, &[u8], &Fault) {
    move |host, path, fault| {
        let at = At::Named { host: host.as_deref(), path };
        events.event(Event::Stays { path, at, fault, is_copied: false });
    }
}

/// The jobs of a request.
struct Jobs<'w, 'e> {
    watch: &'w Once<'e>,
    before: Cell<Summary>,
    first_error: Option<Error>,
}

impl<'w, 'e> Jobs<'w, 'e> {
    fn new(watch: &'w Once<'e>) -> Self {
        Self { watch, before: Cell::default(), first_error: None }
    }

    /// Returns the first error, or `summary`.
    fn end(&mut self, summary: Summary) -> Result<Summary, Error> {
        self.first_error.take().map_or(Ok(summary), Err)
    }
}

impl Course for Jobs<'_, '_> {
    fn begins(&self, _: &Leg<Machine>, _: bool) {
        let progress = self.watch.progress();
        progress.begin();
        self.before.set(progress.summary());
    }

    fn ends(&self) -> Summary {
        self.watch.progress().summary().since(self.before.get())
    }

    fn fails(&mut self, _: &Leg<Machine>, error: Error) -> Next {
        let kind = error.kind();
        match &self.first_error {
            Some(_) if kind != ErrorKind::Interrupted => {
                let message = &*error.to_string();
                self.watch.event(Event::Warning { side: None, path: b".", message });
            }
            _ => self.first_error = Some(error),
        }
        match kind {
            // Another host may answer.
            ErrorKind::Connection | ErrorKind::Protocol => Next::GoesOn,
            _ => Next::Ends,
        }
    }
}
