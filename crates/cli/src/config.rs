//! Settings from the configuration file, the environment and the command line, and their
//! precedence. Does not parse the command line. Only commands that copy or reach hosts read the
//! file and the environment.

mod file;
mod written;

pub(crate) use self::written::{KEEP_DEFAULT, KeepFor, KeptMax, Rate};

use crate::error::CommandError;
use haul::{RETRIES, files, state};
use haul_model::{Compression, Ports, Via};
use haul_net::{Congestion, SILENCE_SECONDS, SshTarget};
use serde::Serialize;
use std::env;
use std::ffi::OsString;
use std::num::NonZeroU8;
use std::path::PathBuf;
use std::str::FromStr;

/// Maximum number of connections to one host: by default OpenSSH allows ten that are not logged in.
pub(crate) const PARALLEL_MAX: u8 = 8;

/// Maximum timeout in seconds: one day. 0 means no timeout.
pub(crate) const TIMEOUT_MAX: u32 = 86_400;

/// Maximum number of retries. They last for days.
pub(crate) const RETRIES_MAX: u32 = 10_000;

/// The program that serves the files of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Transport {
    /// haul.
    Haul,
    /// Its SFTP server.
    Sftp,
}

/// Where a value was given. Later variants override earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GivenIn {
    /// The file's general part, at this line.
    File(usize),
    /// The file's section of the host, at this line.
    HostSection(usize),
    /// An environment variable.
    Environment,
    CommandLine,
}

impl GivenIn {
    /// The precedence: higher overrides lower.
    fn rank(self) -> u8 {
        match self {
            Self::File(_) => 0,
            Self::HostSection(_) => 1,
            Self::Environment => 2,
            Self::CommandLine => 3,
        }
    }
}

/// A value, and its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Given<T> {
    pub(crate) value: T,
    pub(crate) origin: GivenIn,
}

/// A value from the command line.
pub(crate) fn typed<T>(value: T) -> Given<T> {
    Given { value, origin: GivenIn::CommandLine }
}

/// The settings. Each has the name of its option; the file and the environment use the same names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) rsh: Option<Given<String>>,
    pub(crate) remote_haul: Option<Given<String>>,
    pub(crate) transport: Option<Given<Transport>>,
    /// In seconds, at most [`TIMEOUT_MAX`]; 0 means no timeout.
    pub(crate) timeout: Option<Given<u32>>,
    /// At most [`PARALLEL_MAX`].
    pub(crate) parallel: Option<Given<NonZeroU8>>,
    /// At most [`RETRIES_MAX`].
    pub(crate) retries: Option<Given<u32>>,
    pub(crate) bwlimit: Option<Given<Rate>>,
    pub(crate) compress: Option<Given<Compression>>,
    pub(crate) via: Option<Given<Via>>,
    pub(crate) congestion: Option<Given<Congestion>>,
    pub(crate) port_range: Option<Given<Ports>>,
    pub(crate) keep: Option<Given<KeepFor>>,
    pub(crate) cache: Option<Given<KeptMax>>,
    pub(crate) verify: Option<Given<bool>>,
    pub(crate) sync: Option<Given<bool>>,
}

/// The keys; `true` if the key may be set per host.
const KEYS: [(&str, bool); 15] = [
    ("rsh", true),
    ("remote-haul", true),
    ("transport", true),
    ("timeout", true),
    ("parallel", true),
    ("retries", true),
    ("bwlimit", true),
    ("compress", true),
    ("via", true),
    ("congestion", true),
    ("port-range", true),
    ("keep", true),
    ("cache", false),
    ("verify", false),
    ("sync", false),
];

/// An unchecked value.
#[derive(Debug, Clone, Copy)]
enum Raw<'a> {
    Text(&'a str),
    Number(i64),
    Switch(bool),
    /// Any other type of value.
    Odd,
}

/// A value, as `haul config` shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub(crate) enum SettingValue {
    Text(String),
    Number(u32),
    Switch(bool),
}

