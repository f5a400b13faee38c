//! The words of rsync that are accepted and have no help: haul always does what they ask for, has
//! nothing that they could be about, or they undo a setting.

use super::super::{number, size};
use super::{Turn, Word};
use crate::config::Rate;

pub(super) const WORDS: &[Word] = &[
    // Names never go through a shell.
    switch!("secluded-args", Some('s'), "no-s", |wish, on| wish.secludes = on),
    switch!("protect-args", None, "", |wish, on| wish.secludes = on),
    switch!("old-args", None, "", |wish, on| wish.old_args = Some(on)),
    // Sources are always listed while they are copied.
    switch!("inc-recursive", None, "no-i-r", |_, _| {}),
    flag!("i-r", None, |_, _| {}),
    flag!("i-d", None, |wish, _| wish.leaves_ways = false),
    flag!("no-i-d", None, |wish, _| wish.leaves_ways = true),
    flag!("no-timeout", None, |wish, _| wish.timeout = Some(0)),
    flag!("no-contimeout", None, |_, _| {}),
    flag!("no-bwlimit", None, |wish, _| wish.rate = Some(Rate::default())),
    // There are no times of creation.
    flag!("no-crtimes", None, |_, _| {}),
    flag!("no-N", None, |_, _| {}),
    flag!("qsort", None, |_, _| {}),
    // Names are bytes, and stay as they are.
    flag!("no-iconv", None, |_, _| {}),
    // Each line is written when it is whole.
    value!("outbuf", None, &[], "MODE", |_, value| {
        let is_mode = value
            .to_str()
            .is_some_and(|mode| mode.starts_with(|letter: char| "NnUuLlBbFf".contains(letter)));
        Ok(is_mode.then_some(()).ok_or("not N, L or B")?)
    }),
    // Memory is bounded.
    value!("max-alloc", None, &[], "SIZE", |_, value| {
        Ok((size(value)? > 0).then_some(()).ok_or("max-alloc must be greater than zero")?)
    }),
    // Two hauls negotiate; this is the version of rsync's own protocol.
    value!("protocol", None, &[], "VERSION", |_, value| { Ok(number::<u8>(value).map(drop)?) }),
    // Whether compressing pays is measured.
    value!("skip-compress", None, &[], "LIST", |_, _| Ok(())),
];
