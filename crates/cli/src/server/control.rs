//! Requests to a running server, over a socket that only its user can reach: a word, answered
//! by a line of JSON.

use super::Place;
use super::place::failed;
use crate::error::{CommandError, ErrorKind};
use haul::files;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, Permissions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::Duration;

/// How long the server waits for the word.
const WORD_MAX: Duration = Duration::from_millis(200);

/// How long a client waits for the answer.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// The longest answer, in bytes.
const ANSWER_LEN_MAX: u64 = 1 << 20;

/// A request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Request {
    /// The state of the server.
    Status,
    /// Read the settings and the records again.
    Reload,
    /// End, in order.
    Stop,
}

impl Request {
    const ALL: [(Self, &'static str); 3] =
        [(Self::Status, "status"), (Self::Reload, "reload"), (Self::Stop, "stop")];

    fn word(self) -> &'static str {
        Self::ALL.iter().find(|(request, _)| *request == self).map_or("", |(_, word)| word)
    }
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Status {
    pub(crate) pid: u32,
    pub(crate) version: String,
    /// The addresses of TCP.
    pub(crate) listen: Vec<SocketAddr>,
    /// The addresses of QUIC.
    #[serde(default)]
    pub(crate) quic: Vec<SocketAddr>,
    /// The process that serves QUIC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) quic_process: Option<u32>,
    pub(crate) key: haul_net::PublicKey,
    pub(crate) clients: usize,
    pub(crate) jobs: Vec<JobStatus>,
    /// Why a reload was refused; the settings before it stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
}

/// A job that runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct JobStatus {
    pub(crate) client: String,
    pub(crate) from: SocketAddr,
    pub(crate) pid: u32,
    pub(crate) seconds: u64,
}

/// The server's end.
pub(super) struct Control {
    listener: UnixListener,
    path: PathBuf,
    /// Held as long as the server runs.
    _lock: File,
}

impl Control {
    /// Listens.
    ///
    /// # Errors
    /// If another server of this user runs, and those of the file system.
    pub(super) fn bind(place: &Place) -> Result<Self, CommandError> {
        let Some(lock) = files::try_lock(&place.server_lock())? else {
            return Err(CommandError::new(ErrorKind::Io, "a server of this user runs already")
                .with_hint("'haul server status' shows it, 'haul server stop' ends it"));
        };
        // With the lock, a socket that is there belongs to nobody.
        let path = place.control();
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(failed(&path, &error));
            }
            _ => {}
        }
        let bound = UnixListener::bind(&path).and_then(|listener| {
            // Nobody else enters the directory; this is the second bolt.
            fs::set_permissions(&path, Permissions::from_mode(0o600))?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        });
        let listener = bound.map_err(|error| failed(&path, &error))?;
        Ok(Self { listener, path, _lock: lock })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// The next request, and the way to answer it.
    pub(super) fn next(&self) -> Option<(Request, UnixStream)> {
        let (stream, _) = self.listener.accept().ok()?;
        stream.set_nonblocking(false).ok()?;
        stream.set_read_timeout(Some(WORD_MAX)).ok()?;
        stream.set_write_timeout(Some(WORD_MAX)).ok()?;
        let mut word = String::new();
        BufReader::new((&stream).take(16)).read_line(&mut word).ok()?;
        let request = Request::ALL.iter().find(|(_, known)| *known == word.trim_end())?.0;
        Some((request, stream))
    }

    /// Removes the socket.
    pub(super) fn remove(&self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// True if a server runs.
///
/// # Errors
/// Those of the file system.
pub(crate) fn is_running(place: &Place) -> Result<bool, CommandError> {
    Ok(files::try_lock(&place.server_lock())?.is_none())
}

/// Answers a request.
pub(super) fn answer(mut stream: UnixStream, status: &Status) {
    // Who asked may be gone.
    let _ = serde_json::to_vec(status).map(|line| stream.write_all(&line));
}

/// Asks the running server; `None` if none runs.
///
/// # Errors
/// When it does not answer.
pub(crate) fn ask(place: &Place, request: Request) -> Result<Option<Status>, CommandError> {
    let path = place.control();
    let mut stream = match UnixStream::connect(&path) {
        Ok(stream) => stream,
        Err(error)
            if [io::ErrorKind::NotFound, io::ErrorKind::ConnectionRefused]
                .contains(&error.kind()) =>
        {
            return Ok(None);
        }
        Err(error) => return Err(failed(&path, &error)),
    };
    let answer = || -> io::Result<Status> {
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        stream.write_all(format!("{}\n", request.word()).as_bytes())?;
        let mut answer = Vec::new();
        stream.take(ANSWER_LEN_MAX).read_to_end(&mut answer)?;
        Ok(serde_json::from_slice(&answer)?)
    };
    answer().map(Some).map_err(|error| {
        CommandError::new(ErrorKind::Io, format!("the server does not answer: {error}"))
    })
}
