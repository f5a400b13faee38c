//! The lines of `haul sync --list-only`, in rsync's format.

use crate::json::{self, Object};
use crate::quantity;
use crate::report::{Message, Show};
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
pub(crate) struct ListedLine<'a> {
    pub(crate) columns: Columns,
    pub(crate) path: &'a [u8],
    pub(crate) entry: &'a Entry,
}

impl ListedLine<'_> {
    /// The column with the access time and a leading space; empty if it is disabled.
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

impl Message for ListedLine<'_> {
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

    fn json(&self) -> Option<Object> {
        Some(json::entry(None, self.path, self.entry))
    }

    fn level(&self) -> Show {
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
