//! From how ssh ended and what was said last to a [`ConnectError`].
//!
//! ssh exits with the remote command's status, or with 255 for every failure of
//! its own, so only its words tell those apart. They are English in every
//! locale. Words can come from the remote side too; they choose nothing but the
//! message that the user reads.

use crate::ConnectError;
use crate::error::shown;
use crate::stderr::Said;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// ssh's own status for any error of ssh.
const SSH_FAILED: i32 = 255;
/// A shell's status for a command that it can't find (POSIX, 2.8.2).
const NOT_FOUND: i32 = 127;
/// A shell's status for a command that it finds and can't run (POSIX, 2.8.2).
const NOT_EXECUTABLE: i32 = 126;

/// Whom the connection was to, for messages.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    /// `user@host`, safe to show.
    pub(crate) name: String,
    /// The program that was to run there.
    pub(crate) runs: Remote,
}

/// The program that ssh was told to run on the other machine.
#[derive(Debug, Clone)]
pub(crate) enum Remote {
    /// haul.
    Haul {
        /// Its path there, if the user named it; safe to show.
        path: Option<String>,
        /// The host as `haul deploy` takes it; safe to show.
        address: String,
    },
    /// The shell that helps to deploy haul.
    Deploy,
    /// The subsystem that the server has configured under this name.
    Subsystem(&'static str),
}

/// Why the connection ended, or `Ok` if it ended well. `status` is `None` when
/// the system does not tell it.
pub(crate) fn diagnose(
    peer: &Peer,
    status: Option<ExitStatus>,
    said: &Said,
) -> Result<(), ConnectError> {
    let host = || peer.name.clone();
    let last_words = || said.lines.back().map(|line| shown(line)).unwrap_or_default();
    let missing = match &peer.runs {
        Remote::Haul { path, address } => Some(ConnectError::HaulMissing {
            host: host(),
            tried: path.clone(),
            address: address.clone(),
        }),
        // What can't be found or run then is no haul of the host's.
        Remote::Deploy => None,
        Remote::Subsystem(name) => return diagnose_subsystem(peer, name, status, said),
    };
    let missing = match missing {
        Some(missing) if said.haul_missing => return Err(missing),
        missing => missing,
    };
    let Some(status) = status else {
        return recognised(peer, said).map_or(Ok(()), Err);
    };
    match (status.code(), missing) {
        (Some(0), _) => Ok(()),
        (Some(NOT_FOUND), Some(missing)) => Err(missing),
        // csh has no status of its own for it.
        (Some(1), Some(missing)) if ends_with(said, b"Command not found.") => Err(missing),
        (Some(NOT_EXECUTABLE), Some(_)) => {
            Err(ConnectError::HaulUnusable { host: host(), detail: last_words() })
        }
        (Some(SSH_FAILED), _) => Err(recognised(peer, said)
            .unwrap_or_else(|| ConnectError::Lost { host: host(), detail: last_words() })),
        (Some(status), _) => {
            Err(ConnectError::Agent { host: host(), status, detail: last_words() })
        }
        (None, _) => Err(ConnectError::Lost {
            host: host(),
            detail: match status.signal() {
                Some(signal) => format!("ssh was ended by signal {signal}"),
                None => last_words(),
            },
        }),
    }
}

/// [`diagnose`] for a subsystem, which a server may not have.
fn diagnose_subsystem(
    peer: &Peer,
    name: &'static str,
    status: Option<ExitStatus>,
    said: &Said,
) -> Result<(), ConnectError> {
    let host = || peer.name.clone();
    let detail = said.lines.back().map(|line| shown(line)).unwrap_or_default();
    let missing = || ConnectError::SubsystemMissing { host: host(), name };
    if said.lines.iter().any(|line| contains(line, SUBSYSTEM_REFUSED)) {
        return Err(missing());
    }
    match status.map(|status| (status.code(), status.signal())) {
        Some((Some(0), _)) => Ok(()),
        // The server has a command for it, and the command is not there.
        Some((Some(NOT_FOUND | NOT_EXECUTABLE), _)) => Err(missing()),
        Some((Some(SSH_FAILED), _)) => {
            Err(recognised(peer, said)
                .unwrap_or_else(|| ConnectError::Lost { host: host(), detail }))
        }
        Some((Some(status), _)) => Err(ConnectError::Agent { host: host(), status, detail }),
        Some((None, Some(signal))) => Err(ConnectError::Lost {
            host: host(),
            detail: format!("ssh was ended by signal {signal}"),
        }),
        Some((None, None)) => Err(ConnectError::Lost { host: host(), detail }),
        None => recognised(peer, said).map_or(Ok(()), Err),
    }
}

/// The words of ssh when the server has no such subsystem, or refuses it.
const SUBSYSTEM_REFUSED: &str = "subsystem request failed";

/// The meaning of a line of ssh.
#[derive(Clone, Copy)]
enum Meaning {
    Lost,
    Unreachable,
    LoginRefused,
    /// The same for one of several tries.
    Again,
    HostKey,
    Setup,
}

const HOST_KEY_FAILED: &str = "Host key verification failed";

/// Pieces of ssh's messages (OpenSSH 7.6 to 10); the first row whose pieces are
/// all in a line tells what it means, so the more special ones come first.
const MEANINGS: &[(&[&str], Meaning)] = &[
    (&["Read from remote host"], Meaning::Lost),
    (&["Timeout, server ", " not responding"], Meaning::Lost),
    (&["Connection to ", " closed by remote host"], Meaning::Lost),
    (&["client_loop: "], Meaning::Lost),
    (&["packet_write_wait: "], Meaning::Lost),
    (&["Could not resolve hostname"], Meaning::Unreachable),
    (&["connect to host "], Meaning::Unreachable),
    (&["during banner exchange"], Meaning::Unreachable),
    (&["banner exchange: "], Meaning::Unreachable),
    // What a jump host says about the way on from it.
    (&["open failed: connect failed"], Meaning::Unreachable),
    (&["open failed: administratively prohibited"], Meaning::Unreachable),
    (&[HOST_KEY_FAILED], Meaning::HostKey),
    (&[": Permission denied ("], Meaning::LoginRefused),
    (&["Permission denied, please try again"], Meaning::Again),
    (&["Too many authentication failures"], Meaning::LoginRefused),
    (&["Unable to negotiate with"], Meaning::Setup),
    (&["Bad configuration option"], Meaning::Setup),
    (&["bad configuration options"], Meaning::Setup),
    (&["Bad owner or permissions on"], Meaning::Setup),
    (&["Can't open user config file"], Meaning::Setup),
    (&["contains invalid characters"], Meaning::Setup),
    (&["unknown option -- "], Meaning::Setup),
    (&["Bad SSH2 cipher spec"], Meaning::Setup),
    (&["Connection refused"], Meaning::Unreachable),
    (&["No route to host"], Meaning::Unreachable),
    (&["Network is unreachable"], Meaning::Unreachable),
    (&["Connection timed out"], Meaning::Unreachable),
    (&["Operation timed out"], Meaning::Unreachable),
];

/// How ssh names the other end of a command that leads to the host (ProxyCommand,
/// ProxyJump) when that has ended.
const NO_ADDRESS: &str = "UNKNOWN port 65535";

/// Lines of ssh, beside the cause, when it ends before anyone has logged in.
const CLOSED_EARLY: [&str; 3] =
    ["kex_exchange_identification: ", "ssh_exchange_identification: ", "banner exchange: "];

/// Lines of ssh when the other side is gone.
const CLOSED: [&str; 2] = ["Connection closed by ", "Connection reset by "];

/// True for a line with which ssh ends, and which the error about that may repeat.
/// "Permission denied, please try again" is no end.
pub(crate) fn ends_connection(line: &[u8]) -> bool {
    let means = |(pieces, meaning): &(&[&str], Meaning)| {
        !matches!(meaning, Meaning::Again) && pieces.iter().all(|piece| contains(line, piece))
    };
    !contains(line, NOT_OF_SSH) && (is_closing(line) || MEANINGS.iter().any(means))
}

/// True if an error that says `told` makes `line` superfluous.
pub(crate) fn is_repeated(line: &[u8], told: &str) -> bool {
    is_closing(line)
        || contains(line, HOST_KEY_FAILED)
        || told.contains(&shown(line.strip_prefix(b"ssh: ").unwrap_or(line)))
}

/// True for words that tell that the connection ended, and not why.
fn is_closing(line: &[u8]) -> bool {
    let starts = |words: &&str| line.starts_with(words.as_bytes());
    CLOSED_EARLY.iter().chain(&CLOSED).any(starts)
}

/// True if the command that leads to the host ended before anyone had logged in.
fn way_has_failed(said: &Said) -> bool {
    let early = |line: &Vec<u8>| CLOSED_EARLY.iter().any(|words| contains(line, words));
    said.lines.iter().any(early) && said.lines.iter().any(|line| contains(line, NO_ADDRESS))
}

/// Stands in the system's errors as Rust prints them, so in what the agent
/// says, and never in what ssh says.
const NOT_OF_SSH: &str = "(os error ";

/// The meaning of the last line that is known.
fn recognised(peer: &Peer, said: &Said) -> Option<ConnectError> {
    let known = said.lines.iter().rev().find_map(|line| {
        let (_, meaning) =
            MEANINGS.iter().find(|(pieces, _)| pieces.iter().all(|piece| contains(line, piece)))?;
        (!contains(line, NOT_OF_SSH) && !contains(line, NO_ADDRESS)).then_some((line, *meaning))
    });
    let host = peer.name.clone();
    let (line, meaning) = match known {
        Some(known) => known,
        None if way_has_failed(said) => {
            let detail = "the command of ssh that leads there failed (ProxyCommand or ProxyJump)";
            return Some(ConnectError::Unreachable { host, detail: detail.into() });
        }
        None => return None,
    };
    let detail = shown(line.strip_prefix(b"ssh: ").unwrap_or(line));
    Some(match meaning {
        Meaning::Lost => ConnectError::Lost { host, detail },
        Meaning::Unreachable => ConnectError::Unreachable { host, detail },
        Meaning::LoginRefused | Meaning::Again => ConnectError::LoginRefused { host, detail },
        Meaning::HostKey => ConnectError::HostKey {
            host,
            changed: said.lines.iter().any(|line| contains(line, "IDENTIFICATION HAS CHANGED")),
        },
        Meaning::Setup => ConnectError::Setup { host, detail },
    })
}

fn contains(line: &[u8], text: &str) -> bool {
    line.windows(text.len()).any(|part| part == text.as_bytes())
}

fn ends_with(said: &Said, text: &[u8]) -> bool {
    said.lines.back().is_some_and(|line| line.ends_with(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn haul() -> Remote {
        Remote::Haul { path: None, address: "ann@box".into() }
    }

    fn after(code: i32, lines: &[&str]) -> Result<(), ConnectError> {
        ended(Some(ExitStatus::from_raw(code << 8)), lines)
    }

    fn ended(status: Option<ExitStatus>, lines: &[&str]) -> Result<(), ConnectError> {
        let peer = Peer { name: "ann@box".into(), runs: haul() };
        let said = Said {
            lines: lines.iter().map(|line| line.as_bytes().to_vec()).collect(),
            haul_missing: false,
        };
        diagnose(&peer, status, &said)
    }

    #[test]
    fn failures_of_ssh_are_told_apart_by_its_words() {
        for line in [
            "ssh: Could not resolve hostname nope: Name or service not known",
            "ssh: connect to host box port 22: Connection refused",
            "ssh: connect to host box port 22: Connection timed out",
            "ssh: connect to host box port 22: No route to host",
            "Connection timed out during banner exchange",
            "channel 0: open failed: connect failed: Name or service not known",
        ] {
            let error = after(255, &[line]).unwrap_err();
            assert!(matches!(error, ConnectError::Unreachable { .. }), "{line}");
            assert!(error.retriable());
        }
        for line in [
            "ann@box: Permission denied (publickey,password).",
            "Received disconnect from 10.0.0.1 port 22:2: Too many authentication failures",
        ] {
            let error = after(255, &[line]).unwrap_err();
            assert!(matches!(error, ConnectError::LoginRefused { .. }), "{line}");
            assert!(!error.retriable());
        }
        for line in [
            "Unable to negotiate with 10.0.0.1 port 22: no matching cipher found. Their offer: x",
            "/home/ann/.ssh/config: terminating, 1 bad configuration options",
            "Bad owner or permissions on /home/ann/.ssh/config",
        ] {
            let error = after(255, &[line]).unwrap_err();
            assert!(matches!(error, ConnectError::Setup { .. }), "{line}");
        }
        for line in [
            "Read from remote host box: Connection timed out",
            "Timeout, server box not responding.",
            "Connection to box closed by remote host.",
            "client_loop: send disconnect: Broken pipe",
            "kex_exchange_identification: Connection closed by remote host",
        ] {
            let error = after(255, &[line]).unwrap_err();
            assert!(matches!(error, ConnectError::Lost { .. }), "{line}");
            assert!(error.retriable());
        }
        assert!(matches!(after(255, &[]), Err(ConnectError::Lost { .. })));
    }

    #[test]
    fn a_changed_host_key_is_more_than_an_unknown_one() {
        let unknown =
            after(255, &["No ED25519 host key is known for box.", "Host key verification failed."]);
        assert!(matches!(unknown, Err(ConnectError::HostKey { changed: false, .. })));
        let changed = after(
            255,
            &[
                "@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @",
                "Host key verification failed.",
            ],
        );
        assert!(matches!(changed, Err(ConnectError::HostKey { changed: true, .. })));
    }

    #[test]
    fn the_last_line_of_ssh_that_is_known_counts() {
        let error = after(
            255,
            &[
                "ann@box's password: Permission denied, please try again.",
                "ssh: connect to host box port 22: Connection refused",
                "something else",
            ],
        );
        assert!(matches!(error, Err(ConnectError::Unreachable { .. })));
        // What a jump host says comes before ssh's own last words.
        let error = after(
            255,
            &[
                "channel 0: open failed: connect failed: No route to host",
                "stdio forwarding failed",
                "kex_exchange_identification: Connection closed by remote host",
                "Connection closed by UNKNOWN port 65535",
            ],
        );
        assert!(matches!(error, Err(ConnectError::Unreachable { .. })));
    }

    #[test]
    fn a_proxy_command_that_fails_is_no_lost_connection() {
        for lines in [
            &[
                "nc: no way",
                "kex_exchange_identification: Connection closed by remote host",
                "Connection closed by UNKNOWN port 65535",
            ][..],
            &["banner exchange: Connection to UNKNOWN port 65535: Broken pipe"],
        ] {
            let error = after(255, lines).unwrap_err();
            assert!(matches!(error, ConnectError::Unreachable { .. }), "{error}");
            assert!(error.to_string().contains("ProxyCommand"), "{error}");
        }
        let lost = after(255, &["Connection closed by UNKNOWN port 65535"]).unwrap_err();
        assert!(matches!(lost, ConnectError::Lost { .. }), "{lost}");
    }

    #[test]
    fn what_the_error_says_is_not_told_before_it() {
        let line = b"ssh: connect to host box port 22: Connection refused";
        assert!(ends_connection(line));
        let error = after(255, &[str::from_utf8(line).unwrap()]).unwrap_err().to_string();
        assert!(is_repeated(line, &error) && is_repeated(b"Connection closed by x", &error));
        assert!(!is_repeated(b"ssh: connect to host jump port 22: Connection refused", &error));
        let shown = ["Permission denied, please try again.", "Welcome", "haul: x: (os error 13)"];
        assert!(shown.iter().all(|line| !ends_connection(line.as_bytes())));
    }

    #[test]
    fn complaints_of_the_agent_do_not_pass_for_ssh() {
        let error = after(255, &["haul: x: Permission denied (os error 13)"]);
        assert!(matches!(error, Err(ConnectError::Lost { .. })));
    }

    #[test]
    fn failures_of_the_remote_command() {
        assert!(after(0, &["Permission denied (x)"]).is_ok());
        assert!(matches!(
            after(127, &["sh: 1: /x: not found"]),
            Err(ConnectError::HaulMissing { .. })
        ));
        assert!(matches!(
            after(1, &["haul: Command not found."]),
            Err(ConnectError::HaulMissing { .. })
        ));
        assert!(matches!(
            after(126, &["sh: /x: Permission denied"]),
            Err(ConnectError::HaulUnusable { .. })
        ));
        let error = after(2, &["one", "two\x1b"]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the remote command on ann@box ended with status 2: two\\x1b"
        );
        let killed = ended(Some(ExitStatus::from_raw(9)), &[]).unwrap_err();
        assert_eq!(
            killed.to_string(),
            "the connection to ann@box was lost: ssh was ended by signal 9"
        );
    }

    #[test]
    fn what_fails_while_haul_is_deployed_is_no_missing_haul() {
        let peer = Peer { name: "ann@box".into(), runs: Remote::Deploy };
        for status in [1, 126, 127] {
            let said = Said { lines: [b"oops".to_vec()].into(), haul_missing: false };
            let error = diagnose(&peer, Some(ExitStatus::from_raw(status << 8)), &said);
            let error = error.unwrap_err();
            assert!(matches!(error, ConnectError::Agent { .. }), "{error}");
        }
    }

    #[test]
    fn a_server_without_the_subsystem_is_told_from_one_that_failed() {
        let after = |status: i32, line: &str| {
            let peer = Peer { name: "ann@box".into(), runs: Remote::Subsystem("sftp") };
            let said = Said { lines: [line.as_bytes().to_vec()].into(), haul_missing: false };
            diagnose(&peer, Some(ExitStatus::from_raw(status)), &said)
        };
        assert!(after(0, "").is_ok());
        let refused = after(255 << 8, "subsystem request failed on channel 0");
        assert_eq!(refused.unwrap_err().to_string(), "ann@box offers no sftp");
        let not_there = after(127 << 8, "bash: line 1: /opt/sftp-server: No such file");
        assert!(matches!(not_there, Err(ConnectError::SubsystemMissing { .. })));
        let denied = after(255 << 8, "ann@box: Permission denied (publickey).");
        assert!(matches!(denied, Err(ConnectError::LoginRefused { .. })));
        assert!(matches!(after(255 << 8, ""), Err(ConnectError::Lost { .. })));
        assert!(matches!(after(9, ""), Err(ConnectError::Lost { .. })));
        assert!(matches!(after(1 << 8, "oops"), Err(ConnectError::Agent { status: 1, .. })));
    }

    #[test]
    fn an_unknown_status_leaves_the_words() {
        assert!(ended(None, &["all well"]).is_ok());
        let refused = ended(None, &["ann@box: Permission denied (publickey)."]);
        assert!(matches!(refused, Err(ConnectError::LoginRefused { .. })));
    }
}
