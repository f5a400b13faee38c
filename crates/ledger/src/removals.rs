//! Sources that a job may have removed before its connection was lost: their outcome allows the
//! removal, and no removal was reported. A source that the next run does not find was removed.

use haul_model::{Kind, Name, Outcome, Place, Relative, Remove, Task};
use rustc_hash::{FxHashMap, FxHashSet};

/// Maximum number of recorded sources: those in the window of the listing, those that wait for
/// their other names, and as many whose removal is about to be reported. A job with more is not
/// run again.
pub(super) const REMOVALS_MAX: usize = 1 << 18;

/// Maximum number of removed sources that are recorded: about 16 MiB. A job that lists sources by
/// their paths is not run again if it has removed more. Any other job records no further ones.
pub(super) const REMOVED_MAX: usize = 1 << 20;

/// Sources that may have been removed, by the keys of their paths.
#[derive(Debug, Default)]
pub(super) struct PossibleRemovals {
    /// The rule by which the job removes them, if it does.
    rule: Option<Remove>,
    /// The directory in which the paths of the job's sources begin.
    base: Option<Vec<u8>>,
    /// The part of those paths that is made at the destination.
    relative: Relative,
    sources: FxHashMap<u64, Source>,
    /// The keys of removed sources that the user may have named: the next run looks for such a
    /// source again.
    removed: FxHashSet<u64>,
}

#[derive(Debug)]
struct Source {
    path: Vec<u8>,
    kind: Kind,
    /// The run in which it had its outcome.
    run: u32,
}

impl PossibleRemovals {
    /// Creates an empty record for a job with `task`, whose source paths begin in `base`.
    pub(super) fn of(task: &Task, base: Option<Vec<u8>>) -> Self {
        let relative = task.mirrors().map(|mirror| mirror.walking.relative).unwrap_or_default();
        Self { rule: task.removes(), base, relative, ..Self::default() }
    }

    /// True if the job removes sources.
    pub(super) fn is_expected(&self) -> bool {
        self.rule.is_some()
    }

    /// Records the outcome of the source at `path` in this run. `false` if there are too many.
    pub(super) fn judge(
        &mut self,
        (key, path): (u64, &[u8]),
        kind: &Kind,
        outcome: &Outcome,
        run: u32,
    ) -> bool {
        let may_be_removed =
            *kind != Kind::Dir && self.rule.is_some_and(|rule| rule.allows(outcome));
        if may_be_removed {
            if self.sources.len() >= REMOVALS_MAX {
                return false;
            }
            let source = Source { path: path.to_vec(), kind: kind.without_target(), run };
            self.sources.insert(key, source);
        }
        true
    }

    /// Records that the removal of the source at `path`, or its failure, was reported. `false` if
    /// there are too many.
    pub(super) fn record_reported(&mut self, key: u64, path: &[u8]) -> bool {
        self.sources.remove(&key);
        let keeps_path = self.relative != Relative::No;
        if !self.is_expected() || !keeps_path && path.contains(&b'/') {
            return true;
        }
        let has_room = self.removed.len() < REMOVED_MAX;
        if has_room {
            self.removed.insert(key);
        }
        has_room || !keeps_path
    }

    /// True if an earlier run may have removed the source at `path`, which is its path in the
    /// destination or as the user has named it.
    pub(super) fn may_be_removed(&self, path: &[u8], key: impl Fn(&[u8]) -> u64) -> bool {
        let place = Place::of(path, self.base.as_deref(), self.relative);
        let place: Vec<Name> = place.map(|place| place.names).unwrap_or_default();
        let place: Vec<_> = place.iter().map(Name::as_bytes).collect();
        let is_known = |key| self.sources.contains_key(&key) || self.removed.contains(&key);
        self.sources.contains_key(&key(path))
            || !place.is_empty() && is_known(key(&place.join(&b'/')))
    }

    /// Records that a source was listed. True if it counted as removed until now.
    pub(super) fn was_removed(&mut self, key: u64) -> bool {
        !self.sources.is_empty() && self.sources.remove(&key).is_some()
    }

    /// Forgets all sources that may have been removed, since a directory of the sources can't be
    /// read. It is not known which sources are in it: its path may be as the user has named it.
    pub(super) fn forget_all(&mut self) {
        self.sources.clear();
    }

    /// Takes out the sources that an earlier run has removed, after this run has listed all that
    /// exist.
    pub(super) fn take_removed(&mut self, run: u32) -> Vec<(Vec<u8>, Kind)> {
        let gone = self.sources.extract_if(|_, source| source.run < run);
        let mut gone: Vec<_> = gone.map(|(_, source)| (source.path, source.kind)).collect();
        gone.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        gone
    }
}
