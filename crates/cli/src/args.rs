//! The plain commands, parsed from the command line and completed by the configuration. Nothing
//! below this file reads arguments.

mod attributes;
mod cache;
mod compat;
mod deferred;
mod deploy;
mod doctor;
mod filter;
mod help;
mod keep;
mod options;
mod places;
mod remote;
mod server;
mod sync;
mod to_all;
mod usage_error;
mod words;

pub(crate) use cache::{CacheAction, CacheCommand};
pub(crate) use deploy::{Deploy, Deployment};
pub(crate) use doctor::Doctor;
pub(crate) use keep::{Keep, KeepAction};
pub(crate) use places::{CompletedShell, Generate, Places};
pub(crate) use server::{Server, Terms};
pub(crate) use sync::list::{LIST_LEN_MAX, RemoteList, paths as paths_of_list};
pub(crate) use sync::{Stats, Sync, rate, size};

use self::compat::explain;
use self::deferred::Deferred;
use self::help::{CHECK_USAGE, COPY_USAGE, MOVE_USAGE};
use self::remote::HostResolver;
use self::words::{
    CheckArgs, Cli, CommandArgs, ConfigArgs, CopyArgs, DetailArgs, MoveArgs, TreeArgs,
};
use crate::config::{Config, Settings};
use crate::deadline::Deadline;
use crate::error::{CommandError, ExitCode};
use crate::lines::Lines;
use crate::report::{Detail, Show};
use crate::stdout;
use clap::{Args, CommandFactory, Parser};
use haul::{Location, Request, TransferOptions, parse_host};
use haul_engine::{CleanRules, Summary};
use haul_model::{Moving, Policy, Resume};
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process;

/// A parsed command.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Copy(Copy),
    /// Move files and trees: a copy that removes its sources.
    Move(Copy),
    /// Make a destination tree equal to the sources.
    Sync(Sync),
    Check(Check),
    Ls(Ls),
    /// Show metadata of files and directories.
    Stat(Stat),
    Hash(Asked),
    /// Remove the temporary files of interrupted copies.
    Clean(Clean),
    Config(ShowConfig),
    /// Show, clear or verify the chunk cache.
    Cache(CacheCommand),
    Keep(Keep),
    /// Install haul on a host, or remove it.
    Deploy(Deploy),
    /// Measure the connection to a host and suggest settings.
    Doctor(Doctor),
    Completions(CompletedShell),
    Generate(Generate),
    /// Print the hosts or paths that complete a word.
    Places(Places),
    /// Serve a client over standard input and output.
    Serve(Serve),
    /// Run or manage a server.
    Server(Server),
}

/// `haul copy`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Copy {
    /// The sources, the destination, and the rules between them.
    pub(crate) request: Request,
    /// All destinations of `--to-all`, each with its passage; empty without it. The first is also
    /// the destination of `request`.
    pub(crate) to_all: Vec<(Location, TransferOptions)>,
    pub(crate) detail: Detail,
    /// How the entries of a mirror are printed.
    pub(crate) lines: Lines,
    /// Ask a user at a terminal before most of the destination is removed.
    pub(crate) asks: bool,
    /// The time at which the command ends, even if work is left.
    pub(crate) deadline: Option<Deadline>,
}

/// `haul check`: a copy that compares instead of copying.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Check {
    pub(crate) copy: Copy,
    /// Compare contents by their hashes.
    pub(crate) content: bool,
}

/// The paths about which `haul ls`, `haul stat` and `haul hash` ask their machines.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) paths: Vec<Location>,
    pub(crate) detail: Detail,
}

/// `haul ls`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ls {
    pub(crate) asked: Asked,
    pub(crate) long: bool,
    /// Print sizes with units.
    pub(crate) readable: bool,
    pub(crate) null: bool,
}

/// `haul stat`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) asked: Asked,
    pub(crate) follow: bool,
}

/// `haul clean`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Clean {
    pub(crate) paths: Vec<Location>,
    pub(crate) rules: CleanRules,
    pub(crate) detail: Detail,
}

/// `haul config`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ShowConfig {
    /// The host whose settings are shown.
    pub(crate) host: Option<String>,
    pub(crate) settings: Settings,
    /// The path of the configuration file; `None` without a directory for it.
    pub(crate) path: Option<PathBuf>,
    /// The configuration file exists.
    pub(crate) exists: bool,
    pub(crate) detail: Detail,
}

/// `haul serve`.
#[derive(Debug, Default, PartialEq, Eq, Args)]
pub(crate) struct Serve {
    /// The only directory that the client may access; `None`: no restriction.
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
    /// The client may only read.
    #[arg(long, requires = "root")]
    pub(crate) read_only: bool,
}

/// Parses the command line. `--help` ends the process here.
///
/// # Errors
/// If the command line is invalid (with a hint), or the help can't be written.
pub(crate) fn from_env() -> Result<Command, CommandError> {
    read(&std::env::args_os().collect::<Vec<_>>())
}

