//! `haul ls`: what is in directories.

use super::{each_path, host};
use crate::args::Ls;
use crate::error::ExitCode;
use crate::json::{EntryLine, Line};
use crate::location::Location;
use crate::quantity;
use crate::report::{Form, Report};
use haul_engine::{RequestError, Requests};
use haul_model::{Entry, Fault, FaultKind, Kind, escape_bytes};

/// Lists each path.
pub(super) fn run(ls: &Ls) -> ExitCode {
    let mut is_first = true;
    each_path(ls.form, &ls.paths, ls.without_haul, |requests, location, report| {
        let was_first = std::mem::replace(&mut is_first, false);
        let entry = look(requests, &location.path, ls.long)?;
        if entry.kind != Kind::Dir {
            print(ls, location, &location.path, &entry, report);
            return Ok(());
        }
        let has_heading = ls.paths.len() > 1 && !ls.null && ls.form == Form::Plain;
        if has_heading {
            let gap = if was_first { "" } else { "\n" };
            report.print(format!("{gap}{location}:\n").as_bytes());
        }
        requests.list(&location.path, &mut |found| match found {
            Ok(entry) => {
                let name = entry.name.as_ref().map_or(&b"."[..], |name| name.as_bytes());
                // Names of several directories would mix.
                let is_bare = ls.form == Form::Plain && !(ls.null && ls.paths.len() > 1);
                let path = if is_bare { name.to_vec() } else { join(&location.path, name) };
                print(ls, location, &path, &entry, report);
            }
            Err((name, fault)) => {
                report.fault_on(host(&location.place), &join(&location.path, &name), &fault)
            }
        })
    })
}

/// What stands at `path`. Without `-l` a link to a directory stands for the
/// directory, as in ls.
fn look(requests: &mut Requests, path: &[u8], long: bool) -> Result<Entry, RequestError> {
    match requests.stat(path, !long) {
        // A link that leads nowhere still has a name.
        Err(RequestError::Fault(Fault { kind: FaultKind::NotFound | FaultKind::Link, .. }))
            if !long =>
        {
            requests.stat(path, false)
        }
        answer => answer,
    }
}

fn print(ls: &Ls, location: &Location, path: &[u8], entry: &Entry, report: &mut Report) {
    match ls.form {
        Form::Json => {
            report.json(&Line::Entry(EntryLine::of(host(&location.place), path, entry)));
        }
        Form::Plain if ls.null => {
            report.print(path);
            report.print(b"\0");
        }
        Form::Plain => report.print(line(ls.long, path, entry).as_bytes()),
    }
}

/// An entry for people.
fn line(long: bool, path: &[u8], entry: &Entry) -> String {
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
        "{} {:>14} {} {name}{slash}{target}\n",
        quantity::mode(&entry.kind, entry.mode),
        entry.size(),
        quantity::date(entry.mtime),
    )
}

/// `name` in `directory`.
fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let slash: &[u8] = if directory.ends_with(b"/") { b"" } else { b"/" };
    [directory, slash, name].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_model::Timestamp;

    #[test]
    fn lines_show_kinds_and_hide_control_bytes() {
        let entry =
            |kind, mode| Entry::new(None, kind, mode, Timestamp { secs: 1_700_000_000, nanos: 5 });
        let lines = [
            line(false, b"a\nb", &entry(Kind::File { size: 5 }, 0o644)),
            line(false, b"d", &entry(Kind::Dir, 0o755)),
            line(true, b"big", &entry(Kind::File { size: 1 << 40 }, 0o600)),
            line(true, b"d", &entry(Kind::Dir, 0o2755)),
            line(true, b"l", &entry(Kind::Symlink { target: b"\x1b"[..].into() }, 0o777)),
            line(true, b"p", &entry(Kind::Special, 0o600)),
        ];
        insta::assert_snapshot!(lines.concat(), @r"
        a\nb
        d/
        -rw-------  1099511627776 2023-11-14T22:13:20Z big
        drwxr-sr-x              0 2023-11-14T22:13:20Z d/
        lrwxrwxrwx              0 2023-11-14T22:13:20Z l -> \x1b
        ?rw-------              0 2023-11-14T22:13:20Z p
        ");
    }

    #[test]
    fn names_are_joined_with_one_slash() {
        assert_eq!(join(b"a", b"b"), b"a/b");
        assert_eq!(join(b"/", b"b"), b"/b");
    }
}
