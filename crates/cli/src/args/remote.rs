//! The options for reaching hosts and for transfers.

use super::{Asked, detail};
use crate::command::deploy::own_program;
use crate::config::{
    Config, KEEP_DEFAULT, KeepFor, PARALLEL_MAX, RETRIES_MAX, Rate, Settings, TIMEOUT_MAX,
    Transport, from_command_line,
};
use crate::error::CommandError;
use clap::builder::RangedI64ValueParser;
use clap::{Args, value_parser};
use haul::state;
use haul::{Host, Location, Machine, RETRIES, TransferOptions, UseServer, WithoutHaul};
use haul_model::{Compression, Ports, Via};
use haul_net::{Congestion, Keep, SILENCE_SECONDS, ServerVia, Timeouts};
use std::ffi::OsString;
use std::fmt;
use std::num::NonZeroU8;
use std::sync::Arc;
use std::time::Duration;

/// The options for reaching hosts.
#[derive(Debug, Args)]
pub(super) struct RemoteArgs {
    #[arg(long, value_name = "PATH")]
    remote_haul: Option<String>,
    #[arg(short = 'e', long, value_name = "COMMAND")]
    rsh: Option<String>,
    #[arg(long, value_enum, value_name = "haul|sftp", hide_possible_values = true)]
    transport: Option<Transport>,
    #[arg(long, value_name = "SECONDS", value_parser = timeout())]
    timeout: Option<u32>,
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = KEEP_DEFAULT)]
    keep: Option<KeepFor>,
}

/// The parser of a timeout.
pub(super) fn timeout() -> RangedI64ValueParser<u32> {
    value_parser!(u32).range(0..=i64::from(TIMEOUT_MAX))
}

/// The options of commands that only read metadata or hashes.
#[derive(Debug, Args)]
pub(super) struct RequestArgs {
    #[command(flatten)]
    remote: RetriedArgs,
    #[arg(short, long)]
    quiet: bool,
    #[arg(long, group = "detail")]
    json: bool,
}

/// The options of commands that transfer contents.
#[derive(Debug, Args)]
pub(super) struct TransferArgs {
    #[command(flatten)]
    remote: ParallelArgs,
    #[arg(long, value_name = "HOW")]
    compress: Option<Compression>,
    #[arg(long, value_name = "WAY")]
    via: Option<Via>,
    #[arg(long, value_name = "HOW")]
    congestion: Option<Congestion>,
    #[arg(long, value_name = "FIRST-LAST")]
    port_range: Option<Ports>,
    #[arg(long)]
    no_cache: bool,
    #[arg(long, value_name = "RATE")]
    bwlimit: Option<Rate>,
    #[arg(long, conflicts_with_all = ["remote_haul", "transport"])]
    deploy: bool,
}

/// How contents travel between `sources` and `dest`. `words` override the settings of the
/// destination's host or, if that is local, of the first source on a host.
pub(super) fn transfer_options(
    mut words: Settings,
    sources: &[Location],
    dest: &Location,
    no_cache: bool,
    config: &Config,
) -> TransferOptions {
    let machines = || [dest].into_iter().chain(sources).map(|location| &location.machine);
    if let Some(host) = machines().find_map(Machine::host) {
        words = config.with(words, Some(host.name()));
    }
    if machines().any(Machine::is_by_sftp) {
        words.drop_configured_connection();
    }
    TransferOptions {
        rate: words.bwlimit.and_then(|given| given.value.value),
        compression: words.compress.map(|given| given.value).unwrap_or_default(),
        via: words.via.map(|given| given.value).unwrap_or_default(),
        ports: words.port_range.map(|given| given.value),
        no_cache,
        kept_max: config.kept_max(),
    }
}

/// The options for reaching hosts, and the number of connections.
#[derive(Debug, Args)]
pub(super) struct ParallelArgs {
    #[command(flatten)]
    remote: RetriedArgs,
    #[arg(long, value_name = "N")]
    #[arg(value_parser = value_parser!(u8).range(1..=i64::from(PARALLEL_MAX)))]
    parallel: Option<u8>,
}

impl ParallelArgs {
    pub(super) fn settings(&self) -> Settings {
        let parallel = self.parallel.and_then(NonZeroU8::new).map(from_command_line);
        Settings { parallel, ..self.remote.settings() }
    }
}

