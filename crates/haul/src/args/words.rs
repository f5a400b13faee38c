//! The words of each command, as they are typed.

use super::CompletedShell;
use super::deploy::{self, DeployWords};
use super::doctor::{self, DoctorWords};
use super::familiar::FamiliarWords;
use super::filter::FilterWords;
use super::help::*;
use super::kept::KeptWords;
use super::late::Late;
use super::places::PlacesWords;
use super::remote::{ParallelWords, RemoteWords, RequestWords, RetryWords, TransferWords};
use super::sync::SyncWords;
use crate::config::{Given, Settings, typed};
use clap::{ArgAction, Args, Parser, Subcommand, ValueHint};
use std::ffi::OsString;
use std::path::PathBuf;

/// Copies files and trees: here, to other machines, and from them.
#[derive(Debug, Parser)]
#[command(name = "haul", version, max_term_width = 100, disable_help_subcommand = true)]
#[command(args_override_self = true)]
#[command(override_usage = "haul <COMMAND> [OPTIONS] ...")]
#[command(after_help = EXAMPLES)]
pub(super) struct Words {
    #[command(subcommand)]
    pub(super) command: CommandWords,
}

#[derive(Debug, Subcommand)]
pub(super) enum CommandWords {
    /// Copy files and trees
    #[command(visible_alias = "cp", override_usage = COPY_USAGE)]
    #[command(help_template = COPY_HELP, after_help = COPY_EXAMPLES, disable_help_flag = true)]
    Copy(Late<CopyWords>),
    /// Move files and trees
    #[command(visible_alias = "mv", override_usage = MOVE_USAGE, after_help = MOVE_EXAMPLES)]
    #[command(disable_help_flag = true)]
    Move(Late<MoveWords>),
    /// Make a tree like another, with the words of rsync
    #[command(override_usage = SYNC_USAGE, after_help = SYNC_EXAMPLES)]
    #[command(version, disable_version_flag = true, disable_help_flag = true)]
    Sync(Late<SyncWords>),
    /// Compare files and trees, and show what differs
    #[command(override_usage = CHECK_USAGE, after_help = CHECK_EXAMPLES)]
    #[command(disable_help_flag = true)]
    Check(Late<CheckWords>),
    /// List directories
    #[command(override_usage = "haul ls [OPTIONS] PATH...", after_help = LS_EXAMPLES)]
    #[command(disable_help_flag = true)]
    Ls(Late<LsWords>),
    /// Show what stands at paths
    #[command(override_usage = "haul stat [OPTIONS] PATH...")]
    Stat(Late<StatWords>),
    /// Print the BLAKE3 hashes of files, as b3sum does
    #[command(override_usage = "haul hash [OPTIONS] PATH...", after_help = HASH_EXAMPLES)]
    Hash(Late<HashWords>),
    /// Remove what interrupted copies have left behind
    #[command(override_usage = "haul clean [OPTIONS] DIR...", after_help = CLEAN_EXAMPLES)]
    Clean(Late<CleanWords>),
    /// Show the settings that apply, and where each comes from
    #[command(override_usage = "haul config [OPTIONS] [HOST]", after_help = CONFIG_HELP)]
    Config(Late<ConfigWords>),
    /// Put haul onto a host, or take it away again
    #[command(override_usage = deploy::USAGE, after_help = deploy::EXAMPLES)]
    Deploy(Late<DeployWords>),
    /// Find out how fast a host is and the way to it, and what would help
    #[command(override_usage = doctor::USAGE, after_help = doctor::EXAMPLES)]
    Doctor(Late<DoctorWords>),
    /// Print the completions of a shell
    ///
    /// For bash: haul completions bash > ~/.local/share/bash-completion/completions/haul.
    /// For fish: haul completions fish > ~/.config/fish/completions/haul.fish. For zsh: into
    /// a file _haul in a directory of $fpath.
    #[command(override_usage = "haul completions SHELL")]
    Completions(Late<CompletionsWords>),
    /// Write man pages and completions for shells below DIR
    ///
    /// DIR is laid out like ~/.local/share and /usr/share: haul generate
    /// ~/.local/share puts them where man and the shells look.
    Generate(Late<GenerateWords>),
    /// Print the hosts, and the paths of a host, that begin with WORD
    #[command(name = "__places", hide = true)]
    Places(Late<PlacesWords>),
    /// Show this help, or that of a command
    #[command(override_usage = "haul help [COMMAND]")]
    Help(Late<HelpWords>),
    /// Serve a haul at the other end of standard input and output
    ///
    /// This is what haul starts on a host; it is of no use by hand, but in front of
    /// a key in authorized_keys: command="haul serve --root DIR".
    #[command(hide = true)]
    Serve(Late<ServeWords>),
}

