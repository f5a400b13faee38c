//! The hosts that the jobs of a command use: through the haul there, or through the SFTP server of
//! a host without haul.

use crate::deploy::{Deployed, Program, deploy};
use crate::endpoint::{Call, greeted};
use crate::error::Error;
use crate::host::{Host, WithoutHaul};
use crate::location::Machine;
use crate::peer::{HostConnection, Peers, connect_sftp};
use crate::retry::{Attempts, Retry, is_interrupted};
use crate::state;
use haul_engine::{
    Between, DirectPlan, Event, Greeted, Job, JobError, LinkEvent, Monitor, OpenConnection,
    Placement, RequestError, Requests, Route, RoutedJob, Session, SftpRoute, SftpSession,
    SharedBlocks, Sharer, Summary, WireOptions,
};
use haul_model::{Fault, Logins};
use haul_net::{ConnectError, Diagnostics};
use parking_lot::{Mutex, MutexGuard};
use std::cell::Cell;
use std::num::NonZeroU8;
use std::sync::Arc;

/// The hosts of a command or a request, and what is known about them.
pub struct Hosts {
    diagnostics: Diagnostics,
    /// Hosts without haul.
    missing_haul: Mutex<Vec<Host>>,
    /// Connections that questions have opened, for the first jobs.
    open_connections: Mutex<Vec<(Machine, HostConnection)>>,
    /// Hosts whose haul has greeted.
    greeted: Mutex<Vec<Host>>,
    /// Hosts whose server does not greet.
    silent: Mutex<Vec<Host>>,
    /// Set if other jobs read the same sources at the same time.
    sharer: Mutex<Option<Arc<Sharer>>>,
}

impl Hosts {
    /// Creates the set; no host is known. `diagnostics` receives the output of ssh.
    pub fn new(diagnostics: &Diagnostics) -> Self {
        Self {
            diagnostics: Arc::clone(diagnostics),
            missing_haul: Mutex::default(),
            open_connections: Mutex::default(),
            greeted: Mutex::default(),
            silent: Mutex::default(),
            sharer: Mutex::default(),
        }
    }

    /// Shares what the job reads here with other jobs, until [`Self::leave`].
    pub fn sharing(self, blocks: &Arc<SharedBlocks>) -> Self {
        Self { sharer: Mutex::new(Some(Arc::new(blocks.join()))), ..self }
    }

    /// Ends the sharing: the job reads nothing more.
    pub fn leave(&self) {
        self.sharer.lock().take();
    }

    /// Uses the connections of `peers`: the first of `routed_jobs` runs over the connection to its
    /// machine.
    pub fn reuse_connections(&self, mut peers: Peers, routed_jobs: &[RoutedJob<Machine>]) {
        self.record_greeted(&peers);
        let way = routed_jobs.first().and_then(|routed_job| match &routed_job.route {
            Route::Download(machine) => Some(machine.clone()).zip(peers.take_connection(machine)),
            Route::Local | Route::Upload(_) | Route::Between(..) => None,
        });
        self.open_connections.lock().extend(way);
    }

    /// Records the hosts whose hauls have greeted `peers`.
    pub fn record_greeted(&self, peers: &Peers) {
        peers.greeted().for_each(|host| self.has_greeted(host));
    }

    /// Records that the haul of a host has greeted.
    fn has_greeted(&self, host: &Host) {
        let mut greeted = self.greeted();
        if !greeted.contains(host) {
            greeted.push(host.clone());
        }
    }

