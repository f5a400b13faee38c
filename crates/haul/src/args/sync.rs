//! The words of `haul sync`, which are those of rsync. Their order counts: what a later
//! word says replaces what an earlier one said, and `-a` is the words that it stands for.

mod absent;
mod given;
mod table;

use self::absent::{ABSENT, Absent, refuse_daemon};
use super::familiar::COMPRESS;
use super::filter::FilterWords;
use super::help::SYNC_USAGE;
use super::remote::{RemoteWords, Typed};
use super::{Copy, Note, Sync};
use crate::config::{Config, Transport};
use crate::error::CommandError;
use crate::lines::Lines;
use crate::report::{Detail, Show};
use clap::{Arg, ArgAction, ArgMatches, Args, FromArgMatches, ValueHint, value_parser};
use haul_model::{
    Altered, Backup, Bases, Conflict, Delete, Kept, Mirror, Policy, Sameness, Sides, Style, Walking,
};
use std::ffi::{OsStr, OsString};
use std::num::NonZeroU64;
use std::os::unix::ffi::OsStrExt;
use table::{TABLE, Turn, Word};

/// The words, as they are typed.
#[derive(Debug, Args)]
pub(super) struct SyncWords {
    /// The sources and, last, the destination.
    #[arg(value_name = "SOURCE", required = true, hide = true, value_hint = ValueHint::AnyPath)]
    paths: Vec<OsString>,

    #[command(flatten)]
    filter: FilterWords<true>,

    #[command(flatten)]
    switches: Switches,

    /// Tell events as JSON, one object a line
    #[arg(long, help_heading = "Telling")]
    json: bool,
}

/// Those that are in [`TABLE`], in the order in which they were given.
#[derive(Debug, Default)]
struct Switches {
    given: Vec<(usize, Given)>,
}

