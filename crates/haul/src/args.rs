//! The words of the command line, and the plain commands that they become.
//! Nothing below this file reads arguments.

mod deploy;
mod help;
mod remote;
mod words;

pub(crate) use deploy::{Action, Deploy};

use self::help::{CHECK_USAGE, COPY_USAGE, MOVE_USAGE};
use self::words::{CheckWords, CommandWords, CopyWords, DetailWords, MoveWords, Words};
use crate::error::CommandError;
use crate::hosts::Reach;
use crate::location::Location;
use crate::peer::WithoutHaul;
use crate::report::Form;
use clap::Parser;
use haul_engine::CleanRules;
use haul_model::{Conflict, Moving, Policy, Resume};
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
                moving: None,
            },
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
            policy: Policy {
                conflict,
                sync: true,
                verify: self.verify,
                moving: Some(if self.lossy { Moving::Lossy } else { Moving::Whole }),
                ..Policy::default()
            },
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
