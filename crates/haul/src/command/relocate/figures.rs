//! The end of a move: its figures, and how they are told.

use crate::args::{Copy, Detail};
use crate::command::finish;
use crate::error::{CommandError, ExitCode};
use crate::json::{self, Line, MoveSummaryLine};
use crate::quantity;
use crate::report::Report;
use std::time::{Duration, Instant};

/// What came of it.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Figures {
    pub(super) moved: u64,
    pub(super) kept: u64,
    pub(super) failed: u64,
}

/// Says how the command ended.
pub(super) fn conclude(
    mut report: Report,
    copy: &Copy,
    figures: &Figures,
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
    let Figures { moved, kept, failed } = *figures;
    match copy.detail {
        Detail::Quiet => {}
        Detail::Json => {
            let (seconds, exit_code) = (json::seconds(started.elapsed()), code.number());
            let line = MoveSummaryLine { moved, kept, failed, seconds, exit_code };
            report.json(&Line::MoveSummary(line));
        }
        Detail::Normal | Detail::Verbose => {
            report.print(figures.line(started.elapsed()).as_bytes());
        }
    }
    finish(report, code)
}

impl Figures {
    /// The line at the end.
    fn line(&self, time: Duration) -> String {
        let done = match self.moved {
            0 => "moved nothing".to_owned(),
            moved => format!("moved {}", quantity::count(moved)),
        };
        let mut line = format!("{done} in {}", quantity::duration(time));
        for (n, word) in [(self.kept, "kept"), (self.failed, "failed")] {
            if n > 0 {
                line.push_str(&format!("; {word} {}", quantity::count(n)));
            }
        }
        line.push('\n');
        line
    }
}
