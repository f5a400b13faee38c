//! The options of rsync that `haul sync` has.

use super::given;
use super::{DeleteTiming, PERMS, Recursion, Sameness, SyncOptions, number, size};
use haul_model::{Bases, Kept};
use std::ffi::OsStr;

/// An option, and its effect.
#[derive(Debug)]
pub(super) struct OptionSpec {
    /// The long name, and other long names behind spaces.
    names: &'static str,
    pub(super) short: Option<char>,
    /// The names of the option that undoes it, the long one first; empty without such an option.
    pub(super) negated: &'static [&'static str],
    pub(super) effect: Effect,
}

impl OptionSpec {
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.names.split(' ')
    }

    pub(super) fn name(&self) -> &'static str {
        self.names().next().unwrap_or_default()
    }
}

/// The effect of an option.
#[derive(Debug)]
pub(super) enum Effect {
    Flag(fn(&mut SyncOptions, bool)),
    /// An option with the name of its value.
    Value(&'static str, fn(&mut SyncOptions, &OsStr) -> Result<(), String>),
    /// An option with the name of its value, and the default for an omitted value.
    Optional(&'static str, &'static str, fn(&mut SyncOptions, &OsStr) -> Result<(), String>),
}

/// Maximum block size that rsync accepts, in bytes.
const BLOCK_SIZE_MAX: u32 = 128 << 10;

/// An option without a value. `= field` sets that field of the wish.
macro_rules! flag {
    ($names:literal, $short:expr, = $($field:ident).+) => {
        flag!($names, $short, |options, on| options.$($field).+ = on)
    };
    ($names:literal, $short:expr, $effect:expr) => {
        OptionSpec {
            names: $names,
            short: $short,
            negated: &[],
            effect: Effect::Flag($effect),
        }
    };
}

/// The attributes of `-D`.
const SPECIAL_FILES: Kept = Kept::DEVICES.with(Kept::SPECIALS);

/// An option without a value, with an opposite. `keeps` preserves these attributes.
macro_rules! switch {
    ($names:literal, $short:expr, $negated_short:literal, keeps $attributes:expr) => {
        switch!($names, $short, $negated_short, |options, on| options.keep($attributes, on))
    };
    ($names:literal, $short:expr, $negated_short:literal, = $($field:ident).+) => {
        switch!($names, $short, $negated_short, |options, on| options.$($field).+ = on)
    };
    ($names:literal, $short:expr, $negated_short:literal, $effect:expr) => {
        OptionSpec {
            names: $names,
            short: $short,
            negated: &[concat!("no-", $names), $negated_short],
            effect: Effect::Flag($effect),
        }
    };
}

/// An option with a value. `parse => field` stores the parsed value in that field of the wish;
/// `parse, setting field` in that field of its settings.
macro_rules! value {
    ($names:literal, $short:expr, $value:literal, = $($field:ident).+) => {
        value!($names, $short, $value, |options, value| {
            options.$($field).+ = Some(value.to_owned());
            Ok(())
        })
    };
    ($names:literal, $short:expr, $value:literal, $parse:ident => $($field:ident).+) => {
        value!($names, $short, $value, |options, value| {
            options.$($field).+ = Some($parse(value)?);
            Ok(())
        })
    };
    ($names:literal, $short:expr, $value:literal, $parse:expr, setting $field:ident) => {
        value!($names, $short, $value, |options, value| {
            options.settings.$field = Some(from_command_line(($parse)(value)?));
            Ok(())
        })
    };
    ($names:literal, $short:expr, $value:literal, $take:expr) => {
        OptionSpec {
            names: $names,
            short: $short,
            negated: &[],
            effect: Effect::Value($value, $take),
        }
    };
}

pub(super) use self::output::debug_help;

// These modules use the macros above.
mod accepted;
mod deleting;
mod links;
mod output;
mod sides;
mod updating;
mod walking;

/// All options. Their help and its order are in `options.rs`.
pub(super) const TABLE: &[&[OptionSpec]] = &[
    OPTIONS,
    sides::OPTIONS,
    deleting::OPTIONS,
    links::OPTIONS,
    updating::OPTIONS,
    walking::OPTIONS,
    output::OPTIONS,
    accepted::OPTIONS,
];

/// Options that have no module of their own.
const OPTIONS: &[OptionSpec] = &[
    switch!("archive", Some('a'), "no-a", |options, on| {
        options.recursive = match (on, options.recursive) {
            (true, Recursion::No) => Recursion::ByArchive,
            (true, recursive) => recursive,
            (false, _) => Recursion::No,
        };
        options.mirror.links = on;
        let owners = Kept::USER.with(Kept::GROUP);
        options.keep(PERMS.with(Kept::TIMES).with(owners).with(SPECIAL_FILES), on);
    }),
    switch!("recursive", Some('r'), "no-r", |options, on| {
        options.recursive = if on { Recursion::Yes } else { Recursion::No };
    }),
    switch!("links", Some('l'), "no-l", = mirror.links),
    flag!("copy-links", Some('L'), = copy_links),
    flag!("existing ignore-non-existing", None, = mirror.existing_only),
    flag!("ignore-existing", None, = ignore_existing),
    flag!("update", Some('u'), = mirror.skips_newer),
    value!("min-size", None, "SIZE", size => mirror.size_min),
    value!("max-size", None, "SIZE", size => mirror.size_max),
    flag!("ignore-times", Some('I'), = ignore_times),
    flag!("size-only", None, |options, on| {
        options.mirror.sameness = if on { Sameness::Size } else { Sameness::SizeAndTime };
    }),
    switch!("checksum", Some('c'), "no-c", = checksum),
    value!("modify-window", Some('@'), "SECONDS", number => window),
    switch!("whole-file", Some('W'), "no-W", = whole_file),
    value!("block-size", Some('B'), "SIZE", |options, value| {
        let len = u32::try_from(size(value)?).ok().filter(|len| *len <= BLOCK_SIZE_MAX);
        let len = len.ok_or("it is more than 128 KiB")?;
        options.mirror.block_len = (len > 0).then_some(len);
        Ok(())
    }),
    switch!("hard-links", Some('H'), "no-H", keeps Kept::LINKS),
    switch!("perms", Some('p'), "no-p", keeps PERMS),
    flag!("executability", Some('E'), = mirror.executability),
    value!("chmod", None, "MODES", given::chmod),
    value!("chown", None, "USER:GROUP", given::chown),
    value!("usermap", None, "FROM:TO,...", given::usermap),
    value!("groupmap", None, "FROM:TO,...", given::groupmap),
    switch!("times", Some('t'), "no-t", keeps Kept::TIMES),
    switch!("owner", Some('o'), "no-o", keeps Kept::USER),
    switch!("group", Some('g'), "no-g", keeps Kept::GROUP),
    switch!("acls", Some('A'), "no-A", |options, on| {
        options.keep(Kept::ACL, on);
        options.keeps = options.keeps.with(PERMS.only_if(on));
    }),
    switch!("xattrs", Some('X'), "no-X", keeps Kept::XATTRS),
    switch!("atimes", Some('U'), "no-U", |options, on| {
        // As in rsync, -U given twice also means --open-noatime.
        options.mirror.keeps_atimes |= on && options.keeps.has(Kept::ATIMES);
        options.keep(Kept::ATIMES, on);
    }),
    switch!("open-noatime", None, "", = mirror.keeps_atimes),
    switch!("omit-dir-times", Some('O'), "no-O", = omits_dir_times),
    switch!("omit-link-times", Some('J'), "no-J", = omits_link_times),
    switch!("numeric-ids", None, "", = policy.numeric_ids),
    switch!("devices", None, "", keeps Kept::DEVICES),
    switch!("specials", None, "", keeps Kept::SPECIALS),
    switch!("D", Some('D'), "", keeps SPECIAL_FILES),
    switch!("partial", None, "", = partial),
    value!("partial-dir", None, "DIR", = partial_dir),
    flag!("P", Some('P'), |options, on| (options.partial, options.progress) = (on, on)),
    switch!("sparse", Some('S'), "no-S", = mirror.writes_sparse),
    switch!("backup", Some('b'), "no-b", = backup),
    value!("backup-dir", None, "DIR", = backup_dir),
    value!("suffix", None, "SUFFIX", = suffix),
    value!("compare-dest", None, "DIR", |options, dir| add_base(options, Bases::Compare, dir)),
    value!("copy-dest", None, "DIR", |options, dir| add_base(options, Bases::Copy, dir)),
    value!("link-dest", None, "DIR", |options, dir| add_base(options, Bases::Link, dir)),
    switch!("dry-run", Some('n'), "no-n", = policy.dry_run),
    switch!("mkpath", None, "", = mirror.creates_parents),
    flag!("fsync", None, = fsync),
];

/// Adds a directory in which the destination looks for content.
fn add_base(options: &mut SyncOptions, how: Bases, dir: &OsStr) -> Result<(), String> {
    options.bases.push((how, dir.to_owned()));
    Ok(())
}

pub(super) fn text(value: &OsStr) -> Result<String, &'static str> {
    value.to_str().map(str::to_owned).ok_or("it is not UTF-8")
}
