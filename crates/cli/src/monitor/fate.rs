//! The lines about entries of a copy.

use crate::json::{self, JsonOutcome, Object};
use crate::report::Message;
use haul_engine::Skip;
use haul_model::{Changes, Kind, escape_bytes, escape_octal, links};

/// The result of an entry that did not fail.
pub(super) struct CopyFate<'a> {
    pub(super) path: &'a [u8],
    pub(super) kind: &'a Kind,
    pub(super) outcome: JsonOutcome,
    pub(super) skip: Option<Skip>,
    /// The file grew after it was opened. The copy has the size at that time.
    pub(super) grew: bool,
    /// The attributes that were updated, if the content was not copied.
    pub(super) differed: Changes,
    /// The file of which the entry is another hard link.
    pub(super) linked_to: Option<&'a [u8]>,
}

impl Message for CopyFate<'_> {
    fn text(&self) -> Vec<u8> {
        let word = match self.outcome {
            JsonOutcome::Copied => "copied",
            JsonOutcome::Linked => "linked",
            JsonOutcome::Updated => "updated",
            JsonOutcome::Skipped => "skipped",
            JsonOutcome::WouldCopy => "would copy",
            JsonOutcome::WouldLink => "would link",
            JsonOutcome::WouldUpdate => "would update",
        };
        let slash = if *self.kind == Kind::Dir { "/" } else { "" };
        if let Some(first) = self.linked_to {
            let (path, first) = (escape_bytes(self.path), escape_bytes(first));
            return format!("{word} {path} (the same file as {first})\n").into_bytes();
        }
        if !self.differed.is_empty() {
            let path = escape_bytes(self.path);
            let words = self.differed.words().collect::<Vec<_>>().join(", ");
            return format!("{word} {path}{slash} ({words})\n").into_bytes();
        }
        let reason = match self.skip {
            None if self.grew => " (as it was when opened; it has grown since)",
            None => "",
            // The warning already reports it.
            Some(Skip::Special) => return Vec::new(),
            Some(Skip::Unchanged) => " (unchanged)",
            Some(Skip::Exists) => " (exists)",
            Some(Skip::NotOlder) => " (not older than the source)",
            Some(Skip::Ruled) => " (left alone)",
        };
        format!("{word} {}{slash}{reason}\n", escape_bytes(self.path)).into_bytes()
    }

    fn json(&self) -> Option<Object> {
        let Self { path, kind, outcome, skip, grew, differed, linked_to } = *self;
        Some(json::result(path, kind, outcome, skip, grew, differed, linked_to))
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
        let line = |path, kind, outcome, skip| {
            CopyFate {
                path,
                kind,
                outcome,
                skip,
                grew: false,
                differed: Changes::default(),
                linked_to: None,
            }
            .text()
        };
        let grown = CopyFate {
            path: b"log",
            kind: &FILE,
            outcome: JsonOutcome::Copied,
            skip: None,
            grew: true,
            differed: Changes::default(),
            linked_to: None,
        };
        let lines = [
            line(b"a/b\n", &FILE, JsonOutcome::Copied, None),
            line(b"d", &Kind::Dir, JsonOutcome::WouldCopy, None),
            line(b"\xff", &FILE, JsonOutcome::Skipped, Some(Skip::Unchanged)),
            line(b"x", &FILE, JsonOutcome::Skipped, Some(Skip::NotOlder)),
            line(b"y", &Kind::Special, JsonOutcome::Skipped, Some(Skip::Special)),
            grown.text(),
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
