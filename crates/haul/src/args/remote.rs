//! The words that say how hosts are reached.

use crate::config::{
    Config, KEEP_DEFAULT, KeepFor, PARALLEL_MAX, RETRIES_MAX, Rate, Settings, TIMEOUT_MAX,
    Transport, typed,
};
use crate::endpoint::UseServer;
use crate::error::CommandError;
use crate::location::{Location, Machine};
use crate::peer::{Reach, Reaches, WithoutHaul};
use crate::state;
use clap::Args;
use haul_model::{Compression, Ports, Via};
use haul_net::{Congestion, Keep, Patience, ServerVia, SshTarget};
use std::ffi::OsString;
use std::fmt;
use std::num::{NonZeroU8, NonZeroU64};
use std::sync::Arc;
use std::time::Duration;

/// How hosts are reached.
#[derive(Debug, Args)]
pub(super) struct RemoteWords {
    #[arg(long, value_name = "PATH")]
    remote_haul: Option<String>,
    #[arg(short = 'e', long, value_name = "COMMAND")]
    rsh: Option<String>,
    #[arg(long, value_enum, value_name = "haul|sftp", hide_possible_values = true)]
    transport: Option<Transport>,
    #[command(flatten)]
    timeout: TimeoutWords,
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = KEEP_DEFAULT)]
    keep: Option<KeepFor>,
}

/// How long a host is waited for.
#[derive(Debug, Args)]
pub(super) struct TimeoutWords {
    #[arg(long, value_name = "SECONDS")]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=i64::from(TIMEOUT_MAX)))]
    pub(super) timeout: Option<u32>,
}

/// The words of the commands that only ask.
#[derive(Debug, Args)]
pub(super) struct RequestWords {
    #[command(flatten)]
    remote: RemoteWords,
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    retry: RetryWords,
}

/// The words of the commands that move contents.
#[derive(Debug, Args)]
pub(super) struct TransferWords {
    #[command(flatten)]
    remote: RemoteWords,
    #[command(flatten)]
    parallel: ParallelWords,
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

/// The way that contents take, by the words of a command and its configuration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Passage {
    /// Bytes of content that may be moved in a second.
    pub(crate) rate: Option<NonZeroU64>,
    /// The way in which what travels is compressed.
    pub(crate) compression: Compression,
    /// The connections that contents take to a haul.
    pub(crate) via: Via,
    /// The ports that it may open for them, if not any.
    pub(crate) ports: Option<Ports>,
    /// Content that the other side has already is sent all the same, and none is remembered.
    pub(crate) no_cache: bool,
    /// Bytes of content that would be lost and is kept, at most.
    pub(crate) kept_max: u64,
}

impl Passage {
    /// That between `sources` and `dest` with these words: where they say nothing, that of
    /// the destination's host, or, if that is here, of the first host of a source.
    pub(super) fn of(
        mut words: Settings,
        sources: &[Location],
        dest: &Location,
        config: &Config,
    ) -> Self {
        let machines = || [dest].into_iter().chain(sources).map(|location| &location.machine);
        if let Some(host) = machines().find_map(Machine::host) {
            words = config.with(words, Some(host.host()));
        }
        if machines().any(|machine| matches!(machine, Machine::Sftp(_))) {
            words.put_aside_of_haul_unless_typed();
        }
        Self {
            rate: words.bwlimit.and_then(|given| given.value.value),
            compression: words.compress.map(|given| given.value).unwrap_or_default(),
            via: words.via.map(|given| given.value).unwrap_or_default(),
            ports: words.port_range.map(|given| given.value),
            no_cache: false,
            kept_max: config.kept_max(),
        }
    }
}

/// How many connections there are, and how often one that was lost is made again.
#[derive(Debug, Args)]
pub(super) struct ParallelWords {
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=i64::from(PARALLEL_MAX)))]
    parallel: Option<u8>,
    #[command(flatten)]
    retry: RetryWords,
}

/// How often a connection that was lost is made again.
#[derive(Debug, Args)]
pub(super) struct RetryWords {
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=i64::from(RETRIES_MAX)))]
    retries: Option<u32>,
}

