//! [`Connection`]: a byte stream in both directions, and the handles that end it.

use crate::diagnosis::{Peer, diagnose};
use crate::error::CLOSED;
use crate::interrupt::{FlagsGuard, Interrupt, Interruptible, wait_writable};
use crate::kept::{IdleConnections, Keeper, Streams, duplicate};
use crate::process::Process;
use crate::stderr::{Diagnostics, StderrReader};
use crate::{ConnectError, ExtraLogins, Refusal, Timeouts};
use haul_sys::{PacketStats, wait_for_input};
use rustix::fs::FileType;
use std::fmt;
use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

/// Timeout for ssh to exit by itself after both streams are closed.
const EXIT_WAIT_MAX: Duration = Duration::from_secs(5);

/// Timeout for ssh to exit by itself when the remote program exits, too.
const PEER_EXIT_WAIT_MAX: Duration = Duration::from_secs(1);

/// Timeout for the last lines on standard error after ssh has exited. A process that ssh left
/// behind can hold that stream open for ever.
const STDERR_WAIT_MAX: Duration = Duration::from_millis(250);

/// Time for ssh to end after SIGTERM, before it is killed, if a greeting takes too long.
const TERMINATE_MAX: Duration = Duration::from_secs(1);

/// Shortest pause between two checks whether ssh has exited.
const EXIT_POLL_MIN: Duration = Duration::from_millis(1);
/// Longest such pause.
const EXIT_POLL_MAX: Duration = Duration::from_millis(20);

/// A byte stream in both directions, and the handle that ends it.
///
/// Neither stream is buffered, and both block. To wake a thread that waits in one of them, call
/// [`Killer::kill`] from another thread.
pub struct Connection {
    /// Bytes from the peer. It reports the end of the file when the peer closes its side, when the
    /// connection fails, and when it is killed.
    pub reader: Box<dyn Read + Send>,
    /// Bytes to the peer. Dropping it ends the stream for the peer.
    pub writer: Writer,
    /// Ends the connection and reports how it ended.
    pub closer: Closer,
}

impl Connection {
    /// A connection over any pair of streams. Its closer has no effect: a thread that waits in a
    /// stream can't be woken.
    pub fn from_parts(
        reader: impl Read + Send + 'static,
        writer: impl Write + Send + 'static,
    ) -> Self {
        let closer = Closer::default();
        Self { reader: Box::new(reader), writer: Writer::new(writer, None), closer }
    }

    /// A connection over a pair of pipes or sockets, such as this process's standard input and
    /// output. Killing it releases both at once. The closer holds them open and restores their
    /// blocking mode when it is dropped.
    ///
    /// # Errors
    /// Errors of `fcntl` and `pipe`.
    pub fn from_streams(
        reader: impl Read + AsFd + Send + 'static,
        writer: impl Write + AsFd + Send + 'static,
    ) -> io::Result<Self> {
        let interrupt = Interrupt::new()?;
        let before = Some([FlagsGuard::of(&reader)?, FlagsGuard::of(&writer)?]);
        let reader = Interruptible::new(reader, &interrupt)?;
        let writer = Writer::interruptible(writer, &interrupt)?;
        let mut closer = Closer::default();
        (closer.interrupt, closer.before) = (Some(interrupt), before);
        Ok(Self { reader: Box::new(reader), writer, closer })
    }

    /// A connection that was kept. Its messages go to `diagnostics`. When it is idle again, its
    /// streams go to `keeper`.
    pub(crate) fn of_kept(
        streams: Streams,
        keeper: Keeper,
        extra_logins: ExtraLogins,
        diagnostics: Diagnostics,
    ) -> io::Result<Self> {
        let handles = duplicate(streams.each_ref().map(AsFd::as_fd))?;
        let [input, output, errors] = streams.map(File::from);
        let mut connection = Self::from_streams(input, output)?;
        let closer = &mut connection.closer;
        closer._stderr = Some(StderrReader::start(errors, diagnostics)?);
        closer.timeouts = extra_logins.0.timeouts();
        closer.name = Some(extra_logins.0.display());
        closer.kept = Some(Kept::Held(handles, keeper));
        closer.extra_logins = Some(extra_logins);
        Ok(connection)
    }

