//! The clap definitions of the commands, and the options of most of them.

use super::attributes::AttributeArgs;
use super::cache::{self, CacheArgs};
use super::compat::CompatArgs;
use super::deferred::Deferred;
use super::deploy::{self, DeployArgs};
use super::doctor::{self, DoctorArgs};
use super::filter::FilterArgs;
use super::help::*;
use super::keep::{self, KeepArgs};
use super::places::{Generate, PlacesArgs};
use super::remote::{ParallelArgs, RequestArgs, RetriedArgs, TransferArgs};
use super::server::ServerArgs;
use super::sync::SyncArgs;
use super::{CompletedShell, Serve};
use crate::config::{Setting, Settings, from_command_line};
use crate::error::CommandError;
use clap::{ArgAction, Args, Parser, Subcommand, ValueHint};
use haul::{Location, Request};
use haul_engine::Links;
use haul_model::{Conflict, Style};
use std::ffi::OsString;

/// Copy and synchronise files, here and over ssh
#[derive(Debug, Parser)]
#[command(name = "haul", version, max_term_width = 100, disable_help_subcommand = true)]
#[command(args_override_self = true)]
#[command(override_usage = "haul <COMMAND> [OPTIONS] ...")]
#[command(after_help = notes!("haul"))]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: CommandArgs,
}

#[derive(Debug, Subcommand)]
pub(super) enum CommandArgs {
    /// Copy files and directories
    #[command(visible_alias = "cp", override_usage = COPY_USAGE, after_help = notes!("copy"))]
    Copy(Deferred<CopyArgs>),
    /// Move files and directories
    #[command(visible_alias = "mv", override_usage = MOVE_USAGE, after_help = notes!("move"))]
    Move(Deferred<MoveArgs>),
    /// Make a directory like another, with rsync's options
    #[command(override_usage = SYNC_USAGE, after_help = notes!("sync"))]
    #[command(version, disable_version_flag = true)]
    Sync(Deferred<SyncArgs>),
    /// Compare files and directories, and show what differs
    #[command(override_usage = CHECK_USAGE, after_help = notes!("check"))]
    Check(Deferred<CheckArgs>),
    /// List directories
    #[command(override_usage = "haul ls [OPTIONS] PATH...", after_help = notes!("ls"))]
    Ls(Deferred<LsArgs>),
    /// Show metadata of files and directories
    #[command(override_usage = "haul stat [OPTIONS] PATH...")]
    Stat(Deferred<StatArgs>),
    /// Print BLAKE3 hashes of files, as b3sum does
    #[command(override_usage = "haul hash [OPTIONS] PATH...", after_help = notes!("hash"))]
    Hash(Deferred<HashArgs>),
    /// Remove temporary files of interrupted copies
    #[command(override_usage = "haul clean [OPTIONS] DIR...", after_help = notes!("clean"))]
    Clean(Deferred<CleanArgs>),
    /// Show the settings in effect, and where each comes from
    #[command(override_usage = "haul config [OPTIONS] [HOST]", after_help = notes!("config"))]
    Config(Deferred<ConfigArgs>),
    /// Show, clear or check the cache of chunks that need not be sent
    #[command(override_usage = cache::USAGE, after_help = notes!("cache"))]
    Cache(Deferred<CacheArgs>),
    /// List or close connections that are kept open
    #[command(override_usage = keep::USAGE, after_help = notes!("keep"))]
    Keep(Deferred<KeepArgs>),
    /// Install haul on a host, or remove it
    #[command(override_usage = deploy::USAGE, after_help = notes!("deploy"))]
    Deploy(Deferred<DeployArgs>),
    /// Measure the connection to a host and suggest settings
    #[command(override_usage = doctor::USAGE, after_help = notes!("doctor"))]
    Doctor(Deferred<DoctorArgs>),
    /// Run a server that serves enrolled clients, without ssh
    #[command(subcommand, override_usage = "haul server <COMMAND> [OPTIONS] ...")]
    #[command(disable_help_subcommand = true)]
    Server(ServerArgs),
    /// Print shell completions
    #[command(override_usage = "haul completions SHELL", after_help = notes!("completions"))]
    Completions(Deferred<CompletionsArgs>),
    /// Write man pages and shell completions below DIR
    #[command(override_usage = "haul generate DIR", after_help = notes!("generate"))]
    Generate(Deferred<Generate>),
    /// Print the hosts, and the paths of a host, that begin with WORD
    #[command(name = "__places", hide = true)]
    Places(Deferred<PlacesArgs>),
    /// Show this help, or the help of a command
    #[command(override_usage = "haul help [COMMAND]")]
    Help(Deferred<HelpArgs>),
    /// Serve a haul client on standard input and output
    #[command(hide = true, override_usage = "haul serve [OPTIONS]", after_help = notes!("serve"))]
    Serve(Deferred<Serve>),
}

