//! `haul clean`: removes the temporary files of interrupted copies.

use crate::args::Clean;
use crate::error::{CommandError, ExitCode};
use crate::json;
use crate::progress::Screen;
use crate::quantity;
use crate::report::{Lazy, Report, Show};
use haul::{Location, Machine};
use haul_engine::{CleanEvent, CleanSummary, Cleaned, LeftoverTotal};
use haul_model::escape_bytes;

/// Cleans each directory, and prints the total.
pub(super) fn run(clean: &Clean) -> ExitCode {
    let report = Report::new(clean.detail, &Screen::default());
    if let Some(there) = clean.paths.iter().find(|location| location.machine != Machine::Local) {
        let error = CommandError::usage(format!("{there}: haul cleans only local directories"))
            .with_hint("run 'haul clean' on the host, for example with ssh");
        return report.abort(&error, None);
    }
    let mut total = CleanSummary::default();
    for location in &clean.paths {
        total += haul_engine::clean(&location.path, clean.rules, &mut |event| match event {
            CleanEvent::Found { dir, cleaned } => {
                let path = path(location, &[dir, cleaned.name.as_bytes()]);
                report.message(&Lazy {
                    level: Show::Quiet,
                    text: || leftover_line(&path, cleaned),
                    json: || json::stage(&path, cleaned),
                });
            }
            CleanEvent::Failed { path: below, fault } => {
                report.fault(None, &path(location, &[below]), fault);
            }
        });
        if report.output().is_broken() {
            break;
        }
    }
    report.conclude(ExitCode::Success, &line(&total, clean.rules.dry_run))
}

/// The last line of the output.
fn line(total: &CleanSummary, dry_run: bool) -> String {
    let describe = |LeftoverTotal { count, bytes }: LeftoverTotal, one, many| {
        format!("{}, {}", quantity::counted(count, one, many), quantity::bytes(bytes))
    };
    let stages = |found| describe(found, "temporary file", "temporary files");
    let mut line = match (total.removed, dry_run) {
        (LeftoverTotal { count: 0, .. }, false) => "removed nothing".to_owned(),
        (LeftoverTotal { count: 0, .. }, true) => "would remove nothing".to_owned(),
        (removed, false) => format!("removed {}", stages(removed)),
        (removed, true) => format!("would remove {}", stages(removed)),
    };
    if total.busy.count > 0 {
        line.push_str(&format!("; in use {}", stages(total.busy)));
    }
    if total.recent.count > 0 {
        line.push_str(&format!("; recent {}", stages(total.recent)));
    }
    if total.kept.count > 0 {
        let kept = describe(total.kept, "partial file", "partial files");
        line.push_str(&format!("; kept {kept}: the same copy resumes it, --all removes it"));
    }
    if total.only_copies.count > 0 {
        let kept = describe(total.only_copies, "old file", "old files");
        line.push_str(&format!("; kept {kept}: nothing else has the content"));
    }
    line.push('\n');
    line
}

/// Joins the path of the user's directory and the parts `below` it.
fn path(location: &Location, below: &[&[u8]]) -> Vec<u8> {
    let mut path = location.path.clone();
    for part in below.iter().filter(|part| **part != b".") {
        if !path.ends_with(b"/") {
            path.push(b'/');
        }
        path.extend_from_slice(part);
    }
    path
}

/// The line about a temporary file that was found.
fn leftover_line(path: &[u8], cleaned: &Cleaned) -> String {
    let word = json::fate_word(cleaned.fate).replace('_', " ");
    let mut about = quantity::bytes(cleaned.bytes);
    if let Some((there, size)) = cleaned.progress {
        let (there, size) = (quantity::bytes(there), quantity::bytes(size));
        about.push_str(&format!("; {there} of {size} are there"));
    }
    if let Some(target) = &cleaned.target {
        about.push_str(&format!("; for {}", escape_bytes(target.as_bytes())));
    }
    format!("{word} {} ({about})\n", escape_bytes(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_engine::Fate;
    use haul_model::Name;

    #[test]
    fn lines_report_what_is_known() {
        let cleaned = |fate, progress, target: Option<&[u8]>| Cleaned {
            name: "x".to_owned(),
            bytes: 5 << 20,
            target: target.map(|name| Name::new(name).expect("a name")),
            progress,
            fate,
        };
        let stages = |count| LeftoverTotal { count, bytes: count * (5 << 20) };
        let (removed, one) = (stages(2), stages(1));
        let kept = CleanSummary { kept: one, busy: one, recent: one, ..CleanSummary::default() };
        let total = CleanSummary { removed, ..kept };
        let mut lines = String::new();
        for one in [
            cleaned(Fate::Removed, None, None),
            cleaned(Fate::Removed, None, Some(b"a\n")),
            cleaned(Fate::Kept, Some((4 << 20, 96 << 20)), None),
            cleaned(Fate::Busy, None, None),
            cleaned(Fate::Recent, None, None),
        ] {
            lines += &leftover_line(b"d/\x1b", &one);
        }
        lines += &line(&total, false);
        lines += &line(&total, true);
        let only_copies = CleanSummary { only_copies: one, ..CleanSummary::default() };
        lines += &line(&only_copies, false);
        lines += &line(&CleanSummary::default(), false);
        insta::assert_snapshot!(lines, @r"
        removed d/\x1b (5.0 MiB)
        removed d/\x1b (5.0 MiB; for a\n)
        kept d/\x1b (5.0 MiB; 4.0 MiB of 96.0 MiB are there)
        in use d/\x1b (5.0 MiB)
        recent d/\x1b (5.0 MiB)
        removed 2 temporary files, 10.0 MiB; in use 1 temporary file, 5.0 MiB; recent 1 temporary file, 5.0 MiB; kept 1 partial file, 5.0 MiB: the same copy resumes it, --all removes it
        would remove 2 temporary files, 10.0 MiB; in use 1 temporary file, 5.0 MiB; recent 1 temporary file, 5.0 MiB; kept 1 partial file, 5.0 MiB: the same copy resumes it, --all removes it
        removed nothing; kept 1 old file, 5.0 MiB: nothing else has the content
        removed nothing
        ");
    }
}
