//! `haul copy`: one job of the engine for each place that sources are on, one
//! after the other.

use super::{end, finish};
use crate::args::{Copy, Detail};
use crate::error::{CommandError, ErrorKind, ExitCode};
use crate::hosts::{Hosts, Route};
use crate::interrupt::Interrupt;
use crate::json::{Line, SCHEMA, Start, SummaryLine};
use crate::location::Location;
use crate::location::Place::{self, Here};
use crate::monitor::{CopyMonitor, Show};
use crate::progress::Screen;
use crate::report::{self, Form, Report};
use crate::state;
use haul_engine::{CopyJob, Summary};
use haul_model::{Task, escape_bytes};
use std::collections::HashMap;
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

/// Copies, and says what came of it.
pub(super) fn run(copy: &Copy) -> ExitCode {
    let started = Instant::now();
    let form = copy.detail.form();
    let screen = Screen::default();
    let mut report = Report::new(form, screen.clone());
    if form == Form::Json {
        report.json(&Line::Start(start(copy)));
    }
    let listening = Interrupt::listen();
    let (steps, interrupt) = match plan(copy).and_then(|steps| Ok((steps, listening?))) {
        Ok(ready) => ready,
        Err(error) => {
            if form == Form::Json {
                report.command_error(&error);
                let code = error.kind.exit_code();
                let line = SummaryLine::of(&Summary::default(), started.elapsed(), code);
                report.json(&Line::Summary(line));
                report.finish();
                return error.kind.exit_code();
            }
            return end(report, &error);
        }
    };

    let show = show(copy.detail, copy.policy.dry_run);
    let monitor = CopyMonitor::new(show, interrupt.clone(), report, screen.clone());
    let hosts = Hosts::new(copy.reach, &screen);
    let (summary, error) = watch_steps(steps, &monitor, &interrupt, &hosts);

    let mut report = monitor.into_report();
    let code = match error {
        Some(kind) => kind.exit_code(),
        None if summary.failed > 0 || report.has_failed() => ExitCode::SomeFailed,
        None => ExitCode::Success,
    };
    match copy.detail {
        Detail::Quiet => {}
        Detail::Json => {
            report.json(&Line::Summary(SummaryLine::of(&summary, started.elapsed(), code)))
        }
        // After an error that left nothing done there is nothing to sum up.
        _ if error.is_some() && summary == Summary::default() => {}
        _ => {
            let line = report::summary(&summary, started.elapsed(), copy.policy.dry_run);
            report.print(format!("{line}\n").as_bytes());
        }
    }
    finish(report, code)
}

/// Runs the steps while the monitor shows how far they are; gives their figures
/// and the class of the error that decides the exit code.
pub(super) fn watch_steps(
    steps: Vec<Step<'_>>,
    monitor: &CopyMonitor,
    interrupt: &Interrupt,
    hosts: &Hosts,
) -> (Summary, Option<ErrorKind>) {
    thread::scope(|scope| {
        let (stop, stopped) = mpsc::channel();
        if monitor.needs_ticks() {
            let tick = move || monitor.tick_until(&stopped);
            // Without a thread nothing is shown on the way, and all at the end.
            let _ = thread::Builder::new().name("ticks".to_owned()).spawn_scoped(scope, tick);
        }
        let done = run_steps(steps, monitor, interrupt, hosts);
        drop(stop);
        done
    })
}

/// One job and where its roles run.
#[derive(Debug)]
pub(super) struct Step<'a> {
    pub(super) job: CopyJob,
    pub(super) route: Route<'a>,
}

/// The jobs that `copy` takes, with all that can be known to be wrong before
/// anything is done.
pub(super) fn plan(copy: &Copy) -> Result<Vec<Step<'_>>, CommandError> {
    if copy.dest.place != Here && copy.sources.iter().any(|source| source.place != Here) {
        return Err(CommandError::usage(
            "copying from one host to another is not there yet: copy to here first",
        ));
    }
    check_names(&copy.sources)?;
    let into_dir = copy.sources.len() > 1;
    let groups = copy.sources.chunk_by(|a, b| a.place == b.place);
    groups
        .map(|group| {
            let job = CopyJob {
                sources: group.iter().map(|source| source.path.clone()).collect(),
                dest: copy.dest.path.clone(),
                into_dir,
                recursive: copy.recursive,
                follow: copy.follow,
                task: Task::Copy(copy.policy),
                origin: origin(copy),
                state: state::journals(),
                spool: copy.policy.moving.is_none().then(std::env::temp_dir),
            };
            Ok(Step { job, route: route(&group[0].place, &copy.dest.place) })
        })
        .collect()
}

/// The number by which the destination is known again that the one source becomes.
pub(super) fn origin(copy: &Copy) -> Option<[u8; 16]> {
    let [source] = copy.sources.as_slice() else { return None };
    let host = match &source.place {
        Here => None,
        Place::There(target) | Place::Sftp(target) => Some(target.display()),
    };
    source.final_name()?;
    haul_engine::origin(host.as_deref(), &source.path, &copy.dest.path)
}

/// The route of a job between two places, one of which is here.
fn route<'a>(source: &'a Place, dest: &'a Place) -> Route<'a> {
    match (source, dest) {
        (Here, Here) => Route::Local,
        (Here, there) => Route::Upload(there),
        (there, _) => Route::Download(there),
    }
}

