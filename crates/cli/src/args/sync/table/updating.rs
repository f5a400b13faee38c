//! Options for how files get their content.

use super::super::moment::Moment;
use super::super::number;
use super::{Turn, Word, text};
use crate::until::Until;
use jiff::Zoned;
use std::time::{Duration, Instant, SystemTime};

/// Names for `--checksum-choice`. BLAKE3 replaces all of rsync's algorithms; `none` turns hashes
/// off.
const CHECKSUMS: [&str; 10] =
    ["auto", "blake3", "none", "md4", "md5", "sha1", "xxhash", "xxh64", "xxh3", "xxh128"];

pub(super) const WORDS: &[Word] = &[
    switch!("preallocate", None, "", = mirror.preallocates),
    switch!("fuzzy", Some('y'), "no-y", = mirror.fuzzy),
    switch!("delay-updates", None, "", = mirror.delays),
    value!("temp-dir", Some('T'), &[], "DIR", = temp_dir),
    switch!("inplace", None, "", = in_place),
    switch!("append", None, "", = appends),
    value!("checksum-choice", None, &["cc"], "HOW", |wish, value| {
        // The first name is for transfers, the second one for `--checksum`.
        let value = text(value)?;
        if !value.splitn(2, ',').all(|name| CHECKSUMS.contains(&name)) {
            return Err("not auto, blake3, none, md4, md5, sha1, xxh64, xxh3 or xxh128".into());
        }
        wish.fast = value.starts_with("none");
        Ok(())
    }),
    value!("stop-after", None, &["time-limit"], "MINUTES", |wish, value| {
        let minutes: u32 = number(value)?;
        let until = Duration::from_secs(u64::from(minutes) * 60);
        let until = Instant::now().checked_add(until).filter(|_| minutes > 0);
        let until = until.ok_or("not a number of minutes")?;
        wish.until = Some(Until::Passed(until));
        Ok(())
    }),
    value!("stop-at", None, &[], "TIME", |wish, value| {
        let moment = value.to_str().and_then(|text| text.parse::<Moment>().ok());
        let moment = moment.ok_or("not a time such as 2030-12-31T23:59")?;
        let left = moment.left(&Zoned::now()).ok_or("it is in the past")?;
        wish.until = SystemTime::now().checked_add(left).map(Until::Clock);
        Ok(())
    }),
    flag!("append-verify", None, = appends),
];
