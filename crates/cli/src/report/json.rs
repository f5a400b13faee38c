//! The report for programs: lines of [`crate::json`] on standard output.

use super::{Detail, Message, Output, Report};
use crate::command::deploy;
use crate::error::{CommandError, ExitCode};
use crate::hint;
use crate::json::{ConnectionLost, ErrorLine, Line, Path, ServerUnavailable, ServerUsed, Warning};
use crate::progress::{Counts, Screen};
use haul_engine::{LinkEvent, Outcome, Skip};
use haul_model::{Fault, Task};
use parking_lot::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Minimum time between two progress lines.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);

/// Reports everything as JSON.
pub(super) struct Json {
    output: Mutex<Output>,
    /// When the last progress line was printed.
    progress_printed: Mutex<Option<Instant>>,
}

impl Json {
    pub(super) fn new(screen: &Screen) -> Self {
        Self { output: Mutex::new(Output::new(screen)), progress_printed: Mutex::default() }
    }

    fn print(&self, line: &Line<'_>) {
        self.output().print(&line.to_bytes());
    }
}

impl Report for Json {
    fn message(&self, message: &dyn Message) {
        self.output().print(&message.json());
    }

    fn fault_with(&self, host: Option<String>, path: &[u8], fault: &Fault, hint: Option<&str>) {
        self.output().fail();
        self.print(&Line::Error(ErrorLine::of_fault(host, path, fault).with_hint(hint)));
    }

    fn entry_fault(&self, path: &[u8], host: Option<String>, there: &[u8], fault: &Fault) {
        self.output().fail();
        let hint = hint::for_fault_at(fault, host.is_some(), there);
        self.print(&Line::Error(ErrorLine::of_fault(None, path, fault).with_hint(hint)));
    }

    fn not_removed(&self, path: &[u8], _: Option<String>, _: &[u8], fault: &Fault) {
        self.fault(None, path, fault);
    }

    fn warning(&self, path: &[u8], message: &str) {
        self.print(&Line::Warning(Warning { path: Path::of(path), message }));
    }

    fn link(&self, notice: LinkEvent<'_>) {
        self.print(&match notice {
            LinkEvent::Lost { host, reason, attempt, pause } => {
                let seconds = pause.as_secs();
                Line::ConnectionLost(ConnectionLost { host, message: reason, attempt, seconds })
            }
            LinkEvent::Reconnected => Line::ConnectionRegained {},
            LinkEvent::Server { host, is_quic } => {
                let protocol = if is_quic { "quic" } else { "tcp" };
                Line::Server(ServerUsed { host, protocol })
            }
            LinkEvent::ServerUnavailable { host, reason } => {
                Line::ServerUnavailable(ServerUnavailable { host, message: reason })
            }
            LinkEvent::Deployed { host, bytes, change } => {
                let message = deploy::notice(host, bytes, change);
                return self.warning(host.as_bytes(), &message);
            }
            // Only the text report shows these.
            LinkEvent::Direct { .. }
            | LinkEvent::NotDirect { .. }
            | LinkEvent::LoggedIn { .. }
            | LinkEvent::NotLoggedIn { .. } => return,
        });
        self.output().flush();
    }

    fn command_error(&self, error: &CommandError) {
        self.print(&Line::Error(ErrorLine::of_command(error)));
    }

    fn detail(&self) -> Detail {
        Detail::Json
    }

    fn draws_progress(&self) -> bool {
        false
    }

    fn progress(&self, counts: Option<Counts>) {
        let Some(counts) = counts else { return };
        let mut last_printed = self.progress_printed.lock();
        if last_printed.is_none_or(|last_printed| last_printed.elapsed() >= PROGRESS_INTERVAL) {
            *last_printed = Some(Instant::now());
            self.print(&Line::Progress(counts.into()));
        }
    }

    fn abort(&self, error: &CommandError, figures: Option<&dyn Message>) -> ExitCode {
        self.command_error(error);
        if let Some(figures) = figures {
            self.message(figures);
        }
        self.finish(error.kind.exit_code())
    }

    fn output(&self) -> MutexGuard<'_, Output> {
        self.output.lock()
    }
}

/// Implements [`Report::shows`].
pub(super) fn shows(task: &Task, outcome: &Outcome) -> bool {
    match (outcome, task) {
        (Outcome::Failed(_) | Outcome::Skipped(Skip::Special), _) => true,
        (outcome, Task::Check { .. }) => matches!(outcome, Outcome::Differs(_)),
        // A moved file is reported when its source is removed.
        (Outcome::Differs(_), _) => false,
        (_, task) => task.moving().is_none(),
    }
}
