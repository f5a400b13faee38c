//! `haul move`: runs a move of the engine, and reports its result.

use super::copy::{Prepared, prepare, start_message};
use crate::args::Copy;
use crate::error::{CommandError, ErrorKind, ExitCode};
use crate::json;
use crate::monitor::JobMonitor;
use crate::progress::Screen;
use crate::quantity;
use crate::report::{Lazy, Report, Show};
use haul::{Ready, Request};
use haul_engine::{Monitor, Summary};
use haul_model::Task;
use std::time::{Duration, Instant};

pub(super) fn run(copy: &Copy) -> ExitCode {
    let started = Instant::now();
    let task = Task::Copy(copy.request.policy);
    let screen = Screen::default();
    let report = &Report::new(copy.detail, &screen);
    report.message(&start_message(copy, copy.request.policy.dry_run));
    let figures = |summary: Summary, code| {
        let time = started.elapsed();
        Lazy {
            level: Show::Normal,
            text: move || text(&summary, time),
            json: move || json::move_summary(&summary, time, code),
        }
    };
    let Prepared { ready, interrupt, hosts } =
        match prepare(copy, task, &screen, report, &Request::refuse_to_move, |_, _| Ok(())) {
            Ok(prepared) => prepared,
            Err(error) => {
                let none = figures(Summary::default(), error.kind.exit_code());
                return report.abort(&error, Some(&none));
            }
        };
    let Ready { request, failed, routed_jobs, peers } = ready;
    if routed_jobs.is_empty() {
        let code = ExitCode::SomeFailed;
        let none = Summary { failed, ..Summary::default() };
        return report.conclude(code, &figures(none, code));
    }
    let monitor = JobMonitor::new(report, task, interrupt);
    let (mut summary, result) =
        monitor.watch(|| request.run_move(&hosts, peers, &monitor, &monitor));
    summary.failed += failed;
    let error = result.err().map(|error| match error {
        // The cause was reported during the copy.
        haul::Error::SourcesStay => {
            let kind = monitor.first_error.lock().unwrap_or(ErrorKind::Io);
            CommandError::new(kind, error)
        }
        _ if monitor.cancelled() => CommandError::interrupted(),
        error => CommandError::from_request(error, &request),
    });
    let kind = error.as_ref().map(|error| error.kind);
    let code = ExitCode::of(kind, summary.failed > 0 || report.output().has_failed());
    if let Some(error) = &error {
        report.command_error(error);
    }
    report.conclude(code, &figures(summary, code))
}

/// The figures at the end of a move.
fn text(summary: &Summary, time: Duration) -> String {
    let Summary { moved, kept, failed, .. } = *summary;
    let done = match moved {
        0 => "moved nothing".to_owned(),
        moved => format!("moved {}", quantity::count(moved)),
    };
    let rest = quantity::counts([(kept, "kept"), (failed, "failed")]);
    format!("{done} in {}{rest}\n", quantity::duration(time))
}