    fn greeted(&self) -> MutexGuard<'_, Vec<Host>> {
        self.greeted.lock()
    }

    /// Takes the open connection to `host`, if there is one.
    fn take_connection(&self, host: &Host) -> Option<HostConnection> {
        let mut open_connections = self.open_connections.lock();
        let at = open_connections.iter().position(|(asked, _)| asked.host() == Some(host))?;
        Some(open_connections.swap_remove(at).1)
    }

    /// The receiver of ssh's output.
    pub fn diagnostics(&self) -> &Diagnostics {
        &self.diagnostics
    }

    /// Runs the job of `routed_job`.
    ///
    /// # Errors
    /// If the host can't be reached, or the job as a whole fails.
    pub fn run(
        &self,
        routed_job: &RoutedJob<Machine>,
        monitor: &dyn Monitor,
    ) -> Result<Summary, Error> {
        let ran = match &routed_job.route {
            Route::Upload(Machine::Remote(host)) | Route::Download(Machine::Remote(host)) => {
                HostJob { hosts: self, routed_job, host, monitor }.run()
            }
            Route::Local | Route::Upload(_) | Route::Download(_) => {
                let ran = haul_engine::run(&routed_job.job, Placement::Local, monitor);
                ran.map_err(Error::from)
            }
            Route::Between(from, to) => self.run_between(&routed_job.job, from, to, monitor),
        };
        let to = match &routed_job.route {
            Route::Upload(to) | Route::Between(_, to) => to.host(),
            Route::Local | Route::Download(_) => None,
        };
        ran.map_err(|error| match is_interrupted(&error, monitor) {
            true => JobError::Interrupted.into(),
            false => to.into_iter().fold(error, Error::at_host),
        })
    }

    /// Installs haul on a host that has none.
    fn deploy(&self, host: &Host, monitor: &dyn Monitor) -> Result<(), Error> {
        let is_cancelled = || monitor.cancelled();
        let put = host.deploy.as_deref().map(Program::own).transpose().and_then(|program| {
            let put =
                |program: Program| deploy(host.ssh(), &self.diagnostics, &program, &is_cancelled);
            program.map(put).transpose()
        });
        if let Some(Deployed { bytes, change }) = put? {
            let host = &*host.to_string();
            monitor.event(Event::Link(LinkEvent::Deployed { host, bytes, change }));
        }
        Ok(())
    }

    /// The call to a host for a job.
    fn call<'c>(
        &'c self,
        host: &'c Host,
        job: &Job,
        is_first: bool,
        on_event: &'c dyn Fn(LinkEvent<'_>),
        cancelled: &'c dyn Fn() -> bool,
    ) -> Call<'c> {
        Call {
            host,
            may_be_kept: true,
            is_reconnect: !is_first,
            has_content: !job.task.keeps_destination(),
            diagnostics: &self.diagnostics,
            on_event,
            server_is_silent: self.silent.lock().contains(host),
            cancelled,
        }
    }
}

/// A job with one of its roles on a host.
struct HostJob<'j> {
    hosts: &'j Hosts,
    routed_job: &'j RoutedJob<Machine>,
    host: &'j Host,
    monitor: &'j dyn Monitor,
}

