//! `haul __places`, which completions ask: the hosts that a word may begin, and the paths on
//! a host. Nobody waits for a login, or is asked for a password: a host is asked over a
//! connection that ssh shares, or not at all.

mod known;

use crate::args::Places;
use crate::error::ExitCode;
use crate::report::end_of_command;
use crate::stdout::Stdout;
use haul_engine::Requests;
use haul_model::{Kind, Name, escape_bytes, words};
use haul_net::{Patience, SshTarget, connect_over_shared};
use std::time::Duration;

/// How long a host may take to answer: somebody waits for it at a prompt.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// Places that are printed, at most: nobody reads more.
const PLACES_MAX: usize = 4096;

/// Prints a line for each.
pub(super) fn run(asked: &Places) -> ExitCode {
    let places = match &asked.there {
        Some((target, path)) if !asked.hosts_alone => paths(target, &asked.word, path),
        Some(_) => Vec::new(),
        None => hosts(asked),
    };
    let mut out = Stdout::default();
    for place in places.into_iter().take(PLACES_MAX) {
        out.push(&[&place[..], b"\n"].concat());
    }
    match out.finish() {
        Ok(()) => ExitCode::Success,
        Err(error) => end_of_command(&error),
    }
}

/// The hosts that the word begins, with the user in front that it names.
fn hosts(asked: &Places) -> Vec<Vec<u8>> {
    let word = &asked.word;
    let start = word.iter().rposition(|byte| *byte == b'@').map_or(0, |at| at + 1);
    let (user, begun) = word.split_at(start);
    let mut names = known::hosts();
    names.extend(asked.hosts.iter().cloned());
    let colon: &[u8] = if asked.hosts_alone { b"" } else { b":" };
    let fits = names.iter().filter(|name| name.as_bytes().starts_with(begun));
    // What is no host to haul, or could mean something to a shell, is none.
    let fits = fits.filter(|name| SshTarget::new(None, name).is_ok());
    fits.map(|name| [user, name.as_bytes(), colon].concat()).collect()
}

/// The paths of `target` that begin with `path`, as `word` would go on with them.
fn paths(target: &SshTarget, word: &[u8], path: &[u8]) -> Vec<Vec<u8>> {
    let start = path.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
    let (dir, begun) = path.split_at(start);
    let Some(given) = word.strip_suffix(begun) else { return Vec::new() };
    let patience = Patience { silence_max: Some(ANSWER_MAX), login_max: Some(ANSWER_MAX) };
    let target = target.clone().with_patience(patience);
    let by_sftp = || connect_over_shared(&target, true).and_then(|it| Requests::sftp(it).ok());
    let by_haul = connect_over_shared(&target, false).and_then(|it| Requests::remote(it).ok());
    let Some(mut requests) = by_haul.or_else(by_sftp) else { return Vec::new() };
    let mut found = Vec::new();
    let dir = if dir.is_empty() { b"." } else { words::without_tilde(dir) };
    // What comes until a connection fails is better than nothing.
    let _ = requests.list(dir, &mut |listed| {
        let Ok(entry) = listed else { return };
        let name = entry.name.as_ref().map_or(&b""[..], Name::as_bytes);
        let is_hidden = name.starts_with(b".") && !begun.starts_with(b".");
        if !name.starts_with(begun) || is_hidden || escape_bytes(name).as_bytes() != name {
            return;
        }
        let slash: &[u8] = if entry.kind == Kind::Dir { b"/" } else { b"" };
        found.push([given, name, slash].concat());
    });
    found
}
