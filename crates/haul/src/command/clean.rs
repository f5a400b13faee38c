//! `haul clean`: removes what copies have left behind.

use super::end;
use crate::args::Clean;
use crate::error::{CommandError, ExitCode};
use crate::json::{Line, StageLine};
use crate::location::{Location, Place};
use crate::progress::Screen;
use crate::quantity;
use crate::report::{Form, Report};
use haul_engine::{CleanEvent, Cleaned, Fate};
use haul_model::escape_bytes;

/// Cleans each directory.
pub(super) fn run(clean: &Clean) -> ExitCode {
    let mut report = Report::new(clean.form, Screen::default());
    if let Some(there) = clean.paths.iter().find(|location| location.place != Place::Here) {
        let error = CommandError::usage(format!("{there}: only directories here are cleaned"))
            .with_hint("run \"haul clean\" on the host itself, such as with ssh");
        return end(report, &error);
    }
    let mut total = Total::default();
    for location in &clean.paths {
        let cleaned = haul_engine::clean(&location.path, clean.rules, &mut |event| match event {
            CleanEvent::Found { dir, cleaned } => {
                total.add(cleaned);
                let path = path(location, &[dir, cleaned.name.as_bytes()]);
                match report.form() {
                    Form::Plain => report.print(line(&path, cleaned).as_bytes()),
                    Form::Json => report.json(&Line::Stage(StageLine::of(&path, cleaned))),
                }
            }
            CleanEvent::Failed { path: below, fault } => {
                report.fault(&path(location, &[below]), fault)
            }
        });
        if let Err(fault) = cleaned {
            report.fault(&location.path, &fault);
        }
        if report.is_broken() {
            break;
        }
    }
    if report.form() == Form::Plain {
        report.print(total.line(clean.rules.dry_run).as_bytes());
    }
    report.finish()
}

/// What was found, each kind with how many there were and the bytes they take.
#[derive(Debug, Default)]
struct Total {
    removed: (u64, u64),
    kept: (u64, u64),
    busy: (u64, u64),
    recent: (u64, u64),
}

impl Total {
    fn add(&mut self, cleaned: &Cleaned) {
        let (count, bytes) = match cleaned.fate {
            Fate::Removed | Fate::WouldRemove => &mut self.removed,
            Fate::Kept => &mut self.kept,
            Fate::Busy => &mut self.busy,
            Fate::Recent => &mut self.recent,
        };
        *count += 1;
        *bytes += cleaned.bytes;
    }

    /// The line at the end.
    fn line(&self, dry_run: bool) -> String {
        let stages = |(count, bytes): (u64, u64)| {
            let count = quantity::counted(count, "stage", "stages");
            format!("{count}, {}", quantity::bytes(bytes))
        };
        let mut line = match (self.removed, dry_run) {
            ((0, _), false) => "removed nothing".to_owned(),
            ((0, _), true) => "would remove nothing".to_owned(),
            (removed, false) => format!("removed {}", stages(removed)),
            (removed, true) => format!("would remove {}", stages(removed)),
        };
        if self.busy.0 > 0 {
            line.push_str(&format!("; in use {}", stages(self.busy)));
        }
        if self.recent.0 > 0 {
            line.push_str(&format!("; recent {}", stages(self.recent)));
        }
        if self.kept.0 > 0 {
            let kept = stages(self.kept);
            line.push_str(&format!(
                "; kept {kept}: the same copy again goes on with it, --all removes it"
            ));
        }
        line.push('\n');
        line
    }
}

/// The path of `below`, one below the other, in the directory that the user named.
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

/// A leftover for people.
fn line(path: &[u8], cleaned: &Cleaned) -> String {
    let word = match cleaned.fate {
        Fate::Removed => "removed",
        Fate::WouldRemove => "would remove",
        Fate::Kept => "kept",
        Fate::Busy => "in use",
        Fate::Recent => "recent",
    };
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
    use haul_model::Name;

    #[test]
    fn lines_tell_what_is_known() {
        let cleaned = |fate, progress, target: Option<&[u8]>| Cleaned {
            name: "x".to_owned(),
            bytes: 5 << 20,
            target: target.map(|name| Name::new(name).expect("a name")),
            progress,
            fate,
        };
        let mut total = Total::default();
        let mut lines = String::new();
        for one in [
            cleaned(Fate::Removed, None, None),
            cleaned(Fate::Removed, None, Some(b"a\n")),
            cleaned(Fate::Kept, Some((4 << 20, 96 << 20)), None),
            cleaned(Fate::Busy, None, None),
            cleaned(Fate::Recent, None, None),
        ] {
            total.add(&one);
            lines += &line(b"d/\x1b", &one);
        }
        lines += &total.line(false);
        lines += &total.line(true);
        lines += &Total::default().line(false);
        insta::assert_snapshot!(lines, @r"
        removed d/\x1b (5.0 MiB)
        removed d/\x1b (5.0 MiB; for a\n)
        kept d/\x1b (5.0 MiB; 4.0 MiB of 96.0 MiB are there)
        in use d/\x1b (5.0 MiB)
        recent d/\x1b (5.0 MiB)
        removed 2 stages, 10.0 MiB; in use 1 stage, 5.0 MiB; recent 1 stage, 5.0 MiB; kept 1 stage, 5.0 MiB: the same copy again goes on with it, --all removes it
        would remove 2 stages, 10.0 MiB; in use 1 stage, 5.0 MiB; recent 1 stage, 5.0 MiB; kept 1 stage, 5.0 MiB: the same copy again goes on with it, --all removes it
        removed nothing
        ");
    }
}
