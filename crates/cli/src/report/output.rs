//! The output of a report: buffered standard output, and errors above the progress line.

use super::{HostPath, LogFile};
use crate::error::{CommandError, ExitCode};
use crate::progress::Screen;
use crate::stdout::Stdout;
use haul_model::{Fault, escape_bytes, escape_controls, escape_text};
use std::sync::Arc;

/// Writes the output of one report, and records failures.
pub(crate) struct Output {
    screen: Screen,
    stdout: Stdout,
    hints_given: Vec<String>,
    failed: bool,
    /// The log that also has the faults, warnings and errors.
    pub(crate) log: Option<Arc<LogFile>>,
}

impl Output {
    /// Creates an empty output on `screen`.
    pub(super) fn new(screen: &Screen) -> Self {
        let (stdout, hints_given) = (Stdout::default(), Vec::new());
        Self { screen: screen.clone(), stdout, hints_given, failed: false, log: None }
    }

    /// Adds bytes to standard output. They may be written later.
    pub(super) fn print(&mut self, bytes: &[u8]) {
        self.stdout.push(bytes);
        if self.stdout.is_full() {
            self.flush();
        }
    }

    /// Writes buffered output.
    pub(crate) fn flush(&mut self) {
        if !self.stdout.is_empty() {
            let stdout = &mut self.stdout;
            self.screen.above(|| stdout.flush());
        }
    }

    /// True if standard output can't be written any more.
    pub(crate) fn is_broken(&self) -> bool {
        self.stdout.is_broken()
    }

    /// Records that an entry has failed.
    pub(super) fn fail(&mut self) {
        self.failed = true;
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failed
    }

    /// Records and logs a fault. Returns its line.
    pub(super) fn fault(&mut self, (host, path): &HostPath, fault: &Fault) -> String {
        self.failed = true;
        let place = host.as_ref().map(|host| format!("{host}:")).unwrap_or_default();
        let (path, message) = (escape_bytes(path), escape_text(&fault.message));
        self.logged(format!("haul: {place}{path}: {message}"))
    }

    /// Logs a warning. Returns its line.
    pub(super) fn warning(&self, path: &[u8], message: &str) -> String {
        let (path, message) = (escape_bytes(path), escape_text(message));
        self.logged(format!("haul: warning: {path}: {message}"))
    }

    /// Logs the error that ended the command or one of its jobs.
    pub(super) fn log_error(&self, error: &CommandError) {
        self.logged(error_line(error));
    }

    fn logged(&self, line: String) -> String {
        self.log.iter().for_each(|log| log.lines(&line));
        line
    }

    /// Prints a line on standard error, after all earlier output.
    pub(crate) fn error_line(&mut self, line: &str) {
        self.flush();
        self.screen.line(line);
    }

    /// Prints a hint, unless it was printed before.
    pub(super) fn hint(&mut self, hint: &str) {
        if !self.hints_given.iter().any(|given| given == hint) {
            self.screen.line(&format!("  hint: {}", escape_controls(hint)));
            self.hints_given.push(hint.to_owned());
        }
    }

    /// Prints the error that ended the command or one of its jobs.
    pub(super) fn command_error(&mut self, error: &CommandError) {
        self.error_line(&error_line(error));
        if !error.hints.is_empty() {
            self.hint(&error.hints.join("; "));
        }
    }

    /// Writes the rest. Returns `code`, unless that is success and something failed.
    pub(super) fn finish(&mut self, code: ExitCode) -> ExitCode {
        self.flush();
        if let Err(error) = self.stdout.finish() {
            self.command_error(&error);
            self.failed = true;
        }
        if self.failed { code.or_failed() } else { code }
    }
}

fn error_line(error: &CommandError) -> String {
    format!("haul: {}", escape_controls(&error.to_string()))
}
