//! The end of a move: its figures, and how they are told.

use crate::args::{Copy, Detail};
use crate::command::finish;
use crate::error::{CommandError, ExitCode};
use crate::json::{self, Line, MoveSummaryLine};
use crate::quantity;
use crate::report::Report;
use haul_engine::Summary;
use std::time::{Duration, Instant};

/// Says how the command ended.
pub(super) fn conclude(
    mut report: Report,
    copy: &Copy,
    figures: &Summary,
    started: Instant,
    error: Option<CommandError>,
) -> ExitCode {
    let code = match &error {
        Some(error) => error.kind.exit_code(),
        None if figures.failed > 0 || report.has_failed() => ExitCode::SomeFailed,
        None => ExitCode::Success,
    };
    if let Some(error) = &error {
        report.command_error(error);
    }
    let Summary { moved, kept, failed, .. } = *figures;
    match copy.detail {
        Detail::Quiet => {}
        Detail::Json => {
            let (seconds, exit_code) = (json::seconds(started.elapsed()), code.number());
            let line = MoveSummaryLine { moved, kept, failed, seconds, exit_code };
            report.json(&Line::MoveSummary(line));
        }
        Detail::Normal | Detail::Verbose => {
            report.print(line(figures, started.elapsed()).as_bytes());
        }
    }
    finish(report, code)
}

/// The line at the end.
fn line(figures: &Summary, time: Duration) -> String {
    let done = match figures.moved {
        0 => "moved nothing".to_owned(),
        moved => format!("moved {}", quantity::count(moved)),
    };
    let mut line = format!("{done} in {}", quantity::duration(time));
    for (n, word) in [(figures.kept, "kept"), (figures.failed, "failed")] {
        if n > 0 {
            line.push_str(&format!("; {word} {}", quantity::count(n)));
        }
    }
    line.push('\n');
    line
}
