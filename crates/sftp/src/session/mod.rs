//! A session with a server, from greeting to end.

mod activity;
mod outbox;
mod payload;
mod port;
mod shared;

use self::activity::Activity;
use self::shared::{InFlight, PendingState};
use crate::codec::{
    Answer, Attrs, Expected, Extensions, FsStats, HEADER_LEN, Header, INIT, PacketError, ReplyKind,
    Request, VERSION, data_len, decode_version,
};
use crate::error::{SessionError, SftpError, StartError};
use crate::{Client, Result};
use haul_model::escape_bytes;
use haul_net::{Closer, ConnectError, Connection};
pub(crate) use payload::{FileRange, Payload};
pub(crate) use port::Port;
pub(crate) use shared::{Buf, SessionState};
use std::io::{self, BufReader, Read, Write};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Bytes that are read ahead. Small replies arrive many at once. Content is read directly into its
/// buffer.
const READ_AHEAD: usize = 64 << 10;

/// Most bytes of an invalid greeting in the error.
const TEXT_LEN_MAX: usize = 200;

/// Options of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// The content that may be in flight, in bytes, both ways together. More than the
    /// bandwidth-delay product gains nothing: 12.5 MB for 1 Gbit/s and 100 ms.
    ///
    /// OpenSSH has a narrower limit. Both of its sides allow 2 MiB in flight in a session's channel
    /// (`CHAN_SES_WINDOW_DEFAULT` in its `channels.h`, 64 packets of 32 KiB), without an option to
    /// change it. So a session moves at most 2 MiB per round trip: 168 Mbit/s at 100 ms. Only more
    /// sessions move more, each with its own connection or its own channel in the same one.
    pub bytes_max: usize,
    /// Maximum number of requests in flight.
    pub requests_max: usize,
    /// Timeout for silence while requests wait, if not the connection's own. It is [`SLOW_FACTOR`]
    /// times as long while a request may take a server minutes.
    pub silence_max: Option<Duration>,
}

impl Default for Options {
    fn default() -> Self {
        Self { bytes_max: 16 << 20, requests_max: 1024, silence_max: None }
    }
}

/// A session with a server. Dropping it ends it, and all waiting callers get an error.
pub struct Session {
    client: Client,
    closer: Option<Closer>,
}

impl Session {
    /// Greets the server, and requests its limits without waiting for them. Waits for the login, in
    /// which the user may have to type a password.
    ///
    /// # Errors
    /// [`StartError::Connect`] if there is no connection or it ends, with ssh's reason.
    /// [`StartError::Session`] if the answer is not that of an SFTP server of version 3.
    pub fn start(connection: Connection, options: Options) -> Result<Self, StartError> {
        let Connection { reader, mut writer, closer } = connection;
        let mut reader = BufReader::with_capacity(READ_AHEAD, reader);
        let login_max = closer.timeouts().login_max;
        let greet = || {
            writer.write_all(&INIT)?;
            writer.flush()?;
            greeting(&mut reader)
        };
        let greeted = match closer.killer().within(login_max, greet) {
            Ok((_, true)) => {
                let seconds = login_max.map_or(0, |max| max.as_secs());
                Err(SessionError::Silent { seconds })
            }
            Ok((greeted, false)) => greeted,
            Err(error) => Err(error.into()),
        };
        let host = closer.peer().to_owned();
        let extensions = match greeted {
            Ok(extensions) => extensions,
            Err(SessionError::Closed | SessionError::Broken(_)) => {
                drop((reader, writer));
                return Err(closer.explain().into());
            }
            Err(cause) => return Err(StartError::Session { host, cause }),
        };
        let silence_max = options.silence_max.or(closer.timeouts().silence_max);
        let shared = SessionState::new(writer, closer.killer(), options);
        let spawned = {
            let (reading, watching) = (Arc::clone(&shared), Arc::clone(&shared));
            let read = move || read_replies(&reading, reader);
            let read = thread::Builder::new().name("sftp-replies".into()).spawn(read);
            read.and_then(|_| match silence_max {
                None => Ok(()),
                Some(silence_max) => {
                    let watchdog = move || watch(&watching, silence_max);
                    thread::Builder::new().name("sftp-watch".into()).spawn(watchdog).map(drop)
                }
            })
        };
        let started = spawned.map_err(SessionError::from);
        match started.and_then(|()| Client::new(&shared, extensions)) {
            Ok(client) => Ok(Self { client, closer: Some(closer) }),
            Err(cause) => {
                shared.end(SessionError::Stopped);
                Err(StartError::Session { host, cause })
            }
        }
    }

    /// The client of this session.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The host's name for messages.
    pub fn peer(&self) -> &str {
        self.closer.as_ref().map(Closer::peer).unwrap_or_default()
    }

    /// True if the session was lost.
    pub fn has_ended(&self) -> bool {
        self.client.shared().has_ended()
    }

