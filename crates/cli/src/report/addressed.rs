//! The report of one of several simultaneous jobs with different destinations. Its messages name
//! their destination. The caller shows the progress of all jobs together.

use super::{Detail, Output, Report, Show, Statement};
use crate::error::{CommandError, ErrorKind, ExitCode};
use crate::json::{self, ErrorLine, Line, Path, Warning};
use crate::progress::Counts;
use haul::ToldOnce;
use haul_engine::LinkEvent;
use haul_model::{Fault, escape_bytes, escape_text};
use parking_lot::MutexGuard;

/// Reports to `report` about one destination.
pub(crate) struct Addressed<'r> {
    report: &'r dyn Report,
    told: &'r ToldOnce,
    /// The destination as the user wrote it, escaped.
    dest: String,
}

impl<'r> Addressed<'r> {
    /// Creates the report about `dest`.
    pub(crate) fn new(report: &'r dyn Report, told: &'r ToldOnce, dest: String) -> Self {
        Self { report, told, dest }
    }

    pub(crate) fn of_all(&self) -> &'r dyn Report {
        self.report
    }

    /// The destination as the user wrote it, escaped.
    pub(crate) fn dest(&self) -> &str {
        &self.dest
    }

    fn tell_line(&self, line: &Line<'_>) {
        self.tell(&InJson(line.to_bytes()));
    }

    fn json_fault(&self, path: &[u8], fault: &Fault) {
        self.report.output().fail();
        self.tell_line(&Line::Error(ErrorLine::of_fault(None, path, fault)));
    }
}

/// A line of JSON.
struct InJson(Vec<u8>);

impl Statement for InJson {
    fn json(&self) -> Vec<u8> {
        self.0.clone()
    }
}

struct About<'s> {
    dest: &'s str,
    statement: &'s dyn Statement,
}

impl Statement for About<'_> {
    fn text(&self) -> Vec<u8> {
        let text = self.statement.text();
        let lines = text.split_inclusive(|byte| *byte == b'\n');
        lines.flat_map(|line| [self.dest.as_bytes(), b": ", line]).flatten().copied().collect()
    }

    fn json(&self) -> Vec<u8> {
        json::addressed(self.statement.json(), self.dest)
    }

    fn least(&self) -> Show {
        self.statement.least()
    }
}

impl Report for Addressed<'_> {
    fn tell(&self, statement: &dyn Statement) {
        self.report.tell(&About { dest: &self.dest, statement });
    }

    fn fault_with(&self, host: Option<String>, path: &[u8], fault: &Fault, hint: Option<&str>) {
        self.report.fault_with(host, path, fault, hint);
    }

    fn entry_fault(&self, path: &[u8], host: Option<String>, there: &[u8], fault: &Fault) {
        if !self.report.is_text() {
            return self.json_fault(path, fault);
        }
        if host.is_none() && !self.told.is_new(there, &fault.message) {
            return self.report.output().fail();
        }
        self.report.entry_fault(path, host, there, fault);
    }

    fn not_removed(&self, path: &[u8], host: Option<String>, there: &[u8], fault: &Fault) {
        self.report.not_removed(path, host, there, fault);
    }

    fn warning(&self, path: &[u8], message: &str) {
        if !self.report.is_text() {
            return self.tell_line(&Line::Warning(Warning { path: Path::of(path), message }));
        }
        if self.told.is_new(path, message) {
            self.report.warning(path, message);
        }
    }

    fn warning_there(&self, path: &[u8], message: &str) {
        let (path_shown, text) = (escape_bytes(path), escape_text(message));
        if path_shown == self.dest || !self.report.is_text() {
            return self.warning(path, message);
        }
        let line = format!("haul: warning: {}: {path_shown}: {text}", self.dest);
        self.output().error_line(&line);
    }

    fn link(&self, news: LinkEvent<'_>) {
        match news {
            LinkEvent::Regained if self.report.is_text() && self.report.warns() => {
                self.output().error_line(&format!("haul: {}: reconnected", self.dest));
            }
            news => self.report.link(news),
        }
    }

    fn command_error(&self, error: &CommandError) {
        if !self.report.is_text() {
            return self.tell_line(&Line::Error(ErrorLine::of_command(error)));
        }
        let failed = if error.kind == ErrorKind::Interrupted { "" } else { "failed: " };
        let told = CommandError::new(error.kind, format!("{}: {failed}{error}", self.dest));
        let told = error.hints.iter().fold(told, CommandError::with_hint);
        self.report.command_error(&told);
    }

    fn detail(&self) -> Detail {
        self.report.detail()
    }

    fn draws(&self) -> bool {
        self.report.draws()
    }

    fn progress(&self, _: Option<Counts>) {}

    fn refused(&self, error: &CommandError, figures: Option<&dyn Statement>) -> ExitCode {
        self.report.refused(error, figures)
    }

    fn output(&self) -> MutexGuard<'_, Output> {
        self.report.output()
    }
}
