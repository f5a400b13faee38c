//! The words of `haul cache`.

use super::server::{Server, ServerAction, target};
use super::{Command, Config};
use crate::error::CommandError;
use clap::{Args, ValueHint};
use std::ffi::OsString;

/// `haul cache` on this machine.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CacheCommand {
    pub(crate) action: CacheAction,
    pub(crate) json: bool,
}

/// An action on the chunk cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CacheAction {
    Show,
    Clear,
    Verify,
}

pub(super) const USAGE: &str = "haul cache [OPTIONS] [show|clear|verify] [HOST]";

pub(super) const EXAMPLES: &str = "\
Content that a machine has already is not sent to it again. The index of the
cache knows the chunks of large files that haul has copied there. With 'cache'
in its configuration, or HAUL_CACHE, a machine also keeps files that a copy
replaces or removes, up to that size.

Examples:
  haul cache                                show the size and the savings
  haul cache nas                            the same on a host
  haul cache verify                         check all content, drop what is gone
  haul cache clear nas                      remove the cache of a host";

/// The words as clap reads them.
#[derive(Debug, Args)]
pub(super) struct CacheWords {
    /// Show the figures (default), remove the cache, or check its content
    #[arg(value_name = "ACTION", value_hint = ValueHint::Hostname)]
    first: Option<OsString>,
    /// Host, if not this machine
    #[arg(value_name = "HOST", value_hint = ValueHint::Hostname)]
    second: Option<OsString>,

    #[arg(long)]
    json: bool,
    #[arg(short = 'e', long, value_name = "COMMAND")]
    rsh: Option<String>,
}

impl CacheWords {
    pub(super) fn into_command(self, config: &Config) -> Result<Command, CommandError> {
        let Self { first, second, json, rsh } = self;
        let named = match first.as_ref().map(|word| word.as_encoded_bytes()) {
            None => Some(("show", CacheAction::Show)),
            Some(b"show") => Some(("show", CacheAction::Show)),
            Some(b"clear") => Some(("clear", CacheAction::Clear)),
            Some(b"verify") => Some(("verify", CacheAction::Verify)),
            Some(_) => None,
        };
        let ((word, action), host) = match (named, first, second) {
            (Some(named), _, host) => (named, host),
            (None, host, None) => (("show", CacheAction::Show), host),
            (None, ..) => return Err(CommandError::usage(format!("usage: {USAGE}"))),
        };
        let Some(host) = host else { return Ok(Command::Cache(CacheCommand { action, json })) };
        let words = ["cache", word].into_iter().chain(json.then_some("--json"));
        let words = words.map(str::to_owned).collect();
        let action = ServerAction::There { target: target(&host, rsh, config)?, words };
        Ok(Command::Server(Server { action, json }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::tests::parse as command;

    #[test]
    fn a_word_is_an_action_or_a_host() {
        let here = |action| Command::Cache(CacheCommand { action, json: false });
        for (words, action) in [
            ("cache", CacheAction::Show),
            ("cache show", CacheAction::Show),
            ("cache clear", CacheAction::Clear),
            ("cache verify", CacheAction::Verify),
        ] {
            assert_eq!(command(words).expect("right words"), here(action), "{words}");
        }
        for (words, expected) in [
            ("cache nas", ["cache", "show"]),
            ("cache show clear", ["cache", "show"]),
            ("cache clear nas", ["cache", "clear"]),
        ] {
            match command(words) {
                Ok(Command::Server(Server {
                    action: ServerAction::There { words, .. }, ..
                })) => {
                    assert_eq!(words, expected);
                }
                other => panic!("{words}: {other:?}"),
            }
        }
        command("cache nas verify").expect_err("an action comes first");
    }
}