/// The options for reaching hosts, and the number of retries after a lost connection.
#[derive(Debug, Args)]
pub(super) struct RetriedArgs {
    #[command(flatten)]
    remote: RemoteArgs,
    #[arg(long, value_name = "N")]
    #[arg(value_parser = value_parser!(u32).range(0..=i64::from(RETRIES_MAX)))]
    retries: Option<u32>,
}

impl RetriedArgs {
    pub(super) fn settings(&self) -> Settings {
        Settings { retries: self.retries.map(from_command_line), ..self.remote.settings() }
    }
}

/// The hint for an option about haul with a location that uses the SFTP server.
const WRITE_SSH: &str = "write ssh:// to use haul on the host";

/// The error for two options that exclude each other.
fn exclude(one: &dyn fmt::Display, other: &str) -> CommandError {
    CommandError::usage(format!("{one} and {other} exclude each other"))
}

impl RemoteArgs {
    pub(super) fn settings(&self) -> Settings {
        Settings {
            rsh: self.rsh.clone().map(from_command_line),
            remote_haul: self.remote_haul.clone().map(from_command_line),
            transport: self.transport.map(from_command_line),
            timeout: self.timeout.map(from_command_line),
            keep: self.keep.clone().map(from_command_line),
            ..Settings::default()
        }
    }
}

/// How hosts are reached: by the command line first, then by the configuration.
#[derive(Debug)]
pub(super) struct HostResolver<'c> {
    words: Settings,
    deploy: bool,
    /// Do not report hosts without haul.
    quiet: bool,
    config: &'c Config,
}

impl<'c> HostResolver<'c> {
    pub(super) fn new(words: Settings, config: &'c Config) -> Self {
        Self { words, deploy: false, quiet: false, config }
    }

    /// Parses a location, and sets up its host.
    fn location(&self, words: &OsString) -> Result<Location, CommandError> {
        let mut location = Location::parse(words)?;
        let Machine::Remote(host) = location.machine.clone() else { return Ok(location) };
        if host.by_sftp
            && let Some(option) = haul_option(&self.words)
        {
            return Err(exclude(&location, option).with_hint(WRITE_SSH));
        }
        let mut settings = self.config.with(self.words.clone(), Some(host.name()));
        if host.by_sftp || self.deploy {
            settings.drop_configured_program();
        }
        let mut host = set_up(host, &settings)?;
        host.by_sftp |= settings.transport.as_ref().is_some_and(|t| t.value == Transport::Sftp);
        // A setting of remote-haul, or transport haul, allows no fallback.
        if haul_option(&settings).is_some() {
            host.without_haul = WithoutHaul::Fail;
        } else if self.quiet && host.without_haul == WithoutHaul::Continue {
            host.without_haul = WithoutHaul::ContinueQuietly;
        }
        host.parallel = settings.parallel.as_ref().map(|given| given.value);
        host.retries = settings.retries.as_ref().map_or(RETRIES, |given| given.value);
        host.has_timeout = settings.timeout.is_some();
        host.deploy = self.deploy.then(own_program).transpose()?;
        host.server = self.server(&settings, &host);
        host.congestion = settings.congestion.as_ref().map(|given| given.value).unwrap_or_default();
        host.sets_compression = self.words.compress.is_some();
        host.sets_rate = self.words.bwlimit.is_some();
        host.sets_via = self.words.via.is_some();
        location.machine = Machine::Remote(host);
        Ok(location)
    }

    /// How the host's server is used. Options or a login for ssh select ssh.
    fn server(&self, settings: &Settings, host: &Host) -> UseServer {
        let Settings { rsh, remote_haul, transport, .. } = &self.words;
        let names_ssh = rsh.is_some() || remote_haul.is_some() || transport.is_some();
        let names_login = host.port().is_some() || host.user().is_some();
        match settings.via.as_ref().map(|given| given.value) {
            Some(Via::Server) => UseServer::Always(None),
            Some(Via::ServerTcp) => UseServer::Always(Some(ServerVia::Tcp)),
            Some(Via::ServerQuic) => UseServer::Always(Some(ServerVia::Quic)),
            Some(Via::Ssh | Via::Tcp) => UseServer::Never,
            _ if names_ssh || names_login || self.deploy => UseServer::Never,
            None | Some(Via::Auto) => UseServer::IfKnown,
        }
    }

