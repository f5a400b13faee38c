//! The report of a command: text for people, or JSON lines for programs. Only this module chooses
//! between them. Data from a disk or a peer is escaped before it is printed.

mod output;

use self::output::Output;
use crate::error::{CommandError, ErrorKind, ExitCode};
use crate::hint::{self, Hint};
use crate::json::{self, Object};
use crate::progress::{Counts, Meter, SHOW_AFTER, Screen};
use crate::{deployed, quantity, stdout};
use haul::ReportedOnce;
use haul_engine::{LinkEvent, Links, Outcome, Skip};
use haul_model::{Fault, FaultKind, Kind, Side, Task, escape_bytes, escape_text};
use parking_lot::{Mutex, MutexGuard};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Minimum time between two progress lines in JSON.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);

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

/// A path, and its host unless it is on this machine.
pub(crate) type HostPath = (Option<String>, Vec<u8>);

/// A report. It also records failures. Jobs report from several threads at the same time. Clones
/// share their output and the progress line.
#[derive(Clone)]
pub(crate) struct Report {
    detail: Detail,
    screen: Screen,
    /// Standard error is a terminal with a progress line.
    draws_progress: bool,
    output: Arc<Mutex<Output>>,
    shown: Arc<Mutex<ShownProgress>>,
    /// The destination that messages name, if several jobs run at the same time.
    dest: Option<ReportedDestination>,
}

/// The progress that was shown so far.
#[derive(Default)]
struct ShownProgress {
    /// When the job first had progress to draw. Before that, and while connections are opened, ssh
    /// may ask for a password on the terminal.
    since: Option<Instant>,
    meter: Meter,
    /// When the last line of JSON was printed.
    printed: Option<Instant>,
}

/// One of several destinations.
#[derive(Clone)]
struct ReportedDestination {
    /// As the user wrote it, escaped.
    name: String,
    /// The messages about sources, which are the same for all destinations.
    reported: Arc<ReportedOnce>,
}

impl Report {
    /// Creates a report on `screen`.
    pub(crate) fn new(detail: Detail, screen: &Screen) -> Self {
        let is_drawable = matches!(detail, Detail::Text(show) if show > Show::Quiet);
        Self {
            detail,
            screen: screen.clone(),
            draws_progress: is_drawable && Screen::is_terminal(),
            output: Arc::new(Mutex::new(Output::new(screen))),
            shown: Arc::default(),
            dest: None,
        }
    }

    /// The report of the job with the destination `name`, one of several that run at the same time.
    /// Its messages name the destination. The caller shows the progress of all jobs together.
    pub(crate) fn of_destination(&self, name: String, reported: &Arc<ReportedOnce>) -> Self {
        let dest = Some(ReportedDestination { name, reported: Arc::clone(reported) });
        Self { dest, ..self.clone() }
    }

    /// Reports a statement. It may be written later.
    pub(crate) fn message(&self, message: &dyn Message) {
        match self.detail {
            Detail::Text(show) if show < message.level() => {}
            Detail::Text(_) => {
                let text = message.text();
                let text = match &self.dest {
                    Some(dest) => dest.begin_lines(&text),
                    None => text,
                };
                self.output().print(&text);
            }
            Detail::Json => message.json().into_iter().for_each(|line| self.print_json(line)),
        }
    }

    fn print_json(&self, line: Object) {
        let dest = self.dest.as_ref().map(|dest| &dest.name);
        self.output().print(&line.with_some("dest", dest).into_line());
    }

    /// Reports the fault of `path` on `host`; `None` is this machine.
    pub(crate) fn fault(&self, host: Option<String>, path: &[u8], fault: &Fault) {
        let hint = hint::for_fault_at(fault, host.is_some(), path);
        self.fault_with((host, path.to_vec()), fault, hint);
    }

    /// Reports the fault of the path `at`, with this hint.
    pub(crate) fn fault_with(&self, at: HostPath, fault: &Fault, hint: Option<&str>) {
        let line = json::fault(at.0.as_deref(), &at.1, fault, hint);
        self.print_fault(&at, fault, hint, line);
    }

    /// Reports the fault of a job's entry at `path`. Its location is `at`.
    pub(crate) fn entry_fault(&self, path: &[u8], at: &HostPath, fault: &Fault) {
        let (host, there) = at;
        if host.is_none() && !self.is_new(there, &fault.message) {
            return self.output().fail();
        }
        let hint = hint::for_fault_at(fault, host.is_some(), there);
        self.print_fault(at, fault, hint, json::fault(None, path, fault, hint));
    }

    /// Reports that the source at `path` can't be removed. Its location is `at`.
    pub(crate) fn not_removed(&self, path: &[u8], at: &HostPath, fault: &Fault) {
        let hint = match fault.kind {
            FaultKind::PermissionDenied => Some("get write permission on the directory above it"),
            _ => fault.hint(),
        };
        self.print_fault(at, fault, hint, json::fault(None, path, fault, fault.hint()));
    }

