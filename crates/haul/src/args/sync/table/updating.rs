//! The words about how files get their content.

use super::super::moment::Moment;
use super::super::number;
use super::{Turn, WRITING, Word, text};
use crate::until::Until;
use jiff::Zoned;
use std::time::{Duration, Instant, SystemTime};

/// Names of `--checksum-choice`. BLAKE3 takes the place of all of rsync's but `none`.
const CHECKSUMS: [&str; 10] =
    ["auto", "blake3", "none", "md4", "md5", "sha1", "xxhash", "xxh64", "xxh3", "xxh128"];

pub(super) const WORDS: &[Word] = &[
    switch!(
        WRITING,
        "preallocate",
        None,
        "",
        "Reserve room for each file before it is written",
        |wish, on| {
            wish.mirror.preallocates = on;
        }
    ),
    switch!(
        WRITING,
        "fuzzy",
        Some('y'),
        "no-y",
        "Of a missing file send what differs from one with a name like it",
        |wish, on| {
            wish.mirror.fuzzy = on;
        }
    ),
    switch!(
        WRITING,
        "delay-updates",
        None,
        "",
        "Files get their names at the end, one right behind the other",
        |wish, on| {
            wish.mirror.delays = on;
        }
    ),
    value!(
        WRITING,
        "temp-dir",
        Some('T'),
        &[],
        "DIR",
        "Write new files in DIR, on DEST's machine, until they are whole",
        |wish, value| {
            wish.temp_dir = Some(value.to_owned());
            Ok(())
        }
    ),
    switch!(
        WRITING,
        "inplace",
        None,
        "",
        "Write into files that are there: other names of them change, too",
        |wish, on| {
            wish.in_place = on;
        }
    ),
    switch!(
        WRITING,
        "append",
        None,
        "",
        "Write what is missing to the end of files that are shorter; others stay",
        |wish, on| {
            wish.appends = on;
        }
    ),
    value!(
        WRITING,
        "checksum-choice",
        None,
        &["cc"],
        "HOW",
        "Verify contents: auto or blake3, or none, as --fast",
        |wish, value| {
            // The first is for contents that are sent, a second one for `--checksum`.
            let value = text(value)?;
            if !value.splitn(2, ',').all(|name| CHECKSUMS.contains(&name)) {
                return Err(
                    "it is none of auto, blake3, none, and rsync's md4, md5, sha1, xxh64, xxh3, xxh128",
                );
            }
            wish.fast = value.starts_with("none");
            Ok(())
        }
    ),
    value!(
        WRITING,
        "stop-after",
        None,
        &["time-limit"],
        "MINUTES",
        "Stop when so many minutes have passed",
        |wish, value| {
            let minutes: u32 = number(value)?;
            let until = Duration::from_secs(u64::from(minutes) * 60);
            let until = Instant::now().checked_add(until).filter(|_| minutes > 0);
            let until = until.ok_or("it is no number of minutes")?;
            wish.until = Some(Until::Passed(until));
            Ok(())
        }
    ),
    value!(
        WRITING,
        "stop-at",
        None,
        &[],
        "TIME",
        "Stop at this time: 2030-12-31T23:59, 12-31, 14:00 or :30",
        |wish, value| {
            let moment = value.to_str().and_then(|text| text.parse::<Moment>().ok());
            let moment = moment.ok_or("it is no time like y-m-dTh:m")?;
            let left = moment.left(&Zoned::now()).ok_or("it is in the past")?;
            wish.until = SystemTime::now().checked_add(left).map(Until::Clock);
            Ok(())
        }
    ),
    flag!(WRITING, "append-verify", None, "The same", |wish, on| wish.appends = on),
];
