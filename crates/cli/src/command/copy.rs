//! `haul copy`: runs one job of the engine for each machine that has sources, one after the other.

mod confirmation;
mod to_all;

use crate::args::Copy;
use crate::error::{CommandError, End, ErrorKind, ExitCode};
use crate::interrupt::Interrupt;
use crate::json::{self, Object};
use crate::monitor::{JobMonitor, SideMonitor};
use crate::progress::{Screen, diagnostics};
use crate::quantity;
use crate::report::{Lazy, LogFile, Message, Report, Show};
use haul::{Hosts, Location, Machine, Peers, Questions, Ready, Request, WarnOnce, in_parts};
use haul_engine::{
    EntryCounts, Monitor, NotCopied, Outcome, RELAYED_FIRST, RoutedJob, Skip, Summary,
};
use haul_model::{Fault, Task, Via};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

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
        false => run_removing(routed_jobs, removals, &monitor, &hosts),
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

/// A command that copies or compares, ready to run.
pub(in crate::command) struct Prepared {
    /// The request. Sources that were not found are already reported.
    pub(in crate::command) ready: Ready,
    pub(in crate::command) interrupt: Interrupt,
    pub(in crate::command) hosts: Hosts,
}

/// A check of a request that asks no host.
pub(in crate::command) type Refuse = dyn Fn(&Request) -> Result<(), haul::Error>;

