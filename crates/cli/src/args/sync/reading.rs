//! Parses option values as rsync does.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{ToSpan, Zoned};
use std::ffi::OsStr;
use std::num::NonZeroU64;
use std::os::unix::ffi::OsStrExt;
use std::str::FromStr;
use std::time::Duration;

/// Parses a number.
pub(super) fn number<T: FromStr>(value: &OsStr) -> Result<T, &'static str> {
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

/// Days within which every date without a year occurs, including 29 February.
const DAYS_MAX: usize = 9 * 366;

/// A time of the clock for `--stop-at`. Parts may be omitted; the next time that matches the others
/// is meant. A date without a time is the start of that day.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Moment {
    year: Option<i16>,
    month: Option<i8>,
    day: Option<i8>,
    hour: Option<i8>,
    minute: i8,
}

impl FromStr for Moment {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const INVALID: &str = "not a time";
        let (date, time) = match text.split_once(['T', 't']) {
            Some((date, time)) => (date, Some(time)),
            None if text.contains(':') => ("", Some(text)),
            None => (text, None),
        };
        let mut moment = Self { hour: Some(0), ..Self::default() };
        if let Some(time) = time.filter(|time| !time.is_empty()) {
            let (hour, minute) = time.split_once(':').ok_or(INVALID)?;
            moment.hour = match hour {
                "" => None,
                hour => Some(in_range(hour, 0, 23).ok_or(INVALID)?),
            };
            moment.minute = in_range(minute, 0, 59).ok_or(INVALID)?;
        }
        let mut parts = date.rsplit(['-', '/']).filter(|part| !part.is_empty());
        moment.day = parts.next().map(|day| in_range(day, 1, 31).ok_or(INVALID)).transpose()?;
        moment.month =
            parts.next().map(|month| in_range(month, 1, 12).ok_or(INVALID)).transpose()?;
        if let Some(year) = parts.next() {
            let of_century: i16 = in_range(year, 0, 9999).ok_or(INVALID)?;
            moment.year = Some(if of_century < 100 { 2000 + of_century } else { of_century });
        }
        // Year 2000 accepts 29 February.
        let (year, month) = (moment.year.unwrap_or(2000), moment.month.unwrap_or(1));
        if moment.day.is_some_and(|day| Date::new(year, month, day).is_err()) {
            return Err(INVALID);
        }
        let has_any = time.is_some_and(|time| !time.is_empty()) || moment.day.is_some();
        (has_any && parts.next().is_none()).then_some(moment).ok_or(INVALID)
    }
}

impl Moment {
    /// The duration from `now` to the next such moment; `None` if all are past.
    pub(super) fn time_until_next(self, now: &Zoned) -> Option<Duration> {
        let first = match (self.year, self.month, self.day) {
            (Some(year), Some(month), Some(day)) => Date::new(year, month, day).ok()?,
            _ => now.date(),
        };
        let days = (0..DAYS_MAX).map_while(|day| first.checked_add((day as i64).days()).ok());
        let is_it = |date: &Date| {
            self.year.is_none_or(|year| date.year() == year)
                && self.month.is_none_or(|month| date.month() == month)
                && self.day.is_none_or(|day| date.day() == day)
        };
        let hours = match self.hour {
            Some(hour) => hour..=hour,
            None => 0..=23,
        };
        let moments = days.filter(is_it).flat_map(|date| {
            hours.clone().filter_map(move |hour| {
                date.at(hour, self.minute, 0, 0).to_zoned(TimeZone::system()).ok()
            })
        });
        let next = moments.into_iter().find(|moment| moment > now)?;
        Duration::try_from(now.duration_until(&next)).ok()
    }
}

/// Parses `text` as a number within the bounds.
fn in_range<N: FromStr + PartialOrd>(text: &str, min: N, max: N) -> Option<N> {
    let number = text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))?;
    (min <= number && number <= max).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::civil::date;

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

    #[test]
    fn the_next_such_time_is_meant() {
        let at = |date: Date, hour, minute| {
            date.at(hour, minute, 0, 0).to_zoned(TimeZone::system()).expect("a time")
        };
        let now = at(date(2030, 3, 5), 12, 30);
        for (text, expected) in [
            ("2031-1-2T3:04", at(date(2031, 1, 2), 3, 4)),
            ("31/01/02T03:04", at(date(2031, 1, 2), 3, 4)),
            ("1-30", at(date(2031, 1, 30), 0, 0)),
            ("2-29", at(date(2032, 2, 29), 0, 0)),
            ("14:00", at(date(2030, 3, 5), 14, 0)),
            ("12:30", at(date(2030, 3, 6), 12, 30)),
            (":59", at(date(2030, 3, 5), 12, 59)),
            (":10", at(date(2030, 3, 5), 13, 10)),
            ("1", at(date(2030, 4, 1), 0, 0)),
            ("31", at(date(2030, 3, 31), 0, 0)),
            ("6T1:00", at(date(2030, 3, 6), 1, 0)),
        ] {
            let moment: Moment = text.parse().expect(text);
            let time_until_next =
                Duration::try_from(now.duration_until(&expected)).expect("to come");
            assert_eq!(moment.time_until_next(&now), Some(time_until_next), "{text}");
        }
        let past: Moment = "2030-3-5T12:30".parse().expect("a time");
        assert_eq!(past.time_until_next(&now), None);
        for wrong in [
            "",
            "x",
            "24:00",
            "1:60",
            "32",
            "13-1",
            "1-2-3-4",
            "+1",
            "-",
            "T",
            "T12",
            "12-31T23",
            "2030-02-30",
            "2030-2-29",
            "2-30",
        ] {
            assert!(wrong.parse::<Moment>().is_err(), "{wrong}");
        }
    }
}
