//! The runs of one job that is begun again after its connection was lost: which entries
//! have had their outcome, so that no run tells or counts it a second time.
//!
//! Entries are listed in one order, the same in each run. So what is kept is the last
//! that was listed, and those before it that had no outcome: no more than the window of
//! the listing has room for. An entry that comes up behind the walk, in a directory that
//! it has left, counts as told.

mod going;
#[cfg(test)]
mod tests;

use self::going::Going;
use haul_model::words;
use haul_model::{Changes, Fault, FaultKind, Kind, Outcome, Side, Skip, Task};
use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Things that are remembered one by one, at most. A job with more failures, or in which
/// only the destination has more, is not run again.
const SINGLE_MAX: usize = 1 << 16;

/// Directories that were made and are remembered, at most. If there are more, an entry
/// whose outcome was lost may be told as one that was there.
const MADE_MAX: usize = 1 << 16;

/// The record of a job that may be run again.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// Something is kept: asked for each entry.
    keeps: AtomicBool,
    record: Mutex<Record>,
}

#[derive(Debug, Default)]
struct Record {
    /// The job makes a mirror, which tells of what it does in its own way.
    is_mirror: bool,
    /// Nothing is changed: each run finds the same that only the destination has.
    finds_again: bool,
    /// Runs before this one.
    runs: u32,
    /// The last entry that earlier runs have listed.
    passed: Option<Position>,
    /// Those before it of which no run has told, by their own keys: true if the content was
    /// asked for.
    doubtful: FxHashMap<u64, bool>,
    /// The last that this run has listed.
    last: Option<Position>,
    /// It is behind all that earlier ones have listed.
    is_beyond: bool,
    /// Entries that this run has listed, and not told of, by their numbers. Both ends of
    /// a search tree are in the caches, and that is where entries come and go.
    open: BTreeMap<u64, Open>,
    /// Keys in doubt that this run has met: of several with one key, the first is the one that
    /// counts.
    claimed: FxHashSet<u64>,
    /// Directories that the job has made, by the keys of their paths.
    made: FxHashSet<u64>,
    /// Entries that failed, and what only the destination has: keys in no order.
    single: FxHashSet<u64>,
    /// See [`Going`].
    going: Going,
    /// This run has listed everything.
    has_listed_all: bool,
    /// A run before this one had, and told of all.
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

/// An entry that was listed and not told.
#[derive(Debug, Clone, Copy)]
struct Open {
    keys: Keys,
    standing: Standing,
    /// Its content was asked for, by this run or by one before.
    wanted: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// No run has listed it before.
    New,
    /// One has, and its outcome may have been lost on the way.
    Doubtful,
    /// One has told of it.
    Told,
}

impl Position {
    /// The order of the walk: a directory, then what is in it, and of that what is no
    /// directory first.
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

/// The names in a path; none in `.`, above all others.
fn parts(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/').filter(|part| !matches!(part, [] | [b'.']))
}

/// The keys of an entry.
#[derive(Debug, Clone, Copy)]
struct Keys {
    /// Its own. Several sources can have one place, so its path alone would not do.
    own: u64,
    /// That of its path, which is all that is known of some things.
    path: u64,
    /// That of the path of the directory that it is in.
    above: u64,
}

impl Keys {
    /// Those of an entry of which the path alone is known.
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

impl Told {
    /// A job begins that is run once.
    pub(crate) fn begin(&self) {
        *self.record.lock() = Record::default();
        self.keeps.store(false, Relaxed);
    }

    /// It may be run again. The paths of its sources begin in `base`.
    pub(crate) fn keep(&self, task: &Task, base: Option<&[u8]>) {
        let mut record = self.record.lock();
        record.is_mirror = task.mirrors().is_some();
        record.finds_again = task.keeps_destination();
        record.going = Going::of(task, base);
        self.keeps.store(true, Relaxed);
    }

    /// The run has ended before its time, and another begins. `false` if it can't be told
    /// what this one has told.
    pub(crate) fn again(&self) -> bool {
        let mut record = self.record.lock();
        let record = &mut *record;
        if record.is_full {
            return false;
        }
        let has_listed_all = std::mem::take(&mut record.has_listed_all);
        record.was_complete |= has_listed_all && record.open.is_empty();
        for Open { keys, standing, wanted } in std::mem::take(&mut record.open).into_values() {
            if standing != Standing::Told {
                *record.doubtful.entry(keys.own).or_default() |= wanted;
            }
        }
        record.claimed.clear();
        let last = record.last.take();
        if record.runs == 0 || record.is_beyond {
            record.passed = last.or(record.passed.take());
        }
        record.runs += 1;
        record.is_beyond = false;
        true
    }

    /// True if runs of this job were lost before this one.
    pub(crate) fn is_again(&self) -> bool {
        self.keeps() && self.record.lock().runs > 0
    }

    fn keeps(&self) -> bool {
        self.keeps.load(Relaxed)
    }

