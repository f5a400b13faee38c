//! The main process of a server. Its only thread accepts connections, starts children, and reads
//! their reports. It opens no file of a client.

use super::audit::{Audit, ClientInfo, Event};
use super::child::{self, ChildConnection, ChildContext, Reports};
use super::control::{Control, Request, Status, answer};
use super::jobs::{Job, Jobs};
use super::keys::Keys;
use super::listening::{self, Sockets};
use super::live_records::LiveRecords;
use super::records::{Client, InvitationRecord, Records};
use super::settings::Settings;
use super::slots::Slot;
use super::{ServerPaths, system};
use crate::error::{CommandError, ExitCode};
use haul_engine::fork;
use haul_net::{Caller, Forwarder, Gate, PublicKey, Refusal};
use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::{pipe, unregister};
use std::collections::VecDeque;
use std::io::{self, PipeReader, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Maximum time for jobs to reach a checkpoint when the server stops.
const STOPPING_MAX: Duration = Duration::from_secs(10);

/// Minimum time between two starts of the QUIC process.
const QUIC_RESTART_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum number of simultaneous refusals with a reason per client, in addition to
/// `jobs-per-client`. Further connections are closed without one. One job opens fewer connections.
const REFUSALS_MAX: usize = 32;

/// Maximum number of children, of all clients together.
const JOBS_MAX: usize = 1024;

/// Runs the server until it is stopped. `listen`: the addresses on the command line.
///
/// # Errors
/// If it can't start.
pub(crate) fn run(listen: &[String]) -> Result<ExitCode, CommandError> {
    let paths = ServerPaths::find()?;
    paths.make()?;
    // This takes the lock that protects the other files, so it must be first.
    let control = Control::bind(&paths)?;
    let mut server = Server::new(paths, control, listen)?;
    // QUIC starts before the announcement, so that the first clients reach it.
    server.start_quic();
    server.announce();
    system::notify("READY=1");
    let ended = server.serve();
    server.gate.quic.end();
    server.control.iter().for_each(Control::remove);
    ended.map_err(CommandError::io)?;
    Ok(ExitCode::Success)
}

/// The signals that the main process handles.
struct Signals {
    stop: PipeReader,
    reload: PipeReader,
    registered: Vec<SigId>,
}

impl Signals {
    fn register() -> io::Result<Self> {
        let ((stop, stops), (reload, reloads)) = (io::pipe()?, io::pipe()?);
        let mut registered = vec![pipe::register(SIGHUP, reloads)?];
        for signal in [SIGTERM, SIGINT] {
            registered.push(pipe::register(signal, stops.try_clone()?)?);
        }
        Ok(Self { stop, reload, registered })
    }

    /// Stops handling signals, in a child.
    fn close_in_child(&mut self) {
        self.registered.drain(..).for_each(|id| {
            unregister(id);
        });
    }
}

struct Server {
    paths: ServerPaths,
    /// The addresses on the command line.
    listen: Vec<String>,
    settings: Settings,
    records: LiveRecords,
    keys: Keys,
    gate: Gate,
    /// `None` in a child.
    control: Option<Control>,
    signals: Signals,
    audit: Audit,
    jobs: Jobs,
    /// Connections without a child yet.
    callers: VecDeque<Caller>,
    /// When the QUIC process was last started.
    quic_since: Option<Instant>,
    /// The deadline for jobs, once the server is stopping.
    stops_at: Option<Instant>,
}

impl Server {
    fn new(paths: ServerPaths, control: Control, listen: &[String]) -> Result<Self, CommandError> {
        let settings = Settings::load(&paths, listen)?;
        let records = LiveRecords::load(&paths)?;
        let keys = Keys::load(&paths)?;
        let Sockets { tcp, udp } = listening::sockets(&settings)?;
        let gate =
            Gate::new(tcp, &keys.identities(), settings.gate_limits()).map_err(CommandError::io)?;
        let mut gate = gate.with_quic(udp, settings.congestion);
        gate.set_known_keys(records.current.keys());
        let audit = Audit::open(&settings.audit_log)?;
        let signals = Signals::register().map_err(CommandError::io)?;
        let jobs = Jobs::default();
        let (listen, control) = (listen.to_vec(), Some(control));
        Ok(Self {
            paths,
            listen,
            settings,
            records,
            keys,
            gate,
            control,
            signals,
            audit,
            jobs,
            callers: VecDeque::new(),
            quic_since: None,
            stops_at: None,
        })
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        self.gate.addresses().unwrap_or_default()
    }

    fn quic_addresses(&self) -> Vec<SocketAddr> {
        self.gate.quic_addresses().unwrap_or_default()
    }

    /// Prints the addresses on standard error.
    fn announce(&self) {
        let addresses = self.addresses();
        let listens = listening::shown(&addresses, &self.quic_addresses());
        let (clients, key) = (self.records.current.clients.len(), self.keys.newest().fingerprint());
        print_message(&format!("listening on {listens}; {clients} clients; key {key}"));
    }

    /// Starts the QUIC process, unless it runs, is not needed, or must wait.
    fn start_quic(&mut self) {
        let now = Instant::now();
        if self.gate.quic.is_served() || self.quic_restart_delay().is_some() {
            return;
        }
        if self.quic_since.is_some() {
            print_message("the process for QUIC has ended; another one starts");
        }
        self.quic_since = Some(now);
        let parent = std::process::id();
        let started = self.gate.prepare_quic().and_then(|process| {
            let Some(process) = process else { return Ok(()) };
            let mut process = Some(process);
            let child = fork(|| {
                self.close_in_child();
                process.take().map_or(1, |process| process.run(parent))
            })?;
            self.gate.quic.set_process(child);
            Ok(())
        });
        if let Err(error) = started {
            print_message(&format!("can't start the process for QUIC: {error}"));
        }
    }

    /// The time until the QUIC process may start again; `None` if it may start now, or runs.
    fn quic_restart_delay(&self) -> Option<Duration> {
        let since = self.quic_since.filter(|_| !self.gate.quic.is_served())?;
        let left = QUIC_RESTART_INTERVAL.saturating_sub(since.elapsed());
        (!left.is_zero()).then_some(left)
    }

    /// The main loop, until the server has stopped.
    fn serve(&mut self) -> io::Result<()> {
        loop {
            if let Some(stops_at) = self.stops_at
                && (self.jobs.0.is_empty() || stops_at <= Instant::now())
            {
                self.jobs.kill(&mut self.audit);
                return Ok(());
            }
            let stops = self.stops_at.map(|at| at.saturating_duration_since(Instant::now()));
            self.start_quic();
            let jobs = self.jobs.0.iter().filter_map(Job::timeout).min();
            let timeout = [stops, jobs, self.quic_restart_delay(), self.records.timeout()];
            let timeout = timeout.into_iter().flatten().min();
            let mut others: Vec<BorrowedFd<'_>> =
                vec![self.signals.stop.as_fd(), self.signals.reload.as_fd()];
            others.extend(self.jobs.0.iter().map(Job::fd));
            others.extend(self.control.iter().map(Control::fd));
            let turn = self.gate.turn(&others, timeout)?;
            drop(others);
            let (signals, ready) = turn.ready.split_at(2);
            let (jobs, asked) = ready.split_at(self.jobs.0.len());
            self.jobs.poll(jobs, &mut self.audit);
            let noted = self.records.write_key_notes();
            let set_known = |records: &Records| self.gate.set_known_keys(records.keys());
            let removed = self.records.remove_expired(set_known);
            for error in [noted.err(), removed.err()].into_iter().flatten() {
                print_message(&error.to_string());
            }
            if self.records.has_changed() {
                let unread = self.read_records().err().map(|error| error.to_string());
                self.records.set_unread(unread).into_iter().for_each(print_message);
            }
            self.callers.extend(turn.callers);
            while let Some(caller) = self.callers.pop_front() {
                self.take(caller);
            }
            if asked.first() == Some(&true)
                && let Some((request, stream)) = self.control.as_ref().and_then(Control::next)
            {
                let error = self.execute(request).err().map(|error| error.to_string());
                answer(stream, &Status { error, ..self.status() });
            }
            if signals[0] {
                let _ = self.signals.stop.read(&mut [0; 16]);
                self.stop();
            }
            if signals[1] {
                let _ = self.signals.reload.read(&mut [0; 16]);
                self.reload().unwrap_or_else(|error| print_message(&error.to_string()));
            }
        }
    }

    fn execute(&mut self, request: Request) -> Result<(), CommandError> {
        match request {
            Request::Status => Ok(()),
            Request::Reload => self.reload(),
            Request::Stop => {
                self.stop();
                Ok(())
            }
        }
    }

    fn status(&self) -> Status {
        Status {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            listen: self.addresses(),
            quic: self.quic_addresses(),
            quic_process: self.gate.quic.process(),
            key: self.keys.newest(),
            clients: self.records.current.clients.len(),
            jobs: self.jobs.0.iter().map(Job::status).collect(),
            error: None,
        }
    }

    /// Reloads the records, and ends the jobs of clients whose record has changed.
    fn read_records(&mut self) -> Result<(), CommandError> {
        self.records.reload()?;
        self.gate.set_known_keys(self.records.current.keys());
        self.jobs.0.iter_mut().for_each(|job| job.end_if_outdated(&self.records.current.clients));
        self.remove_old_keys()
    }

    /// Reloads everything. Jobs continue. Invalid settings or records do not replace the earlier
    /// ones.
    fn reload(&mut self) -> Result<(), CommandError> {
        system::notify("RELOADING=1");
        let settings = self.reload_settings();
        let records = self.read_records();
        system::notify("READY=1");
        settings.and(records)
    }

    /// Reloads the settings and the keys. If new addresses can't be opened, the earlier ones stay,
    /// and the other settings apply.
    fn reload_settings(&mut self) -> Result<(), CommandError> {
        let mut settings = Settings::load(&self.paths, &self.listen)?;
        let keys = Keys::load(&self.paths)?;
        let audit = Audit::open(&settings.audit_log)?;
        let changes_sockets = settings.addresses()? != self.settings.addresses()?
            || settings.quic != self.settings.quic
            || settings.congestion != self.settings.congestion;
        let rebound = if changes_sockets { self.listen(&settings) } else { Ok(()) };
        if rebound.is_err() {
            settings = settings.with_addresses_of(&self.settings);
        }
        self.gate.set_limits(settings.gate_limits());
        self.gate.set_own_keys(&keys.identities()).map_err(CommandError::io)?;
        (self.settings, self.keys, self.audit) = (settings, keys, audit);
        if changes_sockets {
            self.announce();
        }
        rebound.map_err(|error| {
            let again = "the other settings are in effect; if a job holds the address, run 'haul server reload' again when it has ended";
            CommandError::io(format!("{error}: {again}"))
        })
    }

    /// Listens at the addresses of `settings` from now on.
    fn listen(&mut self, settings: &Settings) -> Result<(), CommandError> {
        let Sockets { tcp, udp } = listening::rebind(settings, &self.gate)?;
        self.gate.listen(tcp, udp, settings.congestion).map_err(CommandError::io)
    }

    /// Stops accepting connections, and asks all jobs to end.
    fn stop(&mut self) {
        if self.stops_at.is_some() {
            return;
        }
        system::notify("STOPPING=1");
        self.gate.close();
        self.stops_at = Some(Instant::now() + STOPPING_MAX);
        for job in self.jobs.0.iter_mut() {
            job.end_within(STOPPING_MAX, "stopped");
        }
    }

    /// Starts a child for a connection with a known key.
    fn take(&mut self, caller: Caller) {
        let key = caller.key();
        let client = self.records.current.clients.iter().find(|client| client.key == key).cloned();
        let invited = self.records.current.invitations.iter().find(|it| it.key == key).cloned();
        match (client, invited) {
            (Some(client), _) => {
                let newest = self.keys.newest();
                if self.keys.has_old_keys() && caller.expects_key(&newest) {
                    self.records.queue_key_note(&client, newest);
                }
                self.serve_client(caller, client);
            }
            (None, Some(invited)) => self.serve_guest(caller, invited),
            // The key was revoked a moment ago.
            (None, None) => refuse_without_child(caller, Refusal::NotEnrolled),
        }
    }

    fn serve_client(&mut self, caller: Caller, client: Client) {
        let client_info = ClientInfo::new(&client, caller.from());
        let (key, jobs_max) = (client.key, self.settings.jobs_per_client);
        let slot = match self.jobs.count(&key, true) < jobs_max {
            true => Slot::take(&self.paths, &key, jobs_max),
            false => Ok(None),
        };
        let has_too_many_refusals = self.jobs.count(&key, false) >= jobs_max + REFUSALS_MAX;
        let (refusal, reason) = match (child::refusal(&client), slot) {
            (Some(reason), _) => (Refusal::Unserved, reason.to_owned()),
            (_, Err(error)) => (Refusal::Unserved, error.to_string()),
            (_, Ok(Some(slot))) if self.jobs.0.len() < JOBS_MAX => {
                let served = client.clone();
                self.start(caller, client_info, Some((client, slot)), key, |context, call| {
                    child::serve(context, call, &served)
                });
                return;
            }
            _ => (Refusal::Busy, child::TOO_MANY.to_owned()),
        };
        match has_too_many_refusals || self.jobs.0.len() >= JOBS_MAX {
            true => self.audit.log(&client_info, Event::Refused { reason: &reason }),
            false => self.start(caller, client_info, None, key, |context, call| {
                child::refuse(context, call.caller, refusal, &reason)
            }),
        }
    }

    fn serve_guest(&mut self, caller: Caller, invited: InvitationRecord) {
        let guest = Client {
            name: "(invited)".to_owned(),
            key: invited.key,
            root: invited.root.clone(),
            right: invited.right,
            user: invited.user.clone(),
            added: None,
            server_key: None,
        };
        let client_info = ClientInfo::new(&guest, caller.from());
        // An invitation is used in one connection at a time.
        if self.jobs.count(&invited.key, false) > 0 || self.jobs.0.len() >= JOBS_MAX {
            return;
        }
        let key = invited.key;
        self.start(caller, client_info, None, key, |context, call| {
            child::receive(context, call.caller, &invited)
        });
    }

    fn start(
        &mut self,
        caller: Caller,
        client_info: ClientInfo,
        served: Option<(Client, Slot)>,
        key: PublicKey,
        work: impl FnOnce(&ChildContext<'_>, ChildConnection) -> u8,
    ) {
        let (client, mut slot) = served.unzip();
        let newest = self.keys.newest();
        let new_key = (!caller.expects_key(&newest)).then_some(newest);
        let reached = caller.reached();
        let mut caller = Some(caller);
        let begun = io::pipe().and_then(|(reports, to)| {
            let (paths, bounds, parent) =
                (self.paths.clone(), self.settings.bounds(), std::process::id());
            let (forwarder, forwarded) = Forwarder::new(reached?)?;
            let mut forwarder = Some(forwarder);
            let child = fork(|| {
                self.close_in_child();
                // The child must not hold these.
                (forwarder, slot) = (None, None);
                let context =
                    ChildContext { paths: &paths, bounds, parent, reports: Reports(to.into()) };
                let Some(caller) = caller.take() else { return 1 };
                work(&context, ChildConnection { caller, new_key, forwarded })
            })?;
            let forwarder = forwarder.ok_or(io::ErrorKind::InvalidInput)?;
            Ok((child, reports, forwarder))
        });
        match begun {
            Ok((child, reports, forwarder)) => {
                let forwarder = Arc::new(forwarder);
                self.gate.forward_to(&forwarder);
                let way = (reports, Some(forwarder));
                let job = Job::new(child, client_info, client.zip(slot), key, way, &mut self.audit);
                self.jobs.0.push(job);
            }
            Err(error) => {
                self.audit.log(&client_info, Event::Refused { reason: &error.to_string() });
                caller.into_iter().for_each(|it| refuse_without_child(it, Refusal::Unserved));
            }
        }
    }

    /// In a child: closes everything of the main process and of other clients.
    fn close_in_child(&mut self) {
        self.gate.close_in_child();
        self.signals.close_in_child();
        self.jobs.0.clear();
        self.audit.close_in_child();
        self.callers.clear();
        self.control = None;
    }

    /// Removes older keys once all clients know the newest.
    fn remove_old_keys(&mut self) -> Result<(), CommandError> {
        if !self.keys.has_old_keys() || !self.records.all_know(&self.keys.newest()) {
            return Ok(());
        }
        let forgotten = self.keys.remove_old(&self.paths);
        self.gate.set_own_keys(&self.keys.identities()).and(forgotten).map_err(CommandError::io)
    }
}

/// Refuses a connection without starting a child.
fn refuse_without_child(caller: Caller, refusal: Refusal) {
    // The client may have disconnected.
    let _ = caller.refuse(refusal, Duration::ZERO);
}

/// Prints a message on standard error.
fn print_message(message: &str) {
    // If that fails, there is no other place to report it.
    let _ = writeln!(io::stderr(), "haul server: {message}");
}
