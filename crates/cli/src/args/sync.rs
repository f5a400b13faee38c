//! The command line of `haul sync`: rsync's options. Their order matters: a later option overrides
//! an earlier one, and `-a` sets the options that it stands for.

pub(crate) mod list;
mod old_args;
mod reading;
mod switches;
mod table;
mod writing;

use self::reading::number;
pub(crate) use self::reading::{rate, size};
pub(super) use self::switches::has;
use self::switches::{Given, Switches};
use super::Copy;
use super::filter::FilterArgs;
use super::help::SYNC_USAGE;
use super::remote::{HostResolver, transfer_options};
use crate::config::{self, Config, Setting, Settings, from_command_line};
use crate::deadline::Deadline;
use crate::error::CommandError;
use crate::lines::{Columns, Lines};
use crate::report::{Detail, Show};
use clap::{ArgAction, Args, ValueHint};
use haul::{DeleteTiming, Location, Machine, Request};
use haul_engine::Links;
use haul_model::{
    Altered, Bases, Compression, Conflict, Delete, Kept, Mirror, Moving, Place, PlaceError, Policy,
    Relative, Resume, Sameness, Sides, Style, Walking,
};
use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// `haul sync`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sync {
    pub(crate) copy: Copy,
    pub(crate) mirror: Mirror,
    pub(crate) when: DeleteTiming,
    /// Remove files and links of the sources once the destination has them.
    pub(crate) removes_sources: bool,
    /// Only list the sources, with these columns.
    pub(crate) list: Option<Columns>,
    /// The list of paths, if it is on the host.
    pub(crate) remote_list: Option<list::RemoteList>,
    /// The statistics printed at the end.
    pub(crate) stats: Stats,
    /// The format of lengths in them: 0 digits, 1 with separators, 2 and more with units.
    pub(crate) readable: u8,
}

/// The statistics that a mirror prints at its end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Stats {
    #[default]
    None,
    /// One line about the work done.
    Line,
    /// The lines of rsync, then that line.
    Block,
}

/// The arguments, as clap parses them.
#[derive(Debug, Args)]
pub(super) struct SyncArgs {
    /// The sources and, last, the destination.
    #[arg(value_name = "SOURCE", required = true, hide = true, value_hint = ValueHint::AnyPath)]
    paths: Vec<OsString>,

    #[command(flatten)]
    filter: FilterArgs<true>,

    #[command(flatten)]
    switches: Switches,

    #[arg(long)]
    json: bool,

    #[arg(short = 'V', long, action = ArgAction::Version)]
    version: Option<bool>,
}

/// The attributes of `--perms`.
const PERMS: Kept = Kept::MODE.with(Kept::SET_ID).with(Kept::LENT);

