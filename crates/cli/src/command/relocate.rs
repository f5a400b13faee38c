//! `haul move`: runs a move of the engine, and reports its result.

mod figures;

use self::figures::Figures;
use super::copy::{Begun, Started, Told, prepare, shown};
use crate::args::Copy;
use crate::error::{CommandError, ErrorKind, ExitCode};
use crate::monitor::JobMonitor;
use crate::progress::Screen;
use haul::{Ready, Request, left_out};
use haul_engine::{Monitor, Summary};
use haul_model::{Fault, Task};
use std::time::Instant;

pub(super) fn run(copy: &Copy) -> ExitCode {
    let started = Instant::now();
    let task = Task::Copy(copy.request.policy);
    let screen = Screen::default();
    let report = &*copy.detail.report(&screen);
    report.tell(&Started { copy, dry_run: copy.request.policy.dry_run });
    let figures = |summary, code| Figures { summary, time: started.elapsed(), code };
    let Begun { ready, interrupt, hosts } =
        match prepare(copy, task, &screen, report, &Request::refuse_to_move, |_, _| Ok(())) {
            Ok(begun) => begun,
            Err(error) => {
                let none = figures(Summary::default(), error.kind.exit_code());
                return report.refused(&error, Some(&none));
            }
        };
    let Ready { request, unmatched, legs, peers } = ready;
    let missed = &mut |host, path: &[u8], fault: &Fault| report.fault(host, path, fault);
    // With several jobs, each job reports its own missing sources.
    let (legs, missing) = match legs.len() {
        1 => left_out(&request, task, legs, missed),
        _ => (legs, 0),
    };
    if legs.is_empty() {
        let code = ExitCode::SomeFailed;
        let none = Summary { failed: unmatched + missing, ..Summary::default() };
        return report.conclude(code, &figures(none, code));
    }
    let monitor = JobMonitor::new(report, task, interrupt);
    let mut course = Told::new(&monitor);
    let (mut summary, result) =
        shown(&monitor, || request.run_move(&hosts, peers, &monitor, &mut course));
    summary.failed += unmatched;
    let error = result.err().map(|error| match error {
        // The cause was reported during the copy.
        haul::Error::SourcesStay => {
            let kind = course.first_error.unwrap_or(ErrorKind::Io);
            CommandError::new(kind, error)
        }
        _ if monitor.cancelled() => CommandError::interrupted(),
        error => CommandError::of_request(error, &request),
    });
    let kind = error.as_ref().map(|error| error.kind);
    let code = ExitCode::of(kind, summary.failed > 0 || report.has_failed());
    if let Some(error) = &error {
        report.command_error(error);
    }
    report.conclude(code, &figures(summary, code))
}
