//! Reports of a command: [`text`] for people, [`json`] for programs. Only this module chooses
//! between them. Data from a disk or a peer is escaped before it is printed.

pub(crate) use self::destination::DestinationReport;
pub(crate) use self::log_file::LogFile;
use crate::error::{CommandError, ExitCode};
use crate::hint;
use crate::json::Object;
use crate::progress::{Counts, Screen};
use crate::stdout::Stdout;
use haul_engine::{LinkEvent, Outcome};
use haul_model::{Fault, Kind, Task};
use parking_lot::MutexGuard;

mod destination;
mod json;
mod log_file;
mod output;
mod text;

use self::json::Json;
use self::output::Output;
use self::text::Text;

/// How much a command reports, and in which form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detail {
    /// Lines on standard output, errors on standard error.
    Text(Show),
    /// Everything as JSON on standard output, one object per line.
    Json,
}

/// How much the text report shows. Errors are always shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Show {
    /// Errors, and answers to questions.
    Quiet,
    /// Also progress, warnings and a summary.
    Normal,
    /// Also a line for each change.
    Verbose,
    /// Also a line for each skipped entry.
    Everything,
}

impl Detail {
    /// Creates a report of this kind on `screen`.
    pub(crate) fn report(self, screen: &Screen) -> Box<dyn Report> {
        match self {
            Self::Text(show) => Box::new(Text::new(show, screen)),
            Self::Json => Box::new(Json::new(screen)),
        }
    }
}

/// A message in one form or both.
pub(crate) trait Message {
    /// Complete lines for the text report, with names escaped. Without bytes nothing is printed.
    fn text(&self) -> Vec<u8> {
        Vec::new()
    }

    /// A line of JSON.
    fn json(&self) -> Option<Object> {
        None
    }

    /// The least [`Show`] at which the text report prints it.
    fn level(&self) -> Show {
        Show::Quiet
    }
}

/// A summary or a heading, only for the text report.
impl Message for String {
    fn text(&self) -> Vec<u8> {
        self.as_bytes().to_vec()
    }

    fn level(&self) -> Show {
        Show::Normal
    }
}

/// A message whose forms are made by functions. Only the form that is printed is made.
pub(crate) struct Lazy<T, J> {
    pub(crate) level: Show,
    pub(crate) text: T,
    pub(crate) json: J,
}

impl<T, B, J, L> Message for Lazy<T, J>
where
    T: Fn() -> B,
    B: Into<Vec<u8>>,
    J: Fn() -> L,
    L: Into<Option<Object>>,
{
    fn text(&self) -> Vec<u8> {
        (self.text)().into()
    }

    fn json(&self) -> Option<Object> {
        (self.json)().into()
    }

    fn level(&self) -> Show {
        self.level
    }
}

/// A report. It also records failures. Jobs report from several threads at the same time.
pub(crate) trait Report: Sync {
    /// Reports a statement. It may be written later.
    fn message(&self, message: &dyn Message);

    /// Reports the fault of `path` on `host`; `None` is this machine.
    fn fault(&self, host: Option<String>, path: &[u8], fault: &Fault) {
        let hint = hint::for_fault_at(fault, host.is_some(), path);
        self.fault_with(host, path, fault, hint);
    }

    /// Like [`Report::fault`], with another hint.
    fn fault_with(&self, host: Option<String>, path: &[u8], fault: &Fault, hint: Option<&str>);

    /// Reports the fault of a job's entry at `path`. Its location is `there` on `host`, or on this
    /// machine.
    fn entry_fault(&self, path: &[u8], host: Option<String>, there: &[u8], fault: &Fault);

    /// Reports that the source at `path` can't be removed. Its location is `there` on `host`, or on
    /// this machine.
    fn not_removed(&self, path: &[u8], host: Option<String>, there: &[u8], fault: &Fault);

    /// Reports a problem that is not a failure.
    fn warning(&self, path: &[u8], message: &str);

    /// Like [`Report::warning`], about the destination of a job.
    fn destination_warning(&self, path: &[u8], message: &str) {
        self.warning(path, message);
    }

    /// Reports an event of a connection.
    fn link(&self, notice: LinkEvent<'_>);

    /// Reports the error that ended the command or one of its jobs.
    fn command_error(&self, error: &CommandError);

    /// How much is reported, and in which form.
    fn detail(&self) -> Detail;

    fn is_text(&self) -> bool {
        self.detail() != Detail::Json
    }

    /// True if warnings of jobs are shown.
    fn shows_warnings(&self) -> bool {
        self.detail() != Detail::Text(Show::Quiet)
    }

    /// True if this outcome of an entry is reported, in a job with `task`. Called for each entry,
    /// so it must be fast.
    fn shows(&self, task: &Task, kind: &Kind, outcome: &Outcome) -> bool {
        match self.detail() {
            Detail::Text(show) => text::shows(show, task, kind, outcome),
            Detail::Json => json::shows(task, outcome),
        }
    }

    /// True if progress is drawn on a terminal.
    fn draws_progress(&self) -> bool {
        false
    }

    /// Shows the progress of the running job. `None`: the job has ended, and the terminal is free
    /// for other programs, such as ssh asking for a password.
    fn progress(&self, counts: Option<Counts>);

    /// Ends a command that can't run. Returns its exit code. Only JSON shows the `figures`, because
    /// every end has a JSON line.
    fn abort(&self, error: &CommandError, figures: Option<&dyn Message>) -> ExitCode {
        self.command_error(error);
        if let Some(figures) = figures.filter(|_| !self.is_text()) {
            self.message(figures);
        }
        self.finish(error.kind.exit_code())
    }

    /// Standard output and standard error.
    fn output(&self) -> MutexGuard<'_, Output>;

    /// Ends a command with its figures. Returns `code`, unless that is success and something
    /// failed.
    fn conclude(&self, code: ExitCode, figures: &dyn Message) -> ExitCode {
        self.message(figures);
        let code = self.finish(code);
        // Errors about the log are not logged.
        let log = self.output().log.take();
        let Some(error) = log.and_then(|log| log.end(code)) else { return code };
        self.command_error(&error);
        self.output().flush();
        if code.number() == 0 { ExitCode::Rsync(23) } else { code }
    }

    /// Ends a command without figures, like [`Report::conclude`].
    fn finish(&self, code: ExitCode) -> ExitCode {
        self.output().finish(code)
    }
}

/// Reports the error of a command without a report of its own. Returns the exit code.
pub(crate) fn print_error(error: &CommandError) -> ExitCode {
    Output::new(&Screen::default()).command_error(error);
    error.kind.exit_code()
}

/// Writes `bytes` to standard output, for a command without a report. Returns the exit code.
pub(crate) fn print_answer(bytes: &[u8]) -> ExitCode {
    let mut out = Stdout::default();
    out.push(bytes);
    match out.finish() {
        Ok(()) => ExitCode::Success,
        Err(error) => print_error(&error),
    }
}
