//! Errors that end a command early, in a form that a person and a script can act
//! on, and the program's exit codes.

use crate::hint::{self, Hint};
use haul::files::FileError;
use haul::{Host, LocationError, Machine, Request};
use haul_engine::{JobError, Leg, Route, Summary};
use haul_model::{Fault, FaultKind, Task};
use haul_net::{ConnectError, Refusal};
use std::error::Error;
use std::fmt;

/// The exit codes, as docs/reference/exit-codes.md explains them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExitCode {
    /// All was done.
    Success,
    /// Some files failed; the others were done.
    SomeFailed,
    /// The words of the command can't be carried out; nothing was done.
    Usage,
    /// A connection could not be made, or broke.
    Connection,
    /// The destination as a whole can't be used.
    Destination,
    /// A signal ended the command.
    Interrupted,
    /// An agent that takes a server's place refuses its client.
    Refused(Refusal),
    /// One of rsync's.
    Rsync(u8),
}

/// The code of rsync for a part that has failed.
const PARTIAL: u8 = 23;

/// The code of rsync for what was to be removed, and was not.
const NOT_DELETED: u8 = 25;

/// The code of rsync for a time limit.
const OUT_OF_TIME: u8 = 30;

impl ExitCode {
    /// The code that rsync has for the same: of a mirror with these figures, of whose
    /// failures so many are of entries that had vanished.
    pub(crate) fn as_rsync(self, summary: &Summary, vanished: u64) -> Self {
        Self::Rsync(match self {
            Self::Success if summary.spared > 0 => NOT_DELETED,
            Self::Success => 0,
            Self::SomeFailed if vanished > 0 && vanished == summary.failed => 24,
            Self::SomeFailed => PARTIAL,
            Self::Usage => 1,
            Self::Connection => 12,
            Self::Destination => 11,
            Self::Interrupted => 20,
            Self::Refused(refusal) => refusal.status(),
            Self::Rsync(code) => code,
        })
    }

    /// That of a command that has run: `error` is the class of the error that ended it
    /// early, `failed` says that a part of it has failed.
    pub(crate) fn of(error: Option<ErrorKind>, failed: bool) -> Self {
        match error {
            Some(kind) => kind.exit_code(),
            None if failed => Self::SomeFailed,
            None => Self::Success,
        }
    }

    /// The same of a command of which something has failed.
    pub(crate) fn or_failed(self) -> Self {
        match self {
            Self::Success => Self::SomeFailed,
            Self::Rsync(0) => Self::Rsync(PARTIAL),
            code => code,
        }
    }

    /// The number that the system gets.
    pub(crate) const fn number(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::SomeFailed => 1,
            Self::Usage => 2,
            Self::Connection => 3,
            Self::Destination => 4,
            Self::Interrupted => 130,
            Self::Refused(refusal) => refusal.status(),
            Self::Rsync(code) => code,
        }
    }
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        code.number().into()
    }
}

/// The class of a [`CommandError`]; decides the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ErrorKind {
    /// The words of the command can't be carried out.
    Usage,
    /// No connection, or it broke.
    Connection,
    /// The peer speaks another version, or broke the rules.
    Protocol,
    /// The destination as a whole can't be used.
    Destination,
    /// The user interrupted.
    Interrupted,
    /// The time that the user gave it is over.
    OutOfTime,
    /// The user was asked, and does not want it.
    Refused,
    /// Something of this machine failed, such as writing to standard output.
    Io,
}

impl ErrorKind {
    /// The exit code of a command that ended with such an error.
    pub(crate) const fn exit_code(self) -> ExitCode {
        match self {
            Self::Usage => ExitCode::Usage,
            Self::Connection | Self::Protocol => ExitCode::Connection,
            Self::Destination => ExitCode::Destination,
            Self::Interrupted => ExitCode::Interrupted,
            Self::OutOfTime => ExitCode::Rsync(OUT_OF_TIME),
            Self::Refused => ExitCode::Rsync(NOT_DELETED),
            Self::Io => ExitCode::SomeFailed,
        }
    }
}

/// Why a command as a whole ended, and what one can do about it.
#[derive(Debug)]
pub(crate) struct CommandError {
    /// Its class.
    pub(crate) kind: ErrorKind,
    /// The error itself.
    pub(crate) source: Box<dyn Error + Send + Sync>,
    /// Remedies for a person, a sentence each.
    pub(crate) hints: Vec<String>,
}

impl CommandError {
    /// An error without hints.
    pub(crate) fn new(kind: ErrorKind, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { kind, source: source.into(), hints: Vec::new() }
    }

