//! A session with a server, from greeting to end.

mod activity;
mod batch;
mod outbox;
mod payload;
mod port;
mod reader;
mod shared;
mod watchdog;

pub(crate) use batch::Batch;
pub(crate) use payload::{FileRange, Payload};
pub(crate) use port::Port;
pub(crate) use shared::{Buf, SessionState};
pub use watchdog::SLOW_FACTOR;

use crate::Client;
use crate::codec::{Extensions, Header, INIT, PacketError, ReplyKind, VERSION, decode_version};
use crate::error::{SessionError, StartError};
use haul_model::escape_bytes;
use haul_net::{Closer, ConnectError, Connection};
use std::io::{BufReader, Read, Write};
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
            let read = move || reader::run(&reading, reader);
            let read = thread::Builder::new().name("sftp-replies".into()).spawn(read);
            read.and_then(|_| match silence_max {
                None => Ok(()),
                Some(silence_max) => {
                    let watchdog = move || watchdog::run(&watching, silence_max);
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
