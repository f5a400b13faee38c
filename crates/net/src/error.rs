//! Why there is no connection.

use haul_model::{escape_beginning, os_text};
use std::io;

/// The most characters of a peer's own words that a message repeats.
const QUOTED_CHARS_MAX: usize = 300;

/// The line that OpenSSH's sshd prints in place of running a command, where
/// `ForceCommand internal-sftp` holds (`session.c`).
const SFTP_ONLY: &[u8] = b"This service allows sftp connections only.";

/// The line that the shell `nologin` prints in place of running a command, on Linux and BSD.
pub const NO_LOGIN: &[u8] = b"This account is currently not available.";

/// The detail of a connection that ended without an error of the system.
pub(crate) const CLOSED: &str = "the other side closed it";

/// Why a connection could not be made or did not last.
///
/// All text in it is escaped and may be shown. `host` is the peer as the user
/// named it, `user@host`; `detail` is the line of ssh or of the peer that tells
/// the most, and may be empty.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The host's name is none that may be handed to ssh.
    #[error("invalid host name '{name}': {problem}")]
    HostName {
        /// The name.
        name: String,
        /// The problem with it.
        problem: &'static str,
    },
    /// The user's name is none that may be handed to ssh.
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
    /// No connection to the host came about.
    #[error("can't reach {host}{}", after_colon(detail))]
    Unreachable {
        /// The peer.
        host: String,
        /// The words of ssh.
        detail: String,
    },
    /// The host's key is unknown, or is not the one it had.
    #[error(
        "the key of {host} {}",
        if *changed { "has changed: this may be another machine" }
        else { "could not be verified" }
    )]
    HostKey {
        /// The peer.
        host: String,
        /// Another key was known for it.
        changed: bool,
    },
    /// The host does not let this user in.
    #[error("login to {host} failed{}", after_colon(detail))]
    LoginRefused {
        /// The peer.
        host: String,
        /// The words of ssh.
        detail: String,
    },
    /// ssh gave up before logging in: its configuration is wrong, or the two
    /// ends have no algorithm in common.
    #[error("ssh can't set up the connection to {host}{}", after_colon(detail))]
    Setup {
        /// The peer.
        host: String,
        /// The words of ssh.
        detail: String,
    },
    /// The login worked, and there is no haul.
    #[error(
        "haul was not found on {host}{}",
        tried.as_ref().map(|path| format!(" at '{path}'")).unwrap_or_default()
    )]
    HaulMissing {
        /// The peer.
        host: String,
        /// The one path that was tried; `None`: the usual places.
        tried: Option<String>,
        /// The host as `haul deploy` takes it.
        address: String,
    },
    /// The login worked, and what is there under haul's name can't be run.
    #[error("can't run haul on {host}{}", after_colon(detail))]
    HaulUnusable {
        /// The peer.
        host: String,
        /// The words of the shell there.
        detail: String,
    },
    /// The program in haul's place has ended in order, and has said nothing.
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
        /// The path of it, if the user named one.
        tried: Option<String>,
    },
    /// The login worked, and the host runs its SFTP server and nothing else.
    #[error("{host} allows only SFTP")]
    SftpOnly {
        /// The peer.
        host: String,
    },
    /// The login worked, and its shell runs no commands.
    #[error("{host} runs no commands for this user: \"{text}\"")]
    NoShell {
        /// The peer.
        host: String,
        /// The words of the shell.
        text: String,
    },
    /// The login worked, and the server does not offer what was asked for.
    #[error("{host} offers no {name}")]
    SubsystemMissing {
        /// The peer.
        host: String,
        /// The subsystem's name.
        name: &'static str,
    },
    /// The remote command, or the program in place of ssh, ended with a failure
    /// of its own.
    #[error("the remote command on {host} exited with status {status}{}", after_colon(detail))]
    Agent {
        /// The peer.
        host: String,
        /// Its exit status.
        status: i32,
        /// The last thing it said.
        detail: String,
    },
    /// The peer said something before haul's greeting, or instead of it.
    #[error("{host} sent text instead of haul's greeting: \"{text}\"")]
    NoisyShell {
        /// The peer.
        host: String,
        /// The beginning of what came.
        text: String,
    },
    /// The connection stood, or may have stood, and broke.
    #[error("the connection to {host} was lost{}", after_colon(detail))]
    Lost {
        /// The peer.
        host: String,
        /// The last thing that was said about it.
        detail: String,
    },
    /// The peer has greeted, and then nothing has come from it for so long that it
    /// is taken for gone.
    #[error("no data from {host} for {seconds} s")]
    Silent {
        /// The peer.
        host: String,
        /// For how long, in seconds.
        seconds: u64,
    },
    /// Nothing has come in place of the peer's greeting.
    #[error("no answer from {host} within {seconds} s")]
    Unanswered {
        /// The peer.
        host: String,
        /// For how long, in seconds.
        seconds: u64,
    },
    /// There is none past ssh, and none other is to be used.
    #[error("no direct connection to {host}{}", after_colon(detail))]
    NotDirect {
        /// The peer.
        host: String,
        /// Why.
        detail: String,
    },
    /// All connections past ssh were lost, and contents go by no other.
    #[error("the direct connections to {host} were lost{}", after_colon(detail))]
    DirectLost {
        /// The peer.
        host: String,
        /// Why.
        detail: String,
    },
    /// The server that answers has another key than the stored one.
    #[error(
        "the server at {host} does not have the stored key {stored}: this may be another machine"
    )]
    ServerKey {
        /// The peer.
        host: String,
        /// The fingerprint of the stored key.
        stored: String,
    },
    /// The server does not accept this client's key: it is not enrolled, or not any more.
    #[error("the server at {host} does not accept this client's key")]
    NotEnrolled {
        /// The peer.
        host: String,
    },
    /// The client has as many jobs at the server as it may.
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
    /// This side ended the connection, through [`crate::Killer::kill`] or
    /// [`crate::Closer::kill`].
    #[error("the connection to {host} was closed by this side")]
    Stopped {
        /// The peer.
        host: String,
    },
}