    /// The system refuses something, or a value can't be written.
    pub(crate) fn io(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::new(ErrorKind::Io, source)
    }

    /// The command's words are at fault.
    pub(crate) fn usage(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::new(ErrorKind::Usage, source)
    }

    /// The user ended the command.
    pub(crate) fn interrupted() -> Self {
        Self::new(ErrorKind::Interrupted, "interrupted")
            .with_hint("run the same command again: finished files are skipped")
    }

    /// The same of a mirror, which has words of its own.
    fn of_mirror(mut self) -> Self {
        let is_of_copy =
            |hint: &&mut String| **hint == hint::MAKE_ABOVE || **hint == hint::MAKE_FIRST;
        for hint in self.hints.iter_mut().filter(is_of_copy) {
            hint::MAKE_ABOVE_MIRROR.clone_into(hint);
        }
        self
    }

    /// The same of a job with that `task`: what is done already it may do anew.
    pub(crate) fn of_task(mut self, task: &Task) -> Self {
        if !hint::skips_finished(task) {
            self.hints.iter_mut().for_each(|hint| *hint = hint::doing_all_anew(hint));
        }
        if task.mirrors().is_some() { self.of_mirror() } else { self }
    }

    /// The same of a command that only asks: its hints do not speak of finished files.
    pub(crate) fn of_question(mut self) -> Self {
        self.hints.iter_mut().for_each(|hint| *hint = hint::of_question(hint));
        self
    }

    /// The same of a file that the command names, and that could not be opened by this `fault`:
    /// with the hint about links. Others are about what is copied.
    pub(crate) fn of_named(self, fault: &Fault) -> Self {
        match (fault.kind, fault.hint()) {
            (FaultKind::ForeignLink, Some(hint)) => self.with_hint(hint),
            _ => self,
        }
    }

    /// The same where `host` can't be reached: with the files of this machine that its words
    /// may have meant.
    fn of_host(self, host: &Host) -> Self {
        use ConnectError as E;
        let no_way = matches!(
            self.source.downcast_ref(),
            Some(E::Unreachable { .. } | E::HostKey { .. } | E::LoginRefused { .. })
        );
        let mut error = self;
        for file in host.here_instead.iter().filter(|_| no_way) {
            let hint = format!("write '{file}' for the local file");
            if !error.hints.contains(&hint) {
                error.hints.push(hint);
            }
        }
        error
    }

    /// The error of a question to `machine`.
    pub(crate) fn at(machine: &Machine) -> impl Fn(haul::Error) -> Self {
        move |error| machine.host().into_iter().fold(error.into(), Self::of_host)
    }

    /// The error of a request that goes to several machines.
    pub(crate) fn of_request(error: haul::Error, request: &Request) -> Self {
        let places = request.sources.iter().chain([&request.dest]);
        places.filter_map(|place| place.machine.host()).fold(error.into(), Self::of_host)
    }

    /// The error of the job of `leg`.
    pub(crate) fn of_leg(error: haul::Error, leg: &Leg<Machine>) -> Self {
        let hosts = match &leg.route {
            Route::Local => [None, None],
            Route::Upload(to) => [None, to.host()],
            Route::Download(from) => [from.host(), None],
            Route::Between(from, to) => [from.host(), to.host()],
        };
        let is_upload = matches!(leg.route, Route::Upload(_));
        let error = match error {
            // There may be no haul to remove partial files with.
            haul::Error::ThroughSftp(error @ JobError::Destination { .. })
                if is_upload && is_full(&error) =>
            {
                Self::new(ErrorKind::Destination, error).with_hint(hint::NO_SPACE_BY_SFTP)
            }
            error => Self::from(error),
        };
        hosts.into_iter().flatten().fold(error.of_task(&leg.job.task), Self::of_host)
    }

    /// The same with one more hint.
    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}

impl Error for CommandError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.source)
    }
}

/// True if the destination has no space left.
fn is_full(error: &JobError) -> bool {
    matches!(error, JobError::Destination { fault, .. } if fault.kind == FaultKind::NoSpace)
}

