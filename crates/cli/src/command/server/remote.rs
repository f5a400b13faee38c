//! Runs commands of `haul server` on another machine, through ssh.

use crate::error::{CommandError, ErrorKind, ExitCode};
use crate::progress::{Screen, diagnostics};
use haul::Host;
use haul::servers;
use haul_model::is_unsafe_to_show;
use haul_net::{ConnectError, Connection, Service, SshTarget, connect};
use std::io::{Read, Write};

/// Maximum length of an answer, in bytes.
const ANSWER_LEN_MAX: u64 = 8 << 20;

/// Runs `haul server` with `words` on `host`. Returns its output and its exit code.
///
/// # Errors
/// If the host can't be reached.
pub(super) fn run_on_host(
    host: &SshTarget,
    words: &[String],
) -> Result<(String, ExitCode), CommandError> {
    let mut line = serde_json::to_vec(words).map_err(CommandError::io)?;
    line.push(b'\n');
    let connection = connect(host, Service::ServerCommand, diagnostics(&Screen::default()))?;
    let Connection { reader, mut writer, closer } = connection;
    let sent = writer.write_all(&line);
    drop(writer);
    let mut answer = Vec::new();
    let read = || reader.take(ANSWER_LEN_MAX + 1).read_to_end(&mut answer);
    // Reading a whole cache may take hours.
    let answer_max = closer.timeouts().login_max.filter(|_| !words.iter().any(|it| it == "verify"));
    let (received, is_late) = closer.killer().within(answer_max, read).map_err(CommandError::io)?;
    if is_late {
        return Err(closer.unanswered(answer_max).into());
    }
    if answer.len() as u64 > ANSWER_LEN_MAX {
        let message = format!("the answer is longer than {} MiB", ANSWER_LEN_MAX >> 20);
        return Err(CommandError::new(ErrorKind::Protocol, message));
    }
    // The agent of a restricted login answers with frames.
    if answer.contains(&0) {
        let message = format!("this login to {} runs only haul", closer.peer());
        return Err(
            CommandError::new(ErrorKind::Protocol, message).with_hint("use an unrestricted login")
        );
    }
    // ssh's exit status is more specific than a failed read or write.
    match closer.finish() {
        Ok(()) => {
            sent.and(received).map_err(|error| CommandError::new(ErrorKind::Connection, error))?;
            Ok((sanitized(&answer), ExitCode::Success))
        }
        // The command printed its error on standard error, which ssh shows.
        Err(ConnectError::Agent { status, .. }) => {
            let code = match status {
                2 => ExitCode::Usage,
                3 => ExitCode::Connection,
                _ => ExitCode::SomeFailed,
            };
            Ok((sanitized(&answer), code))
        }
        Err(error) => Err(error.into()),
    }
}

/// Replaces characters on which a terminal would act.
fn sanitized(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let is_safe = |c: char| c == '\n' || !(c.is_control() || is_unsafe_to_show(c));
    text.chars().map(|c| if is_safe(c) { c } else { char::REPLACEMENT_CHARACTER }).collect()
}

/// Runs `words` on the host, and prints the answer.
pub(super) fn run(host: &Host, words: &[String]) -> Result<ExitCode, CommandError> {
    let (mut words, mut target) = (words.to_vec(), host.ssh().clone());
    let is_of_cache = words.first().is_some_and(|word| word == "cache");
    // Jobs use the host's server, where this client has a cache of its own.
    let is_plain = host.user().is_none() && host.port().is_none();
    if is_of_cache
        && is_plain
        && let Some(known) = servers::find(host.name())?
    {
        words.push(format!("--client={}", servers::identity()?.key()));
        if let Some(login) = &known.login {
            target = login.target(&target)?;
        }
    }
    let (answer, code) = run_on_host(&target, &words)?;
    super::print(&answer)?;
    // The arguments are valid, and `haul cache` has no other usage error.
    if code == ExitCode::Usage && is_of_cache {
        let (host, address) = (host.name(), host.address());
        let message = format!("haul on {host} is too old for 'haul cache'");
        let hint = format!("run 'haul deploy {address}' to install this version there");
        return Err(CommandError::usage(message).with_hint(hint));
    }
    Ok(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_host_has_a_time_limit() {
        let limit = Some(std::time::Duration::from_millis(200));
        let timeouts = haul_net::Timeouts { silence_max: limit, login_max: limit };
        let host = SshTarget::new(None, "silent").expect("a name");
        let host = host.with_rsh("sh -c 'exec sleep 20'").expect("a command");
        let begun = std::time::Instant::now();
        let answer = run_on_host(&host.with_timeouts(timeouts), &["status".to_owned()]);
        assert!(answer.is_err(), "{answer:?}");
        assert!(begun.elapsed().as_secs() < 10);
    }

    #[test]
    fn an_answer_moves_no_cursor() {
        assert_eq!(sanitized(b"a\n\x1b[2Jb\xff"), "a\n\u{fffd}[2Jb\u{fffd}");
    }
}