    /// Closes an idle connection whose peer exits by itself.
    pub(crate) fn leave(self) {
        drop((self.reader, self.writer));
        self.closer.leave();
    }

    /// A connection to a server, or to the client of one.
    pub(crate) fn of_server(
        reader: Box<dyn Read + Send>,
        writer: Writer,
        served: ServerLink,
        timeouts: Timeouts,
    ) -> Self {
        let mut closer = Closer::default();
        (closer.served, closer.timeouts) = (Some(Box::new(served)), timeouts);
        Self { reader, writer, closer }
    }

    /// Marks the connection as the fallback for a server that does not answer. If it fails before
    /// the agent there is reached, [`Closer::explain`] returns [`ConnectError::NoServer`].
    #[must_use]
    pub fn as_fallback(mut self) -> Self {
        self.closer.is_fallback = true;
        self
    }

    /// Sets the timeouts for the peer.
    #[must_use]
    pub fn with_timeouts(mut self, timeouts: Timeouts) -> Self {
        self.closer.timeouts = timeouts;
        self
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("peer", &self.closer.peer()).finish_non_exhaustive()
    }
}

/// The bytes from the remote program.
pub(crate) struct FirstByteReader<R> {
    pub(crate) stream: R,
    /// Set when the first byte has arrived.
    pub(crate) has_received: Arc<AtomicBool>,
}

impl<R: Read> Read for FirstByteReader<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let len = self.stream.read(bytes)?;
        if len > 0 && !self.has_received.load(Ordering::Relaxed) {
            self.has_received.store(true, Ordering::Relaxed);
        }
        Ok(len)
    }
}

/// The stream to the peer.
///
/// It may hold a second descriptor of the same pipe. Both are closed together, so that the peer
/// sees the end.
pub struct Writer {
    stream: Box<dyn Write + Send>,
    pipe: Option<OwnedFd>,
    /// Releases the stream.
    interrupt: Option<Arc<Interrupt>>,
}

impl Writer {
    /// A writer over `stream`; `pipe` is the pipe behind it, if it is one.
    pub fn new(stream: impl Write + Send + 'static, pipe: Option<OwnedFd>) -> Self {
        Self { stream: Box::new(stream), pipe, interrupt: None }
    }

    /// A writer over `stream`, which `interrupt` can release.
    ///
    /// # Errors
    /// Errors of `fcntl`.
    pub(crate) fn interruptible(
        stream: impl Write + AsFd + Send + 'static,
        interrupt: &Arc<Interrupt>,
    ) -> io::Result<Self> {
        let pipe = pipe_of(&stream);
        let stream = Box::new(Interruptible::new(stream, interrupt)?);
        Ok(Self { stream, pipe, interrupt: Some(Arc::clone(interrupt)) })
    }

