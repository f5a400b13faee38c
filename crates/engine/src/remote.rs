//! A job with one role here and the other in an agent at the other end of a connection.

use crate::assembly::{
    Assembly, CallSettings, EndingThreads, FurtherLogins, Greeting, IdleStreams, JobConnection,
    Placed, Receiving, Sending, Wire,
};
use crate::cache::{CacheConfig, ChunkCache};
use crate::control::{Control, Reporter};
use crate::job::{Job, JobError};
use crate::link::greeting::hello;
use crate::link::wire::{ByWire, Outbox};
use crate::receiver::{Destination, RequestedSources};
use crate::request::{Greeted, Session};
use crate::watchdog::Watchdog;
use crate::{Event, Monitor, Summary};
use haul_model::{Backup, Logins, Side, Via, os_text};
use haul_net::{Closer, ConnectError, Connection, Identity};
use haul_proto::{
    DirectWish, FrameType, JobRequest, Message, NamedDest, NamedSources, Role, SOURCES_MAX, encode,
};
use haul_tree::Tree;
use std::num::NonZeroU8;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::Duration;

/// How long ssh may take to end by itself after the connection broke.
pub(crate) const EXIT_WAIT_MAX: Duration = Duration::from_secs(1);

/// How long an agent that has reported the end of the job may take to leave.
pub(crate) const AGENT_EXIT_MAX: Duration = Duration::from_secs(1);

/// How long the threads of a connection may take to leave after a successful job.
pub(crate) const CLOSE_MAX: Duration = Duration::from_secs(2);

/// How long ssh may take to end after it was asked to.
pub(crate) const TERMINATE_MAX: Duration = Duration::from_secs(1);

/// The most bytes of a Job frame, without paths and rules.
const JOB_LEN_MAX: usize = 128;

/// The agent at the other end of a connection.
struct Agent {
    name: String,
    closer: Closer,
    watchdog: Arc<Watchdog>,
    outbox: Arc<Outbox>,
    /// The agent holds the destination.
    receives: bool,
}

/// Runs a job whose Receiver is in the agent. The sources are in `tree`.
pub(crate) fn upload(
    job: &Job,
    session: Session,
    tree: &dyn Tree,
    monitor: &dyn Monitor,
) -> Result<Summary, JobError> {
    let dest = job.dest.clone();
    check_len(job, dest_len(&dest))?;
    let (agent, wire) = Agent::prepare(session, job, Role::Receiver { dest, asked: None });
    let idle_streams = wire.idle_streams();
    let reporter = Reporter::new(monitor);
    let sending = Sending { reporter: Some(&reporter), ..Sending::of(tree) };
    let control = Control::with(monitor, &agent.watchdog, &agent.name);
    let assembly = Assembly { job, control: &control, job_connection: &agent };
    let result = assembly.run(Placed::Sender(sending, Box::new(wire)));
    conclude(result, agent.closer, &idle_streams)
}

/// Runs a job whose Sender is in the agent.
pub(crate) fn download(
    job: &Job,
    session: Session,
    monitor: &dyn Monitor,
) -> Result<Summary, JobError> {
    let tree = job.local_tree(Side::Destination);
    let mut destination = Destination::find(tree, job)?;
    destination.expect_peer();
    destination.others.cache = open_cache(job, monitor);
    let dirs = destination.handles().map_err(|e| JobError::unusable(&job.dest.path, &e))?;
    let (agent, wire) = Agent::prepare(session, job, sender(job)?);
    let idle_streams = wire.idle_streams();
    let receiving = Receiving {
        asked: Some(RequestedSources::of(&job.sources, job)),
        confined_to: Some(dirs),
        ..Receiving::of(tree, destination)
    };
    let control = Control::with(monitor, &agent.watchdog, &agent.name);
    let assembly = Assembly { job, control: &control, job_connection: &agent };
    let result = assembly.run(Placed::Receiver(receiving, Box::new(wire)));
    conclude(result, agent.closer, &idle_streams)
}

/// Opens the chunk cache of this machine, if the job may use it. Without it all content is sent.
fn open_cache(job: &Job, monitor: &dyn Monitor) -> Option<ChunkCache> {
    let is_used = |place: &&CacheConfig| job.has_contents() && !place.dir.as_os_str().is_empty();
    let place = job.cache.as_ref().filter(is_used)?;
    let warn = |error| {
        let message = format!("can't open the chunk cache: {}", os_text(&error));
        let path = place.dir.as_os_str().as_bytes();
        monitor.event(Event::Warning { side: None, path, message: &message });
    };
    place.open().map_err(warn).ok()
}

