//! A byte stream in both directions, and what ends it.

use crate::cut::{AsBefore, Cut, Cuttable, wait_for_room};
use crate::diagnosis::{Peer, Remote, diagnose};
use crate::error::CLOSED;
use crate::kept::{Keeper, Resting, Streams};
use crate::process::Process;
use crate::stderr::{Diagnostics, StderrReader};
use crate::{ConnectError, Further, Patience, Refusal, Whereabouts};
use haul_sys::Measured;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::FileType;
use rustix::io::Errno;
use std::fmt;
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

/// How long ssh may take to end by itself after both streams are closed.
const EXIT_WAIT_MAX: Duration = Duration::from_secs(5);

/// How long it may take to end by itself when the program at the other end ends, too.
const LEAVING_MAX: Duration = Duration::from_secs(1);

/// How long its last words may take after it has ended. A process that it left
/// behind can hold the stream open for ever.
const LAST_WORDS_WAIT_MAX: Duration = Duration::from_millis(250);

/// How often ssh is looked at while it is expected to end.
const EXIT_POLL_MIN: Duration = Duration::from_millis(1);
/// See [`EXIT_POLL_MIN`].
const EXIT_POLL_MAX: Duration = Duration::from_millis(20);

/// A byte stream in both directions, and what ends it.
///
/// Neither stream is buffered, and both block. To wake a thread that waits in
/// one of them, call [`Killer::kill`] from another.
pub struct Connection {
    /// Bytes from the peer. The end of file comes when the peer closes its
    /// side, when the connection fails, and when it is killed.
    pub reader: Box<dyn Read + Send>,
    /// Bytes to the peer. Dropping it tells the peer that no more will come.
    pub writer: Writer,
    /// Ends the connection and tells how it ended.
    pub closer: Closer,
}

impl Connection {
    /// A connection over any pair of streams. Its closer has nothing to do: whoever
    /// waits in one of them can't be woken.
    pub fn from_parts(
        reader: impl Read + Send + 'static,
        writer: impl Write + Send + 'static,
    ) -> Self {
        let closer = Closer::default();
        Self { reader: Box::new(reader), writer: Writer::new(writer, None), closer }
    }

    /// A connection over a pair of pipes or sockets, such as this process's standard
    /// input and output. Killing it lets go of both at once. The closer holds them open,
    /// and has them block as before when it is dropped.
    ///
    /// # Errors
    /// Those of `fcntl` and `pipe`.
    pub fn of_streams(
        reader: impl Read + AsFd + Send + 'static,
        writer: impl Write + AsFd + Send + 'static,
    ) -> io::Result<Self> {
        let cut = Cut::new()?;
        let before = Some([AsBefore::of(&reader)?, AsBefore::of(&writer)?]);
        let reader = Cuttable::new(reader, &cut)?;
        let writer = Writer::cuttable(writer, &cut)?;
        let mut closer = Closer::default();
        (closer.cut, closer.before) = (Some(cut), before);
        Ok(Self { reader: Box::new(reader), writer, closer })
    }

    /// A connection that was kept, whose messages go to `diagnostics`. When it is at rest its
    /// streams go to `keeper`.
    pub(crate) fn of_kept(
        streams: Streams,
        keeper: Keeper,
        further: Further,
        diagnostics: Diagnostics,
    ) -> io::Result<Self> {
        let Streams { input, output, errors } = &streams;
        let handles = Streams::of(input, output, errors)?;
        let connection = Self::of_streams(File::from(streams.input), File::from(streams.output))?;
        let errors = StderrReader::start(File::from(streams.errors), diagnostics)?;
        let Self { reader, writer, mut closer } = connection;
        closer.patience = further.0.patience();
        closer.name = Some(further.0.display());
        let kept = Kept { streams: handles, keeper, further, _errors: Some(errors) };
        closer.kept = Some(Box::new(kept));
        Ok(Self { reader, writer, closer })
    }

