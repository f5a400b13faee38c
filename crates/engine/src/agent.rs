//! The agent, at the other end of a connection. It greets, answers requests, and plays its role in
//! one job.

mod calls;
mod conversation;
mod entrance;
mod heir;
mod job_process;

use self::calls::CallReporter;
use self::conversation::{Client, ClientStreams, LastMessage, LastRequest, RequestContext};
use self::heir::JobClaim;
use crate::assembly::{
    Assembly, CallSettings, EndingThreads, IdleStreams, JobConnection, Joining, Placed, Receiving,
    Sending, Wire, wait_until_left, watch_reader,
};
use crate::cache::ChunkCache;
use crate::control::Control;
use crate::link::wire::{ByWire, Outbox};
use crate::monitor::Silent;
use crate::receiver::{Destination, RequestedSources};
use crate::request::Measuring;
use crate::watchdog::Watchdog;
use crate::{Job, JobError, Monitor, Progress, Rights, Summary, WireOptions};
use haul_model::{Fault, Side, Task, words};
use haul_net::{Closer, ConnectError, Connection, DirectListener, Killer, ListenTarget};
use haul_proto::{Abort, Call, Called, Caps, DirectOffer, DirectWish, JobRequest, Message, Role};
use haul_sys::{Access, Handover, confine};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{Read, Write};
use std::num::NonZeroU8;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Minimum limit of open files for a job with lanes. With 8 connections and chunks of many files, a
/// job has used 300.
pub const LANES_OPEN_FILES_MIN: u64 = 512;

/// Serves one client. Reads requests and jobs from `input`, answers on `output`, and returns after
/// one job or when the client has left. A client that is silent for longer than it announced counts
/// as gone.
///
/// The calling thread stays confined to the needs of the job. Neither stream blocks until this
/// returns, and then all threads have ended.
///
/// # Errors
/// When the client breaks the protocol or the streams fail.
pub fn serve(
    input: impl Read + AsFd + Send + 'static,
    output: impl Write + AsFd + Send + 'static,
) -> Result<(), JobError> {
    let connection = Connection::from_streams(input, output).map_err(|error| lost(&error))?;
    serve_with(ServeOptions::default(), connection)
}

/// Confines this process, and thus its clients, to the directory `root` and `cache`. With
/// [`Rights::Read`] nothing in `root` can be changed. No symbolic link is followed in a `root` that
/// `is_canonical`. **Call it before other threads are started.** Afterwards, paths are resolved as
/// in a chroot.
///
/// # Errors
/// When the kernel can't enforce it, and those of opening the directory.
pub fn confine_below(
    root: &Path,
    is_canonical: bool,
    rights: Rights,
    cache: Option<&ChunkCache>,
) -> std::io::Result<()> {
    // Cached now, because these files can't be opened later.
    haul_sys::boot_id();
    haul_sys::umask();
    let besides: Vec<_> = cache.map(ChunkCache::dir).transpose()?.into_iter().collect();
    haul_sys::enter_jail(root, is_canonical, rights == Rights::Write, &besides)
}

/// The longest time between two visits of a client that keeps its connection. Clients end it
/// earlier; this bound is for a client whose machine has vanished.
const VISIT_GAP_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Called with the task of a job, the side that this process had, and the result.
pub type OnEnd<'s> = dyn Fn(&Task, Side, &Result<Summary, JobError>) + 's;

/// The settings for serving a client.
#[derive(Clone, Copy)]
pub struct ServeOptions<'s> {
    /// The rights that it has.
    pub rights: Rights,
    /// Called when a job ends early, before its threads are waited for: one may hang in a file
    /// system that does not answer.
    pub on_failure: &'s dyn Fn(),
    /// The way in which direct connections arrive, or the reason why there are none.
    pub listen_target: Result<&'s ListenTarget, &'s str>,
    /// The path of this program, if the client may know it.
    pub program: Option<&'s Path>,
    /// The client may make this machine call another host, which receives the content.
    pub calls: bool,
    /// Called at the end of a job.
    pub on_end: &'s OnEnd<'s>,
    /// Opens the chunk cache of this client, if there is one.
    pub cache: &'s dyn Fn() -> Option<ChunkCache>,
    /// Called at the end of a visit without a job, with the number of its requests.
    pub on_requests: &'s dyn Fn(u64),
}