/// Refuses sources that would arrive under one name: the later would replace
/// the earlier. Where one has no name, the others must be in the same place, where
/// they can be compared entry by entry.
fn check_names(sources: &[Location]) -> Result<(), CommandError> {
    if let Some(whole) = sources.iter().find(|source| source.final_name().is_none())
        && let Some(other) = sources.iter().find(|source| source.place != whole.place)
    {
        return Err(CommandError::usage(format!(
            "{other} may have what {whole} has, and would replace it"
        ))
        .with_hint("copy them one by one"));
    }
    let mut names: HashMap<&[u8], &Location> = HashMap::with_capacity(sources.len());
    for source in sources {
        let Some(name) = source.final_name() else { continue };
        if let Some(earlier) = names.insert(name, source) {
            let name = escape_bytes(name);
            return Err(CommandError::usage(format!(
                "{earlier} and {source} would both arrive as {name}"
            ))
            .with_hint("copy them one by one, to different names or directories"));
        }
    }
    Ok(())
}

/// Runs the steps, and gives their figures and the class of the error that
/// decides the exit code.
fn run_steps(
    steps: Vec<Step<'_>>,
    monitor: &CopyMonitor,
    interrupt: &Interrupt,
    hosts: &Hosts,
) -> (Summary, Option<ErrorKind>) {
    let mut total = Summary::default();
    let mut first_error = None;
    let mut steps = steps.into_iter();
    while let Some(step) = steps.next() {
        monitor.begin(steps.len() > 0);
        let result = hosts.run(&step.job, step.route, monitor);
        let told = monitor.end();
        let error = match result {
            Ok(summary) => {
                total += summary;
                continue;
            }
            // Ctrl-C reaches ssh too, and what is seen of it first is a
            // connection that breaks.
            Err(_) if interrupt.happened() => CommandError::interrupted(),
            Err(error) => error,
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

/// What each detail shows.
fn show(detail: Detail, dry_run: bool) -> Show {
    match detail {
        Detail::Quiet => Show::default(),
        Detail::Normal => Show {
            would_copy: dry_run,
            warnings: true,
            progress: Screen::is_terminal(),
            ..Show::default()
        },
        Detail::Verbose => Show {
            copied: true,
            would_copy: true,
            skipped: true,
            warnings: true,
            progress: Screen::is_terminal(),
            ..Show::default()
        },
        Detail::Json => Show {
            copied: true,
            would_copy: true,
            skipped: true,
            warnings: true,
            progress: true,
            ..Show::default()
        },
    }
}

pub(super) fn start(copy: &Copy) -> Start<'_> {
    Start {
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION"),
        sources: copy.sources.iter().map(|s| String::from_utf8_lossy(&s.given)).collect(),
        dest: String::from_utf8_lossy(&copy.dest.given),
        dry_run: copy.policy.dry_run,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hosts::Reach;
    use crate::peer::WithoutHaul;
    use haul_model::Policy;
    use std::ffi::OsStr;
    use std::num::NonZeroU8;

    fn copy(words: &[&str]) -> Copy {
        let mut locations: Vec<Location> = words
            .iter()
            .map(|words| Location::parse(OsStr::new(words)).expect("a location"))
            .collect();
        Copy {
            dest: locations.pop().expect("a destination"),
            sources: locations,
            recursive: false,
            follow: false,
            policy: Policy::default(),
            detail: Detail::Normal,
            reach: Reach {
                without_haul: WithoutHaul::GoOn,
                parallel: NonZeroU8::MIN,
                deploy: false,
            },
        }
    }

    fn host(place: &Place) -> String {
        match place {
            Place::Here => "here".to_owned(),
            Place::There(target) => target.display(),
            Place::Sftp(target) => format!("sftp {}", target.display()),
        }
    }

    /// The steps as `route: sources -> dest`, or the refusal.
    fn planned(words: &[&str]) -> String {
        let copy = copy(words);
        let steps = match plan(&copy) {
            Ok(steps) => steps,
            Err(error) => return format!("refused: {error} {:?}\n", error.hints),
        };
        let line = |step: &Step<'_>| {
            let route = match step.route {
                Route::Local => "local".to_owned(),
                Route::Upload(place) => format!("up to {}", host(place)),
                Route::Download(place) => format!("down from {}", host(place)),
            };
            let sources: Vec<String> = step.job.sources.iter().map(|s| escape_bytes(s)).collect();
            let into = if step.job.into_dir { " (directory)" } else { "" };
            let dest = escape_bytes(&step.job.dest);
            format!("{route}: {} -> {dest}{into}\n", sources.join(" "))
        };
        steps.iter().map(line).collect()
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
        ];
        insta::assert_snapshot!(plans.concat());
    }

    #[test]
    fn what_can_not_be_done_is_refused_before_anything_is() {
        let plans = [
            planned(&["a:x", "b:y"]),
            planned(&["x", "a:x", "a:y"]),
            planned(&["a/x", "b/x/", "dir"]),
            planned(&["x", "host:x", "dir"]),
        ];
        insta::assert_snapshot!(plans.concat());
    }
}
