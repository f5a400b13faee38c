//! Options for output and for hosts.

use super::super::{Stats, SyncOptions, number};
use super::{Effect, OptionSpec, text};
use crate::args::sync::reading::parsed;
use crate::config::{KEEP_DEFAULT, PARALLEL_MAX, RETRIES_MAX, Rate, Transport, from_command_line};
use clap::ValueEnum;
use haul_model::{Compression, Via, ViaError};
use std::ffi::OsStr;
use std::num::NonZeroU8;
use std::os::unix::ffi::OsStrExt;

pub(super) const OPTIONS: &[OptionSpec] = &[
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
];

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

pub(in super::super) fn debug_help() -> String {
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
