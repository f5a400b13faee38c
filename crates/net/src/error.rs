//! Errors of connecting, and of lost connections.

use haul_model::{escape_beginning, os_text};
use std::io;

/// Most characters of a peer's own text in a message.
const QUOTED_CHARS_MAX: usize = 300;

/// The line that OpenSSH's sshd prints instead of running a command under `ForceCommand
/// internal-sftp` (`session.c`).
const SFTP_ONLY: &[u8] = b"This service allows sftp connections only.";

/// The line that the shell `nologin` prints instead of running a command, on Linux and BSD.
pub const NO_LOGIN: &[u8] = b"This account is currently not available.";

/// Detail of a connection that ended without a system error.
pub(crate) const CLOSED: &str = "the other side closed it";

/// Why a connection could not be made, or was lost.
///
/// All its text is escaped and may be shown. `host` is the peer as the user named it, `user@host`.
/// `detail` is the most useful line of ssh or of the peer, and may be empty.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The host name must not be passed to ssh.
    #[error("invalid host name '{name}': {problem}")]
    HostName {
        /// The name.
        name: String,
        /// The problem with it.
        problem: &'static str,
    },
    /// The user name must not be passed to ssh.
    #[error("invalid user name '{name}': {problem}")]
    UserName {
        /// The name.
        name: String,
        /// The problem with it.
        problem: &'static str,
    },
    /// The command in place of ssh can't be used.
    #[error("invalid remote shell '{words}': {problem}")]
    RemoteShell {
        /// The command, as given.
        words: String,
        /// The problem with it.
        problem: &'static str,
    },
    /// The path of haul on the other machine can't be used.
    #[error("invalid path of the remote haul '{path}': {problem}")]
    RemoteHaul {
        /// The path, as given.
        path: String,
        /// The problem with it.
        problem: &'static str,
    },
    /// The program that makes the connection could not be started.
    #[error("can't start '{program}' to reach {host}: {}", os_text(cause))]
    Start {
        /// The peer.
        host: String,
        /// The program.
        program: String,
        /// The error of the system.
        cause: io::Error,
    },
    /// The host can't be reached.
    #[error("can't reach {host}{}", after_colon(detail))]
    Unreachable {
        /// The peer.
        host: String,
        /// ssh's message.
        detail: String,
    },
    /// The host's key is unknown, or differs from the known one.
    #[error(
        "the key of {host} {}",
        if *changed { "has changed: this may be another machine" }
        else { "could not be verified" }
    )]
    HostKey {
        /// The peer.
        host: String,
        /// True if another key was known.
        changed: bool,
    },
    /// The host refuses the login.
    #[error("login to {host} failed{}", after_colon(detail))]
    LoginRefused {
        /// The peer.
        host: String,
        /// ssh's message.
        detail: String,
    },
    /// ssh failed before the login: its configuration is wrong, or the two sides have no algorithm
    /// in common.
    #[error("ssh can't set up the connection to {host}{}", after_colon(detail))]
    Setup {
        /// The peer.
        host: String,
        /// ssh's message.
        detail: String,
    },
    /// The login worked, but haul was not found.
    #[error(
        "haul was not found on {host}{}",
        tried.as_ref().map(|path| format!(" at '{path}'")).unwrap_or_default()
    )]
    HaulMissing {
        /// The peer.
        host: String,
        /// The only path that was tried; `None` for the usual places.
        tried: Option<String>,
        /// The host in the form that `haul deploy` takes.
        address: String,
    },
    /// The login worked, but the file with haul's name can't be run.
    #[error("can't run haul on {host}{}", after_colon(detail))]
    HaulUnusable {
        /// The peer.
        host: String,
        /// The remote shell's message.
        detail: String,
    },
    /// The program in haul's place exited with success, without output.
    #[error(
        "{} is not haul: it exited without a message",
        tried.as_ref().map_or_else(
            || format!("the program that {host} runs instead of haul"),
            |path| format!("'{path}' on {host}")
        )
    )]
    NoHaul {
        /// The peer.
        host: String,
        /// Its path, if the user named one.
        tried: Option<String>,
    },
    /// The login worked, but the host runs only its SFTP server.
    #[error("{host} allows only SFTP")]
    SftpOnly {
        /// The peer.
        host: String,
    },
    /// The login worked, but the user's shell runs no commands.
    #[error("{host} runs no commands for this user: \"{text}\"")]
    NoShell {
        /// The peer.
        host: String,
        /// The shell's message.
        text: String,
    },
    /// The login worked, but the server lacks the requested subsystem.
    #[error("{host} offers no {name}")]
    SubsystemMissing {
        /// The peer.
        host: String,
        /// The subsystem's name.
        name: &'static str,
    },
    /// The remote command, or the program in place of ssh, failed.
    #[error("the remote command on {host} exited with status {status}{}", after_colon(detail))]
    Agent {
        /// The peer.
        host: String,
        /// Its exit status.
        status: i32,
        /// Its last message.
        detail: String,
    },
    /// The peer sent text before haul's greeting, or instead of it.
    #[error("{host} sent text instead of haul's greeting: \"{text}\"")]
    NoisyShell {
        /// The peer.
        host: String,
        /// The beginning of the text.
        text: String,
    },
    /// The connection was established, or may have been, and broke.
    #[error("the connection to {host} was lost{}", after_colon(detail))]
    Lost {
        /// The peer.
        host: String,
        /// The last message about it.
        detail: String,
    },
    /// The peer has greeted, but then sent nothing for so long that it is considered lost.
    #[error("no data from {host} for {seconds} s")]
    Silent {
        /// The peer.
        host: String,
        /// The time of silence, in seconds.
        seconds: u64,
    },
    /// The peer's greeting did not arrive.
    #[error("no answer from {host} within {seconds} s")]
    Unanswered {
        /// The peer.
        host: String,
        /// The time waited, in seconds.
        seconds: u64,
    },
    /// No direct connection works, and ssh must not be used instead.
    #[error("no direct connection to {host}{}", after_colon(detail))]
    NotDirect {
        /// The peer.
        host: String,
        /// The cause.
        detail: String,
    },
    /// All direct connections were lost, and contents may use no other.
    #[error("the direct connections to {host} were lost{}", after_colon(detail))]
    DirectLost {
        /// The peer.
        host: String,
        /// The cause.
        detail: String,
    },
    /// The server's key differs from the stored one.
    #[error(
        "the server at {host} does not have the stored key {stored}: this may be another machine"
    )]
    ServerKey {
        /// The peer.
        host: String,
        /// The fingerprint of the stored key.
        stored: String,
    },
    /// The server does not accept this client's key: it is not enrolled, or no longer.
    #[error("the server at {host} does not accept this client's key")]
    NotEnrolled {
        /// The peer.
        host: String,
    },
    /// The client runs as many jobs at the server as it may.
    #[error("the server at {host} runs as many jobs of this client as it may")]
    Busy {
        /// The peer.
        host: String,
    },
    /// The server can't serve the client, for a reason that it does not reveal.
    #[error("the server at {host} can't serve this client now; its audit log has the reason")]
    Unserved {
        /// The peer.
        host: String,
    },
    /// No server was reached: none runs there, or its port is closed.
    #[error("can't reach the server at {host}{}", after_colon(detail))]
    NoServer {
        /// The peer.
        host: String,
        /// The cause.
        detail: String,
    },
    /// This side ended the connection, through [`crate::Killer::kill`] or [`crate::Closer::kill`].
    #[error("the connection to {host} was closed by this side")]
    Stopped {
        /// The peer.
        host: String,
    },
}

