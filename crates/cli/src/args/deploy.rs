//! The command line of `haul deploy`.

use super::remote::{set_up, timeout};
use crate::config::{Config, Settings, from_command_line};
use crate::error::CommandError;
use clap::Args;
use haul::{Host, parse_host};
use std::ffi::OsString;
use std::path::PathBuf;

/// `haul deploy`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Deploy {
    pub(crate) host: Host,
    pub(crate) action: Deployment,
    /// The program that other commands start on the host instead, by the configuration.
    pub(crate) configured_program: Option<String>,
    /// Print only errors.
    pub(crate) quiet: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Deployment {
    /// Install this program, or the one at the path.
    Install(Option<PathBuf>),
    /// Remove the installed program.
    Remove,
}

pub(super) const USAGE: &str = "haul deploy [OPTIONS] HOST";

/// The arguments, as clap parses them.
#[derive(Debug, Args)]
pub(super) struct DeployArgs {
    /// Host to install haul on
    #[arg(value_name = "HOST")]
    host: OsString,

    #[arg(long, value_name = "PATH", conflicts_with = "remove")]
    binary: Option<PathBuf>,
    #[arg(long)]
    remove: bool,

    #[arg(short, long)]
    quiet: bool,
    #[arg(short = 'e', long, value_name = "COMMAND")]
    rsh: Option<String>,
    #[arg(long, value_name = "SECONDS", value_parser = timeout())]
    timeout: Option<u32>,
}

impl DeployArgs {
    pub(super) fn into_deploy(self, config: &Config) -> Result<Deploy, CommandError> {
        let host = parse_host(&self.host)?;
        let words = Settings {
            rsh: self.rsh.map(from_command_line),
            timeout: self.timeout.map(from_command_line),
            ..Settings::default()
        };
        let mut settings = config.with(words, Some(host.name()));
        // Install haul at the default path. The configuration may name another one, or SFTP.
        let configured_program = settings.remote_haul.as_ref().map(|given| given.value.clone());
        settings.drop_configured_program();
        let host = set_up(host, &settings)?;
        let action =
            if self.remove { Deployment::Remove } else { Deployment::Install(self.binary) };
        Ok(Deploy { host, action, configured_program, quiet: self.quiet })
    }
}
