//! Rules about which parts of a tree take part in a job, with rsync's meaning. The first rule whose
//! pattern matches an entry decides. An entry that no rule matches takes part. Nothing below an
//! excluded directory is read.

mod lines;
mod pattern;
mod scope;

pub use lines::{Line, Lines, Merge, RuleError, Style, cvs_defaults};
pub use pattern::{Pattern, PatternError};
pub use scope::{FilesKind, Scope};

use crate::Name;
use serde::{Deserialize, Serialize};

/// Maximum length of a rule in a message, in bytes, without its pattern or name.
const RULE_LEN_MAX: usize = 32;

/// Rules, in the order in which they are tried.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Item>")]
pub struct Filter {
    /// Rules about extended attributes are tried for each attribute, and come after all others.
    items: Vec<Item>,
}

/// A rule, or the position of rules from files in the trees.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Item {
    /// A rule.
    Rule(Rule),
    /// Files with rules.
    Files(RuleFiles),
}

/// A rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// The effect on a matching entry.
    pub action: Action,
    /// The pattern of the entries that it is about.
    pub pattern: Pattern,
    /// The sides on which it applies.
    pub sides: Sides,
    /// It is about the entries that do not match the pattern.
    pub negated: bool,
    /// The whole path of an entry is matched, from the root of its file system.
    pub absolute: bool,
    /// It does not apply inside a directory that is being removed.
    pub perishable: bool,
    /// It is about the names of extended attributes, and not about entries.
    pub of_xattrs: bool,
}

/// Rule files: files with one name that may be in each directory, with rules for it and all below.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleFiles {
    /// The name of the files.
    pub name: Name,
    /// The highest directory that is searched for them.
    pub start: Start,
    /// The rules do not apply in the directories below.
    pub is_for_one: bool,
    /// The syntax of the files.
    pub style: Style,
}

/// The highest directory that is searched for rule files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Start {
    /// The first directory of the job.
    First,
    /// This number of directories above the first.
    Above(u16),
    /// The directory at this path, if the first of the job is below it.
    At(Box<[u8]>),
}

/// The effect of a rule on an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// It takes part.
    Include,
    /// It is left out.
    Exclude,
}

/// A side of a job that applies rules: the Sender to entries that it lists, the Receiver to entries
/// that it removes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilterSide {
    /// Excluded entries are not listed.
    Sender,
    /// Excluded entries are not removed.
    Receiver,
}

/// The sides on which a rule applies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sides {
    /// Both sides.
    #[default]
    Both,
    /// The Sender: hide and show.
    Sender,
    /// The Receiver: protect and risk.
    Receiver,
}

impl Sides {
    fn has(self, side: FilterSide) -> bool {
        match side {
            FilterSide::Sender => self != Self::Receiver,
            FilterSide::Receiver => self != Self::Sender,
        }
    }
}

/// An entry that rules are applied to.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'s> {
    /// The path within the job, without a leading slash. It begins with the name of the source, if
    /// the source has one.
    pub path: &'s [u8],
    /// It is a directory.
    pub is_dir: bool,
    /// The side that applies the rules.
    pub side: FilterSide,
    /// Its directory is being removed.
    pub is_being_removed: bool,
}

/// The reason why a filter is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// There are too many rules.
    #[error("more than {} filter rules", Filter::RULES_MAX)]
    TooMany,
    /// There are too many names of rule files.
    #[error("more than {} names of rule files", Filter::FILES_MAX)]
    TooManyFiles,
    /// A pattern is invalid.
    #[error(transparent)]
    Pattern(#[from] PatternError),
}

impl Item {
    fn is_of_xattrs(&self) -> bool {
        matches!(self, Self::Rule(rule) if rule.of_xattrs)
    }
}

impl Rule {
    /// A rule for both sides, without modifiers.
    pub fn new(action: Action, pattern: Pattern) -> Self {
        let (negated, absolute, perishable, of_xattrs) = (false, false, false, false);
        Self { action, pattern, sides: Sides::Both, negated, absolute, perishable, of_xattrs }
    }

    /// True if it applies to this subject.
    fn is_about(&self, subject: &Subject<'_>) -> bool {
        let is_spared = self.of_xattrs || self.perishable && subject.is_being_removed;
        self.sides.has(subject.side) && !is_spared
    }

    /// True if it matches this path, or does not if it is negated.
    fn takes(&self, path: &[u8], is_dir: bool) -> bool {
        self.pattern.matches(path, is_dir) != self.negated
    }
}

impl Filter {
    /// Maximum number of rules.
    pub const RULES_MAX: usize = 64 << 10;

    /// Maximum number of names of rule files. Each is searched in each directory.
    pub const FILES_MAX: usize = 16;

    /// Maximum length of a rule file in bytes.
    pub const FILE_LEN_MAX: u64 = 1 << 20;

    /// Adds a rule after the others.
    ///
    /// # Errors
    /// If there are [`Self::RULES_MAX`] already.
    pub fn push(&mut self, rule: Rule) -> Result<(), FilterError> {
        self.add(Item::Rule(rule))
    }

