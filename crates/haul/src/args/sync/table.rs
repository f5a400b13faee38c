//! The words of rsync that `haul sync` has.

use super::given;
use super::{Recursion, Sameness, When, Wish, number, size};
use haul_model::Bases;
use std::ffi::OsStr;

/// A word, and its effect.
#[derive(Debug)]
pub(super) struct Word {
    pub(super) long: &'static str,
    pub(super) short: Option<char>,
    pub(super) aliases: &'static [&'static str],
    /// There is a word with "no-" in front that undoes it.
    pub(super) has_opposite: bool,
    pub(super) off: &'static str,
    pub(super) off_short: &'static str,
    pub(super) heading: &'static str,
    /// The help; a word without it is hidden there.
    pub(super) help: &'static str,
    pub(super) turn: Turn,
}

/// The effect of a word.
#[derive(Debug)]
pub(super) enum Turn {
    Flag(fn(&mut Wish, bool)),
    /// With the name of its value.
    Value(&'static str, fn(&mut Wish, &OsStr) -> Result<(), &'static str>),
}

const SELECTING: &str = "Selecting";
const COMPARING: &str = "Comparing";
const KEEPING: &str = "Keeping";
const DELETING: &str = "Deleting";
const WRITING: &str = "Writing";

/// The longest blocks that rsync takes, in bytes.
const BLOCK_SIZE_MAX: u32 = 128 << 10;

/// A word without a value.
macro_rules! flag {
    ($heading:expr, $long:literal, $short:expr, $help:literal, $turn:expr) => {
        Word {
            long: $long,
            short: $short,
            aliases: &[],
            has_opposite: false,
            off: "",
            off_short: "",
            heading: $heading,
            help: $help,
            turn: Turn::Flag($turn),
        }
    };
}

/// A word without a value that has an opposite.
macro_rules! switch {
    ($heading:expr, $long:literal, $short:expr, $off_short:literal, $help:literal, $turn:expr) => {
        Word {
            long: $long,
            short: $short,
            aliases: &[],
            has_opposite: true,
            off: concat!("no-", $long),
            off_short: $off_short,
            heading: $heading,
            help: $help,
            turn: Turn::Flag($turn),
        }
    };
}

/// A word with a value.
macro_rules! value {
    ($heading:expr, $long:literal, $short:expr, $aliases:expr, $name:literal, $help:literal, $take:expr) => {
        Word {
            long: $long,
            short: $short,
            aliases: $aliases,
            has_opposite: false,
            off: "",
            off_short: "",
            heading: $heading,
            help: $help,
            turn: Turn::Value($name, $take),
        }
    };
}

// Behind the macros that it takes.
mod accepted;
mod deleting;
mod links;
mod sides;
mod telling;
mod updating;
mod walking;

/// The words, in the order of the help.
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

