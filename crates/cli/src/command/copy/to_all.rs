//! `haul copy --to-all`: one job for each destination, all at the same time. Each job has its own
//! connection and result, and waits for no other. They share the content that is read here.

use super::Figures;
use crate::args::Copy;
use crate::error::{CommandError, End, ExitCode};
use crate::interrupt::Interrupt;
use crate::json::Object;
use crate::monitor::JobMonitor;
use crate::progress::{Counts, Screen, SignalProgress, diagnostics, while_ticking};
use crate::report::{Lazy, Message, Report, Show};
use haul::{Hosts, JobObserver, Machine, ReportedOnce, Request, WarnOnce, is_stream};
use haul_engine::{
    EntryCounts, JobError, Monitor, Route, RoutedJob, SHARED_LEN_MAX, SharedBlocks, Summary,
};
use haul_model::Task;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

/// Copies to all destinations, and prints the result of each.
pub(super) fn run(copy: &Copy) -> ExitCode {
    let started = Instant::now();
    let screen = Screen::default();
    let report = &Report::new(copy.detail, &screen);
    let task = Task::Copy(copy.request.policy);
    report.message(&super::start_message(copy, copy.request.policy.dry_run));
    let figures = |summary, ended_early, code| {
        let (time, entry_counts) = (started.elapsed(), EntryCounts::default());
        Figures::of(copy, End { summary, time, ended_early, relayed: 0, code, entry_counts })
    };
    let (routed_jobs, interrupt) = match prepare(copy, task) {
        Ok(ready) => ready,
        Err(error) => {
            let none = figures(Summary::default(), true, error.kind.exit_code());
            return report.abort(&error, Some(&total(&none)));
        }
    };
    let reported = Arc::new(ReportedOnce::default());
    let dests: Vec<_> = copy.to_all.iter().map(|(dest, _)| dest.to_string()).collect();
    let shared = SharedBlocks::new(SHARED_LEN_MAX);
    let jobs: Vec<DestinationJob<'_>> = routed_jobs
        .into_iter()
        .zip(&dests)
        .map(|(routed_job, dest)| {
            let own_report = report.of_destination(dest.clone(), &reported);
            let hosts = Hosts::new(&diagnostics(&screen));
            let shares =
                matches!(&routed_job.route, Route::Upload(machine) if !machine.is_by_sftp());
            DestinationJob {
                hosts: if shares { hosts.sharing(&shared) } else { hosts },
                monitor: JobMonitor::new(&own_report, task, interrupt.clone()),
                report,
                dest,
                routed_job,
                has_ended: AtomicBool::new(false),
            }
        })
        .collect();
    let (summary, code) = run_all(&jobs, report, &figures);
    report.conclude(code, &total(&figures(summary, false, code)))
}

/// Creates the jobs, after every check that needs no I/O.
fn prepare(copy: &Copy, task: Task) -> Result<(Vec<RoutedJob<Machine>>, Interrupt), CommandError> {
    if let Some(stream) = copy.request.sources.iter().find(|source| is_stream(&source.path)) {
        let error =
            format!("{stream}: a stream can be read only once, not for several destinations");
        return Err(CommandError::usage(error).with_hint("copy it to a file first"));
    }
    let interrupt = Interrupt::listen()?;
    let mut routed_jobs = Vec::with_capacity(copy.to_all.len());
    for (dest, transfer_options) in &copy.to_all {
        let (dest, transfer_options) = (dest.clone(), *transfer_options);
        routed_jobs
            .extend(Request { dest, transfer_options, ..copy.request.clone() }.routed_jobs(task)?);
    }
    Ok((routed_jobs, interrupt))
}

/// The job of one destination.
struct DestinationJob<'r> {
    routed_job: RoutedJob<Machine>,
    hosts: Hosts,
    /// The report of the command.
    report: &'r Report,
    /// The destination as the user wrote it, escaped.
    dest: &'r str,
    /// It reports about this destination.
    monitor: JobMonitor,
    has_ended: AtomicBool,
}

