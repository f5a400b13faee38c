//! Settings that are shown as the user wrote them: times, sizes, rates.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;
use std::time::Duration;

/// The value of `--keep` without a time.
pub(crate) const KEEP_DEFAULT: &str = "10m";

/// Maximum time, in seconds: an agent waits no longer for its next visit.
const SECONDS_MAX: u64 = 24 * 60 * 60;

/// A value, and its original text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Written<T> {
    words: String,
    pub(crate) value: T,
}

/// Time for which a connection is kept; 0 keeps none.
pub(crate) type KeepFor = Written<Duration>;

/// Maximum bytes of replaced or removed content to keep; 0 keeps nothing.
pub(crate) type KeptMax = Written<u64>;

/// Maximum bytes of content per second; `None` means no limit.
pub(crate) type Rate = Written<Option<NonZeroU64>>;

/// A value that can be parsed from text.
pub(crate) trait Readable: Sized {
    /// Parses `words`. The error is a fixed message.
    fn read(words: &str) -> Result<Self, &'static str>;
}

impl Readable for Duration {
    fn read(words: &str) -> Result<Self, &'static str> {
        const WANTED: &str = "not a time from 0 to 24h, such as 10m";
        let (digits, unit) = match words.find(|c: char| !c.is_ascii_digit()) {
            Some(at) => words.split_at(at),
            None => (words, "s"),
        };
        let seconds = match unit {
            "s" => 1,
            "m" => 60,
            "h" => 60 * 60,
            _ => return Err(WANTED),
        };
        let number: u64 = digits.parse().map_err(|_| WANTED)?;
        let seconds = number.checked_mul(seconds).filter(|seconds| *seconds <= SECONDS_MAX);
        Ok(Self::from_secs(seconds.ok_or(WANTED)?))
    }
}

impl Readable for u64 {
    fn read(words: &str) -> Result<Self, &'static str> {
        crate::args::size(words.as_ref())
    }
}

impl Readable for Option<NonZeroU64> {
    fn read(words: &str) -> Result<Self, &'static str> {
        crate::args::rate(words.as_ref())
    }
}

impl<T: Default> Default for Written<T> {
    fn default() -> Self {
        Self { words: "0".to_owned(), value: T::default() }
    }
}

impl<T: Readable> FromStr for Written<T> {
    type Err = &'static str;

    fn from_str(words: &str) -> Result<Self, Self::Err> {
        Ok(Self { words: words.to_owned(), value: T::read(words)? })
    }
}

impl<T> fmt::Display for Written<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_shown_as_it_was_written() {
        let shown = |words: &str| words.parse().map(|it: KeptMax| (it.to_string(), it.value));
        assert_eq!(shown("4GiB"), Ok(("4GiB".to_owned(), 4 << 30)));
        let none = Rate::default();
        assert_eq!((none.to_string(), none.value), ("0".to_owned(), None));
        assert_eq!("0".parse(), Ok(none));
    }

    #[test]
    fn a_time_is_a_number_with_a_unit() {
        let seconds = |words: &str| words.parse().map(|it: KeepFor| it.value.as_secs()).ok();
        for (words, expected) in
            [("0", 0), ("30", 30), ("30s", 30), ("10m", 600), ("24h", 86_400), ("86400", 86_400)]
        {
            assert_eq!(seconds(words), Some(expected), "{words}");
        }
        for bad in ["", "m", "-1", "1d", "25h", "1 m", "1.5m", "99999999999999999999h"] {
            assert_eq!(seconds(bad), None, "{bad}");
        }
        assert_eq!(seconds(KEEP_DEFAULT), Some(600));
    }
}