/// The role of an agent that sends.
///
/// # Errors
/// When the request is too large.
pub(crate) fn sender(job: &Job) -> Result<Role, JobError> {
    check_len(job, sources_len(&job.sources))?;
    let count = job.sources.paths.len();
    if count > SOURCES_MAX {
        let why = format!("{count} paths are given, but a host accepts at most {SOURCES_MAX}");
        return Err(JobError::Usage(why));
    }
    Ok(Role::Sender(job.sources.clone()))
}

/// Bytes of the paths of a destination.
pub(crate) fn dest_len(dest: &NamedDest) -> usize {
    let bases: usize = dest.bases.iter().map(|path| path.len() + 5).sum();
    let backup = dest.backup.as_ref().map_or(0, Backup::encoded_len_max);
    let staging = dest.staging.as_ref().map_or(0, |path| path.len() + 5);
    bases + backup + staging + dest.path.len()
}

/// Bytes of the paths of sources.
pub(crate) fn sources_len(sources: &NamedSources) -> usize {
    sources.paths.iter().chain(&sources.base).map(|path| path.len() + 5).sum()
}

/// Refuses a job whose rules and `words` further bytes do not fit into one frame.
pub(crate) fn check_len(job: &Job, words: usize) -> Result<(), JobError> {
    let max = FrameType::Job.payload_max() as usize;
    let rules = job.filter.encoded_len_max() + job.altered.encoded_len_max();
    let len = rules + words + JOB_LEN_MAX;
    if len > max {
        return Err(JobError::Usage(format!(
            "the paths and patterns have {} KiB, but a host accepts at most {}; name their directory, \
             or copy them in parts",
            len.div_ceil(1024),
            max / 1024,
        )));
    }
    Ok(())
}

/// The request that assigns an agent its `role` in `job`, without further connections.
pub(crate) fn request_of(job: &Job, role: Role) -> JobRequest {
    JobRequest {
        task: job.task,
        filter: job.filter.clone(),
        altered: job.altered.clone(),
        rate: job.wire.rate,
        compression: job.wire.compression,
        token: job.token,
        direct: None,
        joins: None,
        chunks: job.cache.is_some(),
        role,
    }
}

impl Agent {
    /// Prepares the wire to the agent of `session`. The greeting and the request for `role` in
    /// `job` are sent together, so a job costs no round trip before it starts.
    fn prepare(session: Session, job: &Job, role: Role) -> (Self, Wire) {
        let receives = matches!(role, Role::Receiver { .. });
        // A direct connection to a server counts as one of the requested connections.
        let is_direct = session.closer().is_direct();
        let (connections, is_enough) = match job.wire.logins {
            Logins::UpTo(others) if is_direct => (NonZeroU8::new(others), others == 0),
            _ => (job.direct_connections(), false),
        };
        // Without a key, ssh is used. One QUIC connection replaces several TCP connections.
        let uses_direct = job.uses_direct() && !is_enough && !session.closer().is_quic();
        let identity = uses_direct.then(|| Identity::new().ok()).flatten();
        let is_required = job.wire.via == Via::Tcp;
        // The lookup runs on an unconfined thread.
        let host_addresses = identity.as_ref().map(|_| session.closer().host_addresses());
        let wish = |identity: &Identity| {
            let (key, ports) = (identity.public(), job.wire.ports.map(|ports| (ports.0, ports.1)));
            Box::new(DirectWish { key, is_required, ports })
        };
        let direct = identity.as_ref().map(wish);
        let logins = match (job.further_logins(), &session) {
            // The way in which the user logged in is unknown.
            (Logins::Chosen, Session::Greeted(_)) => Logins::UpTo(0),
            (logins, _) => logins,
        };
        let further_logins = FurtherLogins::new(logins, session.closer());
        let joins = further_logins.as_ref().map(FurtherLogins::secret);
        let request = JobRequest { direct, joins, ..request_of(job, role) };
        let request = encode(&Message::Job(request));
        let (wire, watchdog, closer) = match session {
            Session::New(Connection { reader, writer, closer }) => {
                let timeout = closer.timeouts();
                let (watchdog, silence_max) = (Watchdog::new(timeout), timeout.silence_max);
                let keeps = closer.keeps();
                let bytes = [hello(keeps, timeout), request].concat();
                let greeting =
                    Greeting { bytes, watchdog: Arc::clone(&watchdog), silence_max, keeps };
                (Wire::of_client(reader, writer, closer.peer(), greeting), watchdog, closer)
            }
            Session::Greeted(Greeted { input, output, watchdog, closer, caps, .. }) => {
                let silence_max = watchdog.max();
                let peer = closer.peer();
                let wire = Wire::of_greeted(input, output, peer, caps, request, silence_max);
                (wire, watchdog, closer)
            }
        };
        let calling =
            identity.map(|identity| CallSettings { identity, host_addresses, connections });
        let by_wire = calling.as_ref().map(|_| ByWire::with_direct(is_required, is_direct));
        let mut wire = wire.with_lanes(calling, is_required, further_logins);
        wire.by_wire = by_wire.unwrap_or_default();
        let (name, outbox) = (closer.peer().to_owned(), Arc::clone(&wire.outbox));
        (Self { name, closer, watchdog, outbox, receives }, wire)
    }
}