impl Default for ServeOptions<'_> {
    fn default() -> Self {
        let listen_target = Err("the host does not know its own address");
        Self {
            rights: Rights::Write,
            on_failure: &|| (),
            listen_target,
            program: None,
            calls: true,
            on_end: &|_, _, _| (),
            cache: &|| None,
            on_requests: &|_| (),
        }
    }
}

/// Like [`serve`], with these settings and over any `connection`. A client that keeps the
/// connection may start another job on it.
///
/// # Errors
/// See [`serve`].
pub fn serve_with(serving: ServeOptions<'_>, connection: Connection) -> Result<(), JobError> {
    haul_sys::boot_id();
    let dir = std::env::current_dir().ok();
    let mut next = Some(connection);
    while let Some(connection) = next {
        next = visit(serving, connection)?;
        if let Some(dir) = dir.as_ref().filter(|_| next.is_some()) {
            // As for a new login, the path may now name another directory.
            let _ = std::env::set_current_dir(dir);
        }
    }
    Ok(())
}

/// Serves one visit, from the client's greeting on. Returns the connection if the client keeps it.
fn visit(
    serving: ServeOptions<'_>,
    connection: Connection,
) -> Result<Option<Connection>, JobError> {
    let ServeOptions { rights, listen_target, program, calls, on_requests, .. } = serving;
    // The closer is dropped last.
    let Connection { reader, writer: output, closer } = connection;
    let watchdog = Watchdog::new(closer.timeouts());
    let input = watch_reader(reader, &watchdog);
    // Only descriptors survive the process that serves a job.
    let caps = match closer.streams() {
        Some(_) => Caps::OURS,
        None => Caps::OURS.without(Caps::SESSIONS),
    };
    let streams = ClientStreams { input, output, watchdog, killer: closer.killer(), caps };
    let program = program.map(|path| path.as_os_str().as_bytes().to_vec());
    let measuring = Measuring::new(rights, listen_target.cloned().map_err(str::to_owned), program);
    let requests = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&requests);
    let context = RequestContext { rights, measuring, calls, asked: None, requests };
    let begun = conversation::begin(streams, context);
    let has_job = matches!(
        &begun,
        Ok(Some(LastRequest { asked: LastMessage::Job(_) | LastMessage::Join(_), .. }))
    );
    let count = counted.load(Ordering::Relaxed);
    if count > 0 && !has_job {
        on_requests(count);
    }
    let Some(LastRequest { client, asked, call }) = begun? else { return Ok(None) };
    let renewed = |closer: Closer| closer.reuse_within(VISIT_GAP_MAX).map_err(|error| lost(&error));
    match asked {
        LastMessage::Job(job) if client.caps().has(Caps::SESSIONS) => {
            let serve =
                |client, is_job_process| serve_job(serving, client, *job, call, is_job_process);
            if job_process::serve(client, serve)? { renewed(closer) } else { Ok(None) }
        }
        LastMessage::Job(job) => serve_job(serving, client, *job, call, false).map(|()| None),
        LastMessage::Join(join) => entrance::join(client, join, &closer).map(|()| None),
        LastMessage::Rest => {
            client.send_message(&Message::Rest);
            drop(client.into_streams()?);
            renewed(closer)
        }
    }
}

