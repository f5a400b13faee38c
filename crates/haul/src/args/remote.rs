//! The words that say how hosts are reached.

use crate::error::CommandError;
use crate::hosts::Reach;
use crate::location::{Location, Place};
use crate::peer::WithoutHaul;
use clap::{Args, ValueEnum};
use haul_net::{Patience, SILENCE_SECONDS, SshTarget};
use std::ffi::OsString;
use std::fmt;
use std::num::NonZeroU8;

/// How hosts are reached.
#[derive(Debug, Args)]
pub(super) struct RemoteWords {
    /// Where haul is on the host, if it is not found there
    #[arg(long, value_name = "PATH", help_heading = "Remote")]
    remote_haul: Option<String>,
    /// Reach the host with COMMAND instead of ssh
    #[arg(short = 'e', long, value_name = "COMMAND", help_heading = "Remote")]
    rsh: Option<String>,
    /// Use the haul of the host, or its SFTP server
    #[arg(long, value_enum, value_name = "haul|sftp", hide_possible_values = true)]
    #[arg(help_heading = "Remote")]
    transport: Option<Transport>,
    #[command(flatten)]
    timeout: TimeoutWords,
}

/// How long a host is waited for.
#[derive(Debug, Args)]
pub(super) struct TimeoutWords {
    /// Give up a host that is silent for SECONDS; 0 waits for ever
    #[arg(long, value_name = "SECONDS", default_value_t = SILENCE_SECONDS)]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=TIMEOUT_MAX), help_heading = "Remote")]
    timeout: u32,
}

impl TimeoutWords {
    /// What they come to.
    pub(super) fn patience(&self) -> Patience {
        Patience::of_seconds(self.timeout)
    }
}

/// The words of the commands that only ask.
#[derive(Debug, Args)]
pub(super) struct RequestWords {
    #[command(flatten)]
    remote: RemoteWords,
    /// Do not tell when a host without haul is asked through SFTP
    #[arg(short, long, help_heading = "Remote")]
    quiet: bool,
}

/// The words of the commands that move contents.
#[derive(Debug, Args)]
pub(super) struct TransferWords {
    #[command(flatten)]
    remote: RemoteWords,
    /// Use N connections to a host without haul
    #[arg(long, value_name = "N", default_value = "1", hide_default_value = true)]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=PARALLEL_MAX), help_heading = "Remote")]
    parallel: u8,
    /// Put haul onto a host that has none, then go on with it
    #[arg(long, conflicts_with_all = ["remote_haul", "transport"], help_heading = "Remote")]
    deploy: bool,
}

/// Connections to one host, at most: OpenSSH lets ten wait for their login.
const PARALLEL_MAX: i64 = 8;

/// The longest silence that may be asked for, but for ever: a day, in seconds.
const TIMEOUT_MAX: i64 = 86_400;

/// What is to be done where words name the SFTP server and an option the haul.
const WRITE_SSH: &str = "write ssh:// to have haul asked on the host";

/// Words of which one makes the other mean nothing.
fn exclude(one: &dyn fmt::Display, other: &str) -> CommandError {
    CommandError::usage(format!("{one} and {other} exclude each other"))
}

/// Who works with the files of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Transport {
    /// haul.
    Haul,
    /// Its SFTP server.
    Sftp,
}

impl RemoteWords {
    /// Who names haul's path on the host, or asks for haul, means no other.
    fn without_haul(&self) -> WithoutHaul {
        match (self.transport, &self.remote_haul) {
            (Some(Transport::Haul), _) | (_, Some(_)) => WithoutHaul::Fail,
            _ => WithoutHaul::GoOn,
        }
    }

