//! The command lines of completions and man pages, and of the program that completes hosts and
//! paths.

use super::remote;
use crate::config::Config;
use clap::Args;
use haul::{Host, Location, Machine};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// A shell with completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum CompletedShell {
    Bash,
    Zsh,
    Fish,
}

/// `haul generate`.
#[derive(Debug, PartialEq, Eq, Args)]
pub(crate) struct Generate {
    /// Directory for man/, bash-completion/, zsh/ and fish/
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
}

/// `haul __places`, which completions call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Places {
    /// The start of a location.
    pub(crate) word: Vec<u8>,
    /// The host of the word and the path on it, if the word contains a host.
    pub(crate) there: Option<(Host, Vec<u8>)>,
    /// Print only hosts, no paths.
    pub(crate) hosts_only: bool,
    /// The hosts in the configuration.
    pub(crate) hosts: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct PlacesArgs {
    /// Hosts alone
    #[arg(long)]
    hosts: bool,
    /// The beginning of a location
    #[arg(allow_hyphen_values = true)]
    word: OsString,
}

impl PlacesArgs {
    pub(super) fn into_places(self, config: &Config) -> Places {
        let Self { hosts: hosts_only, word } = self;
        let hosts = config.hosts().map(str::to_owned).collect();
        let there = Location::parse(&word).ok().and_then(|location| {
            let Machine::Remote(host) = location.machine else { return None };
            // An empty path is the home directory; the completed word does not contain it.
            let path =
                if word.as_encoded_bytes().ends_with(b":") { Vec::new() } else { location.path };
            remote::configured_host(host, config)
                .ok()
                .filter(|host| !host.by_sftp)
                .map(|host| (host, path))
        });
        Places { word: word.into_vec(), there, hosts_only, hosts }
    }
}
