//! `haul copy`: runs one job of the engine for each machine that has sources, one after the other.

mod asking;
mod figures;
mod ready;
mod removing;
mod to_all;

use self::figures::Figures;
pub(super) use self::figures::passed_here;
use self::ready::Refuse;
pub(super) use self::ready::{Begun, prepare};
use crate::args::Copy;
use crate::error::{CommandError, ErrorKind, ExitCode};
use crate::json::{Line, SCHEMA, Start};
use crate::monitor::JobMonitor;
use crate::progress::Screen;
use crate::quantity;
use crate::report::{LogFile, Logged, Report, Statement};
use haul::{
    Course, Hosts, Location, Machine, Next, Once, Questions, Ready, Request, in_parts, left_out,
};
use haul_engine::{Census, Leg, Monitor, Summary};
use haul_model::{Fault, Mirror, Part, Task, Via};
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// Appended to the figures if contents were not hashed.
pub(super) const UNHASHED: &str = "; contents not hashed";

pub(super) fn run(copy: &Copy) -> ExitCode {
    if !copy.to_all.is_empty() {
        return to_all::run(copy);
    }
    let is_partial =
        |summary: &Summary, report: &dyn Report| summary.failed > 0 || report.has_failed();
    carry_out(copy, Task::Copy(copy.request.policy), &|_| Ok(()), is_partial, |end| {
        let End { summary, time, ended_early, relayed, code, .. } = end;
        let (dry_run, unhashed) =
            (copy.request.policy.dry_run, !copy.request.policy.wants_hashes());
        Figures { summary, time, dry_run, unhashed, ended_early, relayed, code }
    })
}

/// The end of a command that copies or compares.
#[derive(Clone, Copy)]
pub(super) struct End {
    pub(super) summary: Summary,
    pub(super) time: Duration,
    /// An error ended the command.
    pub(super) ended_early: bool,
    /// Bytes of content that this machine relayed between two hosts. Zero if the user chose this
    /// way.
    pub(super) relayed: u64,
    pub(super) code: ExitCode,
    pub(super) census: Census,
}

/// Runs the jobs of `copy` with `task`, unless `refuse` rejects the request, and prints the
/// `figures` at the end. `is_partial` returns true if something was not done.
pub(super) fn carry_out<F: Statement>(
    copy: &Copy,
    task: Task,
    refuse: &Refuse,
    is_partial: impl Fn(&Summary, &dyn Report) -> bool,
    figures: impl Fn(End) -> F,
) -> ExitCode {
    let as_it_is = |_: &mut Request, _: &mut Questions<'_>| Ok(());
    carry_out_in_parts(copy, task, &[task], refuse, as_it_is, is_partial, figures)
}

/// Like [`carry_out`], for a task with several `parts` per job, which run one after the other. The
/// next part runs even if one fails, with one exception: removals at the end are skipped if a part
/// failed or a source could not be read. `complete` may ask hosts to complete the request.
pub(super) fn carry_out_in_parts<F: Statement>(
    copy: &Copy,
    task: Task,
    parts: &[Task],
    refuse: &Refuse,
    complete: impl FnOnce(&mut Request, &mut Questions<'_>) -> Result<(), CommandError>,
    is_partial: impl Fn(&Summary, &dyn Report) -> bool,
    figures: impl Fn(End) -> F,
) -> ExitCode {
    let started = Instant::now();
    let screen = Screen::default();
    let mut report = copy.detail.report(&screen);
    let log = match copy.lines.log().map(LogFile::open).transpose() {
        Ok(log) => log,
        Err(error) => return report.refused(&error, None).as_rsync(&Summary::default(), 0),
    };
    if let Some(log) = &log {
        report = Box::new(Logged::new(report, Arc::clone(log)));
    }
    let report = &*report;
    report.tell(&Started { copy, dry_run: task.keeps_destination() });
    let figures = |summary, relayed, ended_early, code, census| {
        figures(End { summary, time: started.elapsed(), ended_early, relayed, code, census })
    };
    let none = |code| figures(Summary::default(), 0, true, code, Census::default());
    let Begun { ready, interrupt, hosts } =
        match prepare(copy, task, &screen, report, refuse, complete) {
            Ok(begun) => begun,
            Err(error) => {
                let code = report.refused(&error, Some(&none(error.kind.exit_code())));
                return match task {
                    Task::Sync(..) => code.as_rsync(&Summary::default(), 0),
                    _ => code,
                };
            }
        };
    let Ready { request, unmatched, legs, peers } = ready;
    let missed = &mut |host, path: &[u8], fault: &Fault| report.fault(host, path, fault);
    let (legs, missing) = left_out(&request, task, legs, missed);
    let monitor =
        JobMonitor::new(report, task, interrupt).with_lines(copy.lines.clone()).with_log(log);
    let monitor = monitor.until(copy.until);
    hosts.go_on(peers, &legs);
    let once = Once::new(&monitor);
    if copy.asks
        && let Err(error) = asking::settle(&request.dest, &legs, &once, &hosts, &screen)
    {
        let none = none(error.kind.exit_code());
        return report.refused(&error, Some(&none)).as_rsync(&Summary::default(), 0);
    }
    let (removals, legs): (Vec<_>, Vec<_>) =
        in_parts(legs, parts).into_iter().partition(|leg| leg.job.task.removes().is_some());
    let (mut summary, error) = match removals.is_empty() {
        true => watch_legs(legs, &monitor, &once, &hosts),
        false => removing::run(legs, removals, &monitor, &hosts),
    };
    summary.failed += unmatched + missing;
    if summary.spared > 0 && report.warns() {
        let spared = quantity::counted(summary.spared, "entry stays", "entries stay");
        report.warning(b".", &format!("{spared}: --max-delete reached"));
    }
    monitor.tell_unnamed();
    let code = match (ExitCode::of(error, is_partial(&summary, report)), task) {
        (code, Task::Sync(..)) => code.as_rsync(&summary, monitor.vanished()),
        (code, _) => code,
    };
    let relayed = match request.passage.via {
        Via::Ssh => 0,
        _ => monitor.progress().relayed.load(Ordering::Relaxed),
    };
    let census = monitor.progress().census();
    report.conclude(code, &figures(summary, relayed, error.is_some(), code, census))
}

/// The statement that a command starts to copy or compare.
pub(super) struct Started<'a> {
    pub(super) copy: &'a Copy,
    /// The command changes nothing.
    pub(super) dry_run: bool,
}