    /// True if the session was neither lost nor ended by this side.
    pub fn is_open(&self) -> bool {
        self.client.shared().is_open()
    }

    /// Ends the session after all needed answers have arrived. Waits at most a second for ssh to
    /// exit.
    pub fn finish(mut self) {
        self.client.shared().close_input();
        if let Some(closer) = self.closer.take() {
            closer.leave();
        }
    }

    /// Returns why the session was lost, as far as ssh knows.
    pub fn explain(mut self) -> ConnectError {
        let shared = self.client.shared();
        shared.close_input();
        let lost = || ConnectError::Lost { host: "the server".into(), detail: String::new() };
        self.closer.take().map_or_else(lost, Closer::explain)
    }

    /// The error of this session with `host` after its end with `cause`. For a broken connection,
    /// ssh's own error says more.
    pub fn explain_end(self, host: String, cause: SessionError) -> StartError {
        match cause {
            SessionError::Closed | SessionError::Broken(_) => self.explain().into(),
            cause => StartError::Session { host, cause },
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.closer.is_some() {
            self.client.shared().end(SessionError::Stopped);
        }
    }
}

/// Reads the server's greeting.
fn greeting(reader: &mut BufReader<impl Read>) -> Result<Extensions, SessionError> {
    let mut header = [0; 9];
    reader.read_exact(&mut header)?;
    let header = match Header::decode(header) {
        Ok(header) => header,
        // A shell's startup file prints text before the server starts. Only bytes that have arrived
        // are read, as no more may follow.
        Err(PacketError::TooLong { .. }) if is_text(header[0]) => {
            let rest = reader.buffer().iter().copied();
            let text: Vec<u8> = header.into_iter().chain(rest).take(TEXT_LEN_MAX).collect();
            let line = text.split(|b| *b == b'\n').next().unwrap_or_default();
            return Err(SessionError::NotSftp { text: escape_bytes(line.trim_ascii_end()) });
        }
        Err(error) => return Err(error.into()),
    };
    if header.kind != ReplyKind::Version {
        let wrong = PacketError::WrongReply { request: "the greeting", reply: header.kind };
        return Err(wrong.into());
    }
    if header.id != VERSION {
        return Err(SessionError::Version(header.id));
    }
    let mut payload = vec![0; header.payload_len as usize];
    reader.read_exact(&mut payload)?;
    Ok(decode_version(&payload)?)
}

fn is_text(byte: u8) -> bool {
    byte.is_ascii_graphic() || byte.is_ascii_whitespace() || byte == 0x1b
}

/// Requests that were sent or queued, and whose answers are taken together.
pub struct Batch {
    port: Port,
    /// For messages.
    path: Box<[u8]>,
    operations: Vec<&'static str>,
    /// Why the session did not take the rest of them.
    unsent: Option<SftpError>,
}

impl Batch {
    /// An empty batch about the file at `path`.
    pub(crate) fn new(port: Port, path: &[u8]) -> Self {
        Self { port, path: path.into(), operations: Vec::new(), unsent: None }
    }

    /// A batch of these requests. From the first one that [`Client::check`] rejects on, none is
    /// sent.
    pub(crate) fn of(client: &Client, path: &[u8], requests: &[Request<'_>]) -> Self {
        let mut batch = Self::new(client.port(), path);
        for request in requests {
            match client.check(request, path) {
                Ok(()) => batch.send(request, Payload::NONE),
                Err(cause) => batch.refuse(request, SftpError::new(request, path, cause)),
            }
        }
        batch
    }

    /// Adds a request. It may stay queued until [`Self::flush`] or [`Self::wait`].
    pub(crate) fn send(&mut self, request: &Request<'_>, payload: Payload<'_>) {
        if let Some(unsent) = self.unsent.clone() {
            return self.refuse(request, unsent);
        }
        let tag = self.operations.len() as u64;
        match self.port.send(tag, request, payload) {
            Ok(()) => self.operations.push(request.operation()),
            Err(error) => self.refuse(request, SftpError::new(request, &self.path, error)),
        }
    }

    /// Adds a request that is not sent, like all that follow.
    fn refuse(&mut self, request: &Request<'_>, error: SftpError) {
        self.operations.push(request.operation());
        self.unsent.get_or_insert(error);
    }

    /// Sends queued requests.
    pub(crate) fn flush(&self) {
        // If that fails, every request gets the reason as its answer.
        let _ = self.port.flush();
    }

    /// Waits for all answers, in the order of their requests.
    pub(crate) fn wait(mut self) -> Vec<Result<Answer>> {
        let mut answers: Vec<_> = self.operations.iter().map(|_| None).collect();
        while let Some((tag, answer)) = self.port.next() {
            let failed = |cause| SftpError::of(self.operations[tag as usize], &self.path, cause);
            answers[tag as usize] = Some(answer.map_err(failed));
        }
        let stopped = || SftpError::of("reach", &self.path, SessionError::Stopped);
        let unsent = || Err(self.unsent.clone().unwrap_or_else(stopped));
        answers.into_iter().map(|answer| answer.unwrap_or_else(unsent)).collect()
    }

    /// Waits for the answers to exactly `N` requests.
    pub(crate) fn answers<const N: usize>(self) -> [Result<Answer>; N] {
        self.wait().try_into().expect("one answer for each request")
    }
}

impl Answer {
    pub(crate) fn handle(self) -> Result<Box<[u8]>> {
        expected(if let Self::Handle(handle) = self { Some(handle) } else { None })
    }