impl ConnectError {
    /// For the caller that reads `first_bytes` where the peer's greeting
    /// belongs: most often a shell's startup file prints them. An OpenSSH
    /// server that is set up for SFTP alone says so there, and so does the shell of an
    /// account that may not log in.
    pub fn noisy_shell(host: &str, first_bytes: &[u8]) -> Self {
        let (host, text) = (shown(host.as_bytes()), shown(first_bytes.trim_ascii_end()));
        match first_bytes {
            first if first.starts_with(SFTP_ONLY) => Self::SftpOnly { host },
            first if first.starts_with(NO_LOGIN) => Self::NoShell { host, text },
            _ => Self::NoisyShell { host, text: shown(first_bytes) },
        }
    }

    /// The connection to `host` failed with `error` while something was read or written.
    pub fn lost(host: &str, error: &io::Error) -> Self {
        let detail = match error.kind() {
            io::ErrorKind::UnexpectedEof => CLOSED.to_owned(),
            _ => os_text(error),
        };
        Self::Lost { host: host.to_owned(), detail }
    }

    /// True if the host let the user in, and there is no haul to be used, though
    /// there may be SFTP. A path given for haul that leads nowhere is not that.
    pub fn lacks_haul(&self) -> bool {
        matches!(self, Self::HaulMissing { tried: None, .. }) || self.runs_nothing()
    }

    /// True if the host let the user in, and runs no command for that user.
    pub fn runs_nothing(&self) -> bool {
        matches!(self, Self::SftpOnly { .. } | Self::NoShell { .. })
    }

    /// True if the host let the user in, and offers no SFTP.
    pub fn lacks_sftp(&self) -> bool {
        matches!(self, Self::SubsystemMissing { .. })
    }

    /// True if the words that name the host, or say how it is reached, are wrong.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::HostName { .. }
                | Self::UserName { .. }
                | Self::RemoteShell { .. }
                | Self::RemoteHaul { .. }
        )
    }

    /// True if the same attempt may succeed a little later with nothing
    /// changed here.
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
    fn a_host_that_allows_sftp_alone_is_told_from_a_shell_that_talks() {
        let said = b"This service allows sftp connections only.\n";
        let sftp_only = ConnectError::noisy_shell("box", said);
        assert_eq!(sftp_only.to_string(), "box allows only SFTP");
        assert!(sftp_only.lacks_haul());
        assert!(!ConnectError::noisy_shell("box", &said[1..]).lacks_haul());
        let no_shell = ConnectError::noisy_shell("box", &[NO_LOGIN, b"\n"].concat());
        assert_eq!(
            no_shell.to_string(),
            "box runs no commands for this user: \"This account is currently not available.\""
        );
        assert!(no_shell.lacks_haul());
        let missing = |tried| ConnectError::HaulMissing {
            host: "box".into(),
            tried,
            address: "ssh://box:7".into(),
        };
        assert!(missing(None).lacks_haul());
        assert!(!missing(Some("/opt/haul".into())).lacks_haul());
    }

    #[test]
    fn a_message_without_detail_ends_cleanly() {
        let lost = ConnectError::Lost { host: "a@b".into(), detail: String::new() };
        assert_eq!(lost.to_string(), "the connection to a@b was lost");
        assert!(lost.retriable());
    }

    #[test]
    fn a_stream_that_ends_within_a_message_was_closed() {
        let end = io::Read::read_exact(&mut &b"x"[..], &mut [0; 2]).unwrap_err();
        let lost = ConnectError::lost("box", &end);
        assert_eq!(lost.to_string(), "the connection to box was lost: the other side closed it");
    }
}