/// Serves `job`. If this process `is_job_process`, it ends as soon as the connection is at rest.
fn serve_job(
    serving: ServeOptions<'_>,
    client: Client,
    job: JobRequest,
    call: Option<calls::Asked>,
    is_job_process: bool,
) -> Result<(), JobError> {
    let ServeOptions { rights, on_failure, on_end, listen_target, cache, .. } = serving;
    let JobRequest { task, filter, altered, rate, compression, token, direct, joins, chunks, role } =
        job;
    let side = match &role {
        Role::Receiver { .. } => Side::Destination,
        Role::Sender(_) => Side::Source,
    };
    if let Err(error) = JobError::of_open_files() {
        return refuse(client, (&task, side), error, on_end)?.map(drop);
    }
    if let Some(reason) = refused(rights, &role, &task) {
        let error = JobError::Usage(reason.to_owned());
        return refuse(client, (&task, side), error, on_end).map(drop);
    }
    // Lanes would take the handles that files need.
    let has_few = haul_sys::open_files_max().is_some_and(|max| max < LANES_OPEN_FILES_MIN);
    let listen_target =
        if has_few { Err("the host allows too few open files") } else { listen_target };
    let joins = joins.filter(|_| !has_few);
    // Opened now: a further login may arrive before the previous agent has left.
    let handover = joins.and_then(|secret| entrance::open(&secret));
    // After this the previous agent has left. A successor waits until this one has ended.
    let _held = token.and_then(|token| JobClaim::take(&token, client.killer()));
    let wire = WireOptions { rate, compression, ..WireOptions::default() };
    let job = Job { task, filter, altered, wire, ..Job::default() };
    let direct_port = direct.map(|wish| DirectPort::open(&wish, listen_target));
    let cache = if chunks { cache } else { &|| None };
    let around =
        ServeContext { on_failure, on_end, direct_port, handover, call, is_job_process, cache };
    match role {
        Role::Receiver { mut dest, asked } => {
            dest.path = words::without_tilde(&dest.path).to_vec();
            let job = Job { dest, ..job };
            let asked = asked.map(|asked| RequestedSources::of(&asked, &job));
            // The client does not see content from another host.
            let reports_arrivals = asked.is_some() && client.caps().has(Caps::CALLS);
            receive(client, &job, (asked, reports_arrivals), around)
        }
        Role::Sender(mut sources) => {
            let whole = |path: &mut Vec<u8>| *path = words::without_tilde(path).to_vec();
            match &mut sources.base {
                Some(base) => whole(base),
                None => sources.paths.iter_mut().for_each(whole),
            }
            send(client, &Job { sources, ..job }, around)
        }
    }
}

fn receive(
    client: Client,
    job: &Job,
    (asked, reports_arrivals): (Option<RequestedSources>, bool),
    around: ServeContext<'_>,
) -> Result<(), JobError> {
    let tree = job.local_tree(Side::Destination);
    let found = Destination::find(tree, job).and_then(|mut found| {
        found.expect_peer();
        let takes_chunks = client.caps().has(Caps::DEDUP) && job.has_contents();
        found.others.cache = takes_chunks.then(around.cache).flatten();
        let fault = |e| Fault::from_io(Side::Destination, "open the directory", &e);
        let dirs = found.handles().map_err(|error| JobError::Destination {
            path: haul_model::escape_bytes(&job.dest.path),
            fault: fault(error),
        })?;
        Ok((found, dirs))
    });
    let (destination, dirs) = match found {
        Ok(found) => found,
        Err(error) => {
            let side = (&job.task, Side::Destination);
            return refuse(client, side, error, around.on_end).map(drop);
        }
    };
    // Threads that write after this are confined, too.
    let streams = client.into_streams()?;
    job.preload_accounts()?;
    job.confine_receiver(&dirs);
    let receiving = Receiving { asked, reports_arrivals, ..Receiving::of(tree, destination) };
    run(job, streams, around, |wire| Placed::Receiver(receiving, Box::new(wire)))
}

/// Ends a job that has not begun, and returns its end.
fn refuse(
    client: Client,
    (task, side): (&Task, Side),
    error: JobError,
    on_end: &OnEnd<'_>,
) -> Result<Result<Summary, JobError>, JobError> {
    client.send_message(&Message::Abort(abort(&error)));
    let end = Err(error);
    on_end(task, side, &end);
    client.into_streams().map(|_| end)
}

fn send(client: Client, job: &Job, around: ServeContext<'_>) -> Result<(), JobError> {
    // Threads that write after this are confined, too.
    let streams = client.into_streams()?;
    job.preload_accounts()?;
    let confined = match job.task.moving() {
        // Setting aside renames sources. Names are also restored before anything is copied.
        Some(_) => {
            let sources: Vec<_> = job.source_paths().collect();
            let is_mirror = job.task.mirrors().is_some();
            confine(Access::Rename(&parent_dirs(&sources, is_mirror)))
        }
        None => confine(Access::ReadOnly),
    };
    tracing::debug!(confined, "sending");
    // sshd reads small pieces from its pipe, and has more work than haul.
    haul_sys::use_batch_scheduling();
    let tree = job.local_tree(Side::Source);
    run(job, streams, around, |wire| Placed::Sender(Sending::of(tree), Box::new(wire)))
}

