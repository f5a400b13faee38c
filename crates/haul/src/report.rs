//! What a command says: plain lines on standard output, errors on standard
//! error, or all of it as JSON. Everything that came from a disk or a peer is
//! escaped here.

use crate::error::{CommandError, ErrorKind, ExitCode};
use crate::hint::Hint;
use crate::json::{ErrorLine, Line, Path, Warning};
use crate::progress::Screen;
use crate::quantity;
use crate::stdout::Stdout;
use haul_engine::Summary;
use haul_model::{Fault, FaultKind, Side, escape_bytes, escape_controls, escape_text};
use std::time::Duration;

/// The form of what a command says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Form {
    /// Lines for people.
    #[default]
    Plain,
    /// One JSON object a line, all of them on standard output.
    Json,
}

/// Says it, and remembers whether anything failed.
#[derive(Default)]
pub(crate) struct Report {
    form: Form,
    screen: Screen,
    stdout: Stdout,
    hints_given: Vec<String>,
    failed: bool,
}

impl Report {
    /// A report in that form, sharing `screen`.
    pub(crate) fn new(form: Form, screen: Screen) -> Self {
        Self { form, screen, ..Self::default() }
    }

    /// The form of the report.
    pub(crate) fn form(&self) -> Form {
        self.form
    }

    /// Puts bytes on standard output, now or a little later.
    pub(crate) fn print(&mut self, bytes: &[u8]) {
        self.stdout.push(bytes);
        if self.stdout.is_full() {
            self.flush();
        }
    }

    /// Puts a JSON line on standard output.
    pub(crate) fn json(&mut self, line: &Line<'_>) {
        self.print(&line.to_bytes());
    }

    /// Writes what was printed.
    pub(crate) fn flush(&mut self) {
        if !self.stdout.is_empty() {
            let stdout = &mut self.stdout;
            self.screen.above(|| stdout.flush());
        }
    }

    /// Whether standard output takes nothing more.
    pub(crate) fn is_broken(&self) -> bool {
        self.stdout.is_broken()
    }

    /// Tells that the entry at `path` failed.
    pub(crate) fn fault(&mut self, path: &[u8], fault: &Fault) {
        self.fault_on(None, path, fault);
    }

    /// Tells that `path`, on `host` if it isn't here, can't be looked at.
    pub(crate) fn fault_on(&mut self, host: Option<String>, path: &[u8], fault: &Fault) {
        self.fault_with(host, path, fault, fault.hint());
    }

    /// Tells that the source at `path` can't be removed.
    pub(crate) fn not_removed(&mut self, path: &[u8], fault: &Fault) {
        let hint = match fault.kind {
            FaultKind::PermissionDenied => {
                Some("you need write permission on the directory above it")
            }
            _ => fault.hint(),
        };
        self.fault_with(None, path, fault, hint);
    }

    fn fault_with(
        &mut self,
        host: Option<String>,
        path: &[u8],
        fault: &Fault,
        hint: Option<&'static str>,
    ) {
        self.failed = true;
        match self.form {
            Form::Json => self.json(&Line::Error(ErrorLine::of_fault(host, path, fault))),
            // The directory itself said why; a line for all in it would bury that.
            Form::Plain if fault.kind == FaultKind::Parent => {}
            Form::Plain => {
                let place = host.map(|host| format!("{host}:")).unwrap_or_default();
                let (path, message) = (escape_bytes(path), escape_text(&fault.message));
                self.error_line(&format!("haul: {place}{path}: {message}"));
                self.hint(hint);
            }
        }
    }

    /// Tells something that is no failure.
    pub(crate) fn warning(&mut self, path: &[u8], message: &str) {
        match self.form {
            Form::Json => self.json(&Line::Warning(Warning { path: Path::of(path), message })),
            Form::Plain => {
                let (path, message) = (escape_bytes(path), escape_text(message));
                self.error_line(&format!("haul: warning: {path}: {message}"));
            }
        }
    }

    /// Tells why the command ended early.
    pub(crate) fn command_error(&mut self, error: &CommandError) {
        match self.form {
            Form::Json => self.json(&Line::Error(ErrorLine::of_command(error))),
            Form::Plain => {
                self.error_line(&format!("haul: {}", escape_controls(&error.to_string())));
                for hint in &error.hints {
                    self.hint(Some(hint));
                }
            }
        }
    }

