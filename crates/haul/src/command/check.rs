//! `haul check`: the jobs that a copy with the same words would be, compared
//! instead of copied.

use super::copy::{plan, start, watch_steps};
use super::{end, finish};
use crate::args::{Check, Detail};
use crate::error::{CommandError, ExitCode};
use crate::hosts::Hosts;
use crate::interrupt::Interrupt;
use crate::json::{self, CheckSummaryLine, Line, Start};
use crate::location::Place;
use crate::monitor::{CopyMonitor, Show};
use crate::progress::Screen;
use crate::quantity;
use crate::report::{Form, Report};
use haul_engine::Summary;
use haul_model::Task;
use std::time::{Duration, Instant};

/// Compares, and says what came of it.
pub(super) fn run(check: &Check) -> ExitCode {
    let started = Instant::now();
    let detail = check.copy.detail;
    let form = detail.form();
    let screen = Screen::default();
    let mut report = Report::new(form, screen.clone());
    if form == Form::Json {
        report.json(&Line::Start(Start { dry_run: true, ..start(&check.copy) }));
    }
    let listening = Interrupt::listen();
    let planned = refuse(check).and_then(|()| Ok((plan(&check.copy)?, listening?)));
    let (mut steps, interrupt) = match planned {
        Ok(ready) => ready,
        Err(error) => {
            let code = error.kind.exit_code();
            if form == Form::Plain {
                return end(report, &error);
            }
            report.command_error(&error);
            report.json(&Line::CheckSummary(json_line(
                &Summary::default(),
                started.elapsed(),
                code,
            )));
            report.finish();
            return code;
        }
    };
    for step in &mut steps {
        step.job.task = Task::Check { content: check.content };
    }
    let monitor = CopyMonitor::new(show(detail), interrupt.clone(), report, screen.clone());
    let hosts = Hosts::new(check.copy.reach, &screen);
    let (summary, error) = watch_steps(steps, &monitor, &interrupt, &hosts);
    let mut report = monitor.into_report();
    let code = match error {
        Some(kind) => kind.exit_code(),
        None if summary.has_differences() || summary.failed > 0 => ExitCode::SomeFailed,
        None => ExitCode::Success,
    };
    match detail {
        Detail::Quiet => {}
        Detail::Json => {
            report.json(&Line::CheckSummary(json_line(&summary, started.elapsed(), code)))
        }
        Detail::Normal | Detail::Verbose => {
            report.print(line(&summary, started.elapsed(), error.is_none()).as_bytes());
        }
    }
    finish(report, code)
}

/// Refuses what a copy takes and a check can't tell apart.
fn refuse(check: &Check) -> Result<(), CommandError> {
    let copy = &check.copy;
    let is_remote = |place: &Place| *place != Place::Here;
    if is_remote(&copy.dest.place) && copy.sources.iter().any(|s| is_remote(&s.place)) {
        return Err(CommandError::usage(
            "comparing one host with another is not there yet: run haul on one of them",
        ));
    }
    if copy.sources.len() > 1
        && let Some(source) = copy.sources.iter().find(|source| source.final_name().is_none())
    {
        return Err(CommandError::usage(format!(
            "{source} has no name of its own, and would be compared with all of {}",
            copy.dest
        ))
        .with_hint("compare it by itself"));
    }
    Ok(())
}

/// What each detail shows.
fn show(detail: Detail) -> Show {
    let progress = match detail {
        Detail::Quiet => return Show::default(),
        Detail::Json => true,
        Detail::Normal | Detail::Verbose => Screen::is_terminal(),
    };
    let same = detail == Detail::Verbose;
    Show { differences: true, same, warnings: true, progress, ..Show::default() }
}

/// The figures as JSON.
fn json_line(summary: &Summary, time: Duration, code: ExitCode) -> CheckSummaryLine {
    let Summary { skipped: same, different, missing, extra, special, failed, .. } = *summary;
    let (seconds, exit_code) = (json::seconds(time), code.number());
    CheckSummaryLine { same, different, missing, extra, special, failed, seconds, exit_code }
}

/// The line at the end; `to_the_end` says whether all was compared.
fn line(summary: &Summary, time: Duration, to_the_end: bool) -> String {
    let Summary { skipped: same, different, missing, extra, special, failed, .. } = *summary;
    let mut parts: Vec<String> = [(different, "different"), (missing, "missing"), (extra, "extra")]
        .into_iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, word)| format!("{word} {}", quantity::count(n)))
        .collect();
    if !to_the_end {
        parts.push("not all was compared".to_owned());
    } else if parts.is_empty() {
        parts.push("no difference".to_owned());
    }
    let mut line = format!("{} in {}", parts.join(", "), quantity::duration(time));
    for (n, word) in [(same, "same"), (special, "passed over"), (failed, "failed")] {
        if n > 0 {
            line.push_str(&format!("; {word} {}", quantity::count(n)));
        }
    }
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_leaves_out_what_is_zero() {
        let line = |[different, missing, extra]: [u64; 3], failed, to_the_end| {
            let found = Summary { different, missing, extra, ..Summary::default() };
            let summary = Summary { skipped: 1005, failed, ..found };
            super::line(&summary, Duration::from_millis(410), to_the_end)
        };
        let lines = line([0; 3], 0, true) + &line([3, 0, 2], 1, true);
        insta::assert_snapshot!(lines + &line([0; 3], 0, false) + &line([0, 1, 0], 0, false), @r"
        no difference in 0.41 s; same 1,005
        different 3, extra 2 in 0.41 s; same 1,005; failed 1
        not all was compared in 0.41 s; same 1,005
        missing 1, not all was compared in 0.41 s; same 1,005
        ");
    }
}
