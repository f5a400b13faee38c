//! Defers the definition of a command's options until clap parses that command. Defining the
//! options of all commands at each start takes longer than many commands do.

use super::options;
use clap::{ArgMatches, Args, Command, Error, FromArgMatches};

/// The arguments of one command, defined when they are needed.
#[derive(Debug)]
pub(super) struct Deferred<T>(pub(super) T);

impl<T: FromArgMatches> FromArgMatches for Deferred<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }
}

impl<T: Args> Args for Deferred<T> {
    fn augment_args(command: Command) -> Command {
        // The arguments are defined in a command of their own, then added with their help.
        command.defer(|command| options::add(command, &T::augment_args(Command::new("words"))))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}