impl ParallelWords {
    /// Adds them to those that say how hosts are reached.
    pub(super) fn add_to(&self, remote: &RemoteWords) -> Settings {
        let parallel = self.parallel.and_then(NonZeroU8::new).map(typed);
        Settings { parallel, ..self.retry.add_to(remote) }
    }
}

impl RetryWords {
    /// Adds it to those that say how hosts are reached.
    fn add_to(&self, remote: &RemoteWords) -> Settings {
        Settings { retries: self.retries.map(typed), ..remote.settings() }
    }
}

/// The hint where a location names the SFTP server, and an option the haul there.
const WRITE_SSH: &str = "write ssh:// to use haul on the host";

/// Words of which one makes the other mean nothing.
fn exclude(one: &dyn fmt::Display, other: &str) -> CommandError {
    CommandError::usage(format!("{one} and {other} exclude each other"))
}

/// The same as other words have said it.
#[derive(Debug, Clone, Default)]
pub(super) struct Typed {
    pub(super) rsh: Option<String>,
    pub(super) remote_haul: Option<String>,
    pub(super) timeout: Option<u32>,
    pub(super) transport: Option<Transport>,
    pub(super) retries: Option<u32>,
    pub(super) parallel: Option<NonZeroU8>,
    pub(super) keep: Option<KeepFor>,
    pub(super) via: Option<Via>,
    pub(super) congestion: Option<Congestion>,
}

impl Typed {
    /// As [`TransferWords::sources_and_dest`].
    pub(super) fn sources_and_dest(
        self,
        words: &[OsString],
        usage: &str,
        config: &Config,
    ) -> Result<(Vec<Location>, Location, Reaches), CommandError> {
        let Self { rsh, remote_haul, timeout, transport, retries, parallel, keep, .. } = self;
        let (via, congestion) = (self.via.map(typed), self.congestion.map(typed));
        let timeout = TimeoutWords { timeout };
        let remote = RemoteWords { remote_haul, rsh, transport, timeout, keep };
        let (retry, parallel) = (RetryWords { retries }, parallel.map(typed));
        let words_of = Settings { parallel, via, congestion, ..retry.add_to(&remote) };
        let way = Way { words: words_of, deploy: false, config };
        way.sources_and_dest(words, usage)
    }

    /// The same of one source, which is to be listed: its destination is this machine.
    pub(super) fn source_alone(
        self,
        words: &[OsString],
        config: &Config,
    ) -> Result<(Vec<Location>, Location, Reaches), CommandError> {
        let Self { rsh, remote_haul, timeout, transport, retries, keep, .. } = self;
        let (via, congestion) = (self.via.map(typed), self.congestion.map(typed));
        let timeout = TimeoutWords { timeout };
        let remote = RemoteWords { remote_haul, rsh, transport, timeout, keep };
        let words_of = Settings { via, congestion, ..RetryWords { retries }.add_to(&remote) };
        let way = Way { words: words_of, deploy: false, config };
        let (sources, reaches) = way.locations(words)?;
        Ok((sources, Location::root(), reaches))
    }
}

impl RemoteWords {
    /// The settings of these words.
    fn settings(&self) -> Settings {
        Settings {
            rsh: self.rsh.clone().map(typed),
            remote_haul: self.remote_haul.clone().map(typed),
            transport: self.transport.map(typed),
            timeout: self.timeout.timeout.map(typed),
            keep: self.keep.clone().map(typed),
            ..Settings::default()
        }
    }
}

/// How hosts are reached: by the words of the command, and where they say nothing, by
/// the configuration.
#[derive(Debug)]
pub(super) struct Way<'c> {
    words: Settings,
    deploy: bool,
    config: &'c Config,
}

/// Locations, and how their hosts are reached.
pub(super) type Located = (Vec<Location>, Reaches);

