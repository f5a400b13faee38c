//! Locations as a user writes them: `path`, `[user@]host:path`, `ssh://[user@]host[:port]/path` or
//! `sftp://[user@]host[:port]/path`. Paths are bytes, and are not changed.

use crate::error::Error;
use crate::host::UseServer;
use crate::host::{Host, RETRIES, WithoutHaul};
use haul_engine::{HostPath, JobError};
use haul_model::{escape_bytes, escape_text, words};
use haul_net::{ConnectError, SshTarget};
use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::str::FromStr;

/// A path and its machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// The machine of the path.
    pub machine: Machine,
    /// The path. A relative path starts in the working directory (here) or the home directory
    /// (there).
    pub path: Vec<u8>,
    /// The user's text, unchanged.
    pub given: Vec<u8>,
}

/// The machine of a location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Machine {
    /// This machine.
    Local,
    /// Another machine, and how to connect to it.
    Remote(Host),
}

impl Machine {
    /// The host, unless it is this machine.
    pub fn host(&self) -> Option<&Host> {
        match self {
            Self::Local => None,
            Self::Remote(host) => Some(host),
        }
    }

    /// The host's name, for messages, unless it is this machine.
    pub fn name(&self) -> Option<String> {
        self.host().map(Host::to_string)
    }

    /// True if the host is reached through its SFTP server.
    pub fn is_by_sftp(&self) -> bool {
        self.host().is_some_and(|host| host.by_sftp)
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local => f.write_str("here"),
            Self::Remote(host) => host.fmt(f),
        }
    }
}

/// A text that is not a location, and the reason.
#[derive(Debug, thiserror::Error)]
#[error("'{}': {why}", escape_bytes(.given))]
pub struct LocationError {
    given: Vec<u8>,
    why: LocationProblem,
}

/// The reason why a text is not a location.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each variant has its message")]
pub enum LocationProblem {
    #[error("the path is empty")]
    EmptyPath,
    #[error("the host is missing")]
    EmptyHost,
    #[error("not a host: use [user@]host or ssh://[user@]host[:port]")]
    NotHost,
    #[error("the host or user name is not UTF-8")]
    NotText,
    #[error(transparent)]
    Name(#[from] ConnectError),
    #[error("\"{}\" is not a port: 1 to 65535", escape_text(.0))]
    Port(String),
    #[error("leave out the password: ssh asks for it")]
    Password,
    #[error("\"%\" must be followed by two hexadecimal digits")]
    Percent,
    #[error("haul does not look up the home directories of other users")]
    OtherHome,
    #[error("haul does not connect to rsync daemons")]
    Daemon,
    #[error("the path has a NUL byte")]
    Nul,
    #[error("unknown scheme {}://: use ssh:// or sftp://[user@]host[:port]/path, or [user@]host:path", escape_text(.0))]
    Scheme(String),
}

impl LocationError {
    /// The reason.
    pub fn problem(&self) -> &LocationProblem {
        &self.why
    }
}

/// The path of a location without one: the home directory.
const START_DIRECTORY: &[u8] = b".";

impl Location {
    /// Parses the text of a location.
    ///
    /// # Errors
    /// If the text is not a location. The error names the text and the problem.
    pub fn parse(words: &OsStr) -> Result<Self, LocationError> {
        let given = words.as_bytes().to_vec();
        match parse(&given) {
            Ok((machine, path)) => Ok(Self { machine, path, given }),
            Err(why) => Err(LocationError { given, why }),
        }
    }

    /// Starts `command`, a program and its options, in place of `ssh`. haul servers are not used
    /// then.
    ///
    /// # Errors
    /// If the command has no program, or an open quote.
    pub fn with_rsh(self, command: &str) -> Result<Self, Error> {
        self.with_ssh(|ssh| ssh.with_rsh(command))
    }

    /// Uses only the haul at `path` on the host, started through ssh: no other haul, no haul server
    /// and no SFTP server.
    ///
    /// # Errors
    /// If the path is empty or invalid.
    pub fn with_remote_haul(self, path: &str) -> Result<Self, Error> {
        let mut location = self.with_ssh(|ssh| ssh.with_remote_haul(path))?;
        if let Machine::Remote(host) = &mut location.machine {
            host.without_haul = WithoutHaul::Fail;
        }
        Ok(location)
    }

    fn with_ssh(
        mut self,
        change: impl FnOnce(SshTarget) -> Result<SshTarget, ConnectError>,
    ) -> Result<Self, Error> {
        if let Machine::Remote(host) = self.machine {
            let mut host = host.with_ssh(change).map_err(JobError::from)?;
            host.server = UseServer::Never;
            self.machine = Machine::Remote(host);
        }
        Ok(self)
    }

    /// The root directory of this machine.
    pub fn root() -> Self {
        Self { machine: Machine::Local, path: b"/".to_vec(), given: b"/".to_vec() }
    }

    /// The location for the engine, which knows no machine for local paths.
    pub fn host_path(&self) -> HostPath<Machine> {
        let host = (self.machine != Machine::Local).then(|| self.machine.clone());
        HostPath { host, path: self.path.clone() }
    }

