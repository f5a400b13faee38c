//! The words of the command line, and the plain commands that they become.
//! Nothing below this file reads arguments.

mod deploy;
mod remote;

pub(crate) use deploy::{Action, Deploy};

use self::deploy::DeployWords;
use self::remote::{RemoteWords, RequestWords, TransferWords};
use crate::error::CommandError;
use crate::hosts::Reach;
use crate::location::Location;
use crate::peer::WithoutHaul;
use crate::report::Form;
use clap::{Args, Parser, Subcommand};
use haul_engine::CleanRules;
use haul_model::{Conflict, Moving, Policy, Resume};
use std::ffi::OsString;
use std::path::PathBuf;

/// What the program is asked to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// Copy files and trees.
    Copy(Copy),
    /// Move files and trees: a copy whose sources are removed.
    Move(Copy),
    /// Compare files and trees.
    Check(Check),
    /// List directories.
    Ls(Ls),
    /// Show what stands at paths.
    Stat(Stat),
    /// Hash files.
    Hash(Hash),
    /// Remove what copies have left behind.
    Clean(Clean),
    /// Put haul onto a host, or take it away again.
    Deploy(Deploy),
    /// Serve a client at the other end of standard input and output.
    Serve(Serve),
}

/// `haul copy`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Copy {
    pub(crate) sources: Vec<Location>,
    pub(crate) dest: Location,
    pub(crate) recursive: bool,
    pub(crate) follow: bool,
    pub(crate) policy: Policy,
    /// It is a move.
    pub(crate) moving: Option<Moving>,
    pub(crate) detail: Detail,
    pub(crate) reach: Reach,
}

/// `haul check`: a copy in which nothing is copied.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Check {
    pub(crate) copy: Copy,
    /// Contents are compared by their hashes.
    pub(crate) content: bool,
}

/// How much a copy tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detail {
    /// Errors only.
    Quiet,
    /// Progress, warnings, errors and a summary.
    Normal,
    /// A line for each file too.
    Verbose,
    /// All of it, as JSON.
    Json,
}

impl Detail {
    /// The form of what is told.
    pub(crate) fn form(self) -> Form {
        form(self == Self::Json)
    }
}

/// `haul ls`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ls {
    pub(crate) paths: Vec<Location>,
    pub(crate) long: bool,
    pub(crate) null: bool,
    pub(crate) without_haul: WithoutHaul,
    pub(crate) form: Form,
}

/// `haul stat`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) paths: Vec<Location>,
    pub(crate) follow: bool,
    pub(crate) without_haul: WithoutHaul,
    pub(crate) form: Form,
}

/// `haul hash`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Hash {
    pub(crate) paths: Vec<Location>,
    pub(crate) without_haul: WithoutHaul,
    pub(crate) form: Form,
}

/// `haul clean`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Clean {
    pub(crate) paths: Vec<Location>,
    pub(crate) rules: CleanRules,
    pub(crate) form: Form,
}

/// `haul serve`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Serve {
    /// What the client may reach, if that is not everything.
    pub(crate) root: Option<PathBuf>,
    /// It may only read.
    pub(crate) read_only: bool,
}

/// Reads the command line. What clap itself finds wrong, and `--help`, ends
/// the process here.
pub(crate) fn from_env() -> Result<Command, CommandError> {
    Words::parse().into_command()
}

const EXAMPLES: &str = "\
Examples:
  haul copy -r photos /mnt/backup/          a tree into a directory
  haul copy -r photos host:backup/          the same to a host, through ssh
  haul copy host:notes.txt .                a file from a host
  haul ls -l host:backup                    what is there
  haul hash host:backup/a.iso               its BLAKE3 hash, as b3sum prints it";

const COPY_USAGE: &str = "haul copy [OPTIONS] SOURCE... DEST";

const COPY_HELP: &str = "\
{about}

{usage-heading} {usage}

SOURCE and DEST are a path, [user@]host:path, or ssh://[user@]host[:port]/path;
sftp:// means a host's SFTP server, which serves also where haul is not found.
./a:b is a path here. A relative path on a host starts in the home directory.
A DEST that is a directory, or ends in \"/\", receives the sources under their
names; else it is the new name, also when the same words are given again.

