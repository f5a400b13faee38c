//! Errors that end a command, with hints for users and kinds for scripts, and the exit codes.

use crate::hint::{self, Hint};
use haul::files::FileError;
use haul::{Host, LocationError, Machine, Request};
use haul_engine::{EntryCounts, JobError, Route, RoutedJob, Summary};
use haul_model::{Fault, FaultKind, Task};
use haul_net::{ConnectError, Refusal};
use std::error::Error;
use std::fmt;
use std::time::Duration;

/// The exit codes, as docs/reference/exit-codes.md explains them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExitCode {
    /// Everything was done.
    Success,
    /// Some entries failed; the others were done.
    SomeFailed,
    /// The command can't be carried out as given; nothing was done.
    Usage,
    /// A connection failed or was lost.
    Connection,
    Destination,
    Interrupted,
    /// An agent that ssh started in place of a server refuses the client.
    Refused(Refusal),
    /// An exit code of rsync.
    Rsync(u8),
}

/// rsync's code for a partial transfer.
const PARTIAL: u8 = 23;

/// rsync's code for skipped removals.
const NOT_DELETED: u8 = 25;

/// rsync's code for a time limit.
const OUT_OF_TIME: u8 = 30;

impl ExitCode {
    /// Converts to rsync's code for a mirror with this summary. `vanished` is the number of its
    /// failures for vanished entries.
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

    /// The code of a finished command. `error` is the error that ended it early; `failed`: part of
    /// it failed.
    pub(crate) fn of(error: Option<ErrorKind>, failed: bool) -> Self {
        match error {
            Some(kind) => kind.exit_code(),
            None if failed => Self::SomeFailed,
            None => Self::Success,
        }
    }

    /// Changes success to partial failure.
    pub(crate) fn or_failed(self) -> Self {
        match self {
            Self::Success => Self::SomeFailed,
            Self::Rsync(0) => Self::Rsync(PARTIAL),
            code => code,
        }
    }

    /// The exit status of the process.
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

/// The end of a command that copies or compares.
#[derive(Clone, Copy)]
pub(crate) struct End {
    pub(crate) summary: Summary,
    pub(crate) time: Duration,
    /// An error ended the command.
    pub(crate) ended_early: bool,
    /// Bytes of content that this machine relayed between two hosts. Zero if the user chose this
    /// way.
    pub(crate) relayed: u64,
    pub(crate) code: ExitCode,
    pub(crate) entry_counts: EntryCounts,
}

/// The kind of a [`CommandError`]. It decides the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ErrorKind {
    /// The command line or a file that it needs is invalid.
    Usage,
    /// A connection failed or was lost.
    Connection,
    /// The peer has another version, or violated the protocol.
    Protocol,
    Destination,
    Interrupted,
    /// The time limit was reached.
    OutOfTime,
    /// The user declined a question, or a server refuses a request.
    Refused,
    /// An operation of this machine failed, such as writing to standard output.
    Io,
}

impl ErrorKind {
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

/// The error that ended a command, with hints.
#[derive(Debug)]
pub(crate) struct CommandError {
    pub(crate) kind: ErrorKind,
    pub(crate) source: Box<dyn Error + Send + Sync>,
    /// Remedies for the user, one sentence each.
    pub(crate) hints: Vec<String>,
}

impl CommandError {
    /// Creates an error without hints.
    pub(crate) fn new(kind: ErrorKind, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { kind, source: source.into(), hints: Vec::new() }
    }

    /// Creates an error about a failed operation of this machine.
    pub(crate) fn io(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::new(ErrorKind::Io, source)
    }

    /// Creates an error about the command line.
    pub(crate) fn usage(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::new(ErrorKind::Usage, source)
    }

    /// Creates the error for an interrupt by the user.
    pub(crate) fn interrupted() -> Self {
        Self::new(ErrorKind::Interrupted, "interrupted")
            .with_hint("run the same command again: finished files are skipped")
    }

    /// Replaces hints by those for a mirror.
    fn for_mirror(mut self) -> Self {
        let is_of_copy =
            |hint: &&mut String| **hint == hint::CREATE_PARENTS || **hint == hint::CREATE_FIRST;
        for hint in self.hints.iter_mut().filter(is_of_copy) {
            hint::CREATE_PARENTS_MIRROR.clone_into(hint);
        }
        self
    }