    /// Ends a connection at rest, whose peer ends by itself.
    pub(crate) fn leave(self) {
        drop((self.reader, self.writer));
        self.closer.leave();
    }

    /// The same connection, which is kept in that place when it is at rest.
    pub(crate) fn resting(mut self, host: String, place: Resting) -> Self {
        self.closer.rests = Some((host, place));
        self
    }

    /// A connection to a server, or to the client of one.
    pub(crate) fn of_server(
        reader: Box<dyn Read + Send>,
        writer: Writer,
        served: Served,
        patience: Patience,
    ) -> Self {
        let mut closer = Closer::default();
        (closer.served, closer.patience) = (Some(Box::new(served)), patience);
        Self { reader, writer, closer }
    }

    /// The same, in place of a server that does not answer. Without it there is no way to what the
    /// server serves: [`Closer::explain`] returns [`ConnectError::NoServer`] unless the agent there
    /// was reached.
    #[must_use]
    pub fn standing_in(mut self) -> Self {
        self.closer.stands_in = true;
        self
    }

    /// The same with a peer that is waited for as long as `patience` says.
    #[must_use]
    pub fn with_patience(mut self, patience: Patience) -> Self {
        self.closer.patience = patience;
        self
    }
}

/// Waits until `stream` has something to read or has ended, at most `patience`; tells whether it
/// has.
///
/// # Errors
/// Those of `poll`.
pub fn await_input(stream: BorrowedFd<'_>, patience: Duration) -> io::Result<bool> {
    let patience = Timespec::try_from(patience).ok();
    loop {
        let mut input = [PollFd::from_borrowed_fd(stream, PollFlags::IN)];
        match poll(&mut input, patience.as_ref()) {
            Ok(ready) => return Ok(ready > 0),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("peer", &self.closer.peer()).finish_non_exhaustive()
    }
}

/// The bytes from the program at the other end.
pub(crate) struct Listener<R> {
    stream: R,
    /// Set when the first of them has come.
    was_heard: Arc<AtomicBool>,
}

impl<R: Read> Listener<R> {
    /// Nothing has come so far.
    pub(crate) fn to(stream: R) -> Self {
        Self { stream, was_heard: Arc::default() }
    }

    /// Set when something has come.
    pub(crate) fn was_heard(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.was_heard)
    }

    fn heard(&self, read: io::Result<usize>) -> io::Result<usize> {
        if matches!(read, Ok(1..)) && !self.was_heard.load(Ordering::Relaxed) {
            self.was_heard.store(true, Ordering::Relaxed);
        }
        read
    }
}

impl<R: Read> Read for Listener<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.stream.read(bytes);
        self.heard(read)
    }

    fn read_vectored(&mut self, slices: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let read = self.stream.read_vectored(slices);
        self.heard(read)
    }
}

/// The way to the peer.
///
/// It may hold a second descriptor of its stream: both are closed with it, so
/// that the peer sees the end.
pub struct Writer {
    stream: Box<dyn Write + Send>,
    pipe: Option<OwnedFd>,
    /// Lets go of the stream.
    cut: Option<Arc<Cut>>,
}

impl Writer {
    /// A writer over `stream`; `pipe` is the pipe behind it, if it is one.
    pub fn new(stream: impl Write + Send + 'static, pipe: Option<OwnedFd>) -> Self {
        Self { stream: Box::new(stream), pipe, cut: None }
    }

    /// A writer over `stream`, which `cut` lets go of.
    ///
    /// # Errors
    /// Those of `fcntl`.
    pub(crate) fn cuttable(
        stream: impl Write + AsFd + Send + 'static,
        cut: &Arc<Cut>,
    ) -> io::Result<Self> {
        let pipe = pipe_of(&stream);
        let stream = Box::new(Cuttable::new(stream, cut)?);
        Ok(Self { stream, pipe, cut: Some(Arc::clone(cut)) })
    }