impl ConnectError {
    /// The error for `first_bytes` in place of the peer's greeting. Most often a shell's startup
    /// file prints them. OpenSSH prints them if it allows only SFTP, and so does the shell of an
    /// account without logins.
    pub fn noisy_shell(host: &str, first_bytes: &[u8]) -> Self {
        let (host, text) = (shown(host.as_bytes()), shown(first_bytes.trim_ascii_end()));
        match first_bytes {
            first if first.starts_with(SFTP_ONLY) => Self::SftpOnly { host },
            first if first.starts_with(NO_LOGIN) => Self::NoShell { host, text },
            _ => Self::NoisyShell { host, text: shown(first_bytes) },
        }
    }

    /// The connection to `host` failed with `error` during a read or write.
    pub fn lost(host: &str, error: &io::Error) -> Self {
        let detail = match error.kind() {
            io::ErrorKind::UnexpectedEof => CLOSED.to_owned(),
            _ => os_text(error),
        };
        Self::Lost { host: host.to_owned(), detail }
    }

    /// True if the login worked but the host has no usable haul, though it may have SFTP. False if
    /// the user named haul's path.
    pub fn is_haul_missing(&self) -> bool {
        matches!(self, Self::HaulMissing { tried: None, .. }) || self.has_no_shell()
    }