    /// Adapts the hints to a job with `task`, which may copy finished files again.
    pub(crate) fn for_task(mut self, task: &Task) -> Self {
        if !hint::skips_finished(task) {
            self.hints.iter_mut().for_each(|hint| *hint = hint::for_full_copy(hint));
        }
        if task.mirrors().is_some() { self.for_mirror() } else { self }
    }

    /// Adapts the hints to a command that only asks: it finishes no files.
    pub(crate) fn for_query(mut self) -> Self {
        self.hints.iter_mut().for_each(|hint| *hint = hint::for_query(hint));
        self
    }

    /// Adds the hint about links if a file named on the command line could not be opened because of
    /// one. Other hints of `fault` are about copied files.
    pub(crate) fn for_named_file(self, fault: &Fault) -> Self {
        match (fault.kind, fault.hint()) {
            (FaultKind::ForeignLink, Some(hint)) => self.with_hint(hint),
            _ => self,
        }
    }

    /// If `host` can't be reached, adds hints about local files that the user may have meant.
    fn for_host(self, host: &Host) -> Self {
        use ConnectError as E;
        let is_unreachable = matches!(
            self.source.downcast_ref(),
            Some(E::Unreachable { .. } | E::HostKey { .. } | E::LoginRefused { .. })
        );
        let mut error = self;
        for file in host.local_candidates.iter().filter(|_| is_unreachable) {
            let hint = format!("write '{file}' for the local file");
            if !error.hints.contains(&hint) {
                error.hints.push(hint);
            }
        }
        error
    }

    /// Converts the error of a question to `machine`.
    pub(crate) fn at(machine: &Machine) -> impl Fn(haul::Error) -> Self {
        move |error| machine.host().into_iter().fold(error.into(), Self::for_host)
    }

    /// Converts the error of a request to several machines.
    pub(crate) fn from_request(error: haul::Error, request: &Request) -> Self {
        let places = request.sources.iter().chain([&request.dest]);
        places.filter_map(|place| place.machine.host()).fold(error.into(), Self::for_host)
    }

    /// Converts the error of the job of `routed_job`.
    pub(crate) fn from_routed_job(error: haul::Error, routed_job: &RoutedJob<Machine>) -> Self {
        let hosts = match &routed_job.route {
            Route::Local => [None, None],
            Route::Upload(to) => [None, to.host()],
            Route::Download(from) => [from.host(), None],
            Route::Between(from, to) => [from.host(), to.host()],
        };
        let is_upload = matches!(routed_job.route, Route::Upload(_));
        let error = match error {
            // The host may have no haul that could remove partial files.
            haul::Error::ThroughSftp(JobError::Destination { path, fault })
                if is_upload && fault.kind == FaultKind::NoSpace =>
            {
                let error = JobError::Destination { path, fault };
                Self::new(ErrorKind::Destination, error).with_hint(hint::NO_SPACE_BY_SFTP)
            }
            error => Self::from(error),
        };
        hosts.into_iter().flatten().fold(error.for_task(&routed_job.job.task), Self::for_host)
    }

    /// Adds a hint.
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
        let kind = if error.problem().is_usage_error() { ErrorKind::Usage } else { ErrorKind::Io };
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
        let kind = if error.is_usage_error() { ErrorKind::Usage } else { ErrorKind::Connection };
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
            JobError::Threads(_) => {
                Self::io(error).with_hint("raise 'ulimit -u' or 'ulimit -v', or end other programs")
            }
            JobError::OpenFiles(_) => Self::io(error).with_hint("raise the limit with 'ulimit -n'"),
            JobError::Panicked => Self::io(error)
                .with_hint("run the same command again; if this happens again, report it"),
            JobError::Interrupted => Self::interrupted(),
            JobError::Destination { ref fault, ref path } => {
                let hint = match fault.kind {
                    FaultKind::NotFound if path.ends_with('/') => Some(hint::CREATE_PARENTS),
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
    fn what_is_done_again_the_next_time_is_not_said_to_be_skipped() {
        let copy = |conflict| Task::Copy(Policy { conflict, ..Policy::default() });
        for (task, words) in [
            (copy(Conflict::ReplaceChanged), "finished files are skipped"),
            (copy(Conflict::ReplaceAll), "finished files are copied again"),
        ] {
            let lost = ConnectError::Lost { host: "nas".into(), detail: String::new() };
            for error in [CommandError::from(lost), JobError::Interrupted.into()] {
                let hints = error.for_task(&task).hints;
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