#[derive(Debug, Args)]
pub(super) struct CopyArgs {
    #[arg(long)]
    pub(super) to_all: bool,
    #[arg(short = 'n', long)]
    pub(super) dry_run: bool,

    #[command(flatten)]
    pub(super) conflict: ConflictArgs,

    #[arg(long, group = "resume")]
    pub(super) strict: bool,
    #[arg(long, group = "resume")]
    pub(super) no_resume: bool,

    #[command(flatten)]
    pub(super) safety: SafetyArgs,
    #[arg(long)]
    pub(super) strict_source: bool,
    #[arg(long, conflicts_with_all = ["verify", "strict"])]
    pub(super) fast: bool,

    #[command(flatten)]
    pub(super) detail: DetailArgs,

    #[command(flatten)]
    pub(super) remote: TransferArgs,

    #[command(flatten)]
    pub(super) tree: TreeArgs,
}

#[derive(Debug, Args)]
pub(super) struct MoveArgs {
    /// The sources and, last, the destination
    #[arg(value_name = "SOURCE", required = true, hide = true, value_hint = ValueHint::AnyPath)]
    pub(super) paths: Vec<OsString>,

    #[command(flatten)]
    pub(super) conflict: ConflictArgs,
    #[command(flatten)]
    pub(super) verify: VerifyArgs,
    #[arg(long)]
    pub(super) lossy: bool,

    #[command(flatten)]
    pub(super) detail: DetailArgs,

    #[command(flatten)]
    pub(super) remote: TransferArgs,

    /// Taken, and done anyway.
    #[arg(short = 'h', long, hide = true)]
    human_readable: bool,
}

#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    #[arg(short, long)]
    pub(super) content: bool,

    #[arg(short, long, group = "detail")]
    pub(super) quiet: bool,
    #[arg(short, long, group = "detail")]
    pub(super) verbose: bool,
    #[arg(long, group = "detail")]
    pub(super) json: bool,

    #[command(flatten)]
    pub(super) remote: RetriedArgs,

    #[command(flatten)]
    pub(super) tree: TreeArgs,
}

/// The sources of a command, and how they are copied or compared.
#[derive(Debug, Args)]
pub(super) struct TreeArgs {
    /// The sources and, last, the destination. clap has no arguments of which
    /// the last is another, if they may follow "--".
    #[arg(value_name = "SOURCE", required = true, hide = true, value_hint = ValueHint::AnyPath)]
    pub(super) paths: Vec<OsString>,

    #[arg(short, long, short_alias = 'R')]
    recursive: bool,
    #[arg(short = 'L', long)]
    dereference: bool,

    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    pub(super) attributes: AttributeArgs,
    #[command(flatten)]
    pub(super) compat: CompatArgs,
}

impl TreeArgs {
    /// The request. Without `-r` only named entries are copied, and a named link is followed, as in
    /// cp.
    pub(super) fn request(
        &self,
        sources: Vec<Location>,
        dest: Location,
    ) -> Result<Request, CommandError> {
        let recursive = self.recursive || self.attributes.archive;
        Ok(Request {
            recursive,
            follow: self.dereference || !(recursive || self.compat.keeps_links),
            filter: self.filter.rules(Style::default(), Links::All, |_| false)?,
            ..Request::new(sources, dest)
        })
    }
}

/// Which existing files are replaced. clap accepts at most one of the options.
#[derive(Debug, Args)]
pub(super) struct ConflictArgs {
    #[arg(short, long, group = "conflict")]
    force: bool,
    #[arg(long, group = "conflict")]
    no_clobber: bool,
    #[arg(short, long, group = "conflict")]
    update: bool,
}

impl ConflictArgs {
    pub(super) fn conflict(&self) -> Conflict {
        match (self.force, self.no_clobber, self.update) {
            (true, ..) => Conflict::ReplaceAll,
            (_, true, _) => Conflict::Keep,
            (.., true) => Conflict::ReplaceOlder,
            _ => Conflict::ReplaceChanged,
        }
    }
}