    /// True if the login worked but the host runs no command for that user.
    pub fn has_no_shell(&self) -> bool {
        matches!(self, Self::SftpOnly { .. } | Self::NoShell { .. })
    }

    /// True if the login worked but the host offers no SFTP.
    pub fn is_sftp_missing(&self) -> bool {
        matches!(self, Self::SubsystemMissing { .. })
    }

    /// True if the user's arguments that name or reach the host are invalid.
    pub fn is_usage_error(&self) -> bool {
        matches!(
            self,
            Self::HostName { .. }
                | Self::UserName { .. }
                | Self::RemoteShell { .. }
                | Self::RemoteHaul { .. }
        )
    }

    /// True if the same attempt may succeed later, with nothing changed here.
    pub fn retriable(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. }
                | Self::NoServer { .. }
                | Self::Busy { .. }
                | Self::Lost { .. }
                | Self::DirectLost { .. }
                | Self::Silent { .. }
                | Self::Unanswered { .. }
        )
    }
}

/// `detail` after a colon, or nothing.
fn after_colon(detail: &str) -> String {
    if detail.is_empty() { String::new() } else { format!(": {detail}") }
}

/// The beginning of `bytes` as text that is safe to show.
pub(crate) fn shown(bytes: &[u8]) -> String {
    escape_beginning(bytes, QUOTED_CHARS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_from_outside_reaches_a_terminal_unescaped() {
        assert_eq!(shown(b"a\x1b[2J\n\xff\\"), "a\\x1b[2J\\n\\xff\\\\");
        assert_eq!(shown("\u{9b}31m \u{202e}".as_bytes()), "\\u{9b}31m \\u{202e}");
        assert_eq!(shown("Grüße".as_bytes()), "Grüße");
        assert_eq!(shown(&vec![b'x'; 5000]).len(), QUOTED_CHARS_MAX + 3);
        assert_eq!(shown(&vec![0xff; 5000]).len(), QUOTED_CHARS_MAX * 4 + 3);
        let error = ConnectError::noisy_shell("box", b"\x1b]0;hi\x07Welcome!\n");
        assert_eq!(
            error.to_string(),
            "box sent text instead of haul's greeting: \"\\x1b]0;hi\\x07Welcome!\\n\""
        );
    }

    #[test]
    fn an_sftp_only_host_is_not_a_noisy_shell() {
        let said = b"This service allows sftp connections only.\n";
        let sftp_only = ConnectError::noisy_shell("box", said);
        assert_eq!(sftp_only.to_string(), "box allows only SFTP");
        assert!(sftp_only.is_haul_missing());
        assert!(!ConnectError::noisy_shell("box", &said[1..]).is_haul_missing());
        let no_shell = ConnectError::noisy_shell("box", &[NO_LOGIN, b"\n"].concat());
        assert_eq!(
            no_shell.to_string(),
            "box runs no commands for this user: \"This account is currently not available.\""
        );
        assert!(no_shell.is_haul_missing());
        let missing = |tried| ConnectError::HaulMissing {
            host: "box".into(),
            tried,
            address: "ssh://box:7".into(),
        };
        assert!(missing(None).is_haul_missing());
        assert!(!missing(Some("/opt/haul".into())).is_haul_missing());
    }

    #[test]
    fn a_message_without_detail_ends_cleanly() {
        let lost = ConnectError::Lost { host: "a@b".into(), detail: String::new() };
        assert_eq!(lost.to_string(), "the connection to a@b was lost");
        assert!(lost.retriable());
    }

    #[test]
    fn the_end_of_a_stream_within_a_message_is_reported_as_closed() {
        let end = io::Read::read_exact(&mut &b"x"[..], &mut [0; 2]).unwrap_err();
        let lost = ConnectError::lost("box", &end);
        assert_eq!(lost.to_string(), "the connection to box was lost: the other side closed it");
    }
}
