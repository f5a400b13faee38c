//! The file of rsync's `--log-file`, in addition to the report. Lines are appended, each with its
//! time.

use super::{Detail, Message, Output, Report};
use crate::error::{CommandError, ErrorKind, ExitCode};
use crate::lines::{Itemized, Listed, LogConfig, SyncFate};
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
    pub(crate) config: LogConfig,
    file: Mutex<(File, io::Result<()>)>,
}

impl LogFile {
    /// Opens the log to append, or creates it.
    ///
    /// # Errors
    /// If that fails, or the path contains a link that is not followed.
    pub(crate) fn open(config: &LogConfig) -> Result<Arc<Self>, CommandError> {
        let opened = haul_engine::append_to_named(Path::new(&config.path), config.links);
        let file = opened.map_err(|error| {
            let fault = Fault::from_io(Side::Destination, "open the log", &error);
            let path = escape_bytes(config.path.as_bytes());
            CommandError::usage(format!("{path}: {}", fault.message)).for_named_file(&fault)
        })?;
        Ok(Arc::new(Self { config: config.clone(), file: Mutex::new((file, Ok(()))) }))
    }

    /// Logs an entry.
    pub(crate) fn entry(
        &self,
        path: &[u8],
        kind: &Kind,
        listed: &Listed,
        fate: SyncFate<'_>,
        is_outgoing: bool,
    ) {
        let itemized =
            Itemized { lines: &self.config.lines, path, kind, listed, fate, is_outgoing };
        self.lines(&String::from_utf8_lossy(&itemized.text()));
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
        let path = escape_bytes(self.config.path.as_bytes());
        Some(CommandError::new(ErrorKind::Io, format!("{path}: {}", fault.message)))
    }
}

/// A report whose errors are also written to a log.
pub(crate) struct LoggedReport {
    pub(crate) report: Box<dyn Report>,
    pub(crate) log: Arc<LogFile>,
}

impl LoggedReport {
    fn log_fault(&self, host: Option<&str>, path: &[u8], fault: &Fault) {
        let place = host.map(|host| format!("{host}:")).unwrap_or_default();
        let message = escape_text(&fault.message);
        self.log.lines(&format!("haul: {place}{}: {message}", escape_bytes(path)));
    }
}

impl Report for LoggedReport {
    fn message(&self, message: &dyn Message) {
        self.report.message(message);
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

    fn link(&self, notice: LinkEvent<'_>) {
        self.report.link(notice);
    }

    fn command_error(&self, error: &CommandError) {
        self.log.lines(&format!("haul: {}", escape_controls(&error.to_string())));
        self.report.command_error(error);
    }

    fn detail(&self) -> Detail {
        self.report.detail()
    }

    fn draws_progress(&self) -> bool {
        self.report.draws_progress()
    }

    fn progress(&self, counts: Option<Counts>) {
        self.report.progress(counts);
    }

    fn abort(&self, error: &CommandError, figures: Option<&dyn Message>) -> ExitCode {
        self.log.lines(&format!("haul: {}", escape_controls(&error.to_string())));
        self.report.abort(error, figures)
    }

    fn output(&self) -> MutexGuard<'_, Output> {
        self.report.output()
    }

    fn conclude(&self, code: ExitCode, figures: &dyn Message) -> ExitCode {
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
