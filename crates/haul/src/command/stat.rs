//! `haul stat`: what stands at paths.

use super::{each_path, host};
use crate::args::Stat;
use crate::error::ExitCode;
use crate::json::{EntryLine, Line};
use crate::location::Location;
use crate::quantity;
use crate::report::Form;
use haul_model::{Entry, Kind, escape_bytes};

/// Prints a paragraph for each path.
pub(super) fn run(stat: &Stat) -> ExitCode {
    each_path(stat.form, &stat.paths, stat.without_haul, |requests, location, report| {
        let entry = requests.stat(&location.path, stat.follow)?;
        match report.form() {
            Form::Plain => report.print(paragraph(location, &entry).as_bytes()),
            Form::Json => {
                let line = EntryLine::of(host(&location.place), &location.path, &entry);
                report.json(&Line::Entry(line));
            }
        }
        Ok(())
    })
}

fn paragraph(location: &Location, entry: &Entry) -> String {
    let what = match &entry.kind {
        Kind::File { size } => {
            let exact = quantity::counted(*size, "byte", "bytes");
            match size {
                0..1024 => format!("file, {exact}"),
                _ => format!("file, {exact} ({})", quantity::bytes(*size)),
            }
        }
        Kind::Dir => "directory".to_owned(),
        Kind::Symlink { target } => format!("symbolic link to {}", escape_bytes(target)),
        Kind::Special => "FIFO, socket or device".to_owned(),
    };
    format!(
        "{location}\n  kind      {what}\n  mode      {:04o} ({})\n  modified  {}\n",
        entry.mode,
        quantity::mode(&entry.kind, entry.mode),
        quantity::date_nanos(entry.mtime),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_model::Timestamp;
    use std::ffi::OsStr;

    #[test]
    fn a_paragraph_tells_kind_mode_and_time() {
        let location = Location::parse(OsStr::new("host:a\x1bb")).expect("a location");
        let mtime = Timestamp { secs: 1_700_000_000, nanos: 5 };
        let text = |kind, mode| paragraph(&location, &Entry::new(None, kind, mode, mtime));
        let texts = [
            text(Kind::File { size: 1 }, 0o644),
            text(Kind::File { size: 3 << 20 }, 0o4755),
            text(Kind::Dir, 0o1777),
            text(Kind::Symlink { target: b"../x\n"[..].into() }, 0o777),
            text(Kind::Special, 0o600),
        ];
        insta::assert_snapshot!(texts.concat());
    }
}