#[derive(Debug, Args)]
pub(super) struct LsArgs {
    /// Directories and files to list
    #[arg(value_name = "PATH", required = true, value_hint = ValueHint::AnyPath)]
    pub(super) paths: Vec<OsString>,

    #[arg(short = 'l', long, group = "detail")]
    pub(super) long: bool,
    #[arg(short = 'h', long)]
    pub(super) human_readable: bool,
    #[arg(short = '0', long, group = "detail")]
    pub(super) null: bool,

    #[command(flatten)]
    pub(super) remote: RequestArgs,
}

#[derive(Debug, Args)]
pub(super) struct StatArgs {
    /// Files and directories
    #[arg(value_name = "PATH", required = true, value_hint = ValueHint::AnyPath)]
    pub(super) paths: Vec<OsString>,

    #[arg(short = 'L', long)]
    pub(super) dereference: bool,

    #[command(flatten)]
    pub(super) remote: RequestArgs,
}

#[derive(Debug, Args)]
pub(super) struct HashArgs {
    /// Files to hash
    #[arg(value_name = "PATH", required = true, value_hint = ValueHint::AnyPath)]
    pub(super) paths: Vec<OsString>,

    #[command(flatten)]
    pub(super) remote: RequestArgs,
}

#[derive(Debug, Args)]
pub(super) struct CleanArgs {
    /// Destinations of copies
    #[arg(value_name = "DIR", required = true, value_hint = ValueHint::DirPath)]
    pub(super) paths: Vec<OsString>,

    #[arg(short, long, short_alias = 'R')]
    pub(super) recursive: bool,
    #[arg(short, long)]
    pub(super) all: bool,
    #[arg(short = 'n', long)]
    pub(super) dry_run: bool,

    #[arg(long)]
    pub(super) json: bool,
}

/// The options for verification and durability.
#[derive(Debug, Args)]
pub(super) struct SafetyArgs {
    #[command(flatten)]
    verify: VerifyArgs,
    #[arg(long)]
    sync: bool,
    /// Undoes sync.
    #[arg(long, overrides_with = "sync", hide = true)]
    no_sync: bool,
}

impl SafetyArgs {
    pub(super) fn settings(&self) -> Settings {
        Settings {
            verify: self.verify.setting(),
            sync: switch(self.sync, self.no_sync),
            ..Settings::default()
        }
    }
}

#[derive(Debug, Args)]
pub(super) struct VerifyArgs {
    #[arg(short = 'V', long)]
    verify: bool,
    /// Undoes verify.
    #[arg(long, overrides_with = "verify", hide = true)]
    no_verify: bool,
}

impl VerifyArgs {
    pub(super) fn setting(&self) -> Option<Setting<bool>> {
        switch(self.verify, self.no_verify)
    }
}

/// A switch with an option for on and one for off. clap keeps the last one given.
fn switch(on: bool, off: bool) -> Option<Setting<bool>> {
    (on || off).then(|| from_command_line(on))
}

#[derive(Debug, Args)]
pub(super) struct ConfigArgs {
    /// Host to show the settings for
    #[arg(value_name = "HOST")]
    pub(super) host: Option<OsString>,

    #[arg(long)]
    pub(super) json: bool,

    #[command(flatten)]
    pub(super) safety: SafetyArgs,

    #[command(flatten)]
    pub(super) remote: ParallelArgs,
}

#[derive(Debug, Args)]
pub(super) struct CompletionsArgs {
    /// Shell
    #[arg(value_name = "SHELL")]
    pub(super) shell: CompletedShell,
}

#[derive(Debug, Args)]
pub(super) struct HelpArgs {
    /// Command
    #[arg(value_name = "COMMAND")]
    command: Option<OsString>,
}

impl HelpArgs {
    /// The command line that prints the help of the command.
    pub(super) fn help_args(self) -> Vec<OsString> {
        let mut words = vec![OsString::from("haul")];
        words.extend(self.command);
        words.push("--help".into());
        words
    }
}

/// How much a command that changes files prints.
#[derive(Debug, Args)]
pub(super) struct DetailArgs {
    #[arg(short, long, group = "detail")]
    pub(super) quiet: bool,
    #[arg(short, long, group = "detail", action = ArgAction::Count)]
    pub(super) verbose: u8,
    #[arg(long, group = "detail")]
    pub(super) json: bool,
}
