//! Settings from the configuration file, the environment and the command line, and their
//! precedence. Does not parse the command line. Only commands that copy or reach hosts read the
//! file and the environment.

mod file;
mod verbatim;

pub(crate) use self::verbatim::{KEEP_DEFAULT, KeepFor, KeptMax, Rate};

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
pub(crate) enum Origin {
    /// The file's general part, at this line.
    File(usize),
    /// The file's section of the host, at this line.
    HostSection(usize),
    /// An environment variable.
    Environment,
    CommandLine,
}

impl Origin {
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
pub(crate) struct Setting<T> {
    pub(crate) value: T,
    pub(crate) origin: Origin,
}

/// A value from the command line.
pub(crate) fn from_command_line<T>(value: T) -> Setting<T> {
    Setting { value, origin: Origin::CommandLine }
}

/// The settings. Each has the name of its option; the file and the environment use the same names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) rsh: Option<Setting<String>>,
    pub(crate) remote_haul: Option<Setting<String>>,
    pub(crate) transport: Option<Setting<Transport>>,
    /// In seconds, at most [`TIMEOUT_MAX`]; 0 means no timeout.
    pub(crate) timeout: Option<Setting<u32>>,
    /// At most [`PARALLEL_MAX`].
    pub(crate) parallel: Option<Setting<NonZeroU8>>,
    /// At most [`RETRIES_MAX`].
    pub(crate) retries: Option<Setting<u32>>,
    pub(crate) bwlimit: Option<Setting<Rate>>,
    pub(crate) compress: Option<Setting<Compression>>,
    pub(crate) via: Option<Setting<Via>>,
    pub(crate) congestion: Option<Setting<Congestion>>,
    pub(crate) port_range: Option<Setting<Ports>>,
    pub(crate) keep: Option<Setting<KeepFor>>,
    pub(crate) cache: Option<Setting<KeptMax>>,
    pub(crate) verify: Option<Setting<bool>>,
    pub(crate) sync: Option<Setting<bool>>,
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
    Other,
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
    fn set(&mut self, key: &str, raw: Raw<'_>, origin: Origin) -> Result<(), String> {
        let probe = || SshTarget::new(None, "host").map_err(|error| error.to_string());
        match (key, raw) {
            ("rsh", Raw::Text(text)) if probe()?.with_rsh(text).is_ok() => {
                self.rsh = Some(Setting { value: text.to_owned(), origin });
            }
            ("rsh", _) => return Err("a program and its options, as a text".to_owned()),
            ("remote-haul", Raw::Text(text)) if probe()?.with_remote_haul(text).is_ok() => {
                self.remote_haul = Some(Setting { value: text.to_owned(), origin });
            }
            ("remote-haul", _) => return Err("one path on the host, as a text".to_owned()),
            ("transport", raw) => {
                let value = match raw {
                    Raw::Text("haul") => Transport::Haul,
                    Raw::Text("sftp") => Transport::Sftp,
                    _ => return Err("\"haul\" or \"sftp\"".to_owned()),
                };
                self.transport = Some(Setting { value, origin });
            }
            ("timeout", raw) => {
                let seconds = number(raw).filter(|seconds| *seconds <= TIMEOUT_MAX);
                let expected = || format!("a number of seconds from 0 to {TIMEOUT_MAX}");
                self.timeout = Some(Setting { value: seconds.ok_or_else(expected)?, origin });
            }
            ("parallel", raw) => {
                let lanes = number(raw).and_then(|lanes| u8::try_from(lanes).ok());
                let lanes = lanes.filter(|lanes| *lanes <= PARALLEL_MAX).and_then(NonZeroU8::new);
                let expected = || format!("a number from 1 to {PARALLEL_MAX}");
                self.parallel = Some(Setting { value: lanes.ok_or_else(expected)?, origin });
            }
            ("retries", raw) => {
                let retries = number(raw).filter(|retries| *retries <= RETRIES_MAX);
                let expected = || format!("a number from 0 to {RETRIES_MAX}");
                self.retries = Some(Setting { value: retries.ok_or_else(expected)?, origin });
            }
            ("bwlimit", raw) => {
                let expected = "a rate in KiB per second, or a text with a unit, such as \"5m\"";
                self.bwlimit = Some(Setting { value: parsed(raw, expected)?, origin });
            }
            ("compress", raw) => {
                let expected = "\"auto\", \"none\", \"lz4\", \"zstd\" or \"zstd:LEVEL\"";
                self.compress = Some(Setting { value: parsed(raw, expected)?, origin });
            }
            ("via", raw) => {
                let value = parsed(raw, &Via::words("\""))?;
                self.via = Some(Setting { value, origin });
            }
            ("congestion", raw) => {
                let value = parsed(raw, "\"bbr\", \"cubic\" or \"newreno\"")?;
                self.congestion = Some(Setting { value, origin });
            }
            ("port-range", raw) => {
                let value = parsed(raw, "ports, such as \"7000-7009\"")?;
                self.port_range = Some(Setting { value, origin });
            }
            ("keep", raw) => {
                let value = parsed(raw, "a time from 0 to 24h, such as \"10m\"")?;
                self.keep = Some(Setting { value, origin });
            }
            ("cache", raw) => {
                let value = parsed(raw, "a size, such as \"4GiB\", or 0")?;
                self.cache = Some(Setting { value, origin });
            }
            ("verify", raw) => self.verify = Some(Setting { value: switch(raw)?, origin }),
            (_, raw) => self.sync = Some(Setting { value: switch(raw)?, origin }),
        }
        Ok(())
    }