#[derive(Debug, Args)]
pub(super) struct CopyWords {
    /// The sources and, last, the destination. clap has no arguments of which
    /// the last is another, if they may follow "--".
    #[arg(value_name = "SOURCE", required = true, hide = true, value_hint = ValueHint::AnyPath)]
    pub(super) paths: Vec<OsString>,

    /// Copy directories with all that is in them
    #[arg(short, long, short_alias = 'R', help_heading = "What to copy")]
    pub(super) recursive: bool,
    /// Copy what symbolic links point to, as is done without -r
    #[arg(short = 'L', long, help_heading = "What to copy")]
    pub(super) dereference: bool,
    /// Copy SOURCEs that are here to each DEST: the first host:path, and all behind it
    #[arg(long, help_heading = "What to copy")]
    pub(super) to_all: bool,
    /// Change nothing, show what would be copied
    #[arg(short = 'n', long, help_heading = "What to copy")]
    pub(super) dry_run: bool,

    #[command(flatten)]
    pub(super) filter: FilterWords,

    /// Replace files even if size and time agree
    #[arg(short, long, group = "conflict", help_heading = "What to replace")]
    pub(super) force: bool,
    /// Replace no file
    #[arg(long, group = "conflict", help_heading = "What to replace")]
    pub(super) no_clobber: bool,
    /// Replace only files that are older than the source
    #[arg(short, long, group = "conflict", help_heading = "What to replace")]
    pub(super) update: bool,

    /// Read again all that an interrupted copy left before going on with it
    #[arg(long, group = "resume", help_heading = "Interrupted copies")]
    pub(super) strict: bool,
    /// Begin anew where a copy was interrupted, and leave nothing to go on with
    #[arg(long, group = "resume", help_heading = "Interrupted copies")]
    pub(super) no_resume: bool,

    #[command(flatten)]
    pub(super) safety: SafetyWords,
    /// Fail files that change while they are read, even if they only grow
    #[arg(long, help_heading = "Safety")]
    pub(super) strict_source: bool,
    /// Send contents unhashed: trust what TLS or ssh protect, and nothing resumes
    #[arg(long, conflicts_with_all = ["verify", "strict"], help_heading = "Safety")]
    pub(super) fast: bool,

    #[command(flatten)]
    pub(super) detail: DetailWords,

    #[command(flatten)]
    pub(super) remote: TransferWords,

    #[command(flatten)]
    pub(super) kept: KeptWords,

    #[command(flatten)]
    pub(super) familiar: FamiliarWords,

    #[command(flatten)]
    help: HelpWord,
}

#[derive(Debug, Args)]
pub(super) struct MoveWords {
    /// The sources and, last, the destination
    #[arg(value_name = "SOURCE", required = true, hide = true, value_hint = ValueHint::AnyPath)]
    pub(super) paths: Vec<OsString>,

    /// Replace files even if size and time agree
    #[arg(short, long, group = "conflict", help_heading = "What to replace")]
    pub(super) force: bool,
    /// Replace no file: its source stays
    #[arg(long, group = "conflict", help_heading = "What to replace")]
    pub(super) no_clobber: bool,
    /// Replace only files that are older than the source, which else stays
    #[arg(short, long, group = "conflict", help_heading = "What to replace")]
    pub(super) update: bool,

