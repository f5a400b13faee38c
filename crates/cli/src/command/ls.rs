//! `haul ls`: lists directories.

use super::{PathQuestion, ask_each_path};
use crate::args::Ls;
use crate::error::ExitCode;
use crate::json;
use crate::quantity;
use crate::report::{Lazy, Report, Show};
use haul::Location;
use haul_engine::{ListedEntry, RequestError, Requests};
use haul_model::{Entry, Fault, FaultKind, Kind, Name, escape_bytes};

pub(super) fn run(ls: &Ls) -> ExitCode {
    let mut is_first = true;
    let mut printed = Printed::default();
    ask_each_path(&ls.asked, |requests, question| {
        let PathQuestion { location, report, is_retry, parts } = question;
        printed = match is_retry {
            true => Printed { resume_after: printed.last.clone(), ..std::mem::take(&mut printed) },
            false => {
                Printed { is_first: std::mem::replace(&mut is_first, false), ..Printed::default() }
            }
        };
        let entry = stat_listed(requests, &location.path, ls.long)?;
        if entry.kind != Kind::Dir {
            print(report, ls, location, None, &entry);
            return Ok(());
        }
        if has_multiple_paths(ls) && !ls.null && !std::mem::replace(&mut printed.has_heading, true)
        {
            let gap = if printed.is_first { "" } else { "\n" };
            report.message(&format!("{gap}{location}:\n"));
        }
        requests.list(&location.path, &mut |found| {
            if !printed.is_new(&found) {
                return;
            }
            parts.update(|count| count + 1);
            match found {
                Ok(entry) => {
                    let name = entry.name.as_ref().map_or(&b"."[..], Name::as_bytes);
                    print(report, ls, location, Some(name), &entry);
                }
                Err((name, fault)) => {
                    report.fault(location.machine.name(), &join(&location.path, &name), &fault)
                }
            }
        })
    })
}

/// The part of a directory that was printed, over all connections.
#[derive(Default)]
struct Printed {
    /// The directory is the first of the command.
    is_first: bool,
    /// The heading was printed, if the directory has one.
    has_heading: bool,
    /// The name of the last printed entry.
    last: Option<Vec<u8>>,
    /// The name of the last entry that was printed before the connection was lost. Entries are
    /// sorted by name, so only later names are new.
    resume_after: Option<Vec<u8>>,
}

impl Printed {
    /// True if the entry was not printed before. Records it as printed.
    fn is_new(&mut self, found: &ListedEntry) -> bool {
        let name = match found {
            Ok(entry) => entry.name.as_ref().map_or(&b""[..], Name::as_bytes),
            Err((name, _)) => name,
        };
        if self.resume_after.as_deref().is_some_and(|resume_after| name <= resume_after) {
            return false;
        }
        let last = self.last.get_or_insert_default();
        last.clear();
        last.extend_from_slice(name);
        true
    }
}

/// True if there are or may be several paths.
fn has_multiple_paths(ls: &Ls) -> bool {
    ls.asked.paths.len() > 1 || ls.asked.paths.iter().any(Location::is_pattern)
}

/// The entry at `path`. Without `-l` a link to a directory is followed, as in ls.
fn stat_listed(requests: &mut Requests, path: &[u8], long: bool) -> Result<Entry, RequestError> {
    match requests.stat(path, !long) {
        // A broken link is listed itself.
        Err(RequestError::Fault(Fault { kind: FaultKind::NotFound | FaultKind::Link, .. }))
            if !long =>
        {
            requests.stat(path, false)
        }
        answer => answer,
    }
}

/// Reports the entry at `location`, or with a `name` an entry of that directory.
fn print(report: &Report, ls: &Ls, location: &Location, name: Option<&[u8]>, entry: &Entry) {
    let path = match name {
        Some(name) => join(&location.path, name),
        None => location.path.clone(),
    };
    let text = || {
        // With several directories a bare name would be ambiguous.
        let is_whole = ls.null && has_multiple_paths(ls);
        let shown = name.filter(|_| !is_whole).unwrap_or(&path);
        if ls.null {
            return [shown, b"\0"].concat();
        }
        let size = match ls.readable {
            true => quantity::bytes(entry.shown_len()),
            false => entry.shown_len().to_string(),
        };
        line(ls.long, shown, &size, entry).into_bytes()
    };
    let json = || json::entry(location.machine.name().as_deref(), &path, entry);
    report.message(&Lazy { level: Show::Quiet, text, json });
}

/// The line of an entry in text output.
fn line(long: bool, path: &[u8], size: &str, entry: &Entry) -> String {
    let name = escape_bytes(path);
    let slash = if entry.kind == Kind::Dir && !path.ends_with(b"/") { "/" } else { "" };
    if !long {
        return format!("{name}{slash}\n");
    }
    let target = match &entry.kind {
        Kind::Symlink { target } => format!(" -> {}", escape_bytes(target)),
        _ => String::new(),
    };
    format!(
        "{} {size:>14} {} {name}{slash}{target}\n",
        quantity::mode(entry),
        quantity::date(entry.attributes.mtime),
    )
}

/// Joins `directory` and `name`.
fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let slash: &[u8] = if directory.ends_with(b"/") { b"" } else { b"/" };
    [directory, slash, name].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_model::{Attributes, Device, Special, Timestamp};

    #[test]
    fn lines_show_kinds_and_hide_control_bytes() {
        let entry = |kind, mode| {
            Entry::new(
                None,
                kind,
                Attributes::new(mode, Timestamp { secs: 1_700_000_000, nanos: 5 }),
            )
        };
        let special = |special| Entry { special: Some(special), ..entry(Kind::Special, 0o600) };
        let lines = [
            line(false, b"a\nb", "5", &entry(Kind::File { size: 5 }, 0o644)),
            line(false, b"d", "0", &entry(Kind::Dir, 0o755)),
            line(true, b"big", "1099511627776", &entry(Kind::File { size: 1 << 40 }, 0o600)),
            line(true, b"d", "0", &entry(Kind::Dir, 0o2755)),
            line(true, b"l", "0", &entry(Kind::Symlink { target: b"\x1b"[..].into() }, 0o777)),
            line(true, b"u", "0", &entry(Kind::Special, 0o600)),
            line(true, b"p", "0", &special(Special::Fifo)),
            line(true, b"s", "0", &special(Special::Socket)),
            line(true, b"b", "0", &special(Special::Block(Device { major: 1, minor: 2 }))),
            line(true, b"c", "0", &special(Special::Char(Device { major: 1, minor: 2 }))),
        ];
        insta::assert_snapshot!(lines.concat(), @r"
        a\nb
        d/
        -rw-------  1099511627776 2023-11-14T22:13:20Z big
        drwxr-sr-x              0 2023-11-14T22:13:20Z d/
        lrwxrwxrwx              0 2023-11-14T22:13:20Z l -> \x1b
        ?rw-------              0 2023-11-14T22:13:20Z u
        prw-------              0 2023-11-14T22:13:20Z p
        srw-------              0 2023-11-14T22:13:20Z s
        brw-------              0 2023-11-14T22:13:20Z b
        crw-------              0 2023-11-14T22:13:20Z c
        ");
    }

    #[test]
    fn names_are_joined_with_one_slash() {
        assert_eq!(join(b"a", b"b"), b"a/b");
        assert_eq!(join(b"/", b"b"), b"/b");
    }
}
