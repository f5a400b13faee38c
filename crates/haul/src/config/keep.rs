//! How long a connection is kept after a command, as it is written.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The time of `--keep` without one.
pub(crate) const KEEP_DEFAULT: &str = "10m";

/// The longest time, in seconds: an agent waits no longer for its next visit.
const SECONDS_MAX: u64 = 24 * 60 * 60;

/// How long a connection is kept; 0 keeps none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeepFor {
    /// As it was written.
    words: String,
    pub(crate) lasts: Duration,
}

impl Default for KeepFor {
    fn default() -> Self {
        Self { words: "0".to_owned(), lasts: Duration::ZERO }
    }
}

impl FromStr for KeepFor {
    type Err = &'static str;

    fn from_str(words: &str) -> Result<Self, Self::Err> {
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
        let lasts = Duration::from_secs(seconds.ok_or(WANTED)?);
        Ok(Self { words: words.to_owned(), lasts })
    }
}

impl fmt::Display for KeepFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_number_with_a_unit() {
        let seconds = |words: &str| words.parse().map(|it: KeepFor| it.lasts.as_secs()).ok();
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
