//! The record of a job that runs again after a lost connection: which entries had their outcome,
//! so that no run reports or counts an outcome twice.
//!
//! Every run lists the entries in the same order. So the record holds the last listed entry, and
//! the entries before it that had no outcome: no more than the window of the listing has room
//! for. A new entry in a directory that the walk has already left counts as reported.
//!
//! - `position.rs`: the order of the walk, and the keys of entries.
//! - `removals.rs`: sources that an earlier run may have removed.
//! - `tops.rs`: the directories at the top of the sources.
//!
//! This crate does no I/O.

#![forbid(unsafe_code)]

mod position;
mod removals;
#[cfg(test)]
mod tests;
mod tops;

pub use position::Position;

use haul_model::{Changes, Fault, FaultKind, Kind, Outcome, Side, Skip, Task, words};
use parking_lot::Mutex;
use position::{Keys, key, key_shown};
use removals::PossibleRemovals;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use tops::Tops;

/// Maximum number of failures and of extras that are recorded one by one. A job with more is not
/// run again.
const SINGLE_MAX: usize = 1 << 16;

/// Maximum number of created directories that are recorded. With more, an entry whose outcome was
/// lost may be reported as unchanged.
const MADE_MAX: usize = 1 << 16;

/// The record of a job that may be run again.
#[derive(Debug, Default)]
pub struct ReportLog {
    /// The record is kept. Read for each entry.
    keeps: AtomicBool,
    record: Mutex<Record>,
}

#[derive(Debug, Default)]
struct Record {
    /// The job is a mirror, which reports changes in its own form.
    is_mirror: bool,
    /// The job changes nothing, so each run finds the same extras.
    finds_again: bool,
    /// Runs before this one.
    runs: u32,
    /// The last entry that earlier runs listed.
    passed: Option<Position>,
    /// Entries before it whose outcome no run has reported, by their own keys.
    doubtful: FxHashMap<u64, Doubtful>,
    /// The last entry that this run listed.
    last: Option<Position>,
    /// This run has listed further than all earlier ones.
    is_beyond: bool,
    /// Entries that this run listed and whose outcome it has not reported, by their numbers.
    /// Entries are added and removed at the ends of the search tree, which stay in the processor's
    /// caches.
    open: BTreeMap<u64, Open>,
    /// Directories that the job created, by the keys of their paths.
    made: FxHashSet<u64>,
    /// The keys of failed entries and of extras.
    single: FxHashSet<u64>,
    /// See [`PossibleRemovals`].
    removals: PossibleRemovals,
    tops: Tops,
    /// This run has listed all entries.
    has_listed_all: bool,
    /// An earlier run had listed all entries, and reported all outcomes.
    was_complete: bool,
    is_full: bool,
}

/// An entry that an earlier run listed, and whose outcome may have been lost with the connection.
#[derive(Debug, Default)]
struct Doubtful {
    /// The content was requested.
    wanted: bool,
    /// This run has listed it. Of several entries with one key, the first counts.
    is_claimed: bool,
}

/// An entry that was listed, and whose outcome was not reported.
#[derive(Debug, Clone, Copy)]
struct Open {
    keys: Keys,
    report_state: ReportState,
    /// This run or an earlier one requested the content.
    wanted: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReportState {
    /// No earlier run listed the entry.
    New,
    /// An earlier run listed the entry, and its outcome may have been lost with the connection.
    Doubtful,
    /// An earlier run reported the outcome.
    Reported,
}

impl ReportLog {
    /// Begins a job that runs once: nothing is recorded.
    pub fn begin(&self) {
        let record = &mut *self.record.lock();
        *record = Record { tops: std::mem::take(&mut record.tops), ..Record::default() };
        self.keeps.store(false, Relaxed);
    }

    /// Keeps the record of the job, which may run again, with the sources at `paths`. A list of
    /// sources starts in `base`.
    pub fn keep(&self, task: &Task, paths: &[Vec<u8>], base: Option<&[u8]>) {
        let record = &mut *self.record.lock();
        record.is_mirror = task.mirrors().is_some();
        record.finds_again = task.keeps_destination();
        record.removals = PossibleRemovals::of(task, base.map(<[u8]>::to_vec));
        record.tops.begin(task, paths, base);
        self.keeps.store(true, Relaxed);
    }

