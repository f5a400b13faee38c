//! The report for people: answers, lines and a summary on standard output, errors and warnings on
//! standard error, and a progress line below them.

use super::{Detail, Message, Output, Report, Show};
use crate::deployed;
use crate::error::CommandError;
use crate::hint::Hint;
use crate::progress::{Counts, Meter, SHOW_AFTER, Screen};
use crate::quantity;
use haul_engine::{LinkEvent, Outcome, Skip};
use haul_model::{Fault, FaultKind, Kind, Task};
use parking_lot::{Mutex, MutexGuard};
use std::time::Instant;

/// Reports as text, as much as `show` allows.
pub(super) struct Text {
    show: Show,
    screen: Screen,
    /// Standard error is a terminal with a progress line.
    draws_progress: bool,
    output: Mutex<Output>,
    drawn: Mutex<Drawn>,
}

#[derive(Default)]
struct Drawn {
    /// When the job first had progress to show. Before that, and while connections are opened, ssh
    /// may ask for a password on the terminal.
    since: Option<Instant>,
    meter: Meter,
}

impl Text {
    pub(super) fn new(show: Show, screen: &Screen) -> Self {
        let draws_progress = show > Show::Quiet && Screen::is_terminal();
        let output = Mutex::new(Output::new(screen));
        Self { show, screen: screen.clone(), draws_progress, output, drawn: Mutex::default() }
    }
}

impl Report for Text {
    fn message(&self, message: &dyn Message) {
        if self.show >= message.level() {
            self.output().print(&message.text());
        }
    }

    fn fault_with(&self, host: Option<String>, path: &[u8], fault: &Fault, hint: Option<&str>) {
        let mut output = self.output();
        let line = output.fault(host.as_deref(), path, fault);
        // The directory's own fault was reported. A line for each entry in it would hide that.
        if fault.kind == FaultKind::Parent {
            return;
        }
        output.error_line(&line);
        if let Some(hint) = hint {
            output.hint(hint);
        }
    }

    fn entry_fault(&self, _: &[u8], host: Option<String>, there: &[u8], fault: &Fault) {
        self.fault(host, there, fault);
    }

    fn not_removed(&self, _: &[u8], host: Option<String>, there: &[u8], fault: &Fault) {
        let hint = match fault.kind {
            FaultKind::PermissionDenied => Some("get write permission on the directory above it"),
            _ => fault.hint(),
        };
        self.fault_with(host, there, fault, hint);
    }

    fn warning(&self, path: &[u8], message: &str) {
        let mut output = self.output();
        let line = output.warning(path, message);
        output.error_line(&line);
    }

    fn link(&self, notice: LinkEvent<'_>) {
        if notice.is_detail() && self.show < Show::Verbose {
            return;
        }
        // The progress line shows the lost connection.
        self.progress(None);
        if !self.shows_warnings() {
            return;
        }
        let over = |host: &str, connections: u8, one, many| {
            let connections = quantity::counted(connections.into(), one, many);
            format!("haul: contents go to {host} over {connections}")
        };
        let line = match notice {
            LinkEvent::Lost { reason, attempt, pause, .. } => {
                let seconds = pause.as_secs();
                format!("haul: {reason}; reconnecting in {seconds} s (attempt {attempt})")
            }
            LinkEvent::Reconnected => "haul: reconnected".to_owned(),
            LinkEvent::Server { host, is_quic } => {
                let by = if is_quic { "QUIC" } else { "TCP" };
                format!("haul: connected to the server of {host} by {by}")
            }
            LinkEvent::ServerUnavailable { host, reason } => {
                format!("haul: {reason}; using ssh to {host}")
            }
            LinkEvent::Direct { host, connections } => {
                over(host, connections, "direct connection", "direct connections")
            }
            LinkEvent::NotDirect { host, reason } => {
                format!("haul: contents go to {host} without direct connections: {reason}")
            }
            LinkEvent::LoggedIn { host, connections } => {
                over(host, connections, "ssh connection", "ssh connections")
            }
            LinkEvent::Deployed { host, bytes, change } => {
                let message = deployed::notice(host, bytes, change);
                return self.warning(host.as_bytes(), &message);
            }
            LinkEvent::NotLoggedIn { host, reason } => {
                format!("haul: no additional ssh connection to {host}: {reason}")
            }
        };
        self.output().error_line(&line);
    }

    fn command_error(&self, error: &CommandError) {
        let mut output = self.output();
        output.log_error(error);
        output.command_error(error);
    }

    fn detail(&self) -> Detail {
        Detail::Text(self.show)
    }

    fn draws_progress(&self) -> bool {
        self.draws_progress
    }

    fn progress(&self, counts: Option<Counts>) {
        let mut drawn = self.drawn.lock();
        let Some(counts) = counts else {
            drawn.since = None;
            return self.screen.clear();
        };
        if !self.draws_progress || !counts.has_begun() {
            return;
        }
        let now = drawn.since.get_or_insert_with(Instant::now).elapsed();
        let line = drawn.meter.line(now, &counts, Screen::columns());
        if now >= SHOW_AFTER {
            self.screen.draw(line);
        }
    }

    fn output(&self) -> MutexGuard<'_, Output> {
        self.output.lock()
    }
}

/// Implements [`Report::shows`].
pub(super) fn shows(show: Show, task: &Task, kind: &Kind, outcome: &Outcome) -> bool {
    let (shows_warnings, is_verbose) = (show > Show::Quiet, show >= Show::Verbose);
    match (outcome, task) {
        (Outcome::Failed(_), _) => true,
        (Outcome::Skipped(Skip::Special), _) => shows_warnings,
        (Outcome::Differs(_), Task::Check { .. }) => shows_warnings,
        // A moved file is reported when its source is removed.
        (_, task) if task.moving().is_some() => false,
        // Here the options of `haul sync` decide which are shown.
        (Outcome::Synced(_), Task::Sync(..)) => true,
        (Outcome::Linked { .. } | Outcome::Synced(_), Task::Copy(policy)) => {
            is_verbose || policy.dry_run && shows_warnings
        }
        (Outcome::Copied | Outcome::Grew, Task::Copy(_)) => is_verbose,
        (Outcome::WouldCopy, Task::Copy(policy)) => is_verbose || policy.dry_run && shows_warnings,
        // An existing directory is not worth a line.
        (Outcome::Skipped(_), _) if *kind == Kind::Dir => false,
        (Outcome::Skipped(_), Task::Check { .. }) => is_verbose,
        (Outcome::Skipped(_), _) => show == Show::Everything,
        _ => false,
    }
}
