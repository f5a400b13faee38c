//! The command line of `haul cache`.

use super::server::{Server, reached};
use super::usage_error::is_misspelt;
use super::{Command, Config};
use crate::error::CommandError;
use clap::{Args, ValueHint};
use haul_net::PublicKey;
use std::ffi::{OsStr, OsString};

/// `haul cache`, run on this machine.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CacheCommand {
    pub(crate) action: CacheAction,
    pub(crate) json: bool,
    /// The client whose cache is meant, at this machine's server; `None`: the user's own cache.
    pub(crate) client: Option<PublicKey>,
}

/// An action on the chunk cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CacheAction {
    Show,
    Clear,
    Verify,
}

/// The actions and their names. The first is the default.
const ACTIONS: [(&str, CacheAction); 3] =
    [("show", CacheAction::Show), ("clear", CacheAction::Clear), ("verify", CacheAction::Verify)];

pub(super) const USAGE: &str = "haul cache [OPTIONS] [show|clear|verify] [HOST]";

/// The arguments, as clap parses them.
#[derive(Debug, Args)]
pub(super) struct CacheArgs {
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
    /// Another machine asks for its cache at this machine's server.
    #[arg(long, value_name = "KEY", hide = true)]
    client: Option<String>,
}

impl CacheArgs {
    /// Converts to a command. The configuration is loaded only for a host.
    pub(super) fn into_command(
        self,
        load: impl FnOnce() -> Result<Config, CommandError>,
    ) -> Result<Command, CommandError> {
        let Self { first, second, json, rsh, client } = self;
        let named =
            first.as_ref().and_then(|first| ACTIONS.into_iter().find(|(it, _)| first == it));
        let ((word, action), host) = match (named, first, second) {
            (Some(named), _, host) => (named, host),
            (None, None, _) => (ACTIONS[0], None),
            (None, Some(host), second) => {
                misspelt(&host)?;
                if second.is_some() {
                    return Err(CommandError::usage(format!("usage: {USAGE}")));
                }
                (ACTIONS[0], Some(host))
            }
        };
        let Some(host) = host else {
            let client = client.map(|key| key.parse()).transpose().map_err(CommandError::usage)?;
            return Ok(Command::Cache(CacheCommand { action, json, client }));
        };
        let words = ["cache", word].into_iter().chain(json.then_some("--json"));
        let words = words.map(str::to_owned).collect();
        Ok(Command::Server(Server::OnHost { host: reached(&host, rsh, &load()?)?, words }))
    }
}

/// Refuses a host name that is most likely a misspelt action.
fn misspelt(word: &OsStr) -> Result<(), CommandError> {
    let text = word.to_str().filter(|text| text.bytes().all(|byte| byte.is_ascii_alphabetic()));
    let Some(text) = text else { return Ok(()) };
    // One letter is missing, wrong or extra.
    match ACTIONS.into_iter().find(|(action, _)| is_misspelt(text, action, 1)) {
        None => Ok(()),
        Some((action, _)) => Err(CommandError::usage(format!("not an action: '{text}'"))
            .with_hint(format!("do you mean '{action}'? A host is also written '{text}:'"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::tests::parse as command;

    #[test]
    fn a_word_is_an_action_or_a_host() {
        let here = |action| Command::Cache(CacheCommand { action, json: false, client: None });
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
                Ok(Command::Server(Server::OnHost { words, .. })) => {
                    assert_eq!(words, expected);
                }
                other => panic!("{words}: {other:?}"),
            }
        }
        command("cache nas verify").expect_err("an action comes first");
    }

    #[test]
    fn a_misspelt_action_is_no_host() {
        for (word, meant) in [("verifi", "verify"), ("verifyy", "verify"), ("cler", "clear")] {
            for words in [format!("cache {word}"), format!("cache {word} nas")] {
                let error = command(&words).expect_err("no host");
                let hint = format!("do you mean '{meant}'? A host is also written '{word}:'");
                assert!(error.contains(&hint), "{error}");
            }
        }
        for words in ["cache verifi:", "cache ann@cler", "cache shadow"] {
            let is_there = |command| matches!(command, Command::Server(Server::OnHost { .. }));
            assert!(command(words).is_ok_and(is_there), "{words}");
        }
    }
}
