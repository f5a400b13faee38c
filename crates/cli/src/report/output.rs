//! The streams of a report: what it has printed and not yet written, and errors for
//! people above the progress line.

use crate::error::{CommandError, ExitCode};
use crate::progress::Screen;
use crate::stdout::Stdout;
use haul_model::escape_controls;

/// Writes for one report, and remembers if anything failed.
pub(crate) struct Output {
    screen: Screen,
    stdout: Stdout,
    hints_given: Vec<String>,
    failed: bool,
}

impl Output {
    /// Nothing is written yet; shares `screen`.
    pub(super) fn new(screen: &Screen) -> Self {
        let (stdout, hints_given) = (Stdout::default(), Vec::new());
        Self { screen: screen.clone(), stdout, hints_given, failed: false }
    }

    /// Puts bytes on standard output, now or a little later.
    pub(super) fn print(&mut self, bytes: &[u8]) {
        self.stdout.push(bytes);
        if self.stdout.is_full() {
            self.flush();
        }
    }

    /// Writes what was printed.
    pub(super) fn flush(&mut self) {
        if !self.stdout.is_empty() {
            let stdout = &mut self.stdout;
            self.screen.above(|| stdout.flush());
        }
    }

    /// True if standard output takes nothing more.
    pub(super) fn is_broken(&self) -> bool {
        self.stdout.is_broken()
    }

    /// An entry has failed.
    pub(super) fn fail(&mut self) {
        self.failed = true;
    }

    /// True if an entry has failed.
    pub(super) fn has_failed(&self) -> bool {
        self.failed
    }

    /// A line on standard error, after all that was printed before it.
    pub(super) fn error_line(&mut self, line: &str) {
        self.flush();
        self.screen.line(line);
    }

    /// A hint, unless it was given before.
    pub(super) fn hint(&mut self, hint: &str) {
        if !self.hints_given.iter().any(|given| given == hint) {
            self.screen.line(&format!("  hint: {}", escape_controls(hint)));
            self.hints_given.push(hint.to_owned());
        }
    }

    /// Tells people why the command, or one of its jobs, ended early.
    pub(super) fn command_error(&mut self, error: &CommandError) {
        self.error_line(&format!("haul: {}", escape_controls(&error.to_string())));
        if !error.hints.is_empty() {
            self.hint(&error.hints.join("; "));
        }
    }

    /// Writes the rest. Gives `code`, unless that is of success and something failed.
    pub(super) fn finish(&mut self, code: ExitCode) -> ExitCode {
        self.flush();
        if let Err(error) = self.stdout.finish() {
            self.command_error(&error);
            self.failed = true;
        }
        if self.failed { code.or_failed() } else { code }
    }
}
