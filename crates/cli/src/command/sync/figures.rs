//! The figures at the end of a mirror.

use crate::args::Stats;
use crate::command::copy::{UNHASHED, relay_note};
use crate::error::End;
use crate::json::{self, Object};
use crate::quantity;
use crate::report::{Message, Show};
use haul_engine::{Kinds, Summary};

pub(super) struct Figures {
    pub(super) end: End,
    pub(super) stats: Stats,
    pub(super) dry_run: bool,
    /// The format of lengths in the block, as in lists.
    pub(super) readable: u8,
    pub(super) unhashed: bool,
}

impl Message for Figures {
    fn text(&self) -> Vec<u8> {
        let text = match self.stats {
            Stats::None => String::new(),
            // rsync prints the empty line too: scripts recognise the end of the names by it.
            Stats::Line => format!("\n{}", self.line()),
            Stats::Block => format!("{}\n{}", self.block(), self.line()),
        };
        text.into_bytes()
    }

    fn json(&self) -> Option<Object> {
        Some(json::sync_summary(&self.end, self.unhashed))
    }

    fn level(&self) -> Show {
        Show::Normal
    }
}

impl Figures {
    /// The lines of rsync for which haul has figures.
    fn block(&self) -> String {
        let End { summary, entry_counts, .. } = &self.end;
        let bytes = |n| format!("{} bytes", quantity::rsync_number(n, self.readable));
        let lines = [
            ("Number of files", by_kind(entry_counts.found)),
            ("Number of created files", by_kind(entry_counts.made)),
            ("Number of deleted files", by_kind(entry_counts.removed)),
            ("Number of regular files transferred", quantity::count(entry_counts.sent)),
            ("Total file size", bytes(entry_counts.size)),
            ("Total transferred file size", bytes(entry_counts.sent_size)),
            ("Literal data", bytes(summary.bytes_transferred)),
            ("Matched data", bytes(summary.bytes_matched)),
        ];
        lines.map(|(label, figure)| format!("\n{label}: {figure}")).concat() + "\n"
    }

    /// One line about the work done. It begins as rsync's last line does, because scripts search
    /// for that.
    fn line(&self) -> String {
        let End { summary, time, relayed, entry_counts, .. } = self.end;
        let total = quantity::rsync_number(entry_counts.size, self.readable);
        let Summary { copied, linked, dirs_created, updated, deleted, bytes, .. } = summary;
        let parts = [
            (copied, "copied"),
            (summary.renamed, "of them only renamed"),
            (linked, "linked"),
            (dirs_created, "directories made"),
            (updated, "updated"),
            (deleted, "removed"),
            (summary.spared, "spared"),
            (summary.failed, "failed"),
        ];
        let parts = parts.into_iter().filter(|(n, _)| *n > 0);
        let mut parts: Vec<_> =
            parts.map(|(n, word)| format!("{} {word}", quantity::count(n))).collect();
        if parts.is_empty() {
            parts.push("nothing changed".to_owned());
        }
        let would = if self.dry_run { " (dry run)" } else { "" };
        let (parts, bytes) = (parts.join(", "), quantity::bytes(bytes));
        let matched = match summary.bytes_matched {
            0 => String::new(),
            matched => format!("; {} already there", quantity::bytes(matched)),
        };
        let unhashed = if self.unhashed && copied > 0 { UNHASHED } else { "" };
        let (time, here) = (quantity::duration(time), relay_note(relayed));
        format!(
            "total size is {total} bytes; {parts}; {bytes} in {time}{matched}{unhashed}{here}{would}\n"
        )
    }
}

/// The total, and the number of entries of each kind.
fn by_kind(kinds: Kinds) -> String {
    let Kinds { files, dirs, links, devices, specials } = kinds;
    let all =
        [("reg", files), ("dir", dirs), ("link", links), ("dev", devices), ("special", specials)];
    let each = all.into_iter().filter(|(_, n)| *n > 0);
    let each: Vec<_> = each.map(|(kind, n)| format!("{kind}: {}", quantity::count(n))).collect();
    match each.is_empty() {
        true => "0".to_owned(),
        false => format!("{} ({})", quantity::count(kinds.total()), each.join(", ")),
    }
}