impl Settings {
    /// Sets one of [`KEYS`].
    ///
    /// # Errors
    /// The kind of value that the key requires. The value itself is not shown, because the file may
    /// contain secrets.
    fn set(&mut self, key: &str, raw: Raw<'_>, origin: GivenIn) -> Result<(), String> {
        let probe = || SshTarget::new(None, "host").map_err(|error| error.to_string());
        match (key, raw) {
            ("rsh", Raw::Text(text)) if probe()?.with_rsh(text).is_ok() => {
                self.rsh = Some(Given { value: text.to_owned(), origin });
            }
            ("rsh", _) => return Err("a program and its options, as a text".to_owned()),
            ("remote-haul", Raw::Text(text)) if probe()?.with_remote_haul(text).is_ok() => {
                self.remote_haul = Some(Given { value: text.to_owned(), origin });
            }
            ("remote-haul", _) => return Err("one path on the host, as a text".to_owned()),
            ("transport", raw) => {
                let value = match raw {
                    Raw::Text("haul") => Transport::Haul,
                    Raw::Text("sftp") => Transport::Sftp,
                    _ => return Err("\"haul\" or \"sftp\"".to_owned()),
                };
                self.transport = Some(Given { value, origin });
            }
            ("timeout", raw) => {
                let seconds = number(raw).filter(|seconds| *seconds <= TIMEOUT_MAX);
                let wanted = || format!("a number of seconds from 0 to {TIMEOUT_MAX}");
                self.timeout = Some(Given { value: seconds.ok_or_else(wanted)?, origin });
            }
            ("parallel", raw) => {
                let lanes = number(raw).and_then(|lanes| u8::try_from(lanes).ok());
                let lanes = lanes.filter(|lanes| *lanes <= PARALLEL_MAX).and_then(NonZeroU8::new);
                let wanted = || format!("a number from 1 to {PARALLEL_MAX}");
                self.parallel = Some(Given { value: lanes.ok_or_else(wanted)?, origin });
            }
            ("retries", raw) => {
                let retries = number(raw).filter(|retries| *retries <= RETRIES_MAX);
                let wanted = || format!("a number from 0 to {RETRIES_MAX}");
                self.retries = Some(Given { value: retries.ok_or_else(wanted)?, origin });
            }
            ("bwlimit", raw) => {
                let wanted = "a rate in KiB per second, or a text with a unit, such as \"5m\"";
                self.bwlimit = Some(Given { value: parsed(raw, wanted)?, origin });
            }
            ("compress", raw) => {
                let wanted = "\"auto\", \"none\", \"lz4\", \"zstd\" or \"zstd:LEVEL\"";
                self.compress = Some(Given { value: parsed(raw, wanted)?, origin });
            }
            ("via", raw) => {
                let value = parsed(raw, &Via::words("\""))?;
                self.via = Some(Given { value, origin });
            }
            ("congestion", raw) => {
                let value = parsed(raw, "\"bbr\", \"cubic\" or \"newreno\"")?;
                self.congestion = Some(Given { value, origin });
            }
            ("port-range", raw) => {
                let value = parsed(raw, "ports, such as \"7000-7009\"")?;
                self.port_range = Some(Given { value, origin });
            }
            ("keep", raw) => {
                let value = parsed(raw, "a time from 0 to 24h, such as \"10m\"")?;
                self.keep = Some(Given { value, origin });
            }
            ("cache", raw) => {
                let value = parsed(raw, "a size, such as \"4GiB\", or 0")?;
                self.cache = Some(Given { value, origin });
            }
            ("verify", raw) => self.verify = Some(Given { value: switch(raw)?, origin }),
            (_, raw) => self.sync = Some(Given { value: switch(raw)?, origin }),
        }
        Ok(())
    }

    /// Fills in unset values from `below`.
    fn over(self, below: &Self) -> Self {
        Self {
            rsh: self.rsh.or_else(|| below.rsh.clone()),
            remote_haul: self.remote_haul.or_else(|| below.remote_haul.clone()),
            transport: self.transport.or_else(|| below.transport.clone()),
            timeout: self.timeout.or_else(|| below.timeout.clone()),
            parallel: self.parallel.or_else(|| below.parallel.clone()),
            retries: self.retries.or_else(|| below.retries.clone()),
            bwlimit: self.bwlimit.or_else(|| below.bwlimit.clone()),
            compress: self.compress.or_else(|| below.compress.clone()),
            via: self.via.or_else(|| below.via.clone()),
            congestion: self.congestion.or_else(|| below.congestion.clone()),
            port_range: self.port_range.or_else(|| below.port_range.clone()),
            keep: self.keep.or_else(|| below.keep.clone()),
            cache: self.cache.or_else(|| below.cache.clone()),
            verify: self.verify.or_else(|| below.verify.clone()),
            sync: self.sync.or_else(|| below.sync.clone()),
        }
    }