    /// Reports the fault of the path `at`, in JSON by `line`.
    fn print_fault(&self, at: &HostPath, fault: &Fault, hint: Option<&str>, line: Object) {
        let mut output = self.output();
        let text = output.fault(at, fault);
        if !self.is_text() {
            drop(output);
            return self.print_json(line);
        }
        // The directory's own fault was reported. A line for each entry in it would hide that.
        if fault.kind != FaultKind::Parent {
            output.error_line(&text);
            hint.into_iter().for_each(|hint| output.hint(hint));
        }
    }

    /// False if the text report has printed the same message about another destination.
    fn is_new(&self, path: &[u8], message: &str) -> bool {
        match &self.dest {
            Some(dest) if self.is_text() => dest.reported.is_new(path, message),
            _ => true,
        }
    }

    /// Reports a problem that is not a failure.
    pub(crate) fn warning(&self, path: &[u8], message: &str) {
        if !self.is_new(path, message) {
            return;
        }
        let mut output = self.output();
        let line = output.warning(path, message);
        if self.is_text() {
            return output.error_line(&line);
        }
        drop(output);
        self.print_json(json::warning(path, message));
    }

    /// Like [`Report::warning`], about the destination of a job.
    pub(crate) fn destination_warning(&self, path: &[u8], message: &str) {
        match &self.dest {
            Some(dest) if self.is_text() && escape_bytes(path) != dest.name => {
                let (path, message) = (escape_bytes(path), escape_text(message));
                let line = format!("haul: warning: {}: {path}: {message}", dest.name);
                self.output().error_line(&line);
            }
            _ => self.warning(path, message),
        }
    }

    /// Reports an event of a connection. It names its host, so JSON needs no destination.
    pub(crate) fn link(&self, event: LinkEvent<'_>) {
        match self.detail {
            Detail::Text(show) if event.is_detail() && show < Show::Verbose => {}
            Detail::Text(_) => {
                // The progress line shows the lost connection.
                self.clear_progress();
                if self.shows_warnings() {
                    let dest = self.dest.as_ref().map(|dest| &*dest.name);
                    self.output().error_line(&link_line(event, dest));
                }
            }
            Detail::Json => {
                if let Some(line) = json::link(&event) {
                    let mut output = self.output();
                    output.print(&line.into_line());
                    output.flush();
                }
            }
        }
    }

    /// Reports the error that ended the command or one of its jobs.
    pub(crate) fn command_error(&self, error: &CommandError) {
        if !self.is_text() {
            self.output().log_error(error);
            return self.print_json(json::command_error(error));
        }
        let of_dest = self.dest.as_ref().map(|dest| {
            let failed = if error.kind == ErrorKind::Interrupted { "" } else { "failed: " };
            let error_of_dest =
                CommandError::new(error.kind, format!("{}: {failed}{error}", dest.name));
            error.hints.iter().fold(error_of_dest, CommandError::with_hint)
        });
        let error = of_dest.as_ref().unwrap_or(error);
        let mut output = self.output();
        output.log_error(error);
        output.command_error(error);
    }

    pub(crate) fn is_text(&self) -> bool {
        self.detail != Detail::Json
    }

    /// True if warnings of jobs are shown.
    pub(crate) fn shows_warnings(&self) -> bool {
        self.detail != Detail::Text(Show::Quiet)
    }

    /// True if this outcome of an entry is reported, in a job with `task`. Called for each entry,
    /// so it must be fast.
    pub(crate) fn shows(&self, task: &Task, kind: &Kind, outcome: &Outcome) -> bool {
        match self.detail {
            Detail::Text(show) => is_in_text(show, task, kind, outcome),
            Detail::Json => is_in_json(task, outcome),
        }
    }

    /// True if progress is drawn on a terminal.
    pub(crate) fn draws_progress(&self) -> bool {
        self.draws_progress
    }

    /// Shows the progress of the running job. `None`: the job has ended, and the terminal is free
    /// for other programs, such as ssh asking for a password.
    pub(crate) fn progress(&self, counts: Option<Counts>) {
        if self.dest.is_some() {
            return;
        }
        let Some(counts) = counts else { return self.clear_progress() };
        let mut shown = self.shown.lock();
        match self.detail {
            Detail::Json => {
                if shown.printed.is_none_or(|printed| printed.elapsed() >= PROGRESS_INTERVAL) {
                    shown.printed = Some(Instant::now());
                    self.print_json(json::progress(&counts));
                }
            }
            Detail::Text(_) if self.draws_progress && counts.has_begun() => {
                let now = shown.since.get_or_insert_with(Instant::now).elapsed();
                let line = shown.meter.line(now, &counts, Screen::columns());
                if now >= SHOW_AFTER {
                    self.screen.draw(line);
                }
            }
            Detail::Text(_) => {}
        }
    }

    fn clear_progress(&self) {
        self.shown.lock().since = None;
        self.screen.clear();
    }

    /// Ends a command that can't run. Returns its exit code. Only JSON shows the `figures`, because
    /// every end has a JSON line.
    pub(crate) fn abort(&self, error: &CommandError, figures: Option<&dyn Message>) -> ExitCode {
        self.command_error(error);
        if let Some(figures) = figures.filter(|_| !self.is_text()) {
            self.message(figures);
        }
        self.finish(error.kind.exit_code())
    }

