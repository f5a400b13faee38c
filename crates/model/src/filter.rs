//! Rules about what of a tree takes part in a job, with the meaning that they have in
//! rsync: the first rule whose pattern matches an entry decides about it, and what no
//! rule matches takes part. Of a directory that is left out nothing is looked at.

mod lines;
mod pattern;
mod scope;

pub use lines::{Line, Lines, Merge, RuleError, Style, cvs_defaults};
pub use pattern::{Pattern, PatternError};
pub use scope::{FilesKind, Scope};

use crate::Name;
use serde::{Deserialize, Serialize};

/// Bytes of a rule in a message besides its pattern or its name, at most.
const RULE_LEN_MAX: usize = 32;

/// Rules, in the order in which they are asked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Item>", into = "Vec<Item>")]
pub struct Filter {
    /// Rules about extended attributes, which are asked for each attribute, are behind all others.
    items: Vec<Item>,
}

/// A rule, or the place of rules that are in the trees themselves.
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
    /// The fate of an entry that matches.
    pub action: Action,
    /// The entries that it is about.
    pub pattern: Pattern,
    /// The sides on which it is asked.
    pub sides: Sides,
    /// It is about the entries that the pattern does not match.
    pub negated: bool,
    /// The whole path of an entry is matched, from the root of its file system on.
    pub absolute: bool,
    /// It is not asked about what is in a directory that goes.
    pub perishable: bool,
    /// It is about the names of extended attributes, and not about entries.
    pub of_xattrs: bool,
}

/// Files of a name that may be in each directory, with rules about it and all below.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleFiles {
    /// Their name.
    pub name: Name,
    /// The highest directory that is looked at.
    pub start: Start,
    /// The rules are not about what is in the directories below.
    pub is_for_one: bool,
    /// How they are read.
    pub style: Style,
}

/// The highest directory in which files with rules are looked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Start {
    /// The first of the job.
    First,
    /// So many directories above that.
    Above(u16),
    /// The directory at this path, if the first of the job is below it.
    At(Box<[u8]>),
}

/// The fate of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// It takes part.
    Include,
    /// It is left out.
    Exclude,
}

/// A side of a job that asks rules: the Sender about what it lists, the Receiver about
/// what it removes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asking {
    /// Nothing is listed that is left out.
    Sender,
    /// Nothing is removed that is left out.
    Receiver,
}

/// The sides on which a rule is asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sides {
    /// Both.
    #[default]
    Both,
    /// The Sender's: hide and show.
    Sender,
    /// The Receiver's: protect and risk.
    Receiver,
}

impl Sides {
    fn has(self, asking: Asking) -> bool {
        match asking {
            Asking::Sender => self != Self::Receiver,
            Asking::Receiver => self != Self::Sender,
        }
    }
}

/// An entry about which rules are asked.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'s> {
    /// Its path within the job, without a slash in front: what a named source brings
    /// begins with its name.
    pub path: &'s [u8],
    /// It is a directory.
    pub is_dir: bool,
    /// The side that asks.
    pub asking: Asking,
    /// The directory that it is in goes.
    pub is_going: bool,
}

/// Why there can't be such rules.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// There are too many.
    #[error("more than {} filter rules", Filter::RULES_MAX)]
    TooMany,
    /// There are too many kinds of files with rules.
    #[error("more than {} names of rule files", Filter::FILES_MAX)]
    TooManyFiles,
    /// One is no rule.
    #[error(transparent)]
    Pattern(#[from] PatternError),
}

impl Item {
    fn is_of_xattrs(&self) -> bool {
        matches!(self, Self::Rule(rule) if rule.of_xattrs)
    }
}

impl Rule {
    /// A rule of both sides that is nothing special.
    pub fn new(action: Action, pattern: Pattern) -> Self {
        let (negated, absolute, perishable, of_xattrs) = (false, false, false, false);
        Self { action, pattern, sides: Sides::Both, negated, absolute, perishable, of_xattrs }
    }

    /// True if it is asked about this.
    fn is_about(&self, subject: &Subject<'_>) -> bool {
        let is_spared = self.of_xattrs || self.perishable && subject.is_going;
        self.sides.has(subject.asking) && !is_spared
    }

    /// True if it takes effect on what has that path.
    fn takes(&self, path: &[u8], is_dir: bool) -> bool {
        self.pattern.matches(path, is_dir) != self.negated
    }
}

impl Filter {
    /// The most rules that there may be.
    pub const RULES_MAX: usize = 64 << 10;

    /// The most names of files with rules that there may be: each is looked for in each
    /// directory.
    pub const FILES_MAX: usize = 16;

    /// Bytes of one file with rules, at most.
    pub const FILE_LEN_MAX: u64 = 1 << 20;

    /// Adds a rule behind the others.
    ///
    /// # Errors
    /// When there are [`Self::RULES_MAX`] already.
    pub fn push(&mut self, rule: Rule) -> Result<(), FilterError> {
        self.add(Item::Rule(rule))
    }

    /// Adds files with rules behind the others; those that are there already stay where
    /// they are.
    ///
    /// # Errors
    /// When there are [`Self::FILES_MAX`] already.
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

    /// The same behind the rules of `first`.
    ///
    /// # Errors
    /// When there are too many together.
    pub fn behind(self, mut first: Self) -> Result<Self, FilterError> {
        self.items.into_iter().try_for_each(|item| first.add(item)).map(|()| first)
    }

    /// Forgets all rules.
    pub fn clear(&mut self) {
        self.items.clear();
    }

    /// The most bytes that the rules take in a message.
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

    /// True if there are no rules: all takes part.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The files with rules that are looked for, in their order.
    pub fn files(&self) -> impl Iterator<Item = &RuleFiles> {
        self.items.iter().filter_map(|item| match item {
            Item::Files(files) => Some(files),
            Item::Rule(_) => None,
        })
    }

    /// True if rules are about whole paths, or about what is above the job.
    pub fn needs_whole_paths(&self) -> bool {
        self.items.iter().any(|item| match item {
            Item::Rule(rule) => rule.absolute,
            // There may be such rules in them.
            Item::Files(_) => true,
        })
    }

    /// True if the entry is left out by these rules and those of `scope`, if the
    /// directories above it are not.
    ///
    /// The Receiver leaves out all entries where a file with rules was passed over: these rules
    /// may protect any of them.
    pub fn leaves_out(&self, subject: &Subject<'_>, scope: &Scope) -> bool {
        if subject.asking == Asking::Receiver && scope.lacks_rules() {
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

    /// True if the extended attribute `name` is left out: the Sender does not send it, and the
    /// Receiver neither sets nor removes it.
    pub fn leaves_out_xattr(&self, name: &[u8], asking: Asking) -> bool {
        let first = self
            .rules_of_xattrs()
            .find(|rule| rule.sides.has(asking) && rule.takes(name, false))
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

    /// True if the Sender leaves out what has this path; `None` where only who has the
    /// sources can tell.
    pub fn hides(&self, path: &[u8], is_dir: bool) -> Option<bool> {
        let subject = Subject { path, is_dir, asking: Asking::Sender, is_going: false };
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

impl From<Filter> for Vec<Item> {
    fn from(filter: Filter) -> Self {
        filter.items
    }
}

impl TryFrom<Vec<Rule>> for Filter {
    type Error = FilterError;

    fn try_from(rules: Vec<Rule>) -> Result<Self, FilterError> {
        rules.into_iter().map(Item::Rule).collect::<Vec<_>>().try_into()
    }
}

#[cfg(test)]
#[path = "filter_tests.rs"]
mod tests;
