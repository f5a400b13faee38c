//! The command line of `haul keep`.

use super::detail;
use crate::error::CommandError;
use crate::report::Detail;
use clap::{Args, ValueEnum, ValueHint};
use haul::parse_host;
use std::ffi::OsString;
use std::path::PathBuf;

/// `haul keep`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Keep {
    pub(crate) action: KeepAction,
    pub(crate) detail: Detail,
}

/// An action on kept connections.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum KeepAction {
    /// Show the connections.
    List,
    /// Close the connections to this host, or all.
    Stop(Option<String>),
    /// Hold the connection whose streams are sent over standard input.
    Hold { dir: PathBuf, name: String, host: String },
}

pub(super) const USAGE: &str = "haul keep [OPTIONS] [stop [HOST]]";

/// The arguments, as clap parses them.
#[derive(Debug, Args)]
pub(super) struct KeepArgs {
    /// Close kept connections
    #[arg(value_enum, value_name = "stop", hide_possible_values = true)]
    action: Option<ActionWord>,
    /// Only those to HOST
    #[arg(value_name = "HOST", value_hint = ValueHint::Hostname)]
    words: Vec<OsString>,

    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ActionWord {
    List,
    Stop,
    #[value(hide = true)]
    Hold,
}

impl KeepArgs {
    pub(super) fn into_keep(self) -> Result<Keep, CommandError> {
        let usage = || CommandError::usage(format!("usage: {USAGE}"));
        let action = match (self.action, &*self.words) {
            (None | Some(ActionWord::List), []) => KeepAction::List,
            (Some(ActionWord::Stop), []) => KeepAction::Stop(None),
            (Some(ActionWord::Stop), [host]) => KeepAction::Stop(Some(parse_host(host)?.address())),
            (Some(ActionWord::Hold), [dir, name, host]) => KeepAction::Hold {
                dir: dir.into(),
                name: name.to_str().ok_or_else(usage)?.to_owned(),
                host: host.to_string_lossy().into_owned(),
            },
            _ => return Err(usage()),
        };
        Ok(Keep { action, detail: detail(false, 0, self.json) })
    }
}