/// Parses the arguments of `haul server`.
///
/// # Errors
/// If they are invalid.
pub(crate) fn server_command(words: &[String]) -> Result<Command, CommandError> {
    let words = ["haul", "server"].into_iter().chain(words.iter().map(String::as_str));
    let parsed = Cli::try_parse_from(words);
    parsed.map_err(|_| CommandError::usage("unknown words"))?.into_command(Config::load)
}

/// Converts `code` to rsync's exit code if this process runs `haul sync`.
pub(crate) fn exit_code_for_args(code: ExitCode) -> ExitCode {
    exit_code_for(&std::env::args_os().collect::<Vec<_>>(), code)
}

fn exit_code_for(words: &[OsString], code: ExitCode) -> ExitCode {
    match is_sync(words) {
        true => code.as_rsync(&Summary::default(), 0),
        false => code,
    }
}

fn is_sync(words: &[OsString]) -> bool {
    words.get(1).is_some_and(|word| word == "sync")
}

/// Parses `words`. The first is the program's name.
fn read(words: &[OsString]) -> Result<Command, CommandError> {
    let of_flags = || is_sync(words).then(|| sync::flags_help(words)).flatten();
    if let Some(help) = options::short_help(words).or_else(of_flags) {
        stdout::print(help)?;
        process::exit(0);
    }
    if let Some(usage) = options::usage(words) {
        // If standard error fails, there is no other place to report it.
        let _ = io::stderr().write_all(usage.as_bytes());
        process::exit(exit_code_for(words, ExitCode::Usage).number().into());
    }
    match Cli::try_parse_from(compat::with_help(words)) {
        Ok(words) => words.into_command(Config::load),
        // Only haul itself has a version, no subcommand.
        Err(error) if error.kind() == clap::error::ErrorKind::DisplayVersion && words.len() > 2 => {
            read(&["haul".into(), "--version".into()])
        }
        Err(error) => Err(explain(error, words).unwrap_or_else(|help| {
            let open = if help.use_stderr() { Ok(()) } else { stdout::Standard::check() };
            match (stdout::write_result(open.and_then(|()| help.print())), help.use_stderr()) {
                (Err(error), false) => error,
                _ => process::exit(help.exit_code()),
            }
        })),
    }
}

/// The clap definition of the command line, to generate man pages and completions.
pub(crate) fn words() -> clap::Command {
    Cli::command()
}

impl Cli {
    /// Converts to a command. `load` reads the configuration; commands without settings skip it.
    fn into_command(
        self,
        load: impl FnOnce() -> Result<Config, CommandError>,
    ) -> Result<Command, CommandError> {
        Ok(match self.command {
            CommandArgs::Copy(Deferred(words)) => Command::Copy(words.into_copy(&load()?)?),
            CommandArgs::Move(Deferred(words)) => Command::Move(words.into_copy(&load()?)?),
            CommandArgs::Sync(Deferred(words)) => Command::Sync(words.into_sync(&load()?)?),
            CommandArgs::Check(Deferred(words)) => Command::Check(words.into_check(&load()?)?),
            CommandArgs::Ls(Deferred(words)) => {
                let asked = words.remote.asked(&words.paths, &load()?)?;
                let (long, readable) = (words.long, words.human_readable);
                Command::Ls(Ls { asked, long, readable, null: words.null })
            }
            CommandArgs::Stat(Deferred(words)) => {
                let asked = words.remote.asked(&words.paths, &load()?)?;
                Command::Stat(Stat { asked, follow: words.dereference })
            }
            CommandArgs::Hash(Deferred(words)) => {
                Command::Hash(words.remote.asked(&words.paths, &load()?)?)
            }
            CommandArgs::Config(Deferred(words)) => {
                Command::Config(words.into_show_config(load()?)?)
            }
            CommandArgs::Clean(Deferred(words)) => Command::Clean(Clean {
                paths: words.paths.iter().map(|p| Location::parse(p)).collect::<Result<_, _>>()?,
                rules: CleanRules {
                    recursive: words.recursive,
                    all: words.all,
                    dry_run: words.dry_run,
                },
                detail: detail(false, 0, words.json),
            }),
            CommandArgs::Cache(Deferred(words)) => words.into_command(load)?,
            CommandArgs::Keep(Deferred(words)) => Command::Keep(words.into_keep()?),
            CommandArgs::Deploy(Deferred(words)) => Command::Deploy(words.into_deploy(&load()?)?),
            CommandArgs::Doctor(Deferred(words)) => Command::Doctor(words.into_doctor(&load()?)?),
            CommandArgs::Completions(Deferred(words)) => Command::Completions(words.shell),
            CommandArgs::Generate(Deferred(generate)) => Command::Generate(generate),
            CommandArgs::Places(Deferred(words)) => Command::Places(words.into_places(&load()?)),
            CommandArgs::Help(Deferred(words)) => read(&words.help_args())?,
            CommandArgs::Server(words) => Command::Server(words.into_server(load)?),
            CommandArgs::Serve(Deferred(serve)) => Command::Serve(serve),
        })
    }
}

