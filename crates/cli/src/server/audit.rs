//! The audit log: a JSON line for each connection and each job.

use super::paths::failed;
use super::records::{Client, Right, timestamp_now};
use crate::error::CommandError;
use haul::files::shown;
use haul_engine::append_to_private;
use serde::Serialize;
use std::fs::File;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;

/// The open audit log.
pub(super) struct Audit {
    /// `None` in a child.
    file: Option<File>,
    /// The last line may be incomplete.
    is_truncated: bool,
}

/// The fields that identify a client in each line.
#[derive(Debug, Clone, Serialize)]
pub(super) struct ClientInfo {
    pub(super) client: String,
    pub(super) from: SocketAddr,
    /// The escaped path.
    pub(super) root: String,
    pub(super) right: Right,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) user: Option<String>,
}

impl ClientInfo {
    pub(super) fn new(client: &Client, from: SocketAddr) -> Self {
        Self {
            client: client.name.clone(),
            from: SocketAddr::new(from.ip().to_canonical(), from.port()),
            root: shown(&client.root),
            right: client.right,
            user: client.user.clone(),
        }
    }
}

#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum Event<'a> {
    /// A client connected, and the process `pid` serves it.
    Connected { pid: u32 },
    /// A client was refused.
    Refused { reason: &'a str },
    /// A job ended.
    Job(&'a JobReport),
    /// The client sent requests for metadata, lists or hashes, but started no job.
    Requests { count: u64 },
    /// The connection ended.
    Disconnected { seconds: u64, outcome: &'a str },
    /// A guest accepted an invitation.
    Enrolled { name: &'a str },
}

/// The result of a job, as its process reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, serde::Deserialize)]
pub(super) struct JobReport {
    pub(super) task: String,
    /// The server's role in the job: it sent or received.
    pub(super) role: String,
    pub(super) entries: u64,
    pub(super) bytes: u64,
    pub(super) failed: u64,
    pub(super) outcome: String,
}

#[derive(Serialize)]
struct Line<'a> {
    time: String,
    #[serde(flatten)]
    event: Event<'a>,
    #[serde(flatten)]
    client_info: &'a ClientInfo,
}

impl Audit {
    /// Opens the file `path` to append. Links of other users are not followed. A new file is
    /// private.
    ///
    /// # Errors
    /// Errors of the file system.
    pub(super) fn open(path: &Path) -> Result<Self, CommandError> {
        append_to_private(path)
            .map(|file| Self { file: Some(file), is_truncated: false })
            .map_err(|error| failed(path, &error))
    }

    /// Closes the file in this process.
    pub(super) fn close_in_child(&mut self) {
        self.file = None;
    }

    /// Appends a line. A write error is reported on standard error, and jobs continue.
    pub(super) fn log(&mut self, client_info: &ClientInfo, event: Event<'_>) {
        let Some(file) = &mut self.file else { return };
        let line = Line { time: timestamp_now(), event, client_info };
        let written = serde_json::to_vec(&line).map_err(io::Error::from).and_then(|mut line| {
            line.push(b'\n');
            if self.is_truncated {
                line.insert(0, b'\n');
            }
            file.write_all(&line)
        });
        self.is_truncated = written.is_err();
        if let Err(error) = written {
            let _ = writeln!(io::stderr(), "haul server: can't write the audit log: {error}");
        }
    }
}