    /// Fills in unset values from `defaults`.
    fn fill_from(self, defaults: &Self) -> Self {
        Self {
            rsh: self.rsh.or_else(|| defaults.rsh.clone()),
            remote_haul: self.remote_haul.or_else(|| defaults.remote_haul.clone()),
            transport: self.transport.or_else(|| defaults.transport.clone()),
            timeout: self.timeout.or_else(|| defaults.timeout.clone()),
            parallel: self.parallel.or_else(|| defaults.parallel.clone()),
            retries: self.retries.or_else(|| defaults.retries.clone()),
            bwlimit: self.bwlimit.or_else(|| defaults.bwlimit.clone()),
            compress: self.compress.or_else(|| defaults.compress.clone()),
            via: self.via.or_else(|| defaults.via.clone()),
            congestion: self.congestion.or_else(|| defaults.congestion.clone()),
            port_range: self.port_range.or_else(|| defaults.port_range.clone()),
            keep: self.keep.or_else(|| defaults.keep.clone()),
            cache: self.cache.or_else(|| defaults.cache.clone()),
            verify: self.verify.or_else(|| defaults.verify.clone()),
            sync: self.sync.or_else(|| defaults.sync.clone()),
        }
    }

    /// Drops the weaker of two contradicting settings: SFTP starts no haul. Two settings of the
    /// same origin stay, and are refused later.
    fn resolve_contradiction(mut self) -> Self {
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
    pub(crate) fn drop_configured_program(&mut self) {
        self.transport.take_if(|given| given.origin != Origin::CommandLine);
        self.remote_haul.take_if(|given| given.origin != Origin::CommandLine);
    }

    /// Drops settings of connections that were not given on the command line: SFTP has only one
    /// kind. A rate limit stays, because it is reported.
    pub(crate) fn drop_configured_connection(&mut self) {
        self.compress.take_if(|given| given.origin != Origin::CommandLine);
        self.via.take_if(|given| given.origin != Origin::CommandLine);
        self.port_range.take_if(|given| given.origin != Origin::CommandLine);
    }

    /// True if SFTP and a path of haul are set with the same precedence.
    pub(crate) fn is_contradictory(&self) -> bool {
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
    ) -> [(&'static str, Option<SettingValue>, Option<Origin>); KEYS.len()] {
        fn row<T: Clone>(
            given: &Option<Setting<T>>,
            default: Option<T>,
            show: impl Fn(T) -> SettingValue,
        ) -> (Option<SettingValue>, Option<Origin>) {
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
        Raw::Switch(_) | Raw::Other => None,
    }
}

/// A text, also written as a number.
fn text(raw: Raw<'_>) -> Option<String> {
    match raw {
        Raw::Number(number) => Some(number.to_string()),
        Raw::Text(text) => Some(text.to_owned()),
        Raw::Switch(_) | Raw::Other => None,
    }
}

/// Parses the value; `expected` is the error.
fn parsed<T: FromStr>(raw: Raw<'_>, expected: &str) -> Result<T, String> {
    text(raw).and_then(|words| words.parse().ok()).ok_or_else(|| expected.to_owned())
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
        let words = words.fill_from(&self.environment);
        let words = match section {
            Some((_, section)) => words.fill_from(section),
            None => words,
        };
        words.fill_from(&self.general).resolve_contradiction()
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
        let raw = value.to_str().map_or(Raw::Other, Raw::Text);
        settings
            .set(key, raw, Origin::Environment)
            .map_err(|expected| CommandError::usage(format!("{name}: must be {expected}")))?;
    }
    if settings.is_contradictory() {
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
