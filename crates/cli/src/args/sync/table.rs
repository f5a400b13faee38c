//! The options of rsync that `haul sync` has.

use super::reading::Moment;
use super::reading::parsed;
use super::{DeleteTiming, PERMS, Recursion, Sameness, Stats, SyncOptions, number, size, switches};
use crate::config::{KEEP_DEFAULT, PARALLEL_MAX, RETRIES_MAX, Rate, Transport, from_command_line};
use crate::deadline::Deadline;
use clap::ValueEnum;
use haul_model::{Bases, Compression, Kept, Missing, Systems, Via, ViaError};
use jiff::Zoned;
use std::ffi::OsStr;
use std::num::NonZeroU8;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant, SystemTime};

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

/// Names for `--checksum-choice`. BLAKE3 replaces all of rsync's algorithms; `none` turns hashes
/// off.
const CHECKSUMS: [&str; 10] =
    ["auto", "blake3", "none", "md4", "md5", "sha1", "xxhash", "xxh64", "xxh3", "xxh128"];

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

/// All options. Their help and its order are in `options.rs`.
pub(super) const TABLE: &[OptionSpec] = &[
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
    value!("chmod", None, "MODES", switches::chmod),
    value!("chown", None, "USER:GROUP", switches::chown),
    value!("usermap", None, "FROM:TO,...", switches::usermap),
    value!("groupmap", None, "FROM:TO,...", switches::groupmap),
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
    // Records of root's attributes, and links of other users.
    flag!("fake-super", None, = fake_super_here),
    value!("remote-option", Some('M'), "WORD", |options, value| {
        match value.to_str() {
            Some("--fake-super") => options.fake_super_there = Some(true),
            Some("--super") => options.fake_super_there = Some(false),
            Some("--insecure-links") => options.foreign_links_there = true,
            _ => {
                return Err("use only --fake-super, --super or --insecure-links with -M".into());
            }
        }
        Ok(())
    }),
    switch!("super", None, "", |options, on| options.no_super = !on),
    flag!("insecure-links", None, = foreign_links),
    // Removals.
    flag!("delete", None, = deletes),
    flag!("delete-during", None, |options, _| removes(options, "during", DeleteTiming::During)),
    flag!("delete-before", None, |options, _| removes(options, "before", DeleteTiming::Before)),
    flag!("delete-after", None, |options, _| removes(options, "after", DeleteTiming::After)),
    flag!("delete-delay", None, |options, _| removes(options, "during", DeleteTiming::After)),
    flag!("del", None, |options, _| removes(options, "during", DeleteTiming::During)),
    flag!("delete-excluded", None, |options, _| {
        options.deletes = true;
        options.deletes_excluded = true;
    }),
    value!("max-delete", None, "N", |options, value| {
        options.mirror.delete_max = Some(u64::try_from(number::<i64>(value)?).unwrap_or(0));
        Ok(())
    }),
    switch!("force", None, "", = force),
    flag!("ignore-errors", None, = delete.ignore_errors),
    OptionSpec {
        negated: &["no-remove-source-files"],
        ..flag!("remove-source-files remove-sent-files", None, = removes_sources)
    },
    flag!("no-moves", None, = no_moves),
    flag!("yes", None, = yes),
    // Special treatment of symbolic links.
    flag!("copy-unsafe-links", None, = mirror.walking.followed_links.out),
    flag!("copy-dirlinks", Some('k'), = mirror.walking.followed_links.to_dirs),
    switch!("keep-dirlinks", Some('K'), "", = mirror.keeps_dir_links),
    flag!("safe-links", None, = mirror.safe_links),
    switch!("munge-links", None, "", = munges),
    // How files get their content.
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
    // The scan of the sources.
    switch!("dirs", Some('d'), "no-d", |options, on| options.dirs = Some(on)),
    switch!("relative", Some('R'), "no-R", |options, on| options.relative = Some(on)),
    flag!("no-implied-dirs", None, = no_implied_dirs),
    flag!("implied-dirs", None, |options, _| options.no_implied_dirs = false),
    value!("files-from", None, "FILE", = files_from),
    switch!("one-file-system", Some('x'), "no-x", |options, on| {
        let systems = &mut options.mirror.walking.systems;
        *systems = match (on, *systems) {
            (false, _) => Systems::All,
            (true, Systems::All) => Systems::OfSources,
            (true, _) => Systems::OfSourcesAlone,
        };
    }),
    switch!("prune-empty-dirs", Some('m'), "no-m", = mirror.walking.prunes_empty),
    flag!("ignore-missing-args", None, |options, _| {
        let missing = &mut options.mirror.walking.missing;
        if *missing == Missing::Fails {
            *missing = Missing::Ignored;
        }
    }),
    flag!("delete-missing-args", None, |options, _| options.mirror.walking.missing =
        Missing::Removed),
    switch!("from0", Some('0'), "no-0", = from0),
    // Output and hosts.
    flag!("verbose", Some('v'), |options, _| options.verbose = options.verbose.saturating_add(1)),
    flag!("no-verbose no-v", None, |options, _| options.verbose = 0),
    flag!("quiet", Some('q'), = quiet),
    switch!("itemize-changes", Some('i'), "no-i", |options, on| {
        options.itemize = if on { options.itemize.saturating_add(1) } else { 0 };
    }),
    value!("out-format log-format", None, "FORMAT", = out_format),
    value!("log-file", None, "FILE", = log_file),
    value!("log-file-format", None, "FORMAT", = log_format),
    value!("debug", None, "FLAGS", debug),
    flag!("stats", None, |options, on| {
        options.stats = if on { Stats::Block } else { Stats::None };
    }),
    switch!("progress", None, "", = progress),
    value!("info", None, "FLAGS", |options, value| Ok(options.info.take(&text(value)?)?)),
    flag!("list-only", None, = list_only),
    flag!("human-readable", Some('h'), |options, _| options.readable =
        options.readable.saturating_add(1)),
    flag!("no-human-readable no-h", None, |options, _| options.readable = 0),
    switch!("8-bit-output", Some('8'), "no-8", = eight_bit),
    switch!("compress", Some('z'), "no-z", |options, on| {
        options.compressed = Some(on);
        if !on {
            (options.compression, options.level) = (None, None);
        }
    }),
    value!("compress-choice zc", None, "HOW", |options, value| {
        // haul has no zlib codec; zstd replaces it.
        let name = value.to_str().map(|text| match text {
            "zlib" | "zlibx" => "zstd",
            text => text,
        });
        let how = name.and_then(|name| name.parse().ok());
        let how = how.ok_or("not auto, none, lz4, zlib, zstd or zstd:LEVEL")?;
        options.compression = Some(how);
        if let (Compression::Zstd(level), true) = (how, value.as_bytes().contains(&b':')) {
            options.level = Some(level);
        }
        Ok(())
    }),
    value!("compress-level zl", None, "LEVEL", |options, value| {
        let level = number(value).ok().filter(|level| Compression::LEVELS.contains(level));
        options.level = Some(level.ok_or("not a level from 1 to 19")?);
        Ok(())
    }),
    value!("rsh", Some('e'), "COMMAND", text, setting rsh),
    value!("rsync-path remote-haul", None, "PATH", text, setting remote_haul),
    value!("timeout", None, "SECONDS", number, setting timeout),
    OptionSpec {
        effect: Effect::Optional("TIME", KEEP_DEFAULT, |options, value| {
            options.settings.keep = Some(from_command_line(text(value)?.parse()?));
            Ok(())
        }),
        ..flag!("keep", None, |_, _| ())
    },
    value!("retries", None, "N", retries, setting retries),
    value!("parallel", None, "N", parallel, setting parallel),
    value!("transport", None, "haul|sftp", transport, setting transport),
    value!("via", None, "WAY", via, setting via),
    value!(
        "congestion", None, "HOW",
        |value| parsed(value, "not bbr, cubic or newreno"), setting congestion
    ),
    flag!("fast", None, = policy.trusts_transit),
    flag!("no-cache", None, = no_cache),
    value!(
        "port-range", None, "FIRST-LAST",
        |value| parsed(value, "not a port or FIRST-LAST"), setting port_range
    ),
    value!("bwlimit", None, "RATE", rate, setting bwlimit),
    value!("contimeout", None, "SECONDS", |_, _| Ok(())),
    // Accepted without help: options that haul always fulfils, options for features that it lacks,
    // and options that undo a setting.
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

/// Adds a directory in which the destination looks for content.
fn add_base(options: &mut SyncOptions, how: Bases, dir: &OsStr) -> Result<(), String> {
    options.bases.push((how, dir.to_owned()));
    Ok(())
}

pub(super) fn text(value: &OsStr) -> Result<String, &'static str> {
    value.to_str().map(str::to_owned).ok_or("it is not UTF-8")
}

