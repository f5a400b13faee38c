//! Parses the options of `haul sync` with clap.

use super::SyncOptions;
use super::table::{Effect, OptionSpec, TABLE};
use super::unsupported::{UNSUPPORTED, Unsupported};
use crate::error::CommandError;
use clap::{Arg, ArgAction, ArgMatches, Args, FromArgMatches, value_parser};
use std::ffi::{OsStr, OsString};

/// The options of [`TABLE`], in the order given.
#[derive(Debug, Default)]
pub(super) struct Switches {
    pub(super) given: Vec<(usize, Given)>,
    /// The first given option that haul does not have.
    pub(super) unsupported: Option<&'static Unsupported>,
}

#[derive(Debug, Clone)]
pub(super) enum Given {
    On(&'static OptionSpec, OsString),
    Off(&'static OptionSpec),
}

impl Args for Switches {
    fn augment_args(command: clap::Command) -> clap::Command {
        let command = TABLE.iter().copied().flatten().fold(command, |command, word| {
            let mut arg = Arg::new(word.long).aliases(word.aliases.iter().copied());
            // A name of one letter is not a long option, but is accepted as one.
            arg = if word.long.len() > 1 { arg.long(word.long) } else { arg.alias(word.long) };
            arg = match word.effect {
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
            };
            if let Some(short) = word.short {
                arg = arg.short(short);
            }
            let command = command.arg(arg);
            if !word.can_negate {
                return command;
            }
            let mut negated =
                Arg::new(word.negated).long(word.negated).action(ArgAction::Count).hide(true);
            if !word.negated_short.is_empty() {
                negated = negated.alias(word.negated_short);
            }
            command.arg(negated)
        });
        UNSUPPORTED.iter().fold(command, |command, unsupported| {
            let mut arg = Arg::new(unsupported.long).long(unsupported.long).hide(true);
            arg = match unsupported.takes_value {
                true => arg.action(ArgAction::Append).value_parser(value_parser!(OsString)),
                false => arg.action(ArgAction::Count),
            };
            if let Some(short) = unsupported.short {
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
        let is_given = |unsupported: &&Unsupported| match unsupported.takes_value {
            true => matches.contains_id(unsupported.long),
            false => matches.get_count(unsupported.long) > 0,
        };
        self.unsupported = UNSUPPORTED.iter().find(is_given);
        for word in TABLE.iter().copied().flatten() {
            let values = matches.get_many::<OsString>(word.long).into_iter().flatten();
            let indices = matches.indices_of(word.long).into_iter().flatten();
            let given = indices.zip(values);
            self.given.extend(given.map(|(at, value)| (at, Given::On(word, value.clone()))));
            if word.can_negate && matches.get_count(word.negated) > 0 {
                let indices = matches.indices_of(word.negated).into_iter().flatten();
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
                    CommandError::usage(format!("--{}={value}: {why}", self.long))
                })
            }
        }
    }
}

/// True if `word` is one of these options.
pub(in super::super) fn has(word: &str) -> bool {
    TABLE.iter().copied().flatten().any(|known| match word.strip_prefix("--") {
        Some(long) => {
            let is_off = known.can_negate && known.negated == long;
            known.long == long || is_off || known.aliases.contains(&long)
        }
        None => known.short.is_some_and(|short| word.strip_prefix('-') == Some(&short.to_string())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opposites_have_their_own_words() {
        for word in TABLE.iter().copied().flatten().filter(|word| word.can_negate) {
            assert_eq!(word.negated, format!("no-{}", word.long));
        }
    }
}
