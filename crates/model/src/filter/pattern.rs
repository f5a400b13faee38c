//! The pattern of a rule, as in rsync's manual ("PATTERN MATCHING RULES").
//!
//! The time for a match is at most proportional to the lengths of pattern and path, multiplied. All
//! possible matches are followed at once (K. Thompson, "Regular Expression Search Algorithm", CACM
//! 11(6), 1968), without backtracking.

use serde::{Deserialize, Serialize};

/// A parsed pattern.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Box<[u8]>", into = "Box<[u8]>")]
pub struct Pattern {
    /// The text of the pattern.
    written: Box<[u8]>,
    /// Only directories match: it ended with a slash.
    only_dirs: bool,
    anchor: Anchor,
    text: Text,
}

/// Why bytes are no pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// It has no bytes.
    #[error("a pattern is empty")]
    Empty,
    /// It is longer than a path can be.
    #[error("a pattern is longer than {} bytes", Pattern::LEN_MAX)]
    TooLong,
}

/// The places in a path where a match may begin. It always ends at the path's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Anchor {
    /// The start of the path.
    Start,
    /// The start, after an additional slash: the pattern begins with `**`.
    SlashAndStart,
    /// This number of names before the last; 0 if the pattern has no slash and no `**`.
    NamesBefore(usize),
    /// Each name.
    Anywhere,
}

/// The text to match.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Text {
    /// These bytes.
    Bytes(Box<[u8]>),
    /// Any bytes without a slash, then these bytes.
    Ending(Box<[u8]>),
    /// A match for each token.
    Tokens {
        tokens: Box<[Token]>,
        /// The pattern ends with `***`: a directory matches as if its path ended with a slash.
        takes_dirs: bool,
    },
    /// Nothing matches, because a bracket is not closed.
    Nothing,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Byte(u8),
    /// `?`: any byte but a slash.
    One,
    /// `[...]`: one of a set of bytes, never a slash.
    OneOf(Box<[u64; 4]>),
    /// `*`: any bytes but slashes.
    Star,
    /// `**`: any bytes.
    Stars,
}

impl Pattern {
    /// Maximum length of a pattern in bytes.
    pub const LEN_MAX: usize = 4096;

    /// Parses a pattern.
    ///
    /// # Errors
    /// See [`PatternError`].
    pub fn new(written: &[u8]) -> Result<Self, PatternError> {
        if written.is_empty() {
            return Err(PatternError::Empty);
        }
        if written.len() > Self::LEN_MAX {
            return Err(PatternError::TooLong);
        }
        let is_wild = written.iter().any(|byte| b"*[?".contains(byte));
        let first_stars = written.windows(2).position(|two| two == b"**");
        let (only_dirs, rest) = match written.strip_suffix(b"/") {
            Some(rest) if !rest.is_empty() => (true, rest),
            _ => (false, written),
        };
        let slashes = rest.iter().filter(|byte| **byte == b'/').count();
        let (anchor, rest) = match (rest.strip_prefix(b"/"), first_stars) {
            (Some(rest), _) => (Anchor::Start, rest),
            (None, None) => (Anchor::NamesBefore(slashes), rest),
            (None, Some(0)) => (Anchor::SlashAndStart, rest),
            (None, Some(_)) => (Anchor::Anywhere, rest),
        };
        let text = match is_wild {
            false => Text::Bytes(rest.into()),
            true => Text::of_wild(rest, written.ends_with(b"***")),
        };
        Ok(Self { written: written.into(), only_dirs, anchor, text })
    }

    /// The pattern as it was written.
    pub fn as_bytes(&self) -> &[u8] {
        &self.written
    }

    /// True if it begins with a slash: it is matched from the start of a path.
    pub fn is_anchored(&self) -> bool {
        self.anchor == Anchor::Start
    }

