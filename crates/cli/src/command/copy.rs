//! `haul copy`: one job of the engine for each place that sources are on, one
//! after the other.

mod asking;
mod figures;
pub(super) mod missing;
mod ready;
mod removing;
mod to_all;

use self::figures::Figures;
pub(super) use self::figures::passed_here;
pub(super) use self::ready::{Ready, prepare};
use crate::args::Copy;
use crate::cache;
use crate::error::{CommandError, ErrorKind, ExitCode};
use crate::json::{Line, SCHEMA, Start};
use crate::monitor::JobMonitor;
use crate::progress::Screen;
use crate::quantity;
use crate::report::{LogFile, Logged, Report, Statement};
use haul::Location;
use haul::Machine;
use haul::Once;
use haul::state;
use haul::{Hosts, Questions};
use haul_engine::{Census, Job, Leg, Monitor, Munging, Route, Summary, legs};
use haul_model::{Filter, Mirror, Part, Task, Via, escape_bytes};
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// At the end of the figures where nobody has hashed contents.
pub(super) const UNHASHED: &str = "; contents not hashed";

/// Copies, and says what came of it.
pub(super) fn run(copy: &Copy) -> ExitCode {
    if !copy.to_all.is_empty() {
        return to_all::run(copy);
    }
    let is_partial =
        |summary: &Summary, report: &dyn Report| summary.failed > 0 || report.has_failed();
    carry_out(
        copy,
        Task::Copy(copy.policy),
        |_| Ok(()),
        is_partial,
        |end| {
            let End { summary, time, ended_early, relayed, code, .. } = end;
            let (dry_run, unhashed) = (copy.policy.dry_run, !copy.policy.wants_hashes());
            Figures { summary, time, dry_run, unhashed, ended_early, relayed, code }
        },
    )
}

/// The end of a command that copies or compares.
#[derive(Clone, Copy)]
pub(super) struct End {
    pub(super) summary: Summary,
    pub(super) time: Duration,
    /// An error has ended it.
    pub(super) ended_early: bool,
    /// Bytes of content that passed through here from one host to another, and might not
    /// have.
    pub(super) relayed: u64,
    pub(super) code: ExitCode,
    /// The entries by their kinds.
    pub(super) census: Census,
}

/// Runs the jobs with that task that `copy` takes, unless the command has to `refuse` it,
/// and tells the `figures` at the end. They are not all done if `is_partial` says so.
pub(super) fn carry_out<F: Statement>(
    copy: &Copy,
    task: Task,
    refuse: impl Fn(&Copy) -> Result<(), CommandError>,
    is_partial: impl Fn(&Summary, &dyn Report) -> bool,
    figures: impl Fn(End) -> F,
) -> ExitCode {
    let as_it_is = |copy, _: &mut Questions<'_>| Ok(copy);
    carry_out_in_parts(copy, task, &[task], refuse, as_it_is, is_partial, figures)
}

/// The same for a task that takes several `parts`, one after the other for each job. What
/// fails in one doesn't keep the next from being done, unless it removes and something of
/// the sources could not be read. The command may have to ask hosts to `complete` its words.
pub(super) fn carry_out_in_parts<F: Statement>(
    copy: &Copy,
    task: Task,
    parts: &[Task],
    refuse: impl Fn(&Copy) -> Result<(), CommandError>,
    complete: impl FnOnce(Copy, &mut Questions<'_>) -> Result<Copy, CommandError>,
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
    let Ready { copy, legs, unmatched, interrupt, hosts, peers } =
        match prepare(copy, task, &screen, report, refuse, complete) {
            Ok(ready) => ready,
            Err(error) => {
                let code = report.refused(&error, Some(&none(error.kind.exit_code())));
                return match task {
                    Task::Sync(..) => code.as_rsync(&Summary::default(), 0),
                    _ => code,
                };
            }
        };
    let copy = &copy;
    let (legs, missing) = missing::left_out(copy, task, legs, report);
    let monitor =
        JobMonitor::new(report, task, interrupt).with_lines(copy.lines.clone()).with_log(log);
    let monitor = monitor.until(copy.until);
    let hosts = hosts.after(peers, &legs);
    let once = Once::new(&monitor);
    if copy.asks
        && let Err(error) = asking::settle(copy, &legs, &once, &hosts, &screen)
    {
        let none = none(error.kind.exit_code());
        return report.refused(&error, Some(&none)).as_rsync(&Summary::default(), 0);
    }
    let of_parts = |leg: Leg<Machine>| {
        parts.iter().map(move |part| {
            // A mirror is made of what its words name, whoever made it before.
            let origin = leg.job.origin.filter(|_| part.mirrors().is_none());
            let job = Job { task: *part, origin, ..leg.job.clone() };
            Leg { job, ..leg.clone() }
        })
    };
    let legs = legs.into_iter().flat_map(of_parts);
    let (removals, legs): (Vec<_>, Vec<_>) = legs.partition(|leg| leg.job.task.removes().is_some());
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
    let relayed = match copy.passage.via {
        Via::Ssh => 0,
        _ => monitor.progress().relayed.load(Ordering::Relaxed),
    };
    let census = monitor.progress().census();
    report.conclude(code, &figures(summary, relayed, error.is_some(), code, census))
}

/// A command that copies or compares has understood its words.
pub(super) struct Started<'a> {
    pub(super) copy: &'a Copy,
    /// Nothing is changed.
    pub(super) dry_run: bool,
}