/// One of them.
#[derive(Debug, Clone)]
enum Given {
    On(&'static Word, OsString),
    Off(&'static Word),
}

impl Args for Switches {
    fn augment_args(command: clap::Command) -> clap::Command {
        let command = TABLE.iter().copied().flatten().fold(command, |command, word| {
            let mut arg = Arg::new(word.long)
                .long(word.long)
                .help(word.help)
                .help_heading(word.heading)
                .hide(word.help.is_empty())
                .aliases(word.aliases.iter().copied());
            arg = match word.turn {
                Turn::Flag(_) => arg.action(ArgAction::Count),
                Turn::Value(name, _) => arg
                    .action(ArgAction::Append)
                    .value_name(name)
                    .value_parser(value_parser!(OsString))
                    .allow_hyphen_values(true),
            };
            if let Some(short) = word.short {
                arg = arg.short(short);
            }
            let command = command.arg(arg);
            if !word.has_opposite {
                return command;
            }
            let mut off = Arg::new(word.off).long(word.off).action(ArgAction::Count).hide(true);
            if !word.off_short.is_empty() {
                off = off.alias(word.off_short);
            }
            command.arg(off)
        });
        ABSENT.iter().fold(command, |command, absent| {
            let mut arg = Arg::new(absent.long).long(absent.long).hide(true);
            arg = match absent.takes_value {
                true => arg.action(ArgAction::Append).value_parser(value_parser!(OsString)),
                false => arg.action(ArgAction::Count),
            };
            if let Some(short) = absent.short {
                arg = arg.short(short);
            }
            command.arg(arg)
        })
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Switches {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut words = Self::default();
        words.update_from_arg_matches(matches)?;
        Ok(words)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        let is_given = |absent: &&Absent| match absent.takes_value {
            true => matches.contains_id(absent.long),
            false => matches.get_count(absent.long) > 0,
        };
        if let Some(absent) = ABSENT.iter().find(is_given) {
            let error = clap::Error::raw(
                clap::error::ErrorKind::UnknownArgument,
                format!("haul sync has no --{}: {}\n", absent.long, absent.instead),
            );
            return Err(error);
        }
        for word in TABLE.iter().copied().flatten() {
            match word.turn {
                Turn::Flag(_) if matches.get_count(word.long) > 0 => {
                    // Only the last has its place.
                    let last = matches.indices_of(word.long).into_iter().flatten().last();
                    for _ in 0..matches.get_count(word.long) {
                        let given = Given::On(word, OsString::new());
                        self.given.extend(last.map(|at| (at, given)));
                    }
                }
                Turn::Flag(_) => {}
                Turn::Value(..) => {
                    let values = matches.get_many::<OsString>(word.long).into_iter().flatten();
                    let places = matches.indices_of(word.long).into_iter().flatten();
                    let given = places.zip(values);
                    self.given
                        .extend(given.map(|(at, value)| (at, Given::On(word, value.clone()))));
                }
            }
            if word.has_opposite && matches.get_count(word.off) > 0 {
                let places = matches.indices_of(word.off).into_iter().flatten();
                self.given.extend(places.map(|at| (at, Given::Off(word))));
            }
        }
        self.given.sort_by_key(|(at, _)| *at);
        Ok(())
    }
}

/// Everything that the switches say.
#[derive(Debug, Default)]
struct Wish {
    recursive: bool,
    copy_links: bool,
    update: bool,
    ignore_times: bool,
    ignore_existing: bool,
    checksum: bool,
    whole_file: bool,
    mirror: Mirror,
    bases: Vec<(Bases, OsString)>,
    backup: bool,
    rate: Option<NonZeroU64>,
    backup_dir: Option<OsString>,
    suffix: Option<OsString>,
    /// Times are compared like this: seconds, or `-1` to the nanosecond.
    window: i64,
    deletes: bool,
    when: When,
    delete: Delete,
    deletes_excluded: bool,
    from_zeros: bool,
    force: bool,
    perms: bool,
    times: bool,
    owner: bool,
    group: bool,
    acls: bool,
    xattrs: bool,
    executability: bool,
    hard_links: bool,
    altered: Altered,
    /// The words that have said which users, and which groups, become others.
    mapped: [Option<&'static str>; 2],
    atimes: bool,
    omits_dir_times: bool,
    omits_link_times: bool,
    numeric_ids: bool,
    devices: bool,
    specials: bool,
    dry_run: bool,
    fsync: bool,
    verbose: u8,
    quiet: bool,
    itemize: u8,
    out_format: Option<OsString>,
    stats: bool,
    progress: bool,
    rsh: Option<String>,
    remote_haul: Option<String>,
    timeout: Option<u32>,
    transport: Option<Transport>,
    compress: bool,
}

/// The time at which a mirror removes what the sources do not have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum When {
    /// In each directory, as soon as all names in it are known.
    #[default]
    During,
    /// Before anything is copied.
    Before,
    /// When all is copied.
    After,
}

impl SyncWords {
    pub(super) fn into_sync(self, config: &Config) -> Result<Sync, CommandError> {
        let mut wish = Wish::default();
        for (_, given) in &self.switches.given {
            match given {
                Given::On(word, value) => word.apply(&mut wish, true, value)?,
                Given::Off(word) => word.apply(&mut wish, false, OsStr::new(""))?,
            }
        }
        let typed = Typed {
            rsh: wish.rsh.clone(),
            remote_haul: wish.remote_haul.clone(),
            timeout: wish.timeout,
            transport: wish.transport,
        };
        refuse_daemon(&self.paths)?;
        let (sources, dest, reaches) =
            RemoteWords::of(typed).sources_and_dest(&self.paths, SYNC_USAGE, config)?;
        let detail = match (self.json, wish.quiet) {
            (true, _) => Detail::Json,
            (_, true) => Detail::Text(Show::Quiet),
            _ => Detail::Text(Show::Normal),
        };
        let mirror = wish.mirror()?;
        let bases = wish.bases.iter().map(|(_, path)| path.as_bytes().to_vec()).collect();
        let copy = Copy {
            sources,
            dest,
            reaches,
            recursive: wish.recursive || wish.mirror.walking.only_dirs,
            follow: wish.copy_links,
            filter: self.filter.rules(wish.style())?,
            policy: wish.policy(),
            altered: wish.altered.clone(),
            detail,
            notes: wish.notes(),
            lines: Lines::new(wish.itemize, wish.verbose, wish.out_format.as_deref())?
                .keeping_times(wish.times),
            bases,
            backup: wish.backup()?,
            rate: wish.rate,
        };
        let (when, stats) = (wish.when, wish.stats || wish.verbose > 0);
        Ok(Sync { copy, mirror, when, stats })
    }
}

impl Wish {
    fn notes(&self) -> Vec<Note> {
        self.compress.then_some(COMPRESS).into_iter().collect()
    }

    /// Rules that don't say it are not about what is removed if that is to go, too.
    fn style(&self) -> Style {
        let plain = if self.deletes_excluded { Sides::Sender } else { Sides::Both };
        Style { plain, zeros: self.from_zeros, ..Style::default() }
    }

    fn policy(&self) -> Policy {
        let conflict = match (self.ignore_existing, self.ignore_times) {
            (true, _) => Conflict::Keep,
            (_, true) => Conflict::ReplaceAll,
            _ => Conflict::ReplaceChanged,
        };
        Policy {
            conflict,
            dry_run: self.dry_run,
            sync: self.fsync,
            keeps: self.keeps(),
            numeric_ids: self.numeric_ids,
            ..Policy::default()
        }
    }

    /// All that is kept.
    fn keeps(&self) -> Kept {
        let times = self.times;
        // As with rsync: backups beside what they are of change the times of directories.
        let backs_up_beside = self.backup && self.backup_dir.is_none();
        let perms = Kept::MODE.with(Kept::SET_ID).with(Kept::LENT);
        perms
            .only_if(self.perms || self.acls)
            .with(Kept::TIMES.only_if(times))
            .with(Kept::DIR_TIMES.only_if(times && !self.omits_dir_times && !backs_up_beside))
            .with(Kept::LINK_TIMES.only_if(times && !self.omits_link_times))
            .with(Kept::USER.only_if(self.owner || !self.altered.users.is_empty()))
            .with(Kept::GROUP.only_if(self.group || !self.altered.groups.is_empty()))
            .with(Kept::ACL.only_if(self.acls))
            .with(Kept::XATTRS.only_if(self.xattrs))
            .with(Kept::ATIMES.only_if(self.atimes))
            .with(Kept::LINKS.only_if(self.hard_links))
            .with(Kept::DEVICES.only_if(self.devices))
            .with(Kept::SPECIALS.only_if(self.specials))
    }

    /// The backups, with the suffix that rsync gives them.
    fn backup(&self) -> Result<Option<Backup>, CommandError> {
        if !self.backup && self.backup_dir.is_none() {
            return Ok(None);
        }
        let dir = self.backup_dir.as_ref().map(|dir| dir.as_bytes().to_vec());
        let usual: &[u8] = if dir.is_some() { b"" } else { b"~" };
        let suffix = self.suffix.as_ref().map_or(usual, |suffix| suffix.as_bytes()).to_vec();
        if suffix.contains(&b'/') {
            return Err(CommandError::usage("--suffix must have no \"/\""));
        }
        if suffix.is_empty() && dir.is_none() {
            return Err(CommandError::usage("--suffix must not be empty without --backup-dir"));
        }
        Ok(Some(Backup { dir, suffix }))
    }

    fn how_bases_are_used(&self) -> Result<Option<Bases>, CommandError> {
        let Some((first, _)) = self.bases.first() else { return Ok(None) };
        if self.bases.iter().any(|(how, _)| how != first) {
            let message = "--compare-dest, --copy-dest and --link-dest exclude each other";
            return Err(CommandError::usage(message));
        }
        if self.bases.len() > Bases::MAX {
            let message = format!("there may be {} directories to look into", Bases::MAX);
            return Err(CommandError::usage(message));
        }
        if self.checksum {
            let message =
                "--checksum with --compare-dest, --copy-dest or --link-dest is not there yet";
            return Err(CommandError::usage(message));
        }
        Ok(Some(*first))
    }

    fn mirror(&self) -> Result<Mirror, CommandError> {
        let only_dirs = self.mirror.walking.only_dirs && !self.recursive;
        if self.deletes && !self.recursive && !only_dirs {
            let message = "--delete does not work without --recursive (-r) or --dirs (-d)";
            return Err(CommandError::usage(message));
        }
        Ok(Mirror {
            walking: Walking { only_dirs, ..self.mirror.walking },
            window: u32::try_from(self.window).ok(),
            skips_newer: self.update,
            bases: self.how_bases_are_used()?,
            sameness: if self.checksum { Sameness::Content } else { self.mirror.sameness },
            executability: self.executability,
            makes_way: self.force || self.deletes,
            delete: self.deletes.then_some(self.delete),
            delta: !self.whole_file,
            ..self.mirror
        })
    }
}

impl Word {
    fn apply(&self, wish: &mut Wish, on: bool, value: &OsStr) -> Result<(), CommandError> {
        match self.turn {
            Turn::Flag(turn) => {
                turn(wish, on);
                Ok(())
            }
            Turn::Value(_, take) => {
                let taken = if on { take(wish, value) } else { take(wish, OsStr::new("")) };
                taken.map_err(|why| {
                    let value = value.to_string_lossy();
                    CommandError::usage(format!("--{}={value}: {why}", self.long))
                })
            }
        }
    }
}

/// Reads a number.
fn number<T: std::str::FromStr>(value: &OsStr) -> Result<T, &'static str> {
    value.to_str().and_then(|text| text.parse().ok()).ok_or("it is no such number")
}

/// Reads a rate as rsync does, in KiB per second unless there is a unit; 0 is none.
fn rate(value: &OsStr) -> Result<Option<NonZeroU64>, &'static str> {
    let mut value = value.to_owned();
    if value.as_bytes().last().is_some_and(u8::is_ascii_digit) {
        value.push("k");
    }
    Ok(NonZeroU64::new(size(&value)?))
}

/// Reads a size as rsync does: `10`, `1.5K`, `2MiB`, `3GB`, `4m+1`.
fn size(value: &OsStr) -> Result<u64, &'static str> {
    const WRONG: &str = "it is no size: a number, and K, M, G, T, with KB for 1,000 bytes";
    let text = value.to_str().ok_or(WRONG)?.to_ascii_lowercase();
    let (text, offset) = match (text.strip_suffix("+1"), text.strip_suffix("-1")) {
        (Some(text), _) => (text, 1.0),
        (_, Some(text)) => (text, -1.0),
        _ => (&*text, 0.0),
    };
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: f64 = number.parse().map_err(|_| WRONG)?;
    let (power, rest) = match unit.as_bytes() {
        [] | [b'b'] => (0, ""),
        [letter, ..] => {
            let power = b"bkmgtp".iter().position(|unit| unit == letter).ok_or(WRONG)?;
            (power as i32, &unit[1..])
        }
    };
    let base: f64 = match rest {
        "" | "ib" => 1024.0,
        "b" => 1000.0,
        _ => return Err(WRONG),
    };
    let bytes = number.mul_add(base.powi(power), offset);
    if bytes < 0.0 || bytes >= u64::MAX as f64 {
        return Err(WRONG);
    }
    Ok(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_rsync_reads_them() {
        for (text, bytes) in [
            ("0", 0),
            ("512", 512),
            ("512b", 512),
            ("1k", 1024),
            ("1.5K", 1536),
            ("2KB", 2000),
            ("3MiB", 3 << 20),
            ("1g", 1 << 30),
            ("1k-1", 1023),
            ("1K+1", 1025),
        ] {
            assert_eq!(size(OsStr::new(text)), Ok(bytes), "{text}");
        }
        for wrong in ["", "k", "1x", "1kk", "-5", "1 k", "1e3"] {
            assert!(size(OsStr::new(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn rates_are_read_as_rsync_reads_them() {
        for (text, bytes) in
            [("100", 102_400), ("1.5", 1536), ("2m", 2 << 20), ("500kb", 500_000), ("700b", 700)]
        {
            assert_eq!(rate(OsStr::new(text)), Ok(NonZeroU64::new(bytes)), "{text}");
        }
        assert_eq!(rate(OsStr::new("0")), Ok(None));
        assert!(rate(OsStr::new("fast")).is_err());
    }

    #[test]
    fn opposites_have_their_own_words() {
        for word in TABLE.iter().copied().flatten().filter(|word| word.has_opposite) {
            assert_eq!(word.off, format!("no-{}", word.long));
        }
    }
}