/// The combined effect of all options.
#[derive(Debug, Default)]
struct SyncOptions {
    recursive: Recursion,
    dirs: Option<bool>,
    relative: Option<bool>,
    /// `--no-implied-dirs`: with kept paths, their parent directories get no attributes.
    no_implied_dirs: bool,
    files_from: Option<OsString>,
    copy_links: bool,
    munges: bool,
    removes_sources: bool,
    log_file: Option<OsString>,
    log_format: Option<OsString>,
    in_place: bool,
    append: bool,
    partial: bool,
    partial_dir: Option<OsString>,
    list_only: bool,
    eight_bit: bool,
    /// The last of `--old-args` and its opposite; `None` without either.
    old_args: Option<bool>,
    secluded_args: bool,
    /// The format of lengths in lists and figures: 0 digits, 1 with separators, 2 and more with
    /// units.
    readable: u8,
    ignore_times: bool,
    ignore_existing: bool,
    checksum: bool,
    whole_file: bool,
    mirror: Mirror,
    policy: Policy,
    bases: Vec<(Bases, OsString)>,
    backup: bool,
    backup_dir: Option<OsString>,
    suffix: Option<OsString>,
    temp_dir: Option<OsString>,
    /// Tolerance for comparing times, in seconds; `-1`: to the nanosecond.
    window: Option<i64>,
    deletes: bool,
    when: Option<DeleteTiming>,
    /// The group of the option that set `when`.
    when_group: Option<&'static str>,
    /// Options of different groups have set `when`.
    has_conflicting_when: bool,
    /// Send files that were only renamed.
    no_moves: bool,
    /// Skip the question at a terminal.
    yes: bool,
    delete: Delete,
    deletes_excluded: bool,
    from0: bool,
    force: bool,
    /// The attributes that options preserve or do not preserve.
    keeps: Kept,
    altered: Altered,
    /// The option that maps users, and the one that maps groups.
    mapped: [Option<&'static str>; 2],
    omits_dir_times: bool,
    omits_link_times: bool,
    fsync: bool,
    verbose: u8,
    info: Info,
    quiet: bool,
    itemize: u8,
    out_format: Option<OsString>,
    stats: Stats,
    progress: bool,
    /// The settings that options set, without the compression.
    settings: Settings,
    /// The last of `-z` and `--no-z`.
    compressed: Option<bool>,
    /// The codec, and zstd's level, if options set them.
    compression: Option<Compression>,
    level: Option<u8>,
    /// Do not use the chunk cache.
    no_cache: bool,
    /// `--fake-super` on this side, and on the other side.
    fake_super_here: bool,
    fake_super_there: Option<bool>,
    /// `--no-super`: owners and devices, which need root, are not preserved.
    no_super: bool,
    /// The time at which the command ends, even if work is left.
    deadline: Option<Deadline>,
    /// Follow links of other users, on this side and on the other side.
    foreign_links: bool,
    foreign_links_there: bool,
}

/// How directories are taken with their content.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Recursion {
    #[default]
    No,
    /// Set by `-a`: has no effect with a list of paths.
    ByArchive,
    Yes,
}

/// The answer to `--info=help` or `--debug=help` among `words`.
pub(super) fn flags_help(words: &[OsString]) -> Option<String> {
    let words = || {
        let words = words.iter().take_while(|word| *word != "--");
        words.map(|word| word.to_str().unwrap_or_default())
    };
    words().zip(words().skip(1).chain([""])).find_map(|(word, next)| {
        let (word, value) = word.split_once('=').unwrap_or((word, next));
        let asks = value.split(',').any(|flag| flag.eq_ignore_ascii_case("help"));
        match word {
            "--info" if asks => Some(help()),
            "--debug" if asks => Some(table::debug_help()),
            _ => None,
        }
    })
}

impl SyncArgs {
    pub(super) fn into_sync(mut self, config: &Config) -> Result<Sync, CommandError> {
        let mut options = SyncOptions { readable: 1, keeps: Kept::NONE, ..SyncOptions::default() };
        for (_, given) in &self.switches.given {
            match given {
                Given::On(word, value) => word.apply(&mut options, true, value)?,
                Given::Off(word) => word.apply(&mut options, false, OsStr::new(""))?,
            }
        }
        let settings = options.settings()?;
        options.list_only |= self.paths.len() == 1;
        let is_alone = self.paths.len() == 1;
        let splits = old_args::is_enabled(options.old_args, options.secluded_args)?;
        let paths = std::mem::take(&mut self.paths);
        let paths = if splits { old_args::split(paths) } else { paths };
        let resolver = HostResolver::new(settings.clone(), config);
        let (sources, dest) = match is_alone {
            true => (resolver.locations(&paths)?, Location::root()),
            false => resolver.sources_and_dest(&paths, SYNC_USAGE)?,
        };
        let transfer_options =
            transfer_options(settings, &sources, &dest, options.no_cache, config);
        let detail = match (self.json, options.quiet) {
            (true, _) => Detail::Json,
            (_, true) => Detail::Text(Show::Quiet),
            _ => Detail::Text(Show::Normal),
        };
        let (list, remote_list) = options.list(&sources, &dest)?.unzip();
        let remote_list = remote_list.flatten();
        let mirror = options.with_fake_super(options.mirror()?, &sources, &dest)?;
        for source in sources.iter().filter(|_| list.is_none()) {
            if let Err(error @ PlaceError::Parent) =
                Place::of(&source.path, None, mirror.walking.relative)
            {
                return Err(CommandError::usage(format!("{source}: {error}")));
            }
        }
        let bases = options.bases.iter().map(|(_, path)| path.as_bytes().to_vec()).collect();
        let request = Request {
            recursive: options.is_recursive() || mirror.walking.only_dirs,
            follow: options.copy_links,
            filter: options.with_implied_rules(self.rules(options.style(), options.links())?)?,
            policy: options.policy(),
            altered: options.altered.clone(),
            bases,
            backup: options.backup()?,
            staging: options.temp_dir.as_ref().map(|dir| dir.as_bytes().to_vec()),
            list,
            munges: options.munges,
            transfer_options,
            ..Request::new(sources, dest)
        };
        let copy = Copy {
            lines: options.lines(self.json)?,
            asks: options.asks() && !self.json,
            deadline: options.deadline,
            ..Copy::of(request, detail)
        };
        let stats = match options.quiet {
            true => Stats::None,
            false => options.info.figures(options.verbose, options.stats),
        };
        let when = options.when.unwrap_or_default();
        let removes_sources = options.removes_sources && !options.policy.dry_run;
        let (readable, atimes, targets) =
            (options.readable, options.keeps.has(Kept::ATIMES), mirror.links);
        let list = options.list_only.then_some(Columns { readable, atimes, targets });
        Ok(Sync { copy, mirror, when, removes_sources, list, remote_list, stats, readable })
    }
}

