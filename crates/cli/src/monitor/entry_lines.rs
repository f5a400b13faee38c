//! The lines of a mirror about entries. They are printed in the order of the listing, and logged.

use super::order::OrderedLines;
use crate::json;
use crate::lines::{Itemized, Lines, Listed, SyncFate, listed_line};
use crate::report::{Lazy, LogFile, Message, Report, Show};
use haul_model::{Attributes, ContentHash, Entry, Kept, Kind, Special, Task, Timestamp};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The format and the state of the lines about entries.
pub(super) struct EntryLines {
    report: Report,
    pub(super) format: Lines,
    /// The log file, if there is one.
    log: Option<Arc<LogFile>>,
    /// The attributes that the jobs keep.
    kept: Kept,
    /// Lines are printed in the order of the listing.
    is_ordered: bool,
    /// The running job sends to another machine.
    is_outgoing: AtomicBool,
    /// Listed entries by number, if their lines need more than the outcome.
    listed: Mutex<HashMap<u64, Listed>>,
    /// Lines that wait for the lines of earlier entries.
    order: Mutex<OrderedLines>,
}

impl EntryLines {
    /// Creates the lines of jobs with `task`, which are printed by `report`.
    pub(super) fn new(
        report: &Report,
        task: &Task,
        format: Lines,
        log: Option<Arc<LogFile>>,
    ) -> Self {
        Self {
            report: report.clone(),
            log,
            kept: task.keeps(),
            is_ordered: task.mirrors().is_some() && report.is_text() && format.has_any(),
            format,
            is_outgoing: AtomicBool::new(false),
            listed: Mutex::default(),
            order: Mutex::default(),
        }
    }

    /// Records that a job begins.
    pub(super) fn begin(&self, is_outgoing: bool) {
        self.is_outgoing.store(is_outgoing, Ordering::Relaxed);
        *self.order.lock() = OrderedLines::default();
    }

    /// Prints all waiting lines. Further lines do not wait.
    pub(super) fn release_all(&self) {
        self.order.lock().release_all(|line| self.print(line));
    }

    /// Prints lines that have waited long enough for a user at a terminal. Called at each tick.
    pub(super) fn tick(&self) {
        self.order.lock().tick(|line| self.print(line));
    }

    /// Records that entry `number` was listed.
    pub(super) fn listed(&self, number: u64, entry: &Entry) {
        if self.is_ordered {
            self.order.lock().listed(number);
        }
        let is_device = matches!(entry.special, Some(Special::Block(_) | Special::Char(_)));
        if is_device || self.formats().any(|it| it.wants_attributes() || it.wants_hashes()) {
            let Attributes { mode, mtime, user, group, .. } = entry.attributes;
            let attributes = Attributes { user, group, ..Attributes::new(mode, mtime) };
            let mut listed = self.listed.lock();
            listed.insert(number, Listed { attributes, is_device, hash: None });
        }
    }

    /// Records that entry `number` has all its lines.
    pub(super) fn done(&self, number: Option<u64>) {
        if let Some(number) = number.filter(|_| self.is_ordered) {
            self.order.lock().done(number, |line| self.print(line));
        }
    }

    pub(super) fn wants_hashes(&self) -> bool {
        self.formats().any(Lines::wants_hashes)
    }

    /// Records the hash of a listed file.
    pub(super) fn hashed(&self, number: u64, hash: ContentHash) {
        if let Some(listed) = self.listed.lock().get_mut(&number) {
            listed.hash = Some(hash);
        }
    }

    /// Prints and logs an entry of a job that only lists.
    pub(super) fn list(&self, path: &[u8], entry: &Entry) {
        let text = || listed_line(self.format.columns, path, entry);
        if let Some(log) = &self.log {
            log.lines(&text());
        }
        let json = || json::entry(None, path, entry);
        self.print(&Lazy { level: Show::Normal, text, json });
    }

    pub(super) fn print(&self, line: &dyn Message) {
        self.format.print(line, &self.report);
    }

    /// Prints a line about entry `number`, in order if lines are ordered.
    pub(super) fn print_in_order(&self, number: Option<u64>, line: &dyn Message) {
        match number.filter(|_| self.is_ordered) {
            Some(number) => self.order.lock().hold(number, line),
            None => self.print(line),
        }
    }

    /// Removes and returns the listed entry `number`. As in rsync, removed entries have no
    /// attributes.
    fn take_listed(&self, number: Option<u64>) -> Listed {
        let mut of = self.listed.lock();
        let none = || Listed {
            attributes: Attributes::new(0, Timestamp { secs: 0, nanos: 0 }),
            is_device: false,
            hash: None,
        };
        let listed = number.and_then(|number| of.remove(&number)).unwrap_or_else(none);
        let attributes = Attributes {
            user: listed.attributes.user.filter(|_| self.kept.has(Kept::USER)),
            group: self.kept.has(Kept::GROUP).then(|| listed.attributes.group.unwrap_or_default()),
            ..listed.attributes
        };
        Listed { attributes, ..listed }
    }

    /// The formats of printed and of logged lines.
    fn formats(&self) -> impl Iterator<Item = &Lines> {
        [&self.format].into_iter().chain(self.format.log.as_ref().map(|log| &log.lines))
    }

    /// Logs and prints the lines of a mirror about an entry, as far as they are enabled. Returns
    /// true if the entry has a line besides that of its backup. Without a `fate` there is no line.
    pub(super) fn print_fate(
        &self,
        number: Option<u64>,
        path: &[u8],
        kind: &Kind,
        fate: Option<SyncFate<'_>>,
    ) -> bool {
        let listed = &self.take_listed(number);
        let Some(fate) = fate else { return false };
        let is_outgoing = self.is_outgoing.load(Ordering::Relaxed);
        let line = |lines| Itemized { lines, path, kind, listed, fate, is_outgoing };
        if let (Some(log), Some(lines)) = (&self.log, self.logged_by(kind, fate)) {
            log.lines(&String::from_utf8_lossy(&line(lines).text()));
        }
        if self.format.has_backup_line(kind, fate) {
            self.print_in_order(number, &self.format.backup_line(path));
        }
        let has_line = self.has_line(kind, fate);
        if has_line {
            self.print_in_order(number, &line(&self.format));
        }
        has_line
    }

    /// True if a mirror prints a line about an entry with this fate.
    pub(super) fn has_line(&self, kind: &Kind, fate: SyncFate<'_>) -> bool {
        !self.report.is_text() || self.format.has_line(kind, fate)
    }

    /// The format of the log, if an entry with this fate is logged.
    fn logged_by(&self, kind: &Kind, fate: SyncFate<'_>) -> Option<&Lines> {
        let lines = self.format.log.as_ref().map(|log| &log.lines);
        lines.filter(|lines| lines.is_logged(kind, fate))
    }

    /// True if an entry with this fate is logged, or has the line of a backup.
    pub(super) fn is_logged_or_backed_up(&self, kind: &Kind, fate: SyncFate<'_>) -> bool {
        self.logged_by(kind, fate).is_some() || self.format.has_backup_line(kind, fate)
    }
}
