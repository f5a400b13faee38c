//! A host and how to reach it: the user's input, checked before it enters an argument list.

use crate::cipher;
use crate::error::shown;
use crate::remote_command;
use crate::{ConnectError, Keep, Timeouts};
use std::sync::Arc;

/// The longest host or user name; DNS allows 253 bytes.
const NAME_BYTES_MAX: usize = 255;

/// Characters that are special to a shell. OpenSSH 9.6 and later refuses them in a host name on the
/// command line, because a user's `ProxyCommand` or `Match exec` passes the name to a shell
/// (CVE-2023-51385). Refusing them here also protects users of older versions.
const HOST_REFUSED: &str = "'`\"$\\;&<>|(){}";

/// The same for users, with OpenSSH's exceptions for `$` (machine accounts)
/// and `\` (`DOMAIN\user`).
const USER_REFUSED: &str = "'`\";&<>|(){}";

/// A host, and how to reach it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SshTarget {
    user: Option<String>,
    host: String,
    port: Option<u16>,
    shell: RemoteShell,
    remote_haul: Option<String>,
    ciphers: cipher::Cached<cipher::Settings>,
    supports_session_options: cipher::Cached<bool>,
    timeouts: Timeouts,
    keep: Option<Arc<Keep>>,
}

/// The local program that gives a shell on the other machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RemoteShell {
    pub(crate) program: String,
    /// The user's own first arguments to it.
    pub(crate) args: Vec<String>,
}

/// A host with an established login, for additional logins.
#[derive(Debug, Clone)]
pub struct ExtraLogins(pub(crate) Arc<SshTarget>);

impl SshTarget {
    /// The host with this name or address (IPv6 without brackets). Logs in as `user`, or else as
    /// ssh's configuration says.
    ///
    /// # Errors
    /// [`ConnectError::HostName`] and [`ConnectError::UserName`] for names that
    /// are empty, start with `-`, or hold blanks, control characters or
    /// characters that a shell would act on.
    pub fn new(user: Option<&str>, host: &str) -> Result<Self, ConnectError> {
        check_name(host, HOST_REFUSED)
            .map_err(|problem| ConnectError::HostName { name: shown(host.as_bytes()), problem })?;
        if let Some(user) = user {
            check_name(user, USER_REFUSED).map_err(|problem| ConnectError::UserName {
                name: shown(user.as_bytes()),
                problem,
            })?;
        }
        Ok(Self {
            user: user.map(str::to_owned),
            host: host.to_owned(),
            port: None,
            shell: RemoteShell::ssh(),
            remote_haul: None,
            ciphers: cipher::Cached::default(),
            supports_session_options: cipher::Cached::default(),
            timeouts: Timeouts::default(),
            keep: None,
        })
    }

    /// Connects to `port` instead of the one in ssh's configuration.
    #[must_use]
    pub fn with_port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self.ciphers = cipher::Cached::default();
        self
    }

    /// Sets the user and the port that are given.
    ///
    /// # Errors
    /// See [`Self::new`].
    pub fn with_login(self, user: Option<&str>, port: Option<u16>) -> Result<Self, ConnectError> {
        let Self { user: named, .. } = Self::new(user, &self.host)?;
        let ciphers = cipher::Cached::default();
        Ok(Self { user: named.or(self.user), port: port.or(self.port), ciphers, ..self })
    }

    /// Runs `command` instead of `ssh`: a program and its first arguments, split as a shell would
    /// (quotes count, nothing is expanded).
    ///
    /// # Errors
    /// [`ConnectError::RemoteShell`] when there is no program in it, or a quote
    /// is left open.
    pub fn with_rsh(mut self, command: &str) -> Result<Self, ConnectError> {
        let refuse =
            |problem| ConnectError::RemoteShell { words: shown(command.as_bytes()), problem };
        if command.contains('\0') {
            return Err(refuse("it contains a NUL byte"));
        }
        let mut words =
            shell_words::split(command).map_err(|_| refuse("a quote is not closed"))?.into_iter();
        let program = words.next().filter(|program| !program.is_empty());
        self.shell = RemoteShell {
            program: program.ok_or_else(|| refuse("it names no program"))?,
            args: words.collect(),
        };
        self.ciphers = cipher::Cached::default();
        self.supports_session_options = cipher::Cached::default();
        Ok(self)
    }

    /// Runs the haul at `path` on the other machine instead of searching for one. A leading `~/` is
    /// the home directory there.
    ///
    /// # Errors
    /// [`ConnectError::RemoteHaul`] when it is empty or holds control characters.
    pub fn with_remote_haul(mut self, path: &str) -> Result<Self, ConnectError> {
        remote_command::check_path(path).map_err(|problem| ConnectError::RemoteHaul {
            path: shown(path.as_bytes()),
            problem,
        })?;
        self.remote_haul = Some(path.to_owned());
        Ok(self)
    }

    /// Sets the timeouts.
    #[must_use]
    pub fn with_timeouts(mut self, timeouts: Timeouts) -> Self {
        self.timeouts = timeouts;
        self
    }

    /// Keeps connections to the haul there after their last job.
    #[must_use]
    pub fn with_keep(mut self, keep: Arc<Keep>) -> Self {
        self.keep = Some(keep);
        self
    }

    pub(crate) fn keep(&self) -> Option<&Keep> {
        self.keep.as_deref()
    }

    /// The timeouts for the host.
    pub fn timeouts(&self) -> Timeouts {
        self.timeouts
    }

    /// The user, if one was given.
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// The host's name or address.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port, if one was given.
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// The name for messages: `user@host`, or `host`.
    pub fn display(&self) -> String {
        let name = match &self.user {
            Some(user) => format!("{user}@{}", self.host),
            None => self.host.clone(),
        };
        shown(name.as_bytes())
    }

    /// The host in the form that `haul deploy` takes, for messages: `[user@]host`, or
    /// `ssh://[user@]host:port`.
    pub fn address(&self) -> String {
        let host = match self.host.contains(':') {
            true => format!("[{}]", self.host),
            false => self.host.clone(),
        };
        let login = match &self.user {
            Some(user) => format!("{user}@{host}"),
            None => host,
        };
        let address = match self.port {
            Some(port) => format!("ssh://{login}:{port}"),
            None => login,
        };
        shown(address.as_bytes())
    }

    pub(crate) fn shell(&self) -> &RemoteShell {
        &self.shell
    }

    /// The cached settings of ssh for this host.
    pub(crate) fn ciphers(&self) -> &cipher::Cached<cipher::Settings> {
        &self.ciphers
    }

    /// True if the client has options for its session. It is asked once.
    pub(crate) fn supports_session_options(&self) -> bool {
        *self.supports_session_options.get_or_init(|| cipher::supports_session_options(&self.shell))
    }

    pub(crate) fn remote_haul(&self) -> Option<&str> {
        self.remote_haul.as_deref()
    }
}