    /// The entry of that number was listed. `place` overwrites the position of the one before
    /// it with its own.
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
        let is_back = record.going.is_expected() && record.going.is_back(key_shown(&last.path));
        let (standing, wanted) = match record.doubtful.get(&keys.own) {
            Some(wanted) if record.claimed.insert(keys.own) => (Standing::Doubtful, *wanted),
            Some(_) => (Standing::New, false),
            // What was told of it was of a source that goes.
            None if is_back => (Standing::New, false),
            None if record.runs == 0 || record.is_beyond => (Standing::New, false),
            None => (Standing::Told, false),
        };
        record.open.insert(number, Open { keys, standing, wanted });
    }

    /// All entries were listed.
    pub(crate) fn listed_all(&self) {
        if self.keeps() {
            self.record.lock().has_listed_all = true;
        }
    }

    /// The content of the file of that number was asked for.
    pub(crate) fn wanted(&self, number: u64) {
        if self.keeps()
            && let Some(open) = self.record.lock().open.get_mut(&number)
        {
            open.wanted = true;
        }
    }

    /// True if an earlier run has listed the entry of that number and not told of it.
    pub(crate) fn is_doubtful(&self, number: u64) -> bool {
        let is_doubtful = |open: &Open| open.standing == Standing::Doubtful;
        self.is_again() && self.record.lock().open.get(&number).is_some_and(is_doubtful)
    }

    /// The outcome to tell of the entry of that number; `None` if it was told. Its `path`
    /// is made if it was not listed, or sources go.
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
            || Open { keys: Keys::of_path(&path()), standing: Standing::New, wanted: false };
        let open = record.open.remove(&number).unwrap_or_else(not_listed);
        let Open { keys, standing, wanted } = open;
        if record.runs > 0 {
            record.doubtful.remove(&keys.own);
        }
        if record.going.is_expected() && record.has_gone(path(), kind, outcome) {
            return None;
        }
        if matches!(outcome, Outcome::Failed(_)) {
            // What failed late was told by its path.
            let is_new = !record.single.contains(&keys.path) && record.is_single(keys.own);
            return is_new.then(|| outcome.clone());
        }
        if standing == Standing::Told {
            return None;
        }
        let is_new = record.made.contains(&keys.above);
        let outcome = match standing {
            Standing::Doubtful if is_new || wanted => {
                as_done(outcome, kind, is_new, record.is_mirror)
            }
            _ => outcome.clone(),
        };
        if *kind == Kind::Dir && is_made(&outcome) && record.made.len() < MADE_MAX {
            record.made.insert(keys.path);
        }
        Some(outcome)
    }

    /// True if it was not told that what is at `path` has failed after all. That says nothing
    /// of its outcome, which may come later.
    pub(crate) fn late(&self, path: &[u8]) -> bool {
        !self.keeps() || self.record.lock().is_single(key(path))
    }

    /// The fate of the source at `path`, which was to be removed, is told.
    pub(crate) fn removed(&self, path: &[u8]) {
        if self.keeps() {
            let mut record = self.record.lock();
            record.is_full |= !record.going.told(key_shown(path), path);
        }
    }

    /// Sources that runs before this one have removed, and that nobody has told of. All that
    /// is left was listed.
    pub(crate) fn take_gone(&self) -> Vec<(Vec<u8>, Kind)> {
        if !self.is_again() {
            return Vec::new();
        }
        let mut record = self.record.lock();
        let run = record.runs;
        record.going.take_gone(run)
    }

    /// True if the entry at `path`, which only the destination has, was not told.
    pub(crate) fn extra(&self, path: &[u8]) -> bool {
        if !self.keeps() {
            return true;
        }
        let mut record = self.record.lock();
        !record.finds_again || record.is_single(!key(path))
    }
}

impl Record {
    /// True for what has that `key` the first time.
    fn is_single(&mut self, key: u64) -> bool {
        if self.single.len() >= SINGLE_MAX {
            self.is_full = true;
            return !self.single.contains(&key);
        }
        self.single.insert(key)
    }

    /// Keeps in mind if a source with that outcome is going to be removed. True if a run
    /// before this one may have done so: it is not there, and that is no failure.
    fn has_gone(&mut self, path: Vec<u8>, kind: &Kind, outcome: &Outcome) -> bool {
        let path = words::shown(path);
        if let Outcome::Failed(Fault { side: Side::Source, kind: fault, .. }) = outcome
            && self.runs > 0
        {
            // The directories of a move go last, when all was compared.
            let may_be_gone =
                self.going.may_be_gone(&path, key) || self.was_complete && !self.is_mirror;
            if *fault == FaultKind::NotFound && may_be_gone {
                return true;
            }
            self.going.forget_all();
        }
        self.is_full |= !self.going.judge((key(&path), &path), kind, outcome, self.runs);
        false
    }
}

/// The outcome of an entry whose first one was lost on the way: it `is_new`, or it is a
/// file whose content was sent.
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
