//! Settings from the configuration file, the environment and the command line, and their
//! precedence. Does not parse the command line. Only commands that copy or reach hosts read the
//! file and the environment.

mod file;

use crate::error::CommandError;
use haul::{RETRIES, files, state};
use haul_model::{Compression, Ports, Via};
use haul_net::{Congestion, SILENCE_SECONDS, SshTarget};
use serde_json::Value;
use std::ffi::OsString;
use std::num::{NonZeroU8, NonZeroU64};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;
use std::{env, fmt};

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

/// An unchecked value.
#[derive(Debug, Clone, Copy)]
enum Raw<'a> {
    Text(&'a str),
    Number(i64),
    Switch(bool),
    /// Any other type of value.
    Other,
}

/// Defines [`Settings`] and [`KEYS`]. A row is: the field and its type, the key, whether it may be set
/// per host, the function that parses a value, the default, and the function that shows a value. The
/// error of a parser is the kind of value that the key requires. It never contains the value, because
/// the file may contain secrets. A key without a value and a default means that haul decides in each
/// run.
macro_rules! settings {
    ($(
        $(#[$doc:meta])*
        $field:ident: $type:ty, $key:literal, $per_host:literal, $parse:expr, $default:expr, $show:expr;
    )*) => {
        /// The settings. Each has the name of its option; the file and the environment use the same
        /// names.
        #[derive(Debug, Clone, Default, PartialEq, Eq)]
        pub(crate) struct Settings {
            $($(#[$doc])* pub(crate) $field: Option<Setting<$type>>,)*
        }

        /// The keys; `true` if the key may be set per host.
        const KEYS: &[(&str, bool)] = &[$(($key, $per_host)),*];

        impl Settings {
            /// Sets one of [`KEYS`].
            fn set(&mut self, key: &str, raw: Raw<'_>, origin: Origin) -> Result<(), String> {
                $(if key == $key {
                    let parse: fn(Raw<'_>) -> Result<$type, String> = $parse;
                    self.$field = Some(Setting { value: parse(raw)?, origin });
                })*
                Ok(())
            }

            /// Fills in unset values from `defaults`.
            fn fill_from(self, defaults: &Self) -> Self {
                Self { $($field: self.$field.or_else(|| defaults.$field.clone()),)* }
            }

            /// Every key, its value and its origin, defaults included.
            pub(crate) fn rows(&self) -> Vec<(&'static str, Option<Value>, Option<Origin>)> {
                vec![$({
                    let given = self.$field.as_ref();
                    let value: Option<$type> = given.map(|given| given.value.clone()).or($default);
                    ($key, value.map($show), given.map(|given| given.origin))
                }),*]
            }
        }
    };
}

settings! {
    rsh: String, "rsh", true, |raw| match raw {
        Raw::Text(text) if probe()?.with_rsh(text).is_ok() => Ok(text.to_owned()),
        _ => Err("a program and its options, as a text".to_owned()),
    }, Some("ssh".to_owned()), Value::from;
    remote_haul: String, "remote-haul", true, |raw| match raw {
        Raw::Text(text) if probe()?.with_remote_haul(text).is_ok() => Ok(text.to_owned()),
        _ => Err("one path on the host, as a text".to_owned()),
    }, None, Value::from;
    transport: Transport, "transport", true, |raw| match raw {
        Raw::Text("haul") => Ok(Transport::Haul),
        Raw::Text("sftp") => Ok(Transport::Sftp),
        _ => Err("\"haul\" or \"sftp\"".to_owned()),
    }, None, |transport| Value::from(match transport {
        Transport::Haul => "haul",
        Transport::Sftp => "sftp",
    });
    /// In seconds, at most [`TIMEOUT_MAX`]; 0 means no timeout.
    timeout: u32, "timeout", true, |raw| number(raw, 0, TIMEOUT_MAX)
        .ok_or_else(|| format!("a number of seconds from 0 to {TIMEOUT_MAX}")),
        Some(SILENCE_SECONDS), Value::from;
    /// At most [`PARALLEL_MAX`].
    parallel: NonZeroU8, "parallel", true, |raw| number(raw, 1, PARALLEL_MAX)
        .and_then(NonZeroU8::new).ok_or_else(|| format!("a number from 1 to {PARALLEL_MAX}")),
        None, |lanes| Value::from(lanes.get());
    /// At most [`RETRIES_MAX`].
    retries: u32, "retries", true, |raw| number(raw, 0, RETRIES_MAX)
        .ok_or_else(|| format!("a number from 0 to {RETRIES_MAX}")),
        Some(RETRIES), Value::from;
    bwlimit: Rate, "bwlimit", true,
        |raw| parsed(raw, "a rate in KiB per second, or a text with a unit, such as \"5m\""),
        None, shown;
    compress: Compression, "compress", true,
        |raw| parsed(raw, "\"auto\", \"none\", \"lz4\", \"zstd\" or \"zstd:LEVEL\""),
        Some(Compression::Auto), shown;
    via: Via, "via", true, |raw| parsed(raw, &Via::words("\"")), Some(Via::Auto), shown;
    congestion: Congestion, "congestion", true,
        |raw| parsed(raw, "\"bbr\", \"cubic\" or \"newreno\""),
        Some(Congestion::default()), shown;
    port_range: Ports, "port-range", true,
        |raw| parsed(raw, "ports, such as \"7000-7009\""), None, shown;
    keep: KeepFor, "keep", true,
        |raw| parsed(raw, "a time from 0 to 24h, such as \"10m\""), Some(KeepFor::default()), shown;
    cache: KeptMax, "cache", false,
        |raw| parsed(raw, "a size, such as \"4GiB\", or 0"), Some(KeptMax::default()), shown;
    verify: bool, "verify", false, switch, Some(false), Value::from;
    sync: bool, "sync", false, switch, Some(false), Value::from;
}

/// A host on which values are checked.
fn probe() -> Result<SshTarget, String> {
    SshTarget::new(None, "host").map_err(|error| error.to_string())
}

fn shown(value: impl ToString) -> Value {
    Value::from(value.to_string())
}

impl Settings {
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
}

/// A number within the bounds, also written as text: variables have only text.
fn number<N: FromStr + PartialOrd>(raw: Raw<'_>, min: N, max: N) -> Option<N> {
    let number: N = text(raw)?.parse().ok()?;
    (min <= number && number <= max).then_some(number)
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

/// Reads the variables: `HAUL_` and the key in capitals. An empty variable is ignored.
fn environment(value: impl Fn(&str) -> Option<OsString>) -> Result<Settings, CommandError> {
    let mut settings = Settings::default();
    for (key, _) in KEYS.iter().copied() {
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

/// The value of `--keep` without a time.
pub(crate) const KEEP_DEFAULT: &str = "10m";

/// Maximum time, in seconds: an agent waits no longer for its next visit.
const SECONDS_MAX: u64 = 24 * 60 * 60;

/// A value, and its original text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verbatim<T> {
    text: String,
    pub(crate) value: T,
}

/// Time for which a connection is kept; 0 keeps none.
pub(crate) type KeepFor = Verbatim<Duration>;

/// Maximum bytes of replaced or removed content to keep; 0 keeps nothing.
pub(crate) type KeptMax = Verbatim<u64>;

/// Maximum bytes of content per second; `None` means no limit.
pub(crate) type Rate = Verbatim<Option<NonZeroU64>>;

/// A value that can be parsed from text.
pub(crate) trait ParseValue: Sized {
    /// Parses `text`. The error is a fixed message.
    fn parse(text: &str) -> Result<Self, &'static str>;
}

impl ParseValue for Duration {
    fn parse(text: &str) -> Result<Self, &'static str> {
        const EXPECTED: &str = "not a time from 0 to 24h, such as 10m";
        let (digits, unit) = match text.find(|c: char| !c.is_ascii_digit()) {
            Some(at) => text.split_at(at),
            None => (text, "s"),
        };
        let seconds = match unit {
            "s" => 1,
            "m" => 60,
            "h" => 60 * 60,
            _ => return Err(EXPECTED),
        };
        let number: u64 = digits.parse().map_err(|_| EXPECTED)?;
        let seconds = number.checked_mul(seconds).filter(|seconds| *seconds <= SECONDS_MAX);
        Ok(Self::from_secs(seconds.ok_or(EXPECTED)?))
    }
}

impl ParseValue for u64 {
    fn parse(text: &str) -> Result<Self, &'static str> {
        crate::args::size(text.as_ref())
    }
}

impl ParseValue for Option<NonZeroU64> {
    fn parse(text: &str) -> Result<Self, &'static str> {
        crate::args::rate(text.as_ref())
    }
}

impl<T: Default> Default for Verbatim<T> {
    fn default() -> Self {
        Self { text: "0".to_owned(), value: T::default() }
    }
}

impl<T: ParseValue> FromStr for Verbatim<T> {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self { text: text.to_owned(), value: T::parse(text)? })
    }
}

impl<T> fmt::Display for Verbatim<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests;
