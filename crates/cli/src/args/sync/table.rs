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

/// An option without a value.
macro_rules! flag {
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

/// An option with a value.
macro_rules! value {
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
    switch!("links", Some('l'), "no-l", |wish, on| {
        wish.mirror.links = on;
    }),
    flag!("copy-links", Some('L'), |wish, on| {
        wish.copy_links = on;
    }),
    Word {
        aliases: &["ignore-non-existing"],
        ..flag!("existing", None, |wish, on| {
            wish.mirror.existing_only = on;
        })
    },
    flag!("ignore-existing", None, |wish, on| {
        wish.ignore_existing = on;
    }),
    flag!("update", Some('u'), |wish, on| {
        wish.update = on;
    }),
    value!("min-size", None, &[], "SIZE", |wish, value| {
        wish.mirror.size_min = Some(size(value)?);
        Ok(())
    }),
    value!("max-size", None, &[], "SIZE", |wish, value| {
        wish.mirror.size_max = Some(size(value)?);
        Ok(())
    }),
    flag!("ignore-times", Some('I'), |wish, on| {
        wish.ignore_times = on;
    }),
    flag!("size-only", None, |wish, on| {
        wish.mirror.sameness = if on { Sameness::Size } else { Sameness::SizeAndTime };
    }),
    switch!("checksum", Some('c'), "no-c", |wish, on| {
        wish.checksum = on;
    }),
    value!("modify-window", Some('@'), &[], "SECONDS", |wish, value| {
        wish.window = number(value)?;
        Ok(())
    }),
    switch!("whole-file", Some('W'), "no-W", |wish, on| {
        wish.whole_file = on;
    }),
    value!("block-size", Some('B'), &[], "SIZE", |wish, value| {
        let len = u32::try_from(size(value)?).ok().filter(|len| *len <= BLOCK_SIZE_MAX);
        let len = len.ok_or("it is more than 128 KiB")?;
        wish.mirror.block_len = (len > 0).then_some(len);
        Ok(())
    }),
    switch!("hard-links", Some('H'), "no-H", |wish, on| {
        wish.hard_links = on;
    }),
    switch!("perms", Some('p'), "no-p", |wish, on| wish.perms = on),
    flag!("executability", Some('E'), |wish, on| {
        wish.executability = on;
    }),
    value!("chmod", None, &[], "MODES", given::chmod),
    value!("chown", None, &[], "USER:GROUP", given::chown),
    value!("usermap", None, &[], "FROM:TO,...", given::usermap),
    value!("groupmap", None, &[], "FROM:TO,...", given::groupmap),
    switch!("times", Some('t'), "no-t", |wish, on| wish.times = on),
    switch!("owner", Some('o'), "no-o", |wish, on| wish.owner = on),
    switch!("group", Some('g'), "no-g", |wish, on| wish.group = on),
    switch!("acls", Some('A'), "no-A", |wish, on| {
        wish.acls = on;
        wish.perms |= on;
    }),
    switch!("xattrs", Some('X'), "no-X", |wish, on| {
        wish.xattrs = on;
    }),
    switch!("atimes", Some('U'), "no-U", |wish, on| {
        // As in rsync, -U given twice also means --open-noatime.
        wish.mirror.keeps_atimes |= on && wish.atimes;
        wish.atimes = on;
    }),
    switch!("open-noatime", None, "", |wish, on| {
        wish.mirror.keeps_atimes = on;
    }),
    switch!("omit-dir-times", Some('O'), "no-O", |wish, on| {
        wish.omits_dir_times = on;
    }),
    switch!("omit-link-times", Some('J'), "no-J", |wish, on| {
        wish.omits_link_times = on;
    }),
    switch!("numeric-ids", None, "", |wish, on| {
        wish.numeric_ids = on;
    }),
    switch!("devices", None, "", |wish, on| wish.devices = on),
    switch!("specials", None, "", |wish, on| wish.specials = on),
    switch!("D", Some('D'), "", |wish, on| {
        (wish.devices, wish.specials) = (on, on);
    }),
    switch!("partial", None, "", |wish, on| {
        wish.partial = on;
    }),
    value!("partial-dir", None, &[], "DIR", |wish, dir| {
        wish.partial_dir = Some(dir.to_owned());
        Ok(())
    }),
    flag!("P", Some('P'), |wish, on| {
        (wish.partial, wish.progress) = (on, on);
    }),
    switch!("sparse", Some('S'), "no-S", |wish, on| {
        wish.sparse = on;
    }),
    switch!("backup", Some('b'), "no-b", |wish, on| {
        wish.backup = on;
    }),
    value!("backup-dir", None, &[], "DIR", |wish, value| {
        wish.backup_dir = Some(value.to_owned());
        Ok(())
    }),
    value!("suffix", None, &[], "SUFFIX", |wish, value| {
        wish.suffix = Some(value.to_owned());
        Ok(())
    }),
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
    switch!("dry-run", Some('n'), "no-n", |wish, on| {
        wish.dry_run = on;
    }),
    switch!("mkpath", None, "", |wish, on| {
        wish.mirror.makes_path = on;
    }),
    flag!("fsync", None, |wish, on| {
        wish.fsync = on;
    }),
];

pub(super) fn text(value: &OsStr) -> Result<String, &'static str> {
    value.to_str().map(str::to_owned).ok_or("it is not UTF-8")
}
