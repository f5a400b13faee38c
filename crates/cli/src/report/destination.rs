//! The report of one of several simultaneous jobs with different destinations. Its messages name
//! their destination. The caller shows the progress of all jobs together.

use super::{Detail, Lazy, Message, Output, Report};
use crate::error::{CommandError, ErrorKind};
use crate::hint;
use crate::json::{self, Object};
use crate::progress::Counts;
use haul::ReportedOnce;
use haul_engine::LinkEvent;
use haul_model::{Fault, escape_bytes, escape_text};
use parking_lot::MutexGuard;

/// Reports to `report` about one destination.
pub(crate) struct DestinationReport<'r> {
    pub(crate) report: &'r dyn Report,
    pub(crate) reported: &'r ReportedOnce,
    /// The destination as the user wrote it, escaped.
    pub(crate) dest: String,
}

impl DestinationReport<'_> {
    fn print_json(&self, line: Object) {
        self.output().print(&line.with("dest", &self.dest).into_line());
    }
}

impl Report for DestinationReport<'_> {
    fn message(&self, statement: &dyn Message) {
        self.report.message(&Lazy {
            level: statement.level(),
            text: || {
                let text = statement.text();
                let lines = text.split_inclusive(|byte| *byte == b'\n');
                let lines = lines.map(|line| [self.dest.as_bytes(), b": ", line].concat());
                lines.collect::<Vec<_>>().concat()
            },
            json: || Some(statement.json()?.with("dest", &self.dest)),
        });
    }

    fn fault_with(&self, host: Option<String>, path: &[u8], fault: &Fault, hint: Option<&str>) {
        self.report.fault_with(host, path, fault, hint);
    }

    fn entry_fault(&self, path: &[u8], host: Option<String>, there: &[u8], fault: &Fault) {
        if !self.report.is_text() {
            self.report.output().fail();
            let hint = hint::for_fault_at(fault, false, path);
            return self.print_json(json::fault(None, path, fault, hint));
        }
        if host.is_none() && !self.reported.is_new(there, &fault.message) {
            return self.report.output().fail();
        }
        self.report.entry_fault(path, host, there, fault);
    }

    fn not_removed(&self, path: &[u8], host: Option<String>, there: &[u8], fault: &Fault) {
        self.report.not_removed(path, host, there, fault);
    }

    fn warning(&self, path: &[u8], message: &str) {
        if !self.report.is_text() {
            return self.print_json(json::warning(path, message));
        }
        if self.reported.is_new(path, message) {
            self.report.warning(path, message);
        }
    }

    fn destination_warning(&self, path: &[u8], message: &str) {
        let (path_shown, text) = (escape_bytes(path), escape_text(message));
        if path_shown == self.dest || !self.report.is_text() {
            return self.warning(path, message);
        }
        let line = format!("haul: warning: {}: {path_shown}: {text}", self.dest);
        self.output().error_line(&line);
    }

    fn link(&self, notice: LinkEvent<'_>) {
        match notice {
            LinkEvent::Reconnected if self.report.is_text() && self.report.shows_warnings() => {
                self.output().error_line(&format!("haul: {}: reconnected", self.dest));
            }
            notice => self.report.link(notice),
        }
    }

    fn command_error(&self, error: &CommandError) {
        if !self.report.is_text() {
            return self.print_json(json::command_error(error));
        }
        let failed = if error.kind == ErrorKind::Interrupted { "" } else { "failed: " };
        let reported = CommandError::new(error.kind, format!("{}: {failed}{error}", self.dest));
        let reported = error.hints.iter().fold(reported, CommandError::with_hint);
        self.report.command_error(&reported);
    }

    fn detail(&self) -> Detail {
        self.report.detail()
    }

    fn draws_progress(&self) -> bool {
        self.report.draws_progress()
    }

    fn progress(&self, _: Option<Counts>) {}

    fn output(&self) -> MutexGuard<'_, Output> {
        self.report.output()
    }
}
