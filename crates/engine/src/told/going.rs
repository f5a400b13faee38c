//! Sources that may have been removed by a job whose connection was lost: their outcome
//! has them go, and nobody has told that they are gone. Those that the next run does not
//! find any more are.

use haul_model::{Kind, Name, Outcome, Place, Relative, Remove, Task};
use rustc_hash::{FxHashMap, FxHashSet};

/// Sources that are remembered, at most: those in the window of the listing, those that wait
/// for other names of theirs, and as many that the other side is about to tell of. A job with
/// more is not run again.
pub(super) const GOING_MAX: usize = 1 << 18;

/// Such sources, by the keys of their paths.
#[derive(Debug, Default)]
pub(super) struct Going {
    /// The rule by which the job removes them, if it does.
    rule: Option<Remove>,
    /// The directory in which the paths of the job's sources begin.
    base: Option<Vec<u8>>,
    /// The part of those paths that is made at the destination.
    relative: Relative,
    sources: FxHashMap<u64, Source>,
    /// The keys of those that were told and that may have been named by the user: the next
    /// run looks for such a source again. As many as are remembered of others.
    told: FxHashSet<u64>,
}

#[derive(Debug)]
struct Source {
    path: Vec<u8>,
    kind: Kind,
    /// The run in which it had its outcome.
    run: u32,
}

impl Going {
    /// None yet, in a job of that task whose sources begin in `base`.
    pub(super) fn of(task: &Task, base: Option<&[u8]>) -> Self {
        let relative = task.mirrors().map(|mirror| mirror.walking.relative).unwrap_or_default();
        let base = base.map(<[u8]>::to_vec);
        Self { rule: task.removes(), base, relative, ..Self::default() }
    }

    /// True if the job removes sources.
    pub(super) fn is_expected(&self) -> bool {
        self.rule.is_some()
    }

    /// The source at `path` has that outcome in this run; `false` if there are too many.
    pub(super) fn judge(
        &mut self,
        (key, path): (u64, &[u8]),
        kind: &Kind,
        outcome: &Outcome,
        run: u32,
    ) -> bool {
        let goes = *kind != Kind::Dir && self.rule.is_some_and(|rule| rule.allows(outcome));
        if goes {
            if self.sources.len() >= GOING_MAX {
                return false;
            }
            let source = Source { path: path.to_vec(), kind: kind.without_target(), run };
            self.sources.insert(key, source);
        }
        true
    }

    /// The fate of the source at `path` was reported; `false` if there are too many.
    pub(super) fn told(&mut self, key: u64, path: &[u8]) -> bool {
        self.sources.remove(&key);
        let keeps_path = self.relative != Relative::No;
        if !self.is_expected() || !keeps_path && path.contains(&b'/') {
            return true;
        }
        let has_room = self.told.len() < GOING_MAX;
        if has_room {
            self.told.insert(key);
        }
        has_room || !keeps_path
    }

    /// True if a run before this one may have removed the source at `path`: the path that it
    /// has in the destination, or the user's words for it.
    pub(super) fn may_be_gone(&self, path: &[u8], key: impl Fn(&[u8]) -> u64) -> bool {
        let place = Place::of(path, self.base.as_deref(), self.relative);
        let place: Vec<Name> = place.map(|place| place.names).unwrap_or_default();
        let place: Vec<_> = place.iter().map(Name::as_bytes).collect();
        let is_known = |key| self.sources.contains_key(&key) || self.told.contains(&key);
        self.sources.contains_key(&key(path))
            || !place.is_empty() && is_known(key(&place.join(&b'/')))
    }

    /// The source was listed; true if it counted as removed, and is not.
    pub(super) fn is_back(&mut self, key: u64) -> bool {
        !self.sources.is_empty() && self.sources.remove(&key).is_some()
    }

    /// It can't be seen which sources are still there. That of one directory is as good as
    /// that of all: its path may be in the user's words, which these are not in.
    pub(super) fn forget_all(&mut self) {
        self.sources.clear();
    }

    /// Those that a run before this one has removed, where this one has seen all that is left.
    pub(super) fn take_gone(&mut self, run: u32) -> Vec<(Vec<u8>, Kind)> {
        let gone = self.sources.extract_if(|_, source| source.run < run);
        let mut gone: Vec<_> = gone.map(|(_, source)| (source.path, source.kind)).collect();
        gone.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        gone
    }
}
