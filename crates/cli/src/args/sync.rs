//! The command line of `haul sync`: rsync's options. Their order matters: a later option overrides
//! an earlier one, and `-a` sets the options that it stands for.

mod absent;
mod given;
mod info;
pub(crate) mod list;
mod moment;
mod old_args;
mod reading;
mod switches;
mod table;
mod writing;

pub(super) use self::absent::instead;
use self::info::Info;
use self::reading::number;
pub(crate) use self::reading::{rate, size};
pub(super) use self::switches::has;
use self::switches::{Given, Switches};
use super::filter::FilterWords;
use super::help::SYNC_USAGE;
use super::remote::{Way, passage};
use super::{Copy, Stats};
use crate::config::{self, Config, KeepFor, Rate, Transport};
use crate::error::CommandError;
use crate::lines::Columns;
use crate::report::{Detail, Show};
use crate::until::Until;
use clap::{ArgAction, Args, ValueHint};
use haul::{Location, Passage, Request, When};
use haul_model::{
    Altered, Bases, Compression, Conflict, Delete, Kept, Mirror, Moving, Place, PlaceError, Policy,
    Ports, Relative, Resume, Sameness, Sides, Style, Via, Walking,
};
use haul_net::Congestion;
use std::env;
use std::ffi::{OsStr, OsString};
use std::num::NonZeroU8;
use std::os::unix::ffi::OsStrExt;

/// `haul sync`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sync {
    pub(crate) copy: Copy,
    pub(crate) mirror: Mirror,
    pub(crate) when: When,
    /// Remove files and links of the sources once the destination has them.
    pub(crate) removes_sources: bool,
    /// Only list the sources, with these columns.
    pub(crate) list: Option<Columns>,
    /// The list of paths, if it is on the host.
    pub(crate) list_there: Option<list::ListThere>,
    /// The statistics printed at the end.
    pub(crate) stats: Stats,
    /// The format of lengths in them: 0 digits, 1 with separators, 2 and more with units.
    pub(crate) readable: u8,
}

/// The arguments, as clap parses them.
#[derive(Debug, Args)]
pub(super) struct SyncWords {
    /// The sources and, last, the destination.
    #[arg(value_name = "SOURCE", required = true, hide = true, value_hint = ValueHint::AnyPath)]
    paths: Vec<OsString>,

    #[command(flatten)]
    filter: FilterWords<true>,

    #[command(flatten)]
    switches: Switches,

    #[arg(long)]
    json: bool,

    #[arg(short = 'V', long, action = ArgAction::Version)]
    version: Option<bool>,
}

/// The combined effect of all options.
#[derive(Debug, Default)]
struct Wish {
    recursive: Recursion,
    dirs: Option<bool>,
    relative: Option<bool>,
    /// `--no-implied-dirs`: with kept paths, their parent directories get no attributes.
    leaves_ways: bool,
    files_from: Option<OsString>,
    copy_links: bool,
    munges: bool,
    update: bool,
    removes_sources: bool,
    log_file: Option<OsString>,
    log_format: Option<OsString>,
    in_place: bool,
    appends: bool,
    partial: bool,
    partial_dir: Option<OsString>,
    lists: bool,
    eight_bit: bool,
    /// The last of `--old-args` and its opposite; `None` without either.
    old_args: Option<bool>,
    secludes: bool,
    /// The format of lengths in lists and figures: 0 digits, 1 with separators, 2 and more with
    /// units.
    readable: u8,
    ignore_times: bool,
    ignore_existing: bool,
    checksum: bool,
    whole_file: bool,
    mirror: Mirror,
    /// Make holes, even if `--preallocate` reserves space.
    sparse: bool,
    bases: Vec<(Bases, OsString)>,
    backup: bool,
    rate: Option<Rate>,
    backup_dir: Option<OsString>,
    suffix: Option<OsString>,
    temp_dir: Option<OsString>,
    /// Tolerance for comparing times, in seconds; `-1`: to the nanosecond.
    window: i64,
    deletes: bool,
    when: Option<When>,
    /// The group of the option that set `when`.
    when_group: Option<&'static str>,
    /// Options of different groups have set `when`.
    mixes_when: bool,
    /// Send files that were only renamed.
    sends_moved: bool,
    /// Skip the question at a terminal.
    yes: bool,
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
    /// The option that maps users, and the one that maps groups.
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
    info: Info,
    quiet: bool,
    itemize: u8,
    out_format: Option<OsString>,
    stats: Stats,
    progress: bool,
    rsh: Option<String>,
    remote_haul: Option<String>,
    timeout: Option<u32>,
    transport: Option<Transport>,
    retries: Option<u32>,
    parallel: Option<NonZeroU8>,
    keep: Option<KeepFor>,
    /// The last of `-z` and `--no-z`.
    compressed: Option<bool>,
    /// The codec, and zstd's level, if options set them.
    compression: Option<Compression>,
    level: Option<u8>,
    via: Option<Via>,
    congestion: Option<Congestion>,
    ports: Option<Ports>,
    /// Do not use the chunk cache.
    no_cache: bool,
    fast: bool,
    /// `--fake-super` on this side, and on the other side.
    fakes_here: bool,
    fakes_there: Option<bool>,
    /// `--no-super`: owners and devices, which need root, are not preserved.
    acts_as_others: bool,
    /// The time at which the command ends, even if work is left.
    until: Option<Until>,
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
    OfArchive,
    Yes,
}

