//! How much content that would be lost is kept in the chunk cache, as it is written.

use std::fmt;
use std::str::FromStr;

/// A bound in bytes; 0 keeps nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeptMax {
    /// As it was written.
    words: String,
    pub(crate) bytes: u64,
}

impl Default for KeptMax {
    fn default() -> Self {
        Self { words: "0".to_owned(), bytes: 0 }
    }
}

impl FromStr for KeptMax {
    type Err = &'static str;

    fn from_str(words: &str) -> Result<Self, Self::Err> {
        Ok(Self { words: words.to_owned(), bytes: crate::args::size(words.as_ref())? })
    }
}

impl fmt::Display for KeptMax {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}