    /// Drops the weaker of two contradicting settings: SFTP starts no haul. Two settings of the
    /// same origin stay, and are refused later.
    fn settle(mut self) -> Self {
        if let (Some(transport), Some(path)) = (&self.transport, &self.remote_haul)
            && transport.value == Transport::Sftp
        {
            match transport.origin.rank().cmp(&path.origin.rank()) {
                std::cmp::Ordering::Greater => self.remote_haul = None,
                std::cmp::Ordering::Less => self.transport = None,
                std::cmp::Ordering::Equal => {}
            }
        }
        self
    }

    /// Drops settings of the host's program that were not given on the command line.
    pub(crate) fn put_aside_unless_typed(&mut self) {
        self.transport.take_if(|given| given.origin != GivenIn::CommandLine);
        self.remote_haul.take_if(|given| given.origin != GivenIn::CommandLine);
    }

    /// Drops settings of connections that were not given on the command line: SFTP has only one
    /// kind. A rate limit stays, because it is reported.
    pub(crate) fn put_aside_of_haul_unless_typed(&mut self) {
        self.compress.take_if(|given| given.origin != GivenIn::CommandLine);
        self.via.take_if(|given| given.origin != GivenIn::CommandLine);
        self.port_range.take_if(|given| given.origin != GivenIn::CommandLine);
    }

    /// True if SFTP and a path of haul are set with the same precedence.
    pub(crate) fn contradict(&self) -> bool {
        let sftp = self.transport.as_ref().filter(|given| given.value == Transport::Sftp);
        sftp.zip(self.remote_haul.as_ref())
            .is_some_and(|(one, other)| one.origin.rank() == other.origin.rank())
    }

    /// The timeout of a silent host, in seconds.
    pub(crate) fn timeout_seconds(&self) -> u32 {
        self.timeout.as_ref().map_or(SILENCE_SECONDS, |given| given.value)
    }

    /// The maximum number of consecutive retries after a lost connection.
    pub(crate) fn retries(&self) -> u32 {
        self.retries.as_ref().map_or(RETRIES, |given| given.value)
    }

    /// Every key, its value and its origin, defaults included. A key without a value means that
    /// haul decides in each run.
    pub(crate) fn rows(
        &self,
    ) -> [(&'static str, Option<SettingValue>, Option<GivenIn>); KEYS.len()] {
        fn row<T: Clone>(
            given: &Option<Given<T>>,
            default: Option<T>,
            show: impl Fn(T) -> SettingValue,
        ) -> (Option<SettingValue>, Option<GivenIn>) {
            let value = given.as_ref().map(|given| given.value.clone()).or(default);
            (value.map(show), given.as_ref().map(|given| given.origin))
        }
        let transport = |transport| match transport {
            Transport::Haul => SettingValue::Text("haul".to_owned()),
            Transport::Sftp => SettingValue::Text("sftp".to_owned()),
        };
        let lanes = |lanes: NonZeroU8| SettingValue::Number(lanes.get().into());
        fn shown(value: impl ToString) -> SettingValue {
            SettingValue::Text(value.to_string())
        }
        let rows = [
            row(&self.rsh, Some("ssh".to_owned()), SettingValue::Text),
            row(&self.remote_haul, None, SettingValue::Text),
            row(&self.transport, None, transport),
            row(&self.timeout, Some(SILENCE_SECONDS), SettingValue::Number),
            row(&self.parallel, None, lanes),
            row(&self.retries, Some(RETRIES), SettingValue::Number),
            row(&self.bwlimit, None, shown),
            row(&self.compress, Some(Compression::Auto), shown),
            row(&self.via, Some(Via::Auto), shown),
            row(&self.congestion, Some(Congestion::default()), shown),
            row(&self.port_range, None, shown),
            row(&self.keep, Some(KeepFor::default()), shown),
            row(&self.cache, Some(KeptMax::default()), shown),
            row(&self.verify, Some(false), SettingValue::Switch),
            row(&self.sync, Some(false), SettingValue::Switch),
        ];
        let mut keys = KEYS.into_iter();
        rows.map(|(value, origin)| (keys.next().map_or("", |(key, _)| key), value, origin))
    }
}

/// A number, also written as text: variables have only text.
fn number(raw: Raw<'_>) -> Option<u32> {
    match raw {
        Raw::Number(number) => u32::try_from(number).ok(),
        Raw::Text(text) => text.parse().ok(),
        Raw::Switch(_) | Raw::Odd => None,
    }
}

/// A text, also written as a number.
fn text(raw: Raw<'_>) -> Option<String> {
    match raw {
        Raw::Number(number) => Some(number.to_string()),
        Raw::Text(text) => Some(text.to_owned()),
        Raw::Switch(_) | Raw::Odd => None,
    }
}

/// Parses the value; `wanted` is the error.
fn parsed<T: FromStr>(raw: Raw<'_>, wanted: &str) -> Result<T, String> {
    text(raw).and_then(|words| words.parse().ok()).ok_or_else(|| wanted.to_owned())
}

fn switch(raw: Raw<'_>) -> Result<bool, String> {
    match raw {
        Raw::Switch(switch) => Ok(switch),
        Raw::Text("true") => Ok(true),
        Raw::Text("false") => Ok(false),
        _ => Err("true or false".to_owned()),
    }
}

/// Settings from the file and the environment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Config {
    /// The path of the file; `None` without a directory for it.
    pub(crate) path: Option<PathBuf>,
    /// The file exists.
    pub(crate) exists: bool,
    general: Settings,
    /// The file's settings for single hosts.
    hosts: Vec<(String, Settings)>,
    environment: Settings,
}