{all-args}{after-help}";

const COPY_EXAMPLES: &str = "\
Examples:
  haul copy a.iso b.iso                     a file under another name
  haul copy -r photos host:backup/          a tree to a host: backup/photos
  haul copy host:a.txt host:b.txt .         two files from a host
  haul copy -rn photos /mnt/backup/         what would be copied?
  haul copy -r -e 'ssh -p 2222' src host:   with a command in place of ssh

Run again, a copy does what was left: files whose size and modification time
agree are skipped, and a large file that was interrupted goes on where it
stopped. A file is replaced at once when its new content is whole and
verified; until then the old one stays.

Exit codes: 0 all done, 1 some files failed, 2 wrong usage, 3 no connection,
4 destination unusable, 130 interrupted.";

const MOVE_USAGE: &str = "haul move [OPTIONS] SOURCE... DEST";

const MOVE_EXAMPLES: &str = "\
SOURCEs are here or on hosts, and so is DEST, but not from host to host; it means
what it means to \"haul copy\". On one file system sources just get new names.
Elsewhere they are copied and made durable, then both sides hash what they have,
and each source file is removed whose content DEST has, unless it changed since.
What failed stays, and so do the directories that it is in. A directory that
DEST has already is filled, not replaced. What is copied loses owner and group
(unless they are yours), set-ID bits, ACLs, extended attributes and hard links:
what has some of these stays, and is told, unless --lossy is given.