    /// Begins another run after a lost connection. `false` if the record does not hold all that
    /// was reported.
    pub fn begin_rerun(&self) -> bool {
        let mut record = self.record.lock();
        let record = &mut *record;
        if record.is_full {
            return false;
        }
        let has_listed_all = std::mem::take(&mut record.has_listed_all);
        record.was_complete |= has_listed_all && record.open.is_empty();
        for Open { keys, report_state, wanted } in std::mem::take(&mut record.open).into_values() {
            if report_state != ReportState::Reported {
                record.doubtful.entry(keys.own).or_default().wanted |= wanted;
            }
        }
        record.doubtful.values_mut().for_each(|entry| entry.is_claimed = false);
        let last = record.last.take();
        if record.is_beyond {
            record.passed = last.or(record.passed.take());
        }
        record.runs += 1;
        record.is_beyond = false;
        record.tops.begin_rerun();
        true
    }

    /// True if this job has run before, and lost its connection.
    pub fn is_rerun(&self) -> bool {
        self.keeps() && self.record.lock().runs > 0
    }

    fn keeps(&self) -> bool {
        self.keeps.load(Relaxed)
    }

    /// Records that the entry `number` was listed. `place` overwrites the position of the previous
    /// entry.
    pub fn listed(&self, number: u64, place: impl FnOnce(&mut Position)) {
        if !self.keeps() {
            return;
        }
        let record = &mut *self.record.lock();
        let last = record.last.get_or_insert_default();
        place(last);
        let keys = Keys::of(last);
        if !record.is_beyond {
            record.is_beyond = record.passed.as_ref().is_none_or(|passed| last.is_after(passed));
        }
        let was_removed =
            record.removals.is_expected() && record.removals.was_removed(key_shown(&last.path));
        let (report_state, wanted) = match record.doubtful.get_mut(&keys.own) {
            Some(entry) if entry.is_claimed => (ReportState::New, false),
            Some(entry) => {
                entry.is_claimed = true;
                (ReportState::Doubtful, entry.wanted)
            }
            // The reported outcome was that of a source to be removed.
            None if was_removed => (ReportState::New, false),
            None if record.is_beyond => (ReportState::New, false),
            None => (ReportState::Reported, false),
        };
        record.open.insert(number, Open { keys, report_state, wanted });
    }

    /// Records the object of the directory that was listed last. `false` if the job removes extras,
    /// and an earlier run or part has listed another object at this top of the sources. If the host
    /// has restarted, its file system may not be mounted yet, and all would count as extras.
    pub fn is_same_dir(&self, object: u64) -> bool {
        if !self.keeps() {
            return true;
        }
        let record = &mut *self.record.lock();
        let last = record.last.as_ref().filter(|last| !last.path.contains(&b'/'));
        last.is_none_or(|last| record.tops.is_same(Keys::of(last), object))
    }

    /// Records that all entries were listed. `false` if that was less than in an earlier run, from
    /// another directory: its file system may not be mounted.
    pub fn listed_all(&self) -> bool {
        if !self.keeps() {
            return true;
        }
        let record = &mut *self.record.lock();
        record.has_listed_all = true;
        let (passed, last) = (record.passed.as_ref(), record.last.as_ref());
        let is_less = passed.zip(last).is_some_and(|(passed, last)| passed.is_after(last));
        !(record.tops.has_other && is_less)
    }

    /// Records that the content of the file `number` was requested.
    pub fn wanted(&self, number: u64) {
        if self.keeps()
            && let Some(open) = self.record.lock().open.get_mut(&number)
        {
            open.wanted = true;
        }
    }

    /// True if an earlier run listed the entry `number` and did not report its outcome.
    pub fn is_doubtful(&self, number: u64) -> bool {
        let is_doubtful = |open: &Open| open.report_state == ReportState::Doubtful;
        self.is_rerun() && self.record.lock().open.get(&number).is_some_and(is_doubtful)
    }

