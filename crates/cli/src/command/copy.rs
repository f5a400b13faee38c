//! `haul copy`: runs one job of the engine for each machine that has sources, one after the other.

mod confirmation;
mod figures;
mod ready;
mod removing;
mod to_all;

use self::figures::Figures;
pub(super) use self::figures::relay_note;
use self::ready::Refuse;
pub(super) use self::ready::{Prepared, prepare};
use crate::args::Copy;
use crate::error::{CommandError, End, ErrorKind, ExitCode};
use crate::json;
use crate::monitor::JobMonitor;
use crate::progress::Screen;
use crate::quantity;
use crate::report::{Lazy, LogFile, Message, Report, Show};
use haul::{Hosts, Location, Machine, Questions, Ready, Request, WarnOnce, in_parts};
use haul_engine::{EntryCounts, Monitor, RoutedJob, Summary};
use haul_model::{Task, Via};
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Appended to the figures if contents were not hashed.
pub(super) const UNHASHED: &str = "; contents not hashed";

pub(super) fn run(copy: &Copy) -> ExitCode {
    if !copy.to_all.is_empty() {
        return to_all::run(copy);
    }
    let task = Task::Copy(copy.request.policy);
    execute(copy, task, &[task], &|_| Ok(()), |_, _| Ok(()), |end| Figures::of(copy, end))
}

/// Runs the jobs of `copy` with `task`, unless `refuse` rejects the request, and prints the
/// `figures` at the end. A task has one or several `parts` per job, which run one after the other.
/// The next part runs even if one fails, with one exception: removals at the end are skipped if a
/// part failed or a source could not be read. `complete` may ask hosts to complete the request.
pub(super) fn execute<F: Message>(
    copy: &Copy,
    task: Task,
    parts: &[Task],
    refuse: &Refuse,
    complete: impl FnOnce(&mut Request, &mut Questions<'_>) -> Result<(), CommandError>,
    figures: impl Fn(End) -> F,
) -> ExitCode {
    let started = Instant::now();
    let screen = Screen::default();
    let report = &Report::new(copy.detail, &screen);
    let log_config = copy.lines.log.as_deref();
    let log = match log_config.map(|log| LogFile::open(&log.path, log.links)).transpose() {
        Ok(log) => log,
        Err(error) => return report.abort(&error, None).as_rsync(&Summary::default(), 0),
    };
    report.output().log.clone_from(&log);
    report.message(&start_message(copy, task.keeps_destination()));
    let figures = |summary, relayed, ended_early, code, entry_counts| {
        figures(End { summary, time: started.elapsed(), ended_early, relayed, code, entry_counts })
    };
    let none = |code| figures(Summary::default(), 0, true, code, EntryCounts::default());
    let Prepared { ready, interrupt, hosts } =
        match prepare(copy, task, &screen, report, refuse, complete) {
            Ok(prepared) => prepared,
            Err(error) => {
                let code = report.abort(&error, Some(&none(error.kind.exit_code())));
                return match task {
                    Task::Sync(..) => code.as_rsync(&Summary::default(), 0),
                    _ => code,
                };
            }
        };
    let Ready { request, failed, routed_jobs, peers } = ready;
    let monitor = JobMonitor::new(report, task, interrupt).of_copy(copy, log);
    hosts.reuse_connections(peers, &routed_jobs);
    let once = WarnOnce::new(&monitor);
    if copy.asks
        && let Err(error) =
            confirmation::confirm(&request.dest, &routed_jobs, &once, &hosts, &screen)
    {
        let none = none(error.kind.exit_code());
        return report.abort(&error, Some(&none)).as_rsync(&Summary::default(), 0);
    }
    let (removals, routed_jobs): (Vec<_>, Vec<_>) = in_parts(routed_jobs, parts)
        .into_iter()
        .partition(|routed_job| routed_job.job.task.removes().is_some());
    let (mut summary, error) = match removals.is_empty() {
        true => watch_legs(routed_jobs, &monitor, &once, &hosts),
        false => removing::run(routed_jobs, removals, &monitor, &hosts),
    };
    summary.failed += failed;
    if summary.spared > 0 && report.shows_warnings() {
        let spared = quantity::counted(summary.spared, "entry stays", "entries stay");
        report.warning(b".", &format!("{spared}: --max-delete reached"));
    }
    monitor.print_unnamed_count();
    let differs = matches!(task, Task::Check { .. }) && summary.has_differences();
    let is_partial = summary.failed > 0 || differs || report.output().has_failed();
    let code = match (ExitCode::of(error, is_partial), task) {
        (code, Task::Sync(..)) => code.as_rsync(&summary, monitor.vanished.load(Ordering::Relaxed)),
        (code, _) => code,
    };
    let relayed = match request.transfer_options.via {
        Via::Ssh => 0,
        _ => monitor.progress().relayed.load(Ordering::Relaxed),
    };
    let entry_counts = monitor.progress().entry_counts();
    report.conclude(code, &figures(summary, relayed, error.is_some(), code, entry_counts))
}

/// The statement that a command starts to copy or compare. `dry_run`: it changes nothing.
pub(super) fn start_message(copy: &Copy, dry_run: bool) -> impl Message + '_ {
    let Copy { request: Request { sources, dest, .. }, to_all, .. } = copy;
    let given = |location: &Location| String::from_utf8_lossy(&location.given).into_owned();
    let json = move || {
        let dests = to_all.iter().map(|(dest, _)| given(dest)).collect();
        let dest = to_all.is_empty().then(|| given(dest));
        json::start(sources.iter().map(given).collect(), dest, dests, dry_run)
    };
    Lazy { level: Show::Quiet, text: String::new, json }
}

/// Runs the jobs, whose events `watch` receives, while the monitor shows their progress. Returns
/// their figures, and the kind of the error that decides the exit code.
pub(super) fn watch_legs(
    routed_jobs: Vec<RoutedJob<Machine>>,
    monitor: &JobMonitor,
    watch: &dyn Monitor,
    hosts: &Hosts,
) -> (Summary, Option<ErrorKind>) {
    let run = || haul::run_routed_jobs(routed_jobs, hosts, watch, monitor);
    let (summary, _) = monitor.watch(run);
    (summary, monitor.first_error.lock().take())
}
