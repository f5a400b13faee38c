//! The command line of `haul server`.

use super::cache::CacheWords;
use super::late::Late;
use super::remote::set_up;
use super::{CacheCommand, Command};
use crate::config::{Config, Settings, typed};
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
    There {
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
pub(super) enum ServerWords {
    /// Run the server in the foreground
    #[command(override_usage = "haul server run [OPTIONS]")]
    Run(Late<RunWords>),
    /// Start the server in the background
    #[command(override_usage = "haul server start [OPTIONS] [HOST]")]
    Start(Late<StartWords>),
    /// Stop the server; jobs get 10 s to reach a checkpoint
    #[command(override_usage = "haul server stop [OPTIONS] [HOST]")]
    Stop(Late<AtWords>),
    /// Show whether the server runs, where it listens, and its jobs
    #[command(override_usage = "haul server status [OPTIONS] [HOST]")]
    Status(Late<ShowWords>),
    /// Read the settings and the clients again; jobs go on
    #[command(override_usage = "haul server reload [OPTIONS] [HOST]")]
    Reload(Late<AtWords>),
    /// Show the settings in effect
    #[command(override_usage = "haul server config [OPTIONS] [HOST]")]
    Config(Late<ShowWords>),
    /// List the clients
    #[command(override_usage = "haul server clients [OPTIONS] [HOST]")]
    Clients(Late<ShowWords>),
    /// Enroll this user at the server of a host, through ssh
    #[command(override_usage = "haul server enroll [OPTIONS] HOST")]
    Enroll(Late<EnrollWords>),
    /// Print an invitation for one client, valid for 10 minutes
    #[command(override_usage = "haul server invite [OPTIONS] [HOST]")]
    Invite(Late<InviteWords>),
    /// Accept an invitation
    #[command(override_usage = "haul server join [OPTIONS] INVITATION")]
    Join(Late<JoinWords>),
    /// Enroll a client whose public key is known
    #[command(override_usage = "haul server admit [OPTIONS] KEY")]
    Admit(Late<AdmitWords>),
    /// Remove a client, and end its jobs
    #[command(override_usage = "haul server revoke [OPTIONS] NAME [HOST]")]
    Revoke(Late<RevokeWords>),
    /// Create a new key for the server; clients learn it when they connect
    #[command(override_usage = "haul server rotate [OPTIONS] [HOST]")]
    Rotate(Late<AtWords>),
    /// Write the files of a systemd service
    #[command(override_usage = "haul server install [OPTIONS] [HOST]")]
    Install(Late<InstallWords>),
    /// Serve a client on standard input and output
    #[command(hide = true)]
    Agent(AgentWords),
    /// Do what `haul cache` does here, for another machine
    #[command(hide = true)]
    Cache(Late<CacheWords>),
    /// Do what a line on standard input says
    #[command(hide = true)]
    Words,
}

#[derive(Debug, Args)]
pub(super) struct RunWords {
    #[arg(long, value_name = "ADDRESS")]
    listen: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct StartWords {
    #[arg(long, value_name = "ADDRESS")]
    listen: Vec<String>,
    /// Listen at the address that ssh has reached, too.
    #[arg(long, hide = true)]
    reached: bool,
    #[command(flatten)]
    at: AtWords,
}

/// The host on which a command runs.
#[derive(Debug, Args)]
pub(super) struct AtWords {
    /// Host, if not this machine
    #[arg(value_name = "HOST")]
    host: Option<OsString>,
    #[arg(short = 'e', long, value_name = "COMMAND")]
    rsh: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct ShowWords {
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    at: AtWords,
}

#[derive(Debug, Args)]
pub(super) struct TermsWords {
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
pub(super) struct EnrollWords {
    /// Host, as ssh takes it
    #[arg(value_name = "HOST")]
    host: OsString,
    #[command(flatten)]
    terms: TermsWords,
    #[arg(long)]
    yes: bool,
    #[arg(short = 'e', long, value_name = "COMMAND")]
    rsh: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct InviteWords {
    #[command(flatten)]
    terms: TermsWords,
    #[arg(long, value_name = "ADDRESS")]
    address: Vec<String>,
    #[command(flatten)]
    at: AtWords,
}

#[derive(Debug, Args)]
pub(super) struct JoinWords {
    /// The line that 'haul server invite' has printed
    #[arg(value_name = "INVITATION")]
    invitation: String,
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct AdmitWords {
    /// Public key of the client
    #[arg(value_name = "KEY")]
    key: String,
    #[command(flatten)]
    terms: TermsWords,
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct AgentWords {
    /// Public key of the client
    #[arg(value_name = "KEY")]
    key: String,
}

#[derive(Debug, Args)]
pub(super) struct RevokeWords {
    /// Name of the client
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    at: AtWords,
}

#[derive(Debug, Args)]
pub(super) struct InstallWords {
    #[arg(long)]
    user: bool,
    #[command(flatten)]
    at: AtWords,
}

/// The host, set up by the options and the configuration.
pub(super) fn reached(
    host: &OsString,
    rsh: Option<String>,
    config: &Config,
) -> Result<Host, CommandError> {
    let host = parse_host(host)?;
    let words = Settings { rsh: rsh.map(typed), ..Settings::default() };
    let settings = config.with(words, Some(host.name()));
    set_up(host, &settings)
}

impl AtWords {
    /// `action`, or the same command with `words` on the host if one is given.
    fn or_there(
        self,
        action: ServerAction,
        words: Vec<String>,
        load: impl FnOnce() -> Result<Config, CommandError>,
    ) -> Result<ServerAction, CommandError> {
        match self.host {
            None => Ok(action),
            Some(host) => {
                let host = reached(&host, self.rsh, &load()?)?;
                Ok(ServerAction::There { host, words })
            }
        }
    }
}

impl TermsWords {
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

impl ServerWords {
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
            Self::Run(Late(words)) => A::Run { listen: words.listen },
            Self::Start(Late(StartWords { listen, reached, at })) => {
                let addresses = listen.iter().map(|address| format!("--listen={address}"));
                let words = one("start").into_iter().chain(addresses).collect();
                at.or_there(A::Start { listen, reached }, words, load)?
            }
            Self::Stop(Late(at)) => at.or_there(A::Stop, one("stop"), load)?,
            Self::Reload(Late(at)) => at.or_there(A::Reload, one("reload"), load)?,
            Self::Rotate(Late(at)) => at.or_there(A::Rotate, one("rotate"), load)?,
            Self::Status(Late(words)) => {
                words.at.or_there(A::Status, shown("status", words.json), load)?
            }
            Self::Config(Late(words)) => {
                words.at.or_there(A::Config, shown("config", words.json), load)?
            }
            Self::Clients(Late(words)) => {
                words.at.or_there(A::Clients, shown("clients", words.json), load)?
            }
            Self::Revoke(Late(RevokeWords { name, at })) => {
                let words = vec!["revoke".to_owned(), "--".to_owned(), name.clone()];
                at.or_there(A::Revoke { name }, words, load)?
            }
            Self::Install(Late(InstallWords { user, at })) => {
                let option = user.then(|| "--user".to_owned());
                let words = one("install").into_iter().chain(option).collect();
                at.or_there(A::Install { user }, words, load)?
            }
            Self::Enroll(Late(EnrollWords { host, terms, yes, rsh })) => {
                let host = reached(&host, rsh, &load()?)?;
                A::Enroll { host, terms: terms.terms()?, yes }
            }
            Self::Invite(Late(InviteWords { terms, address, at })) => {
                let terms = terms.terms()?;
                let mut words = one("invite");
                words.extend(terms.words()?);
                words.extend(address.iter().map(|address| format!("--address={address}")));
                at.or_there(A::Invite { terms, addresses: address }, words, load)?
            }
            Self::Join(Late(JoinWords { invitation, name, host })) => {
                let invitation = invitation.parse().map_err(CommandError::usage)?;
                A::Join { invitation: Box::new(invitation), name, host }
            }
            Self::Admit(Late(AdmitWords { key, terms, json })) => {
                shows_json = json;
                let key = key.parse().map_err(CommandError::usage)?;
                A::Admit { key, terms: terms.terms()? }
            }
            Self::Agent(AgentWords { key }) => {
                A::Agent { key: key.parse().map_err(CommandError::usage)? }
            }
            Self::Cache(Late(words)) => match words.into_command(load)? {
                Command::Cache(command) => A::Cache(command),
                _ => return Err(CommandError::usage("not a command for another machine")),
            },
            Self::Words => A::Words,
        };
        Ok(Server { action, json: shows_json })
    }
}