    /// Read each file that has to be copied back from the disk before it gets its name
    #[arg(short = 'V', long, help_heading = "Safety")]
    pub(super) verify: bool,
    /// Undoes verify.
    #[arg(long, overrides_with = "verify", hide = true)]
    pub(super) no_verify: bool,
    /// Move also what has an owner or attributes that DEST can't hold, without these,
    /// and make hard links files of their own
    #[arg(long, help_heading = "Safety")]
    pub(super) lossy: bool,

    #[command(flatten)]
    pub(super) detail: DetailWords,

    #[command(flatten)]
    pub(super) remote: TransferWords,

    /// Taken, and done anyway.
    #[arg(short = 'h', long, hide = true)]
    human_readable: bool,

    #[command(flatten)]
    help: HelpWord,
}

#[derive(Debug, Args)]
pub(super) struct CheckWords {
    /// The sources and, last, the destination
    #[arg(value_name = "SOURCE", required = true, hide = true, value_hint = ValueHint::AnyPath)]
    pub(super) paths: Vec<OsString>,

    /// Compare directories with all that is in them
    #[arg(short, long, short_alias = 'R', help_heading = "What to compare")]
    pub(super) recursive: bool,
    /// Compare with what symbolic links point to, as is done without -r
    #[arg(short = 'L', long, help_heading = "What to compare")]
    pub(super) dereference: bool,
    /// Compare contents, too, by their hashes
    #[arg(short, long, help_heading = "What to compare")]
    pub(super) content: bool,

    #[command(flatten)]
    pub(super) filter: FilterWords,

    /// Show errors only: the exit code tells
    #[arg(short, long, group = "detail", help_heading = "Output")]
    pub(super) quiet: bool,
    /// Show what is the same, too
    #[arg(short, long, group = "detail", help_heading = "Output")]
    pub(super) verbose: bool,
    /// Show events as JSON, one object a line
    #[arg(long, group = "detail", help_heading = "Output")]
    pub(super) json: bool,

    #[command(flatten)]
    pub(super) remote: RemoteWords,
    #[command(flatten)]
    pub(super) retry: RetryWords,

    #[command(flatten)]
    pub(super) kept: KeptWords,

    #[command(flatten)]
    pub(super) familiar: FamiliarWords,

    #[command(flatten)]
    help: HelpWord,
}

#[derive(Debug, Args)]
pub(super) struct LsWords {
    /// Directories to list, and files
    #[arg(value_name = "PATH", required = true, value_hint = ValueHint::AnyPath)]
    pub(super) paths: Vec<OsString>,

    /// Show mode, size, time (UTC) and where links point
    #[arg(short = 'l', long, group = "detail", help_heading = "Output")]
    pub(super) long: bool,
    /// With -l: show sizes with units
    #[arg(short = 'h', long, help_heading = "Output")]
    pub(super) human_readable: bool,
    /// End raw names with NUL; of several PATHs, with the PATH before them
    #[arg(short = '0', long, group = "detail", help_heading = "Output")]
    pub(super) null: bool,
    /// Show entries as JSON, one object a line
    #[arg(long, group = "detail", help_heading = "Output")]
    pub(super) json: bool,

    #[command(flatten)]
    pub(super) remote: RequestWords,

    #[command(flatten)]
    help: HelpWord,
}

#[derive(Debug, Args)]
pub(super) struct StatWords {
    /// Paths to look at
    #[arg(value_name = "PATH", required = true, value_hint = ValueHint::AnyPath)]
    pub(super) paths: Vec<OsString>,

    /// Look at what symbolic links point to
    #[arg(short = 'L', long)]
    pub(super) dereference: bool,

    /// Show entries as JSON, one object a line
    #[arg(long, help_heading = "Output")]
    pub(super) json: bool,

    #[command(flatten)]
    pub(super) remote: RequestWords,
}

#[derive(Debug, Args)]
pub(super) struct HashWords {
    /// Files to hash
    #[arg(value_name = "PATH", required = true, value_hint = ValueHint::AnyPath)]
    pub(super) paths: Vec<OsString>,

    /// Show hashes as JSON, one object a line
    #[arg(long, help_heading = "Output")]
    pub(super) json: bool,

    #[command(flatten)]
    pub(super) remote: RequestWords,
}