impl Way<'_> {
    /// The location that the words mean, and how its host is reached.
    fn location(&self, words: &OsString) -> Result<(Location, Option<Reach>), CommandError> {
        let mut location = Location::parse(words)?;
        let (target, by_sftp) = match location.machine.clone() {
            Machine::Here => return Ok((location, None)),
            Machine::There(target) => (target, false),
            Machine::Sftp(target) => (target, true),
        };
        if by_sftp && let Some(option) = names_haul(&self.words) {
            return Err(exclude(&location, option).with_hint(WRITE_SSH));
        }
        let mut settings = self.config.with(self.words.clone(), Some(target.host()));
        if by_sftp || self.deploy {
            settings.put_aside_unless_typed();
        }
        let target = set_up(target, &settings)?;
        let asks_sftp = settings.transport.as_ref().is_some_and(|t| t.value == Transport::Sftp);
        location.machine = match by_sftp || asks_sftp {
            true => Machine::Sftp(target.clone()),
            false => Machine::There(target.clone()),
        };
        // Who names haul's path on the host, or asks for haul, means no other.
        let without_haul = match names_haul(&settings) {
            Some(_) => WithoutHaul::Fail,
            None => WithoutHaul::GoOn,
        };
        let parallel = settings.parallel.as_ref().map(|given| given.value);
        let (retries, has_timeout) = (settings.retries(), settings.timeout.is_some());
        let deploy = self.deploy;
        let server = self.server(&settings, &target);
        let congestion = settings.congestion.as_ref().map(|given| given.value).unwrap_or_default();
        let reach =
            Reach { without_haul, parallel, retries, has_timeout, deploy, server, congestion };
        Ok((location, Some(reach)))
    }

    /// The use of a host's server. Words about ssh ask for ssh.
    fn server(&self, settings: &Settings, target: &SshTarget) -> UseServer {
        let Settings { rsh, remote_haul, transport, .. } = &self.words;
        let names_ssh = rsh.is_some() || remote_haul.is_some() || transport.is_some();
        let names_login = target.port().is_some() || target.user().is_some();
        match settings.via.as_ref().map(|given| given.value) {
            Some(Via::Server) => UseServer::Always(None),
            Some(Via::ServerTcp) => UseServer::Always(Some(ServerVia::Tcp)),
            Some(Via::ServerQuic) => UseServer::Always(Some(ServerVia::Quic)),
            Some(Via::Ssh | Via::Tcp) => UseServer::Never,
            _ if names_ssh || names_login || self.deploy => UseServer::Never,
            None | Some(Via::Auto) => UseServer::IfKnown,
        }
    }

    /// The locations that the words mean.
    fn locations(&self, words: &[OsString]) -> Result<Located, CommandError> {
        if self.words.contradict() {
            let error = exclude(&"--transport sftp", "--remote-haul");
            return Err(error.with_hint("leave out one of them: SFTP starts no haul"));
        }
        let mut locations = Vec::with_capacity(words.len());
        let mut reaches = Reaches::default();
        for words in words {
            let (location, reach) = self.location(words)?;
            if let (Machine::There(target) | Machine::Sftp(target), Some(reach)) =
                (&location.machine, reach)
            {
                reaches.add(target, reach);
                if let Some(file) = location.here_instead() {
                    reaches.add_here_instead(target, file);
                }
            }
            locations.push(location);
        }
        Ok((locations, reaches))
    }

    /// The sources, the destination, which is last, and how their hosts are reached.
    fn sources_and_dest(
        &self,
        words: &[OsString],
        usage: &str,
    ) -> Result<(Vec<Location>, Location, Reaches), CommandError> {
        let (mut sources, reaches) = self.locations(words)?;
        let dest = sources.pop().filter(|_| !sources.is_empty()).ok_or_else(|| {
            CommandError::usage("the destination is missing").with_hint(format!("usage: {usage}"))
        })?;
        Ok((sources, dest, reaches))
    }
}

/// The option that asks for the haul of a host.
fn names_haul(settings: &Settings) -> Option<&'static str> {
    match (&settings.remote_haul, &settings.transport) {
        (Some(_), _) => Some("--remote-haul"),
        (None, Some(given)) if given.value == Transport::Haul => Some("--transport haul"),
        _ => None,
    }
}