    /// The pipe behind this writer, if there is one. Between two writes,
    /// content can be spliced into it.
    pub fn pipe(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    /// Waits until something may be spliced into [`Self::pipe`], or nobody reads it
    /// any more. It can end early: try, and wait again.
    ///
    /// # Errors
    /// Those of `poll`; a broken pipe if the connection was killed.
    pub fn wait_for_room(&self) -> io::Result<()> {
        self.pipe().map_or(Ok(()), |pipe| wait_for_room(pipe, self.cut.as_deref()))
    }
}

/// A second handle of `stream`, if that is a pipe, which content can be spliced into.
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

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("pipe", &self.pipe).finish_non_exhaustive()
    }
}

/// Ends a connection and tells how it ended.
///
/// Dropping it ends and reaps the child process: neither a zombie nor a stray
/// ssh stays behind. That takes at most about half a second.
#[derive(Default)]
pub struct Closer {
    ssh: Option<Box<Ssh>>,
    /// The other end, if it is a server or the client of one.
    served: Option<Box<Served>>,
    /// Lets go of the streams, unless they lead to ssh.
    cut: Option<Arc<Cut>>,
    patience: Patience,
    /// The streams, if they were given to this process: they are as before when this is
    /// dropped.
    before: Option<[AsBefore; 2]>,
    /// Set if the connection is kept when it is at rest.
    kept: Option<Box<Kept>>,
    /// The name of the target, and where the connection is in this process when it is at rest, if
    /// it is kept there.
    rests: Option<(String, Resting)>,
    /// The peer's name, where no ssh of this process leads to it.
    name: Option<String>,
    /// ssh takes the place of a server that does not answer.
    stands_in: bool,
}

/// A connection that is kept when it is at rest.
pub(crate) struct Kept {
    pub(crate) streams: Streams,
    pub(crate) keeper: Keeper,
    /// How the host is logged in to once more.
    pub(crate) further: Further,
    /// Listens to it, unless an ssh of this process does.
    pub(crate) _errors: Option<StderrReader>,
}

/// A way to the other end that can be cut from any thread.
pub(crate) trait HangUp {
    /// Ends both directions: a read meets the end, a write a broken pipe.
    fn hang_up(&self);

    /// The address at the other end, if further connections by TCP can be made to it.
    fn peer(&self) -> Option<SocketAddr>;

    /// The packets that this side has sent, where they are counted.
    fn measured(&self) -> Option<Measured>;
}

impl HangUp for TcpStream {
    fn hang_up(&self) {
        // It can only fail because the other side has left.
        let _ = self.shutdown(Shutdown::Both);
    }

    fn peer(&self) -> Option<SocketAddr> {
        self.peer_addr().ok()
    }

    fn measured(&self) -> Option<Measured> {
        haul_sys::measured(self)
    }
}

/// The other end of a connection to a server, or to the client of one.
pub(crate) struct Served {
    pub(crate) peer: String,
    pub(crate) line: Arc<dyn HangUp + Send + Sync>,
    /// Set if it has refused this side before it sent anything else.
    pub(crate) refusal: Arc<OnceLock<Refusal>>,
    /// It is reached by QUIC, and not by TCP.
    pub(crate) is_quic: bool,
    /// Dropped last; that takes until what was written has arrived.
    pub(crate) rest: Option<Box<dyn Send + Sync>>,
    /// Is told what was measured when the connection has ended.
    pub(crate) on_end: Option<Box<dyn FnOnce(Measured) + Send + Sync>>,
}

/// The child behind a connection.
pub(crate) struct Ssh {
    pub(crate) process: Arc<Process>,
    pub(crate) stderr: StderrReader,
    pub(crate) peer: Peer,
    /// Something has come from the program there.
    pub(crate) was_heard: Arc<AtomicBool>,
    /// Or another program in its place.
    pub(crate) is_ssh: bool,
    /// The same once more, where haul is run at the other end.
    pub(crate) further: Option<Further>,
}

