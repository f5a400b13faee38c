//! Parses the options of `haul sync` with clap, and sets those that depend on each other: changes of
//! owners and modes, compression, and filter rules.

use super::super::filter::{named_arg, values_of};
use super::table::{Effect, OptionSpec, TABLE};
use super::{SyncArgs, SyncOptions};
use crate::config::{Settings, from_command_line};
use crate::error::CommandError;
use clap::{Arg, ArgAction, ArgMatches, Args, FromArgMatches, value_parser};
use haul_engine::Links;
use haul_model::{AccountMap, Altered, Compression, Filter, Kept, MapError, Style};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// The options of [`TABLE`], in the order given.
#[derive(Debug, Default)]
pub(super) struct Switches {
    pub(super) given: Vec<(usize, Given)>,
}

#[derive(Debug, Clone)]
pub(super) enum Given {
    On(&'static OptionSpec, OsString),
    Off(&'static OptionSpec),
}

impl Args for Switches {
    fn augment_args(command: clap::Command) -> clap::Command {
        TABLE.iter().fold(command, |command, word| {
            let arg = named_arg(word.name(), word.short).aliases(word.names().skip(1));
            let command = command.arg(match word.effect {
                // The option can be repeated; the help need not say so.
                Effect::Flag(_) => arg
                    .action(ArgAction::Append)
                    .num_args(0)
                    .default_missing_value("")
                    .value_parser(value_parser!(OsString)),
                Effect::Value(name, _) => arg
                    .action(ArgAction::Append)
                    .value_name(name)
                    .value_parser(value_parser!(OsString))
                    .allow_hyphen_values(true),
                Effect::Optional(name, default, _) => arg
                    .action(ArgAction::Append)
                    .value_name(name)
                    .num_args(0..=1)
                    .require_equals(true)
                    .default_missing_value(default)
                    .value_parser(value_parser!(OsString)),
            });
            let Some((long, others)) = word.negated.split_first() else { return command };
            let aliases = others.iter().copied().filter(|alias| !alias.is_empty());
            let negated = Arg::new(*long).long(*long).aliases(aliases);
            command.arg(negated.action(ArgAction::Count).hide(true))
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
        for word in TABLE.iter() {
            let given = values_of(matches, word.name());
            self.given.extend(given.map(|(at, value)| (at, Given::On(word, value))));
            if let Some(negated) = word.negated.first().filter(|it| matches.get_count(it) > 0) {
                let indices = matches.indices_of(negated).into_iter().flatten();
                self.given.extend(indices.map(|at| (at, Given::Off(word))));
            }
        }
        self.given.sort_by_key(|(at, _)| *at);
        Ok(())
    }
}

impl OptionSpec {
    pub(super) fn apply(
        &self,
        options: &mut SyncOptions,
        on: bool,
        value: &OsStr,
    ) -> Result<(), CommandError> {
        match self.effect {
            Effect::Flag(effect) => {
                effect(options, on);
                Ok(())
            }
            Effect::Value(_, take) | Effect::Optional(_, _, take) => {
                let taken = if on { take(options, value) } else { take(options, OsStr::new("")) };
                taken.map_err(|why| {
                    let value = value.to_string_lossy();
                    CommandError::usage(format!("--{}={value}: {why}", self.name()))
                })
            }
        }
    }
}

/// True if `word` is one of these options.
pub(in super::super) fn has(word: &str) -> bool {
    TABLE.iter().any(|known| match word.strip_prefix("--") {
        Some(long) => {
            let is_off = known.negated.first() == Some(&long);
            is_off || known.names().any(|name| name == long)
        }
        None => known.short.is_some_and(|short| word.strip_prefix('-') == Some(&short.to_string())),
    })
}

/// Indexes into [`SyncOptions::mapped`]: the option for users, and the one for groups.
const USERS: usize = 0;
const GROUPS: usize = 1;

const CHOWN: &str = "chown";

/// `--chmod`: adds to earlier ones.
pub(super) fn chmod(options: &mut SyncOptions, value: &OsStr) -> Result<(), String> {
    options.altered.modes.add(value.as_bytes()).map_err(|error| error.to_string())
}

/// `--chown`: sets the owner, the group, or both for all entries.
pub(super) fn chown(options: &mut SyncOptions, value: &OsStr) -> Result<(), String> {
    let value = value.as_bytes();
    let colon = value.iter().position(|byte| *byte == b':').unwrap_or(value.len());
    let (user, group) = (&value[..colon], value.get(colon + 1..).unwrap_or_default());
    if !user.is_empty() {
        set_map(options, USERS, CHOWN, AccountMap::all_to(user))?;
    }
    if !group.is_empty() {
        set_map(options, GROUPS, CHOWN, AccountMap::all_to(group))?;
    }
    Ok(())
}

/// `--usermap`.
pub(super) fn usermap(options: &mut SyncOptions, value: &OsStr) -> Result<(), String> {
    set_map(options, USERS, "usermap", AccountMap::parse(value.as_bytes()))
}

/// `--groupmap`.
pub(super) fn groupmap(options: &mut SyncOptions, value: &OsStr) -> Result<(), String> {
    set_map(options, GROUPS, "groupmap", AccountMap::parse(value.as_bytes()))
}

/// Sets the map of users or groups from the option `word`.
fn set_map(
    options: &mut SyncOptions,
    of: usize,
    word: &'static str,
    map: Result<AccountMap, MapError>,
) -> Result<(), String> {
    set_once(options, of, word)?;
    let map = map.map_err(|error| error.to_string())?;
    let Altered { users, groups, .. } = &mut options.altered;
    *[users, groups][of] = map;
    options.keep([Kept::USER, Kept::GROUP][of], true);
    Ok(())
}

/// Refuses a second option for the same accounts, as rsync does.
fn set_once(options: &mut SyncOptions, of: usize, word: &'static str) -> Result<(), &'static str> {
    match options.mapped[of].replace(word) {
        None => Ok(()),
        Some(_) if word == CHOWN => Err("another option sets the owner already"),
        Some(CHOWN) => Err("--chown sets the owner already"),
        Some(_) => Err("give it only once"),
    }
}

impl SyncArgs {
    /// The rules. As in rsync, `--from0` affects a rule file on the command line only if it
    /// precedes it. For rule files in directories the last `--from0` counts.
    pub(super) fn rules(&self, style: Style, links: Links) -> Result<Filter, CommandError> {
        let zeros = |index| {
            let enabled = self.switches.given.iter().rev().find_map(|(at, given)| match given {
                Given::On(option, _) if *at < index && option.name() == "from0" => Some(true),
                Given::Off(option) if *at < index && option.name() == "from0" => Some(false),
                _ => None,
            });
            enabled.unwrap_or(false)
        };
        self.filter.rules(style, links, zeros)
    }
}

impl SyncOptions {
    /// The settings for reaching hosts and for transfers.
    pub(super) fn settings(&self) -> Result<Settings, CommandError> {
        let compress = self.compression().map(from_command_line);
        Ok(Settings { rsh: self.rsh()?, compress, ..self.settings.clone() })
    }

    /// The compression, if an option sets it.
    fn compression(&self) -> Option<Compression> {
        match (self.compression, self.level) {
            (None | Some(Compression::Auto | Compression::Zstd(_)), Some(level)) => {
                Some(Compression::Zstd(level))
            }
            (Some(how), _) => Some(how),
            (None, None) => self.compressed.map(|is_compressed| match is_compressed {
                true => Compression::Auto,
                false => Compression::None,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opposites_have_their_own_words() {
        for word in TABLE.iter().filter(|word| !word.negated.is_empty()) {
            assert_eq!(word.negated[0], format!("no-{}", word.name()));
        }
    }
}
