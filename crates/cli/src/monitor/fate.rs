//! The lines about entries of a copy.

use crate::json::{self, Object};
use crate::report::Message;
use haul_engine::{Outcome, Skip};
use haul_model::{Kind, escape_bytes, escape_octal, links};

/// The result of an entry that did not fail.
pub(super) struct CopyFate<'a> {
    pub(super) path: &'a [u8],
    pub(super) kind: &'a Kind,
    pub(super) outcome: &'a Outcome,
    /// Nothing was changed.
    pub(super) is_dry: bool,
}

impl Message for CopyFate<'_> {
    fn text(&self) -> Vec<u8> {
        let path = escape_bytes(self.path);
        let word = json::result_word(self.outcome, self.is_dry).replace('_', " ");
        let slash = if *self.kind == Kind::Dir { "/" } else { "" };
        let reason = match self.outcome {
            Outcome::Linked { first, .. } => format!(" (the same file as {})", escape_bytes(first)),
            Outcome::Synced(found) if !found.is_empty() => {
                format!(" ({})", found.words().collect::<Vec<_>>().join(", "))
            }
            Outcome::Grew => " (as it was when opened; it has grown since)".to_owned(),
            // The warning already reports it.
            Outcome::Skipped(Skip::Special) => return Vec::new(),
            Outcome::Skipped(Skip::Unchanged) => " (unchanged)".to_owned(),
            Outcome::Skipped(Skip::Exists) => " (exists)".to_owned(),
            Outcome::Skipped(Skip::NotOlder) => " (not older than the source)".to_owned(),
            Outcome::Skipped(Skip::Ruled) => " (left alone)".to_owned(),
            _ => String::new(),
        };
        format!("{word} {path}{slash}{reason}\n").into_bytes()
    }

    fn json(&self) -> Option<Object> {
        Some(json::result(self.path, self.kind, self.outcome, self.is_dry))
    }
}

/// The line about the skipped entry at `path`, if it is a link that leads out of the destination.
pub(super) fn unsafe_link_line(path: &[u8], kind: &Kind) -> Option<String> {
    let Kind::Symlink { target } = kind else { return None };
    let depth = path.iter().filter(|byte| **byte == b'/').count();
    links::leads_out(target, depth).then(|| {
        let (path, target) = (escape_octal(path), escape_octal(target));
        format!("ignoring unsafe symlink \"{path}\" -> \"{target}\"\n")
    })
}

/// The reason why an entry of this kind is not copied.
pub(super) fn copy_skip_reason(kind: &Kind) -> &'static str {
    match kind {
        Kind::File { .. } | Kind::Symlink { .. } => "a temporary file of haul: not copied",
        _ => "a FIFO, socket or device: not copied",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: Kind = Kind::File { size: 3 };

    #[test]
    fn lines_for_people_are_escaped() {
        let line = |path, kind, outcome, is_dry| CopyFate { path, kind, outcome, is_dry }.text();
        let lines = [
            line(b"a/b\n", &FILE, &Outcome::Copied, false),
            line(b"d", &Kind::Dir, &Outcome::WouldCopy, true),
            line(b"\xff", &FILE, &Outcome::Skipped(Skip::Unchanged), false),
            line(b"x", &FILE, &Outcome::Skipped(Skip::NotOlder), false),
            line(b"y", &Kind::Special, &Outcome::Skipped(Skip::Special), false),
            line(b"log", &FILE, &Outcome::Grew, false),
        ];
        insta::assert_snapshot!(String::from_utf8_lossy(&lines.concat()), @r"
        copied a/b\n
        would copy d/
        skipped \xff (unchanged)
        skipped x (not older than the source)
        copied log (as it was when opened; it has grown since)
        ");
    }
}
