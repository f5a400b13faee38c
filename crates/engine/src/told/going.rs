//! Sources that may have been removed by a job whose connection was lost: their outcome
//! has them go, and nobody has told that they are gone. Those that the next run does not
//! find any more are.

use haul_model::{Kind, Outcome, Remove};
use rustc_hash::{FxHashMap, FxHashSet};

/// Sources that are remembered, at most: those in the window of the listing, those that wait
/// for other names of theirs, and as many that the other side is about to tell of. A job with
/// more is not run again.
const GOING_MAX: usize = 1 << 18;

/// Such sources, by the keys of their paths.
#[derive(Debug, Default)]
pub(super) struct Going {
    /// The rule by which the job removes them, if it does.
    rule: Option<Remove>,
    sources: FxHashMap<u64, Source>,
    /// The keys of those that were told, if they are right in the destination: as many as
    /// are remembered of others.
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
    /// None yet, in a job with that rule.
    pub(super) fn of(rule: Option<Remove>) -> Self {
        Self { rule, ..Self::default() }
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

    /// The fate of the source at `path` was reported.
    pub(super) fn told(&mut self, key: u64, path: &[u8]) {
        self.sources.remove(&key);
        if self.is_expected() && !path.contains(&b'/') && self.told.len() < GOING_MAX {
            self.told.insert(key);
        }
    }

    /// True if a run before this one may have removed the source that has one of these keys:
    /// that of its path, and that of its name, by which one travels that was named.
    pub(super) fn may_be_gone(&self, path: u64, name: Option<u64>) -> bool {
        let is_named = |name| self.sources.contains_key(&name) || self.told.contains(&name);
        self.sources.contains_key(&path) || name.is_some_and(is_named)
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
