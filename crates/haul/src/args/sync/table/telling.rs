//! The words about what is told, and about hosts.

use super::super::{Stats, Wish, number};
use super::{Turn, Word, text};
use crate::config::{PARALLEL_MAX, RETRIES_MAX, Rate, Transport};
use clap::ValueEnum;
use haul_model::Compression;
use std::ffi::OsStr;
use std::num::NonZeroU8;
use std::os::unix::ffi::OsStrExt;

const TELLING: &str = "Telling";
const REMOTE: &str = "Remote";

/// In the order of the help.
pub(super) const WORDS: &[Word] = &[
    flag!(
        TELLING,
        "verbose",
        Some('v'),
        "Tell the names of what is copied, and figures",
        |wish, _| {
            wish.verbose = wish.verbose.saturating_add(1);
        }
    ),
    Word {
        aliases: &["no-v"],
        ..flag!(TELLING, "no-verbose", None, "", |wish, _| wish.verbose = 0)
    },
    flag!(TELLING, "quiet", Some('q'), "Tell errors only", |wish, on| wish.quiet = on),
    switch!(
        TELLING,
        "itemize-changes",
        Some('i'),
        "no-i",
        "Tell what changes of each entry",
        |wish, on| {
            wish.itemize = if on { wish.itemize.saturating_add(1) } else { 0 };
        }
    ),
    value!(
        TELLING,
        "out-format",
        None,
        &["log-format"],
        "FORMAT",
        "Tell of entries like this: '%i %n%L'",
        |wish, value| {
            wish.out_format = Some(value.to_owned());
            Ok(())
        }
    ),
    value!(
        TELLING,
        "log-file",
        None,
        &[],
        "FILE",
        "Tell in FILE, too, what is copied, removed, and fails",
        |wish, value| {
            wish.log_file = Some(value.to_owned());
            Ok(())
        }
    ),
    value!(
        TELLING,
        "log-file-format",
        None,
        &[],
        "FORMAT",
        "Tell of entries there like this: '%i %n%L'",
        |wish, value| {
            wish.log_format = Some(value.to_owned());
            Ok(())
        }
    ),
    value!(
        TELLING,
        "debug",
        None,
        &[],
        "FLAGS",
        "Taken; HAUL_LOG=debug tells what haul does",
        debug
    ),
    flag!(TELLING, "stats", None, "Tell figures at the end", |wish, on| {
        wish.stats = if on { Stats::Block } else { Stats::None };
    }),
    switch!(
        TELLING,
        "progress",
        None,
        "",
        "Print progress once a second without a terminal, too",
        |wish, on| {
            wish.progress = on;
        }
    ),
    value!(
        TELLING,
        "info",
        None,
        &[],
        "FLAGS",
        "Print what FLAGS select: name, del, symsafe, stats, all or none, each with a level",
        |wish, value| wish.info.take(&text(value)?)
    ),
    flag!(
        TELLING,
        "list-only",
        None,
        "List what would be copied, and copy nothing: so does SOURCE alone",
        |wish, on| {
            wish.lists = on;
        }
    ),
    flag!(
        TELLING,
        "human-readable",
        Some('h'),
        "Lengths in lists have units; other figures always have",
        |wish, _| {
            wish.readable = wish.readable.saturating_add(1);
        }
    ),
    Word {
        aliases: &["no-h"],
        ..flag!(TELLING, "no-human-readable", None, "", |wish, _| wish.readable = 0)
    },
    flag!(TELLING, "8-bit-output", Some('8'), "", |_, _| {}),
    switch!(
        REMOTE,
        "compress",
        Some('z'),
        "no-z",
        "Taken, and done anyway where it pays",
        |wish, on| {
            wish.compressed = Some(on);
            if !on {
                (wish.compression, wish.level) = (None, None);
            }
        }
    ),
    value!(
        REMOTE,
        "compress-choice",
        None,
        &["zc"],
        "HOW",
        "Compress what travels: auto (where that pays), none, lz4, zstd or zstd:LEVEL",
        |wish, value| {
            // rsync's zlib is no codec of haul's; zstd takes its place.
            let name = value.to_str().map(|text| match text {
                "zlib" | "zlibx" => "zstd",
                text => text,
            });
            let how = name.and_then(|name| name.parse().ok());
            let how = how.ok_or("it is none of auto, none, lz4, zlib, zstd and zstd:LEVEL")?;
            wish.compression = Some(how);
            if let (Compression::Zstd(level), true) = (how, value.as_bytes().contains(&b':')) {
                wish.level = Some(level);
            }
            Ok(())
        }
    ),
    value!(
        REMOTE,
        "compress-level",
        None,
        &["zl"],
        "LEVEL",
        "Compress what travels with zstd at LEVEL, from 1 to 19",
        |wish, value| {
            let level = value.to_str().and_then(|text| text.parse().ok());
            let level = level.filter(|level| Compression::LEVELS.contains(level));
            wish.level = Some(level.ok_or("it is no level from 1 to 19")?);
            Ok(())
        }
    ),
    value!(
        REMOTE,
        "rsh",
        Some('e'),
        &[],
        "COMMAND",
        "Reach the host with COMMAND instead of ssh",
        |wish, value| {
            wish.rsh = Some(text(value)?);
            Ok(())
        }
    ),
    value!(
        REMOTE,
        "rsync-path",
        None,
        &["remote-haul"],
        "PATH",
        "Where haul is on the host",
        |wish, value| {
            wish.remote_haul = Some(text(value)?);
            Ok(())
        }
    ),
    value!(
        REMOTE,
        "timeout",
        None,
        &[],
        "SECONDS",
        "Give up a host that is silent for SECONDS",
        |wish, value| {
            wish.timeout = Some(number(value)?);
            Ok(())
        }
    ),
    value!(
        REMOTE,
        "retries",
        None,
        &[],
        "N",
        "Connect again up to N times when the connection is lost",
        |wish, value| {
            let retries: u32 = number(value)?;
            wish.retries = Some(retries.min(RETRIES_MAX));
            Ok(())
        }
    ),
    value!(
        REMOTE,
        "parallel",
        None,
        &[],
        "N",
        "Have contents go over up to N connections, direct ones or logins",
        |wish, value| {
            let logins: u8 = number(value)?;
            wish.parallel = NonZeroU8::new(logins).filter(|_| logins <= PARALLEL_MAX);
            wish.parallel.map(drop).ok_or("it is no number from 1 to 8")
        }
    ),
    value!(
        REMOTE,
        "transport",
        None,
        &[],
        "haul|sftp",
        "Use the haul of the host, or its SFTP server",
        |wish, value| {
            let transport = value.to_str().and_then(|text| Transport::from_str(text, false).ok());
            wish.transport = Some(transport.ok_or("it is neither haul nor sftp")?);
            Ok(())
        }
    ),
    value!(
        REMOTE,
        "via",
        None,
        &[],
        "auto|ssh|tcp",
        "Send contents by ssh alone, by direct TLS connections alone, or by these when they stand",
        |wish, value| {
            let via = value.to_str().and_then(|word| word.parse().ok());
            wish.via = Some(via.ok_or("it is none of auto, ssh and tcp")?);
            Ok(())
        }
    ),
    flag!(
        REMOTE,
        "fast",
        None,
        "Send contents whole and unhashed: trust what TLS or ssh protect",
        |wish, on| wish.fast = on
    ),
    value!(
        REMOTE,
        "port-range",
        None,
        &[],
        "FIRST-LAST",
        "Let the host open one of these ports for direct connections",
        |wish, value| {
            let ports = value.to_str().and_then(|words| words.parse().ok());
            wish.ports = Some(ports.ok_or("it is neither a port nor FIRST-LAST")?);
            Ok(())
        }
    ),
    value!(
        REMOTE,
        "bwlimit",
        None,
        &[],
        "RATE",
        "Send at most RATE KiB of content a second, counted as sent (5m; 0: no limit)",
        |wish, value| {
            wish.rate = Some(Rate::parse(&text(value)?)?);
            Ok(())
        }
    ),
    value!(REMOTE, "contimeout", None, &[], "SECONDS", "", |_, _| Ok(())),
];

/// The parts of itself that rsync can tell about.
const DEBUG_FLAGS: &[&str] = &[
    "acl", "backup", "bind", "chdir", "connect", "cmd", "del", "deltasum", "dup", "exit", "filter",
    "flist", "fuzzy", "genr", "hash", "hlink", "iconv", "io", "nstr", "own", "proto", "recv",
    "send", "time", "all", "none",
];

/// Takes what `--debug` asks for, if rsync has it: haul has other words about itself.
fn debug(_: &mut Wish, value: &OsStr) -> Result<(), &'static str> {
    for flag in text(value)?.split(',') {
        let name = flag.trim_end_matches(|digit: char| digit.is_ascii_digit());
        if !DEBUG_FLAGS.contains(&name.to_ascii_lowercase().as_str()) {
            return Err("rsync has no such flag");
        }
    }
    Ok(())
}
