//! `haul check`: runs the jobs of a copy with the same arguments, but compares instead of copying.

use super::copy::{End, execute};
use crate::args::Check;
use crate::error::ExitCode;
use crate::json::{self, CheckSummaryLine, Line};
use crate::quantity;
use crate::report::{Message, Report, Show};
use haul::Request;
use haul_engine::Summary;
use haul_model::Task;

pub(super) fn run(check: &Check) -> ExitCode {
    let is_partial =
        |summary: &Summary, _: &dyn Report| summary.has_differences() || summary.failed > 0;
    let task = Task::Check { content: check.content, keeps: check.copy.request.policy.keeps };
    execute(&check.copy, task, &Request::refuse_to_check, is_partial, Figures)
}

/// The figures of a check. A check that ended early or had failures has not compared everything.
struct Figures(End);

impl Message for Figures {
    fn text(&self) -> Vec<u8> {
        let End { summary, time, ended_early, .. } = self.0;
        let Summary { skipped: same, different, missing, extra, special, failed, .. } = summary;
        let found = [(different, "different"), (missing, "missing"), (extra, "extra")];
        let found = found.into_iter().filter(|(n, _)| *n > 0);
        let mut parts: Vec<String> =
            found.map(|(n, word)| format!("{word} {}", quantity::count(n))).collect();
        if ended_early || failed > 0 {
            parts.push("some entries were not compared".to_owned());
        } else if parts.is_empty() {
            parts.push("no difference".to_owned());
        }
        let mut line = format!("{} in {}", parts.join(", "), quantity::duration(time));
        for (n, word) in [(same, "same"), (special, "left out"), (failed, "failed")] {
            if n > 0 {
                line.push_str(&format!("; {word} {}", quantity::count(n)));
            }
        }
        line.push('\n');
        line.into_bytes()
    }

    fn json(&self) -> Vec<u8> {
        let End { summary, time, code, .. } = self.0;
        let Summary { skipped: same, different, missing, extra, special, failed, .. } = summary;
        let (seconds, exit_code) = (json::seconds(time), code.number());
        let line = CheckSummaryLine {
            same,
            different,
            missing,
            extra,
            special,
            failed,
            seconds,
            exit_code,
        };
        Line::CheckSummary(line).to_bytes()
    }

    fn level(&self) -> Show {
        Show::Normal
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_engine::EntryCounts;
    use std::time::Duration;

    #[test]
    fn the_last_line_leaves_out_what_is_zero() {
        let line = |[different, missing, extra]: [u64; 3], failed, to_the_end: bool| {
            let found = Summary { different, missing, extra, ..Summary::default() };
            let summary = Summary { skipped: 1005, failed, ..found };
            let time = Duration::from_millis(410);
            let (ended_early, code) = (!to_the_end, ExitCode::Success);
            let entry_counts = EntryCounts::default();
            let figures =
                Figures(End { summary, time, ended_early, relayed: 0, code, entry_counts });
            String::from_utf8(figures.text()).expect("text")
        };
        let lines = line([0; 3], 0, true) + &line([3, 0, 2], 1, true);
        insta::assert_snapshot!(lines + &line([0; 3], 0, false) + &line([0, 1, 0], 0, false), @r"
        no difference in 0.41 s; same 1,005
        different 3, extra 2, some entries were not compared in 0.41 s; same 1,005; failed 1
        some entries were not compared in 0.41 s; same 1,005
        missing 1, some entries were not compared in 0.41 s; same 1,005
        ");
    }
}
