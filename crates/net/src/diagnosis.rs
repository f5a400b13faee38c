//! Derives a [`ConnectError`] from ssh's exit status and last messages.
//!
//! ssh exits with the remote command's status, or with 255 for all failures of its own. Only its
//! messages tell those apart. They are English in every locale. Messages can come from the remote
//! side too, so they only choose the error that the user reads.

use crate::error::shown;
use crate::remote_command::Service;
use crate::stderr::StderrTail;
use crate::{ConnectError, Refusal};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// ssh's own status for any error of ssh.
const SSH_FAILED: i32 = 255;
/// A shell's status for a command that it can't find (POSIX, 2.8.2).
const NOT_FOUND: i32 = 127;
/// A shell's status for a command that it finds and can't run (POSIX, 2.8.2).
const NOT_EXECUTABLE: i32 = 126;

/// Exit status of an agent whose client was silent for too long, or whose connection broke. A
/// client that was suspended sees it when it resumes.
pub const CLIENT_LOST_STATUS: u8 = 3;

/// The peer of a connection, for messages.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    /// `user@host`, safe to show.
    pub(crate) name: String,
    /// The program that ssh runs there.
    /// The service that ssh has started there.
    pub(crate) service: Service,
    /// The path of haul that was tried, if it is not searched for.
    pub(crate) tried: Option<String>,
    /// The host in the form that `haul deploy` accepts.
    pub(crate) address: String,
}

/// Why the connection ended, or `Ok` if it ended well. `status` is `None` if the system does not
/// report it. `has_received` is true if the remote program has sent something, so the login worked.
pub(crate) fn diagnose(
    peer: &Peer,
    status: Option<ExitStatus>,
    tail: &StderrTail,
    has_received: bool,
) -> Result<(), ConnectError> {
    let host = || peer.name.clone();
    let last_lines = || tail.lines.back().map(|line| shown(line)).unwrap_or_default();
    let (missing, is_reported) = match peer.service {
        Service::Agent | Service::BriefAgent | Service::ServerCommand => {
            let (tried, address) = (peer.tried.clone(), peer.address.clone());
            (Some(ConnectError::HaulMissing { host: host(), tried, address }), tail.haul_missing)
        }
        // A "not found" of this shell is not about an installed haul.
        Service::Deploy => (None, false),
        Service::Sftp => {
            let is_refused = tail.lines.iter().any(|line| contains(line, SUBSYSTEM_REFUSED));
            (Some(ConnectError::SubsystemMissing { host: host(), name: "sftp" }), is_refused)
        }
    };
    let missing = match missing {
        Some(missing) if is_reported => return Err(missing),
        missing => missing,
    };
    let is_haul = peer.service.is_haul();
    let Some(status) = status else {
        return recognised(peer, tail, has_received).map_or(Ok(()), Err);
    };
    match (status.code(), missing) {
        (Some(0), _) => Ok(()),
        (Some(NOT_FOUND), Some(missing)) => Err(missing),
        // csh exits with the ordinary status 1 for a missing command.
        (Some(1), Some(missing)) if is_haul && ends_with(tail, b"Command not found.") => {
            Err(missing)
        }
        (Some(NOT_EXECUTABLE), Some(_)) if is_haul => {
            Err(ConnectError::HaulUnusable { host: host(), detail: last_lines() })
        }
        // The server has configured a command for the subsystem, but the command can't be run.
        (Some(NOT_EXECUTABLE), Some(missing)) => Err(missing),
        (Some(SSH_FAILED), _) => Err(failed(peer, tail, has_received)),
        // A shell that fails before it runs haul may exit with the same status.
        (Some(status), _) if is_haul && status == i32::from(CLIENT_LOST_STATUS) && has_received => {
            let detail = "the host timed out".to_owned();
            Err(ConnectError::Lost { host: host(), detail })
        }
        (Some(status), _) => Err(match Refusal::from_status(status) {
            Some(refusal) if peer.service == Service::ServerCommand => refusal.error(host()),
            _ => ConnectError::Agent { host: host(), status, detail: last_lines() },
        }),
        (None, _) => Err(ConnectError::Lost {
            host: host(),
            detail: match status.signal() {
                Some(signal) => format!("ssh was killed by signal {signal}"),
                None => last_lines(),
            },
        }),
    }
}

/// ssh's message if the server lacks the subsystem or refuses it.
const SUBSYSTEM_REFUSED: &str = "subsystem request failed";

/// The meaning of a message of ssh.
#[derive(Clone, Copy)]
enum Meaning {
    Lost,
    Unreachable,
    LoginRefused,
    /// A login refused, with further tries to come.
    LoginRetry,
    HostKey,
    Setup,
}

const HOST_KEY_FAILED: &str = "Host key verification failed";

/// Pieces of ssh's messages (OpenSSH 7.6 to 10). The first row whose pieces are all in a line
/// decides, so special messages come first.
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
    // Messages of a jump host about the connection from it.
    (&["open failed: connect failed"], Meaning::Unreachable),
    (&["open failed: administratively prohibited"], Meaning::Unreachable),
    (&[HOST_KEY_FAILED], Meaning::HostKey),
    (&[": Permission denied ("], Meaning::LoginRefused),
    (&["Permission denied, please try again"], Meaning::LoginRetry),
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