impl Config {
    /// Reads `$XDG_CONFIG_HOME/haul/config.toml` (default `~/.config/haul/config.toml`) and the
    /// environment variables. A missing file is empty.
    ///
    /// # Errors
    /// A usage error that names the file and the line, or the variable.
    pub(crate) fn load() -> Result<Self, CommandError> {
        let path =
            state::base("XDG_CONFIG_HOME", ".config").map(|dir| dir.join("haul/config.toml"));
        let text = path.as_deref().map(files::read).transpose()?.flatten();
        let mut config = match (&path, &text) {
            (Some(path), Some(text)) => file::parse(text, path)?,
            _ => Self::default(),
        };
        config.exists = text.is_some();
        config.path = path;
        config.environment = environment(|name| env::var_os(name))?;
        Ok(config)
    }

    /// The hosts with a section in the file.
    pub(crate) fn hosts(&self) -> impl Iterator<Item = &str> {
        self.hosts.iter().map(|(name, _)| name.as_str())
    }

    /// Maximum bytes of replaced or removed content that the chunk cache keeps.
    pub(crate) fn kept_max(&self) -> u64 {
        self.with(Settings::default(), None).cache.map_or(0, |given| given.value.value)
    }

    /// The settings for `host`, or for a command as a whole. The command line's `words` override
    /// all others.
    pub(crate) fn with(&self, words: Settings, host: Option<&str>) -> Settings {
        let is_it = |name: &str| host.is_some_and(|host| host.eq_ignore_ascii_case(name));
        let section = self.hosts.iter().find(|(name, _)| is_it(name));
        let words = words.over(&self.environment);
        let words = match section {
            Some((_, section)) => words.over(section),
            None => words,
        };
        words.over(&self.general).settle()
    }
}

#[cfg(test)]
impl Config {
    /// Parses `text` as the file.
    pub(crate) fn of_text(text: &str) -> Self {
        file::parse(text, std::path::Path::new("config.toml")).expect("a right configuration")
    }
}

/// Reads the variables: `HAUL_` and the key in capitals. An empty variable is ignored.
fn environment(value: impl Fn(&str) -> Option<OsString>) -> Result<Settings, CommandError> {
    let mut settings = Settings::default();
    for (key, _) in KEYS {
        let name = variable(key);
        let Some(value) = value(&name).filter(|value| !value.is_empty()) else { continue };
        let raw = value.to_str().map_or(Raw::Odd, Raw::Text);
        settings
            .set(key, raw, GivenIn::Environment)
            .map_err(|wanted| CommandError::usage(format!("{name}: must be {wanted}")))?;
    }
    if settings.contradict() {
        return Err(CommandError::usage(
            "HAUL_TRANSPORT=sftp and HAUL_REMOTE_HAUL exclude each other",
        ));
    }
    Ok(settings)
}

/// The environment variable of a key.
pub(crate) fn variable(key: &str) -> String {
    format!("HAUL_{}", key.replace('-', "_").to_ascii_uppercase())
}

#[cfg(test)]
mod tests;