    /// Adds rule files after the others. Does nothing if they are in the filter already.
    ///
    /// # Errors
    /// If there are [`Self::FILES_MAX`] already.
    pub fn push_files(&mut self, files: RuleFiles) -> Result<(), FilterError> {
        if self.files().any(|there| *there == files) {
            return Ok(());
        }
        self.add(Item::Files(files))
    }

    fn add(&mut self, item: Item) -> Result<(), FilterError> {
        if self.items.len() >= Self::RULES_MAX {
            return Err(FilterError::TooMany);
        }
        if matches!(item, Item::Files(_)) && self.files().count() >= Self::FILES_MAX {
            return Err(FilterError::TooManyFiles);
        }
        let at = if item.is_of_xattrs() { self.items.len() } else { self.begin_of_xattrs() };
        self.items.insert(at, item);
        Ok(())
    }

    /// Adds these rules after those of `first`.
    ///
    /// # Errors
    /// If there are too many together.
    pub fn behind(self, mut first: Self) -> Result<Self, FilterError> {
        self.items.into_iter().try_for_each(|item| first.add(item)).map(|()| first)
    }

    /// Removes all rules.
    pub fn clear(&mut self) {
        self.items.clear();
    }

    /// Maximum length of the rules in a message, in bytes.
    pub fn encoded_len_max(&self) -> usize {
        let len = |item: &Item| match item {
            Item::Rule(rule) => rule.pattern.as_bytes().len(),
            Item::Files(RuleFiles { name, start, .. }) => {
                let start = if let Start::At(path) = start { path.len() } else { 0 };
                name.as_bytes().len() + start
            }
        };
        self.items.iter().map(|item| len(item) + RULE_LEN_MAX).sum()
    }

    /// True if there are no rules: everything takes part.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The rule files to search, in their order.
    pub fn files(&self) -> impl Iterator<Item = &RuleFiles> {
        self.items.iter().filter_map(|item| match item {
            Item::Files(files) => Some(files),
            Item::Rule(_) => None,
        })
    }

    /// True if rules match whole paths, or need directories above the job.
    pub fn needs_whole_paths(&self) -> bool {
        self.items.iter().any(|item| match item {
            Item::Rule(rule) => rule.absolute,
            // They may contain such rules.
            Item::Files(_) => true,
        })
    }

    /// True if the entry is excluded by these rules and those of `scope`. The directories above it
    /// must not be excluded.
    ///
    /// On the Receiver, all entries are excluded if a rule file was skipped: its rules may protect
    /// any of them.
    pub fn excludes(&self, subject: &Subject<'_>, scope: &Scope) -> bool {
        if subject.side == FilterSide::Receiver && scope.has_unknown_rules {
            return true;
        }
        let mut files = 0..;
        let first = self.items.iter().find_map(|item| match item {
            Item::Rule(rule) => {
                let is_it = rule.is_about(subject) && scope.takes(rule, subject, None);
                is_it.then_some(rule.action)
            }
            Item::Files(_) => scope.decide(files.next()?, subject),
        });
        first == Some(Action::Exclude)
    }

    /// True if there are rules about extended attributes.
    pub fn has_rules_of_xattrs(&self) -> bool {
        self.items.last().is_some_and(Item::is_of_xattrs)
    }

    /// True if the extended attribute `name` is excluded: the Sender does not send it, and the
    /// Receiver neither sets nor removes it.
    pub fn excludes_xattr(&self, name: &[u8], side: FilterSide) -> bool {
        let first = self
            .rules_of_xattrs()
            .find(|rule| rule.sides.has(side) && rule.takes(name, false))
            .map(|rule| rule.action);
        first == Some(Action::Exclude)
    }

    fn rules_of_xattrs(&self) -> impl Iterator<Item = &Rule> {
        self.items[self.begin_of_xattrs()..].iter().filter_map(|item| match item {
            Item::Rule(rule) => Some(rule),
            Item::Files(_) => None,
        })
    }

    fn begin_of_xattrs(&self) -> usize {
        self.items.partition_point(|item| !item.is_of_xattrs())
    }

    /// True if the Sender excludes this path. `None` if that depends on the sources' side.
    pub fn hides(&self, path: &[u8], is_dir: bool) -> Option<bool> {
        let subject = Subject { path, is_dir, side: FilterSide::Sender, is_being_removed: false };
        for item in &self.items {
            match item {
                Item::Rule(rule) if !rule.is_about(&subject) => {}
                Item::Rule(Rule { absolute: true, .. }) | Item::Files(_) => return None,
                Item::Rule(rule) if rule.takes(path, is_dir) => {
                    return Some(rule.action == Action::Exclude);
                }
                Item::Rule(_) => {}
            }
        }
        Some(false)
    }
}

impl TryFrom<Vec<Item>> for Filter {
    type Error = FilterError;

    fn try_from(items: Vec<Item>) -> Result<Self, FilterError> {
        let mut filter = Self::default();
        items.into_iter().try_for_each(|item| filter.add(item)).map(|()| filter)
    }
}

#[cfg(test)]
#[path = "filter_tests.rs"]
mod tests;
