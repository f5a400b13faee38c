//! The file of rsync's `--log-file`, in addition to the report. Lines are appended, each with its
//! time.

use super::{Detail, Output, Report, Statement};
use crate::error::{CommandError, ErrorKind, ExitCode};
use crate::lines::{Itemized, Listed, LogWish, SyncFate};
use crate::progress::Counts;
use crate::quantity;
use haul_engine::LinkEvent;
use haul_model::{Fault, Kind, Side, escape_bytes, escape_controls, escape_text};
use parking_lot::{Mutex, MutexGuard};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// The log file, and the format of its lines about entries.
pub(crate) struct LogFile {
    wish: LogWish,
    file: Mutex<(File, io::Result<()>)>,
}

impl LogFile {
    /// Opens the log to append, or creates it.
    ///
    /// # Errors
    /// If that fails, or the path contains a link that is not followed.
    pub(crate) fn open(wish: &LogWish) -> Result<Arc<Self>, CommandError> {
        let opened = haul_engine::append_to_named(Path::new(&wish.path), wish.links);
        let file = opened.map_err(|error| {
            let fault = Fault::from_io(Side::Destination, "open the log", &error);
            let path = escape_bytes(wish.path.as_bytes());
            CommandError::usage(format!("{path}: {}", fault.message)).of_named(&fault)
        })?;
        Ok(Arc::new(Self { wish: wish.clone(), file: Mutex::new((file, Ok(()))) }))
    }

    /// True if an entry with this fate is logged.
    pub(crate) fn tells(&self, kind: &Kind, fate: SyncFate<'_>) -> bool {
        self.wish.lines.is_logged(kind, fate)
    }

    /// True if the log's lines show attributes.
    pub(crate) fn wants_attributes(&self) -> bool {
        self.wish.lines.wants_attributes()
    }

    /// True if the log's lines show hashes.
    pub(crate) fn wants_hashes(&self) -> bool {
        self.wish.lines.wants_hashes()
    }

    /// Logs an entry.
    pub(crate) fn entry(
        &self,
        path: &[u8],
        kind: &Kind,
        listed: &Listed,
        fate: SyncFate<'_>,
        goes_out: bool,
    ) {
        let told = Itemized { lines: &self.wish.lines, path, kind, listed, fate, goes_out };
        self.lines(&String::from_utf8_lossy(&told.text()));
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

    /// The error if the log could not be written.
    fn failure(&self) -> Option<CommandError> {
        let mut file = self.file.lock();
        let error = std::mem::replace(&mut file.1, Ok(())).err()?;
        let fault = Fault::from_io(Side::Destination, "write to the log", &error);
        let path = escape_bytes(self.wish.path.as_bytes());
        Some(CommandError::new(ErrorKind::Io, format!("{path}: {}", fault.message)))
    }
}

/// A report that is also written to a log.
pub(crate) struct Logged {
    report: Box<dyn Report>,
    log: Arc<LogFile>,
}

impl Logged {
    /// Wraps `report` and copies its errors to `log`.
    pub(crate) fn new(report: Box<dyn Report>, log: Arc<LogFile>) -> Self {
        Self { report, log }
    }

    fn log_fault(&self, host: Option<&str>, path: &[u8], fault: &Fault) {
        let place = host.map(|host| format!("{host}:")).unwrap_or_default();
        let message = escape_text(&fault.message);
        self.log.lines(&format!("haul: {place}{}: {message}", escape_bytes(path)));
    }
}

impl Report for Logged {
    fn tell(&self, statement: &dyn Statement) {
        self.report.tell(statement);
    }

    fn fault_with(&self, host: Option<String>, path: &[u8], fault: &Fault, hint: Option<&str>) {
        self.log_fault(host.as_deref(), path, fault);
        self.report.fault_with(host, path, fault, hint);
    }

    fn entry_fault(&self, path: &[u8], host: Option<String>, there: &[u8], fault: &Fault) {
        self.log_fault(host.as_deref(), there, fault);
        self.report.entry_fault(path, host, there, fault);
    }

    fn not_removed(&self, path: &[u8], host: Option<String>, there: &[u8], fault: &Fault) {
        self.log_fault(host.as_deref(), there, fault);
        self.report.not_removed(path, host, there, fault);
    }

    fn warning(&self, path: &[u8], message: &str) {
        let (shown, text) = (escape_bytes(path), escape_text(message));
        self.log.lines(&format!("haul: warning: {shown}: {text}"));
        self.report.warning(path, message);
    }

    fn link(&self, news: LinkEvent<'_>) {
        self.report.link(news);
    }

    fn command_error(&self, error: &CommandError) {
        self.log.lines(&format!("haul: {}", escape_controls(&error.to_string())));
        self.report.command_error(error);
    }

    fn detail(&self) -> Detail {
        self.report.detail()
    }

    fn draws(&self) -> bool {
        self.report.draws()
    }

    fn progress(&self, counts: Option<Counts>) {
        self.report.progress(counts);
    }

    fn refused(&self, error: &CommandError, figures: Option<&dyn Statement>) -> ExitCode {
        self.log.lines(&format!("haul: {}", escape_controls(&error.to_string())));
        self.report.refused(error, figures)
    }

    fn output(&self) -> MutexGuard<'_, Output> {
        self.report.output()
    }

    fn conclude(&self, code: ExitCode, figures: &dyn Statement) -> ExitCode {
        let mut code = self.report.conclude(code, figures);
        self.log.lines(&format!("ended with exit code {}", code.number()));
        if let Some(error) = self.log.failure() {
            self.report.command_error(&error);
            if code.number() == 0 {
                code = ExitCode::Rsync(23);
            }
        }
        code
    }
}
