//! A session: the connections that the requests of one caller share.

use crate::error::{Error, ErrorKind};
use crate::hosts::{Hosts, Questions};
use crate::location::{Location, Machine};
use crate::peer::Peers;
use crate::request::{Ready, Request, TransferOptions};
use crate::retry::WarnOnce;
use crate::routed_jobs::{JobObserver, Next, in_parts, run_routed_jobs};
use haul_engine::{Event, FaultLocation, Monitor, RoutedJob, Summary};
use haul_model::{Compression, Fault, Task};
use haul_net::{Diagnostics, IdleConnections, Keep};
use std::cell::{Cell, RefCell};
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
    idle_connections: IdleConnections,
    /// The program to install on hosts without haul.
    deploys: Option<PathBuf>,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.idle_connections.close();
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
        Self { diagnostics, idle_connections: IdleConnections::default(), deploys: None }
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
        let Ready { failed, routed_jobs, peers, .. } =
            self.prepare(request, task, &hosts, refuse, events)?;
        hosts.reuse_connections(peers, &routed_jobs);
        let watch = WarnOnce::new(events);
        let jobs = Jobs::new(&watch);
        let (mut summary, _) = run_routed_jobs(in_parts(routed_jobs, parts), &hosts, &watch, &jobs);
        summary.failed += failed;
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
        let Ready { request, failed, routed_jobs, peers } =
            self.prepare(request, task, &hosts, &Request::refuse_to_move, events)?;
        if routed_jobs.is_empty() {
            return Ok(Summary { failed, ..Summary::default() });
        }
        let watch = WarnOnce::new(events);
        let jobs = Jobs::new(&watch);
        let (mut summary, moved) = request.run_move(&hosts, peers, &watch, &jobs);
        summary.failed += failed;
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
        request.prepare(task, questions, refuse, complete, &mut report_not_copied(events))
    }

    /// `request` with hosts that use the connections of this session.
    fn reached(&self, request: &Request) -> Result<Request, Error> {
        let mut request = request.clone();
        let TransferOptions { rate, compression, .. } = request.transfer_options;
        for Location { machine, .. } in request.sources.iter_mut().chain([&mut request.dest]) {
            let Machine::Remote(host) = machine else { continue };
            host.sets_rate |= rate.is_some();
            host.sets_compression |= compression != Compression::default();
            host.deploy = host.deploy.take().or_else(|| self.deploys.clone());
            let keep = Arc::new(Keep::Here(self.idle_connections.clone()));
            let kept = host.clone().with_ssh(|ssh| Ok(ssh.with_keep(keep)));
            *host = kept?;
        }
        Ok(request)
    }
}

/// Reports a source that can't be copied.
fn report_not_copied(events: &dyn Monitor) -> impl FnMut(Option<String>, &[u8], &Fault) {
    move |host, path, fault| {
        let at = FaultLocation::Named { host: host.as_deref(), path };
        events.event(Event::Stays { path, at, fault, is_copied: false });
    }
}

/// The jobs of a request.
struct Jobs<'w, 'e> {
    watch: &'w WarnOnce<'e>,
    before: Cell<Summary>,
    first_error: RefCell<Option<Error>>,
}

impl<'w, 'e> Jobs<'w, 'e> {
    fn new(watch: &'w WarnOnce<'e>) -> Self {
        Self { watch, before: Cell::default(), first_error: RefCell::default() }
    }

    /// Returns the first error, or `summary`.
    fn end(self, summary: Summary) -> Result<Summary, Error> {
        self.first_error.into_inner().map_or(Ok(summary), Err)
    }
}

impl JobObserver for Jobs<'_, '_> {
    fn begins(&self, _: &RoutedJob<Machine>, _: bool) {
        let progress = self.watch.progress();
        progress.begin();
        self.before.set(progress.summary());
    }

    fn ends(&self) -> Summary {
        self.watch.progress().summary().since(self.before.get())
    }

    fn fails(&self, _: &RoutedJob<Machine>, error: Error) -> Next {
        let kind = error.kind();
        let mut first_error = self.first_error.borrow_mut();
        match &*first_error {
            Some(_) if kind != ErrorKind::Interrupted => {
                let message = &*error.to_string();
                self.watch.event(Event::Warning { side: None, path: b".", message });
            }
            _ => *first_error = Some(error),
        }
        match kind {
            // Another host may answer.
            ErrorKind::Connection | ErrorKind::Protocol => Next::Continue,
            _ => Next::Stop,
        }
    }
}
