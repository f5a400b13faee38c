//! Options for output and for hosts.

use super::super::{Stats, Wish, number};
use super::{Turn, Word, text};
use crate::config::{KEEP_DEFAULT, PARALLEL_MAX, RETRIES_MAX, Transport};
use clap::ValueEnum;
use haul_model::{Compression, ViaError};
use std::ffi::OsStr;
use std::num::NonZeroU8;
use std::os::unix::ffi::OsStrExt;

pub(super) const WORDS: &[Word] = &[
    flag!("verbose", Some('v'), |wish, _| wish.verbose = wish.verbose.saturating_add(1)),
    Word { aliases: &["no-v"], ..flag!("no-verbose", None, |wish, _| wish.verbose = 0) },
    flag!("quiet", Some('q'), = quiet),
    switch!("itemize-changes", Some('i'), "no-i", |wish, on| {
        wish.itemize = if on { wish.itemize.saturating_add(1) } else { 0 };
    }),
    value!("out-format", None, &["log-format"], "FORMAT", = out_format),
    value!("log-file", None, &[], "FILE", = log_file),
    value!("log-file-format", None, &[], "FORMAT", = log_format),
    value!("debug", None, &[], "FLAGS", debug),
    flag!("stats", None, |wish, on| {
        wish.stats = if on { Stats::Block } else { Stats::None };
    }),
    switch!("progress", None, "", = progress),
    value!("info", None, &[], "FLAGS", |wish, value| Ok(wish.info.take(&text(value)?)?)),
    flag!("list-only", None, = lists),
    flag!("human-readable", Some('h'), |wish, _| wish.readable = wish.readable.saturating_add(1)),
    Word { aliases: &["no-h"], ..flag!("no-human-readable", None, |wish, _| wish.readable = 0) },
    switch!("8-bit-output", Some('8'), "no-8", = eight_bit),
    switch!("compress", Some('z'), "no-z", |wish, on| {
        wish.compressed = Some(on);
        if !on {
            (wish.compression, wish.level) = (None, None);
        }
    }),
    value!("compress-choice", None, &["zc"], "HOW", |wish, value| {
        // haul has no zlib codec; zstd replaces it.
        let name = value.to_str().map(|text| match text {
            "zlib" | "zlibx" => "zstd",
            text => text,
        });
        let how = name.and_then(|name| name.parse().ok());
        let how = how.ok_or("not auto, none, lz4, zlib, zstd or zstd:LEVEL")?;
        wish.compression = Some(how);
        if let (Compression::Zstd(level), true) = (how, value.as_bytes().contains(&b':')) {
            wish.level = Some(level);
        }
        Ok(())
    }),
    value!("compress-level", None, &["zl"], "LEVEL", |wish, value| {
        let level = value.to_str().and_then(|text| text.parse().ok());
        let level = level.filter(|level| Compression::LEVELS.contains(level));
        wish.level = Some(level.ok_or("not a level from 1 to 19")?);
        Ok(())
    }),
    value!("rsh", Some('e'), &[], "COMMAND", text => rsh),
    value!("rsync-path", None, &["remote-haul"], "PATH", text => remote_haul),
    value!("timeout", None, &[], "SECONDS", number => timeout),
    Word {
        turn: Turn::Optional("TIME", KEEP_DEFAULT, |wish, value| {
            wish.keep = Some(text(value)?.parse()?);
            Ok(())
        }),
        ..flag!("keep", None, |_, _| ())
    },
    value!("retries", None, &[], "N", |wish, value| {
        let retries: u32 = number(value)?;
        wish.retries = Some(retries.min(RETRIES_MAX));
        Ok(())
    }),
    value!("parallel", None, &[], "N", |wish, value| {
        let logins: u8 = number(value)?;
        wish.parallel = NonZeroU8::new(logins).filter(|_| logins <= PARALLEL_MAX);
        Ok(wish.parallel.map(drop).ok_or("not a number from 1 to 8")?)
    }),
    value!("transport", None, &[], "haul|sftp", |wish, value| {
        let transport = value.to_str().and_then(|text| Transport::from_str(text, false).ok());
        wish.transport = Some(transport.ok_or("not haul or sftp")?);
        Ok(())
    }),
    value!("via", None, &[], "WAY", |wish, value| {
        let via = value.to_str().ok_or(ViaError).and_then(str::parse);
        wish.via = Some(via.map_err(|error| error.to_string())?);
        Ok(())
    }),
    value!("congestion", None, &[], "HOW", |wish, value| {
        let congestion = value.to_str().and_then(|word| word.parse().ok());
        wish.congestion = Some(congestion.ok_or("not bbr, cubic or newreno")?);
        Ok(())
    }),
    flag!("fast", None, = fast),
    flag!("no-cache", None, = no_cache),
    value!("port-range", None, &[], "FIRST-LAST", |wish, value| {
        let ports = value.to_str().and_then(|words| words.parse().ok());
        wish.ports = Some(ports.ok_or("not a port or FIRST-LAST")?);
        Ok(())
    }),
    value!("bwlimit", None, &[], "RATE", |wish, value| {
        wish.rate = Some(text(value)?.parse()?);
        Ok(())
    }),
    value!("contimeout", None, &[], "SECONDS", |_, _| Ok(())),
];

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
fn debug(_: &mut Wish, value: &OsStr) -> Result<(), String> {
    for flag in text(value)?.split(',') {
        let name = flag.trim_end_matches(|digit: char| digit.is_ascii_digit());
        if !DEBUG_FLAGS.contains(&name.to_ascii_lowercase().as_str()) {
            return Err("not a flag of rsync".into());
        }
    }
    Ok(())
}
