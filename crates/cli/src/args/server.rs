//! The command line of `haul server`.

use super::cache::CacheArgs;
use super::deferred::Deferred;
use super::remote::set_up;
use super::{CacheCommand, Command};
use crate::config::{Config, Settings, from_command_line};
use crate::error::CommandError;
use clap::{Args, Subcommand};
use haul::{Host, parse_host};
use haul_net::{Invitation, PublicKey, is_client_name};
use std::ffi::OsString;
use std::path::PathBuf;

/// `haul server`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Server {
    /// Run in the foreground.
    Run { listen: Vec<String> },
    /// Run in the background. `reached`: also listen at the address to which ssh connected.
    Start { listen: Vec<String>, reached: bool },
    /// Stop the server.
    Stop,
    /// Show whether it runs, and its jobs.
    Status { json: bool },
    /// Read the settings and the clients again.
    Reload,
    /// Show the settings in effect.
    Config { json: bool },
    /// List the clients.
    Clients { json: bool },
    /// Enroll a client by its public key.
    Admit { key: PublicKey, terms: Terms, json: bool },
    /// Print an invitation.
    Invite { terms: Terms, addresses: Vec<String> },
    /// Accept an invitation.
    Join { invitation: Box<Invitation>, name: Option<String>, host: Option<String> },
    /// Enroll this user at a host, through ssh.
    Enroll { host: Host, terms: Terms, yes: bool },
    /// Remove a client.
    Revoke { name: String },
    /// Create a new key of the server.
    Rotate,
    /// Write the unit files of a service.
    Install { user: bool },
    /// Run the command on a host, through ssh.
    OnHost { host: Host, words: Vec<String> },
    /// Serve a client that connected through ssh.
    Agent { key: PublicKey },
    /// Run `haul cache` for another machine.
    Cache(CacheCommand),
    /// Run the command whose arguments are on standard input.
    Words,
}