/// The answer to `--info=help` or `--debug=help` among `words`.
pub(super) fn help_of_flags(words: &[OsString]) -> Option<String> {
    let words = || {
        let words = words.iter().take_while(|word| *word != "--");
        words.map(|word| word.to_str().unwrap_or_default())
    };
    words().zip(words().skip(1).chain([""])).find_map(|(word, next)| {
        let (word, value) = word.split_once('=').unwrap_or((word, next));
        let asks = value.split(',').any(|flag| flag.eq_ignore_ascii_case("help"));
        match word {
            "--info" if asks => Some(info::help()),
            "--debug" if asks => Some(table::debug_help()),
            _ => None,
        }
    })
}

impl SyncWords {
    pub(super) fn into_sync(mut self, config: &Config) -> Result<Sync, CommandError> {
        self.switches.absent.map_or(Ok(()), |absent| Err(absent.refused()))?;
        let mut wish = Wish { readable: 1, ..Wish::default() };
        for (_, given) in &self.switches.given {
            match given {
                Given::On(word, value) => word.apply(&mut wish, true, value)?,
                Given::Off(word) => word.apply(&mut wish, false, OsStr::new(""))?,
            }
        }
        let settings = wish.settings()?;
        wish.lists |= self.paths.len() == 1;
        let is_alone = self.paths.len() == 1;
        let splits = old_args::is_wanted(wish.old_args, wish.secludes)?;
        let paths = std::mem::take(&mut self.paths);
        let paths = if splits { old_args::split(paths) } else { paths };
        let way = Way::new(settings.clone(), config);
        let (sources, dest) = match is_alone {
            true => (way.locations(&paths)?, Location::root()),
            false => way.sources_and_dest(&paths, SYNC_USAGE)?,
        };
        let no_cache = wish.no_cache;
        let passage = Passage { no_cache, ..passage(settings, &sources, &dest, config) };
        let detail = match (self.json, wish.quiet) {
            (true, _) => Detail::Json,
            (_, true) => Detail::Text(Show::Quiet),
            _ => Detail::Text(Show::Normal),
        };
        let (list, list_there) = wish.list(&sources, &dest)?.unzip();
        let list_there = list_there.flatten();
        let mirror = wish.faking(wish.mirror()?, &sources, &dest)?;
        for source in sources.iter().filter(|_| list.is_none()) {
            if let Err(error @ PlaceError::Parent) =
                Place::of(&source.path, None, mirror.walking.relative)
            {
                return Err(CommandError::usage(format!("{source}: {error}")));
            }
        }
        let bases = wish.bases.iter().map(|(_, path)| path.as_bytes().to_vec()).collect();
        let request = Request {
            recursive: wish.is_recursive() || mirror.walking.only_dirs,
            follow: wish.copy_links,
            filter: wish.with_own_rules(self.rules(wish.style(), wish.links())?)?,
            policy: wish.policy(),
            altered: wish.altered.clone(),
            bases,
            backup: wish.backup()?,
            staging: wish.temp_dir.as_ref().map(|dir| dir.as_bytes().to_vec()),
            list,
            munges: wish.munges,
            passage,
            ..Request::new(sources, dest)
        };
        let copy = Copy {
            lines: wish.lines(self.json)?,
            asks: wish.asks() && !self.json,
            until: wish.until,
            ..Copy::of(request, detail)
        };
        let stats = match wish.quiet {
            true => Stats::None,
            false => wish.info.figures(wish.verbose, wish.stats),
        };
        let when = wish.when.unwrap_or_default();
        let removes_sources = wish.removes_sources && !wish.dry_run;
        let (readable, atimes, targets) = (wish.readable, wish.atimes, mirror.links);
        let list = wish.lists.then_some(Columns { readable, atimes, targets });
        Ok(Sync { copy, mirror, when, removes_sources, list, list_there, stats, readable })
    }
}

