//! `haul copy --to-all`: one job for each destination, all at the same time. Each job has its own
//! connection and result, and waits for no other. They share the content that is read here.

use super::Started;
use super::figures::Figures;
use crate::args::Copy;
use crate::error::{CommandError, ExitCode};
use crate::interrupt::Interrupt;
use crate::json::{DestinationLine, Line, SummaryLine};
use crate::monitor::{JobMonitor, TICK};
use crate::progress::{Answers, Counts, Screen, diagnostics};
use crate::report::{Addressed, Report, Show, Statement};
use haul::{Hosts, Machine, Once, Request, ToldOnce, is_stream};
use haul_engine::{JobError, Leg, Monitor, Route, SHARED_LEN_MAX, SharedBlocks, Summary};
use haul_model::Task;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Instant;

/// Copies to all destinations, and prints the result of each.
pub(super) fn run(copy: &Copy) -> ExitCode {
    let started = Instant::now();
    let screen = Screen::default();
    let report = copy.detail.report(&screen);
    let report = &*report;
    let task = Task::Copy(copy.request.policy);
    report.tell(&Started { copy, dry_run: copy.request.policy.dry_run });
    let figures = |summary, ended_early, code| {
        let (dry_run, unhashed) =
            (copy.request.policy.dry_run, !copy.request.policy.wants_hashes());
        Figures {
            summary,
            time: started.elapsed(),
            dry_run,
            unhashed,
            ended_early,
            relayed: 0,
            code,
        }
    };
    let (legs, interrupt) = match prepare(copy, task) {
        Ok(ready) => ready,
        Err(error) => {
            let none = Total(figures(Summary::default(), true, error.kind.exit_code()));
            return report.refused(&error, Some(&none));
        }
    };
    let told = ToldOnce::default();
    let shown = copy.to_all.iter().map(|(dest, _)| dest.to_string());
    let reports: Vec<_> = shown.map(|dest| Addressed::new(report, &told, dest)).collect();
    let shared = SharedBlocks::new(SHARED_LEN_MAX);
    let runs: Vec<Run<'_>> = legs
        .into_iter()
        .zip(&reports)
        .map(|(leg, report)| {
            let hosts = Hosts::new(&diagnostics(&screen));
            let shares = matches!(&leg.route, Route::Upload(machine) if !machine.is_by_sftp());
            Run {
                hosts: if shares { hosts.sharing(&shared) } else { hosts },
                monitor: JobMonitor::new(report, task, interrupt.clone()),
                report,
                leg,
                has_ended: AtomicBool::new(false),
            }
        })
        .collect();
    let (total, code) = run_all(runs, report, &figures);
    report.conclude(code, &Total(figures(total, false, code)))
}

/// Creates the jobs, after every check that needs no I/O.
fn prepare(copy: &Copy, task: Task) -> Result<(Vec<Leg<Machine>>, Interrupt), CommandError> {
    if let Some(stream) = copy.request.sources.iter().find(|source| is_stream(&source.path)) {
        let error =
            format!("{stream}: a stream can be read only once, not for several destinations");
        return Err(CommandError::usage(error).with_hint("copy it to a file first"));
    }
    let interrupt = Interrupt::listen()?;
    let mut legs = Vec::with_capacity(copy.to_all.len());
    for (dest, passage) in &copy.to_all {
        let (dest, passage) = (dest.clone(), *passage);
        legs.extend(Request { dest, passage, ..copy.request.clone() }.legs(task)?);
    }
    Ok((legs, interrupt))
}

/// The job of one destination.
struct Run<'r> {
    leg: Leg<Machine>,
    hosts: Hosts,
    report: &'r Addressed<'r>,
    monitor: JobMonitor<'r>,
    has_ended: AtomicBool,
}

/// Creates the figures of a job: from its summary, whether it ended early, and its exit code.
type MakeFigures<'f> = dyn Fn(Summary, bool, ExitCode) -> Figures + Sync + 'f;

