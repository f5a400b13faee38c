//! The compression of a job's content on a wire.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The compression of listings and contents on a wire.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Compression {
    /// Compress as much as the time allows while the link is slower than the Sender. The default.
    #[default]
    Auto,
    /// Do not compress.
    None,
    /// Use LZ4, regardless of the link.
    Lz4,
    /// Use Zstandard at this level of [`Self::LEVELS`], regardless of the link.
    Zstd(u8),
}

/// A text that names no compression.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not auto, none, lz4, zstd or zstd:LEVEL (1 to 19)")]
pub struct CompressionError;

impl Compression {
    /// The levels of Zstandard that can be chosen. Higher ones need hundreds of MiB.
    pub const LEVELS: std::ops::RangeInclusive<u8> = 1..=19;

    /// The level of Zstandard if none is given.
    pub const LEVEL: u8 = 3;
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::None => f.write_str("none"),
            Self::Lz4 => f.write_str("lz4"),
            Self::Zstd(level) => write!(f, "zstd:{level}"),
        }
    }
}

impl FromStr for Compression {
    type Err = CompressionError;

    fn from_str(words: &str) -> Result<Self, Self::Err> {
        match words {
            "auto" => Ok(Self::Auto),
            "none" => Ok(Self::None),
            "lz4" => Ok(Self::Lz4),
            "zstd" => Ok(Self::Zstd(Self::LEVEL)),
            _ => words
                .strip_prefix("zstd:")
                .and_then(|level| level.parse().ok())
                .filter(|level| Self::LEVELS.contains(level))
                .map(Self::Zstd)
                .ok_or(CompressionError),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_a_way_and_its_level() {
        let read = |words: &str| words.parse::<Compression>();
        assert_eq!(read("auto"), Ok(Compression::Auto));
        assert_eq!(read("none"), Ok(Compression::None));
        assert_eq!(read("lz4"), Ok(Compression::Lz4));
        assert_eq!(read("zstd"), Ok(Compression::Zstd(3)));
        assert_eq!(read("zstd:19"), Ok(Compression::Zstd(19)));
        for words in ["auto", "none", "lz4", "zstd:1", "zstd:19"] {
            assert_eq!(read(words).expect("a way").to_string(), words);
        }
        for other in ["", "zlib", "zstd:", "zstd:0", "zstd:20", "zstd:x", "lz4:1", "ZSTD"] {
            assert_eq!(read(other), Err(CompressionError), "{other}");
        }
    }
}
