//! The audit log: a JSON line for each connection and each job.

use super::place::failed;
use super::records::{Client, Right, now_text};
use crate::error::CommandError;
use haul_engine::append_to_private;
use haul_model::escape_bytes;
use serde::Serialize;
use std::fs::File;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// An open log.
pub(super) struct Audit {
    /// `None` in a child.
    file: Option<File>,
    /// The last line may have been written in part.
    is_cut_off: bool,
}

/// A client, as each line names it.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Who {
    pub(super) client: String,
    pub(super) from: SocketAddr,
    /// Escaped.
    pub(super) root: String,
    pub(super) right: Right,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) user: Option<String>,
}

impl Who {
    pub(super) fn new(client: &Client, from: SocketAddr) -> Self {
        Self {
            client: client.name.clone(),
            from: SocketAddr::new(from.ip().to_canonical(), from.port()),
            root: escape_bytes(client.root.as_os_str().as_bytes()),
            right: client.right,
            user: client.user.clone(),
        }
    }
}

/// An event of the log.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum Event<'a> {
    /// A client has connected, and is served by the process `pid`.
    Connected { pid: u32 },
    /// It is not served.
    Refused { reason: &'a str },
    /// A job has ended.
    Job(&'a JobReport),
    /// The client has asked for metadata, lists or hashes, and begun no job.
    Requests { count: u64 },
    /// The connection has ended.
    Disconnected { seconds: u64, outcome: &'a str },
    /// An invitation was accepted.
    Enrolled { name: &'a str },
}

/// The end of a job, as the process that did it reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, serde::Deserialize)]
pub(super) struct JobReport {
    pub(super) task: String,
    /// The side of the job that was here: it sent or received.
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
    who: &'a Who,
}

impl Audit {
    /// Appends to the file `path`. On its way no link of another user is followed. A new file is
    /// private.
    ///
    /// # Errors
    /// Those of the file system.
    pub(super) fn open(path: &Path) -> Result<Self, CommandError> {
        append_to_private(path)
            .map(|file| Self { file: Some(file), is_cut_off: false })
            .map_err(|error| failed(path, &error))
    }

    /// Closes this process's copy of the file.
    pub(super) fn abandon(&mut self) {
        self.file = None;
    }

    /// Adds a line. A log that can't be written is reported on standard error: jobs go on.
    pub(super) fn tell(&mut self, who: &Who, event: Event<'_>) {
        let Some(file) = &mut self.file else { return };
        let line = Line { time: now_text(), event, who };
        let written = serde_json::to_vec(&line).map_err(io::Error::from).and_then(|mut line| {
            line.push(b'\n');
            if self.is_cut_off {
                line.insert(0, b'\n');
            }
            file.write_all(&line)
        });
        self.is_cut_off = written.is_err();
        if let Err(error) = written {
            let _ = writeln!(io::stderr(), "haul server: can't write the audit log: {error}");
        }
    }
}
