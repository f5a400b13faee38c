//! Formats numbers for people: counts, times, rates, dates and modes.

pub(crate) use haul_model::format_size as bytes;
use haul_model::{Entry, Kind, Special, Timestamp};
use indicatif::HumanCount;
use jiff::tz::TimeZone;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Separates thousands by commas: `12,345`.
pub(crate) fn count(n: u64) -> String {
    HumanCount(n).to_string()
}

/// A count with its unit: `1 file`, `2 files`.
pub(crate) fn counted(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(n), if n == 1 { one } else { many })
}

/// The counts that are not 0, each behind its word: `; skipped 12; failed 1`.
pub(crate) fn counts<const N: usize>(counts: [(u64, &str); N]) -> String {
    let some = counts.into_iter().filter(|(n, _)| *n > 0);
    some.map(|(n, word)| format!("; {word} {}", count(n))).collect()
}

/// A rate, from bytes per second: `48.5 MiB/s`.
pub(crate) fn rate(bytes_per_second: f64) -> String {
    // Too large a float becomes the maximum of the integer.
    format!("{}/s", bytes(bytes_per_second as u64))
}

/// An elapsed time: `7 ms`, `0.41 s`, `12.3 s`, `2 min 05 s`, `1 h 02 min`.
pub(crate) fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0 if time.as_millis() < 100 => format!("{} ms", time.as_millis()),
        0..10 => format!("{:.2} s", time.as_secs_f64()),
        10..60 => format!("{:.1} s", time.as_secs_f64()),
        60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// A remaining time, like a clock: `0:07`, `12:34`, `1:02:03`.
pub(crate) fn remaining(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        _ => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

/// A date and time in UTC, as in ISO 8601, in whole seconds.
pub(crate) fn date(time: Timestamp) -> String {
    date_nanos(Timestamp { nanos: 0, ..time })
}

/// A local date and time in rsync's format, in whole seconds.
pub(crate) fn local_date(time: Timestamp) -> String {
    match jiff::Timestamp::new(time.secs, 0) {
        Ok(date) => date.to_zoned(TimeZone::system()).strftime("%Y/%m/%d %H:%M:%S").to_string(),
        // Out of range, as in `date_nanos`.
        Err(_) => format!("@{}", time.secs),
    }
}

/// The current time, in the format of [`local_date`].
pub(crate) fn local_now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    local_date(Timestamp { secs: i64::try_from(since.as_secs()).unwrap_or_default(), nanos: 0 })
}

/// Kind and permission bits as `ls -l` shows them: `drwxr-xr-x`.
pub(crate) fn mode(entry: &Entry) -> String {
    let mode = entry.attributes.mode;
    let mut out = String::with_capacity(10);
    out.push(match (&entry.kind, entry.special) {
        (Kind::File { .. }, _) => '-',
        (Kind::Dir, _) => 'd',
        (Kind::Symlink { .. }, _) => 'l',
        (Kind::Special, Some(Special::Fifo)) => 'p',
        (Kind::Special, Some(Special::Socket)) => 's',
        (Kind::Special, Some(Special::Block(_))) => 'b',
        (Kind::Special, Some(Special::Char(_))) => 'c',
        // An SFTP server may not report the type.
        (Kind::Special, None) => '?',
    });
    out.push_str(&permissions(mode));
    out
}

/// Only the permission bits: `rwxr-xr-x`.
pub(crate) fn permissions(mode: u32) -> String {
    let mut out = String::with_capacity(9);
    for (shift, special, letter) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let bits = mode >> shift;
        out.push(if bits & 4 != 0 { 'r' } else { '-' });
        out.push(if bits & 2 != 0 { 'w' } else { '-' });
        out.push(match (mode & special != 0, bits & 1 != 0) {
            (false, false) => '-',
            (false, true) => 'x',
            (true, false) => letter.to_ascii_uppercase(),
            (true, true) => letter,
        });
    }
    out
}

