//! Where a file is, as a person writes it: `path`, `[user@]host:path`,
//! `ssh://[user@]host[:port]/path`, or `sftp://` and the same. Paths are bytes and stay
//! as they were given.

use crate::endpoint::UseServer;
use crate::error::Error;
use crate::host::{Host, RETRIES, WithoutHaul};
use haul_engine::{JobError, Spot};
use haul_model::{escape_bytes, escape_text, words};
use haul_net::{ConnectError, SshTarget};
use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::str::FromStr;

/// A path and the machine that it is on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// The machine.
    pub machine: Machine,
    /// The path there; a relative one starts in the working directory (here)
    /// or the home directory (there).
    pub path: Vec<u8>,
    /// The words that the user wrote, raw.
    pub given: Vec<u8>,
}

/// A machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Machine {
    /// This one.
    Here,
    /// Another one, and how it is reached.
    There(Host),
}

impl Machine {
    /// The host, unless it is this machine.
    pub fn host(&self) -> Option<&Host> {
        match self {
            Self::Here => None,
            Self::There(host) => Some(host),
        }
    }

    /// The host's name to show, unless it is this machine.
    pub fn name(&self) -> Option<String> {
        self.host().map(Host::to_string)
    }

    /// True if a host's SFTP server is used.
    pub fn is_by_sftp(&self) -> bool {
        self.host().is_some_and(|host| host.by_sftp)
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Here => f.write_str("here"),
            Self::There(host) => host.fmt(f),
        }
    }
}

/// Why some words are not a location.
#[derive(Debug, thiserror::Error)]
#[error("'{}': {why}", escape_bytes(.given))]
pub struct LocationError {
    given: Vec<u8>,
    why: LocationProblem,
}

/// The problem with the words of a location.
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
    /// The problem.
    pub fn problem(&self) -> &LocationProblem {
        &self.why
    }
}

/// The directory where a path that names none starts.
const START_DIRECTORY: &[u8] = b".";

impl Location {
    /// Reads what the user wrote.
    ///
    /// # Errors
    /// Names the words and what is wrong with them.
    pub fn parse(words: &OsStr) -> Result<Self, LocationError> {
        let given = words.as_bytes().to_vec();
        match parse(&given) {
            Ok((machine, path)) => Ok(Self { machine, path, given }),
            Err(why) => Err(LocationError { given, why }),
        }
    }

    /// The same, where `command`, a program and its options, is started in place of `ssh`. No
    /// haul server is used then.
    ///
    /// # Errors
    /// When the command has no program, or an open quote.
    pub fn with_rsh(self, command: &str) -> Result<Self, Error> {
        self.with_ssh(|ssh| ssh.with_rsh(command))
    }

    /// The same, where the haul at `path` on the host is started by ssh, and nothing else: no
    /// other haul, no haul server and no SFTP server.
    ///
    /// # Errors
    /// When the path is empty, or no path.
    pub fn with_remote_haul(self, path: &str) -> Result<Self, Error> {
        let mut location = self.with_ssh(|ssh| ssh.with_remote_haul(path))?;
        if let Machine::There(host) = &mut location.machine {
            host.without_haul = WithoutHaul::Fail;
        }
        Ok(location)
    }

    fn with_ssh(
        mut self,
        change: impl FnOnce(SshTarget) -> Result<SshTarget, ConnectError>,
    ) -> Result<Self, Error> {
        if let Machine::There(host) = self.machine {
            let mut host = host.with_ssh(change).map_err(JobError::from)?;
            host.server = UseServer::Never;
            self.machine = Machine::There(host);
        }
        Ok(self)
    }

    /// The root of this machine's files.
    pub fn root() -> Self {
        Self { machine: Machine::Here, path: b"/".to_vec(), given: b"/".to_vec() }
    }

    /// The same for the engine, which names no machine that is here.
    pub fn spot(&self) -> Spot<Machine> {
        let host = (self.machine != Machine::Here).then(|| self.machine.clone());
        Spot { host, path: self.path.clone() }
    }

    /// True if it stands for the paths of a host that match it. Here a shell has replaced
    /// what was meant as a pattern.
    pub fn is_pattern(&self) -> bool {
        self.machine != Machine::Here && haul_engine::is_pattern(&self.path)
    }

    /// Another path of the same host.
    pub fn beside(&self, path: Vec<u8>) -> Self {
        let given = [format!("{}:", self.machine).as_bytes(), &path].concat();
        Self { machine: self.machine.clone(), path, given }
    }