impl HostJob<'_> {
    fn run(&self) -> Result<Summary, Error> {
        let host = self.host;
        let is_haul_missing = self.hosts.missing_haul.lock().contains(host);
        let mut may_have_haul = !host.by_sftp && !is_haul_missing;
        let mut open_session = None;
        match self.hosts.take_connection(host) {
            Some(HostConnection { connection: OpenConnection::Agent(greeted), .. }) => {
                return self.run_agent(Some(greeted));
            }
            Some(HostConnection { connection: OpenConnection::Sftp(session), is_sftp_only }) => {
                // The question has found that the host has no haul.
                if may_have_haul && (is_sftp_only || host.deploy.is_none()) {
                    self.report_missing_haul(is_sftp_only);
                    may_have_haul = false;
                }
                open_session = Some(session);
            }
            None => {}
        }
        if !may_have_haul {
            let connections = self.connect(u8::from(open_session.is_some()))?;
            return self.run_sessions(connections, open_session).map_err(Error::ThroughSftp);
        }
        let missing = match self.run_agent(None) {
            Err(Error::Job(JobError::Connection(error))) if error.is_haul_missing() => error,
            ran => return ran,
        };
        if host.deploy.is_some() && !missing.has_no_shell() {
            self.hosts.deploy(host, self.monitor)?;
            return self.run_agent(None);
        }
        match host.without_haul {
            WithoutHaul::Fail => Err(missing.into()),
            _ => self.run_without(missing),
        }
    }

    /// Runs the job with the haul of the host, over the connection `open_session` or a new one.
    /// Runs it again if the connection is lost.
    fn run_agent(&self, mut open_session: Option<Greeted>) -> Result<Summary, Error> {
        let Self { hosts, routed_job: RoutedJob { job, route }, host, monitor } = *self;
        let is_upload = !matches!(route, Route::Download(_));
        let wire = WireOptions { logins: logins_of(host.parallel), ..job.wire };
        let retry = Retry {
            job: &Job { wire, ..job.clone() },
            is_upload,
            has_local_sources: is_upload,
            retries: host.retries,
            monitor,
            host: host.to_string(),
            has_greeted: &|| hosts.greeted().contains(host),
        };
        let ran = retry.run(|job, is_first, monitor| {
            let by_server = Cell::new(false);
            let on_event = |event: LinkEvent<'_>| {
                by_server.set(matches!(event, LinkEvent::Server { .. }));
                monitor.event(Event::Link(event));
            };
            let session = match open_session.take() {
                Some(greeted) => greeted.into(),
                None => {
                    hosts.call(host, job, is_first, &on_event, &|| monitor.cancelled()).connect()?
                }
            };
            // A server that presented the right key can be retried.
            if by_server.get() || matches!(session, Session::Greeted(_)) {
                hosts.has_greeted(host);
            }
            let sharer = hosts.sharer.lock().clone();
            let placement = match (is_upload, sharer) {
                (true, Some(sharer)) => Placement::UploadShared(session, sharer),
                (true, None) => Placement::Upload(session),
                (false, _) => Placement::Download(session),
            };
            let ran = haul_engine::run(job, placement, monitor);
            Ok(ran.inspect_err(|error| {
                let is_silent =
                    matches!(error, JobError::Connection(ConnectError::Unanswered { .. }));
                if is_silent && by_server.get() {
                    hosts.silent.lock().push(host.clone());
                }
            })?)
        });
        if monitor.progress().reached() {
            hosts.has_greeted(host);
        }
        ran
    }

    /// Runs the job through the SFTP server of the host; `missing` is why it has no haul.
    fn run_without(&self, missing: ConnectError) -> Result<Summary, Error> {
        let connections = match self.connect(0) {
            Ok(connections) => connections,
            Err(sftp) => return Err(Error::Neither { missing, sftp: Box::new(sftp) }),
        };
        self.report_missing_haul(missing.has_no_shell());
        match self.run_sessions(connections, None) {
            Err(JobError::Connection(neither)) if neither.is_sftp_missing() => {
                Err(Error::Neither { missing, sftp: Box::new(neither.into()) })
            }
            ran => ran.map_err(Error::ThroughSftp),
        }
    }

    /// Records and reports that the host has no haul, or starts no program.
    fn report_missing_haul(&self, is_sftp_only: bool) {
        let host = self.host;
        let message = match is_sftp_only {
            true => "only SFTP is allowed there: using SFTP".to_owned(),
            false => format!("no haul there: using SFTP; 'haul deploy {host}' makes it faster"),
        };
        if host.without_haul != WithoutHaul::ContinueQuietly {
            self.warn(host.to_string().as_bytes(), &message);
        }
        self.hosts.missing_haul.lock().push(host.clone());
    }

    fn warn(&self, path: &[u8], message: &str) {
        self.monitor.event(Event::Warning { side: None, path, message });
    }

    /// Connects to the SFTP server of the host, as often as the user wants, less the `open_count`
    /// connections that are open.
    fn connect(&self, open_count: u8) -> Result<Vec<haul_net::Connection>, JobError> {
        let connect = |_| connect_sftp(self.host, &self.hosts.diagnostics);
        let parallel = self.host.parallel.map_or(1, NonZeroU8::get);
        Ok((open_count..parallel).map(connect).collect::<Result<_, _>>()?)
    }

    fn run_sessions(
        &self,
        connections: Vec<haul_net::Connection>,
        open_session: Option<SftpSession>,
    ) -> Result<Summary, JobError> {
        let RoutedJob { job, route } = self.routed_job;
        let changes_host = matches!(route, Route::Upload(_)) && !job.task.keeps_destination();
        let journals = if changes_host { state::journals() } else { None };
        if changes_host && journals.is_none() {
            self.warn(
                b"XDG_STATE_HOME",
                "neither it nor HOME is an absolute path: uploading without journals: large files can't be resumed, and a killed upload leaves temporary files; set one of them",
            );
        }
        let sftp_route = SftpRoute { connections, open_session, journals, silence_max: None };
        let placement = match route {
            Route::Download(_) => Placement::SftpDownload(sftp_route),
            _ => Placement::SftpUpload(sftp_route),
        };
        let without = self.host.without_defaults_of_haul(job);
        if job.wire.rate != without.wire.rate {
            self.warn(b"bwlimit", "SFTP can't limit the rate: ignoring the setting");
        }
        haul_engine::run(&without, placement, self.monitor)
    }
}

