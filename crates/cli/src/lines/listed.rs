//! The lines of `haul sync --list-only`: those of rsync.

use crate::json::{EntryLine, Line};
use crate::quantity;
use crate::report::{Show, Statement};
use haul_model::{Entry, Kind, escape_octal};

/// The form of a line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Columns {
    /// How lengths are written: 0 as digits, 1 with separators, 2 in units of 1,000 and
    /// their powers, above that in those of 1,024.
    pub(crate) readable: u8,
    /// Lines have the time of the last reading.
    pub(crate) atimes: bool,
    /// Lines of links have their targets.
    pub(crate) targets: bool,
}

/// An entry of a source.
pub(crate) struct ListedLine<'a> {
    pub(crate) columns: Columns,
    pub(crate) path: &'a [u8],
    pub(crate) entry: &'a Entry,
}

impl ListedLine<'_> {
    /// The time of the last reading, with a space in front, where there is such a column.
    fn atime(&self) -> String {
        match (self.columns.atimes, self.entry.attributes.atime) {
            (false, _) => String::new(),
            (true, Some(atime)) if self.entry.kind != Kind::Dir => {
                format!(" {}", quantity::local_date(atime))
            }
            (true, _) => " ".repeat(20),
        }
    }
}

impl Statement for ListedLine<'_> {
    fn text(&self) -> Vec<u8> {
        let width = if self.columns.readable == 0 { 11 } else { 14 };
        let target = match &self.entry.kind {
            Kind::Symlink { target } if self.columns.targets => {
                format!(" -> {}", escape_octal(target))
            }
            _ => String::new(),
        };
        let line = format!(
            "{} {:>width$} {}{} {}{target}\n",
            quantity::mode(self.entry),
            quantity::rsync_number(self.entry.shown_len(), self.columns.readable),
            quantity::local_date(self.entry.attributes.mtime),
            self.atime(),
            escape_octal(self.path),
        );
        line.into_bytes()
    }

    fn json(&self) -> Vec<u8> {
        Line::Entry(EntryLine::of(None, self.path, self.entry)).to_bytes()
    }

    fn least(&self) -> Show {
        Show::Normal
    }
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
        let line = ListedLine { columns, path: b"a\n", entry: &entry }.text();
        let shown = format!("lrwxrwxrwx              1 @{} a\\#012 -> \\#033\n", i64::MAX);
        assert_eq!(String::from_utf8(line).expect("text"), shown);
    }
}