impl Closer {
    pub(crate) fn new(
        ssh: Ssh,
        cut: Option<Arc<Cut>>,
        patience: Patience,
        kept: Option<Box<Kept>>,
        rests: Option<(String, Resting)>,
    ) -> Self {
        let mut closer = Self::default();
        (closer.ssh, closer.cut, closer.patience) = (Some(Box::new(ssh)), cut, patience);
        (closer.kept, closer.rests) = (kept, rests);
        closer
    }

    /// True if the connection is kept when it is at rest.
    pub fn keeps(&self) -> bool {
        self.kept.is_some() || self.rests.is_some()
    }

    /// Keeps the connection, on which both sides have sent all, and whose streams these are. If
    /// that fails, the connection is closed.
    pub fn keep(mut self, reader: Box<dyn Read + Send>, writer: Writer) {
        if let Some((host, resting)) = self.rests.take() {
            return resting.put(host, Connection { reader, writer, closer: self });
        }
        drop((reader, writer));
        // The flags are restored before another process has the streams.
        self.before = None;
        let Some(kept) = self.kept.take() else { return self.leave() };
        let Kept { streams, keeper, .. } = *kept;
        match keeper.give(&streams) {
            // Its ssh lives on, and is reaped by the system.
            Ok(()) => drop(self.ssh.take()),
            Err(error) => {
                tracing::debug!(%error, "the connection can't be kept");
                drop(streams);
                self.leave();
            }
        }
    }

    /// Waits until the peer sends something more, at most `patience`, and returns another
    /// connection over the same streams. `None` if nothing comes, or the streams were not given to
    /// this process.
    ///
    /// # Errors
    /// Those of `poll`, and of [`Connection::of_streams`].
    pub fn renewed_within(self, patience: Duration) -> io::Result<Option<Connection>> {
        let Some(before) = &self.before else { return Ok(None) };
        if !await_input(before[0].stream(), patience)? {
            return Ok(None);
        }
        let streams = before.each_ref().map(|stream| stream.stream().try_clone_to_owned());
        let [input, output] = streams.map(|stream| stream.map(File::from));
        let (input, output) = (input?, output?);
        // The flags are restored first.
        drop(self);
        Connection::of_streams(input, output).map(Some)
    }

    /// How long the peer is waited for. Whoever reads from it keeps to that.
    pub fn patience(&self) -> Patience {
        self.patience
    }

    /// The peer's name for messages, `user@host`; "the peer" where none is known.
    pub fn peer(&self) -> &str {
        let of_ssh = self.ssh.as_ref().map(|ssh| &*ssh.peer.name);
        let of_server = self.served.as_ref().map(|served| &*served.peer);
        of_ssh.or(of_server).or(self.name.as_deref()).unwrap_or("the peer")
    }

    /// True if the peer is a server, or the client of one, that is reached by QUIC.
    pub fn is_quic(&self) -> bool {
        self.served.as_ref().is_some_and(|served| served.is_quic)
    }

    /// Calls `tell` when the connection has ended, if it leads to a server, with what was measured
    /// of it.
    pub fn on_end(&mut self, tell: impl FnOnce(Measured) + Send + Sync + 'static) {
        if let Some(served) = &mut self.served {
            served.on_end = Some(Box::new(tell));
        }
    }

    /// Where the host is, as its name says here; that is being looked up.
    pub fn whereabouts(&self) -> Whereabouts {
        let server = self.served.as_ref().and_then(|served| {
            let round_trip = served.line.measured().map(|measured| measured.round_trip);
            Some((served.line.peer()?, round_trip))
        });
        match (self.further(), server) {
            (Some(further), _) => Whereabouts::of(&further.0),
            (None, Some((server, round_trip))) => Whereabouts::of_server(server, round_trip),
            (None, None) => Whereabouts::at(Vec::new()),
        }
    }

    /// True if the connection itself is one over TLS, to a server or from the client of one.
    pub fn is_direct(&self) -> bool {
        self.served.is_some()
    }