/// The logins besides the first, for the number of connections that the user wants.
fn logins_of(parallel: Option<NonZeroU8>) -> Logins {
    parallel.map_or(Logins::Chosen, |all| Logins::UpTo(all.get() - 1))
}

/// Both hosts of a job. This side connects to one after the other, so that ssh never asks for two
/// passwords at once. The hauls of the hosts do the rest.
struct Both<'h> {
    hosts: &'h Hosts,
    from: &'h Host,
    to: &'h Host,
    /// The host of the current login.
    reaching: Cell<&'h Host>,
}

impl Hosts {
    /// Runs `job` from one host to the other, and again if a connection is lost.
    fn run_between(
        &self,
        job: &Job,
        from: &Machine,
        to: &Machine,
        monitor: &dyn Monitor,
    ) -> Result<Summary, Error> {
        let hosts = from.host().zip(to.host());
        let Some((source, dest)) = hosts.filter(|(from, to)| !from.by_sftp && !to.by_sftp) else {
            let by_sftp = if from.is_by_sftp() { from } else { to };
            return Err(Error::NotBetween { host: by_sftp.to_string(), to: to.to_string() });
        };
        let both = Both { hosts: self, from: source, to: dest, reaching: Cell::new(dest) };
        // haul may have to be installed on each of them first.
        for missing_haul in [None, Some(source), Some(dest)] {
            let missing = match both.run(job, monitor) {
                Err(Error::Job(JobError::Connection(error))) if error.is_haul_missing() => error,
                ran => return ran,
            };
            let host = both.reaching.get();
            if host.deploy.is_none() || missing_haul == Some(dest) {
                return Err(Error::LacksHaul { missing, to: to.to_string() });
            }
            self.deploy(host, monitor)?;
        }
        both.run(job, monitor)
    }
}

impl<'h> Both<'h> {
    fn run(&self, job: &Job, monitor: &dyn Monitor) -> Result<Summary, Error> {
        let (from, to) = (self.from, self.to);
        let logins = logins_of(from.parallel.max(to.parallel));
        let wire = WireOptions { logins, ..job.wire };
        let job = &Job { wire, ..job.clone() };
        let retry = Retry {
            job,
            is_upload: true,
            has_local_sources: false,
            retries: from.retries.min(to.retries),
            monitor,
            host: format!("{from} or {to}"),
            has_greeted: &|| {
                [self.from, self.to].iter().all(|host| self.hosts.greeted().contains(host))
            },
        };
        retry.run(|job, is_first, monitor| {
            let to = self.greet(self.to, job, is_first, monitor)?;
            let mut from = self.greet(self.from, job, is_first, monitor)?;
            let at = job.uses_direct().then(|| [from.host_addresses(), to.host_addresses()]);
            let direct_plan = at.map(|at| DirectPlan::prepare(job, &mut from, at)).transpose()?;
            let (from, to) = (greeted(from, self.from)?, greeted(to, self.to)?);
            let direct_plan = direct_plan.flatten();
            let between = Box::new(Between { from, to, direct_plan });
            Ok(haul_engine::run(job, Placement::Between(between), monitor)?)
        })
    }

    /// Logs in to a host, and waits until its haul greets. The connection is kept alive until the
    /// other host has greeted, too.
    fn greet(
        &self,
        host: &'h Host,
        job: &Job,
        is_first: bool,
        monitor: &dyn Monitor,
    ) -> Result<Requests, Error> {
        self.reaching.set(host);
        let on_event = |event: LinkEvent<'_>| monitor.event(Event::Link(event));
        let cancelled = || monitor.cancelled();
        let call = self.hosts.call(host, job, is_first, &on_event, &cancelled);
        let call = Call { may_be_kept: false, ..call };
        let requests = call.greet()?;
        self.hosts.has_greeted(host);
        Ok(requests)
    }
}

/// Questions to hosts, before a job or in place of one. A question changes nothing, so it is
/// repeated after a lost connection. The monitor is notified of the loss.
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