    /// Parses the locations, and sets up their hosts.
    pub(super) fn locations(&self, words: &[OsString]) -> Result<Vec<Location>, CommandError> {
        if self.words.is_contradictory() {
            let error = exclude(&"--transport sftp", "--remote-haul");
            return Err(error.with_hint("leave out one of them: SFTP starts no haul"));
        }
        let locations = words.iter().map(|words| self.location(words));
        let mut locations = locations.collect::<Result<Vec<_>, _>>()?;
        let meant =
            |location: &Location| Some((location.machine.clone(), location.local_candidates()?));
        let meant: Vec<_> = locations.iter().filter_map(meant).collect();
        for location in &mut locations {
            let of_host = meant.iter().filter(|(machine, _)| *machine == location.machine);
            let files = of_host.map(|(_, file)| file.clone()).collect();
            if let Machine::Remote(host) = &mut location.machine {
                host.local_candidates = files;
            }
        }
        Ok(locations)
    }

    /// The sources and the destination, which is the last location.
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
}

/// The option that requires haul on the host.
fn haul_option(settings: &Settings) -> Option<&'static str> {
    match (&settings.remote_haul, &settings.transport) {
        (Some(_), _) => Some("--remote-haul"),
        (None, Some(given)) if given.value == Transport::Haul => Some("--transport haul"),
        _ => None,
    }
}

/// Sets up the host by the configuration.
pub(super) fn configured_host(host: Host, config: &Config) -> Result<Host, CommandError> {
    let settings = config.with(Settings::default(), Some(host.name()));
    set_up(host, &settings)
}

/// Sets up the host by the settings.
pub(super) fn set_up(host: Host, settings: &Settings) -> Result<Host, CommandError> {
    let set_up = host.with_ssh(|mut ssh| {
        if let Some(command) = &settings.rsh {
            ssh = ssh.with_rsh(&command.value)?;
        }
        if let Some(path) = &settings.remote_haul {
            ssh = ssh.with_remote_haul(&path.value)?;
        }
        if let Some(keep) = settings.keep.as_ref().and_then(|given| keep(given.value.value)) {
            ssh = ssh.with_keep(Arc::new(keep));
        }
        let timeout = settings.timeout.as_ref().map_or(SILENCE_SECONDS, |given| given.value);
        Ok(ssh.with_timeouts(Timeouts::from_seconds(timeout)))
    });
    Ok(set_up?)
}

/// How connections are kept for `keep_time`; `None` for no time, or without a state directory.
fn keep(keep_time: Duration) -> Option<Keep> {
    let dir = state::kept().filter(|_| !keep_time.is_zero())?;
    let program = std::env::current_exe().ok()?;
    Some(Keep::Held { dir, keep_time, holder: vec![program.into(), "keep".into(), "hold".into()] })
}

impl TransferArgs {
    /// How contents travel between these locations.
    pub(super) fn transfer_options(
        &self,
        sources: &[Location],
        dest: &Location,
        config: &Config,
    ) -> TransferOptions {
        transfer_options(self.words(), sources, dest, self.no_cache, config)
    }

    /// The settings of all these options.
    fn words(&self) -> Settings {
        Settings {
            bwlimit: self.bwlimit.clone().map(from_command_line),
            compress: self.compress.map(from_command_line),
            via: self.via.map(from_command_line),
            congestion: self.congestion.map(from_command_line),
            port_range: self.port_range.map(from_command_line),
            ..self.remote.settings()
        }
    }

    /// Like [`HostResolver::sources_and_dest`].
    pub(super) fn sources_and_dest(
        &self,
        words: &[OsString],
        usage: &str,
        config: &Config,
    ) -> Result<(Vec<Location>, Location), CommandError> {
        let resolver = HostResolver::new(self.words(), config);
        let resolver = HostResolver { deploy: self.deploy, ..resolver };
        let (sources, dest) = resolver.sources_and_dest(words, usage)?;
        let by_sftp = |location: &&Location| location.machine.is_by_sftp();
        let by_sftp = sources.iter().chain([&dest]).find(by_sftp);
        match by_sftp.filter(|_| self.deploy) {
            Some(location) => Err(exclude(location, "--deploy").with_hint(WRITE_SSH)),
            None => Ok((sources, dest)),
        }
    }
}

impl RequestArgs {
    /// Parses the paths, and sets up their hosts.
    pub(super) fn asked(&self, words: &[OsString], config: &Config) -> Result<Asked, CommandError> {
        let resolver = HostResolver::new(self.remote.settings(), config);
        let paths = HostResolver { quiet: self.quiet, ..resolver }.locations(words)?;
        Ok(Asked { paths, detail: detail(false, 0, self.json) })
    }
}