/// Those that say what is done.
const WORDS: &[Word] = &[
    switch!(SELECTING, "archive", Some('a'), "no-a", "The same as -rlptgoD", |wish, on| {
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
    switch!(
        SELECTING,
        "recursive",
        Some('r'),
        "no-r",
        "Directories with all that is in them",
        |wish, on| {
            wish.recursive = if on { Recursion::Yes } else { Recursion::No };
        }
    ),
    switch!(
        SELECTING,
        "links",
        Some('l'),
        "no-l",
        "Symbolic links as links; else they are left out",
        |wish, on| {
            wish.mirror.links = on;
        }
    ),
    flag!(
        SELECTING,
        "copy-links",
        Some('L'),
        "What symbolic links point to, in their place",
        |wish, on| {
            wish.copy_links = on;
        }
    ),
    Word {
        aliases: &["ignore-non-existing"],
        ..flag!(SELECTING, "existing", None, "Only what DEST has already", |wish, on| {
            wish.mirror.existing_only = on;
        })
    },
    flag!(SELECTING, "ignore-existing", None, "Only files that DEST has not", |wish, on| {
        wish.ignore_existing = on;
    }),
    flag!(SELECTING, "update", Some('u'), "Skip files that are newer in DEST", |wish, on| {
        wish.update = on;
    }),
    value!(
        SELECTING,
        "min-size",
        None,
        &[],
        "SIZE",
        "Skip files below this size",
        |wish, value| {
            wish.mirror.size_min = Some(size(value)?);
            Ok(())
        }
    ),
    value!(
        SELECTING,
        "max-size",
        None,
        &[],
        "SIZE",
        "Skip files above this size",
        |wish, value| {
            wish.mirror.size_max = Some(size(value)?);
            Ok(())
        }
    ),
    flag!(
        COMPARING,
        "ignore-times",
        Some('I'),
        "Copy files even if size and time agree",
        |wish, on| {
            wish.ignore_times = on;
        }
    ),
    flag!(COMPARING, "size-only", None, "Skip files of which the size agrees", |wish, on| {
        wish.mirror.sameness = if on { Sameness::Size } else { Sameness::SizeAndTime };
    }),
    switch!(
        COMPARING,
        "checksum",
        Some('c'),
        "no-c",
        "Skip files of which size and content agree: both sides read them",
        |wish, on| {
            wish.checksum = on;
        }
    ),
    value!(
        COMPARING,
        "modify-window",
        Some('@'),
        &[],
        "SECONDS",
        "Times so far apart agree; -1 compares nanoseconds",
        |wish, value| {
            wish.window = number(value)?;
            Ok(())
        }
    ),
    switch!(
        COMPARING,
        "whole-file",
        Some('W'),
        "no-W",
        "Send changed files whole, not only what differs",
        |wish, on| {
            wish.whole_file = on;
        }
    ),
    value!(
        COMPARING,
        "block-size",
        Some('B'),
        &[],
        "SIZE",
        "Find what differs by blocks of this size",
        |wish, value| {
            let len = u32::try_from(size(value)?).ok().filter(|len| *len <= BLOCK_SIZE_MAX);
            let len = len.ok_or("it is more than 128 KiB")?;
            wish.mirror.block_len = (len > 0).then_some(len);
            Ok(())
        }
    ),
    switch!(KEEPING, "hard-links", Some('H'), "no-H", "Names of one file as such", |wish, on| {
        wish.hard_links = on;
    }),
    switch!(KEEPING, "perms", Some('p'), "no-p", "Permissions", |wish, on| wish.perms = on),
    flag!(
        KEEPING,
        "executability",
        Some('E'),
        "Without -p: files can be executed as in the source, or can't",
        |wish, on| {
            wish.executability = on;
        }
    ),
    value!(
        KEEPING,
        "chmod",
        None,
        &[],
        "MODES",
        "Change modes of the sources: 'Du=rwx,Fgo-w'",
        given::chmod
    ),
    value!(
        KEEPING,
        "chown",
        None,
        &[],
        "USER:GROUP",
        "The owner and the group of all that is copied",
        given::chown
    ),
    value!(
        KEEPING,
        "usermap",
        None,
        &[],
        "FROM:TO,...",
        "Users that become others: names, numbers, patterns",
        given::usermap
    ),
    value!(
        KEEPING,
        "groupmap",
        None,
        &[],
        "FROM:TO,...",
        "Groups that become others",
        given::groupmap
    ),
    switch!(KEEPING, "times", Some('t'), "no-t", "Modification times", |wish, on| wish.times = on),
    switch!(KEEPING, "owner", Some('o'), "no-o", "Owners (root only)", |wish, on| wish.owner = on),
    switch!(KEEPING, "group", Some('g'), "no-g", "Groups", |wish, on| wish.group = on),
    switch!(KEEPING, "acls", Some('A'), "no-A", "Access control lists", |wish, on| {
        wish.acls = on;
        wish.perms |= on;
    }),
    switch!(KEEPING, "xattrs", Some('X'), "no-X", "Extended attributes", |wish, on| {
        wish.xattrs = on;
    }),
    switch!(KEEPING, "atimes", Some('U'), "no-U", "Times of the last reading", |wish, on| {
        // rsync has it mean the other one, too, if it is there twice.
        wish.mirror.keeps_atimes |= on && wish.atimes;
        wish.atimes = on;
    }),
    switch!(
        KEEPING,
        "open-noatime",
        None,
        "",
        "Leave times of the last reading as they are, where the system lets the user",
        |wish, on| {
            wish.mirror.keeps_atimes = on;
        }
    ),
    switch!(KEEPING, "omit-dir-times", Some('O'), "no-O", "No times of directories", |wish, on| {
        wish.omits_dir_times = on;
    }),
    switch!(KEEPING, "omit-link-times", Some('J'), "no-J", "No times of links", |wish, on| {
        wish.omits_link_times = on;
    }),
    switch!(
        KEEPING,
        "numeric-ids",
        None,
        "",
        "Numbers of users and groups, not names",
        |wish, on| {
            wish.numeric_ids = on;
        }
    ),
    switch!(KEEPING, "devices", None, "", "Device files (root only)", |wish, on| wish.devices = on),
    switch!(KEEPING, "specials", None, "", "FIFOs and sockets", |wish, on| wish.specials = on),
    switch!(KEEPING, "D", Some('D'), "", "The same as --devices --specials", |wish, on| {
        (wish.devices, wish.specials) = (on, on);
    }),
    switch!(
        WRITING,
        "partial",
        None,
        "",
        "Taken: what was interrupted is gone on with",
        |wish, on| {
            wish.partial = on;
        }
    ),
    value!(WRITING, "partial-dir", None, &[], "DIR", "Taken, as --partial", |wish, dir| {
        wish.partial_dir = Some(dir.to_owned());
        Ok(())
    }),
    flag!(WRITING, "P", Some('P'), "The same as --partial --progress", |wish, on| {
        (wish.partial, wish.progress) = (on, on);
    }),
    switch!(
        KEEPING,
        "sparse",
        Some('S'),
        "no-S",
        "Make holes of runs of zeros, too: holes are always kept",
        |wish, on| {
            wish.sparse = on;
        }
    ),
    switch!(
        WRITING,
        "backup",
        Some('b'),
        "no-b",
        "Keep what is replaced or removed",
        |wish, on| {
            wish.backup = on;
        }
    ),
    value!(
        WRITING,
        "backup-dir",
        None,
        &[],
        "DIR",
        "Keep it in DIR, on DEST's machine",
        |wish, value| {
            wish.backup_dir = Some(value.to_owned());
            Ok(())
        }
    ),
    value!(
        WRITING,
        "suffix",
        None,
        &[],
        "SUFFIX",
        "The end of its name: ~ unless there is a DIR",
        |wish, value| {
            wish.suffix = Some(value.to_owned());
            Ok(())
        }
    ),
    value!(
        WRITING,
        "compare-dest",
        None,
        &[],
        "DIR",
        "Leave out files that are the same in DIR",
        |wish, value| {
            wish.bases.push((Bases::Compare, value.to_owned()));
            Ok(())
        }
    ),
    value!(
        WRITING,
        "copy-dest",
        None,
        &[],
        "DIR",
        "Copy files from DIR, on DEST's machine, that are the same there",
        |wish, value| {
            wish.bases.push((Bases::Copy, value.to_owned()));
            Ok(())
        }
    ),
    value!(
        WRITING,
        "link-dest",
        None,
        &[],
        "DIR",
        "Make files hard links to those in DIR that are the same",
        |wish, value| {
            wish.bases.push((Bases::Link, value.to_owned()));
            Ok(())
        }
    ),
    switch!(
        WRITING,
        "dry-run",
        Some('n'),
        "no-n",
        "Change nothing: tell what would be done",
        |wish, on| {
            wish.dry_run = on;
        }
    ),
    flag!(WRITING, "mkpath", None, "Make the directories above DEST, too", |wish, on| {
        wish.mirror.makes_path = on;
    }),
    flag!(WRITING, "fsync", None, "End only when all would survive a power cut", |wish, on| {
        wish.fsync = on;
    }),
];

pub(super) fn text(value: &OsStr) -> Result<String, &'static str> {
    value.to_str().map(str::to_owned).ok_or("it is not UTF-8")
}
