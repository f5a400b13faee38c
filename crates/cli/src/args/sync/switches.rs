//! Parses the options of `haul sync` with clap.

use super::super::filter::{named_arg, values_of};
use super::SyncOptions;
use super::table::{Effect, OptionSpec, TABLE};
use crate::error::CommandError;
use clap::{Arg, ArgAction, ArgMatches, Args, FromArgMatches, value_parser};
use std::ffi::{OsStr, OsString};

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