    pub(crate) fn attrs(self) -> Result<Attrs> {
        expected(if let Self::Attrs(attrs) = self { Some(attrs) } else { None })
    }

    pub(crate) fn path(self) -> Result<Box<[u8]>> {
        expected(if let Self::Path(path) = self { Some(path) } else { None })
    }

    pub(crate) fn fs_stats(self) -> Result<FsStats> {
        expected(if let Self::FsStats(stats) = self { Some(stats) } else { None })
    }
}

/// The content of an answer. [`crate::codec::Expected`] admits no other kind, so the error never
/// occurs.
fn expected<T>(content: Option<T>) -> Result<T> {
    let wrong = || SessionError::from(PacketError::EmptySuccess("a request"));
    content.ok_or_else(|| SftpError::of("understand the answer about", b"a file", wrong()))
}

/// Passes on replies until the stream ends or the server breaks the protocol. Then ends the
/// session. Waits for nothing but the server.
fn read_replies(shared: &SessionState, reader: BufReader<impl Read>) {
    let activity = Arc::clone(&shared.activity);
    let mut reader = Counted { reader, activity };
    let mut payload = Vec::new();
    loop {
        if let Err(error) = take_reply(shared, &mut reader, &mut payload) {
            shared.end(error);
            return;
        }
    }
}

fn take_reply(
    shared: &SessionState,
    reader: &mut impl Read,
    payload: &mut Vec<u8>,
) -> Result<(), SessionError> {
    let mut header = [0; HEADER_LEN];
    reader.read_exact(&mut header)?;
    let header = Header::decode(header)?;
    let waiting = shared.take(header.id).ok_or(PacketError::UnknownId(header.id))?;
    let answer = read_answer(shared, reader, &header, &waiting, payload);
    let end = answer.as_ref().err().cloned();
    waiting.deliver(answer);
    end.map_or(Ok(()), Err)
}

fn read_answer(
    shared: &SessionState,
    reader: &mut impl Read,
    header: &Header,
    waiting: &InFlight,
    payload: &mut Vec<u8>,
) -> Result<Answer, SessionError> {
    waiting.expected.check(header, waiting.operation)?;
    if let (Expected::Data { len_max }, ReplyKind::Data) = (waiting.expected, header.kind) {
        let mut prefix = [0; 4];
        if header.payload_len < prefix.len() as u32 {
            return Err(PacketError::Truncated.into());
        }
        reader.read_exact(&mut prefix)?;
        let len = data_len(header, prefix, len_max)?;
        let mut buffer = shared.buffer(len);
        reader.read_exact(&mut buffer[..len])?;
        return Ok(Answer::Data { buffer, len });
    }
    payload.resize(header.payload_len as usize, 0);
    reader.read_exact(payload)?;
    Ok(waiting.expected.decode(header.kind, payload, waiting.operation)?)
}

/// A stream that counts its reads, to reveal silence.
struct Counted<R> {
    reader: R,
    activity: Arc<Activity>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let len = self.reader.read(buf)?;
        self.activity.count();
        Ok(len)
    }
}

/// How many checks are made within the timeout for silence.
const CHECKS: u32 = 8;

/// Factor of the timeout during a request that can take minutes, such as fsync of a large file.
/// OpenSSH's server does nothing else meanwhile. If the host itself is lost, ssh reports that.
pub const SLOW_FACTOR: u32 = 10;

/// Watches until the session has ended. It counts checks instead of time. So it excludes the time
/// in which this process is suspended, and in which it waits for a local file to send.
fn watch(shared: &SessionState, silence_max: Duration) {
    let mut last = shared.activity.moved();
    let mut quiet_checks = 0;
    while let Some(waits) = shared.wait_ended(silence_max / CHECKS) {
        let now = shared.activity.moved();
        if now != last || waits == PendingState::No || shared.activity.is_reading_file() {
            last = now;
            quiet_checks = 0;
            continue;
        }
        quiet_checks += 1;
        let factor = if waits == PendingState::Slow { SLOW_FACTOR } else { 1 };
        if quiet_checks >= CHECKS.saturating_mul(factor) {
            let silence = silence_max.saturating_mul(factor);
            shared.end(SessionError::Silent { seconds: silence.as_secs() });
            return;
        }
    }
}