/// Removes extras at the time `when`. Options of the same `group` override each other; different
/// groups exclude each other, as in rsync.
fn removes(options: &mut SyncOptions, group: &'static str, when: DeleteTiming) {
    (options.deletes, options.when) = (true, Some(when));
    options.has_conflicting_when |=
        options.when_group.replace(group).is_some_and(|before| before != group);
}

fn retries(value: &OsStr) -> Result<u32, &'static str> {
    number(value).map(|retries: u32| retries.min(RETRIES_MAX))
}

fn parallel(value: &OsStr) -> Result<NonZeroU8, &'static str> {
    let logins: u8 = number(value)?;
    let logins = NonZeroU8::new(logins).filter(|_| logins <= PARALLEL_MAX);
    logins.ok_or("not a number from 1 to 8")
}

fn transport(value: &OsStr) -> Result<Transport, &'static str> {
    let transport = value.to_str().and_then(|text| Transport::from_str(text, false).ok());
    transport.ok_or("not haul or sftp")
}

fn via(value: &OsStr) -> Result<Via, String> {
    let via = value.to_str().ok_or(ViaError).and_then(str::parse);
    via.map_err(|error| error.to_string())
}

fn rate(value: &OsStr) -> Result<Rate, String> {
    Ok(text(value)?.parse()?)
}

/// The debug flags of rsync.
const DEBUG_FLAGS: [&str; 26] = [
    "acl", "backup", "bind", "chdir", "connect", "cmd", "del", "deltasum", "dup", "exit", "filter",
    "flist", "fuzzy", "genr", "hash", "hlink", "iconv", "io", "nstr", "own", "proto", "recv",
    "send", "time", "all", "none",
];

pub(super) fn debug_help() -> String {
    let flags = DEBUG_FLAGS.map(str::to_uppercase).join(", ");
    format!("Accepted without effect; HAUL_LOG=debug makes haul log what it does.\n\n{flags}\n")
}

/// Accepts `--debug` without effect, if rsync has the flags.
fn debug(_: &mut SyncOptions, value: &OsStr) -> Result<(), String> {
    for flag in text(value)?.split(',') {
        let name = flag.trim_end_matches(|digit: char| digit.is_ascii_digit());
        if !DEBUG_FLAGS.contains(&name.to_ascii_lowercase().as_str()) {
            return Err("not a flag of rsync".into());
        }
    }
    Ok(())
}
