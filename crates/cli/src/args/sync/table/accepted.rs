//! Options of rsync that haul accepts without help. haul always does what they request, or lacks
//! the feature, or they undo a setting.

use super::super::{number, size};
use super::{Effect, OptionSpec};
use crate::config::{Rate, from_command_line};

pub(super) const OPTIONS: &[OptionSpec] = &[
    // Names never pass through a shell.
    switch!("secluded-args", Some('s'), "no-s", = secluded_args),
    switch!("protect-args", None, "", = secluded_args),
    switch!("old-args", None, "", |options, on| options.old_args = Some(on)),
    // Sources are always listed during the copy.
    switch!("inc-recursive", None, "no-i-r", |_, _| {}),
    flag!("i-r", None, |_, _| {}),
    flag!("i-d", None, |options, _| options.no_implied_dirs = false),
    flag!("no-i-d", None, = no_implied_dirs),
    flag!("no-timeout", None, |options, _| options.settings.timeout = Some(from_command_line(0))),
    flag!("no-contimeout", None, |_, _| {}),
    flag!("no-bwlimit", None, |options, _| {
        options.settings.bwlimit = Some(from_command_line(Rate::default()));
    }),
    // haul does not copy creation times.
    flag!("no-crtimes", None, |_, _| {}),
    flag!("no-N", None, |_, _| {}),
    flag!("qsort", None, |_, _| {}),
    // Names are copied byte by byte.
    flag!("no-iconv", None, |_, _| {}),
    // Each line is written as a whole.
    value!("outbuf", None, "MODE", |_, value| {
        let is_mode = value
            .to_str()
            .is_some_and(|mode| mode.starts_with(|letter: char| "NnUuLlBbFf".contains(letter)));
        Ok(is_mode.then_some(()).ok_or("not N, L or B")?)
    }),
    // Memory use is always bounded.
    value!("max-alloc", None, "SIZE", |_, value| {
        Ok((size(value)? > 0).then_some(()).ok_or("max-alloc must be greater than zero")?)
    }),
    // Two hauls negotiate their version; this is rsync's own protocol.
    value!("protocol", None, "VERSION", |_, value| { Ok(number::<u8>(value).map(drop)?) }),
    // haul measures if compression pays.
    value!("skip-compress", None, "LIST", |_, _| Ok(())),
];
