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
/// `detail` is the most useful line of ssh or of the peer, or the cause, and may be empty. `problem`
/// is the problem with the name or text.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the variants describe their fields")]
pub enum ConnectError {
    /// The host name must not be passed to ssh.
    #[error("invalid host name '{name}': {problem}")]
    HostName { name: String, problem: &'static str },
    /// The user name must not be passed to ssh.
    #[error("invalid user name '{name}': {problem}")]
    UserName { name: String, problem: &'static str },
    /// The command in place of ssh can't be used.
    ///
    /// - `words`: the command, as given.
    #[error("invalid remote shell '{words}': {problem}")]
    RemoteShell { words: String, problem: &'static str },
    /// The path of haul on the other machine can't be used.
    ///
    /// - `path`: the path, as given.
    #[error("invalid path of the remote haul '{path}': {problem}")]
    RemoteHaul { path: String, problem: &'static str },
    /// The program that makes the connection could not be started.
    ///
    /// - `cause`: the error of the system.
    #[error("can't start '{program}' to reach {host}: {}", os_text(cause))]
    Start { host: String, program: String, cause: io::Error },
    /// The host can't be reached.
    #[error("can't reach {host}{}", after_colon(detail))]
    Unreachable { host: String, detail: String },
    /// The host's key is unknown, or differs from the known one.
    ///
    /// - `changed`: true if another key was known.
    #[error(
        "the key of {host} {}",
        if *changed { "has changed: this may be another machine" }
        else { "could not be verified" }
    )]
    HostKey { host: String, changed: bool },
    /// The host refuses the login.
    #[error("login to {host} failed{}", after_colon(detail))]
    LoginRefused { host: String, detail: String },
    /// ssh failed before the login: its configuration is wrong, or the two sides have no algorithm
    /// in common.
    #[error("ssh can't set up the connection to {host}{}", after_colon(detail))]
    Setup { host: String, detail: String },
    /// The login worked, but haul was not found.
    ///
    /// - `tried`: the only path that was tried; `None` for the usual places.
    /// - `address`: the host in the form that `haul deploy` takes.
    #[error(
        "haul was not found on {host}{}",
        tried.as_ref().map(|path| format!(" at '{path}'")).unwrap_or_default()
    )]
    HaulMissing { host: String, tried: Option<String>, address: String },
    /// The login worked, but the file with haul's name can't be run.
    ///
    /// - `detail`: the remote shell's message.
    #[error("can't run haul on {host}{}", after_colon(detail))]
    HaulUnusable { host: String, detail: String },
    /// The program in haul's place exited with success, without output.
    ///
    /// - `tried`: its path, if the user named one.
    #[error(
        "{} is not haul: it exited without a message",
        tried.as_ref().map_or_else(
            || format!("the program that {host} runs instead of haul"),
            |path| format!("'{path}' on {host}")
        )
    )]
    NoHaul { host: String, tried: Option<String> },
    /// The login worked, but the host runs only its SFTP server.
    #[error("{host} allows only SFTP")]
    SftpOnly { host: String },
    /// The login worked, but the user's shell runs no commands.
    ///
    /// - `text`: the shell's message.
    #[error("{host} runs no commands for this user: \"{text}\"")]
    NoShell { host: String, text: String },
    /// The login worked, but the server lacks the requested subsystem.
    ///
    /// - `name`: the subsystem's name.
    #[error("{host} offers no {name}")]
    SubsystemMissing { host: String, name: &'static str },
    /// The remote command, or the program in place of ssh, failed.
    ///
    /// - `status`: its exit status.
    /// - `detail`: its last message.
    #[error("the remote command on {host} exited with status {status}{}", after_colon(detail))]
    Agent { host: String, status: i32, detail: String },
    /// The peer sent text before haul's greeting, or instead of it.
    ///
    /// - `text`: the beginning of the text.
    #[error("{host} sent text instead of haul's greeting: \"{text}\"")]
    NoisyShell { host: String, text: String },
    /// The connection was established, or may have been, and broke.
    ///
    /// - `detail`: the last message about it.
    #[error("the connection to {host} was lost{}", after_colon(detail))]
    Lost { host: String, detail: String },
    /// The peer has greeted, but then sent nothing for so long that it is considered lost.
    ///
    /// - `seconds`: the time of silence, in seconds.
    #[error("no data from {host} for {seconds} s")]
    Silent { host: String, seconds: u64 },
    /// The peer's greeting did not arrive.
    ///
    /// - `seconds`: the time waited, in seconds.
    #[error("no answer from {host} within {seconds} s")]
    Unanswered { host: String, seconds: u64 },
    /// No direct connection works, and ssh must not be used instead.
    #[error("no direct connection to {host}{}", after_colon(detail))]
    NotDirect { host: String, detail: String },
    /// All direct connections were lost, and contents may use no other.
    #[error("the direct connections to {host} were lost{}", after_colon(detail))]
    DirectLost { host: String, detail: String },
    /// The server's key differs from the stored one.
    ///
    /// - `stored`: the fingerprint of the stored key.
    #[error(
        "the server at {host} does not have the stored key {stored}: this may be another machine"
    )]
    ServerKey { host: String, stored: String },
    /// The server does not accept this client's key: it is not enrolled, or no longer.
    #[error("the server at {host} does not accept this client's key")]
    NotEnrolled { host: String },
    /// The client runs as many jobs at the server as it may.
    #[error("the server at {host} runs as many jobs of this client as it may")]
    Busy { host: String },
    /// The server can't serve the client, for a reason that it does not reveal.
    #[error("the server at {host} can't serve this client now; its audit log has the reason")]
    Unserved { host: String },
    /// No server was reached: none runs there, or its port is closed.
    #[error("can't reach the server at {host}{}", after_colon(detail))]
    NoServer { host: String, detail: String },
    /// This side ended the connection, through [`crate::Killer::kill`] or [`crate::Closer::kill`].
    #[error("the connection to {host} was closed by this side")]
    Stopped { host: String },
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
