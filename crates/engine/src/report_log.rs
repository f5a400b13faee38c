//! The record of a job that runs again after a lost connection: which entries had their outcome,
//! so that no run reports or counts an outcome twice.
//!
//! Every run lists the entries in the same order. So the record holds the last listed entry, and
//! the entries before it that had no outcome: no more than the window of the listing has room
//! for. A new entry in a directory that the walk has already left counts as reported.

mod removals;
#[cfg(test)]
mod tests;

use self::removals::PossibleRemovals;
use haul_model::{Changes, Fault, FaultKind, Kind, Outcome, Side, Skip, Task, words};
use haul_proto::NamedSources;
use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hasher};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Maximum number of failures and of extras that are recorded one by one. A job with more is not
/// run again.
const SINGLE_MAX: usize = 1 << 16;

/// Maximum number of created directories that are recorded. With more, an entry whose outcome was
/// lost may be reported as unchanged.
const MADE_MAX: usize = 1 << 16;

/// Maximum number of directories at the top of the sources whose objects are recorded.
const TOPS_MAX: usize = 1 << 16;

/// The record of a job that may be run again.
#[derive(Debug, Default)]
pub(crate) struct ReportLog {
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
    /// Entries before it whose outcome no run has reported, by their own keys. True if the content
    /// was requested.
    doubtful: FxHashMap<u64, bool>,
    /// The last entry that this run listed.
    last: Option<Position>,
    /// This run has listed further than all earlier ones.
    is_beyond: bool,
    /// Entries that this run listed and whose outcome it has not reported, by their numbers.
    /// Entries are added and removed at the ends of the search tree, which stay in the processor's
    /// caches.
    open: BTreeMap<u64, Open>,
    /// Doubtful keys that this run has listed. Of several entries with one key, the first counts.
    claimed: FxHashSet<u64>,
    /// Directories that the job created, by the keys of their paths.
    made: FxHashSet<u64>,
    /// The keys of failed entries and of extras.
    single: FxHashSet<u64>,
    /// See [`PossibleRemovals`].
    removals: PossibleRemovals,
    /// The key of the sources of this job, and of the earlier ones that [`Self::tops`] are from.
    sources: u64,
    /// The objects of the directories at the top of the sources, by their own keys.
    tops: FxHashMap<u64, u64>,
    /// An earlier run listed them, or the part of the mirror before this one, which removes extras.
    compares_tops: bool,
    /// Extras are removed.
    removes_extras: bool,
    /// This run has listed another object at the top of the sources than before.
    has_other_top: bool,
    /// This run has listed all entries.
    has_listed_all: bool,
    /// An earlier run had listed all entries, and reported all outcomes.
    was_complete: bool,
    is_full: bool,
}

/// An entry's place in the order of the walk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Position {
    /// The number of the source, where each is walked by itself.
    pub(crate) source: u64,
    /// Its path, raw.
    pub(crate) path: Vec<u8>,
    pub(crate) is_dir: bool,
    /// An earlier source has its place in the destination.
    pub(crate) is_rival: bool,
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

impl Position {
    /// The order of the walk: a directory, then its entries; first the entries that are no
    /// directories.
    fn is_after(&self, other: &Self) -> bool {
        let order = self.source.cmp(&other.source).then_with(|| {
            let (mut ours, mut theirs) = (parts(&self.path), parts(&other.path));
            loop {
                let (one, two) = match (ours.next(), theirs.next()) {
                    (Some(one), Some(two)) => (one, two),
                    (one, two) => return one.is_some().cmp(&two.is_some()),
                };
                if one != two {
                    let is_dir = |rest: &mut dyn Iterator<Item = &[u8]>, is_dir| {
                        is_dir || rest.next().is_some()
                    };
                    let ours = is_dir(&mut ours, self.is_dir);
                    return ours.cmp(&is_dir(&mut theirs, other.is_dir)).then(one.cmp(two));
                }
            }
        });
        order == Ordering::Greater
    }
}

