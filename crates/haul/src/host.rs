//! A host that the words of a command name, and how it is reached. Only what starts ssh asks for
//! [`Host::ssh`].

use crate::endpoint::UseServer;
use haul_engine::Job;
use haul_model::{Compression, Via};
use haul_net::{Congestion, ConnectError, Patience, SshTarget};
use std::fmt;
use std::num::NonZeroU8;
use std::path::PathBuf;
use std::sync::Arc;

/// How often in a row a lost connection is made again, unless the caller says otherwise: with
/// growing pauses, about five minutes.
pub const RETRIES: u32 = 14;

/// The course to take where a host turns out to have no haul.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WithoutHaul {
    /// Fails.
    Fail,
    /// Continues through the host's SFTP server, with a warning.
    GoOn,
    /// Continues without a warning.
    GoOnQuietly,
}

/// A host, and all that the words of a command and the configuration say about the way there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    ssh: Arc<SshTarget>,
    /// Its SFTP server is used, even if there is a haul.
    pub by_sftp: bool,
    /// The course where there is no haul.
    pub without_haul: WithoutHaul,
    /// Logins, at most, for contents that go by ssh or through SFTP. Where the user has not
    /// said it, haul chooses by ssh, and there is one through SFTP.
    pub parallel: Option<NonZeroU8>,
    /// How often in a row a lost connection is made again.
    pub retries: u32,
    /// The user has said how long it may be silent.
    pub has_timeout: bool,
    /// The program of a haul that a host without one gets first.
    pub deploy: Option<PathBuf>,
    /// The use of its server, if the user is enrolled at one.
    pub server: UseServer,
    /// The congestion control of what is sent to a server by QUIC.
    pub congestion: Congestion,
    /// The words of the command say how to compress, and not the configuration alone.
    pub asks_to_compress: bool,
    /// The same of a bound on the rate.
    pub asks_for_rate: bool,
    /// The same of the connections that contents take.
    pub asks_for_way: bool,
    /// Files of this machine that words which name the host may have meant.
    pub here_instead: Vec<String>,
}

impl Host {
    /// The host with that name or address, reached as if nothing was said.
    ///
    /// # Errors
    /// See [`SshTarget::new`].
    pub fn new(user: Option<&str>, name: &str) -> Result<Self, ConnectError> {
        Ok(Self {
            ssh: SshTarget::new(user, name)?.into(),
            by_sftp: false,
            without_haul: WithoutHaul::GoOn,
            parallel: None,
            retries: 0,
            has_timeout: false,
            deploy: None,
            server: UseServer::Never,
            congestion: Congestion::default(),
            asks_to_compress: false,
            asks_for_rate: false,
            asks_for_way: false,
            here_instead: Vec::new(),
        })
    }

    /// Changes the way in which ssh is started.
    ///
    /// # Errors
    /// If `change` fails.
    pub fn with_ssh(
        self,
        change: impl FnOnce(SshTarget) -> Result<SshTarget, ConnectError>,
    ) -> Result<Self, ConnectError> {
        Ok(Self { ssh: change(Arc::unwrap_or_clone(self.ssh))?.into(), ..self })
    }

    /// The host as ssh is started for it.
    pub fn ssh(&self) -> &SshTarget {
        &self.ssh
    }

    /// Its name or address.
    pub fn name(&self) -> &str {
        self.ssh.host()
    }

    /// The user, if one was given.
    pub fn user(&self) -> Option<&str> {
        self.ssh.user()
    }

    /// The port of ssh, if one was given.
    pub fn port(&self) -> Option<u16> {
        self.ssh.port()
    }

    /// The host as `haul deploy` takes it, to show.
    pub fn address(&self) -> String {
        self.ssh.address()
    }

    /// How long it is waited for.
    pub fn patience(&self) -> Patience {
        self.ssh.patience()
    }

    /// `job` as it runs through SFTP: what the configuration alone says of haul is put aside.
    pub fn without_defaults_of_haul(&self, job: &Job) -> Job {
        let compression = if self.asks_to_compress { job.compression } else { Compression::Auto };
        let rate = job.rate.filter(|_| self.asks_for_rate);
        let via = if self.asks_for_way { job.via } else { Via::Auto };
        Job { compression, rate, via, ..job.clone() }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.ssh.display())
    }
}
