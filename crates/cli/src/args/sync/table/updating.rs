//! Options for how files get their content.

use super::super::moment::Moment;
use super::super::number;
use super::{Effect, OptionSpec, text};
use crate::deadline::Deadline;
use jiff::Zoned;
use std::time::{Duration, Instant, SystemTime};

/// Names for `--checksum-choice`. BLAKE3 replaces all of rsync's algorithms; `none` turns hashes
/// off.
const CHECKSUMS: [&str; 10] =
    ["auto", "blake3", "none", "md4", "md5", "sha1", "xxhash", "xxh64", "xxh3", "xxh128"];

pub(super) const OPTIONS: &[OptionSpec] = &[
    switch!("preallocate", None, "", = mirror.preallocates),
    switch!("fuzzy", Some('y'), "no-y", = mirror.fuzzy),
    switch!("delay-updates", None, "", = mirror.delays_updates),
    value!("temp-dir", Some('T'), "DIR", = temp_dir),
    switch!("inplace", None, "", = in_place),
    switch!("append", None, "", = append),
    value!("checksum-choice cc", None, "HOW", |options, value| {
        // The first name is for transfers, the second one for `--checksum`.
        let value = text(value)?;
        if !value.splitn(2, ',').all(|name| CHECKSUMS.contains(&name)) {
            return Err("not auto, blake3, none, md4, md5, sha1, xxh64, xxh3 or xxh128".into());
        }
        options.policy.trusts_transit = value.starts_with("none");
        Ok(())
    }),
    value!("stop-after time-limit", None, "MINUTES", |options, value| {
        let minutes: u32 = number(value)?;
        let deadline = Duration::from_secs(u64::from(minutes) * 60);
        let deadline = Instant::now().checked_add(deadline).filter(|_| minutes > 0);
        let deadline = deadline.ok_or("not a number of minutes")?;
        options.deadline = Some(Deadline::Passed(deadline));
        Ok(())
    }),
    value!("stop-at", None, "TIME", |options, value| {
        let moment = value.to_str().and_then(|text| text.parse::<Moment>().ok());
        let moment = moment.ok_or("not a time such as 2030-12-31T23:59")?;
        let time_until_next = moment.time_until_next(&Zoned::now()).ok_or("it is in the past")?;
        options.deadline = SystemTime::now().checked_add(time_until_next).map(Deadline::Clock);
        Ok(())
    }),
    flag!("append-verify", None, = append),
];