/// The names in a path. `.` has none, and comes before all others.
fn parts(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/').filter(|part| !matches!(part, [] | [b'.']))
}

/// The keys of an entry.
#[derive(Debug, Clone, Copy)]
struct Keys {
    /// The key of the entry. Several sources can have one place, so the path alone is no key.
    own: u64,
    /// The key of its path. Of some entries, only the path is known.
    path: u64,
    /// The key of the path of its directory.
    above: u64,
}

impl Keys {
    /// The keys of an entry of which only the path is known.
    fn of_path(path: &[u8]) -> Self {
        let path = if path == b"." { b"" } else { path };
        let (above, below) =
            path.split_at(path.iter().rposition(|byte| *byte == b'/').unwrap_or_default());
        let mut hasher = DefaultHasher::new();
        hasher.write(above);
        let above = hasher.finish();
        hasher.write(below);
        let path = hasher.finish();
        Self { own: path, path, above }
    }

    fn of(position: &Position) -> Self {
        /// Odd, and the bits of its multiples are spread.
        const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
        let keys = Self::of_path(&position.path);
        let which = position.source << 1 | u64::from(position.is_rival);
        Self { own: keys.path.wrapping_add(which.wrapping_mul(SPREAD)), ..keys }
    }
}

fn key(path: &[u8]) -> u64 {
    Keys::of_path(path).path
}

/// The key of a path as removals are told: in the form of [`words::shown`].
fn key_shown(path: &[u8]) -> u64 {
    key(&words::shown(path.to_vec()))
}

impl ReportLog {
    /// Begins a job that runs once: nothing is recorded.
    pub(crate) fn begin(&self) {
        let record = &mut *self.record.lock();
        let Record { sources, tops, .. } = std::mem::take(record);
        *record = Record { sources, tops, ..Record::default() };
        self.keeps.store(false, Relaxed);
    }

    /// Keeps the record of the job, which may run again.
    pub(crate) fn keep(&self, task: &Task, sources: &NamedSources) {
        let record = &mut *self.record.lock();
        record.is_mirror = task.mirrors().is_some();
        record.finds_again = task.keeps_destination();
        record.removals = PossibleRemovals::of(task, sources.base.clone());
        record.removes_extras = task.mirrors().is_some_and(|mirror| mirror.delete.is_some());
        let by = BuildHasherDefault::<DefaultHasher>::default();
        let key = by.hash_one((&sources.paths, &sources.base));
        // Where sources are removed, directories have other numbers than where they are copied.
        if record.sources != key || !record.removes_extras {
            record.tops.clear();
        }
        (record.sources, record.compares_tops) = (key, !record.tops.is_empty());
        self.keeps.store(true, Relaxed);
    }

    /// Begins another run after a lost connection. `false` if the record does not hold all that
    /// was reported.
    pub(crate) fn begin_rerun(&self) -> bool {
        let mut record = self.record.lock();
        let record = &mut *record;
        if record.is_full {
            return false;
        }
        let has_listed_all = std::mem::take(&mut record.has_listed_all);
        record.was_complete |= has_listed_all && record.open.is_empty();
        for Open { keys, report_state, wanted } in std::mem::take(&mut record.open).into_values() {
            if report_state != ReportState::Reported {
                *record.doubtful.entry(keys.own).or_default() |= wanted;
            }
        }
        record.claimed.clear();
        let last = record.last.take();
        if record.runs == 0 || record.is_beyond {
            record.passed = last.or(record.passed.take());
        }
        record.runs += 1;
        (record.is_beyond, record.has_other_top, record.compares_tops) = (false, false, true);
        true
    }

    /// True if this job has run before, and lost its connection.
    pub(crate) fn is_rerun(&self) -> bool {
        self.keeps() && self.record.lock().runs > 0
    }