/// Prepares the request of `copy`. The command can `refuse` and `complete` it; see
/// [`Request::prepare`].
///
/// # Errors
/// If a host can't be asked, the user interrupts, or the request is refused.
pub(in crate::command) fn prepare(
    copy: &Copy,
    task: Task,
    screen: &Screen,
    report: &Report,
    refuse: &Refuse,
    complete: impl FnOnce(&mut Request, &mut Questions<'_>) -> Result<(), CommandError>,
) -> Result<Prepared, CommandError> {
    let interrupt = Interrupt::listen()?;
    let diagnostics = diagnostics(screen);
    let hosts = Hosts::new(&diagnostics);
    let monitor = JobMonitor::new(report, task, interrupt.clone());
    // The copy itself reports hosts without haul.
    let peers = Peers::new(&diagnostics).quietly().before(task);
    let questions = Questions::new(&hosts, peers, &monitor);
    let not_found = &mut |host, path: &[u8], fault: &Fault| report.fault(host, path, fault);
    let ready = copy.request.prepare(task, questions, refuse, complete, not_found);
    let ready = ready.map_err(|error| match monitor.cancelled() {
        // Ctrl-C also interrupts ssh, so the first symptom is a broken connection.
        true => monitor.interrupted(),
        false => error.for_task(&task),
    })?;
    Ok(Prepared { ready, interrupt, hosts })
}

/// Runs `routed_jobs`, then `removals`. If one of the `routed_jobs` ended early, no removal runs.
/// Entries that failed, and everything in them, are kept.
fn run_removing(
    routed_jobs: Vec<RoutedJob<Machine>>,
    removals: Vec<RoutedJob<Machine>>,
    monitor: &JobMonitor,
    hosts: &Hosts,
) -> (Summary, Option<ErrorKind>) {
    let not_copied = NotCopied::default();
    let (mut summary, error) = watch_legs(routed_jobs, monitor, &not_copied.watch(monitor), hosts);
    if error.is_some() || not_copied.has_all() {
        return (summary, error);
    }
    let mut ready = Vec::with_capacity(removals.len());
    for mut routed_job in removals {
        match routed_job.job.filter.behind(not_copied.rules(false)) {
            Ok(filter) => routed_job.job.filter = filter,
            Err(error) => {
                monitor.report.warning(b".", &format!("not removing any source: {error}"));
                return (Summary { failed: summary.failed + 1, ..summary }, None);
            }
        }
        ready.push(routed_job);
    }
    let failed = AtomicU64::new(0);
    let differs = |outcome: &Outcome| *outcome != Outcome::Skipped(Skip::Unchanged);
    let removal = SideMonitor::new(monitor, monitor.progress(), differs, |event| {
        failed.fetch_add(monitor.report_removal(event).into(), Ordering::Relaxed);
    });
    let (_, error) = watch_legs(ready, monitor, &removal, hosts);
    summary.failed += failed.into_inner();
    (summary, error)
}

/// Appended to the figures if this machine relayed more than [`RELAYED_FIRST`].
pub(in crate::command) fn relay_note(relayed: u64) -> String {
    match relayed > RELAYED_FIRST {
        true => format!("; {} through this machine", quantity::bytes(relayed)),
        false => String::new(),
    }
}

struct Figures {
    end: End,
    dry_run: bool,
    unhashed: bool,
}

impl Figures {
    fn of(copy: &Copy, end: End) -> Self {
        let policy = &copy.request.policy;
        Self { end, dry_run: policy.dry_run, unhashed: !policy.wants_hashes() }
    }

    /// Adds the figures to a line.
    fn add_to(&self, line: Object) -> Object {
        json::with_copy_figures(line, &self.end, self.unhashed)
    }
}

impl Message for Figures {
    fn text(&self) -> Vec<u8> {
        let End { summary, time, ended_early, relayed, .. } = &self.end;
        // Without results an error needs no summary.
        if *ended_early && *summary == Summary::default() {
            return Vec::new();
        }
        let line = line(summary, *time, self.dry_run);
        let unhashed = if self.unhashed && summary.copied > 0 { UNHASHED } else { "" };
        format!("{line}{unhashed}{}\n", relay_note(*relayed)).into_bytes()
    }

    fn json(&self) -> Option<Object> {
        Some(self.add_to(Object::line("summary")))
    }

    fn level(&self) -> Show {
        Show::Normal
    }
}

/// The line at the end of a copy, or of a dry run.
fn line(summary: &Summary, time: Duration, dry_run: bool) -> String {
    let Summary { copied, linked, updated, dirs_created, bytes, skipped, special, .. } = *summary;
    let Summary { failed, grown, .. } = *summary;
    let there = summary.bytes_resumed.saturating_add(summary.bytes_matched);
    let moved = summary.bytes_transferred;
    let (done, made) = if dry_run { ("would copy", "would make") } else { ("copied", "made") };
    let mut line = match (copied, dirs_created) {
        (0, 0) => format!("{done} nothing"),
        (0, dirs) => format!("{made} {}", quantity::counted(dirs, "directory", "directories")),
        (files, _) => {
            let files = quantity::counted(files, "file", "files");
            format!("{done} {files}, {}", quantity::bytes(bytes))
        }
    };
    if !dry_run {
        line.push_str(&format!(" in {}", quantity::duration(time)));
        // With repeated reads, failures or holes, the rate would not be that of the copied bytes.
        let copied = bytes.saturating_sub(there);
        if moved.abs_diff(copied) <= copied / 10 && moved > 0 && !time.is_zero() {
            let rate = quantity::rate(moved as f64 / time.as_secs_f64());
            line.push_str(&format!(" ({rate})"));
        }
    }
    if there > 0 && !dry_run {
        line.push_str(&format!("; {} already there", quantity::bytes(there)));
    }
    if grown > 0 {
        line.push_str(&format!("; {} grew during the copy", quantity::count(grown)));
    }
    let (link, update) = match dry_run {
        true => ("would link", "would update"),
        false => ("linked", "updated"),
    };
    let (linked, updated) = ((linked, link), (updated, update));
    let rest = [linked, updated, (skipped, "skipped"), (special, "left out"), (failed, "failed")];
    line + &quantity::counts(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_leave_out_what_is_zero() {
        let text = |s: Summary, dry| line(&s, Duration::from_millis(410), dry);
        let all = Summary {
            copied: 1008,
            dirs_created: 11,
            bytes: 20_866_662,
            bytes_transferred: 20_866_662,
            skipped: 12,
            special: 2,
            failed: 1,
            grown: 3,
            linked: 4,
            updated: 5,
            ..Summary::default()
        };
        let lines = [
            text(all, false),
            text(all, true),
            text(
                Summary { copied: 1, bytes: 5, bytes_transferred: 5, ..Summary::default() },
                false,
            ),
            text(
                Summary {
                    copied: 1,
                    bytes: 5,
                    bytes_transferred: 2,
                    bytes_resumed: 3,
                    ..Summary::default()
                },
                false,
            ),
            text(Summary { copied: 1, ..Summary::default() }, false),
            text(Summary { dirs_created: 1, ..Summary::default() }, false),
            text(Summary { dirs_created: 3, ..Summary::default() }, true),
            text(Summary { skipped: 1008, ..Summary::default() }, false),
            text(Summary { failed: 1, ..Summary::default() }, true),
        ];
        insta::assert_snapshot!(lines.join("\n"), @r"
        copied 1,008 files, 19.9 MiB in 0.41 s (48.5 MiB/s); 3 grew during the copy; linked 4; updated 5; skipped 12; left out 2; failed 1
        would copy 1,008 files, 19.9 MiB; 3 grew during the copy; would link 4; would update 5; skipped 12; left out 2; failed 1
        copied 1 file, 5 B in 0.41 s (12 B/s)
        copied 1 file, 5 B in 0.41 s (4 B/s); 3 B already there
        copied 1 file, 0 B in 0.41 s
        made 1 directory in 0.41 s
        would make 3 directories
        copied nothing in 0.41 s; skipped 1,008
        would copy nothing; failed 1
        ");
    }
}
