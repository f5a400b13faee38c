//! Parses option values as rsync does.

use std::ffi::OsStr;
use std::num::NonZeroU64;
use std::os::unix::ffi::OsStrExt;
use std::str::FromStr;

/// Parses a number.
pub(super) fn number<T: std::str::FromStr>(value: &OsStr) -> Result<T, &'static str> {
    parsed(value, "not a valid number")
}

/// Parses a rate, in KiB per second unless it has a unit. 0 means no limit.
pub(crate) fn rate(value: &OsStr) -> Result<Option<NonZeroU64>, &'static str> {
    let mut value = value.to_owned();
    if value.as_bytes().last().is_some_and(u8::is_ascii_digit) {
        value.push("k");
    }
    Ok(NonZeroU64::new(size(&value)?))
}

/// Parses a size: `10`, `1.5K`, `2MiB`, `3GB`, `4m+1`.
pub(crate) fn size(value: &OsStr) -> Result<u64, &'static str> {
    const INVALID: &str = "not a size, such as 10, 1.5K or 2MB";
    let text = value.to_str().ok_or(INVALID)?.to_ascii_lowercase();
    let (text, offset) = match (text.strip_suffix("+1"), text.strip_suffix("-1")) {
        (Some(text), _) => (text, 1.0),
        (_, Some(text)) => (text, -1.0),
        _ => (&*text, 0.0),
    };
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: f64 = number.parse().map_err(|_| INVALID)?;
    let (power, rest) = match unit.as_bytes() {
        [] | [b'b'] => (0, ""),
        [letter, ..] => {
            let power = b"bkmgtp".iter().position(|unit| unit == letter).ok_or(INVALID)?;
            (power as i32, &unit[1..])
        }
    };
    let base: f64 = match rest {
        "" | "ib" => 1024.0,
        "b" => 1000.0,
        _ => return Err(INVALID),
    };
    let bytes = number.mul_add(base.powi(power), offset);
    if bytes < 0.0 || bytes >= u64::MAX as f64 {
        return Err(INVALID);
    }
    Ok(bytes as u64)
}

/// Parses a value; `expected` is the error.
pub(super) fn parsed<T: FromStr>(value: &OsStr, expected: &'static str) -> Result<T, &'static str> {
    value.to_str().and_then(|text| text.parse().ok()).ok_or(expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_rsync_reads_them() {
        for (text, bytes) in [
            ("0", 0),
            ("512", 512),
            ("512b", 512),
            ("1k", 1024),
            ("1.5K", 1536),
            ("2KB", 2000),
            ("3MiB", 3 << 20),
            ("1g", 1 << 30),
            ("1k-1", 1023),
            ("1K+1", 1025),
        ] {
            assert_eq!(size(OsStr::new(text)), Ok(bytes), "{text}");
        }
        for wrong in ["", "k", "1x", "1kk", "-5", "1 k", "1e3"] {
            assert!(size(OsStr::new(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn rates_are_read_as_rsync_reads_them() {
        for (text, bytes) in
            [("100", 102_400), ("1.5", 1536), ("2m", 2 << 20), ("500kb", 500_000), ("700b", 700)]
        {
            assert_eq!(rate(OsStr::new(text)), Ok(NonZeroU64::new(bytes)), "{text}");
        }
        assert_eq!(rate(OsStr::new("0")), Ok(None));
        assert!(rate(OsStr::new("fast")).is_err());
    }
}