/// A date and time in UTC, as in ISO 8601, with nanoseconds.
pub(crate) fn date_nanos(time: Timestamp) -> String {
    let known = i32::try_from(time.nanos)
        .ok()
        .and_then(|nanos| jiff::Timestamp::new(time.secs, nanos).ok());
    match known {
        Some(date) => date.to_string(),
        // A file system may have times with more than four digits in the year.
        None => format!("@{}", time.secs),
    }
}

/// A number in rsync's format: `readable` 0 is digits, 1 adds separators, 2 uses powers of 1,000, 3
/// and more powers of 1,024.
pub(crate) fn rsync_number(n: u64, readable: u8) -> String {
    let unit = match readable {
        0 => return n.to_string(),
        1 => return count(n),
        2 => 1000.0,
        _ => 1024.0,
    };
    let mut scaled = n as f64;
    if scaled < unit {
        return count(n);
    }
    let mut letter = ' ';
    for next in "KMGTP".chars() {
        if scaled < unit {
            break;
        }
        (scaled, letter) = (scaled / unit, next);
    }
    format!("{scaled:.2}{letter}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_model::Attributes;

    #[test]
    fn counts() {
        for (n, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(count(n), text);
        }
        assert_eq!(count(u64::MAX), "18,446,744,073,709,551,615");
        assert_eq!(counted(1, "file", "files"), "1 file");
        assert_eq!(counted(0, "file", "files"), "0 files");
    }

    #[test]
    fn lengths_are_written_as_rsync_writes_them() {
        for (n, readable, text) in [
            (1_234_567, 0, "1234567"),
            (1_234_567, 1, "1,234,567"),
            (999, 2, "999"),
            (1_000, 2, "1.00K"),
            (4_096, 2, "4.10K"),
            (1_234_567, 2, "1.23M"),
            (1_000, 3, "1,000"),
            (1_234_567, 3, "1.18M"),
            (1 << 40, 3, "1.00T"),
            (u64::MAX, 3, "16384.00P"),
        ] {
            assert_eq!(rsync_number(n, readable), text);
        }
    }

    #[test]
    fn rates() {
        assert_eq!(rate(f64::INFINITY), "16.0 EiB/s");
        assert_eq!(rate(f64::NAN), "0 B/s");
    }

    #[test]
    fn times() {
        for (ms, text) in [
            (0, "0 ms"),
            (99, "99 ms"),
            (100, "0.10 s"),
            (410, "0.41 s"),
            (12_340, "12.3 s"),
            (125_000, "2 min 05 s"),
            (3_725_000, "1 h 02 min"),
        ] {
            assert_eq!(duration(Duration::from_millis(ms)), text);
        }
        for (s, text) in [(7, "0:07"), (754, "12:34"), (3723, "1:02:03")] {
            assert_eq!(remaining(Duration::from_secs(s)), text);
        }
    }

    #[test]
    fn modes() {
        let of = |kind, mode| {
            let time = Timestamp { secs: 0, nanos: 0 };
            super::mode(&Entry::new(None, kind, Attributes::new(mode, time)))
        };
        let file = Kind::File { size: 0 };
        for (bits, text) in [
            (0o644, "-rw-r--r--"),
            (0o4755, "-rwsr-xr-x"),
            (0o7000, "---S--S--T"),
            (0o1777, "-rwxrwxrwt"),
        ] {
            assert_eq!(of(file.clone(), bits), text);
        }
        assert_eq!(of(Kind::Dir, 0o755), "drwxr-xr-x");
    }

    #[test]
    fn dates() {
        let time = |secs, nanos| Timestamp { secs, nanos };
        assert_eq!(date(time(0, 0)), "1970-01-01T00:00:00Z");
        assert_eq!(date(time(1_700_000_000, 123_456_789)), "2023-11-14T22:13:20Z");
        assert_eq!(date_nanos(time(1_700_000_000, 123_456_789)), "2023-11-14T22:13:20.123456789Z");
        assert_eq!(date(time(-1, 500_000_000)), "1969-12-31T23:59:59Z");
        assert_eq!(date_nanos(time(-1, 500_000_000)), "1969-12-31T23:59:59.5Z");
        assert_eq!(date(time(i64::MAX, 0)), format!("@{}", i64::MAX));
        assert_eq!(date_nanos(time(0, u32::MAX)), "@0");
    }
}