impl SyncOptions {
    /// True if directories are taken with their content.
    fn is_recursive(&self) -> bool {
        match self.recursive {
            Recursion::No => false,
            Recursion::ByArchive => self.files_from.is_none(),
            Recursion::Yes => true,
        }
    }

    /// The command that reaches a host, from the options or from `RSYNC_RSH`. haul's own variable
    /// takes precedence over `RSYNC_RSH`.
    fn rsh(&self) -> Result<Option<Setting<String>>, CommandError> {
        const VARIABLE: &str = "RSYNC_RSH";
        let given = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
        if self.settings.rsh.is_some() || given(&config::variable("rsh")).is_some() {
            return Ok(self.settings.rsh.clone());
        }
        let words = given(VARIABLE).map(OsString::into_string).transpose();
        let words =
            words.map_err(|_| CommandError::usage(format!("{VARIABLE}: it is not UTF-8")))?;
        Ok(words.map(from_command_line))
    }

    /// True if the user is asked before most of the destination is removed.
    fn asks(&self) -> bool {
        self.deletes && !self.yes && !self.policy.dry_run && !self.list_only
    }

    /// The paths of `--files-from`, if given.
    fn list(
        &self,
        sources: &[Location],
        dest: &Location,
    ) -> Result<Option<list::Paths>, CommandError> {
        let Some(file) = &self.files_from else { return Ok(None) };
        let [source] = sources else {
            let message = "--files-from needs exactly one source: the directory of the paths";
            return Err(CommandError::usage(message));
        };
        let host = if source.machine == haul::Machine::Local { dest } else { source };
        list::read(file, self.from0, self.links(), &host.machine).map(Some)
    }

    /// The style of rules. With `--delete-excluded` a plain rule applies only to the Sender.
    fn style(&self) -> Style {
        let plain = if self.deletes_excluded { Sides::Sender } else { Sides::Both };
        Style { plain, zeros: self.from0, ..Style::default() }
    }

    fn policy(&self) -> Policy {
        let conflict = match (self.ignore_existing, self.sameness()) {
            (true, _) => Conflict::Keep,
            (_, Sameness::None) => Conflict::ReplaceAll,
            _ => Conflict::ReplaceChanged,
        };
        Policy {
            conflict,
            // Sources are removed only after their copies are durable.
            sync: self.fsync || self.removes_sources,
            moving: (self.removes_sources && !self.policy.dry_run).then_some(Moving::Lossy),
            keeps: self.keeps(),
            // A partial file would be searched in the wrong directory: where the file is to appear.
            resume: if self.temp_dir.is_some() { Resume::Never } else { Resume::default() },
            ..self.policy
        }
    }

    /// All attributes to preserve.
    fn keeps(&self) -> Kept {
        let times = self.keeps.has(Kept::TIMES);
        // As in rsync: backups beside their files change the times of directories.
        let omits_dir_times = self.omits_dir_times || self.has_sibling_backups();
        // Owners and devices need root.
        let of_root = Kept::USER.with(Kept::DEVICES).only_if(self.no_super);
        self.keeps
            .with(PERMS.only_if(self.keeps.has(Kept::ACL)))
            .with(Kept::DIR_TIMES.only_if(times && !omits_dir_times))
            .with(Kept::LINK_TIMES.only_if(times && !self.omits_link_times))
            .without(of_root)
    }

