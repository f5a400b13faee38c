//! Replacements of users or groups, in rsync's syntax: `0-99:nobody,wayne:admin,*:1`.

use crate::Pattern;
use serde::{Deserialize, Serialize};

/// Maximum length of a rule in a message, in bytes, without its names.
const RULE_LEN_MAX: usize = 20;

/// Rules, in the order in which they are tried. The first that matches applies.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<MapRule>")]
pub struct AccountMap(Vec<MapRule>);

/// A rule of a map.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MapRule {
    /// The accounts on the sources' side that it applies to.
    pub from: MapFrom,
    /// The account on the destination's side that replaces them.
    pub to: MapTo,
}

/// Accounts on the sources' side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum MapFrom {
    /// The account with this name. An empty name means accounts without a name.
    Name(Box<[u8]>),
    /// The accounts whose names match.
    Wild(Pattern),
    /// The accounts with numbers in this range, both ends included.
    Numbers(u32, u32),
}

/// An account on the destination's side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum MapTo {
    /// The account with this name.
    Name(Box<str>),
    /// The account with this number.
    Number(u32),
}

/// The reason why a text is not a list of rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MapError {
    /// A rule has no colon.
    #[error("a colon is missing between two accounts")]
    NoColon,
    /// No name follows a colon.
    #[error("a name is missing after a colon")]
    NoName,
    /// A number is invalid.
    #[error("an account number is invalid or out of range")]
    Number,
    /// A name is not UTF-8, or is an invalid pattern.
    #[error("an account name is invalid")]
    Name,
    /// There are too many rules.
    #[error("more than {} rules", AccountMap::RULES_MAX)]
    TooMany,
}

impl AccountMap {
    /// Maximum number of rules.
    pub const RULES_MAX: usize = 16 << 10;

    /// Parses rules that are separated by commas.
    ///
    /// # Errors
    /// See [`MapError`].
    pub fn parse(words: &[u8]) -> Result<Self, MapError> {
        let rules = words.split(|byte| *byte == b',').map(MapRule::parse);
        rules.collect::<Result<Vec<_>, _>>()?.try_into()
    }

    /// The map that replaces all accounts by `to`, a name or a number.
    ///
    /// # Errors
    /// See [`MapError`].
    pub fn all_to(to: &[u8]) -> Result<Self, MapError> {
        let all = Pattern::new(b"*").map_err(|_| MapError::Name)?;
        Ok(Self(vec![MapRule { from: MapFrom::Wild(all), to: MapTo::parse(to)? }]))
    }

    /// The account that replaces the one with this number and `name`, which is empty if it has
    /// none. `None` if no rule applies. A rule is skipped if `known` returns `None` for its target.
    pub fn find<'m>(
        &'m self,
        number: u32,
        name: &[u8],
        known: impl Fn(&MapTo) -> Option<u32> + 'm,
    ) -> Option<u32> {
        let is_it = |rule: &MapRule| match &rule.from {
            MapFrom::Name(of) => **of == *name,
            MapFrom::Wild(pattern) => pattern.matches(name, false),
            MapFrom::Numbers(low, high) => (*low..=*high).contains(&number),
        };
        self.0.iter().filter(|rule| is_it(rule)).find_map(|rule| known(&rule.to))
    }

    /// The accounts that replace others.
    pub fn targets(&self) -> impl Iterator<Item = &MapTo> {
        self.0.iter().map(|rule| &rule.to)
    }

    /// True if there are no rules.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Maximum length in a message, in bytes.
    pub fn encoded_len_max(&self) -> usize {
        let len = |rule: &MapRule| {
            let from = match &rule.from {
                MapFrom::Name(name) => name.len(),
                MapFrom::Wild(pattern) => pattern.as_bytes().len(),
                MapFrom::Numbers(..) => 0,
            };
            let MapTo::Name(name) = &rule.to else { return from };
            from + name.len()
        };
        self.0.iter().map(|rule| len(rule) + RULE_LEN_MAX).sum()
    }
}