/// Runs all jobs at the same time, while `report` shows their combined progress. Returns the sum of
/// their figures, and their highest exit code.
fn run_all(
    runs: Vec<Run<'_>>,
    report: &dyn Report,
    figures: &MakeFigures<'_>,
) -> (Summary, ExitCode) {
    thread::scope(|scope| {
        let runs = &runs;
        let (stop, stopped) = mpsc::channel::<()>();
        let tick = move || tick_until(&stopped, runs, report);
        // Without the thread there is no progress, and all output is written at the end.
        let _ = thread::Builder::new().name("ticks".to_owned()).spawn_scoped(scope, tick);
        let begin = |run| {
            let begun = thread::Builder::new().name("destination".to_owned());
            let begun = begun.spawn_scoped(scope, move || Run::to_its_end(run, figures));
            (run, begun)
        };
        let begun: Vec<_> = runs.iter().map(begin).collect();
        let ends = begun.into_iter().map(|(run, thread)| match thread {
            Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(error) => run.fails(JobError::Threads(error).into(), figures),
        });
        let worst = |one: ExitCode, other: ExitCode| match one.number() < other.number() {
            true => other,
            false => one,
        };
        let none = (Summary::default(), ExitCode::Success);
        let all = ends.fold(none, |(mut total, code), (summary, of_one)| {
            total += summary;
            (total, worst(code, of_one))
        });
        drop(stop);
        all
    })
}

impl Run<'_> {
    /// Runs the job, and reports its end. Returns its figures and its exit code.
    fn to_its_end(&self, figures: &MakeFigures<'_>) -> (Summary, ExitCode) {
        let Self { leg, hosts, monitor, .. } = self;
        monitor.begin(leg, false);
        let result = hosts.run(leg, &Once::new(monitor));
        hosts.leave();
        let told = monitor.end();
        let end = match result {
            Ok(summary) => self.ends(summary, None, figures),
            // Ctrl-C also interrupts ssh, so the first symptom is a broken connection.
            Err(_) if monitor.cancelled() => self.ends(told, Some(monitor.interrupted()), figures),
            Err(error) => self.ends(told, Some(CommandError::of_leg(error, leg)), figures),
        };
        self.has_ended.store(true, Ordering::Relaxed);
        end
    }

    fn fails(&self, error: CommandError, figures: &MakeFigures<'_>) -> (Summary, ExitCode) {
        self.has_ended.store(true, Ordering::Relaxed);
        self.ends(Summary::default(), Some(error), figures)
    }

    fn ends(
        &self,
        summary: Summary,
        error: Option<CommandError>,
        figures: &MakeFigures<'_>,
    ) -> (Summary, ExitCode) {
        let code = ExitCode::of(error.as_ref().map(|error| error.kind), summary.failed > 0);
        if let Some(error) = &error {
            self.report.command_error(error);
        }
        let message = error.map(|error| error.to_string());
        let figures = figures(summary, message.is_some(), code);
        self.report.of_all().tell(&Ended { dest: self.report.dest(), figures, message });
        // The other jobs may take long, so this result is shown now.
        self.report.flush();
        (summary, code)
    }
}

/// Shows the combined progress of all jobs, until the sender of `stop` is dropped.
fn tick_until(stop: &Receiver<()>, runs: &[Run<'_>], report: &dyn Report) {
    let mut answers = Answers::new();
    while stop.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
        report.flush();
        let of = |run: &Run<'_>| match run.has_ended.load(Ordering::Relaxed) {
            true => run.monitor.counts().at_its_end(),
            false => run.monitor.counts(),
        };
        let counts = runs.iter().map(of).reduce(Counts::and).unwrap_or_default();
        report.progress(Some(counts.clone()));
        if let Some(line) = answers.line(|| counts) {
            report.answer(&line);
        }
    }
    report.progress(None);
}

/// The result of one destination's job.
struct Ended<'r> {
    dest: &'r str,
    figures: Figures,
    /// The error that ended it early. The text report has already shown it.
    message: Option<String>,
}

impl Statement for Ended<'_> {
    fn text(&self) -> Vec<u8> {
        match self.message {
            Some(_) => Vec::new(),
            None => [self.dest.as_bytes(), b": ", &self.figures.text()].concat(),
        }
    }

    fn json(&self) -> Vec<u8> {
        let Figures { summary, time, code, unhashed, .. } = &self.figures;
        let mut figures = SummaryLine::of(summary, *time, *code);
        figures.unhashed = *unhashed;
        let (dest, message) = (self.dest, self.message.clone());
        Line::Destination(DestinationLine { dest, message, figures }).to_bytes()
    }

    fn least(&self) -> Show {
        Show::Normal
    }
}

/// The figures of all jobs together, only for JSON: text has one line per destination.
struct Total(Figures);

impl Statement for Total {
    fn json(&self) -> Vec<u8> {
        self.0.json()
    }
}