impl Statement for Started<'_> {
    fn json(&self) -> Vec<u8> {
        let Copy { request: Request { sources, dest, .. }, to_all, .. } = self.copy;
        let given = |location: &'_ Location| String::from_utf8_lossy(&location.given).into_owned();
        let start = Start {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION"),
            sources: sources.iter().map(given).collect(),
            dest: to_all.is_empty().then(|| given(dest)),
            dests: to_all.iter().map(|(dest, _)| given(dest)).collect(),
            dry_run: self.dry_run,
        };
        Line::Start(start).to_bytes()
    }
}

/// Runs the jobs, whose events `watch` receives, while the monitor shows their progress. Returns
/// their figures, and the kind of the error that decides the exit code.
pub(super) fn watch_legs(
    legs: Vec<Leg<Machine>>,
    monitor: &JobMonitor<'_>,
    watch: &dyn Monitor,
    hosts: &Hosts,
) -> (Summary, Option<ErrorKind>) {
    shown(monitor, || run_legs(legs, monitor, watch, hosts))
}

/// Does `work`, while a thread writes output and shows progress.
pub(super) fn shown<T>(monitor: &JobMonitor<'_>, work: impl FnOnce() -> T) -> T {
    thread::scope(|scope| {
        let (stop, stopped) = mpsc::channel();
        let tick = move || monitor.tick_until(&stopped);
        // Without the thread there is no progress, and all output is written at the end.
        let _ = thread::Builder::new().name("ticks".to_owned()).spawn_scoped(scope, tick);
        let done = work();
        drop(stop);
        done
    })
}

/// Runs the jobs. Returns their figures, and the kind of the error that decides the exit code.
pub(super) fn run_legs(
    legs: Vec<Leg<Machine>>,
    monitor: &JobMonitor<'_>,
    watch: &dyn Monitor,
    hosts: &Hosts,
) -> (Summary, Option<ErrorKind>) {
    let mut course = Told::new(monitor);
    let (summary, _) = haul::run_legs(legs, hosts, watch, &mut course);
    (summary, course.first_error)
}

/// The course of a command's jobs, as it is reported to the user.
pub(super) struct Told<'m, 'r> {
    monitor: &'m JobMonitor<'r>,
    /// The kind of the error that decides the exit code.
    pub(super) first_error: Option<ErrorKind>,
}

impl<'m, 'r> Told<'m, 'r> {
    /// Creates the course before the first job.
    pub(super) fn new(monitor: &'m JobMonitor<'r>) -> Self {
        Self { monitor, first_error: None }
    }
}

impl Course for Told<'_, '_> {
    fn begins(&self, leg: &Leg<Machine>, has_more: bool) {
        self.monitor.begin(leg, has_more);
    }

    fn ends(&self) -> Summary {
        self.monitor.end()
    }

    fn fails(&mut self, leg: &Leg<Machine>, error: haul::Error) -> Next {
        let error = match self.monitor.cancelled() {
            // Ctrl-C also interrupts ssh, so the first symptom is a broken connection.
            true => self.monitor.interrupted(),
            false => CommandError::of_leg(error, leg),
        };
        self.monitor.report().command_error(&error);
        match error.kind {
            ErrorKind::Interrupted => {
                self.first_error = Some(error.kind);
                Next::Ends
            }
            // The next host may be reachable.
            ErrorKind::Connection | ErrorKind::Protocol => {
                self.first_error.get_or_insert(error.kind);
                Next::GoesOn
            }
            kind => {
                self.first_error.get_or_insert(kind);
                Next::Ends
            }
        }
    }

    fn withholds(&self, mirror: &Mirror, has_failed: bool) -> bool {
        let ignores = mirror.delete.is_some_and(|delete| delete.ignore_errors);
        let is_unread = self.monitor.unread() > 0 && !ignores;
        let withholds = mirror.part == Part::RemovesLast && (has_failed || is_unread);
        if withholds && self.monitor.report().warns() {
            let message = "skipping all removals: not all of the source could be read";
            self.monitor.report().warning(b".", message);
        }
        withholds
    }

    fn removes(&self, leg: &Leg<Machine>) {
        self.monitor.locate_by(leg);
    }
}
