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
pub(crate) struct Verbatim<T> {
    text: String,
    pub(crate) value: T,
}

/// Time for which a connection is kept; 0 keeps none.
pub(crate) type KeepFor = Verbatim<Duration>;

/// Maximum bytes of replaced or removed content to keep; 0 keeps nothing.
pub(crate) type KeptMax = Verbatim<u64>;

/// Maximum bytes of content per second; `None` means no limit.
pub(crate) type Rate = Verbatim<Option<NonZeroU64>>;

/// A value that can be parsed from text.
pub(crate) trait ParseValue: Sized {
    /// Parses `text`. The error is a fixed message.
    fn parse(text: &str) -> Result<Self, &'static str>;
}

impl ParseValue for Duration {
    fn parse(text: &str) -> Result<Self, &'static str> {
        const EXPECTED: &str = "not a time from 0 to 24h, such as 10m";
        let (digits, unit) = match text.find(|c: char| !c.is_ascii_digit()) {
            Some(at) => text.split_at(at),
            None => (text, "s"),
        };
        let seconds = match unit {
            "s" => 1,
            "m" => 60,
            "h" => 60 * 60,
            _ => return Err(EXPECTED),
        };
        let number: u64 = digits.parse().map_err(|_| EXPECTED)?;
        let seconds = number.checked_mul(seconds).filter(|seconds| *seconds <= SECONDS_MAX);
        Ok(Self::from_secs(seconds.ok_or(EXPECTED)?))
    }
}

impl ParseValue for u64 {
    fn parse(text: &str) -> Result<Self, &'static str> {
        crate::args::size(text.as_ref())
    }
}

impl ParseValue for Option<NonZeroU64> {
    fn parse(text: &str) -> Result<Self, &'static str> {
        crate::args::rate(text.as_ref())
    }
}

impl<T: Default> Default for Verbatim<T> {
    fn default() -> Self {
        Self { text: "0".to_owned(), value: T::default() }
    }
}

impl<T: ParseValue> FromStr for Verbatim<T> {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self { text: text.to_owned(), value: T::parse(text)? })
    }
}

impl<T> fmt::Display for Verbatim<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_shown_as_it_was_written() {
        let shown = |text: &str| text.parse().map(|it: KeptMax| (it.to_string(), it.value));
        assert_eq!(shown("4GiB"), Ok(("4GiB".to_owned(), 4 << 30)));
        let none = Rate::default();
        assert_eq!((none.to_string(), none.value), ("0".to_owned(), None));
        assert_eq!("0".parse(), Ok(none));
    }

    #[test]
    fn a_time_is_a_number_with_a_unit() {
        let seconds = |text: &str| text.parse().map(|it: KeepFor| it.value.as_secs()).ok();
        for (text, expected) in
            [("0", 0), ("30", 30), ("30s", 30), ("10m", 600), ("24h", 86_400), ("86400", 86_400)]
        {
            assert_eq!(seconds(text), Some(expected), "{text}");
        }
        for bad in ["", "m", "-1", "1d", "25h", "1 m", "1.5m", "99999999999999999999h"] {
            assert_eq!(seconds(bad), None, "{bad}");
        }
        assert_eq!(seconds(KEEP_DEFAULT), Some(600));
    }
}