    /// The outcome to report of the entry `number`; `None` if it was reported before. `path` is
    /// called if the entry was not listed, or if the job removes sources.
    pub fn outcome(
        &self,
        number: u64,
        path: impl Fn() -> Vec<u8>,
        kind: &Kind,
        outcome: &Outcome,
    ) -> Option<Outcome> {
        if !self.keeps() {
            return Some(outcome.clone());
        }
        let mut record = self.record.lock();
        let not_listed =
            || Open { keys: Keys::of_path(&path()), report_state: ReportState::New, wanted: false };
        let open = record.open.remove(&number).unwrap_or_else(not_listed);
        let Open { keys, report_state, wanted } = open;
        if !record.doubtful.is_empty() {
            record.doubtful.remove(&keys.own);
        }
        if record.removals.is_expected() && record.record_removal(path(), kind, outcome) {
            return None;
        }
        if matches!(outcome, Outcome::Failed(_)) {
            // A late failure was recorded by its path.
            let is_new = !record.single.contains(&keys.path) && record.is_single(keys.own);
            return is_new.then(|| outcome.clone());
        }
        if report_state == ReportState::Reported {
            return None;
        }
        let is_new = record.made.contains(&keys.above);
        let outcome = match report_state {
            ReportState::Doubtful if is_new || wanted => {
                as_done(outcome, kind, is_new, record.is_mirror)
            }
            _ => outcome.clone(),
        };
        if *kind == Kind::Dir && is_made(&outcome) && record.made.len() < MADE_MAX {
            record.made.insert(keys.path);
        }
        Some(outcome)
    }

    /// True if no late failure of the entry at `path` was reported. Its outcome may still follow.
    pub fn late(&self, path: &[u8]) -> bool {
        !self.keeps() || self.record.lock().is_single(key(path))
    }

    /// Records that the removal of the source at `path`, or its failure, was reported.
    pub fn removed(&self, path: &[u8]) {
        if self.keeps() {
            let mut record = self.record.lock();
            record.is_full |= !record.removals.record_reported(key_shown(path), path);
        }
    }

    /// Takes out the sources that earlier runs removed without a report. All remaining sources must
    /// have been listed.
    pub fn take_removed(&self) -> Vec<(Vec<u8>, Kind)> {
        if !self.is_rerun() {
            return Vec::new();
        }
        let mut record = self.record.lock();
        let run = record.runs;
        record.removals.take_removed(run)
    }

    /// True if the extra at `path` was not reported before.
    pub fn extra(&self, path: &[u8]) -> bool {
        if !self.keeps() {
            return true;
        }
        let mut record = self.record.lock();
        !record.finds_again || record.is_single(!key(path))
    }
}

impl Record {
    /// Records `key`. True the first time.
    fn is_single(&mut self, key: u64) -> bool {
        if self.single.len() >= SINGLE_MAX {
            self.is_full = true;
            return !self.single.contains(&key);
        }
        self.single.insert(key)
    }

    /// Records a source that will be removed because of its outcome. True if the source is missing
    /// and an earlier run may have removed it, which is no failure.
    fn record_removal(&mut self, path: Vec<u8>, kind: &Kind, outcome: &Outcome) -> bool {
        let path = words::shown(path);
        if let Outcome::Failed(Fault { side: Side::Source, kind: fault, .. }) = outcome
            && self.runs > 0
        {
            // A move removes directories last, after everything was compared.
            let may_be_removed =
                self.removals.may_be_removed(&path, key) || self.was_complete && !self.is_mirror;
            if *fault == FaultKind::NotFound && may_be_removed {
                return true;
            }
            self.removals.forget_all();
        }
        self.is_full |= !self.removals.judge((key(&path), &path), kind, outcome, self.runs);
        false
    }
}

/// The outcome of an entry whose first outcome was lost with the connection: the entry `is_new`,
/// or it is a file whose content was sent.
fn as_done(outcome: &Outcome, kind: &Kind, is_new: bool, is_mirror: bool) -> Outcome {
    let found = match outcome {
        Outcome::Skipped(Skip::Special) => return outcome.clone(),
        Outcome::Skipped(_) | Outcome::Synced(_) if !is_mirror => return Outcome::Copied,
        Outcome::Skipped(_) => Changes::default(),
        Outcome::Synced(found) => *found,
        _ => return outcome.clone(),
    };
    let sent = Changes::SENT.only_if(*kind != Kind::Dir);
    Outcome::Synced(if is_new { Changes::MISSING.with(sent) } else { found.with(sent) })
}

fn is_made(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Copied => true,
        Outcome::Synced(found) => found.has(Changes::MISSING),
        _ => false,
    }
}
