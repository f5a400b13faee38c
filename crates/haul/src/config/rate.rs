//! A bound on the bytes of content that travel in a second, as it is written.

use std::fmt;
use std::num::NonZeroU64;

/// A bound, or that there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rate {
    /// As it was written.
    words: String,
    pub(crate) bytes: Option<NonZeroU64>,
}

impl Rate {
    /// Reads it as `haul sync` does.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn parse(words: &str) -> Result<Self, &'static str> {
        let bytes = crate::args::rate(words.as_ref())?;
        Ok(Self { words: words.to_owned(), bytes })
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}