impl RemoteShell {
    fn ssh() -> Self {
        Self { program: "ssh".into(), args: Vec::new() }
    }

    /// True if the program is ssh, judging by its name, so it takes OpenSSH's options.
    pub(crate) fn is_ssh(&self) -> bool {
        self.program.rsplit('/').next() == Some("ssh")
    }
}

fn check_name(name: &str, refused: &str) -> Result<(), &'static str> {
    if name.is_empty() {
        Err("it is empty")
    } else if name.len() > NAME_BYTES_MAX {
        Err("it is too long")
    } else if name.starts_with('-') {
        Err("it starts with '-', like an option")
    } else if name.chars().any(|c| c.is_control() || c.is_whitespace()) {
        Err("it contains a blank or a control character")
    } else if name.chars().any(|c| refused.contains(c)) {
        Err("it contains a character that is special to a shell")
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_users_that_could_be_options_or_commands_are_refused() {
        for bad in [
            "",
            "-oProxyCommand=touch x",
            "-v",
            "a b",
            "a\tb",
            "a\nb",
            "a\0b",
            "a\u{85}b",
            "a;b",
            "$(id)",
            "`id`",
            "a|b",
            "a&b",
            "'a",
            "\"a",
            "{a}",
            "a>b",
            "a\u{a0}b",
        ] {
            let error = SshTarget::new(None, bad).unwrap_err();
            assert!(matches!(error, ConnectError::HostName { .. }), "{bad:?}");
            assert!(!error.to_string().contains(char::is_control), "{bad:?}");
            assert!(!error.retriable());
            assert!(
                matches!(SshTarget::new(Some(bad), "host"), Err(ConnectError::UserName { .. })),
                "{bad:?}"
            );
        }
        assert!(SshTarget::new(None, &"a".repeat(256)).is_err());
        assert!(SshTarget::new(None, "a\\b").is_err());
    }

    #[test]
    fn ordinary_hosts_and_users_are_taken() {
        for host in
            ["localhost", "10.0.0.1", "::1", "fe80::1%eth0", "my_host-2.example", "bücher.example"]
        {
            assert_eq!(SshTarget::new(None, host).unwrap().display(), host);
        }
        for user in ["ann", "a.b", "CORP\\ann", "machine$", "ann@corp"] {
            let target = SshTarget::new(Some(user), "h").unwrap();
            assert_eq!(target.user(), Some(user));
        }
        let target = SshTarget::new(Some("ann"), "h").unwrap();
        assert_eq!((target.display(), target.address()), ("ann@h".into(), "ann@h".into()));
        assert_eq!(target.with_port(7).address(), "ssh://ann@h:7");
        let target = SshTarget::new(None, "::1").unwrap();
        assert_eq!(target.address(), "[::1]");
        assert_eq!(target.with_port(7).address(), "ssh://[::1]:7");
    }

    #[test]
    fn the_remote_shell_is_split_as_a_shell_would() {
        let target = || SshTarget::new(None, "h").unwrap();
        let shell = target().with_rsh("/opt/bin/ssh -F 'my config' -o\"A b\"").unwrap().shell;
        assert_eq!(shell.program, "/opt/bin/ssh");
        assert_eq!(shell.args, ["-F", "my config", "-oA b"]);
        assert!(shell.is_ssh());
        assert!(!target().with_rsh("sshpass -e ssh").unwrap().shell.is_ssh());
        for bad in ["", "  ", "ssh 'x", "''", "ssh a\0b"] {
            assert!(
                matches!(target().with_rsh(bad), Err(ConnectError::RemoteShell { .. })),
                "{bad:?}"
            );
        }
    }
}
