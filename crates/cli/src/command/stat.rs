//! `haul stat`: shows metadata of files and directories.

use super::{PathQuestion, ask_each_path};
use crate::args::Stat;
use crate::error::ExitCode;
use crate::json;
use crate::quantity;
use crate::report::{Lazy, Show};
use haul::Location;
use haul_model::{Entry, Kind, Special, escape_bytes};

/// Prints a paragraph for each path.
pub(super) fn run(stat: &Stat) -> ExitCode {
    ask_each_path(&stat.asked, |requests, PathQuestion { location, report, .. }| {
        let entry = requests.stat(&location.path, stat.follow)?;
        report.message(&Lazy {
            level: Show::Quiet,
            text: || paragraph(location, &entry),
            json: || json::entry(location.machine.name().as_deref(), &location.path, &entry),
        });
        Ok(())
    })
}

/// The paragraph of one entry.
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
        Kind::Special => match entry.special {
            Some(Special::Fifo) => "FIFO",
            Some(Special::Socket) => "socket",
            Some(Special::Block(_)) => "block device",
            Some(Special::Char(_)) => "character device",
            None => "FIFO, socket or device",
        }
        .to_owned(),
    };
    format!(
        "{location}\n  kind      {what}\n  mode      {:04o} ({})\n  modified  {}\n",
        entry.attributes.mode,
        quantity::mode(entry),
        quantity::date_nanos(entry.attributes.mtime),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_model::{Attributes, Timestamp};
    use std::ffi::OsStr;

    #[test]
    fn a_paragraph_reports_kind_mode_and_time() {
        let location = Location::parse(OsStr::new("host:a\x1bb")).expect("a location");
        let mtime = Timestamp { secs: 1_700_000_000, nanos: 5 };
        let text = |kind, mode| {
            paragraph(&location, &Entry::new(None, kind, Attributes::new(mode, mtime)))
        };
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
