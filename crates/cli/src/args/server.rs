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
pub(crate) struct Server {
    pub(crate) action: ServerAction,
    pub(crate) json: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ServerAction {
    /// Run in the foreground.
    Run {
        listen: Vec<String>,
    },
    /// Run in the background. `reached`: also listen at the address to which ssh connected.
    Start {
        listen: Vec<String>,
        reached: bool,
    },
    Stop,
    Status,
    Reload,
    Config,
    Clients,
    /// Enroll a client by its public key.
    Admit {
        key: PublicKey,
        terms: Terms,
    },
    Invite {
        terms: Terms,
        addresses: Vec<String>,
    },
    /// Accept an invitation.
    Join {
        invitation: Box<Invitation>,
        name: Option<String>,
        host: Option<String>,
    },
    /// Enroll this user at a host, through ssh.
    Enroll {
        host: Host,
        terms: Terms,
        yes: bool,
    },
    Revoke {
        name: String,
    },
    /// Create a new key of the server.
    Rotate,
    /// Write the unit files of a service.
    Install {
        user: bool,
    },
    /// Run the command on a host, through ssh.
    OnHost {
        host: Host,
        words: Vec<String>,
    },
    /// Serve a client that connected through ssh.
    Agent {
        key: PublicKey,
    },
    /// Run `haul cache` for another machine.
    Cache(CacheCommand),
    /// Run the command whose arguments are on standard input.
    Words,
}

/// The terms on which a client is enrolled.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) name: Option<String>,
    /// The directory that the client may access; `None`: the home directory.
    pub(crate) root: Option<PathBuf>,
    pub(crate) read_only: bool,
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
pub(super) struct TermsArgs {
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    #[arg(long)]
    read_only: bool,
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[arg(long, value_name = "USER")]
    run_as: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct EnrollArgs {
    /// Host, as ssh takes it
    #[arg(value_name = "HOST")]
    host: OsString,
    #[command(flatten)]
    terms: TermsArgs,
    #[arg(long)]
    yes: bool,
    #[arg(short = 'e', long, value_name = "COMMAND")]
    rsh: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct InviteArgs {
    #[command(flatten)]
    terms: TermsArgs,
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
    terms: TermsArgs,
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

impl HostArgs {
    /// `action`, or the same command with `words` on the host if one is given.
    fn or_on_host(
        self,
        action: ServerAction,
        words: Vec<String>,
        load: impl FnOnce() -> Result<Config, CommandError>,
    ) -> Result<ServerAction, CommandError> {
        match self.host {
            None => Ok(action),
            Some(host) => {
                let host = reached(&host, self.rsh, &load()?)?;
                Ok(ServerAction::OnHost { host, words })
            }
        }
    }
}

impl TermsArgs {
    fn terms(self) -> Result<Terms, CommandError> {
        let Self { root, read_only, name, run_as } = self;
        if name.as_ref().is_some_and(|name| !is_client_name(name)) {
            let message = "--name: use letters, digits and '.', '-', '_' or '@'";
            return Err(CommandError::usage(message));
        }
        Ok(Terms { name, root, read_only, run_as })
    }
}

impl Terms {
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
        use ServerAction as A;
        let mut shows_json = false;
        let mut shown = |name: &str, json: bool| {
            shows_json = json;
            [Some(name), json.then_some("--json")]
                .into_iter()
                .flatten()
                .map(str::to_owned)
                .collect()
        };
        let one = |name: &str| vec![name.to_owned()];
        let action = match self {
            Self::Run(Deferred(words)) => A::Run { listen: words.listen },
            Self::Start(Deferred(StartArgs { listen, reached, at })) => {
                let addresses = listen.iter().map(|address| format!("--listen={address}"));
                let words = one("start").into_iter().chain(addresses).collect();
                at.or_on_host(A::Start { listen, reached }, words, load)?
            }
            Self::Stop(Deferred(at)) => at.or_on_host(A::Stop, one("stop"), load)?,
            Self::Reload(Deferred(at)) => at.or_on_host(A::Reload, one("reload"), load)?,
            Self::Rotate(Deferred(at)) => at.or_on_host(A::Rotate, one("rotate"), load)?,
            Self::Status(Deferred(words)) => {
                words.at.or_on_host(A::Status, shown("status", words.json), load)?
            }
            Self::Config(Deferred(words)) => {
                words.at.or_on_host(A::Config, shown("config", words.json), load)?
            }
            Self::Clients(Deferred(words)) => {
                words.at.or_on_host(A::Clients, shown("clients", words.json), load)?
            }
            Self::Revoke(Deferred(RevokeArgs { name, at })) => {
                let words = vec!["revoke".to_owned(), "--".to_owned(), name.clone()];
                at.or_on_host(A::Revoke { name }, words, load)?
            }
            Self::Install(Deferred(InstallArgs { user, at })) => {
                let option = user.then(|| "--user".to_owned());
                let words = one("install").into_iter().chain(option).collect();
                at.or_on_host(A::Install { user }, words, load)?
            }
            Self::Enroll(Deferred(EnrollArgs { host, terms, yes, rsh })) => {
                let host = reached(&host, rsh, &load()?)?;
                A::Enroll { host, terms: terms.terms()?, yes }
            }
            Self::Invite(Deferred(InviteArgs { terms, address, at })) => {
                let terms = terms.terms()?;
                let mut words = one("invite");
                words.extend(terms.words()?);
                words.extend(address.iter().map(|address| format!("--address={address}")));
                at.or_on_host(A::Invite { terms, addresses: address }, words, load)?
            }
            Self::Join(Deferred(JoinArgs { invitation, name, host })) => {
                let invitation = invitation.parse().map_err(CommandError::usage)?;
                A::Join { invitation: Box::new(invitation), name, host }
            }
            Self::Admit(Deferred(AdmitArgs { key, terms, json })) => {
                shows_json = json;
                let key = key.parse().map_err(CommandError::usage)?;
                A::Admit { key, terms: terms.terms()? }
            }
            Self::Agent(AgentArgs { key }) => {
                A::Agent { key: key.parse().map_err(CommandError::usage)? }
            }
            Self::Cache(Deferred(words)) => match words.into_command(load)? {
                Command::Cache(command) => A::Cache(command),
                _ => return Err(CommandError::usage("not a command for another machine")),
            },
            Self::Words => A::Words,
        };
        Ok(Server { action, json: shows_json })
    }
}
