//! The figures at the end of a move.

use crate::error::ExitCode;
use crate::json::{self, Line, MoveSummaryLine};
use crate::quantity;
use crate::report::{Message, Show};
use haul_engine::Summary;
use std::time::Duration;

pub(super) struct Figures {
    pub(super) summary: Summary,
    pub(super) time: Duration,
    pub(super) code: ExitCode,
}

impl Message for Figures {
    fn text(&self) -> Vec<u8> {
        let Summary { moved, kept, failed, .. } = self.summary;
        let done = match moved {
            0 => "moved nothing".to_owned(),
            moved => format!("moved {}", quantity::count(moved)),
        };
        let mut line = format!("{done} in {}", quantity::duration(self.time));
        for (n, word) in [(kept, "kept"), (failed, "failed")] {
            if n > 0 {
                line.push_str(&format!("; {word} {}", quantity::count(n)));
            }
        }
        line.push('\n');
        line.into_bytes()
    }

    fn json(&self) -> Vec<u8> {
        let Summary { moved, kept, failed, .. } = self.summary;
        let (seconds, exit_code) = (json::seconds(self.time), self.code.number());
        let line = MoveSummaryLine { moved, kept, failed, seconds, exit_code };
        Line::MoveSummary(line).to_bytes()
    }

    fn level(&self) -> Show {
        Show::Normal
    }
}