Examples:
  haul move photos /mnt/backup/             to another disk
  haul move scans/*.pdf host:inbox/         to a host
  haul move host:outbox/a host:b/ .         a file and a tree from a host
  haul move --no-clobber a b dir/           what dir has of that name stays

Exit codes: 0 all moved, 1 something stays that should not, 2 wrong usage,
3 no connection, 4 destination unusable, 130 interrupted. After any of them the
same command goes on with what is left.";

const CHECK_USAGE: &str = "haul check [OPTIONS] SOURCE... DEST";

const CHECK_EXAMPLES: &str = "\
SOURCE and DEST mean what they mean to \"haul copy\": after a copy, the same
words with \"check\" find no difference. (A directory is compared with DEST
itself if DEST does not hold one of its name and has no \"/\" at its end: the
copy has made it.) Compared are kind, size, modification
time and permission bits, of links where they point, and with --content the
BLAKE3 hashes of files: each side hashes its own, and no content is sent but
from a host without haul. In
directories that both sides have, what only DEST has is shown as extra.

Examples:
  haul check -r photos host:backup/         is the backup up to date?
  haul check -r --content photos host:backup/
                                            ... and intact, to the last byte?

Exit codes: 0 no difference, 1 differences or files that could not be compared,
2 wrong usage, 3 no connection, 4 destination unusable, 130 interrupted.";

const LS_EXAMPLES: &str = "\
Examples:
  haul ls -l host:                          the home directory there
  haul ls sftp://host/srv                   asked through SFTP, without haul there
  haul ls -0 photos | xargs -0 ...          names for another program";

const HASH_EXAMPLES: &str = "\
Examples:
  haul hash host:a.iso                      hashed there, not moved
  haul hash sftp://host/srv/a.iso           read through SFTP, hashed here
  haul hash a b c > sums; b3sum -c sums     the format is that of b3sum";

const CLEAN_EXAMPLES: &str = "\
An unfinished copy is kept in the directory where the file is to appear: under
.haul-NAME-SOURCE.part if it can be continued (files of 64 MiB and more), with
a journal beside it, or under .haul- and 16 digits. A later copy under the same
name continues or removes its own; this removes the others. What another haul
is writing is locked, and left alone. Names with .sftp in them are of uploads
through this machine's SFTP server, which locks nothing: these are left alone
until nothing has changed them for a day, with --all for an hour.

Examples:
  haul clean -n -r /mnt/backup              what would be removed?
  haul clean -r /mnt/backup                 what nothing can continue
  haul clean -r --all /mnt/backup           also what could be continued";

/// Copies files and trees: here, to other machines, and from them.
#[derive(Debug, Parser)]
#[command(name = "haul", version, max_term_width = 100, disable_help_subcommand = true)]
#[command(override_usage = "haul <COMMAND> [OPTIONS] ...")]
#[command(after_help = EXAMPLES)]
struct Words {
    #[command(subcommand)]
    command: CommandWords,
}

#[derive(Debug, Subcommand)]
enum CommandWords {
    /// Copy files and trees
    #[command(visible_alias = "cp", override_usage = COPY_USAGE)]
    #[command(help_template = COPY_HELP, after_help = COPY_EXAMPLES)]
    Copy(CopyWords),
    /// Move files and trees
    #[command(visible_alias = "mv", override_usage = MOVE_USAGE, after_help = MOVE_EXAMPLES)]
    Move(MoveWords),
    /// Compare files and trees, and show what differs
    #[command(override_usage = CHECK_USAGE, after_help = CHECK_EXAMPLES)]
    Check(CheckWords),
    /// List directories
    #[command(override_usage = "haul ls [OPTIONS] PATH...", after_help = LS_EXAMPLES)]
    Ls(LsWords),
    /// Show what stands at paths
    #[command(override_usage = "haul stat [OPTIONS] PATH...")]
    Stat(StatWords),
    /// Print the BLAKE3 hashes of files, as b3sum does
    #[command(override_usage = "haul hash [OPTIONS] PATH...", after_help = HASH_EXAMPLES)]
    Hash(HashWords),
    /// Remove what interrupted copies have left behind
    #[command(override_usage = "haul clean [OPTIONS] DIR...", after_help = CLEAN_EXAMPLES)]
    Clean(CleanWords),
    /// Put haul onto a host, or take it away again
    #[command(override_usage = deploy::USAGE, after_help = deploy::EXAMPLES)]
    Deploy(DeployWords),
    /// Serve a haul at the other end of standard input and output
    ///
    /// This is what haul starts on a host; it is of no use by hand, but in front of
    /// a key in authorized_keys: command="haul serve --root DIR".
    #[command(hide = true)]
    Serve(ServeWords),
}

#[derive(Debug, Args)]
struct CopyWords {
    /// The sources and, last, the destination. clap has no arguments of which
    /// the last is another, if they may follow "--".
    #[arg(value_name = "SOURCE", required = true, hide = true)]
    paths: Vec<OsString>,

    /// Copy directories with all that is in them
    #[arg(short, long, short_alias = 'R', help_heading = "What to copy")]
    recursive: bool,
    /// Copy what symbolic links point to
    #[arg(short = 'L', long, help_heading = "What to copy")]
    dereference: bool,
    /// Change nothing, show what would be copied
    #[arg(short = 'n', long, help_heading = "What to copy")]
    dry_run: bool,

    /// Replace files even if size and time agree
    #[arg(short, long, group = "conflict", help_heading = "What to replace")]
    force: bool,
    /// Replace no file
    #[arg(long, group = "conflict", help_heading = "What to replace")]
    no_clobber: bool,
    /// Replace only files that are older than the source
    #[arg(short, long, group = "conflict", help_heading = "What to replace")]
    update: bool,

    /// Read again all that an interrupted copy left before going on with it
    #[arg(long, group = "resume", help_heading = "Interrupted copies")]
    strict: bool,
    /// Begin anew where a copy was interrupted, and leave nothing to go on with
    #[arg(long, group = "resume", help_heading = "Interrupted copies")]
    no_resume: bool,

    /// Read each file back from its medium before it gets its name
    #[arg(short = 'V', long, help_heading = "Safety")]
    verify: bool,
    /// End only when what was copied would survive a power cut
    #[arg(long, help_heading = "Safety")]
    sync: bool,

    #[command(flatten)]
    detail: DetailWords,

    #[command(flatten)]
    remote: TransferWords,
}

#[derive(Debug, Args)]
struct MoveWords {
    /// What to move and, last, where to
    #[arg(value_name = "SOURCE", required = true, hide = true)]
    paths: Vec<OsString>,

    /// Replace files even if size and time agree
    #[arg(short, long, group = "conflict", help_heading = "What to replace")]
    force: bool,
    /// Replace no file: its source stays
    #[arg(long, group = "conflict", help_heading = "What to replace")]
    no_clobber: bool,
    /// Replace only files that are older than the source, which else stays
    #[arg(short, long, group = "conflict", help_heading = "What to replace")]
    update: bool,

    /// Read each file that has to be copied back from its medium before it gets its name
    #[arg(short = 'V', long, help_heading = "Safety")]
    verify: bool,
    /// Move also what has an owner, attributes or hard links that would be lost
    #[arg(long, help_heading = "Safety")]
    lossy: bool,

    #[command(flatten)]
    detail: DetailWords,

    #[command(flatten)]
    remote: TransferWords,
}

#[derive(Debug, Args)]
struct CheckWords {
    /// What was copied and, last, where to
    #[arg(value_name = "SOURCE", required = true, hide = true)]
    paths: Vec<OsString>,

    /// Compare directories with all that is in them
    #[arg(short, long, short_alias = 'R', help_heading = "What to compare")]
    recursive: bool,
    /// Compare with what symbolic links point to
    #[arg(short = 'L', long, help_heading = "What to compare")]
    dereference: bool,
    /// Compare contents, too, by their hashes
    #[arg(short, long, help_heading = "What to compare")]
    content: bool,

    /// Show errors only: the exit code tells
    #[arg(short, long, group = "detail", help_heading = "Output")]
    quiet: bool,
    /// Show what is the same, too
    #[arg(short, long, group = "detail", help_heading = "Output")]
    verbose: bool,
    /// Show events as JSON, one object a line
    #[arg(long, group = "detail", help_heading = "Output")]
    json: bool,

    #[command(flatten)]
    remote: RemoteWords,
}

#[derive(Debug, Args)]
struct LsWords {
    /// Directories to list, and files
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<OsString>,

    /// Show mode, size, time (UTC) and where links point
    #[arg(short = 'l', long, group = "detail", help_heading = "Output")]
    long: bool,
    /// End raw names with NUL; of several PATHs, with the PATH before them
    #[arg(short = '0', long, group = "detail", help_heading = "Output")]
    null: bool,
    /// Show entries as JSON, one object a line
    #[arg(long, group = "detail", help_heading = "Output")]
    json: bool,

    #[command(flatten)]
    remote: RequestWords,
}

#[derive(Debug, Args)]
struct StatWords {
    /// What to look at
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<OsString>,

    /// Look at what symbolic links point to
    #[arg(short = 'L', long)]
    dereference: bool,

    /// Show entries as JSON, one object a line
    #[arg(long, help_heading = "Output")]
    json: bool,

    #[command(flatten)]
    remote: RequestWords,
}

#[derive(Debug, Args)]
struct HashWords {
    /// Files to hash
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<OsString>,

    /// Show hashes as JSON, one object a line
    #[arg(long, help_heading = "Output")]
    json: bool,

    #[command(flatten)]
    remote: RequestWords,
}

#[derive(Debug, Args)]
struct CleanWords {
    /// Directories that copies went into
    #[arg(value_name = "DIR", required = true)]
    paths: Vec<OsString>,

    /// Look into all directories below, too
    #[arg(short, long, short_alias = 'R')]
    recursive: bool,
    /// Remove also what the same copy could go on with
    #[arg(short, long)]
    all: bool,
    /// Remove nothing, show what would be removed
    #[arg(short = 'n', long)]
    dry_run: bool,

    /// Show what is found as JSON, one object a line
    #[arg(long, help_heading = "Output")]
    json: bool,
}

#[derive(Debug, Args)]
struct ServeWords {
    /// Let the client reach nothing but what is in DIR
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Let it change nothing there
    #[arg(long, requires = "root")]
    read_only: bool,
}

/// How much a command tells that changes files.
#[derive(Debug, Args)]
struct DetailWords {
    /// Show errors only
    #[arg(short, long, group = "detail", help_heading = "Output")]
    quiet: bool,
    /// Show a line for each file
    #[arg(short, long, group = "detail", help_heading = "Output")]
    verbose: bool,
    /// Show events as JSON, one object a line
    #[arg(long, group = "detail", help_heading = "Output")]
    json: bool,
}

impl Words {
    fn into_command(self) -> Result<Command, CommandError> {
        Ok(match self.command {
            CommandWords::Copy(words) => Command::Copy(words.into_copy()?),
            CommandWords::Move(words) => Command::Move(words.into_copy()?),
            CommandWords::Check(words) => Command::Check(words.into_check()?),
            CommandWords::Ls(words) => Command::Ls(Ls {
                paths: words.remote.locations(&words.paths)?,
                long: words.long,
                null: words.null,
                without_haul: words.remote.without_haul(),
                form: form(words.json),
            }),
            CommandWords::Stat(words) => Command::Stat(Stat {
                paths: words.remote.locations(&words.paths)?,
                follow: words.dereference,
                without_haul: words.remote.without_haul(),
                form: form(words.json),
            }),
            CommandWords::Hash(words) => Command::Hash(Hash {
                paths: words.remote.locations(&words.paths)?,
                without_haul: words.remote.without_haul(),
                form: form(words.json),
            }),
            CommandWords::Clean(words) => Command::Clean(Clean {
                paths: words.paths.iter().map(|p| Location::parse(p)).collect::<Result<_, _>>()?,
                rules: CleanRules {
                    recursive: words.recursive,
                    all: words.all,
                    dry_run: words.dry_run,
                },
                form: form(words.json),
            }),
            CommandWords::Deploy(words) => Command::Deploy(words.into_deploy()?),
            CommandWords::Serve(words) => {
                Command::Serve(Serve { root: words.root, read_only: words.read_only })
            }
        })
    }
}

impl CopyWords {
    fn into_copy(self) -> Result<Copy, CommandError> {
        // clap lets at most one of each group through.
        let conflict = conflict(self.force, self.no_clobber, self.update);
        let resume = match (self.strict, self.no_resume) {
            (true, _) => Resume::Strict,
            (_, true) => Resume::Never,
            _ => Resume::Quick,
        };
        let DetailWords { quiet, verbose, json } = self.detail;
        let (sources, dest) = self.remote.sources_and_dest(&self.paths, COPY_USAGE)?;
        Ok(Copy {
            sources,
            dest,
            recursive: self.recursive,
            follow: self.dereference,
            policy: Policy {
                conflict,
                dry_run: self.dry_run,
                resume,
                verify: self.verify,
                sync: self.sync,
                origin: None,
            },
            moving: None,
            detail: detail(quiet, verbose, json),
            reach: self.remote.reach(),
        })
    }
}

impl MoveWords {
    fn into_copy(self) -> Result<Copy, CommandError> {
        let (sources, dest) = self.remote.sources_and_dest(&self.paths, MOVE_USAGE)?;
        let DetailWords { quiet, verbose, json } = self.detail;
        let conflict = conflict(self.force, self.no_clobber, self.update);
        Ok(Copy {
            sources,
            dest,
            recursive: true,
            follow: false,
            policy: Policy { conflict, sync: true, verify: self.verify, ..Policy::default() },
            moving: Some(if self.lossy { Moving::Lossy } else { Moving::Whole }),
            detail: detail(quiet, verbose, json),
            reach: self.remote.reach(),
        })
    }
}

/// clap lets at most one of them through.
fn conflict(force: bool, no_clobber: bool, update: bool) -> Conflict {
    match (force, no_clobber, update) {
        (true, ..) => Conflict::ReplaceAll,
        (_, true, _) => Conflict::Keep,
        (.., true) => Conflict::ReplaceOlder,
        _ => Conflict::ReplaceChanged,
    }
}

impl CheckWords {
    fn into_check(self) -> Result<Check, CommandError> {
        let (sources, dest) = self.remote.sources_and_dest(&self.paths, CHECK_USAGE)?;
        let copy = Copy {
            sources,
            dest,
            recursive: self.recursive,
            follow: self.dereference,
            policy: Policy::default(),
            moving: None,
            detail: detail(self.quiet, self.verbose, self.json),
            reach: self.remote.reach(),
        };
        Ok(Check { copy, content: self.content })
    }
}

/// clap lets at most one of them through.
fn detail(quiet: bool, verbose: bool, json: bool) -> Detail {
    match (quiet, verbose, json) {
        (true, ..) => Detail::Quiet,
        (_, true, _) => Detail::Verbose,
        (.., true) => Detail::Json,
        _ => Detail::Normal,
    }
}

fn form(json: bool) -> Form {
    if json { Form::Json } else { Form::Plain }
}

#[cfg(test)]
mod tests;
