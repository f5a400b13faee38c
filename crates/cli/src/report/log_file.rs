//! The file of rsync's `--log-file`, in addition to the report. Lines are appended, each with its
//! time.

use crate::error::{CommandError, ExitCode};
use crate::quantity;
use haul_engine::Links;
use haul_model::{Fault, Side, escape_bytes};
use parking_lot::Mutex;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// The log file.
pub(crate) struct LogFile {
    path: OsString,
    file: Mutex<(File, io::Result<()>)>,
}

impl LogFile {
    /// Opens the log at `path` to append, or creates it. Only `links` are followed to it.
    ///
    /// # Errors
    /// If that fails, or the path contains a link that is not followed.
    pub(crate) fn open(path: &OsStr, links: Links) -> Result<Arc<Self>, CommandError> {
        let opened = haul_engine::append_to_named(Path::new(path), links);
        let file = opened.map_err(|error| {
            let fault = Fault::from_io(Side::Destination, "open the log", &error);
            let path = escape_bytes(path.as_bytes());
            CommandError::usage(format!("{path}: {}", fault.message)).for_named_file(&fault)
        })?;
        Ok(Arc::new(Self { path: path.to_owned(), file: Mutex::new((file, Ok(()))) }))
    }

    /// Logs each line of `text`, with the time. A write error is reported at the end.
    pub(crate) fn lines(&self, text: &str) {
        let time = quantity::local_now();
        let id = std::process::id();
        let line = |line: &str| format!("{time} [{id}] {line}\n");
        let all: String = text.lines().map(line).collect();
        let mut file = self.file.lock();
        if file.1.is_ok() {
            // Written in one call, so that a killed process leaves complete lines.
            file.1 = file.0.write_all(all.as_bytes());
        }
    }

    /// Logs the end of the command. Returns an error if the log could not be written.
    pub(super) fn end(&self, code: ExitCode) -> Option<CommandError> {
        self.lines(&format!("ended with exit code {}", code.number()));
        let mut file = self.file.lock();
        let error = std::mem::replace(&mut file.1, Ok(())).err()?;
        let fault = Fault::from_io(Side::Destination, "write to the log", &error);
        let path = escape_bytes(self.path.as_bytes());
        Some(CommandError::io(format!("{path}: {}", fault.message)))
    }
}
