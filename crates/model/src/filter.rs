//! Rules about what of a tree takes part in a job, with the meaning that they have in
//! rsync: the first rule whose pattern matches an entry decides about it, and what no
//! rule matches takes part. Of a directory that is left out nothing is looked at.

mod pattern;

pub use pattern::{Pattern, PatternError};

use serde::{Deserialize, Serialize};

/// Bytes of a rule in a message besides its pattern, at most.
const RULE_LEN_MAX: usize = 4;

/// Rules, in the order in which they are asked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Rule>", into = "Vec<Rule>")]
pub struct Filter {
    rules: Vec<Rule>,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// The fate of an entry that matches.
    pub action: Action,
    /// The entries that it is about.
    pub pattern: Pattern,
}

/// The fate of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// It takes part.
    Include,
    /// It is left out.
    Exclude,
}

/// Why there can't be such rules.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// There are too many.
    #[error("more than {} rules about what is left out", Filter::RULES_MAX)]
    TooMany,
    /// One is no rule.
    #[error(transparent)]
    Pattern(#[from] PatternError),
}

impl Filter {
    /// The most rules that there may be.
    pub const RULES_MAX: usize = 64 << 10;

    /// Adds a rule behind the others.
    ///
    /// # Errors
    /// When there are [`Self::RULES_MAX`] already.
    pub fn push(&mut self, rule: Rule) -> Result<(), FilterError> {
        if self.rules.len() >= Self::RULES_MAX {
            return Err(FilterError::TooMany);
        }
        self.rules.push(rule);
        Ok(())
    }

    /// Forgets all rules.
    pub fn clear(&mut self) {
        self.rules.clear();
    }

    /// The most bytes that the rules take in a message.
    pub fn encoded_len_max(&self) -> usize {
        self.rules.iter().map(|rule| rule.pattern.as_bytes().len() + RULE_LEN_MAX).sum()
    }

    /// True if there are no rules: all takes part.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// True if the entry at `path` is left out, if the directories above it are not.
    /// The path is that within the job, without a slash in front: what a named source
    /// brings begins with its name.
    pub fn leaves_out(&self, path: &[u8], is_dir: bool) -> bool {
        let first = self.rules.iter().find(|rule| rule.pattern.matches(path, is_dir));
        first.is_some_and(|rule| rule.action == Action::Exclude)
    }
}

impl TryFrom<Vec<Rule>> for Filter {
    type Error = FilterError;

    fn try_from(rules: Vec<Rule>) -> Result<Self, FilterError> {
        if rules.len() > Self::RULES_MAX {
            return Err(FilterError::TooMany);
        }
        Ok(Self { rules })
    }
}

impl From<Filter> for Vec<Rule> {
    fn from(filter: Filter) -> Self {
        filter.rules
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(rules: &[&str]) -> Filter {
        let mut filter = Filter::default();
        for rule in rules {
            let (action, pattern) = match rule.split_at(2) {
                ("+ ", pattern) => (Action::Include, pattern),
                (_, pattern) => (Action::Exclude, pattern),
            };
            let pattern = Pattern::new(pattern.as_bytes()).expect("a pattern");
            filter.push(Rule { action, pattern }).expect("few");
        }
        filter
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let rules = filter(&["+ *.c", "- a.*", "+ *.txt", "- /d/"]);
        for (path, is_dir, left_out) in [
            ("a.c", false, false),
            ("a.txt", false, true),
            ("b.txt", false, false),
            ("b.o", false, false),
            ("d", true, true),
            ("d", false, false),
            ("e/d", true, false),
        ] {
            assert_eq!(rules.leaves_out(path.as_bytes(), is_dir), left_out, "{path} {is_dir}");
        }
        let only_c = filter(&["+ */", "+ *.c", "- *"]);
        assert!(!only_c.leaves_out(b"src", true));
        assert!(!only_c.leaves_out(b"src/a.c", false));
        assert!(only_c.leaves_out(b"src/a.o", false));
        assert!(!Filter::default().leaves_out(b"anything", false));
    }

    #[test]
    fn there_are_not_more_rules_than_allowed() {
        let rule =
            || Rule { action: Action::Include, pattern: Pattern::new(b"x").expect("a pattern") };
        let mut filter = Filter::default();
        for _ in 0..Filter::RULES_MAX {
            filter.push(rule()).expect("room");
        }
        assert_eq!(filter.push(rule()), Err(FilterError::TooMany));
        let rules = Vec::from(filter);
        assert!(Filter::try_from(rules.clone()).is_ok());
        assert!(Filter::try_from([rules, vec![rule()]].concat()).is_err());
    }
}