/// How ssh names the peer if a command leads to the host (ProxyCommand, ProxyJump) and has exited.
const NO_ADDRESS: &str = "UNKNOWN port 65535";

/// Messages of ssh, beside the cause, when it ends before the login.
const CLOSED_EARLY: [&str; 3] =
    ["kex_exchange_identification: ", "ssh_exchange_identification: ", "banner exchange: "];

/// Messages of ssh when the connection is closed.
const CLOSED: [&str; 3] =
    ["Connection closed by ", "Connection reset by ", "ssh_dispatch_run_fatal: "];

/// True for a final message of ssh, which the error may repeat. "Permission denied, please try
/// again" is not final.
pub(crate) fn ends_connection(line: &[u8]) -> bool {
    let means = |(pieces, meaning): &(&[&str], Meaning)| {
        !matches!(meaning, Meaning::LoginRetry) && pieces.iter().all(|piece| contains(line, piece))
    };
    !contains(line, RUST_OS_ERROR) && (is_closing(line) || MEANINGS.iter().any(means))
}

/// True if an error with the text `error_text` makes `line` redundant.
pub(crate) fn is_repeated(line: &[u8], error_text: &str) -> bool {
    is_closing(line)
        || contains(line, HOST_KEY_FAILED)
        || error_text.contains(&shown(line.strip_prefix(b"ssh: ").unwrap_or(line)))
}

/// True for messages that report the end of the connection without its cause.
fn is_closing(line: &[u8]) -> bool {
    let starts = |words: &&str| line.starts_with(words.as_bytes());
    // A message that ConnectTimeout adds to the cause.
    let is_timeout = starts(&"Connection to ") && contains(line, " timed out");
    is_timeout || CLOSED_EARLY.iter().chain(&CLOSED).any(starts)
}

/// True if the command that leads to the host exited before the login.
fn proxy_has_failed(tail: &StderrTail, has_received: bool) -> bool {
    let early = |line: &Vec<u8>| CLOSED_EARLY.iter().any(|words| contains(line, words));
    let is_early = !has_received || tail.lines.iter().any(early);
    is_early && tail.lines.iter().any(|line| contains(line, NO_ADDRESS))
}

/// The error of an ssh that has failed. As long as the host has sent nothing, the login counts as
/// not done.
fn failed(peer: &Peer, tail: &StderrTail, has_received: bool) -> ConnectError {
    let unknown = || {
        let (host, last) = (peer.name.clone(), tail.lines.back());
        let words = last.map(|line| shown(line));
        match has_received {
            true => ConnectError::Lost { host, detail: words.unwrap_or_default() },
            false => {
                let silent = || {
                    format!("ssh exited with status {SSH_FAILED} without a message (see LogLevel)")
                };
                ConnectError::Unreachable { host, detail: words.unwrap_or_else(silent) }
            }
        }
    };
    recognised(peer, tail, has_received).unwrap_or_else(unknown)
}

/// Part of the system's errors as Rust prints them. The agent's messages may have it, ssh's never
/// do.
const RUST_OS_ERROR: &str = "(os error ";

/// The error for the last line with a known meaning.
fn recognised(peer: &Peer, tail: &StderrTail, has_received: bool) -> Option<ConnectError> {
    let known = tail.lines.iter().rev().find_map(|line| {
        let (_, meaning) =
            MEANINGS.iter().find(|(pieces, _)| pieces.iter().all(|piece| contains(line, piece)))?;
        (!contains(line, RUST_OS_ERROR) && !contains(line, NO_ADDRESS)).then_some((line, *meaning))
    });
    let host = peer.name.clone();
    let (line, meaning) = match known {
        Some(known) => known,
        None if proxy_has_failed(tail, has_received) => {
            let detail = "ProxyCommand or ProxyJump failed";
            return Some(ConnectError::Unreachable { host, detail: detail.into() });
        }
        // After the login ssh has other messages for it.
        None if !has_received => {
            let line = tail.lines.iter().rev().find(|line| is_closing(line))?;
            return Some(ConnectError::Unreachable { host, detail: shown(line) });
        }
        None => return None,
    };
    let detail = shown(line.strip_prefix(b"ssh: ").unwrap_or(line));
    Some(match meaning {
        Meaning::Lost => ConnectError::Lost { host, detail },
        Meaning::Unreachable => ConnectError::Unreachable { host, detail },
        Meaning::LoginRefused | Meaning::LoginRetry => ConnectError::LoginRefused { host, detail },
        Meaning::HostKey => ConnectError::HostKey {
            host,
            changed: tail.lines.iter().any(|line| contains(line, "IDENTIFICATION HAS CHANGED")),
        },
        Meaning::Setup => ConnectError::Setup { host, detail },
    })
}

fn contains(line: &[u8], text: &str) -> bool {
    line.windows(text.len()).any(|part| part == text.as_bytes())
}

fn ends_with(tail: &StderrTail, text: &[u8]) -> bool {
    tail.lines.back().is_some_and(|line| line.ends_with(text))
}

#[cfg(test)]
#[path = "diagnosis_tests.rs"]
mod tests;
