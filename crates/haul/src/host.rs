//! A host that a command names, and the settings for connecting to it. Only code that starts ssh
//! uses [`Host::ssh`].

use haul_engine::Job;
use haul_model::{Compression, Via};
use haul_net::{Congestion, ConnectError, ServerVia, SshTarget, Timeouts};
use std::fmt;
use std::num::NonZeroU8;
use std::path::PathBuf;
use std::sync::Arc;

/// Default number of attempts in a row to reconnect. With growing pauses they take about five
/// minutes.
pub const RETRIES: u32 = 14;

/// The behaviour if a host has no haul.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WithoutHaul {
    /// Fail.
    Fail,
    /// Continue through the host's SFTP server, with a warning.
    Continue,
    /// Continue through SFTP without a warning.
    ContinueQuietly,
}

/// A host, and the settings of the command line and the configuration for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    ssh: Arc<SshTarget>,
    /// The SFTP server is used even if the host has haul.
    pub by_sftp: bool,
    /// The behaviour if there is no haul.
    pub without_haul: WithoutHaul,
    /// Maximum number of logins for contents, through ssh or SFTP. By default haul chooses the
    /// number for ssh; SFTP uses one.
    pub parallel: Option<NonZeroU8>,
    /// Maximum number of attempts in a row to reconnect.
    pub retries: u32,
    /// The user has set the timeout.
    pub has_timeout: bool,
    /// The program of haul to install on the host if it has none.
    pub deploy: Option<PathBuf>,
    /// The use of the host's server, if the user is enrolled at one.
    pub server: UseServer,
    /// The congestion control for data that is sent to a server over QUIC.
    pub congestion: Congestion,
    /// The command line sets the compression, not only the configuration.
    pub sets_compression: bool,
    /// The command line sets the rate limit, not only the configuration.
    pub sets_rate: bool,
    /// The command line sets the connections for contents, not only the configuration.
    pub sets_via: bool,
    /// Local files that the user may have meant by locations on this host.
    pub local_candidates: Vec<String>,
}

impl Host {
    /// The host with this name or address, with default settings.
    ///
    /// # Errors
    /// See [`SshTarget::new`].
    pub fn new(user: Option<&str>, name: &str) -> Result<Self, ConnectError> {
        Ok(Self {
            ssh: SshTarget::new(user, name)?.into(),
            by_sftp: false,
            without_haul: WithoutHaul::Continue,
            parallel: None,
            retries: 0,
            has_timeout: false,
            deploy: None,
            server: UseServer::Never,
            congestion: Congestion::default(),
            sets_compression: false,
            sets_rate: false,
            sets_via: false,
            local_candidates: Vec::new(),
        })
    }

    /// Changes how ssh is started.
    ///
    /// # Errors
    /// If `change` fails.
    pub fn with_ssh(
        self,
        change: impl FnOnce(SshTarget) -> Result<SshTarget, ConnectError>,
    ) -> Result<Self, ConnectError> {
        Ok(Self { ssh: change(Arc::unwrap_or_clone(self.ssh))?.into(), ..self })
    }

    /// The target for ssh.
    pub fn ssh(&self) -> &SshTarget {
        &self.ssh
    }

    /// The name or address of the host.
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

    /// The host in the form that `haul deploy` accepts, for messages.
    pub fn address(&self) -> String {
        self.ssh.address()
    }

    /// The timeouts of the host.
    pub fn timeouts(&self) -> Timeouts {
        self.ssh.timeouts()
    }

    /// `job` for a run through SFTP, without settings for haul that come from the configuration
    /// alone.
    pub fn without_defaults_of_haul(&self, job: &Job) -> Job {
        let mut job = job.clone();
        let wire = &mut job.wire;
        wire.compression = if self.sets_compression { wire.compression } else { Compression::Auto };
        wire.rate = wire.rate.filter(|_| self.sets_rate);
        wire.via = if self.sets_via { wire.via } else { Via::Auto };
        job
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.ssh.display())
    }
}

/// The use of a host's server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UseServer {
    /// The server is not used.
    Never,
    /// A server that this user is enrolled at is used, over the protocol that serves best.
    IfKnown,
    /// A server is required, over this protocol, or the one that serves best.
    Always(Option<ServerVia>),
}