impl JobConnection for Agent {
    fn end(&self, result: &Result<Summary, JobError>, mut leaving: EndingThreads<'_>) {
        leaving.hang_up(result.is_ok());
        if result.is_ok() && self.outbox.rests() {
            self.outbox.send_message_within(&Message::Rest, CLOSE_MAX);
        }
        self.outbox.close();
        leaving.write = None;
        let killer = self.closer.killer();
        let is_over = match result {
            // A process that the login started on the host may hold the stream open forever.
            Ok(_) => leaving.within(CLOSE_MAX),
            // The exit of ssh shows why a connection broke. A server may close only its sending
            // direction. Then the writer waits forever.
            Err(JobError::Connection(ConnectError::Lost { .. })) => {
                killer.wait_for_exit(EXIT_WAIT_MAX) && leaving.within(TERMINATE_MAX)
            }
            // The agent has sent the reason, and tidies up. Without ssh in between, a signal would
            // end it before.
            Err(JobError::Destination { .. }) if self.receives => {
                killer.wait_for_exit(AGENT_EXIT_MAX);
                false
            }
            Err(_) => false,
        };
        if !is_over {
            killer.kill();
            // A stopped or hanging process does not end when it is asked to.
            if !leaving.within(TERMINATE_MAX) {
                killer.kill();
            }
        }
    }
}

/// The reason for a `lost` connection, if its end reveals more.
pub(crate) fn with_exit_reason(lost: ConnectError, closer: Closer) -> ConnectError {
    match closer.explain() {
        ConnectError::Stopped { .. } => lost,
        reason => reason,
    }
}

/// Closes the connection, or keeps it if it is `idle_streams`. If it broke, finds out why.
fn conclude(
    result: Result<Summary, JobError>,
    closer: Closer,
    idle_streams: &IdleStreams,
) -> Result<Summary, JobError> {
    match result {
        Err(JobError::Connection(lost @ ConnectError::Lost { .. })) => {
            Err(with_exit_reason(lost, closer).into())
        }
        // All entries are at their final places.
        Ok(summary) => {
            match idle_streams.take() {
                Some((input, output)) => closer.keep(input.into_inner().into_inner(), output),
                None => closer.leave(),
            }
            Ok(summary)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_model::{Action, Filter, Pattern, Rule};
    use haul_proto::HEADER_LEN;

    /// A filter whose rules take `len` bytes in a message, as computed for the check.
    fn filter_of(mut len: usize) -> Filter {
        let mut filter = Filter::default();
        while len > 0 {
            let rule = |len: usize| {
                let pattern = Pattern::new(&vec![b'x'; len]).expect("a pattern");
                let mut longer = filter.clone();
                longer.push(Rule::new(Action::Exclude, pattern)).expect("few");
                longer
            };
            let before = filter.encoded_len_max();
            let besides = rule(1).encoded_len_max() - before - 1;
            let longest = rule((len - besides).min(Pattern::LEN_MAX));
            filter = longest;
            len -= filter.encoded_len_max() - before;
        }
        filter
    }

    #[test]
    fn an_accepted_request_fits_into_its_frame() {
        let max = FrameType::Job.payload_max() as usize;
        let words = 10_000;
        let job = Job { filter: filter_of(max - words - JOB_LEN_MAX), ..Job::default() };
        check_len(&job, words).expect("it fits");
        let dest = NamedDest {
            into_dir: true,
            origin: Some([9; 16]),
            naming: Some(haul_model::Naming::Given),
            ..NamedDest::at(vec![b'x'; words])
        };
        let role = Role::Receiver { dest, asked: None };
        let (filter, altered) = (job.filter.clone(), job.altered.clone());
        let (task, rate, compression) = (job.task, job.wire.rate, job.wire.compression);
        let token = Some([9; 16]);
        let (key, ports) = ([7; 32], Some((u16::MAX, u16::MAX)));
        let direct = Some(Box::new(DirectWish { key, is_required: true, ports }));
        let joins = token;
        let chunks = true;
        let request = JobRequest {
            task,
            filter,
            altered,
            rate,
            compression,
            token,
            direct,
            joins,
            chunks,
            role,
        };
        let frame = encode(&Message::Job(request));
        assert!(frame.len() - HEADER_LEN <= max, "{}", frame.len());
        let refused = check_len(&job, words + 1).expect_err("too much");
        assert!(refused.to_string().contains("a host accepts at most 4096"), "{refused}");
    }
}
