//! Requests to a running server, over a socket that only its user can reach. A request is a word,
//! the answer a line of JSON.

use super::ServerPaths;
use super::paths::failed;
use crate::error::CommandError;
use haul::files;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, Permissions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Time limit for reading a request, and for sending the answer.
const WORD_MAX: Duration = Duration::from_millis(200);

/// Maximum time to wait for an answer.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Maximum length of an answer, in bytes.
const ANSWER_LEN_MAX: u64 = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Request {
    /// Report the state of the server.
    Status,
    /// Reload the settings and the records.
    Reload,
    /// Stop cleanly.
    Stop,
}

impl Request {
    const ALL: [(Self, &'static str); 3] =
        [(Self::Status, "status"), (Self::Reload, "reload"), (Self::Stop, "stop")];

    fn word(self) -> &'static str {
        Self::ALL.iter().find(|(request, _)| *request == self).map_or("", |(_, word)| word)
    }
}

/// The state of a server, in answer to each request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Status {
    pub(crate) pid: u32,
    pub(crate) version: String,
    /// The TCP addresses.
    pub(crate) listen: Vec<SocketAddr>,
    /// The QUIC addresses.
    #[serde(default)]
    pub(crate) quic: Vec<SocketAddr>,
    /// The process ID of the QUIC process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) quic_process: Option<u32>,
    pub(crate) key: haul_net::PublicKey,
    pub(crate) clients: usize,
    pub(crate) jobs: Vec<JobStatus>,
    /// The error of a reload; the earlier settings stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
}

/// A running job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct JobStatus {
    pub(crate) client: String,
    pub(crate) from: SocketAddr,
    pub(crate) pid: u32,
    pub(crate) seconds: u64,
}

/// The server's end of the socket.
pub(super) struct Control {
    listener: UnixListener,
    path: PathBuf,
    /// Held while the server runs.
    _lock: File,
}

impl Control {
    /// Opens the socket.
    ///
    /// # Errors
    /// If another server of this user runs, and errors of the file system.
    pub(super) fn bind(paths: &ServerPaths) -> Result<Self, CommandError> {
        let Some(lock) = files::try_lock(&paths.server_lock())? else {
            return Err(CommandError::io("a server of this user runs already")
                .with_hint("'haul server status' shows it, 'haul server stop' ends it"));
        };
        // The lock is held, so an existing socket is left over from an earlier server.
        let path = paths.control();
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(failed(&path, &error));
            }
            _ => {}
        }
        let bound = UnixListener::bind(&path).and_then(|listener| {
            // The directory is already private; this is a second protection.
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

    /// The next request, and the stream for its answer.
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

    pub(super) fn remove(&self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// True if a server runs.
///
/// # Errors
/// Errors of the file system.
pub(crate) fn is_running(paths: &ServerPaths) -> Result<bool, CommandError> {
    Ok(files::try_lock(&paths.server_lock())?.is_none())
}

pub(super) fn answer(mut stream: UnixStream, status: &Status) {
    // The requester may have disconnected.
    let _ = serde_json::to_vec(status).map(|line| stream.write_all(&line));
}

/// Sends a request to the running server; `None` if none runs.
///
/// # Errors
/// If the server does not answer.
pub(crate) fn ask(paths: &ServerPaths, request: Request) -> Result<Option<Status>, CommandError> {
    use io::ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset, NotFound};
    let path = paths.control();
    let begin = Instant::now();
    loop {
        let stream = match UnixStream::connect(&path) {
            Ok(stream) => stream,
            Err(error) if [NotFound, ConnectionRefused].contains(&error.kind()) => return Ok(None),
            Err(error) => return Err(failed(&path, &error)),
        };
        match ask_once(stream, request) {
            Ok(status) => return Ok(Some(status)),
            // This process was too slow for the server, which waits only for `WORD_MAX`.
            Err(error)
                if [BrokenPipe, ConnectionReset].contains(&error.kind())
                    && begin.elapsed() < ANSWER_MAX => {}
            Err(error) => {
                return Err(CommandError::io(format!("the server does not answer: {error}")));
            }
        }
    }
}

fn ask_once(mut stream: UnixStream, request: Request) -> io::Result<Status> {
    stream.set_read_timeout(Some(ANSWER_MAX))?;
    stream.write_all(format!("{}\n", request.word()).as_bytes())?;
    let mut answer = Vec::new();
    stream.take(ANSWER_LEN_MAX).read_to_end(&mut answer)?;
    Ok(serde_json::from_slice(&answer)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn a_request_that_came_too_late_is_sent_again() {
        let dir = tempfile::tempdir().unwrap();
        let paths = ServerPaths::below(dir.path());
        let status = Status {
            pid: 1,
            version: "1".to_owned(),
            listen: Vec::new(),
            quic: Vec::new(),
            quic_process: None,
            key: haul_net::Identity::new().unwrap().key(),
            clients: 0,
            jobs: Vec::new(),
            error: None,
        };
        let listener = UnixListener::bind(paths.control()).unwrap();
        thread::scope(|scope| {
            let asked = scope.spawn(|| ask(&paths, Request::Reload).unwrap());
            // An unread word makes the client's read fail with `ConnectionReset`.
            let (late, _) = listener.accept().unwrap();
            late.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            (&late).take(1).read_to_end(&mut Vec::new()).unwrap();
            drop(late);
            let (stream, _) = listener.accept().unwrap();
            let mut word = String::new();
            BufReader::new(&stream).read_line(&mut word).unwrap();
            assert_eq!(word, "reload\n");
            answer(stream, &status);
            assert_eq!(asked.join().unwrap().as_ref(), Some(&status));
        });
    }
}