    /// True if the entry at `path`, which has no leading slash, matches.
    pub fn matches(&self, path: &[u8], is_dir: bool) -> bool {
        if self.only_dirs && !is_dir {
            return false;
        }
        let behind_slash = |at: usize| path[at..].iter().position(|byte| *byte == b'/');
        match self.anchor {
            Anchor::Start => self.text.matches(path, is_dir),
            Anchor::NamesBefore(before) => {
                // A path begins as if after a slash.
                let slashes = (0..path.len()).rev().filter(|at| path[*at] == b'/');
                let mut starts = slashes.map(|slash| slash + 1).chain([0]);
                // A path with fewer names does not match, even if a slash in brackets counts.
                starts.nth(before).is_some_and(|start| self.text.matches(&path[start..], is_dir))
            }
            Anchor::SlashAndStart => {
                self.text.matches_from(b"/".iter().chain(path).copied(), false, is_dir)
            }
            Anchor::Anywhere => match &self.text {
                Text::Tokens { .. } => self.text.matches_from(path.iter().copied(), true, is_dir),
                text => {
                    let mut start = 0;
                    loop {
                        if text.matches(&path[start..], is_dir) {
                            return true;
                        }
                        let Some(slash) = behind_slash(start) else { return false };
                        start += slash + 1;
                    }
                }
            },
        }
    }
}

impl TryFrom<Box<[u8]>> for Pattern {
    type Error = PatternError;

    fn try_from(written: Box<[u8]>) -> Result<Self, PatternError> {
        Self::new(&written)
    }
}

impl From<Pattern> for Box<[u8]> {
    fn from(pattern: Pattern) -> Self {
        pattern.written
    }
}

impl Text {
    fn of_wild(pattern: &[u8], takes_dirs: bool) -> Self {
        if let Some(ending) = pattern.strip_prefix(b"*")
            && !ending.iter().any(|byte| b"*[?\\/".contains(byte))
        {
            return Self::Ending(ending.into());
        }
        match tokens_of(pattern) {
            Some(tokens) => Self::Tokens { tokens, takes_dirs },
            None => Self::Nothing,
        }
    }

    /// True if all of `text` matches.
    fn matches(&self, text: &[u8], is_dir: bool) -> bool {
        match self {
            Self::Bytes(bytes) => text == &**bytes,
            Self::Ending(ending) => {
                text.strip_suffix(&**ending).is_some_and(|start| !start.contains(&b'/'))
            }
            _ => self.matches_from(text.iter().copied(), false, is_dir),
        }
    }

    /// Matches tokens. If `anywhere`, a match may begin after each slash.
    fn matches_from(&self, text: impl Iterator<Item = u8>, anywhere: bool, is_dir: bool) -> bool {
        let Self::Tokens { tokens, takes_dirs } = self else { return false };
        let slash = (*takes_dirs && is_dir).then_some(b'/');
        let (mut now, mut next) = (Progress::of(tokens), Progress::of(tokens));
        now.reach(0);
        for byte in text.chain(slash) {
            next.clear();
            for &at in &now.reached {
                let Some(token) = tokens.get(at) else { continue };
                match token {
                    Token::Star if byte != b'/' => next.reach(at),
                    Token::Stars => next.reach(at),
                    token if token.takes(byte) => next.reach(at + 1),
                    _ => {}
                }
            }
            if anywhere && byte == b'/' {
                next.reach(0);
            }
            std::mem::swap(&mut now, &mut next);
            if now.reached.is_empty() && !anywhere {
                return false;
            }
        }
        now.is_reached[tokens.len()]
    }
}

impl Token {
    /// True if it matches this byte.
    fn takes(&self, byte: u8) -> bool {
        match self {
            Self::Byte(own) => *own == byte,
            Self::One => byte != b'/',
            Self::OneOf(set) => has(set, byte),
            Self::Star | Self::Stars => false,
        }
    }
}

/// The tokens that the next byte may match.
struct Progress<'t> {
    tokens: &'t [Token],
    reached: Vec<usize>,
    is_reached: Vec<bool>,
}

impl<'t> Progress<'t> {
    fn of(tokens: &'t [Token]) -> Self {
        Self { tokens, reached: Vec::new(), is_reached: vec![false; tokens.len() + 1] }
    }

    fn clear(&mut self) {
        for at in self.reached.drain(..) {
            self.is_reached[at] = false;
        }
    }

    /// Adds the token `at`, and the next one if it may match nothing.
    fn reach(&mut self, mut at: usize) {
        while !std::mem::replace(&mut self.is_reached[at], true) {
            self.reached.push(at);
            match self.tokens.get(at) {
                Some(Token::Star | Token::Stars) => at += 1,
                _ => return,
            }
        }
    }
}