/// The host, reached as the configuration says.
pub(super) fn reached(target: SshTarget, config: &Config) -> Result<SshTarget, CommandError> {
    let settings = config.with(Settings::default(), Some(target.host()));
    set_up(target, &settings)
}

/// The host, reached as the settings say.
pub(super) fn set_up(
    mut target: SshTarget,
    settings: &Settings,
) -> Result<SshTarget, CommandError> {
    if let Some(command) = &settings.rsh {
        target = target.with_rsh(&command.value)?;
    }
    if let Some(path) = &settings.remote_haul {
        target = target.with_remote_haul(&path.value)?;
    }
    if let Some(keep) = settings.keep.as_ref().and_then(|given| keep(given.value.value)) {
        target = target.with_keep(Arc::new(keep));
    }
    Ok(target.with_patience(Patience::of_seconds(settings.timeout_seconds())))
}

/// The way to keep connections for so long, if there is one.
fn keep(lasts: Duration) -> Option<Keep> {
    let dir = state::kept().filter(|_| !lasts.is_zero())?;
    let program = std::env::current_exe().ok()?;
    Some(Keep { dir, lasts, holder: vec![program.into(), "keep".into(), "hold".into()] })
}

impl RemoteWords {
    /// One location, and how its host is reached.
    pub(super) fn location(
        &self,
        words: &OsString,
        config: &Config,
    ) -> Result<(Location, Reaches), CommandError> {
        let way = Way { words: self.settings(), deploy: false, config };
        let (mut locations, reaches) = way.locations(std::slice::from_ref(words))?;
        Ok((locations.remove(0), reaches))
    }

    /// The sources, the destination, which is last, and how their hosts are reached.
    pub(super) fn sources_and_dest(
        &self,
        words: &[OsString],
        usage: &str,
        retry: &RetryWords,
        config: &Config,
    ) -> Result<(Vec<Location>, Location, Reaches), CommandError> {
        let way = Way { words: retry.add_to(self), deploy: false, config };
        way.sources_and_dest(words, usage)
    }
}

impl TransferWords {
    /// The way that contents take between these places.
    pub(super) fn passage(
        &self,
        sources: &[Location],
        dest: &Location,
        config: &Config,
    ) -> Passage {
        let no_cache = self.no_cache;
        Passage { no_cache, ..Passage::of(self.words(), sources, dest, config) }
    }

    /// The words about that way.
    fn words(&self) -> Settings {
        Settings {
            bwlimit: self.bwlimit.clone().map(typed),
            compress: self.compress.map(typed),
            via: self.via.map(typed),
            port_range: self.port_range.map(typed),
            ..Settings::default()
        }
    }

    /// As [`RemoteWords::sources_and_dest`].
    pub(super) fn sources_and_dest(
        &self,
        words: &[OsString],
        usage: &str,
        config: &Config,
    ) -> Result<(Vec<Location>, Location, Reaches), CommandError> {
        let (via, congestion) = (self.via.map(typed), self.congestion.map(typed));
        let settings = Settings { via, congestion, ..self.parallel.add_to(&self.remote) };
        let way = Way { words: settings, deploy: self.deploy, config };
        let (sources, dest, reaches) = way.sources_and_dest(words, usage)?;
        let by_sftp = |location: &&Location| matches!(location.machine, Machine::Sftp(_));
        let by_sftp = sources.iter().chain([&dest]).find(by_sftp);
        match by_sftp.filter(|_| self.deploy) {
            Some(location) => Err(exclude(location, "--deploy").with_hint(WRITE_SSH)),
            None => Ok((sources, dest, reaches.asking(&self.words()))),
        }
    }
}

impl RequestWords {
    /// The locations that the words mean, and the course where there is no haul.
    pub(super) fn locations(
        &self,
        words: &[OsString],
        config: &Config,
    ) -> Result<Located, CommandError> {
        let words_of = self.retry.add_to(&self.remote);
        let way = Way { words: words_of, deploy: false, config };
        let (locations, reaches) = way.locations(words)?;
        Ok((locations, if self.quiet { reaches.quietly() } else { reaches }))
    }
}