/// Creates the figures of a job: from its summary, whether it ended early, and its exit code.
type MakeFigures<'f> = dyn Fn(Summary, bool, ExitCode) -> Figures + Sync + 'f;

/// Runs all jobs at the same time, while `report` shows their combined progress. Returns the sum of
/// their figures, and their highest exit code.
fn run_all(
    jobs: &[DestinationJob<'_>],
    report: &Report,
    figures: &MakeFigures<'_>,
) -> (Summary, ExitCode) {
    let run = || {
        thread::scope(|scope| {
            let begin = |run| {
                let spawned = thread::Builder::new().name("destination".to_owned());
                let spawned =
                    spawned.spawn_scoped(scope, move || DestinationJob::run_to_end(run, figures));
                (run, spawned)
            };
            let spawned: Vec<_> = jobs.iter().map(begin).collect();
            let results = spawned.into_iter().map(|(run, thread)| match thread {
                Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
                Err(error) => {
                    run.has_ended.store(true, Ordering::Relaxed);
                    let error = CommandError::from(JobError::Threads(error));
                    run.report_end(Summary::default(), Some(error), figures)
                }
            });
            let none = (Summary::default(), ExitCode::Success);
            results.fold(none, |(mut total, code), (summary, job_code)| {
                total += summary;
                (total, if code.number() < job_code.number() { job_code } else { code })
            })
        })
    };
    let mut signal_progress = SignalProgress::new();
    let tick = || {
        report.output().flush();
        let of = |run: &DestinationJob<'_>| match run.has_ended.load(Ordering::Relaxed) {
            true => run.monitor.counts().completed(),
            false => run.monitor.counts(),
        };
        let counts = jobs.iter().map(of).reduce(Counts::merge).unwrap_or_default();
        report.progress(Some(counts.clone()));
        if let Some(line) = signal_progress.line(|| counts) {
            report.output().error_line(&line);
        }
    };
    let all = while_ticking(tick, run);
    report.progress(None);
    all
}

impl DestinationJob<'_> {
    /// Runs the job, and reports its end. Returns its figures and its exit code.
    fn run_to_end(&self, figures: &MakeFigures<'_>) -> (Summary, ExitCode) {
        let Self { routed_job, hosts, monitor, .. } = self;
        monitor.begins(routed_job, false);
        let result = hosts.run(routed_job, &WarnOnce::new(monitor));
        hosts.leave();
        let reported = monitor.ends();
        let end = match result {
            Ok(summary) => self.report_end(summary, None, figures),
            // Ctrl-C also interrupts ssh, so the first symptom is a broken connection.
            Err(_) if monitor.cancelled() => {
                self.report_end(reported, Some(monitor.interrupted()), figures)
            }
            Err(error) => self.report_end(
                reported,
                Some(CommandError::from_routed_job(error, routed_job)),
                figures,
            ),
        };
        self.has_ended.store(true, Ordering::Relaxed);
        end
    }

    fn report_end(
        &self,
        summary: Summary,
        error: Option<CommandError>,
        figures: &MakeFigures<'_>,
    ) -> (Summary, ExitCode) {
        let code = ExitCode::of(error.as_ref().map(|error| error.kind), summary.failed > 0);
        if let Some(error) = &error {
            self.monitor.report.command_error(error);
        }
        let message = error.map(|error| error.to_string());
        let figures = figures(summary, message.is_some(), code);
        let dest = self.dest;
        self.report.message(&Lazy {
            level: Show::Normal,
            // The text report has already shown the error that ended the job early.
            text: || match message {
                Some(_) => Vec::new(),
                None => [dest.as_bytes(), b": ", &figures.text()].concat(),
            },
            json: || {
                let line = Object::line("destination").with("dest", dest);
                figures.add_to(line.with_some("message", message.as_ref()))
            },
        });
        // The other jobs may take long, so this result is shown now.
        self.report.output().flush();
        (summary, code)
    }
}

/// The figures of all jobs together, only for JSON: text has one line per destination.
fn total(figures: &Figures) -> impl Message + '_ {
    Lazy {
        level: Show::Normal,
        text: String::new,
        json: || figures.add_to(Object::line("summary")),
    }
}