/// The circumstances of a job, in addition to its description.
struct ServeContext<'s> {
    on_failure: &'s dyn Fn(),
    on_end: &'s OnEnd<'s>,
    /// Set if the client wants direct connections.
    direct_port: Option<DirectPort>,
    /// Set if further logins may join.
    handover: Option<Handover>,
    /// Set if another host is to be called.
    call: Option<calls::Asked>,
    /// This process serves one job.
    is_job_process: bool,
    /// See [`ServeOptions::cache`].
    cache: &'s dyn Fn() -> Option<ChunkCache>,
}

/// A port that is open for the client, or the reason why none is.
struct DirectPort {
    opened: Result<(DirectListener, DirectOffer), String>,
    /// The contents that use the wire instead.
    by_wire: ByWire,
}

impl DirectPort {
    /// Opens a port in this `listen_target`.
    fn open(wish: &DirectWish, listen_target: Result<&ListenTarget, &str>) -> Self {
        let DirectWish { key, is_required, ports } = *wish;
        let opened = listen_target.map_err(str::to_owned).and_then(|listen_target| {
            let listener = listen_target.open(ports, key);
            let listener = listener.map_err(|e| format!("the host can't open a port: {e}"))?;
            let offer = DirectOffer { address: listener.address(), key: listener.key() };
            Ok((listener, offer))
        });
        let is_direct = matches!(listen_target, Ok(ListenTarget::Server(_)));
        let by_wire = ByWire::with_direct(is_required, is_direct);
        Self { opened, by_wire }
    }
}

/// Runs this side's role in `job`.
fn run<'a>(
    job: &'a Job,
    streams: ClientStreams,
    ServeContext { on_failure, on_end, direct_port, handover, call, is_job_process, .. }: ServeContext<'a>,
    place: impl FnOnce(Wire) -> Placed<'a>,
) -> Result<(), JobError> {
    let ClientStreams { input, output, watchdog, killer, caps } = streams;
    let mut wire = Wire::of_greeted(input, output, CLIENT, caps, Vec::new(), watchdog.max());
    let direct = direct_port.and_then(|DirectPort { opened, by_wire }| {
        // The queue is still empty.
        wire.outbox
            .send_message(&Message::Direct(opened.as_ref().map(|(_, o)| *o).map_err(Clone::clone)));
        wire.by_wire = by_wire;
        opened.ok().map(|(listener, _)| listener)
    });
    let (lets_in, calls) = (direct.is_some() || handover.is_some(), call.is_some());
    wire.joining = lets_in.then(|| Joining::Accepts { direct, handover }.into());
    let monitor: Box<dyn Monitor> = match call {
        None => Box::new(Silent::default()),
        Some(calls::Asked { identity, call: Call { is_required, connections } }) => {
            let connections = NonZeroU8::new(connections);
            let calling = CallSettings { identity, host_addresses: None, connections };
            wire = wire.with_calls(calling, is_required);
            let (progress, outbox) = (Progress::default(), Arc::clone(&wire.outbox));
            Box::new(CallReporter { progress, outbox })
        }
    };
    let control = Control::with(&*monitor, &watchdog, CLIENT);
    let outbox = Arc::clone(&wire.outbox);
    let idle_streams = wire.idle_streams();
    let placed = place(wire);
    let side = match &placed {
        Placed::Sender(..) => Side::Source,
        Placed::Receiver(..) | Placed::Both(..) => Side::Destination,
    };
    let on_end = |result: &Result<Summary, JobError>| on_end(&job.task, side, result);
    let (watchdog, on_end) = (&*watchdog, &on_end);
    let job_connection = JobClient {
        outbox,
        idle_streams,
        is_job_process,
        killer,
        watchdog,
        on_failure,
        on_end,
        calls,
    };
    Assembly { job, control: &control, job_connection: &job_connection }.run(placed).map(drop)
}