    fn keeps(&self) -> bool {
        self.keeps.load(Relaxed)
    }

    /// Records that the entry `number` was listed. `place` overwrites the position of the previous
    /// entry.
    pub(crate) fn listed(&self, number: u64, place: impl FnOnce(&mut Position)) {
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
        let (report_state, wanted) = match record.doubtful.get(&keys.own) {
            Some(wanted) if record.claimed.insert(keys.own) => (ReportState::Doubtful, *wanted),
            Some(_) => (ReportState::New, false),
            // The reported outcome was that of a source to be removed.
            None if was_removed => (ReportState::New, false),
            None if record.runs == 0 || record.is_beyond => (ReportState::New, false),
            None => (ReportState::Reported, false),
        };
        record.open.insert(number, Open { keys, report_state, wanted });
    }

    /// Records the object of the directory that was listed last. `false` if the job removes extras,
    /// and an earlier run or part has listed another object at this top of the sources. If the host
    /// has restarted, its file system may not be mounted yet, and all would count as extras.
    pub(crate) fn is_same_dir(&self, object: u64) -> bool {
        if !self.keeps() {
            return true;
        }
        let record = &mut *self.record.lock();
        let Some(last) = record.last.as_ref().filter(|last| !last.path.contains(&b'/')) else {
            return true;
        };
        let (key, has_room) = (Keys::of(last).own, record.tops.len() < TOPS_MAX);
        match record.tops.get(&key) {
            _ if object == 0 => {}
            Some(before) => record.has_other_top |= record.compares_tops && *before != object,
            None if has_room => drop(record.tops.insert(key, object)),
            None => {}
        }
        !(record.has_other_top && record.removes_extras)
    }

    /// Records that all entries were listed. `false` if that was less than in an earlier run, from
    /// another directory: its file system may not be mounted.
    pub(crate) fn listed_all(&self) -> bool {
        if !self.keeps() {
            return true;
        }
        let record = &mut *self.record.lock();
        record.has_listed_all = true;
        let (passed, last) = (record.passed.as_ref(), record.last.as_ref());
        let is_less = passed.zip(last).is_some_and(|(passed, last)| passed.is_after(last));
        !(record.has_other_top && is_less)
    }

    /// Records that the content of the file `number` was requested.
    pub(crate) fn wanted(&self, number: u64) {
        if self.keeps()
            && let Some(open) = self.record.lock().open.get_mut(&number)
        {
            open.wanted = true;
        }
    }

    /// True if an earlier run listed the entry `number` and did not report its outcome.
    pub(crate) fn is_doubtful(&self, number: u64) -> bool {
        let is_doubtful = |open: &Open| open.report_state == ReportState::Doubtful;
        self.is_rerun() && self.record.lock().open.get(&number).is_some_and(is_doubtful)
    }

    /// The outcome to report of the entry `number`; `None` if it was reported before. `path` is
    /// called if the entry was not listed, or if the job removes sources.
    pub(crate) fn outcome(
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
        if record.runs > 0 {
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
    pub(crate) fn late(&self, path: &[u8]) -> bool {
        !self.keeps() || self.record.lock().is_single(key(path))
    }

    /// Records that the removal of the source at `path`, or its failure, was reported.
    pub(crate) fn removed(&self, path: &[u8]) {
        if self.keeps() {
            let mut record = self.record.lock();
            record.is_full |= !record.removals.record_reported(key_shown(path), path);
        }
    }

    /// Takes out the sources that earlier runs removed without a report. All remaining sources must
    /// have been listed.
    pub(crate) fn take_removed(&self) -> Vec<(Vec<u8>, Kind)> {
        if !self.is_rerun() {
            return Vec::new();
        }
        let mut record = self.record.lock();
        let run = record.runs;
        record.removals.take_removed(run)
    }

    /// True if the extra at `path` was not reported before.
    pub(crate) fn extra(&self, path: &[u8]) -> bool {
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
