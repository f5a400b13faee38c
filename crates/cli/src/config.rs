//! Settings: what the configuration file, the environment and the command line say,
//! and which of them holds. Knows nothing of how the words are parsed, and reads
//! the environment and the file for commands that copy or go to hosts.

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

/// Connections to one host, at most: OpenSSH lets ten wait for their login.
pub(crate) const PARALLEL_MAX: u8 = 8;

/// The longest silence that may be asked for, but for ever: a day, in seconds.
pub(crate) const TIMEOUT_MAX: u32 = 86_400;

/// The most that may be asked for: days.
pub(crate) const RETRIES_MAX: u32 = 10_000;

/// Who works with the files of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Transport {
    /// haul.
    Haul,
    /// Its SFTP server.
    Sftp,
}

/// Where a value was given. A later one holds over an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GivenIn {
    /// In the file, for all hosts, in the line with this number.
    File(usize),
    /// In the file, for the host.
    HostSection(usize),
    /// In a variable of the environment.
    Environment,
    /// Among the words of the command.
    CommandLine,
}

impl GivenIn {
    /// Higher holds over lower.
    fn rank(self) -> u8 {
        match self {
            Self::File(_) => 0,
            Self::HostSection(_) => 1,
            Self::Environment => 2,
            Self::CommandLine => 3,
        }
    }
}

/// A value, and where it was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Given<T> {
    pub(crate) value: T,
    pub(crate) origin: GivenIn,
}

/// A value of the command line.
pub(crate) fn typed<T>(value: T) -> Given<T> {
    Given { value, origin: GivenIn::CommandLine }
}

/// Settings. Each is the option of the same name; the file and the environment
/// know the same ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) rsh: Option<Given<String>>,
    pub(crate) remote_haul: Option<Given<String>>,
    pub(crate) transport: Option<Given<Transport>>,
    /// Seconds, at most [`TIMEOUT_MAX`]; 0 waits for ever.
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

/// The keys, each with `true` if it may be set for one host.
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

/// A value as it was written, before it is known to fit its key.
#[derive(Debug, Clone, Copy)]
enum Raw<'a> {
    Text(&'a str),
    Number(i64),
    Switch(bool),
    /// Anything else.
    Odd,
}

/// A value as `haul config` shows it.
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
    /// The kind of value that the key takes. The value itself is not told, for the
    /// file may hold anything.
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

    /// These, and those of `below` where these say nothing.
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

    /// Puts aside what something that holds over it contradicts: through SFTP no
    /// haul is started. What was given in the same place stays, to be refused.
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

    /// Puts aside what the words of the command do not say of who works on the host.
    pub(crate) fn put_aside_unless_typed(&mut self) {
        self.transport.take_if(|given| given.origin != GivenIn::CommandLine);
        self.remote_haul.take_if(|given| given.origin != GivenIn::CommandLine);
    }

    /// Puts aside what the words of the command do not say of the way that contents take:
    /// through SFTP there is one. A bound on the rate stays: it is reported.
    pub(crate) fn put_aside_of_haul_unless_typed(&mut self) {
        self.compress.take_if(|given| given.origin != GivenIn::CommandLine);
        self.via.take_if(|given| given.origin != GivenIn::CommandLine);
        self.port_range.take_if(|given| given.origin != GivenIn::CommandLine);
    }

    /// True if SFTP is asked for and a haul is named in the same place.
    pub(crate) fn contradict(&self) -> bool {
        let sftp = self.transport.as_ref().filter(|given| given.value == Transport::Sftp);
        sftp.zip(self.remote_haul.as_ref())
            .is_some_and(|(one, other)| one.origin.rank() == other.origin.rank())
    }

    /// The seconds that a host may be silent.
    pub(crate) fn timeout_seconds(&self) -> u32 {
        self.timeout.as_ref().map_or(SILENCE_SECONDS, |given| given.value)
    }

    /// How often in a row a lost connection is made again.
    pub(crate) fn retries(&self) -> u32 {
        self.retries.as_ref().map_or(RETRIES, |given| given.value)
    }

    /// Every key with what holds for it, defaults included. Nothing is shown for a
    /// key that stands for a choice that haul makes anew each time.
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

/// A number as such, or as the text that a variable has.
fn number(raw: Raw<'_>) -> Option<u32> {
    match raw {
        Raw::Number(number) => u32::try_from(number).ok(),
        Raw::Text(text) => text.parse().ok(),
        Raw::Switch(_) | Raw::Odd => None,
    }
}

/// A text, or a number as one.
fn text(raw: Raw<'_>) -> Option<String> {
    match raw {
        Raw::Number(number) => Some(number.to_string()),
        Raw::Text(text) => Some(text.to_owned()),
        Raw::Switch(_) | Raw::Odd => None,
    }
}

/// The value of a text, or what is `wanted` in its place.
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

/// Settings beside the words of the command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Config {
    /// The file, if the environment names a place for one.
    pub(crate) path: Option<PathBuf>,
    /// True if there is such a file.
    pub(crate) exists: bool,
    /// The file's settings for all hosts.
    general: Settings,
    /// Its settings for one.
    hosts: Vec<(String, Settings)>,
    environment: Settings,
}

impl Config {
    /// Reads `$XDG_CONFIG_HOME/haul/config.toml`, or the same in `~/.config`, and the
    /// variables. Without the file all that it could say has its default.
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

    /// The hosts that the file has settings for.
    pub(crate) fn hosts(&self) -> impl Iterator<Item = &str> {
        self.hosts.iter().map(|(name, _)| name.as_str())
    }

    /// Bytes of content that would be lost and is kept, at most.
    pub(crate) fn kept_max(&self) -> u64 {
        self.with(Settings::default(), None).cache.map_or(0, |given| given.value.value)
    }

    /// The settings that apply to `host`, or, without one, to a command as a whole; the
    /// `words` of the command hold over them.
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
    /// The configuration of a file with that text.
    pub(crate) fn of_text(text: &str) -> Self {
        file::parse(text, std::path::Path::new("config.toml")).expect("a right configuration")
    }
}

/// Reads the variables: `HAUL_` and the key in capitals. An empty one is none.
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

/// The variable for a key.
pub(crate) fn variable(key: &str) -> String {
    format!("HAUL_{}", key.replace('-', "_").to_ascii_uppercase())
}

#[cfg(test)]
mod tests;
