//! The report for programs: lines of [`crate::json`] on standard output.

use super::{Detail, Message, Output, Report};
use crate::deployed;
use crate::error::CommandError;
use crate::hint;
use crate::json::{self, Object};
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

    fn print(&self, line: Object) {
        self.output().print(&line.into_line());
    }
}

impl Report for Json {
    fn message(&self, message: &dyn Message) {
        if let Some(line) = message.json() {
            self.print(line);
        }
    }

    fn fault_with(&self, host: Option<String>, path: &[u8], fault: &Fault, hint: Option<&str>) {
        self.output().fault(host.as_deref(), path, fault);
        self.print(json::fault(host.as_deref(), path, fault, hint));
    }

    fn entry_fault(&self, path: &[u8], host: Option<String>, there: &[u8], fault: &Fault) {
        self.output().fault(host.as_deref(), there, fault);
        let hint = hint::for_fault_at(fault, host.is_some(), there);
        self.print(json::fault(None, path, fault, hint));
    }

    fn not_removed(&self, path: &[u8], host: Option<String>, there: &[u8], fault: &Fault) {
        self.output().fault(host.as_deref(), there, fault);
        self.print(json::fault(None, path, fault, hint::for_fault_at(fault, false, path)));
    }

    fn warning(&self, path: &[u8], message: &str) {
        self.output().warning(path, message);
        self.print(json::warning(path, message));
    }

    fn link(&self, notice: LinkEvent<'_>) {
        if let LinkEvent::Deployed { host, bytes, change } = notice {
            self.warning(host.as_bytes(), &deployed::notice(host, bytes, change));
        } else if let Some(line) = json::link(&notice) {
            self.print(line);
            self.output().flush();
        }
    }

    fn command_error(&self, error: &CommandError) {
        self.output().log_error(error);
        self.print(json::command_error(error));
    }

    fn detail(&self) -> Detail {
        Detail::Json
    }

    fn progress(&self, counts: Option<Counts>) {
        let Some(counts) = counts else { return };
        let mut last_printed = self.progress_printed.lock();
        if last_printed.is_none_or(|last_printed| last_printed.elapsed() >= PROGRESS_INTERVAL) {
            *last_printed = Some(Instant::now());
            self.print(json::progress(&counts));
        }
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
