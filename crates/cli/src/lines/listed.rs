//! The lines of `haul sync --list-only`, in rsync's format.

use crate::quantity;
use haul_model::{Entry, Kind, escape_octal};

/// The format of a line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Columns {
    /// The format of lengths: 0 digits, 1 with separators, 2 in powers of 1,000, 3 and more in
    /// powers of 1,024.
    pub(crate) readable: u8,
    /// Lines show access times.
    pub(crate) atimes: bool,
    /// Lines of links show their targets.
    pub(crate) targets: bool,
}

/// The line about a source entry.
pub(crate) fn listed_line(columns: Columns, path: &[u8], entry: &Entry) -> String {
    let width = if columns.readable == 0 { 11 } else { 14 };
    let atime = match (columns.atimes, entry.attributes.atime) {
        (false, _) => String::new(),
        (true, Some(atime)) if entry.kind != Kind::Dir => {
            format!(" {}", quantity::local_date(atime))
        }
        (true, _) => " ".repeat(20),
    };
    let target = match &entry.kind {
        Kind::Symlink { target } if columns.targets => format!(" -> {}", escape_octal(target)),
        _ => String::new(),
    };
    format!(
        "{} {:>width$} {}{} {}{target}\n",
        quantity::mode(entry),
        quantity::rsync_number(entry.shown_len(), columns.readable),
        quantity::local_date(entry.attributes.mtime),
        atime,
        escape_octal(path),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_model::{Attributes, Timestamp};

    #[test]
    fn names_are_escaped() {
        let kind = Kind::Symlink { target: b"\x1b"[..].into() };
        let time = Timestamp { secs: i64::MAX, nanos: 0 };
        let entry = Entry::new(None, kind, Attributes::new(0o777, time));
        let columns = Columns { readable: 1, targets: true, atimes: false };
        let line = listed_line(columns, b"a\n", &entry);
        let shown = format!("lrwxrwxrwx              1 @{} a\\#012 -> \\#033\n", i64::MAX);
        assert_eq!(line, shown);
    }
}