    /// How the host is logged in to once more, if it was logged in to.
    pub fn further(&self) -> Option<Further> {
        let of_kept = || self.kept.as_ref().map(|kept| kept.further.clone());
        self.ssh.as_ref().and_then(|ssh| ssh.further.clone()).or_else(of_kept)
    }

    /// The ssh of this connection, to be looked at; `None` if there is none, or another
    /// program in its place.
    pub fn onlooker(&self) -> Option<Onlooker> {
        let ssh = self.ssh.as_ref().filter(|ssh| ssh.is_ssh)?;
        Some(Onlooker(Arc::clone(&ssh.process)))
    }

    /// The streams, reader and writer, if they were given to this process.
    pub fn streams(&self) -> Option<[BorrowedFd<'_>; 2]> {
        let [reader, writer] = self.before.as_ref()?;
        Some([reader.stream(), writer.stream()])
    }

    /// A handle that can kill the connection from another thread.
    pub fn killer(&self) -> Killer {
        Killer {
            process: self.ssh.as_ref().map(|ssh| Arc::clone(&ssh.process)),
            cut: self.cut.clone(),
            line: self.served.as_ref().map(|served| Arc::clone(&served.line)),
        }
    }

    /// Ends the child now and waits until it is gone; see [`Killer::kill`].
    pub fn kill(&mut self) {
        match (&self.ssh, &self.cut) {
            (Some(ssh), _) => ssh.process.end(),
            (None, Some(cut)) => cut.let_go(),
            (None, None) => self.served.iter().for_each(|served| served.line.hang_up()),
        }
    }

    /// Waits until the child has ended by itself. **Drop the reader and the
    /// writer first**, or it has no reason to; after five seconds it is killed.
    ///
    /// # Errors
    /// Why the connection failed, from the child's status and its last words.
    pub fn finish(mut self) -> Result<(), ConnectError> {
        drop(self.kept.take());
        let Some(ssh) = self.ssh.take() else {
            return Ok(());
        };
        let Some(status) = ssh.wait() else {
            ssh.process.end();
            return Err(ConnectError::Lost {
                host: ssh.peer.name,
                detail: format!("not closed within {} s", EXIT_WAIT_MAX.as_secs()),
            });
        };
        ssh.stderr.wait_closed(LAST_WORDS_WAIT_MAX);
        if ssh.process.was_killed() {
            return Err(ConnectError::Stopped { host: ssh.peer.name });
        }
        let was_heard = ssh.was_heard.load(Ordering::Relaxed);
        diagnose(&ssh.peer, status, &ssh.stderr.said(), was_heard)
            .inspect_err(|error| ssh.stderr.is_told(error))
    }

    /// Ends a connection in which all was said, and whose peer ends by itself. **Drop the
    /// reader and the writer first.** ssh ends when the program there has ended, and so holds
    /// none of the host's files any more. It is waited for at most one second, as a
    /// process that the login left behind can hold its streams open. Another program may
    /// have more to do, and is given the time that [`Self::finish`] gives; how it ends is of
    /// no matter.
    pub fn leave(mut self) {
        drop(self.kept.take());
        match &self.ssh {
            Some(ssh) if ssh.is_ssh => drop(self.killer().ends_within(LEAVING_MAX)),
            Some(_) => drop(self.finish()),
            None => {}
        }
    }

    /// Like [`Self::finish`], for a stream that ended before its time: there is
    /// always an error, also if the peer left without a complaint.
    pub fn explain(self) -> ConnectError {
        let host = self.peer().to_owned();
        if let Some(refusal) = self.served.as_ref().and_then(|served| served.refusal.get()) {
            return refusal.error(host);
        }
        let mute = self.ssh.as_ref().and_then(|ssh| match &ssh.peer.runs {
            // A haul greets first, or fails.
            Remote::Haul { path, .. } if !ssh.was_heard.load(Ordering::Relaxed) => {
                Some(ConnectError::NoHaul { host: host.clone(), tried: path.clone() })
            }
            _ => None,
        });
        let stands_in = self.stands_in;
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
            error if stands_in => {
                ConnectError::NoServer { host, detail: format!("nor through ssh: {error}") }
            }
            error => error,
        }
    }
}

