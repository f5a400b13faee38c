//! The options of rsync that `haul sync` has.

use super::given;
use super::{Recursion, Sameness, When, Wish, number, size};
use haul_model::Bases;
use std::ffi::OsStr;

/// An option, and its effect.
#[derive(Debug)]
pub(super) struct Word {
    pub(super) long: &'static str,
    pub(super) short: Option<char>,
    pub(super) aliases: &'static [&'static str],
    /// The option has a `--no-` form that undoes it.
    pub(super) has_opposite: bool,
    pub(super) off: &'static str,
    pub(super) off_short: &'static str,
    pub(super) turn: Turn,
}

/// The effect of an option.
#[derive(Debug)]
pub(super) enum Turn {
    Flag(fn(&mut Wish, bool)),
    /// An option with the name of its value.
    Value(&'static str, fn(&mut Wish, &OsStr) -> Result<(), String>),
    /// An option with the name of its value, and the default for an omitted value.
    Optional(&'static str, &'static str, fn(&mut Wish, &OsStr) -> Result<(), String>),
}

/// Maximum block size that rsync accepts, in bytes.
const BLOCK_SIZE_MAX: u32 = 128 << 10;

/// An option without a value. `= field` sets that field of the wish.
macro_rules! flag {
    ($long:literal, $short:expr, = $($field:ident).+) => {
        flag!($long, $short, |wish, on| wish.$($field).+ = on)
    };
    ($long:literal, $short:expr, $turn:expr) => {
        Word {
            long: $long,
            short: $short,
            aliases: &[],
            has_opposite: false,
            off: "",
            off_short: "",
            turn: Turn::Flag($turn),
        }
    };
}

/// An option without a value, with an opposite.
macro_rules! switch {
    ($long:literal, $short:expr, $off_short:literal, = $($field:ident).+) => {
        switch!($long, $short, $off_short, |wish, on| wish.$($field).+ = on)
    };
    ($long:literal, $short:expr, $off_short:literal, $turn:expr) => {
        Word {
            long: $long,
            short: $short,
            aliases: &[],
            has_opposite: true,
            off: concat!("no-", $long),
            off_short: $off_short,
            turn: Turn::Flag($turn),
        }
    };
}

/// An option with a value. `parse => field` stores the parsed value in that field of the wish.
macro_rules! value {
    ($long:literal, $short:expr, $aliases:expr, $name:literal, = $($field:ident).+) => {
        value!($long, $short, $aliases, $name, |wish, value| {
            wish.$($field).+ = Some(value.to_owned());
            Ok(())
        })
    };
    ($long:literal, $short:expr, $aliases:expr, $name:literal, $parse:ident => $($field:ident).+) => {
        value!($long, $short, $aliases, $name, |wish, value| {
            wish.$($field).+ = Some($parse(value)?);
            Ok(())
        })
    };
    ($long:literal, $short:expr, $aliases:expr, $name:literal, $take:expr) => {
        Word {
            long: $long,
            short: $short,
            aliases: $aliases,
            has_opposite: false,
            off: "",
            off_short: "",
            turn: Turn::Value($name, $take),
        }
    };
}

pub(super) use self::telling::debug_help;

// These modules use the macros above.
mod accepted;
mod deleting;
mod links;
mod sides;
mod telling;
mod updating;
mod walking;

/// All options. Their help and its order are in `options.rs`.
pub(super) const TABLE: &[&[Word]] = &[
    WORDS,
    sides::WORDS,
    deleting::WORDS,
    links::WORDS,
    updating::WORDS,
    walking::WORDS,
    telling::WORDS,
    accepted::WORDS,
];

/// Options that have no module of their own.
const WORDS: &[Word] = &[
    switch!("archive", Some('a'), "no-a", |wish, on| {
        wish.recursive = match (on, wish.recursive) {
            (true, Recursion::No) => Recursion::OfArchive,
            (true, recursive) => recursive,
            (false, _) => Recursion::No,
        };
        wish.mirror.links = on;
        (wish.perms, wish.times) = (on, on);
        (wish.owner, wish.group) = (on, on);
        (wish.devices, wish.specials) = (on, on);
    }),
    switch!("recursive", Some('r'), "no-r", |wish, on| {
        wish.recursive = if on { Recursion::Yes } else { Recursion::No };
    }),
    switch!("links", Some('l'), "no-l", = mirror.links),
    flag!("copy-links", Some('L'), = copy_links),
    Word { aliases: &["ignore-non-existing"], ..flag!("existing", None, = mirror.existing_only) },
    flag!("ignore-existing", None, = ignore_existing),
    flag!("update", Some('u'), = update),
    value!("min-size", None, &[], "SIZE", size => mirror.size_min),
    value!("max-size", None, &[], "SIZE", size => mirror.size_max),
    flag!("ignore-times", Some('I'), = ignore_times),
    flag!("size-only", None, |wish, on| {
        wish.mirror.sameness = if on { Sameness::Size } else { Sameness::SizeAndTime };
    }),
    switch!("checksum", Some('c'), "no-c", = checksum),
    value!("modify-window", Some('@'), &[], "SECONDS", |wish, value| {
        wish.window = number(value)?;
        Ok(())
    }),
    switch!("whole-file", Some('W'), "no-W", = whole_file),
    value!("block-size", Some('B'), &[], "SIZE", |wish, value| {
        let len = u32::try_from(size(value)?).ok().filter(|len| *len <= BLOCK_SIZE_MAX);
        let len = len.ok_or("it is more than 128 KiB")?;
        wish.mirror.block_len = (len > 0).then_some(len);
        Ok(())
    }),
    switch!("hard-links", Some('H'), "no-H", = hard_links),
    switch!("perms", Some('p'), "no-p", = perms),
    flag!("executability", Some('E'), = executability),
    value!("chmod", None, &[], "MODES", given::chmod),
    value!("chown", None, &[], "USER:GROUP", given::chown),
    value!("usermap", None, &[], "FROM:TO,...", given::usermap),
    value!("groupmap", None, &[], "FROM:TO,...", given::groupmap),
    switch!("times", Some('t'), "no-t", = times),
    switch!("owner", Some('o'), "no-o", = owner),
    switch!("group", Some('g'), "no-g", = group),
    switch!("acls", Some('A'), "no-A", |wish, on| {
        wish.acls = on;
        wish.perms |= on;
    }),
    switch!("xattrs", Some('X'), "no-X", = xattrs),
    switch!("atimes", Some('U'), "no-U", |wish, on| {
        // As in rsync, -U given twice also means --open-noatime.
        wish.mirror.keeps_atimes |= on && wish.atimes;
        wish.atimes = on;
    }),
    switch!("open-noatime", None, "", = mirror.keeps_atimes),
    switch!("omit-dir-times", Some('O'), "no-O", = omits_dir_times),
    switch!("omit-link-times", Some('J'), "no-J", = omits_link_times),
    switch!("numeric-ids", None, "", = numeric_ids),
    switch!("devices", None, "", = devices),
    switch!("specials", None, "", = specials),
    switch!("D", Some('D'), "", |wish, on| (wish.devices, wish.specials) = (on, on)),
    switch!("partial", None, "", = partial),
    value!("partial-dir", None, &[], "DIR", = partial_dir),
    flag!("P", Some('P'), |wish, on| (wish.partial, wish.progress) = (on, on)),
    switch!("sparse", Some('S'), "no-S", = sparse),
    switch!("backup", Some('b'), "no-b", = backup),
    value!("backup-dir", None, &[], "DIR", = backup_dir),
    value!("suffix", None, &[], "SUFFIX", = suffix),
    value!("compare-dest", None, &[], "DIR", |wish, value| {
        wish.bases.push((Bases::Compare, value.to_owned()));
        Ok(())
    }),
    value!("copy-dest", None, &[], "DIR", |wish, value| {
        wish.bases.push((Bases::Copy, value.to_owned()));
        Ok(())
    }),
    value!("link-dest", None, &[], "DIR", |wish, value| {
        wish.bases.push((Bases::Link, value.to_owned()));
        Ok(())
    }),
    switch!("dry-run", Some('n'), "no-n", = dry_run),
    switch!("mkpath", None, "", = mirror.makes_path),
    flag!("fsync", None, = fsync),
];

pub(super) fn text(value: &OsStr) -> Result<String, &'static str> {
    value.to_str().map(str::to_owned).ok_or("it is not UTF-8")
}
