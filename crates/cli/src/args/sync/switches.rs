//! Parses the options of `haul sync` with clap.

use super::Wish;
use super::absent::{ABSENT, Absent};
use super::table::{TABLE, Turn, Word};
use crate::error::CommandError;
use clap::{Arg, ArgAction, ArgMatches, Args, FromArgMatches, value_parser};
use std::ffi::{OsStr, OsString};

/// The options of [`TABLE`], in the order given.
#[derive(Debug, Default)]
pub(super) struct Switches {
    pub(super) given: Vec<(usize, Given)>,
    /// The first given option that haul does not have.
    pub(super) absent: Option<&'static Absent>,
}

#[derive(Debug, Clone)]
pub(super) enum Given {
    On(&'static Word, OsString),
    Off(&'static Word),
}

impl Args for Switches {
    fn augment_args(command: clap::Command) -> clap::Command {
        let command = TABLE.iter().copied().flatten().fold(command, |command, word| {
            let mut arg = Arg::new(word.long).aliases(word.aliases.iter().copied());
            // A name of one letter is not a long option, but is accepted as one.
            arg = if word.long.len() > 1 { arg.long(word.long) } else { arg.alias(word.long) };
            arg = match word.turn {
                // The option can be repeated; the help need not say so.
                Turn::Flag(_) => arg
                    .action(ArgAction::Append)
                    .num_args(0)
                    .default_missing_value("")
                    .value_parser(value_parser!(OsString)),
                Turn::Value(name, _) => arg
                    .action(ArgAction::Append)
                    .value_name(name)
                    .value_parser(value_parser!(OsString))
                    .allow_hyphen_values(true),
                Turn::Optional(name, default, _) => arg
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
            if !word.has_opposite {
                return command;
            }
            let mut off = Arg::new(word.off).long(word.off).action(ArgAction::Count).hide(true);
            if !word.off_short.is_empty() {
                off = off.alias(word.off_short);
            }
            command.arg(off)
        });
        ABSENT.iter().fold(command, |command, absent| {
            let mut arg = Arg::new(absent.long).long(absent.long).hide(true);
            arg = match absent.takes_value {
                true => arg.action(ArgAction::Append).value_parser(value_parser!(OsString)),
                false => arg.action(ArgAction::Count),
            };
            if let Some(short) = absent.short {
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
        let is_given = |absent: &&Absent| match absent.takes_value {
            true => matches.contains_id(absent.long),
            false => matches.get_count(absent.long) > 0,
        };
        self.absent = ABSENT.iter().find(is_given);
        for word in TABLE.iter().copied().flatten() {
            let values = matches.get_many::<OsString>(word.long).into_iter().flatten();
            let places = matches.indices_of(word.long).into_iter().flatten();
            let given = places.zip(values);
            self.given.extend(given.map(|(at, value)| (at, Given::On(word, value.clone()))));
            if word.has_opposite && matches.get_count(word.off) > 0 {
                let places = matches.indices_of(word.off).into_iter().flatten();
                self.given.extend(places.map(|at| (at, Given::Off(word))));
            }
        }
        self.given.sort_by_key(|(at, _)| *at);
        Ok(())
    }
}

impl Word {
    pub(super) fn apply(
        &self,
        wish: &mut Wish,
        on: bool,
        value: &OsStr,
    ) -> Result<(), CommandError> {
        match self.turn {
            Turn::Flag(turn) => {
                turn(wish, on);
                Ok(())
            }
            Turn::Value(_, take) | Turn::Optional(_, _, take) => {
                let taken = if on { take(wish, value) } else { take(wish, OsStr::new("")) };
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
            let is_off = known.has_opposite && known.off == long;
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
        for word in TABLE.iter().copied().flatten().filter(|word| word.has_opposite) {
            assert_eq!(word.off, format!("no-{}", word.long));
        }
    }
}