    /// Turns the preservation of attributes on or off.
    fn keep(&mut self, attributes: Kept, on: bool) {
        self.keeps = match on {
            true => self.keeps.with(attributes),
            false => self.keeps.without(attributes),
        };
    }

    fn mirror(&self) -> Result<Mirror, CommandError> {
        let (recursive, has_list) = (self.is_recursive(), self.files_from.is_some());
        let only_dirs = self.dirs.unwrap_or(has_list || self.list_only) && !recursive;
        let relative = match (self.relative.unwrap_or(has_list), self.no_implied_dirs) {
            (false, _) => Relative::No,
            (true, false) => Relative::Yes,
            (true, true) => Relative::WithoutImplied,
        };
        if self.has_conflicting_when {
            let message = "--delete-before, --delete-during and --delete-after exclude each other";
            return Err(CommandError::usage(message));
        }
        if self.deletes && !recursive && !only_dirs {
            let message = "--delete does not work without --recursive (-r) or --dirs (-d)";
            return Err(CommandError::usage(message));
        }
        Ok(Mirror {
            walking: Walking { only_dirs, relative, ..self.mirror.walking },
            window: u32::try_from(self.window.unwrap_or_default()).ok(),
            bases: self.base_mode()?,
            sameness: self.sameness(),
            replaces_dirs: self.force || self.deletes,
            delete: self.deletes.then_some(self.delete),
            delta: !self.whole_file && !self.policy.trusts_transit,
            updating: self.updating()?,
            renames: self.renames()?,
            preallocates: self.mirror.preallocates && !self.mirror.writes_sparse,
            ..self.mirror
        })
    }
}

impl SyncOptions {
    /// The links that are followed in local paths of the command line.
    fn links(&self) -> Links {
        if self.foreign_links { Links::All } else { Links::Own }
    }

    /// Sets the sides with `--fake-super` in `mirror`. As in rsync, the other side is the remote
    /// one. In a local copy it is DEST, which does as this side unless an option says otherwise.
    fn with_fake_super(
        &self,
        mirror: Mirror,
        sources: &[Location],
        dest: &Location,
    ) -> Result<Mirror, CommandError> {
        let is_here = |location: &Location| location.machine == Machine::Local;
        let (from_here, to_here) = (sources.iter().all(is_here), is_here(dest));
        let there = self.fake_super_there.unwrap_or(self.fake_super_here && from_here && to_here);
        let (fakes_sources, fakes_dest) =
            if from_here { (self.fake_super_here, there) } else { (there, self.fake_super_here) };
        if (fakes_sources || fakes_dest) && self.removes_sources {
            let message = "--remove-source-files and --fake-super exclude each other: haul could not verify the copies";
            return Err(CommandError::usage(message));
        }
        let foreign_links = if to_here { self.foreign_links } else { self.foreign_links_there };
        Ok(Mirror { fakes_sources, fakes_dest, foreign_links, ..mirror })
    }
}

/// The value of `--info`: the kinds of messages, each with a level. It overrides `-v` and `--stats`,
/// in whichever order they are given.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Info([Option<u8>; SHOWN_FLAGS]);

/// The number of [`FLAGS`] that stand for themselves alone.
const SHOWN_FLAGS: usize = 7;

/// Flags that have no effect in haul.
const IGNORED_FLAGS: [&str; 6] = ["copy", "flist", "misc", "mount", "nonreg", "remove"];

/// The flags of `--info` and their help.
const FLAGS: [(&str, &str); 9] = [
    ("NAME", "Names of updated entries; level 2 with -i also unchanged ones"),
    ("DEL", "Removed entries"),
    ("BACKUP", "Backups"),
    ("SKIP", "Files skipped because the destination's is newer or exists"),
    ("SYMSAFE", "Symbolic links that --safe-links leaves out"),
    ("PROGRESS", "Progress, once a second"),
    ("STATS", "Figures: level 1 one line, level 2 a block"),
    ("ALL", "All of these, at this level"),
    ("NONE", "None of these"),
];