    /// The file of this machine with a ':' in its name that the words may have meant,
    /// as it has to be written, if there is one.
    pub fn here_instead(&self) -> Option<String> {
        let is_url = split_scheme(&self.given).is_some();
        let exists = || fs::symlink_metadata(OsStr::from_bytes(&self.given)).is_ok();
        (self.machine != Machine::Here && !is_url && exists())
            .then(|| format!("./{}", escape_bytes(&self.given)))
    }

    /// The last component of the path, under which the source arrives in a
    /// directory; `None` for `.`, `..` and `/`, which have no name of their own.
    pub fn final_name(&self) -> Option<&[u8]> {
        words::split(&self.path).name
    }
}

/// Reads `path`, `[user@]host:path`, `ssh://[user@]host[:port]/path` or
/// `sftp://[user@]host[:port]/path`. A host is reached by its server if this user is enrolled
/// there (`haul server enroll`), else by ssh; a connection that is lost is made again.
impl FromStr for Location {
    type Err = LocationError;

    fn from_str(words: &str) -> Result<Self, LocationError> {
        let mut location = Self::parse(OsStr::new(words))?;
        if let Machine::There(host) = &mut location.machine {
            host.retries = RETRIES;
            if host.user().is_none() && host.port().is_none() {
                host.server = UseServer::IfKnown;
            }
        }
        Ok(location)
    }
}

/// A path of this machine, whatever is in its name.
impl From<PathBuf> for Location {
    fn from(path: PathBuf) -> Self {
        let path = path.into_os_string().into_vec();
        Self { machine: Machine::Here, given: path.clone(), path }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&escape_bytes(&self.given))
    }
}

/// Reads a host without a path: `[user@]host`, also with a `:` behind it as in a
/// location, or `ssh://[user@]host[:port]`.
///
/// # Errors
/// Names the words and what is wrong with them.
pub fn parse_host(words: &OsStr) -> Result<Host, LocationError> {
    let given = words.as_bytes().to_vec();
    let host = || {
        if given.is_empty() {
            return Err(LocationProblem::EmptyHost);
        }
        let is_url = split_scheme(&given).is_some();
        if is_url || host_end(&given).is_some() {
            // "ssh://host/" is how URLs of hosts are written.
            let slash: &[u8] = if is_url { b"/" } else { b"" };
            return match parse(given.strip_suffix(slash).unwrap_or(&given))? {
                (Machine::There(host), path) if path == START_DIRECTORY && !host.by_sftp => {
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
        return Ok((Machine::There(host), path));
    }
    let Some(colon) = host_end(words) else { return Ok((Machine::Here, words.to_vec())) };
    let (login, path) = (&words[..colon], &words[colon + 1..]);
    let (user, name) = split_user(login);
    // To rsync `host::module` is a module of its daemon.
    if path.starts_with(b":") {
        return Err(LocationProblem::Daemon);
    }
    refuse_other_home(path)?;
    let path = if path.is_empty() { START_DIRECTORY } else { path };
    Ok((Machine::There(host_of(user, unbracketed(name))?), path.to_vec()))
}

/// Splits `scheme://rest`.
fn split_scheme(words: &[u8]) -> Option<(&str, &[u8])> {
    let end = words.windows(3).position(|w| w == b"://")?;
    let scheme = str::from_utf8(&words[..end]).ok()?;
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    is_scheme.then_some((scheme, &words[end + 3..]))
}

/// Where the `:` after a host is, by the rules of scp: not at the start, not
/// after a `/`, and not between the brackets of an IPv6 address.
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

/// Reads the part behind `ssh://` and `sftp://`.
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
            // More slashes would make it absolute again.
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

/// Refuses a path on a host that begins with `~` and the name of a user: a shell there
/// would put that user's home directory in its place, and haul uses none.
fn refuse_other_home(path: &[u8]) -> Result<(), LocationProblem> {
    let first = path.split(|byte| *byte == b'/').next().unwrap_or_default();
    let Some([begin, rest @ ..]) = first.strip_prefix(b"~") else { return Ok(()) };
    let is_in_name =
        |byte: &u8| byte.is_ascii_alphanumeric() || !byte.is_ascii() || b"_.-+@\\".contains(byte);
    let begins = begin.is_ascii_alphabetic() || *begin == b'_';
    if begins && rest.iter().all(is_in_name) { Err(LocationProblem::OtherHome) } else { Ok(()) }
}

/// Splits `user@host`; a user name may have `@` in it, a host name can't.
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

/// The host that is reached as `user@host`. ssh decides what is left out.
fn host_of(user: Option<&[u8]>, name: &[u8]) -> Result<Host, LocationProblem> {
    let text = |bytes| str::from_utf8(bytes).map_err(|_| LocationProblem::NotText);
    Ok(Host::new(user.map(text).transpose()?, text(name)?)?)
}

/// RFC 3986, section 2.1: `%` and two hexadecimal digits stand for a byte.
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