impl Drop for Closer {
    fn drop(&mut self) {
        if let Some(ssh) = self.ssh.take() {
            ssh.process.end();
        }
        if let Some(served) = self.served.take() {
            let Served { line, rest, on_end, .. } = *served;
            line.hang_up();
            drop(rest);
            if let (Some(tell), Some(measured)) = (on_end, line.measured()) {
                tell(measured);
            }
        }
    }
}

impl Ssh {
    /// Waits until the child has ended: its status, if the system tells it, or
    /// `None` if it still runs after [`EXIT_WAIT_MAX`].
    fn wait(&self) -> Option<Option<ExitStatus>> {
        let deadline = Instant::now() + EXIT_WAIT_MAX;
        let mut poll = EXIT_POLL_MIN;
        loop {
            match self.process.try_wait() {
                Ok(Some(status)) => return Some(Some(status)),
                Ok(None) => {}
                // Whoever started haul may have SIGCHLD ignored: the child is
                // gone, and with it how it ended.
                Err(_) => return Some(None),
            }
            if Instant::now() >= deadline {
                return None;
            }
            // Its standard error closes as it ends, which makes the wait exact.
            if self.stderr.wait_closed(poll) {
                thread::sleep(EXIT_POLL_MIN);
            }
            poll = (poll * 2).min(EXIT_POLL_MAX);
        }
    }
}

/// Looks at the process of an ssh, as long as that runs.
#[derive(Clone)]
pub struct Onlooker(Arc<Process>);

impl Onlooker {
    /// Calls `look` with the number of the process, which no other one gets before that has
    /// returned; `None` if it has ended.
    pub fn look<T>(&self, look: impl FnOnce(u32) -> T) -> Option<T> {
        self.0.look_at(look)
    }
}

impl fmt::Debug for Onlooker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Onlooker").finish_non_exhaustive()
    }
}

/// Kills a connection from any thread, at any time.
#[derive(Clone)]
pub struct Killer {
    process: Option<Arc<Process>>,
    cut: Option<Arc<Cut>>,
    line: Option<Arc<dyn HangUp + Send + Sync>>,
}

impl Killer {
    /// One that hangs up on whoever is at the other end of `socket`: a read there meets
    /// the end of the file, a write a broken pipe.
    pub(crate) fn of_socket(socket: &TcpStream) -> io::Result<Self> {
        let line: Arc<dyn HangUp + Send + Sync> = Arc::new(socket.try_clone()?);
        Ok(Self { process: None, cut: None, line: Some(line) })
    }

    /// Asks ssh to end (SIGTERM, so that it can restore the terminal if it is
    /// asking for a password), and the next time forces it (SIGKILL). Returns
    /// at once. Streams to another program are let go of the next time, whoever
    /// else may hold them; those without a program, at once. The reader then meets the
    /// end of the file, the writer a broken pipe, and of a program [`Closer::finish`]
    /// tells [`ConnectError::Stopped`].
    ///
    /// Does nothing to a connection that has ended, or was made of parts.
    pub fn kill(&self) {
        if let Some(process) = &self.process {
            process.kill();
        }
        match (&self.process, &self.cut) {
            (Some(_), Some(cut)) => cut.ask(),
            (None, Some(cut)) => cut.let_go(),
            (_, None) => {}
        }
        if let Some(line) = &self.line {
            line.hang_up();
        }
    }

    /// Waits until ssh has ended by itself, at most `patience`; tells whether
    /// it has. A connection that was made of parts has no ssh to wait for.
    pub fn ends_within(&self, patience: Duration) -> bool {
        let Some(process) = &self.process else { return true };
        let deadline = Instant::now() + patience;
        while matches!(process.try_wait(), Ok(None)) {
            if Instant::now() >= deadline {
                return false;
            }
            thread::sleep(EXIT_POLL_MIN);
        }
        true
    }
}
