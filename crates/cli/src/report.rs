//! How a command tells what it does and finds: [`text`] for people or [`json`] for
//! programs. Nothing else asks which of them it is. Everything that came from a disk or
//! a peer is escaped when it is told.

pub(crate) use self::addressed::Addressed;
pub(crate) use self::log_file::{LogFile, Logged};
use crate::error::{CommandError, ExitCode};
use crate::hint;
use crate::progress::{Counts, Screen};
use haul_engine::{LinkEvent, Outcome};
use haul_model::{Fault, Kind, Task};
use parking_lot::MutexGuard;

mod addressed;
mod json;
mod log_file;
mod output;
mod text;

use self::json::Json;
use self::output::Output;
use self::text::Text;

/// How much a command tells, and in which form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detail {
    /// Lines for people on standard output, errors on standard error.
    Text(Show),
    /// All of it as JSON on standard output, one object a line.
    Json,
}

/// How much people are told. They are told of errors in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Show {
    /// Errors, and answers to what was asked.
    Quiet,
    /// Progress, warnings and a summary too.
    Normal,
    /// A line for each change too.
    Verbose,
    /// A line for each entry that is skipped, too.
    Everything,
}

impl Detail {
    /// A report of this kind, which shares `screen`.
    pub(crate) fn report(self, screen: &Screen) -> Box<dyn Report> {
        match self {
            Self::Text(show) => Box::new(Text::new(show, screen)),
            Self::Json => Box::new(Json::new(screen)),
        }
    }
}

/// Something to tell, in one form or both. A form without bytes tells nothing.
pub(crate) trait Statement {
    /// Whole lines for people, with names escaped.
    fn text(&self) -> Vec<u8> {
        Vec::new()
    }

    /// A line of JSON.
    fn json(&self) -> Vec<u8> {
        Vec::new()
    }

    /// People are told of it from here on.
    fn least(&self) -> Show {
        Show::Quiet
    }
}

/// A summary, or a heading, for people alone.
impl Statement for String {
    fn text(&self) -> Vec<u8> {
        self.as_bytes().to_vec()
    }

    fn least(&self) -> Show {
        Show::Normal
    }
}

/// Tells, and remembers if anything failed. Jobs tell from several threads at once.
pub(crate) trait Report: Sync {
    /// Tells it, now or a little later.
    fn tell(&self, statement: &dyn Statement);

    /// Tells that `path`, on `host` if it isn't here, failed.
    fn fault(&self, host: Option<String>, path: &[u8], fault: &Fault) {
        let hint = hint::of_fault_at(fault, host.is_some(), path);
        self.fault_with(host, path, fault, hint);
    }

    /// The same with another hint.
    fn fault_with(&self, host: Option<String>, path: &[u8], fault: &Fault, hint: Option<&str>);

    /// Tells that the entry of a job at `path`, which is at `there` on `host` if it isn't
    /// here, failed.
    fn entry_fault(&self, path: &[u8], host: Option<String>, there: &[u8], fault: &Fault);

    /// Tells that the source at `path`, which is at `there` on `host` if it isn't here,
    /// can't be removed.
    fn not_removed(&self, path: &[u8], host: Option<String>, there: &[u8], fault: &Fault);

    /// Tells something that is no failure.
    fn warning(&self, path: &[u8], message: &str);

    /// The same about the destination of a job.
    fn warning_there(&self, path: &[u8], message: &str) {
        self.warning(path, message);
    }

    /// Tells of a connection that was lost, and of its return.
    fn link(&self, news: LinkEvent<'_>);

    /// Tells why the command, or one of its jobs, ended early.
    fn command_error(&self, error: &CommandError);

    /// How much it tells, and in which form.
    fn detail(&self) -> Detail;

    /// True if it is for people.
    fn is_text(&self) -> bool {
        self.detail() != Detail::Json
    }

    /// True if the warnings of jobs are told.
    fn warns(&self) -> bool {
        self.detail() != Detail::Text(Show::Quiet)
    }

    /// True if such an outcome of an entry is told, in a job with that task. Must be as
    /// quick as possible.
    fn shows(&self, task: &Task, kind: &Kind, outcome: &Outcome) -> bool {
        match self.detail() {
            Detail::Text(show) => text::shows(show, task, kind, outcome),
            Detail::Json => json::shows(task, outcome),
        }
    }

    /// True if progress is shown to a person, on a terminal.
    fn draws(&self) -> bool;

    /// Shows how far the running job is. With `None` it has ended, and the terminal is
    /// free for others, such as ssh asking for a password.
    fn progress(&self, counts: Option<Counts>);

    /// Ends a command that can't be carried out, and gives its exit code. It has
    /// `figures` only for programs, which are told of each end.
    fn refused(&self, error: &CommandError, figures: Option<&dyn Statement>) -> ExitCode;

    /// The output of this report.
    fn output(&self) -> MutexGuard<'_, Output>;

    /// Ends a command that has come to its figures. Gives `code`, or that of a command
    /// of which something has failed.
    fn conclude(&self, code: ExitCode, figures: &dyn Statement) -> ExitCode {
        self.tell(figures);
        self.finish(code)
    }

    /// Ends a command without figures, as [`Report::conclude`] does.
    fn finish(&self, code: ExitCode) -> ExitCode {
        self.output().finish(code)
    }

    /// Tells a person something on standard error, however little is told otherwise.
    fn answer(&self, line: &str) {
        self.output().error_line(line);
    }

    /// Writes all that was told.
    fn flush(&self) {
        self.output().flush();
    }

    /// True if standard output takes nothing more.
    fn is_broken(&self) -> bool {
        self.output().is_broken()
    }

    /// True if an entry has failed.
    fn has_failed(&self) -> bool {
        self.output().has_failed()
    }
}

/// Tells why a command that has no report of its own ended early.
pub(crate) fn end_of_command(error: &CommandError) -> ExitCode {
    Output::new(&Screen::default()).command_error(error);
    error.kind.exit_code()
}