    /// Standard output and standard error.
    pub(crate) fn output(&self) -> MutexGuard<'_, Output> {
        self.output.lock()
    }

    /// Ends a command with its figures. Returns `code`, unless that is success and something
    /// failed.
    pub(crate) fn conclude(&self, code: ExitCode, figures: &dyn Message) -> ExitCode {
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
    pub(crate) fn finish(&self, code: ExitCode) -> ExitCode {
        self.output().finish(code)
    }
}

impl ReportedDestination {
    /// Begins each line of `text` with the destination.
    fn begin_lines(&self, text: &[u8]) -> Vec<u8> {
        let lines = text.split_inclusive(|byte| *byte == b'\n');
        lines.flat_map(|line| [self.name.as_bytes(), b": ", line].concat()).collect()
    }
}

/// Reports the error of a command without a report of its own. Returns the exit code.
pub(crate) fn print_error(error: &CommandError) -> ExitCode {
    Output::new(&Screen::default()).command_error(error);
    error.kind.exit_code()
}

/// Writes `bytes` to standard output, for a command without a report. Returns the exit code.
pub(crate) fn print_answer(bytes: &[u8]) -> ExitCode {
    match stdout::print(bytes) {
        Ok(()) => ExitCode::Success,
        Err(error) => print_error(&error),
    }
}

/// True if the text report shows this outcome.
fn is_in_text(show: Show, task: &Task, kind: &Kind, outcome: &Outcome) -> bool {
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

/// True if JSON has a line for this outcome.
fn is_in_json(task: &Task, outcome: &Outcome) -> bool {
    match (outcome, task) {
        (Outcome::Failed(_) | Outcome::Skipped(Skip::Special), _) => true,
        (outcome, Task::Check { .. }) => matches!(outcome, Outcome::Differs(_)),
        // A moved file is reported when its source is removed.
        (Outcome::Differs(_), _) => false,
        (_, task) => task.moving().is_none(),
    }
}

/// The file of rsync's `--log-file`, in addition to the report. Lines are appended.
pub(crate) struct LogFile {
    path: OsString,
    file: Mutex<(File, io::Result<()>)>,
}

impl LogFile {
    /// Opens the log at `path` to append, or creates it. Only `links` are followed to it.
    ///
    /// # Errors
    /// If that fails, or the path contains a link that is not followed.
    pub(crate) fn open(path: &OsStr, links: Links) -> Result<Arc<Self>, CommandError> {
        let opened = haul_engine::append_to_named(Path::new(path), links);
        let file = opened.map_err(|error| {
            let fault = Fault::from_io(Side::Destination, "open the log", &error);
            let path = escape_bytes(path.as_bytes());
            CommandError::usage(format!("{path}: {}", fault.message)).for_named_file(&fault)
        })?;
        Ok(Arc::new(Self { path: path.to_owned(), file: Mutex::new((file, Ok(()))) }))
    }

    /// Logs each line of `text`, with the time. A write error is reported at the end.
    pub(crate) fn lines(&self, text: &str) {
        let time = quantity::local_now();
        let id = std::process::id();
        let line = |line: &str| format!("{time} [{id}] {line}\n");
        let all: String = text.lines().map(line).collect();
        let mut file = self.file.lock();
        if file.1.is_ok() {
            // Written in one call, so that a killed process leaves complete lines.
            file.1 = file.0.write_all(all.as_bytes());
        }
    }

    /// Logs the end of the command. Returns an error if the log could not be written.
    fn end(&self, code: ExitCode) -> Option<CommandError> {
        self.lines(&format!("ended with exit code {}", code.number()));
        let mut file = self.file.lock();
        let error = std::mem::replace(&mut file.1, Ok(())).err()?;
        let fault = Fault::from_io(Side::Destination, "write to the log", &error);
        let path = escape_bytes(self.path.as_bytes());
        Some(CommandError::io(format!("{path}: {}", fault.message)))
    }
}

/// The line about `event`. `dest`: the destination, if several jobs run at the same time.
fn link_line(event: LinkEvent<'_>, dest: Option<&str>) -> String {
    let over = |host: &str, connections: u8, one, many| {
        let connections = quantity::counted(connections.into(), one, many);
        format!("haul: contents go to {host} over {connections}")
    };
    match event {
        LinkEvent::Lost { reason, attempt, pause, .. } => {
            let seconds = pause.as_secs();
            format!("haul: {reason}; reconnecting in {seconds} s (attempt {attempt})")
        }
        LinkEvent::Reconnected => match dest {
            Some(dest) => format!("haul: {dest}: reconnected"),
            None => "haul: reconnected".to_owned(),
        },
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
            format!("haul: warning: {host}: {}", deployed::notice(host, bytes, change))
        }
        LinkEvent::NotLoggedIn { host, reason } => {
            format!("haul: no additional ssh connection to {host}: {reason}")
        }
    }
}