    /// True if the path is a pattern, for paths on a host. A local path is never one, because the
    /// shell has expanded it.
    pub fn is_pattern(&self) -> bool {
        self.machine != Machine::Local && haul_engine::is_pattern(&self.path)
    }

    /// The location of `path` on the same machine.
    pub fn on_same_machine(&self, path: Vec<u8>) -> Self {
        let given = [format!("{}:", self.machine).as_bytes(), &path].concat();
        Self { machine: self.machine.clone(), path, given }
    }

    /// The local file with a `:` in its name that the user may have meant, in the form that haul
    /// accepts. `None` if there is no such file.
    pub fn local_candidates(&self) -> Option<String> {
        let is_url = split_scheme(&self.given).is_some();
        let exists = || fs::symlink_metadata(OsStr::from_bytes(&self.given)).is_ok();
        (self.machine != Machine::Local && !is_url && exists())
            .then(|| format!("./{}", escape_bytes(&self.given)))
    }

    /// The last component of the path, which becomes the name of the source in a directory. `None`
    /// for `.`, `..` and `/`.
    pub fn final_name(&self) -> Option<&[u8]> {
        words::split(&self.path).name
    }
}

/// Parses `path`, `[user@]host:path`, `ssh://[user@]host[:port]/path` or
/// `sftp://[user@]host[:port]/path`. haul connects to the host's server if this user is enrolled
/// there (`haul server enroll`), else through ssh. It reconnects after a lost connection.
impl FromStr for Location {
    type Err = LocationError;

    fn from_str(words: &str) -> Result<Self, LocationError> {
        let mut location = Self::parse(OsStr::new(words))?;
        if let Machine::Remote(host) = &mut location.machine {
            host.retries = RETRIES;
            if host.user().is_none() && host.port().is_none() {
                host.server = UseServer::IfKnown;
            }
        }
        Ok(location)
    }
}

/// A path on this machine. It is not parsed.
impl From<PathBuf> for Location {
    fn from(path: PathBuf) -> Self {
        let path = path.into_os_string().into_vec();
        Self { machine: Machine::Local, given: path.clone(), path }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&escape_bytes(&self.given))
    }
}

/// Parses a host without a path: `[user@]host`, `[user@]host:` or `ssh://[user@]host[:port]`.
///
/// # Errors
/// If the text is not a host. The error names the text and the problem.
pub fn parse_host(words: &OsStr) -> Result<Host, LocationError> {
    let given = words.as_bytes().to_vec();
    let host = || {
        if given.is_empty() {
            return Err(LocationProblem::EmptyHost);
        }
        let is_url = split_scheme(&given).is_some();
        if is_url || host_end(&given).is_some() {
            // URLs of hosts are often written as "ssh://host/".
            let slash: &[u8] = if is_url { b"/" } else { b"" };
            return match parse(given.strip_suffix(slash).unwrap_or(&given))? {
                (Machine::Remote(host), path) if path == START_DIRECTORY && !host.by_sftp => {
                    Ok(host)
                }
                _ => Err(LocationProblem::NotHost),
            };
        }
        if given.contains(&b'/') {
            return Err(LocationProblem::NotHost);
        }
        let (user, name) = split_user(&given);
        host_of(user, unbracketed(name))
    };
    host().map_err(|why| LocationError { given: given.clone(), why })
}

fn parse(words: &[u8]) -> Result<(Machine, Vec<u8>), LocationProblem> {
    if words.is_empty() {
        return Err(LocationProblem::EmptyPath);
    }
    if words.contains(&0) {
        return Err(LocationProblem::Nul);
    }
    if let Some((scheme, rest)) = split_scheme(words) {
        let by_sftp = match scheme.to_ascii_lowercase().as_str() {
            "ssh" => false,
            "sftp" => true,
            "rsync" => return Err(LocationProblem::Daemon),
            _ => return Err(LocationProblem::Scheme(scheme.to_owned())),
        };
        let (mut host, path) = parse_url(rest)?;
        host.by_sftp = by_sftp;
        return Ok((Machine::Remote(host), path));
    }
    let Some(colon) = host_end(words) else { return Ok((Machine::Local, words.to_vec())) };
    let (login, path) = (&words[..colon], &words[colon + 1..]);
    let (user, name) = split_user(login);
    // In rsync, `host::module` is a module of its daemon.
    if path.starts_with(b":") {
        return Err(LocationProblem::Daemon);
    }
    refuse_other_home(path)?;
    let path = if path.is_empty() { START_DIRECTORY } else { path };
    Ok((Machine::Remote(host_of(user, unbracketed(name))?), path.to_vec()))
}

/// Splits `scheme://rest`.
fn split_scheme(words: &[u8]) -> Option<(&str, &[u8])> {
    let end = words.windows(3).position(|w| w == b"://")?;
    let scheme = str::from_utf8(&words[..end]).ok()?;
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    is_scheme.then_some((scheme, &words[end + 3..]))
}