    /// The pipe behind this writer, if there is one. Content can be spliced into it between two
    /// writes.
    pub fn pipe(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    /// Waits until [`Self::pipe`] has room or has no reader any more. It can return early: try
    /// again, then wait again.
    ///
    /// # Errors
    /// Errors of `poll`; a broken pipe if the connection was killed.
    pub fn wait_writable(&self) -> io::Result<()> {
        self.pipe().map_or(Ok(()), |pipe| wait_writable(pipe, self.interrupt.as_deref()))
    }
}

/// Writes two slices one after the other, without joining them in memory. Calls `on_write` after
/// each write.
///
/// # Errors
/// Errors of `output`.
pub fn write_both(
    output: &mut impl Write,
    mut head: &[u8],
    mut body: &[u8],
    on_write: impl Fn(),
) -> io::Result<()> {
    while !head.is_empty() || !body.is_empty() {
        let written = match output.write_vectored(&[IoSlice::new(head), IoSlice::new(body)]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => written,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        on_write();
        let of_head = written.min(head.len());
        head = &head[of_head..];
        body = &body[written - of_head..];
    }
    Ok(())
}

/// A second handle of `stream` if it is a pipe, for splicing.
fn pipe_of(stream: &impl AsFd) -> Option<OwnedFd> {
    let stat = rustix::fs::fstat(stream).ok()?;
    let is_pipe = FileType::from_raw_mode(stat.st_mode) == FileType::Fifo;
    is_pipe.then(|| stream.as_fd().try_clone_to_owned().ok()).flatten()
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.stream.write_vectored(slices)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// Ends a connection and reports how it ended.
///
/// Dropping it ends and reaps the child process, so neither a zombie nor a stray ssh remains. That
/// takes at most about half a second.
#[derive(Default)]
pub struct Closer {
    ssh: Option<Box<Ssh>>,
    /// The peer, if it is a server or the client of one.
    served: Option<Box<ServerLink>>,
    /// Releases the streams. `None` if they lead to ssh.
    interrupt: Option<Arc<Interrupt>>,
    timeouts: Timeouts,
    /// The flags of streams that were given to this process. They are restored when this is
    /// dropped.
    before: Option<[FlagsGuard; 2]>,
    /// Set if the connection is kept while it is idle.
    pub(crate) kept: Option<Kept>,
    /// Opens another login to the host, if the remote program is `haul serve`.
    extra_logins: Option<ExtraLogins>,
    /// The peer's name, if no ssh of this process leads to it.
    name: Option<String>,
    /// Reads standard error of a kept connection, unless an ssh of this process has a reader for it.
    _stderr: Option<StderrReader>,
    /// This connection by ssh replaces a server that does not answer.
    is_fallback: bool,
}

/// How an idle connection is kept.
pub(crate) enum Kept {
    /// By a process, which gets these streams.
    Held(Streams, Keeper),
    /// In this process: the target's name and the place.
    Here(String, IdleConnections),
}

/// A line to the peer that any thread can close.
pub(crate) trait Transport {
    /// Ends both directions: reads return the end of the file, writes a broken pipe.
    fn shut_down(&self);

    /// The peer's address, if it accepts further connections by TCP.
    fn peer(&self) -> Option<SocketAddr>;

    /// Statistics about the packets that this side has sent, if they are counted.
    fn packet_stats(&self) -> Option<PacketStats>;
}

impl Transport for TcpStream {
    fn shut_down(&self) {
        // It can only fail because the peer has left.
        let _ = self.shutdown(Shutdown::Both);
    }

    fn peer(&self) -> Option<SocketAddr> {
        self.peer_addr().ok()
    }

    fn packet_stats(&self) -> Option<PacketStats> {
        haul_sys::packet_stats(self)
    }
}

/// A connection to a server, or to the client of one.
pub(crate) struct ServerLink {
    pub(crate) peer: String,
    pub(crate) transport: Arc<dyn Transport + Send + Sync>,
    /// Set if the peer refused this side before it sent anything else.
    pub(crate) refusal: Arc<OnceLock<Refusal>>,
    /// The connection uses QUIC, not TCP.
    pub(crate) is_quic: bool,
    /// Dropped last. Dropping it waits until all written data has arrived.
    pub(crate) linger: Option<Box<dyn Send + Sync>>,
    /// Called with the measurements when the connection has ended.
    pub(crate) on_end: Option<Box<dyn FnOnce(PacketStats) + Send + Sync>>,
}

impl ServerLink {
    /// The link to `peer` over `transport`. `linger` is dropped last.
    pub(crate) fn new(
        peer: String,
        transport: Arc<dyn Transport + Send + Sync>,
        is_quic: bool,
        linger: Option<Box<dyn Send + Sync>>,
    ) -> Self {
        Self { peer, transport, refusal: Arc::default(), is_quic, linger, on_end: None }
    }
}

/// The child behind a connection.
pub(crate) struct Ssh {
    pub(crate) process: Arc<Process>,
    pub(crate) stderr: StderrReader,
    pub(crate) peer: Peer,
    /// The remote program has sent something.
    pub(crate) has_received: Arc<AtomicBool>,
    /// False for another program in place of ssh.
    pub(crate) is_ssh: bool,
}

impl Closer {
    pub(crate) fn new(
        ssh: Ssh,
        interrupt: Option<Arc<Interrupt>>,
        timeouts: Timeouts,
        kept: Option<Kept>,
        extra_logins: Option<ExtraLogins>,
    ) -> Self {
        let mut closer = Self::default();
        (closer.ssh, closer.interrupt, closer.timeouts) =
            (Some(Box::new(ssh)), interrupt, timeouts);
        (closer.kept, closer.extra_logins) = (kept, extra_logins);
        closer
    }

    /// True if the connection is kept while it is idle.
    pub fn keeps(&self) -> bool {
        self.kept.is_some()
    }

    /// Keeps the idle connection; `reader` and `writer` are its streams. If that fails, the
    /// connection is closed.
    pub fn keep(mut self, reader: Box<dyn Read + Send>, writer: Writer) {
        let (streams, keeper) = match self.kept.take() {
            Some(Kept::Here(host, idle_connections)) => {
                return idle_connections.put(host, Connection { reader, writer, closer: self });
            }
            Some(Kept::Held(streams, keeper)) => (streams, keeper),
            None => {
                drop((reader, writer));
                return self.leave();
            }
        };
        drop((reader, writer));
        // The flags are restored before another process gets the streams.
        self.before = None;
        match keeper.give(&streams) {
            // Its ssh lives on, and the system reaps it.
            Ok(()) => drop(self.ssh.take()),
            Err(error) => {
                tracing::debug!(%error, "the connection can't be kept");
                drop(streams);
                self.leave();
            }
        }
    }

    /// Waits up to `timeout` for more input from the peer. Returns another connection over the
    /// same streams, or `None` if nothing arrives or the streams were not given to this process.
    ///
    /// # Errors
    /// Errors of `poll` and of [`Connection::from_streams`].
    pub fn reuse_within(self, timeout: Duration) -> io::Result<Option<Connection>> {
        let Some(before) = &self.before else { return Ok(None) };
        if !wait_for_input(before[0].stream(), timeout)? {
            return Ok(None);
        }
        let streams = before.each_ref().map(|stream| stream.stream().try_clone_to_owned());
        let [input, output] = streams.map(|stream| stream.map(File::from));
        let (input, output) = (input?, output?);
        // The flags are restored first.
        drop(self);
        Connection::from_streams(input, output).map(Some)
    }

    /// The timeouts for the peer. Readers must obey them.
    pub fn timeouts(&self) -> Timeouts {
        self.timeouts
    }

    /// The peer's name for messages, `user@host`; "the peer" if none is known.
    pub fn peer(&self) -> &str {
        let of_ssh = self.ssh.as_ref().map(|ssh| &*ssh.peer.name);
        let of_server = self.served.as_ref().map(|served| &*served.peer);
        of_ssh.or(of_server).or(self.name.as_deref()).unwrap_or("the peer")
    }

    /// True if the peer is a server, or the client of one, that is reached by QUIC.
    pub fn is_quic(&self) -> bool {
        self.served.as_ref().is_some_and(|served| served.is_quic)
    }

    /// Sets a function to call with the measurements when a connection to a server has ended.
    pub fn on_end(&mut self, callback: impl FnOnce(PacketStats) + Send + Sync + 'static) {
        if let Some(served) = &mut self.served {
            served.on_end = Some(Box::new(callback));
        }
    }

    /// The address of the server, and the round trip to it if known. `None` if no server is reached.
    pub(crate) fn server(&self) -> Option<(SocketAddr, Option<Duration>)> {
        let transport = &self.served.as_ref()?.transport;
        let round_trip = transport.packet_stats().map(|packet_stats| packet_stats.round_trip);
        Some((transport.peer()?, round_trip))
    }

    /// True if the connection itself is one over TLS, to a server or from the client of one.
    pub fn is_direct(&self) -> bool {
        self.served.is_some()
    }

    /// Opens another login to the host, if ssh leads to it.
    pub fn extra_logins(&self) -> Option<ExtraLogins> {
        self.extra_logins.clone()
    }

    /// A handle to inspect this connection's ssh. `None` if there is none, or another program in
    /// its place.
    pub fn ssh_process(&self) -> Option<SshProcess> {
        let ssh = self.ssh.as_ref().filter(|ssh| ssh.is_ssh)?;
        Some(SshProcess(Arc::clone(&ssh.process)))
    }

    /// The streams, reader and writer, if they were given to this process.
    pub fn streams(&self) -> Option<[BorrowedFd<'_>; 2]> {
        let [reader, writer] = self.before.as_ref()?;
        Some([reader.stream(), writer.stream()])
    }

    /// The error of a peer that has sent no answer within `timeout`.
    pub fn unanswered(&self, timeout: Option<Duration>) -> ConnectError {
        let seconds = timeout.map_or(0, |timeout| timeout.as_secs());
        ConnectError::Unanswered { host: self.peer().to_owned(), seconds }
    }

    /// A handle that can kill the connection from another thread.
    pub fn killer(&self) -> Killer {
        Killer {
            process: self.ssh.as_ref().map(|ssh| Arc::clone(&ssh.process)),
            interrupt: self.interrupt.clone(),
            transport: self.served.as_ref().map(|served| Arc::clone(&served.transport)),
        }
    }

    /// Ends the child now and waits until it has exited; see [`Killer::kill`].
    pub fn kill(&mut self) {
        match (&self.ssh, &self.interrupt) {
            (Some(ssh), _) => ssh.process.kill_and_reap(),
            (None, Some(interrupt)) => interrupt.release(),
            (None, None) => self.served.iter().for_each(|served| served.transport.shut_down()),
        }
    }

    /// Waits until the child has exited by itself. **Drop the reader and the writer first**, or it
    /// has no reason to exit. It is killed after five seconds.
    ///
    /// # Errors
    /// Why the connection failed, from the child's status and its last messages.
    pub fn finish(mut self) -> Result<(), ConnectError> {
        drop(self.kept.take());
        let Some(ssh) = self.ssh.take() else {
            return Ok(());
        };
        let Some(status) = ssh.wait() else {
            ssh.process.kill_and_reap();
            return Err(ConnectError::Lost {
                host: ssh.peer.name,
                detail: format!("not closed within {} s", EXIT_WAIT_MAX.as_secs()),
            });
        };
        ssh.stderr.wait_closed(STDERR_WAIT_MAX);
        if ssh.process.was_killed() {
            return Err(ConnectError::Stopped { host: ssh.peer.name });
        }
        let has_received = ssh.has_received.load(Ordering::Relaxed);
        diagnose(&ssh.peer, status, &ssh.stderr.tail(), has_received)
            .inspect_err(|error| ssh.stderr.drop_repeated(error))
    }

    /// Closes a connection whose exchange is complete, and whose peer exits by itself. **Drop the
    /// reader and the writer first.** ssh exits after the remote program, which then holds none of
    /// the host's files open. The wait is limited to one second, since a process that the login
    /// left behind can hold the streams open. Another program in place of ssh gets as long as in
    /// [`Self::finish`]. Its exit status is ignored.
    pub fn leave(mut self) {
        drop(self.kept.take());
        match &self.ssh {
            Some(ssh) if ssh.is_ssh => drop(self.killer().wait_for_exit(PEER_EXIT_WAIT_MAX)),
            Some(_) => drop(self.finish()),
            None => {}
        }
    }

    /// Like [`Self::finish`], for a stream that ended too early. Always returns an error, even if
    /// the peer exited with success.
    pub fn explain(self) -> ConnectError {
        let host = self.peer().to_owned();
        if let Some(refusal) = self.served.as_ref().and_then(|served| served.refusal.get()) {
            return refusal.error(host);
        }
        // haul greets first, or fails.
        let mute = match &self.ssh {
            Some(ssh)
                if ssh.peer.service.is_haul() && !ssh.has_received.load(Ordering::Relaxed) =>
            {
                Some(ConnectError::NoHaul { host: host.clone(), tried: ssh.peer.tried.clone() })
            }
            _ => None,
        };
        let is_fallback = self.is_fallback;
        let error = match self.finish() {
            Err(error) => error,
            Ok(()) => {
                mute.unwrap_or(ConnectError::Lost { host: host.clone(), detail: CLOSED.into() })
            }
        };
        match error {
            ConnectError::Lost { .. }
            | ConnectError::Stopped { .. }
            | ConnectError::NotEnrolled { .. }
            | ConnectError::Busy { .. }
            | ConnectError::Unserved { .. } => error,
            error if is_fallback => {
                ConnectError::NoServer { host, detail: format!("nor through ssh: {error}") }
            }
            error => error,
        }
    }
}

impl Drop for Closer {
    fn drop(&mut self) {
        if let Some(ssh) = self.ssh.take() {
            ssh.process.kill_and_reap();
        }
        if let Some(served) = self.served.take() {
            let ServerLink { transport, linger, on_end, .. } = *served;
            transport.shut_down();
            drop(linger);
            if let (Some(callback), Some(packet_stats)) = (on_end, transport.packet_stats()) {
                callback(packet_stats);
            }
        }
    }
}

impl Ssh {
    /// Waits until the child has exited. Returns its status, if the system reports it, or `None` if
    /// it still runs after [`EXIT_WAIT_MAX`].
    fn wait(&self) -> Option<Option<ExitStatus>> {
        let deadline = Instant::now() + EXIT_WAIT_MAX;
        let mut poll = EXIT_POLL_MIN;
        loop {
            match self.process.try_wait() {
                Ok(Some(status)) => return Some(Some(status)),
                Ok(None) => {}
                // If haul's parent ignored SIGCHLD, the child's status is lost.
                Err(_) => return Some(None),
            }
            if Instant::now() >= deadline {
                return None;
            }
            // The child's standard error closes as it exits, which ends this wait at once.
            if self.stderr.wait_closed(poll) {
                thread::sleep(EXIT_POLL_MIN);
            }
            poll = (poll * 2).min(EXIT_POLL_MAX);
        }
    }
}

/// Inspects the process of an ssh while it runs.
#[derive(Clone)]
pub struct SshProcess(Arc<Process>);

impl SshProcess {
    /// Calls `inspect` with the process ID, which is not reused before `inspect` returns. `None` if
    /// the process has exited.
    pub fn inspect<T>(&self, inspect: impl FnOnce(u32) -> T) -> Option<T> {
        self.0.inspect(inspect)
    }
}

/// Kills a connection from any thread, at any time.
#[derive(Clone)]
pub struct Killer {
    process: Option<Arc<Process>>,
    interrupt: Option<Arc<Interrupt>>,
    transport: Option<Arc<dyn Transport + Send + Sync>>,
}

impl Killer {
    /// A killer that shuts `socket` down: reads return the end of the file, writes a broken pipe.
    pub(crate) fn from_socket(socket: &TcpStream) -> io::Result<Self> {
        let transport: Arc<dyn Transport + Send + Sync> = Arc::new(socket.try_clone()?);
        Ok(Self { process: None, interrupt: None, transport: Some(transport) })
    }

    /// Sends ssh SIGTERM, so that it can restore the terminal if it is asking for a password. The
    /// second call sends SIGKILL. Returns at once.
    ///
    /// Streams to another program are released by the second call, whoever else holds them. Streams
    /// without a program are released by the first. Reads then return the end of the file, and
    /// writes a broken pipe. If there was a program, [`Closer::finish`] returns
    /// [`ConnectError::Stopped`].
    ///
    /// Does nothing to a connection that has ended, or was made from parts.
    pub fn kill(&self) {
        if let Some(process) = &self.process {
            process.kill();
        }
        match (&self.process, &self.interrupt) {
            (Some(_), Some(interrupt)) => interrupt.request(),
            (None, Some(interrupt)) => interrupt.release(),
            (_, None) => {}
        }
        if let Some(transport) = &self.transport {
            transport.shut_down();
        }
    }

    /// Runs `work`, and kills the connection if it takes longer than `timeout`. Returns true if it
    /// did.
    ///
    /// # Errors
    /// When the thread that watches the time can't be started. `work` is not run then.
    pub fn within<T>(
        self,
        timeout: Option<Duration>,
        work: impl FnOnce() -> T,
    ) -> io::Result<(T, bool)> {
        let Some(timeout) = timeout else { return Ok((work(), false)) };
        let (done, late) = mpsc::channel::<()>();
        let watch = thread::Builder::new().name("greeting".into()).spawn(move || {
            let is_late = late.recv_timeout(timeout) == Err(RecvTimeoutError::Timeout);
            if is_late {
                self.kill();
                if late.recv_timeout(TERMINATE_MAX) == Err(RecvTimeoutError::Timeout) {
                    self.kill();
                }
            }
            is_late
        })?;
        let result = work();
        drop(done);
        Ok((result, watch.join().unwrap_or(false)))
    }

    /// Waits up to `timeout` until ssh has exited by itself. Returns whether it has. A connection
    /// made from parts has no ssh to wait for.
    pub fn wait_for_exit(&self, timeout: Duration) -> bool {
        self.process.as_ref().is_none_or(|process| process.ends_within(timeout))
    }
}