impl MapRule {
    fn parse(word: &[u8]) -> Result<Self, MapError> {
        let colon = word.iter().position(|byte| *byte == b':').ok_or(MapError::NoColon)?;
        let (from, to) = (&word[..colon], &word[colon + 1..]);
        let from = match from.first() {
            Some(b'0'..=b'9') => {
                let text = std::str::from_utf8(from).map_err(|_| MapError::Number)?;
                let (low, high) = text.split_once('-').unwrap_or((text, text));
                MapFrom::Numbers(number(low)?, number(high)?)
            }
            _ if from.iter().any(|byte| b"*[?".contains(byte)) => {
                MapFrom::Wild(Pattern::new(from).map_err(|_| MapError::Name)?)
            }
            _ => MapFrom::Name(from.into()),
        };
        Ok(Self { from, to: MapTo::parse(to)? })
    }
}

impl MapTo {
    fn parse(to: &[u8]) -> Result<Self, MapError> {
        let text = std::str::from_utf8(to).map_err(|_| MapError::Name)?;
        match text.bytes().all(|byte| byte.is_ascii_digit()) {
            _ if text.is_empty() => Err(MapError::NoName),
            true => Ok(Self::Number(number(text)?)),
            false => Ok(Self::Name(text.into())),
        }
    }
}

/// Parses an account number. The system treats the highest number as none.
fn number(text: &str) -> Result<u32, MapError> {
    text.parse().ok().filter(|number| *number != u32::MAX).ok_or(MapError::Number)
}

impl TryFrom<Vec<MapRule>> for AccountMap {
    type Error = MapError;

    fn try_from(rules: Vec<MapRule>) -> Result<Self, MapError> {
        if rules.len() > Self::RULES_MAX {
            return Err(MapError::TooMany);
        }
        if rules.iter().any(|rule| rule.to == MapTo::Number(u32::MAX)) {
            return Err(MapError::Number);
        }
        Ok(Self(rules))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_about_an_account_counts() {
        let map = AccountMap::parse(b"0-99:7,wayne:8,w*:9,:10,200:gone,*:11").expect("rules");
        let known = |to: &MapTo| match to {
            MapTo::Number(number) => Some(*number),
            MapTo::Name(_) => None,
        };
        for (number, name, expected) in [
            (0, "root", 7),
            (99, "", 7),
            (100, "wayne", 8),
            (100, "wade", 9),
            (100, "", 10),
            (200, "x", 11),
        ] {
            assert_eq!(map.find(number, name.as_bytes(), known), Some(expected), "{number} {name}");
        }
        let few = AccountMap::parse(b"5:6").expect("a rule");
        assert_eq!(few.find(7, b"x", known), None);
        assert_eq!(AccountMap::all_to(b"12").expect("a rule").find(7, b"", known), Some(12));
    }

    #[test]
    fn other_words_are_none() {
        for (words, error) in [
            ("a", MapError::NoColon),
            ("a:b,c", MapError::NoColon),
            ("a:", MapError::NoName),
            ("1-2-3:a", MapError::Number),
            ("1x:a", MapError::Number),
            ("1-:a", MapError::Number),
            ("a:4294967295", MapError::Number),
        ] {
            assert_eq!(AccountMap::parse(words.as_bytes()), Err(error), "{words}");
        }
        assert_eq!(AccountMap::all_to(b""), Err(MapError::NoName));
    }

    #[test]
    fn names_and_numbers_have_their_bounds() {
        let last = (u32::MAX - 1).to_string();
        let map = AccountMap::parse(format!("a:{last},b*:c,0-9:7").as_bytes()).expect("rules");
        assert_eq!(map.encoded_len_max(), 3 * RULE_LEN_MAX + 1 + 3);
        let targets = [MapTo::Number(u32::MAX - 1), MapTo::Name("c".into()), MapTo::Number(7)];
        assert!(map.targets().eq(&targets) && !map.is_empty());
        assert!(AccountMap::default().is_empty());
        let rule = || MapRule { from: MapFrom::Numbers(1, 1), to: MapTo::Number(2) };
        let many = |count| AccountMap::try_from(vec![rule(); count]);
        assert_eq!(many(AccountMap::RULES_MAX).map(|all| all.0.len()), Ok(16_384));
        assert_eq!(many(AccountMap::RULES_MAX + 1), Err(MapError::TooMany));
        let none = MapRule { to: MapTo::Number(u32::MAX), ..rule() };
        assert_eq!(AccountMap::try_from(vec![none]), Err(MapError::Number));
        assert_eq!(AccountMap::parse(b"a:\xff"), Err(MapError::Name));
    }
}