/// Splits a pattern with wildcards into tokens. `None` if a bracket is not closed.
fn tokens_of(mut pattern: &[u8]) -> Option<Box<[Token]>> {
    let mut tokens = Vec::with_capacity(pattern.len());
    while let Some((&first, rest)) = pattern.split_first() {
        pattern = rest;
        tokens.push(match first {
            b'*' => {
                let more = pattern.iter().take_while(|byte| **byte == b'*').count();
                pattern = &pattern[more..];
                if more > 0 { Token::Stars } else { Token::Star }
            }
            b'?' => Token::One,
            b'[' => {
                let (set, rest) = set_of(pattern)?;
                pattern = rest;
                Token::OneOf(Box::new(set))
            }
            b'\\' => {
                let (&meant, rest) = pattern.split_first()?;
                pattern = rest;
                Token::Byte(meant)
            }
            byte => Token::Byte(byte),
        });
    }
    Some(tokens.into())
}

/// The position of a byte in a set: the word, and the bit in it.
fn bit(byte: u8) -> (usize, u64) {
    (usize::from(byte / 64), 1 << (byte % 64))
}

fn has(set: &[u64; 4], byte: u8) -> bool {
    let (word, bit) = bit(byte);
    set[word] & bit != 0
}

/// Takes the next byte of `pattern`, or the byte behind a backslash.
fn literal(pattern: &mut &[u8]) -> Option<u8> {
    let (&byte, rest) = match *pattern {
        [b'\\', escaped @ ..] => escaped.split_first()?,
        plain => plain.split_first()?,
    };
    *pattern = rest;
    Some(byte)
}

/// Parses the set of bytes after an opening bracket. Returns it, and the rest of the pattern.
fn set_of(mut pattern: &[u8]) -> Option<([u64; 4], &[u8])> {
    let mut set = [0; 4];
    let mut add = |byte: u8| {
        let (word, bit) = bit(byte);
        set[word] |= bit;
    };
    let is_negated = matches!(pattern.first(), Some(b'!' | b'^'));
    if is_negated {
        pattern = &pattern[1..];
    }
    let mut is_first = true;
    // The previous byte, which may begin a range.
    let mut before = None;
    loop {
        match *pattern {
            [b']', ref rest @ ..] if !is_first => {
                pattern = rest;
                break;
            }
            [b'-', ref rest @ ..] if before.is_some() && !matches!(rest, [] | [b']', ..]) => {
                pattern = rest;
                (before.take()?..=literal(&mut pattern)?).for_each(&mut add);
            }
            [b'[', ref rest @ ..] if rest.first() == Some(&b':') => {
                let end = rest.windows(2).position(|two| two == b":]")?;
                let is_in = class(&rest[1..end.max(1)])?;
                (0..=u8::MAX).filter(is_in).for_each(&mut add);
                pattern = &rest[end + 2..];
                before = None;
            }
            _ => {
                let byte = literal(&mut pattern)?;
                add(byte);
                before = Some(byte);
            }
        }
        is_first = false;
    }
    if is_negated {
        set = set.map(|bits| !bits);
    }
    let (word, slash) = bit(b'/');
    set[word] &= !slash;
    Some((set, pattern))
}

/// A character class by its name, in the POSIX locale.
fn class(name: &[u8]) -> Option<fn(&u8) -> bool> {
    Some(match name {
        b"alnum" => u8::is_ascii_alphanumeric,
        b"alpha" => u8::is_ascii_alphabetic,
        b"blank" => |byte| matches!(byte, b' ' | b'\t'),
        b"cntrl" => u8::is_ascii_control,
        b"digit" => u8::is_ascii_digit,
        b"graph" => u8::is_ascii_graphic,
        b"lower" => u8::is_ascii_lowercase,
        b"print" => |byte| matches!(byte, b' '..=b'~'),
        b"punct" => u8::is_ascii_punctuation,
        b"space" => |byte| matches!(byte, b' ' | b'\t'..=b'\r'),
        b"upper" => u8::is_ascii_uppercase,
        b"xdigit" => u8::is_ascii_hexdigit,
        _ => return None,
    })
}

#[cfg(test)]
#[path = "pattern_tests.rs"]
mod tests;