    /// What the words for a location mean, hosts reached as these options say.
    fn location(&self, words: &OsString) -> Result<Location, CommandError> {
        let mut location = Location::parse(words)?;
        location.place = match (location.place.clone(), self.transport) {
            (Place::Here, _) => Place::Here,
            (Place::There(target), Some(Transport::Sftp)) => Place::Sftp(self.target(target)?),
            (Place::There(target), _) => Place::There(self.target(target)?),
            (Place::Sftp(_), Some(Transport::Haul)) => {
                return Err(exclude(&location, "--transport haul").with_hint(WRITE_SSH));
            }
            (Place::Sftp(_), _) if self.remote_haul.is_some() => {
                return Err(exclude(&location, "--remote-haul").with_hint(WRITE_SSH));
            }
            (Place::Sftp(target), _) => Place::Sftp(self.target(target)?),
        };
        Ok(location)
    }

    fn target(&self, mut target: SshTarget) -> Result<SshTarget, CommandError> {
        if let Some(command) = &self.rsh {
            target = target.with_rsh(command)?;
        }
        if let Some(path) = &self.remote_haul {
            target = target.with_remote_haul(path)?;
        }
        Ok(target.with_patience(self.timeout.patience()))
    }

    fn locations(&self, words: &[OsString]) -> Result<Vec<Location>, CommandError> {
        if self.transport == Some(Transport::Sftp) && self.remote_haul.is_some() {
            let error = exclude(&"--transport sftp", "--remote-haul");
            return Err(error.with_hint("through SFTP no haul is started: leave one of them out"));
        }
        words.iter().map(|words| self.location(words)).collect()
    }

    /// The sources and, last, the destination.
    pub(super) fn sources_and_dest(
        &self,
        words: &[OsString],
        usage: &str,
    ) -> Result<(Vec<Location>, Location), CommandError> {
        let mut sources = self.locations(words)?;
        let dest = sources.pop().filter(|_| !sources.is_empty()).ok_or_else(|| {
            CommandError::usage("the destination is missing").with_hint(format!("usage: {usage}"))
        })?;
        Ok((sources, dest))
    }

    /// How a job reaches hosts.
    pub(super) fn reach(&self) -> Reach {
        Reach { without_haul: self.without_haul(), parallel: NonZeroU8::MIN, deploy: false }
    }
}

impl TransferWords {
    /// As [`RemoteWords::sources_and_dest`].
    pub(super) fn sources_and_dest(
        &self,
        words: &[OsString],
        usage: &str,
    ) -> Result<(Vec<Location>, Location), CommandError> {
        let named = if self.remote.remote_haul.is_some() {
            Some("--remote-haul")
        } else {
            (self.remote.transport == Some(Transport::Haul)).then_some("--transport haul")
        };
        if let Some(named) = named.filter(|_| self.parallel > 1) {
            let error = exclude(&"--parallel", named);
            return Err(error.with_hint("to the haul of a host there is one connection"));
        }
        let (sources, dest) = self.remote.sources_and_dest(words, usage)?;
        let by_sftp = |location: &&Location| matches!(location.place, Place::Sftp(_));
        let by_sftp = sources.iter().chain([&dest]).find(by_sftp);
        match by_sftp.filter(|_| self.deploy) {
            Some(location) => Err(exclude(location, "--deploy").with_hint(WRITE_SSH)),
            None => Ok((sources, dest)),
        }
    }

    /// How a job reaches hosts.
    pub(super) fn reach(&self) -> Reach {
        let parallel = NonZeroU8::new(self.parallel).unwrap_or(NonZeroU8::MIN);
        Reach { parallel, deploy: self.deploy, ..self.remote.reach() }
    }
}

impl RequestWords {
    /// What a request does where there is no haul.
    pub(super) fn without_haul(&self) -> WithoutHaul {
        match self.remote.without_haul() {
            WithoutHaul::GoOn if self.quiet => WithoutHaul::GoOnQuietly,
            without_haul => without_haul,
        }
    }

    /// What the words for locations mean.
    pub(super) fn locations(&self, words: &[OsString]) -> Result<Vec<Location>, CommandError> {
        self.remote.locations(words)
    }
}