/// The terms on which a client is enrolled.
#[derive(Debug, Default, Clone, PartialEq, Eq, Args)]
pub(crate) struct Terms {
    /// The directory that the client may access; `None`: the home directory.
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
    #[arg(long)]
    pub(crate) read_only: bool,
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    #[arg(long, value_name = "USER")]
    pub(crate) run_as: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(super) enum ServerArgs {
    /// Run the server in the foreground
    #[command(override_usage = "haul server run [OPTIONS]")]
    Run(Deferred<RunArgs>),
    /// Start the server in the background
    #[command(override_usage = "haul server start [OPTIONS] [HOST]")]
    Start(Deferred<StartArgs>),
    /// Stop the server; jobs get 10 s to reach a checkpoint
    #[command(override_usage = "haul server stop [OPTIONS] [HOST]")]
    Stop(Deferred<HostArgs>),
    /// Show whether the server runs, where it listens, and its jobs
    #[command(override_usage = "haul server status [OPTIONS] [HOST]")]
    Status(Deferred<ShowArgs>),
    /// Read the settings and the clients again; jobs go on
    #[command(override_usage = "haul server reload [OPTIONS] [HOST]")]
    Reload(Deferred<HostArgs>),
    /// Show the settings in effect
    #[command(override_usage = "haul server config [OPTIONS] [HOST]")]
    Config(Deferred<ShowArgs>),
    /// List the clients
    #[command(override_usage = "haul server clients [OPTIONS] [HOST]")]
    Clients(Deferred<ShowArgs>),
    /// Enroll this user at the server of a host, through ssh
    #[command(override_usage = "haul server enroll [OPTIONS] HOST")]
    Enroll(Deferred<EnrollArgs>),
    /// Print an invitation for one client, valid for 10 minutes
    #[command(override_usage = "haul server invite [OPTIONS] [HOST]")]
    Invite(Deferred<InviteArgs>),
    /// Accept an invitation
    #[command(override_usage = "haul server join [OPTIONS] INVITATION")]
    Join(Deferred<JoinArgs>),
    /// Enroll a client whose public key is known
    #[command(override_usage = "haul server admit [OPTIONS] KEY")]
    Admit(Deferred<AdmitArgs>),
    /// Remove a client, and end its jobs
    #[command(override_usage = "haul server revoke [OPTIONS] NAME [HOST]")]
    Revoke(Deferred<RevokeArgs>),
    /// Create a new key for the server; clients learn it when they connect
    #[command(override_usage = "haul server rotate [OPTIONS] [HOST]")]
    Rotate(Deferred<HostArgs>),
    /// Write the files of a systemd service
    #[command(override_usage = "haul server install [OPTIONS] [HOST]")]
    Install(Deferred<InstallArgs>),
    /// Serve a client on standard input and output
    #[command(hide = true)]
    Agent(AgentArgs),
    /// Do what `haul cache` does here, for another machine
    #[command(hide = true)]
    Cache(Deferred<CacheArgs>),
    /// Do what a line on standard input says
    #[command(hide = true)]
    Words,
}

#[derive(Debug, Args)]
pub(super) struct RunArgs {
    #[arg(long, value_name = "ADDRESS")]
    listen: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct StartArgs {
    #[arg(long, value_name = "ADDRESS")]
    listen: Vec<String>,
    /// Listen at the address that ssh has reached, too.
    #[arg(long, hide = true)]
    reached: bool,
    #[command(flatten)]
    at: HostArgs,
}

/// The host on which a command runs.
#[derive(Debug, Args)]
pub(super) struct HostArgs {
    /// Host, if not this machine
    #[arg(value_name = "HOST")]
    host: Option<OsString>,
    #[arg(short = 'e', long, value_name = "COMMAND")]
    rsh: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    at: HostArgs,
}

#[derive(Debug, Args)]
pub(super) struct EnrollArgs {
    /// Host, as ssh takes it
    #[arg(value_name = "HOST")]
    host: OsString,
    #[command(flatten)]
    terms: Terms,
    #[arg(long)]
    yes: bool,
    #[arg(short = 'e', long, value_name = "COMMAND")]
    rsh: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct InviteArgs {
    #[command(flatten)]
    terms: Terms,
    #[arg(long, value_name = "ADDRESS")]
    address: Vec<String>,
    #[command(flatten)]
    at: HostArgs,
}

#[derive(Debug, Args)]
pub(super) struct JoinArgs {
    /// The line that 'haul server invite' has printed
    #[arg(value_name = "INVITATION")]
    invitation: String,
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct AdmitArgs {
    /// Public key of the client
    #[arg(value_name = "KEY")]
    key: String,
    #[command(flatten)]
    terms: Terms,
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct AgentArgs {
    /// Public key of the client
    #[arg(value_name = "KEY")]
    key: String,
}

#[derive(Debug, Args)]
pub(super) struct RevokeArgs {
    /// Name of the client
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    at: HostArgs,
}

#[derive(Debug, Args)]
pub(super) struct InstallArgs {
    #[arg(long)]
    user: bool,
    #[command(flatten)]
    at: HostArgs,
}

/// The host, set up by the options and the configuration.
pub(super) fn reached(
    host: &OsString,
    rsh: Option<String>,
    config: &Config,
) -> Result<Host, CommandError> {
    let host = parse_host(host)?;
    let words = Settings { rsh: rsh.map(from_command_line), ..Settings::default() };
    let settings = config.with(words, Some(host.name()));
    set_up(host, &settings)
}

impl Terms {
    /// Refuses a name that no client can have.
    fn checked(self) -> Result<Self, CommandError> {
        if self.name.as_ref().is_some_and(|name| !is_client_name(name)) {
            let message = "--name: use letters, digits and '.', '-', '_' or '@'";
            return Err(CommandError::usage(message));
        }
        Ok(self)
    }

    /// The options for these terms.
    pub(crate) fn words(&self) -> Result<Vec<String>, CommandError> {
        let mut words = Vec::new();
        if let Some(root) = &self.root {
            let utf8 = || CommandError::usage("--root: not UTF-8");
            words.push(format!("--root={}", root.to_str().ok_or_else(utf8)?));
        }
        words.extend(self.name.iter().map(|name| format!("--name={name}")));
        words.extend(self.run_as.iter().map(|user| format!("--run-as={user}")));
        words.extend(self.read_only.then(|| "--read-only".to_owned()));
        Ok(words)
    }
}

impl ServerArgs {
    /// Converts to a command. `load` reads the configuration, if a host is given.
    pub(super) fn into_server(
        self,
        load: impl FnOnce() -> Result<Config, CommandError>,
    ) -> Result<Server, CommandError> {
        use Server as S;
        let words =
            |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let shown = |name: &str, json: bool| match json {
            true => words(&[name, "--json"]),
            false => words(&[name]),
        };
        // The command, and its words on a host.
        let (at, server, words) = match self {
            Self::Run(Deferred(RunArgs { listen })) => return Ok(S::Run { listen }),
            Self::Start(Deferred(StartArgs { listen, reached, at })) => {
                let addresses = listen.iter().map(|address| format!("--listen={address}"));
                let words = words(&["start"]).into_iter().chain(addresses).collect();
                (at, S::Start { listen, reached }, words)
            }
            Self::Stop(Deferred(at)) => (at, S::Stop, words(&["stop"])),
            Self::Reload(Deferred(at)) => (at, S::Reload, words(&["reload"])),
            Self::Rotate(Deferred(at)) => (at, S::Rotate, words(&["rotate"])),
            Self::Status(Deferred(ShowArgs { json, at })) => {
                (at, S::Status { json }, shown("status", json))
            }
            Self::Config(Deferred(ShowArgs { json, at })) => {
                (at, S::Config { json }, shown("config", json))
            }
            Self::Clients(Deferred(ShowArgs { json, at })) => {
                (at, S::Clients { json }, shown("clients", json))
            }
            Self::Revoke(Deferred(RevokeArgs { name, at })) => {
                let words = words(&["revoke", "--", &name]);
                (at, S::Revoke { name }, words)
            }
            Self::Install(Deferred(InstallArgs { user, at })) => {
                let words = if user { words(&["install", "--user"]) } else { words(&["install"]) };
                (at, S::Install { user }, words)
            }
            Self::Invite(Deferred(InviteArgs { terms, address, at })) => {
                let terms = terms.checked()?;
                let mut words = words(&["invite"]);
                words.extend(terms.words()?);
                words.extend(address.iter().map(|address| format!("--address={address}")));
                (at, S::Invite { terms, addresses: address }, words)
            }
            Self::Enroll(Deferred(EnrollArgs { host, terms, yes, rsh })) => {
                let host = reached(&host, rsh, &load()?)?;
                return Ok(S::Enroll { host, terms: terms.checked()?, yes });
            }
            Self::Join(Deferred(JoinArgs { invitation, name, host })) => {
                let invitation = Box::new(invitation.parse().map_err(CommandError::usage)?);
                return Ok(S::Join { invitation, name, host });
            }
            Self::Admit(Deferred(AdmitArgs { key, terms, json })) => {
                let key = key.parse().map_err(CommandError::usage)?;
                return Ok(S::Admit { key, terms: terms.checked()?, json });
            }
            Self::Agent(AgentArgs { key }) => {
                return Ok(S::Agent { key: key.parse().map_err(CommandError::usage)? });
            }
            Self::Cache(Deferred(args)) => match args.into_command(load)? {
                Command::Cache(command) => return Ok(S::Cache(command)),
                _ => return Err(CommandError::usage("not a command for another machine")),
            },
            Self::Words => return Ok(S::Words),
        };
        match at.host {
            None => Ok(server),
            Some(host) => Ok(S::OnHost { host: reached(&host, at.rsh, &load()?)?, words }),
        }
    }
}
