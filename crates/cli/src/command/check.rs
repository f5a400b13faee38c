//! `haul check`: runs the jobs of a copy with the same arguments, but compares instead of copying.

use super::copy::execute;
use crate::args::Check;
use crate::error::{End, ExitCode};
use crate::json;
use crate::quantity;
use crate::report::{Lazy, Show};
use haul::Request;
use haul_engine::Summary;
use haul_model::Task;

pub(super) fn run(check: &Check) -> ExitCode {
    let task = Task::Check { content: check.content, keeps: check.copy.request.policy.keeps };
    let figures = |end: End| Lazy {
        level: Show::Normal,
        text: move || text(&end),
        json: move || json::check_summary(&end),
    };
    let refuse = &Request::refuse_to_check;
    execute(&check.copy, task, &[task], refuse, |_, _| Ok(()), figures)
}

/// The figures of a check. A check that ended early or had failures has not compared everything.
fn text(end: &End) -> String {
    let Summary { skipped: same, different, missing, extra, special, failed, .. } = end.summary;
    let found = [(different, "different"), (missing, "missing"), (extra, "extra")];
    let found = found.into_iter().filter(|(n, _)| *n > 0);
    let mut parts: Vec<String> =
        found.map(|(n, word)| format!("{word} {}", quantity::count(n))).collect();
    if end.ended_early || failed > 0 {
        parts.push("some entries were not compared".to_owned());
    } else if parts.is_empty() {
        parts.push("no difference".to_owned());
    }
    let rest = quantity::counts([(same, "same"), (special, "left out"), (failed, "failed")]);
    format!("{} in {}{rest}\n", parts.join(", "), quantity::duration(end.time))
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
            text(&End { summary, time, ended_early, relayed: 0, code, entry_counts })
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