    /// Whether an entry has failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed
    }

    /// Writes the rest and says how the command ended, if it came to its end.
    pub(crate) fn finish(mut self) -> ExitCode {
        self.flush();
        if let Err(error) = self.stdout.finish() {
            let error = Fault::from_io(Side::Destination, "write to standard output", &error);
            self.form = Form::Plain;
            self.command_error(&CommandError::new(ErrorKind::Io, error));
            self.failed = true;
        }
        if self.failed { ExitCode::SomeFailed } else { ExitCode::Success }
    }

    /// A line on standard error, after all that was printed before it.
    fn error_line(&mut self, line: &str) {
        self.flush();
        self.screen.line(line);
    }

    /// A hint, unless it was given before.
    fn hint(&mut self, hint: Option<&str>) {
        if let Some(hint) = hint
            && !self.hints_given.iter().any(|given| given == hint)
        {
            self.screen.line(&format!("  hint: {}", escape_controls(hint)));
            self.hints_given.push(hint.to_owned());
        }
    }
}

/// Tells why a command that has no report of its own ended early.
pub(crate) fn end_of_command(error: &CommandError) -> ExitCode {
    Report::default().command_error(error);
    error.kind.exit_code()
}

/// A line that the remote program (ssh, or an agent through it) wrote to its
/// standard error.
pub(crate) fn remote_line(line: &[u8]) -> String {
    let text = line.strip_suffix(b"\n").unwrap_or(line);
    let text = text.strip_suffix(b"\r").unwrap_or(text);
    format!("ssh: {}", escape_bytes(text))
}

/// The line at the end of a copy, and what it would be for a dry run.
pub(crate) fn summary(summary: &Summary, time: Duration, dry_run: bool) -> String {
    let Summary { copied, dirs_made, bytes, skipped, special, failed, .. } = *summary;
    let (moved, resumed) = (summary.bytes_transferred, summary.bytes_resumed);
    let (done, made) = if dry_run { ("would copy", "would make") } else { ("copied", "made") };
    let mut line = match (copied, dirs_made) {
        (0, 0) => format!("{done} nothing"),
        (0, dirs) => format!("{made} {}", quantity::counted(dirs, "directory", "directories")),
        (files, _) => {
            let files = quantity::counted(files, "file", "files");
            format!("{done} {files}, {}", quantity::bytes(bytes))
        }
    };
    if !dry_run {
        line.push_str(&format!(" in {}", quantity::duration(time)));
        if moved > 0 && !time.is_zero() {
            let rate = quantity::rate(moved as f64 / time.as_secs_f64());
            line.push_str(&format!(" ({rate})"));
        }
    }
    if resumed > 0 && !dry_run {
        line.push_str(&format!("; {} were there already", quantity::bytes(resumed)));
    }
    for (n, word) in [(skipped, "skipped"), (special, "passed over"), (failed, "failed")] {
        if n > 0 {
            line.push_str(&format!("; {word} {}", quantity::count(n)));
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_leave_out_what_is_zero() {
        let text = |s: Summary, dry| summary(&s, Duration::from_millis(410), dry);
        let all = Summary {
            copied: 1008,
            dirs_made: 11,
            bytes: 20_866_662,
            bytes_transferred: 20_866_662,
            skipped: 12,
            special: 2,
            failed: 1,
            ..Summary::default()
        };
        let lines = [
            text(all, false),
            text(all, true),
            text(
                Summary { copied: 1, bytes: 5, bytes_transferred: 5, ..Summary::default() },
                false,
            ),
            text(
                Summary {
                    copied: 1,
                    bytes: 5,
                    bytes_transferred: 2,
                    bytes_resumed: 3,
                    ..Summary::default()
                },
                false,
            ),
            text(Summary { copied: 1, ..Summary::default() }, false),
            text(Summary { dirs_made: 1, ..Summary::default() }, false),
            text(Summary { dirs_made: 3, ..Summary::default() }, true),
            text(Summary { skipped: 1008, ..Summary::default() }, false),
            text(Summary { failed: 1, ..Summary::default() }, true),
        ];
        insta::assert_snapshot!(lines.join("\n"), @r"
        copied 1,008 files, 19.9 MiB in 0.41 s (48.5 MiB/s); skipped 12; passed over 2; failed 1
        would copy 1,008 files, 19.9 MiB; skipped 12; passed over 2; failed 1
        copied 1 file, 5 B in 0.41 s (12 B/s)
        copied 1 file, 5 B in 0.41 s (4 B/s); 3 B were there already
        copied 1 file, 0 B in 0.41 s
        made 1 directory in 0.41 s
        would make 3 directories
        copied nothing in 0.41 s; skipped 1,008
        would copy nothing; failed 1
        ");
    }

    #[test]
    fn a_remote_line_can_not_move_the_cursor() {
        assert_eq!(remote_line(b"Permission denied\r\n"), "ssh: Permission denied");
        assert_eq!(remote_line(b"\x1b[1Aoops\xff"), "ssh: \\x1b[1Aoops\\xff");
    }
}
