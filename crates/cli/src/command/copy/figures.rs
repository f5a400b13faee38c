//! The figures at the end of a copy.

use super::UNHASHED;
use crate::args::Copy;
use crate::error::End;
use crate::json::{self, Object};
use crate::quantity;
use crate::report::{Message, Show};
use haul_engine::{RELAYED_FIRST, Summary};
use std::time::Duration;

/// Appended to the figures if this machine relayed more than [`RELAYED_FIRST`].
pub(in crate::command) fn relay_note(relayed: u64) -> String {
    match relayed > RELAYED_FIRST {
        true => format!("; {} through this machine", quantity::bytes(relayed)),
        false => String::new(),
    }
}

pub(super) struct Figures {
    end: End,
    dry_run: bool,
    unhashed: bool,
}

impl Figures {
    pub(super) fn of(copy: &Copy, end: End) -> Self {
        let policy = &copy.request.policy;
        Self { end, dry_run: policy.dry_run, unhashed: !policy.wants_hashes() }
    }

    /// Adds the figures to a line.
    pub(super) fn add_to(&self, line: Object) -> Object {
        json::with_copy_figures(line, &self.end, self.unhashed)
    }
}

impl Message for Figures {
    fn text(&self) -> Vec<u8> {
        let End { summary, time, ended_early, relayed, .. } = &self.end;
        // Without results an error needs no summary.
        if *ended_early && *summary == Summary::default() {
            return Vec::new();
        }
        let line = line(summary, *time, self.dry_run);
        let unhashed = if self.unhashed && summary.copied > 0 { UNHASHED } else { "" };
        format!("{line}{unhashed}{}\n", relay_note(*relayed)).into_bytes()
    }

    fn json(&self) -> Option<Object> {
        Some(self.add_to(Object::line("summary")))
    }

    fn level(&self) -> Show {
        Show::Normal
    }
}

/// The line at the end of a copy, or of a dry run.
fn line(summary: &Summary, time: Duration, dry_run: bool) -> String {
    let Summary { copied, linked, updated, dirs_created, bytes, skipped, special, .. } = *summary;
    let Summary { failed, grown, .. } = *summary;
    let there = summary.bytes_resumed.saturating_add(summary.bytes_matched);
    let moved = summary.bytes_transferred;
    let (done, made) = if dry_run { ("would copy", "would make") } else { ("copied", "made") };
    let mut line = match (copied, dirs_created) {
        (0, 0) => format!("{done} nothing"),
        (0, dirs) => format!("{made} {}", quantity::counted(dirs, "directory", "directories")),
        (files, _) => {
            let files = quantity::counted(files, "file", "files");
            format!("{done} {files}, {}", quantity::bytes(bytes))
        }
    };
    if !dry_run {
        line.push_str(&format!(" in {}", quantity::duration(time)));
        // With repeated reads, failures or holes, the rate would not be that of the copied bytes.
        let copied = bytes.saturating_sub(there);
        if moved.abs_diff(copied) <= copied / 10 && moved > 0 && !time.is_zero() {
            let rate = quantity::rate(moved as f64 / time.as_secs_f64());
            line.push_str(&format!(" ({rate})"));
        }
    }
    if there > 0 && !dry_run {
        line.push_str(&format!("; {} already there", quantity::bytes(there)));
    }
    if grown > 0 {
        line.push_str(&format!("; {} grew during the copy", quantity::count(grown)));
    }
    let (link, update) = match dry_run {
        true => ("would link", "would update"),
        false => ("linked", "updated"),
    };
    let (linked, updated) = ((linked, link), (updated, update));
    let rest = [linked, updated, (skipped, "skipped"), (special, "left out"), (failed, "failed")];
    line + &quantity::counts(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_leave_out_what_is_zero() {
        let text = |s: Summary, dry| line(&s, Duration::from_millis(410), dry);
        let all = Summary {
            copied: 1008,
            dirs_created: 11,
            bytes: 20_866_662,
            bytes_transferred: 20_866_662,
            skipped: 12,
            special: 2,
            failed: 1,
            grown: 3,
            linked: 4,
            updated: 5,
            ..Summary::default()
        };
        let lines = [
            text(all, false),
            text(all, true),
            text(
                Summary { copied: 1, bytes: 5, bytes_transferred: 5, ..Summary::default() },
                false,
            ),
            text(
                Summary {
                    copied: 1,
                    bytes: 5,
                    bytes_transferred: 2,
                    bytes_resumed: 3,
                    ..Summary::default()
                },
                false,
            ),
            text(Summary { copied: 1, ..Summary::default() }, false),
            text(Summary { dirs_created: 1, ..Summary::default() }, false),
            text(Summary { dirs_created: 3, ..Summary::default() }, true),
            text(Summary { skipped: 1008, ..Summary::default() }, false),
            text(Summary { failed: 1, ..Summary::default() }, true),
        ];
        insta::assert_snapshot!(lines.join("\n"), @r"
        copied 1,008 files, 19.9 MiB in 0.41 s (48.5 MiB/s); 3 grew during the copy; linked 4; updated 5; skipped 12; left out 2; failed 1
        would copy 1,008 files, 19.9 MiB; 3 grew during the copy; would link 4; would update 5; skipped 12; left out 2; failed 1
        copied 1 file, 5 B in 0.41 s (12 B/s)
        copied 1 file, 5 B in 0.41 s (4 B/s); 3 B already there
        copied 1 file, 0 B in 0.41 s
        made 1 directory in 0.41 s
        would make 3 directories
        copied nothing in 0.41 s; skipped 1,008
        would copy nothing; failed 1
        ");
    }
}