/// The position of the `:` after a host, by the rules of scp: not at the start, not after a `/`,
/// and not between the brackets of an IPv6 address.
fn host_end(words: &[u8]) -> Option<usize> {
    let address = match words.iter().position(|&b| b == b'[') {
        Some(0) => true,
        Some(open) => words[open - 1] == b'@',
        None => false,
    };
    let mut in_brackets = false;
    for (at, &byte) in words.iter().enumerate() {
        match byte {
            b'/' => return None,
            b'[' if address => in_brackets = true,
            b']' if in_brackets => in_brackets = false,
            b':' if !in_brackets => return (at > 0).then_some(at),
            _ => {}
        }
    }
    None
}

/// Parses the part after `ssh://` or `sftp://`.
fn parse_url(rest: &[u8]) -> Result<(Host, Vec<u8>), LocationProblem> {
    let slash = rest.iter().position(|&b| b == b'/').unwrap_or(rest.len());
    let (authority, path) = rest.split_at(slash);
    let (user, host) = split_user(authority);
    let (name, port) = split_port(host)?;
    if user.is_some_and(|user| user.contains(&b':')) {
        return Err(LocationProblem::Password);
    }
    let user = user.map(percent_decoded).transpose()?;
    let host = host_of(user.as_deref(), &percent_decoded(name)?)?;
    let host = match port {
        Some(port) => host.with_ssh(|ssh| Ok(ssh.with_port(port)))?,
        None => host,
    };
    let path = percent_decoded(path)?;
    if path.contains(&0) {
        return Err(LocationProblem::Nul);
    }
    path.strip_prefix(b"/").map_or(Ok(()), refuse_other_home)?;
    let path = match path.as_slice() {
        b"" | b"/~" | b"/~/" => START_DIRECTORY.to_vec(),
        [b'/', b'~', b'/', relative @ ..] => {
            // Further slashes would make the path absolute again.
            let start = relative.iter().position(|&b| b != b'/').unwrap_or(relative.len());
            match &relative[start..] {
                b"" => START_DIRECTORY.to_vec(),
                relative => relative.to_vec(),
            }
        }
        _ => path,
    };
    Ok((host, path))
}

/// Refuses a path on a host that begins with `~` and a user name. A shell would replace it by that
/// user's home directory, but haul does not use one.
fn refuse_other_home(path: &[u8]) -> Result<(), LocationProblem> {
    let first = path.split(|byte| *byte == b'/').next().unwrap_or_default();
    let Some([begin, rest @ ..]) = first.strip_prefix(b"~") else { return Ok(()) };
    let is_in_name =
        |byte: &u8| byte.is_ascii_alphanumeric() || !byte.is_ascii() || b"_.-+@\\".contains(byte);
    let begins = begin.is_ascii_alphabetic() || *begin == b'_';
    if begins && rest.iter().all(is_in_name) { Err(LocationProblem::OtherHome) } else { Ok(()) }
}

/// Splits `user@host` at the last `@`: a user name may contain one, a host name can't.
fn split_user(login: &[u8]) -> (Option<&[u8]>, &[u8]) {
    match login.iter().rposition(|&b| b == b'@') {
        Some(at) => (Some(&login[..at]), &login[at + 1..]),
        None => (None, login),
    }
}

/// Splits `host:port` and `[address]:port`.
fn split_port(host: &[u8]) -> Result<(&[u8], Option<u16>), LocationProblem> {
    let bracket = host.iter().rposition(|&b| b == b']').unwrap_or(0);
    let Some(colon) = host[bracket..].iter().position(|&b| b == b':') else {
        return Ok((unbracketed(host), None));
    };
    let (name, port) = (&host[..bracket + colon], &host[bracket + colon + 1..]);
    let text = String::from_utf8_lossy(port);
    match text.parse::<u16>() {
        Ok(port) if port > 0 && text.bytes().all(|b| b.is_ascii_digit()) => {
            Ok((unbracketed(name), Some(port)))
        }
        _ => Err(LocationProblem::Port(text.into_owned())),
    }
}

/// An address without its brackets.
fn unbracketed(name: &[u8]) -> &[u8] {
    name.strip_prefix(b"[").and_then(|name| name.strip_suffix(b"]")).unwrap_or(name)
}

/// The host of `user@host`. ssh's configuration supplies missing parts.
fn host_of(user: Option<&[u8]>, name: &[u8]) -> Result<Host, LocationProblem> {
    let text = |bytes| str::from_utf8(bytes).map_err(|_| LocationProblem::NotText);
    Ok(Host::new(user.map(text).transpose()?, text(name)?)?)
}

/// Decodes `%` and two hexadecimal digits to a byte (RFC 3986, section 2.1).
fn percent_decoded(text: &[u8]) -> Result<Vec<u8>, LocationProblem> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, after)) = rest.split_first() {
        if first != b'%' {
            bytes.push(first);
            rest = after;
            continue;
        }
        let [high, low, after @ ..] = after else { return Err(LocationProblem::Percent) };
        let digit = |byte: &u8| char::from(*byte).to_digit(16).ok_or(LocationProblem::Percent);
        bytes.push((digit(high)? * 16 + digit(low)?) as u8);
        rest = after;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests;
