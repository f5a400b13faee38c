//! The private names of stages and journals: how they are made, and how they
//! are told from every other name.
//!
//! ```text
//! .haul-RANDOM16                  a stage that its own process removes
//! .haul-SERIES10COUNT6            one of a job that uploads to a host without haul
//! .haul-NAME12-SOURCE12.part      a stage that can be continued
//! .haul-NAME12-SOURCE12.journal   what is there of it
//! ```
//!
//! NAME and SOURCE are hashes of the destination's name and of the source's
//! identity, SERIES is random, and the same for all of a job; all digits are
//! hexadecimal, in small letters.

use crate::journal::SourceId;
use haul_model::Name;
use std::hash::{BuildHasher, RandomState};

/// What all private names begin with.
const START: &str = ".haul-";

/// Digits of a random name, and of each half of a stem.
const RANDOM_LEN: usize = 16;
const HALF_LEN: usize = 12;

/// Digits of a random name that are the same for all stages of a series.
const SERIES_LEN: usize = 10;

/// Length of what the names of a series begin with, in bytes.
pub(crate) const SERIES_START_LEN: usize = START.len() + SERIES_LEN;

/// What a private name is the name of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// A stage that its own process removes.
    Random,
    /// A stage that can be continued.
    Part,
    /// The journal of such a stage.
    Journal,
}

/// The private names of one resumable stage.
#[derive(Debug)]
pub(crate) struct Names {
    pub(crate) part: String,
    pub(crate) journal: String,
}

impl Names {
    /// Another source under the same name is told by the first half.
    pub(crate) fn of(name: &Name, source: &SourceId) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&source.size.to_le_bytes());
        hasher.update(&source.mtime.secs.to_le_bytes());
        hasher.update(&source.mtime.nanos.to_le_bytes());
        hasher.update(&source.inode.to_le_bytes());
        let source = hasher.finalize().to_hex();
        Self::from_stem(&format!("{}{}", Self::prefix(name), &source[..HALF_LEN]))
    }

    /// The same for a stage that only one `keeper` of journals knows of.
    pub(crate) fn of_keeper(name: &Name, source: &SourceId, keeper: &[u8]) -> Self {
        let stem = Self::of(name, source).part;
        let both = [stem.as_bytes(), keeper].concat();
        let half = name_half(&both);
        Self::from_stem(&format!("{}{half}", Self::prefix(name)))
    }

    /// What the private names of every source under `name` begin with.
    pub(crate) fn prefix(name: &Name) -> String {
        format!("{START}{}-", name_half(name.as_bytes()))
    }

    pub(crate) fn from_stem(stem: &str) -> Self {
        Self { part: format!("{stem}.part"), journal: format!("{stem}.journal") }
    }
}

/// The half of a stem that stands for a destination's name.
pub(crate) fn name_half(name: &[u8]) -> String {
    blake3::hash(name).to_hex()[..HALF_LEN].to_owned()
}

/// The half of `stem` that stands for the destination's name.
pub(crate) fn half_of(stem: &str) -> &str {
    &stem[START.len()..START.len() + HALF_LEN]
}

/// A fresh private name: `.haul-` and 16 random hexadecimal digits.
pub fn private_name() -> String {
    // RandomState is seeded by the operating system and differs at each call.
    format!("{START}{:016x}", RandomState::new().hash_one(std::process::id()))
}

/// What the names of a fresh series begin with: six digits are to follow.
pub(crate) fn series_start() -> String {
    let mut name = private_name();
    name.truncate(SERIES_START_LEN);
    name
}

/// Whether `name` is exactly of a form that haul's own stages and journals have.
pub fn is_private(name: &Name) -> bool {
    parse(name.as_bytes()).is_some()
}

/// What `name` is, if it is a private one, and its stem: for a part and a
/// journal what they have in common, else the whole.
pub(crate) fn parse(name: &[u8]) -> Option<(Form, &str)> {
    let name = std::str::from_utf8(name).ok()?;
    let digits = name.strip_prefix(START)?;
    if is_digits(digits, RANDOM_LEN) {
        return Some((Form::Random, name));
    }
    let (form, ending) = [(Form::Part, ".part"), (Form::Journal, ".journal")]
        .into_iter()
        .find_map(|(form, e)| {
            let is_it = digits.ends_with(e);
            is_it.then_some((form, e))
        })?;
    let (first, second) = digits.strip_suffix(ending)?.split_once('-')?;
    let both = is_digits(first, HALF_LEN) && is_digits(second, HALF_LEN);
    both.then_some((form, &name[..name.len() - ending.len()]))
}

/// The private name `name` for those who take any.
pub(crate) fn as_name(name: &str) -> Name {
    Name::new(name.as_bytes()).expect("a private name is a name")
}

fn is_digits(text: &str, len: usize) -> bool {
    text.len() == len && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_model::Timestamp;

    fn name(text: &str) -> Name {
        Name::new(text.as_bytes()).expect("a name")
    }

    #[test]
    fn what_is_made_is_told() {
        let source = SourceId { size: 1, mtime: Timestamp { secs: 2, nanos: 3 }, inode: 4 };
        let names = Names::of(&name("a"), &source);
        let stem = names.part.strip_suffix(".part").expect("an ending");
        assert_eq!(parse(names.part.as_bytes()), Some((Form::Part, stem)));
        assert_eq!(parse(names.journal.as_bytes()), Some((Form::Journal, stem)));
        assert_eq!(half_of(stem), name_half(b"a"));
        assert!(stem.starts_with(&Names::prefix(&name("a"))));
        let random = private_name();
        assert_eq!(parse(random.as_bytes()), Some((Form::Random, random.as_str())));
    }

    #[test]
    fn nothing_else_is_taken_for_one() {
        for other in [
            ".haul-",
            ".haul-0123456789abcde",
            ".haul-0123456789abcdef0",
            ".haul-0123456789abcdeF",
            ".haul-0123456789abcdeg",
            "haul-0123456789abcdef",
            ".haul-0123456789abcdef.part",
            ".haul-0123456789ab-0123456789ab",
            ".haul-0123456789ab-0123456789ab.part2",
            ".haul-0123456789ab-0123456789a.part",
            ".haul-0123456789ab-0123456789abc.journal",
            ".haul-0123456789ab.0123456789ab.journal",
            ".haul-0123456789ab-0123456789ab.part.journal",
            ".haul-notes",
        ] {
            assert!(!is_private(&name(other)), "{other}");
        }
        assert_eq!(parse(b".haul-0123456789abcde\xff"), None);
    }
}