impl Wish {
    /// True if directories are taken with their content.
    fn is_recursive(&self) -> bool {
        match self.recursive {
            Recursion::No => false,
            Recursion::OfArchive => self.files_from.is_none(),
            Recursion::Yes => true,
        }
    }

    /// The command that reaches a host, from the options or from `RSYNC_RSH`. haul's own variable
    /// takes precedence over `RSYNC_RSH`.
    fn rsh(&self) -> Result<Option<String>, CommandError> {
        const VARIABLE: &str = "RSYNC_RSH";
        let given = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
        if self.rsh.is_some() || given(&config::variable("rsh")).is_some() {
            return Ok(self.rsh.clone());
        }
        let words = given(VARIABLE).map(OsString::into_string).transpose();
        words.map_err(|_| CommandError::usage(format!("{VARIABLE}: it is not UTF-8")))
    }

    /// True if the user is asked before most of the destination is removed.
    fn asks(&self) -> bool {
        self.deletes && !self.yes && !self.dry_run && !self.lists
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
        let host = if source.machine == haul::Machine::Here { dest } else { source };
        list::read(file, self.from_zeros, self.links(), &host.machine).map(Some)
    }

    /// The style of rules. With `--delete-excluded` a plain rule applies only to the Sender.
    fn style(&self) -> Style {
        let plain = if self.deletes_excluded { Sides::Sender } else { Sides::Both };
        Style { plain, zeros: self.from_zeros, ..Style::default() }
    }

    fn policy(&self) -> Policy {
        let conflict = match (self.ignore_existing, self.sameness()) {
            (true, _) => Conflict::Keep,
            (_, Sameness::None) => Conflict::ReplaceAll,
            _ => Conflict::ReplaceChanged,
        };
        Policy {
            conflict,
            dry_run: self.dry_run,
            // Sources are removed only after their copies are durable.
            sync: self.fsync || self.removes_sources,
            moving: (self.removes_sources && !self.dry_run).then_some(Moving::Lossy),
            keeps: self.keeps(),
            numeric_ids: self.numeric_ids,
            // A partial file would be searched in the wrong directory: where the file is to appear.
            resume: if self.temp_dir.is_some() { Resume::Never } else { Resume::default() },
            trusts_transit: self.fast,
            ..Policy::default()
        }
    }

    /// All attributes to preserve.
    fn keeps(&self) -> Kept {
        let times = self.times;
        // As in rsync: backups beside their files change the times of directories.
        let backs_up_beside = self.backs_up_beside();
        let perms = Kept::MODE.with(Kept::SET_ID).with(Kept::LENT);
        perms
            .only_if(self.perms || self.acls)
            .with(Kept::TIMES.only_if(times))
            .with(Kept::DIR_TIMES.only_if(times && !self.omits_dir_times && !backs_up_beside))
            .with(Kept::LINK_TIMES.only_if(times && !self.omits_link_times))
            .with(Kept::USER.only_if(self.owner && !self.acts_as_others))
            .with(Kept::GROUP.only_if(self.group))
            .with(Kept::ACL.only_if(self.acls))
            .with(Kept::XATTRS.only_if(self.xattrs))
            .with(Kept::ATIMES.only_if(self.atimes))
            .with(Kept::LINKS.only_if(self.hard_links))
            .with(Kept::DEVICES.only_if(self.devices && !self.acts_as_others))
            .with(Kept::SPECIALS.only_if(self.specials))
    }

    fn mirror(&self) -> Result<Mirror, CommandError> {
        let (recursive, has_list) = (self.is_recursive(), self.files_from.is_some());
        let only_dirs = self.dirs.unwrap_or(has_list || self.lists) && !recursive;
        let relative = match (self.relative.unwrap_or(has_list), self.leaves_ways) {
            (false, _) => Relative::No,
            (true, false) => Relative::Yes,
            (true, true) => Relative::WithoutWay,
        };
        if self.mixes_when {
            let message = "--delete-before, --delete-during and --delete-after exclude each other";
            return Err(CommandError::usage(message));
        }
        if self.deletes && !recursive && !only_dirs {
            let message = "--delete does not work without --recursive (-r) or --dirs (-d)";
            return Err(CommandError::usage(message));
        }
        Ok(Mirror {
            walking: Walking { only_dirs, relative, ..self.mirror.walking },
            window: u32::try_from(self.window).ok(),
            skips_newer: self.update,
            bases: self.how_bases_are_used()?,
            sameness: self.sameness(),
            executability: self.executability,
            makes_way: self.force || self.deletes,
            delete: self.deletes.then_some(self.delete),
            delta: !self.whole_file && !self.fast,
            updating: self.updating()?,
            renames: self.renames()?,
            preallocates: self.mirror.preallocates && !self.sparse,
            leaves_zeros: self.sparse,
            ..self.mirror
        })
    }
}