impl Copy {
    /// A copy to one destination.
    pub(crate) fn of(request: Request, detail: Detail) -> Self {
        let (to_all, lines) = (Vec::new(), Lines::default());
        Self { request, to_all, detail, lines, asks: false, deadline: None }
    }
}

impl CopyArgs {
    fn into_copy(self, config: &Config) -> Result<Copy, CommandError> {
        let safety = config.with(self.safety.settings(), None);
        let resume = match (self.strict, self.no_resume) {
            (true, _) => Resume::Strict,
            (_, true) => Resume::Never,
            _ => Resume::Quick,
        };
        if self.fast && safety.verify.as_ref().is_some_and(|given| given.value) {
            let error = CommandError::usage(
                "--fast and verify exclude each other: without hashes there is nothing to verify",
            );
            return Err(error.with_hint("add --no-verify; 'haul config' shows where verify is set"));
        }
        let TreeArgs { paths, attributes, compat, .. } = &self.tree;
        compat.refuse_port(paths)?;
        let (sources, dest) = self.remote.sources_and_dest(paths, COPY_USAGE, config)?;
        let (sources, dest, to_all) = match self.to_all {
            true => to_all::split(sources, dest)?,
            false => (sources, dest, Vec::new()),
        };
        let transfer_options = self.remote.transfer_options(&sources, &dest, config);
        let to_all = to_all.into_iter().map(|dest| {
            let transfer_options = self.remote.transfer_options(&sources, &dest, config);
            (dest, transfer_options)
        });
        let to_all = to_all.collect();
        let request = Request {
            policy: Policy {
                conflict: self.conflict.conflict(),
                dry_run: self.dry_run,
                resume,
                verify: safety.verify.is_some_and(|given| given.value),
                sync: safety.sync.is_some_and(|given| given.value),
                strict_source: self.strict_source,
                trusts_transit: self.fast,
                keeps: attributes.keeps(),
                numeric_ids: attributes.numeric_ids,
                moving: None,
            },
            transfer_options,
            ..self.tree.request(sources, dest)?
        };
        Ok(Copy { to_all, ..Copy::of(request, self.detail.detail()) })
    }
}

impl MoveArgs {
    fn into_copy(self, config: &Config) -> Result<Copy, CommandError> {
        let (sources, dest) = self.remote.sources_and_dest(&self.paths, MOVE_USAGE, config)?;
        let transfer_options = self.remote.transfer_options(&sources, &dest, config);
        let verify = self.verify.setting();
        let safety = config.with(Settings { verify, ..Settings::default() }, None);
        let moving = if self.lossy { Moving::Lossy } else { Moving::Whole };
        let request = Request {
            recursive: true,
            policy: Policy {
                conflict: self.conflict.conflict(),
                sync: true,
                verify: safety.verify.is_some_and(|given| given.value),
                moving: Some(moving),
                keeps: moving.keeps(),
                ..Policy::default()
            },
            transfer_options,
            ..Request::new(sources, dest)
        };
        Ok(Copy::of(request, self.detail.detail()))
    }
}

impl ConfigArgs {
    fn into_show_config(self, config: Config) -> Result<ShowConfig, CommandError> {
        let Settings { verify, sync, .. } = self.safety.settings();
        let words = Settings { verify, sync, ..self.remote.settings() };
        let host = self.host.map(|host| parse_host(&host)).transpose()?;
        let host = host.map(|host| host.name().to_owned());
        Ok(ShowConfig {
            settings: config.with(words, host.as_deref()),
            host,
            exists: config.exists,
            path: config.path,
            detail: detail(false, 0, self.json),
        })
    }
}

impl CheckArgs {
    fn into_check(self, config: &Config) -> Result<Check, CommandError> {
        let TreeArgs { paths, attributes, compat, .. } = &self.tree;
        compat.refuse_port(paths)?;
        let resolver = HostResolver::new(self.remote.settings(), config);
        let (sources, dest) = resolver.sources_and_dest(paths, CHECK_USAGE)?;
        let detail = detail(self.quiet, self.verbose.into(), self.json);
        let request = Request {
            policy: Policy { keeps: attributes.keeps(), ..Policy::default() },
            ..self.tree.request(sources, dest)?
        };
        Ok(Check { copy: Copy::of(request, detail), content: self.content })
    }
}

impl DetailArgs {
    fn detail(&self) -> Detail {
        detail(self.quiet, self.verbose, self.json)
    }
}

/// clap accepts at most one of them.
fn detail(quiet: bool, verbose: u8, json: bool) -> Detail {
    match (quiet, json, verbose) {
        (true, ..) => Detail::Text(Show::Quiet),
        (_, true, _) => Detail::Json,
        (.., 0) => Detail::Text(Show::Normal),
        (.., 1) => Detail::Text(Show::Verbose),
        _ => Detail::Text(Show::Everything),
    }
}

#[cfg(test)]
mod tests;