/// The client at the other end of a job.
struct JobClient<'c> {
    outbox: Arc<Outbox>,
    idle_streams: IdleStreams,
    /// This process serves one job.
    is_job_process: bool,
    killer: Killer,
    watchdog: &'c Watchdog,
    on_failure: &'c dyn Fn(),
    on_end: &'c dyn Fn(&Result<Summary, JobError>),
    /// The client has requested calls, and receives their results.
    calls: bool,
}

impl JobConnection for JobClient<'_> {
    /// Sends the reason of an early end to the client. The last messages may take as long as the
    /// peer may be silent, because it may not be reading.
    fn end(&self, result: &Result<Summary, JobError>, mut leaving: EndingThreads<'_>) {
        (self.on_end)(result);
        if result.is_err() {
            (self.on_failure)();
        }
        if !matches!(result, Err(JobError::Connection(ConnectError::Silent { .. }))) {
            let timeout = self.watchdog.max().unwrap_or(Duration::MAX);
            if let Err(error) = result
                && !matches!(error, JobError::Connection(_))
            {
                self.outbox.send_message_within(&Message::Abort(abort(error)), timeout);
            }
            if self.calls
                && let Some(called) = called(result)
            {
                self.outbox.send_message_within(&Message::Called(called), timeout);
            }
            let rests = result.is_ok() && self.outbox.rests();
            // The reply to the client's Rest is the last message. Later bytes are not read here.
            if rests && self.idle_streams.is_complete_within(timeout) {
                self.outbox.send_message_within(&Message::Rest, timeout);
            }
            self.outbox.close();
            if let Some(write) = leaving.write.take() {
                write();
            }
            let has_written = wait_until_left(&leaving.writer, timeout);
            if rests && has_written && self.is_job_process && self.idle_streams.take().is_some() {
                // The next visit does not wait for lingering lanes.
                job_process::end_idle();
            }
        }
        // After the last messages: the end of a lane gives no reason.
        leaving.hang_up(false);
        self.outbox.close();
        self.outbox.cut();
        self.killer.kill();
    }
}

/// The report to the client about a failed call that the job needs.
fn called(result: &Result<Summary, JobError>) -> Option<Called> {
    match result {
        Err(JobError::Connection(ConnectError::NotDirect { detail, .. })) => {
            Some(Called::Failed(detail.clone()))
        }
        Err(JobError::Connection(ConnectError::DirectLost { detail, .. })) => {
            Some(Called::Lost(detail.clone()))
        }
        _ => None,
    }
}

/// The reason why a client with these rights is refused this role.
fn refused(rights: Rights, role: &Role, task: &Task) -> Option<&'static str> {
    let reads = match role {
        Role::Receiver { .. } => task.keeps_destination(),
        // The copy of a move is refused too, because its sources could not be removed.
        Role::Sender(_) => task.moving().is_none(),
    };
    (rights == Rights::Read && !reads)
        .then_some("this login is read-only: haul can't copy to it or move from it")
}

/// The directories that contain `sources`, each once. In a mirror, also sources that end with `/.`,
/// because links to them are followed.
fn parent_dirs<'s>(sources: &'s [Cow<'_, [u8]>], is_mirror: bool) -> Vec<&'s Path> {
    let above = sources.iter().map(|path| words::split(words::without_dot(path)).parent);
    let itself =
        sources.iter().filter(|path| is_mirror && path.ends_with(b"/.")).map(|path| &**path);
    let dirs: BTreeSet<&[u8]> = above.chain(itself).collect();
    dirs.into_iter().map(|path| Path::new(OsStr::from_bytes(path))).collect()
}

/// The client's name in messages.
const CLIENT: &str = "the client";

fn abort(error: &JobError) -> Abort {
    match error {
        JobError::Usage(words) => Abort::Usage(words.clone()),
        JobError::Destination { path, fault } => Abort::Destination {
            path: words::shown(path.as_bytes().to_vec()),
            fault: fault.clone(),
        },
        JobError::Interrupted => Abort::Cancelled,
        _ => Abort::Protocol(error.to_string()),
    }
}

fn lost(error: &std::io::Error) -> JobError {
    ConnectError::lost(CLIENT, error).into()
}
