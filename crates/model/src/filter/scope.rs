//! The rules from files in the trees that apply in one directory, on one side of a job.

use super::{Action, Filter, Item, Rule, RuleFiles, Subject};
use crate::Name;
use std::sync::Arc;

/// The rules from files that apply in one directory, and the directory of the job on this side.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    /// The whole path of the job's top directory, with a slash at the end and none at the start.
    /// Empty for the root, and if it is not needed.
    root: Arc<[u8]>,
    /// For each kind of rule files, the rules of the directory and of those above it.
    lists: Vec<Option<Arc<Layer>>>,
    /// The kinds that other rule files name, each once.
    nested: Vec<Nested>,
    /// The rule files of the directory itself that were skipped.
    skipped_files: Vec<Name>,
    /// A file of this directory, or of one above it, was passed over.
    pub(super) has_unknown_rules: bool,
}

/// A kind of rule files that another file names. They are searched in the directory of that file
/// and below.
#[derive(Debug, Clone)]
struct Nested {
    files: RuleFiles,
    list: Option<Arc<Layer>>,
}

/// A kind of rule files, by its number in `Filter::files`, or among those that files name.
#[derive(Debug, Clone, Copy)]
pub enum FilesKind {
    /// A kind of the job.
    Filter(usize),
    /// A kind that a file names.
    Nested(usize),
}

/// The rules of one file, and of those above it.
#[derive(Debug)]
struct Layer {
    rules: Vec<Item>,
    /// The directory of the file.
    base: Base,
    /// They are asked in no other directory.
    is_for_one: bool,
    above: Option<Arc<Layer>>,
    /// How many rules there are, here and above.
    count: usize,
}

/// The start of the path for rules that begin with a slash.
#[derive(Debug)]
pub(super) enum Base {
    /// After this number of bytes of the path.
    Below(usize),
    /// A directory above the job: these bytes come before the path.
    Above(Box<[u8]>),
}

impl Scope {
    /// The scope of a job in the directory with the whole path `root`, which has a slash at the end
    /// and none at the start.
    pub fn at(root: &[u8]) -> Self {
        Self { root: root.into(), ..Self::default() }
    }

    /// The whole path of the job's top directory.
    pub fn root(&self) -> &[u8] {
        &self.root
    }

    /// The scope of a directory below this one that has no rule files of its own.
    pub fn below(&self) -> Self {
        let of_all = |list: &Option<Arc<Layer>>| list.clone().filter(|layer| !layer.is_for_one);
        let of_nested = |nested: &Nested| {
            let list = of_all(&nested.list);
            Nested { list, ..nested.clone() }
        };
        Self {
            root: Arc::clone(&self.root),
            lists: self.lists.iter().map(of_all).collect(),
            nested: self.nested.iter().map(of_nested).collect(),
            skipped_files: Vec::new(),
            has_unknown_rules: self.has_unknown_rules,
        }
    }

    /// Skips the rule file `name` of the directory. Its rules stay unknown.
    pub fn skip_file(&mut self, name: &Name) {
        self.skipped_files.push(name.clone());
        self.has_unknown_rules = true;
    }

    /// The rule files of the directory itself that were skipped.
    pub fn skipped_files(&self) -> &[Name] {
        &self.skipped_files
    }

    /// The kind with this number among those that files name.
    pub fn nested(&self, at: usize) -> Option<&RuleFiles> {
        self.nested.get(at).map(|nested| &nested.files)
    }

    /// Searches for `files` from the current directory on.
    ///
    /// Returns false if there are too many kinds. Nothing changes then.
    pub fn add_kind(&mut self, files: &RuleFiles) -> bool {
        let is_known = self.nested.iter().any(|nested| nested.files == *files);
        if !is_known && self.nested.len() < Filter::FILES_MAX {
            self.nested.push(Nested { files: files.clone(), list: None });
            return true;
        }
        is_known
    }

    /// Adds the rules of a file before those of its kind. `Ok` has the path of its directory within
    /// the job, with a slash at the end unless it is empty. `Err` has the whole path of a directory
    /// above the job, in the form of [`Self::at`]. With `clears`, the rules of the directories
    /// above are dropped.
    ///
    /// Returns false if there would be more than `max` rules. Nothing changes then.
    pub fn put(
        &mut self,
        (of, files): (FilesKind, &RuleFiles),
        rules: Vec<Item>,
        clears: bool,
        dir: Result<&[u8], &[u8]>,
        max: usize,
    ) -> bool {
        let list = match of {
            FilesKind::Filter(at) => {
                let len = self.lists.len().max(at + 1);
                self.lists.resize(len, None);
                &mut self.lists[at]
            }
            FilesKind::Nested(at) => &mut self.nested[at].list,
        };
        let above = if clears { None } else { list.clone() };
        let count = rules.len() + above.as_ref().map_or(0, |layer| layer.count);
        if count > max {
            return false;
        }
        let base = match dir {
            Ok(dir) => Base::Below(dir.len()),
            Err(dir) => Base::Above(self.root.get(dir.len()..).unwrap_or_default().into()),
        };
        let is_for_one = files.is_for_one;
        *list = Some(Arc::new(Layer { rules, base, is_for_one, above, count }));
        true
    }

    /// The action of the rule files with number `at` for an entry.
    pub(super) fn decide(&self, at: usize, subject: &Subject<'_>) -> Option<Action> {
        self.decide_by(self.lists.get(at)?.as_ref(), subject, &mut [false; Filter::FILES_MAX])
    }

    /// The action of the rules in `list` for an entry. Nested kinds that were `asked` are not tried
    /// again, however many rules name them, and even if they name themselves.
    fn decide_by(
        &self,
        list: Option<&Arc<Layer>>,
        subject: &Subject<'_>,
        asked: &mut [bool; Filter::FILES_MAX],
    ) -> Option<Action> {
        let mut next = list;
        while let Some(layer) = next {
            let decided = layer.rules.iter().find_map(|item| match item {
                Item::Rule(rule) => {
                    let is_it =
                        rule.is_about(subject) && self.takes(rule, subject, Some(&layer.base));
                    is_it.then_some(rule.action)
                }
                Item::Files(files) => {
                    let at = self.nested.iter().position(|nested| nested.files == *files)?;
                    match std::mem::replace(&mut asked[at], true) {
                        true => None,
                        false => self.decide_by(self.nested[at].list.as_ref(), subject, asked),
                    }
                }
            });
            if decided.is_some() {
                return decided;
            }
            next = layer.above.as_ref();
        }
        None
    }

    /// True if `rule` applies to an entry. The rule of a file has a `base`.
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
