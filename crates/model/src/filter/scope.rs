//! The rules that files in the trees have for one directory, on one side of a job.

use super::{Action, Rule, RuleFiles, Subject};
use std::sync::Arc;

/// The rules from files that apply in one directory, and where the job is on this side.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    /// The whole path of the directory that the job's paths begin in, with a slash behind
    /// and none in front; empty for the root, and where nobody needs it.
    root: Arc<[u8]>,
    /// For each kind of files the rules of the directory and of those above it.
    lists: Vec<Option<Arc<Layer>>>,
}

/// The rules of one file, and what is behind them.
#[derive(Debug)]
struct Layer {
    rules: Vec<Rule>,
    /// The directory of the file.
    base: Base,
    /// They are asked in no other directory.
    is_for_one: bool,
    above: Option<Arc<Layer>>,
    /// How many rules there are, here and above.
    count: usize,
}

/// Where a path has to begin for rules that begin with a slash.
#[derive(Debug)]
pub(super) enum Base {
    /// Behind so many of its bytes.
    Below(usize),
    /// Above the job: these bytes are in front.
    Above(Box<[u8]>),
}

impl Scope {
    /// That of a job in the directory with the whole path `root`, which has a slash behind
    /// and none in front.
    pub fn at(root: &[u8]) -> Self {
        Self { root: root.into(), lists: Vec::new() }
    }

    /// The whole path of the directory that the job's paths begin in.
    pub fn root(&self) -> &[u8] {
        &self.root
    }

    /// The rules for a directory below this one that has no files of its own.
    pub fn below(&self) -> Self {
        let of_all = |list: &Option<Arc<Layer>>| list.clone().filter(|layer| !layer.is_for_one);
        Self { root: Arc::clone(&self.root), lists: self.lists.iter().map(of_all).collect() }
    }

    /// Puts the rules of a file in front of those of its kind, which is that with the
    /// number `at` among `Filter::files`. `dir` is the path within the job of its
    /// directory, with a slash behind unless it is empty; `Err` has the whole path
    /// of a directory above the job, written as that of [`Self::at`]. With `clears`
    /// those of the directories above are forgotten.
    ///
    /// False if there would be more than `max` rules: nothing changes then.
    pub fn put(
        &mut self,
        (at, files): (usize, &RuleFiles),
        rules: Vec<Rule>,
        clears: bool,
        dir: Result<&[u8], &[u8]>,
        max: usize,
    ) -> bool {
        if self.lists.len() <= at {
            self.lists.resize(at + 1, None);
        }
        let above = if clears { None } else { self.lists[at].clone() };
        let count = rules.len() + above.as_ref().map_or(0, |layer| layer.count);
        if count > max {
            return false;
        }
        let base = match dir {
            Ok(dir) => Base::Below(dir.len()),
            Err(dir) => Base::Above(self.root.get(dir.len()..).unwrap_or_default().into()),
        };
        let is_for_one = files.is_for_one;
        self.lists[at] = Some(Arc::new(Layer { rules, base, is_for_one, above, count }));
        true
    }

    /// The fate that the rules of the files with the number `at` have for an entry.
    pub(super) fn decide(&self, at: usize, subject: &Subject<'_>) -> Option<Action> {
        let mut next = self.lists.get(at)?.as_ref();
        while let Some(layer) = next {
            let takes = |rule: &&Rule| {
                rule.is_about(subject) && self.takes(rule, subject, Some(&layer.base))
            };
            if let Some(rule) = layer.rules.iter().find(takes) {
                return Some(rule.action);
            }
            next = layer.above.as_ref();
        }
        None
    }

    /// True if `rule` takes effect on an entry; one of a file has a `base`.
    pub(super) fn takes(&self, rule: &Rule, subject: &Subject<'_>, base: Option<&Base>) -> bool {
        let Subject { path, is_dir, .. } = *subject;
        let behind = |front: &[u8]| rule.takes(&[front, path].concat(), is_dir);
        match base {
            _ if rule.absolute => behind(&self.root),
            Some(Base::Below(len)) if rule.pattern.is_anchored() => {
                rule.takes(path.get(*len..).unwrap_or_default(), is_dir)
            }
            Some(Base::Above(front)) if rule.pattern.is_anchored() => behind(front),
            _ => rule.takes(path, is_dir),
        }
    }
}