impl From<haul::Error> for CommandError {
    fn from(error: haul::Error) -> Self {
        use haul::Error as E;
        let in_two_steps = |error: Self, to: &str| {
            error.with_hint(format!("copy to this machine first, then to {to}"))
        };
        match error {
            E::Job(error) | E::ThroughSftp(error) => error.into(),
            E::Location(error) => error.into(),
            E::Deploy(error) => error.into(),
            E::File(error) => error.into(),
            E::Neither { missing, sftp } => {
                Self::from(missing).with_hint(format!("SFTP does not work either: {sftp}"))
            }
            E::LacksHaul { missing, to } => in_two_steps(missing.into(), &to),
            E::NotBetween { ref to, .. } => {
                let to = to.clone();
                in_two_steps(Self::usage(error), &to)
            }
            E::NotEnrolled { ref host } => {
                let hint = format!("'haul server enroll {host}' enrolls you there, through ssh");
                Self::usage(error).with_hint(hint)
            }
            E::Usage { instead, .. } => {
                instead.into_iter().fold(Self::usage(error), Self::with_hint)
            }
            error => Self::usage(error),
        }
    }
}

impl From<FileError> for CommandError {
    fn from(error: FileError) -> Self {
        let kind = if error.problem().is_usage() { ErrorKind::Usage } else { ErrorKind::Io };
        let hint = error.problem().hint();
        hint.into_iter().fold(Self::new(kind, error), Self::with_hint)
    }
}

impl From<LocationError> for CommandError {
    fn from(error: LocationError) -> Self {
        let hint = error.hint();
        hint.into_iter().fold(Self::usage(error), Self::with_hint)
    }
}

impl From<ConnectError> for CommandError {
    fn from(error: ConnectError) -> Self {
        let kind = if error.is_usage() { ErrorKind::Usage } else { ErrorKind::Connection };
        let hints = error.hint().into_iter();
        hints.fold(Self::new(kind, error), Self::with_hint)
    }
}

impl From<JobError> for CommandError {
    fn from(error: JobError) -> Self {
        match error {
            JobError::Connection(error) => error.into(),
            JobError::Usage(_) => Self::usage(error),
            JobError::Protocol(_) => Self::new(ErrorKind::Protocol, error),
            JobError::Version { ref host, .. } => {
                let hint = format!(
                    "run 'haul deploy {host}' to install this version there, or use --transport sftp"
                );
                Self::new(ErrorKind::Protocol, error).with_hint(hint)
            }
            JobError::Sftp { ref cause, .. } => {
                let kind =
                    if cause.retriable() { ErrorKind::Connection } else { ErrorKind::Protocol };
                let hint = cause.hint();
                hint.into_iter().fold(Self::new(kind, error), Self::with_hint)
            }
            JobError::Threads(_) => Self::new(ErrorKind::Io, error)
                .with_hint("raise 'ulimit -u' or 'ulimit -v', or end other programs"),
            JobError::OpenFiles(_) => {
                Self::new(ErrorKind::Io, error).with_hint("raise the limit with 'ulimit -n'")
            }
            JobError::Panicked => Self::new(ErrorKind::Io, error)
                .with_hint("run the same command again; if this happens again, report it"),
            JobError::Interrupted => Self::interrupted(),
            JobError::Destination { ref fault, ref path } => {
                let hint = match fault.kind {
                    FaultKind::NotFound if path.ends_with('/') => Some(hint::MAKE_ABOVE),
                    _ => fault.hint(),
                };
                let error = Self::new(ErrorKind::Destination, error);
                hint.into_iter().fold(error, Self::with_hint)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_model::{Conflict, Fault, Policy, Side};

    #[test]
    fn a_full_destination_exits_with_4_and_says_what_to_do() {
        let fault = Fault::new(Side::Destination, FaultKind::NoSpace, "can't write: No space left");
        let error = CommandError::from(JobError::Destination { path: "/full".into(), fault });
        assert_eq!(error.kind.exit_code().number(), 4);
        assert_eq!(error.to_string(), "/full: can't write: No space left");
        assert_eq!(error.hints.len(), 1);
    }

    #[test]
    fn what_is_done_anew_the_next_time_is_not_said_to_be_skipped() {
        let copy = |conflict| Task::Copy(Policy { conflict, ..Policy::default() });
        for (task, words) in [
            (copy(Conflict::ReplaceChanged), "finished files are skipped"),
            (copy(Conflict::ReplaceAll), "finished files are copied again"),
        ] {
            let lost = ConnectError::Lost { host: "nas".into(), detail: String::new() };
            for error in [CommandError::from(lost), JobError::Interrupted.into()] {
                let hints = error.of_task(&task).hints;
                assert_eq!(hints, [format!("run the same command again: {words}")]);
            }
        }
    }

    #[test]
    fn every_end_of_a_job_has_its_code() {
        let code = |error: JobError| CommandError::from(error).kind.exit_code().number();
        assert_eq!(code(JobError::Usage("x".into())), 2);
        assert_eq!(code(JobError::Protocol("x".into())), 3);
        assert_eq!(code(JobError::Interrupted), 130);
    }
}