impl Statement for Started<'_> {
    fn json(&self) -> Vec<u8> {
        let Copy { sources, dest, to_all, .. } = self.copy;
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

/// Runs the jobs, which tell `watch`, while the monitor shows how far they are; gives
/// their figures and the class of the error that decides the exit code.
pub(super) fn watch_legs(
    legs: Vec<Leg<Machine>>,
    monitor: &JobMonitor<'_>,
    watch: &dyn Monitor,
    hosts: &Hosts,
) -> (Summary, Option<ErrorKind>) {
    shown(monitor, || run_legs(legs, monitor, watch, hosts))
}

/// Does `work` while the monitor writes output and shows progress.
pub(super) fn shown<T>(monitor: &JobMonitor<'_>, work: impl FnOnce() -> T) -> T {
    thread::scope(|scope| {
        let (stop, stopped) = mpsc::channel();
        let tick = move || monitor.tick_until(&stopped);
        // Without a thread nothing is shown on the way, and all at the end.
        let _ = thread::Builder::new().name("ticks".to_owned()).spawn_scoped(scope, tick);
        let done = work();
        drop(stop);
        done
    })
}

/// The jobs with that task that `copy` takes, with all that can be known to be wrong
/// before anything is done.
fn plan(copy: &Copy, task: Task) -> Result<Vec<Leg<Machine>>, CommandError> {
    // Those of a mirror become one.
    if task.mirrors().is_none() {
        check_names(&copy.sources, &copy.filter)?;
    }
    let like = Job {
        recursive: copy.recursive,
        follow: copy.follow,
        task,
        filter: copy.filter.clone(),
        altered: copy.altered.clone(),
        bases: copy.bases.clone(),
        backup: copy.backup.clone(),
        staging: copy.staging.clone(),
        rate: copy.passage.rate,
        compression: copy.passage.compression,
        via: copy.passage.via,
        ports: copy.passage.ports,
        cache: cache::place(&copy.passage),
        state: state::journals(),
        spool: Some(std::env::temp_dir()),
        ..Job::default()
    };
    let sources: Vec<_> = copy.sources.iter().map(Location::spot).collect();
    let mut legs = legs(&sources, &copy.dest.spot(), &like);
    if let (Some(list), [leg]) = (&copy.list, &mut *legs) {
        leg.job.base = Some(std::mem::replace(&mut leg.job.sources, list.clone()).concat());
    }
    for leg in legs.iter_mut().filter(|_| copy.munges) {
        leg.job.munging = match leg.route {
            Route::Download(_) => Munging::Done,
            // Neither side is here: such words are refused.
            Route::Local | Route::Upload(_) | Route::Between(..) => Munging::Undone,
        };
    }
    Ok(legs)
}

/// `leg` of a command by which so many entries are `deleted` already.
fn with_removals_left(mut leg: Leg<Machine>, deleted: u64) -> Leg<Machine> {
    if let Task::Sync(_, Mirror { delete_max: Some(max), .. }) = &mut leg.job.task {
        *max = max.saturating_sub(deleted);
    }
    leg
}

/// Refuses sources that would arrive under one name: the later would replace
/// the earlier. Where one has no name, the others must be in the same place, where
/// they can be compared entry by entry. What rules leave out, whatever it is, does not
/// arrive.
fn check_names(sources: &[Location], filter: &Filter) -> Result<(), CommandError> {
    if let Some(whole) = sources.iter().find(|source| source.final_name().is_none())
        && let Some(other) = sources.iter().find(|source| source.machine != whole.machine)
    {
        return Err(CommandError::usage(format!(
            "{other}: it may have the same names as {whole}, and would replace them"
        ))
        .with_hint("copy them separately"));
    }
    let mut names: HashMap<&[u8], &Location> = HashMap::with_capacity(sources.len());
    for source in sources {
        let Some(name) = source.final_name() else { continue };
        if [true, false].iter().all(|is_dir| filter.hides(name, *is_dir) == Some(true)) {
            continue;
        }
        if let Some(earlier) = names.insert(name, source) {
            let name = escape_bytes(name);
            return Err(CommandError::usage(format!(
                "{earlier} and {source} have the same destination: {name}"
            ))
            .with_hint("copy them separately, to different names or directories"));
        }
    }
    Ok(())
}

/// Runs the jobs, and gives their figures and the class of the error that
/// decides the exit code.
pub(super) fn run_legs(
    legs: Vec<Leg<Machine>>,
    monitor: &JobMonitor<'_>,
    watch: &dyn Monitor,
    hosts: &Hosts,
) -> (Summary, Option<ErrorKind>) {
    let mut total = Summary::default();
    let mut first_error = None;
    let mut legs = legs.into_iter();
    while let Some(leg) = legs.next() {
        let has_failed = first_error.is_some();
        let is_withheld = |mirror: &Mirror| withholds(mirror, has_failed, monitor);
        if leg.job.task.mirrors().is_some_and(is_withheld) {
            continue;
        }
        let leg = with_removals_left(leg, total.deleted);
        monitor.begin(&leg, legs.len() > 0);
        let result = hosts.run(&leg, watch);
        let told = monitor.end();
        let error = match result {
            Ok(summary) => {
                total += summary;
                continue;
            }
            // Ctrl-C reaches ssh too, and what is seen of it first is a
            // connection that breaks.
            Err(_) if monitor.cancelled() => monitor.interrupted(),
            Err(error) => CommandError::of_leg(error, &leg),
        };
        total += told;
        monitor.report().command_error(&error);
        match error.kind {
            ErrorKind::Interrupted => return (total, Some(error.kind)),
            // Another host may be there.
            ErrorKind::Connection | ErrorKind::Protocol => {
                first_error.get_or_insert(error.kind);
            }
            _ => return (total, Some(first_error.unwrap_or(error.kind))),
        }
    }
    (total, first_error)
}

/// True if a part of a mirror's work is left out: it only removes, and what the sources
/// have is not all known.
fn withholds(mirror: &Mirror, has_failed: bool, monitor: &JobMonitor<'_>) -> bool {
    let ignores = mirror.delete.is_some_and(|delete| delete.ignore_errors);
    let withholds =
        mirror.part == Part::RemovesLast && (has_failed || monitor.unread() > 0 && !ignores);
    if withholds && monitor.report().warns() {
        let message = "skipping all removals: not all of the source could be read";
        monitor.report().warning(b".", message);
    }
    withholds
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Detail, Show};
    use std::ffi::OsStr;

    fn copy(words: &[&str]) -> Copy {
        let mut locations: Vec<Location> = words
            .iter()
            .map(|words| Location::parse(OsStr::new(words)).expect("a location"))
            .collect();
        let dest = locations.pop().expect("a destination");
        Copy::of(locations, dest, Detail::Text(Show::Normal))
    }

    fn host(machine: &Machine) -> String {
        let way = if machine.is_by_sftp() { "sftp " } else { "" };
        format!("{way}{machine}")
    }

    /// The steps as `route: sources -> dest`, or the refusal.
    fn planned(words: &[&str]) -> String {
        let copy = copy(words);
        let plan = plan(&copy, Task::default());
        let legs = match plan {
            Ok(legs) => legs,
            Err(error) => return format!("refused: {error} {:?}\n", error.hints),
        };
        let line = |leg: &Leg<Machine>| {
            let route = match &leg.route {
                Route::Local => "local".to_owned(),
                Route::Upload(machine) => format!("up to {}", host(machine)),
                Route::Download(machine) => format!("down from {}", host(machine)),
                Route::Between(from, to) => format!("from {} to {}", host(from), host(to)),
            };
            let sources: Vec<String> = leg.job.sources.iter().map(|s| escape_bytes(s)).collect();
            let into = if leg.job.into_dir { " (directory)" } else { "" };
            let dest = escape_bytes(&leg.job.dest);
            format!("{route}: {} -> {dest}{into}\n", sources.join(" "))
        };
        legs.iter().map(line).collect()
    }

    #[test]
    fn sources_of_one_place_are_one_job() {
        let plans = [
            planned(&["a", "b"]),
            planned(&["a", "b", "d/"]),
            planned(&["a", "b", "u@host:d"]),
            planned(&["host:", "."]),
            planned(&["host:a", "host:b", "other:c", "d", "host:e", "dir"]),
            planned(&["u@host:a", "host:b", "dir"]),
            planned(&[".", "..", "dir"]),
            planned(&["a:x", "b:y"]),
            planned(&["a:x", "x.txt", "a:z", "a:y"]),
        ];
        insta::assert_snapshot!(plans.concat());
    }

    #[test]
    fn what_can_not_be_done_is_refused_before_anything_is() {
        let plans = [planned(&["a/x", "b/x/", "dir"]), planned(&["x", "host:x", "dir"])];
        insta::assert_snapshot!(plans.concat());
    }
}