/// The answer to `--info=help`.
fn help() -> String {
    let flags: String = FLAGS.iter().map(|(flag, what)| format!("  {flag:<9} {what}\n")).collect();
    let others = IGNORED_FLAGS.map(str::to_uppercase).join(", ");
    format!(
        "FLAG or FLAG1 is level 1, FLAG2 level 2; FLAG0 turns it off. Several are separated by commas.\n\n{flags}\nAccepted without effect: {others}\n"
    )
}

/// The position of a flag among [`FLAGS`].
fn position(name: &str) -> Option<usize> {
    FLAGS[..SHOWN_FLAGS].iter().position(|(flag, _)| flag.eq_ignore_ascii_case(name))
}

impl Info {
    /// Applies one value. It overrides earlier ones.
    ///
    /// # Errors
    /// If rsync has no such flag.
    fn take(&mut self, value: &str) -> Result<(), &'static str> {
        for flag in value.split(',') {
            let flag = flag.to_ascii_lowercase();
            let name = flag.trim_end_matches(|c: char| c.is_ascii_digit());
            let level = match &flag[name.len()..] {
                "" => 1,
                digits => digits.parse().unwrap_or(u8::MAX),
            };
            match name {
                "none" => self.0.fill(Some(0)),
                "all" => self.0.fill(Some(level)),
                name => match position(name) {
                    Some(at) => self.0[at] = Some(level),
                    None if IGNORED_FLAGS.contains(&name) => {}
                    None => return Err("not a flag of rsync"),
                },
            }
        }
        Ok(())
    }

    /// The requested level of one of the flags.
    fn level(self, flag: &str) -> Option<u8> {
        self.0[position(flag)?]
    }

    /// True if the level of the flag, or else the `default`, asks for its messages.
    fn is_shown(self, flag: &str, default: bool) -> bool {
        self.level(flag).map_or(default, |level| level > 0)
    }

    /// The statistics; `requested` is the value of `--stats`.
    fn figures(self, verbose: u8, requested: Stats) -> Stats {
        match (self.level("stats"), requested) {
            (Some(0), _) => Stats::None,
            (Some(1), _) => Stats::Line,
            (Some(_), _) => Stats::Block,
            (None, Stats::None) if verbose > 0 => Stats::Line,
            (None, requested) => requested,
        }
    }
}

impl SyncOptions {
    /// The lines about entries. With `--quiet` there are none, except in JSON.
    fn lines(&self, is_json: bool) -> Result<Lines, CommandError> {
        let names = self.info.level("name").unwrap_or(self.verbose);
        let prints_backups = self.info.is_shown("backup", self.verbose > 1) && !self.policy.dry_run;
        let mut lines = Lines::new(self.itemize, names, self.out_format.as_deref())?;
        lines.prints_removed = self.info.is_shown("del", self.verbose > 0);
        lines.prints_unsafe = self.info.is_shown("symsafe", self.verbose > 0);
        lines.prints_skipped = self.info.is_shown("skip", self.verbose > 1);
        lines.prints_progress = self.info.is_shown("progress", self.progress);
        lines.prints_created = names > 0 || lines.itemizes;
        lines.backup = self.backup()?.filter(|_| prints_backups);
        lines.eight_bit = self.eight_bit;
        lines.keeps_times = self.keeps.has(Kept::TIMES);
        lines.keeps_link_times = !self.omits_link_times;
        let (log, format) = (self.log_file.as_deref(), self.log_format.as_deref());
        let lines = lines.with_log(log, self.links(), format)?;
        Ok(if self.quiet && !is_json { lines.log_only() } else { lines })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn info_overrides_the_option_for_progress() {
        let tells = |values: &[&str], requested| {
            let mut info = Info::default();
            values.iter().for_each(|value| info.take(value).expect("a known part"));
            info.is_shown("progress", requested)
        };
        assert!(!tells(&[], false) && tells(&[], true));
        assert!(tells(&["progress2"], false) && tells(&["name,progress"], false));
        assert!(!tells(&["progress0"], true) && !tells(&["none"], true));
    }
}