#[derive(Debug, Args)]
pub(super) struct CleanWords {
    /// Directories that copies went into
    #[arg(value_name = "DIR", required = true, value_hint = ValueHint::DirPath)]
    pub(super) paths: Vec<OsString>,

    /// Look into all directories below, too
    #[arg(short, long, short_alias = 'R')]
    pub(super) recursive: bool,
    /// Remove also what the same copy could go on with
    #[arg(short, long)]
    pub(super) all: bool,
    /// Remove nothing, show what would be removed
    #[arg(short = 'n', long)]
    pub(super) dry_run: bool,

    /// Show what is found as JSON, one object a line
    #[arg(long, help_heading = "Output")]
    pub(super) json: bool,
}

/// How sure the user wants to be.
#[derive(Debug, Args)]
pub(super) struct SafetyWords {
    /// Read each file back from the disk before it gets its name
    #[arg(short = 'V', long, help_heading = "Safety")]
    verify: bool,
    /// Undoes verify.
    #[arg(long, overrides_with = "verify", hide = true)]
    no_verify: bool,
    /// End only when what was copied would survive a power cut
    #[arg(long, help_heading = "Safety")]
    sync: bool,
    /// Undoes sync.
    #[arg(long, overrides_with = "sync", hide = true)]
    no_sync: bool,
}

impl SafetyWords {
    /// The settings that these words give.
    pub(super) fn settings(&self) -> Settings {
        Settings {
            verify: switch(self.verify, self.no_verify),
            sync: switch(self.sync, self.no_sync),
            ..Settings::default()
        }
    }
}

/// A switch that one word turns on and another off; clap keeps the later one.
pub(super) fn switch(on: bool, off: bool) -> Option<Given<bool>> {
    (on || off).then(|| typed(on))
}

#[derive(Debug, Args)]
pub(super) struct ConfigWords {
    /// The host to show the settings for
    #[arg(value_name = "HOST")]
    pub(super) host: Option<OsString>,

    /// Show settings as JSON, one object a line
    #[arg(long, help_heading = "Output")]
    pub(super) json: bool,

    #[command(flatten)]
    pub(super) safety: SafetyWords,

    #[command(flatten)]
    pub(super) remote: RemoteWords,

    #[command(flatten)]
    pub(super) parallel: ParallelWords,
}

#[derive(Debug, Args)]
pub(super) struct CompletionsWords {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub(super) shell: CompletedShell,
}

#[derive(Debug, Args)]
pub(super) struct GenerateWords {
    /// The directory below which they are written
    #[arg(value_name = "DIR")]
    pub(super) dir: PathBuf,
}

/// The word for the help of a command in which -h has the meaning that other programs
/// give it.
#[derive(Debug, Args)]
pub(super) struct HelpWord {
    /// Print help, as does -h alone
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,
}

#[derive(Debug, Args)]
pub(super) struct HelpWords {
    /// A command of haul
    #[arg(value_name = "COMMAND")]
    command: Option<OsString>,
}

impl HelpWords {
    /// The words that ask the command itself.
    pub(super) fn asked(self) -> Vec<OsString> {
        let mut words = vec![OsString::from("haul")];
        words.extend(self.command);
        words.push("--help".into());
        words
    }
}

#[derive(Debug, Args)]
pub(super) struct ServeWords {
    /// Let the client reach nothing but what is in DIR
    #[arg(long, value_name = "DIR")]
    pub(super) root: Option<PathBuf>,
    /// Let it change nothing there
    #[arg(long, requires = "root")]
    pub(super) read_only: bool,
}

/// How much a command tells that changes files.
#[derive(Debug, Args)]
pub(super) struct DetailWords {
    /// Show errors only
    #[arg(short, long, group = "detail", help_heading = "Output")]
    pub(super) quiet: bool,
    /// Print each change; -vv also what is skipped
    #[arg(short, long, group = "detail", action = ArgAction::Count, help_heading = "Output")]
    pub(super) verbose: u8,
    /// Show events as JSON, one object a line
    #[arg(long, group = "detail", help_heading = "Output")]
    pub(super) json: bool,
}
