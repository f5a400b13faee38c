//! `haul __places`, which shell completions call: prints hosts that complete a word, or paths on a
//! host. It never starts a login or asks for a password. A host is asked only through its server or
//! over a connection that ssh shares.

use crate::args::Places;
use crate::error::ExitCode;
use crate::report::print_answer;
use haul::Host;
use haul::servers;
use haul_engine::Requests;
use haul_model::{Kind, Name, escape_bytes, words};
use haul_net::{Killer, Timeouts, connect_over_shared};
use std::sync::mpsc::{self, Sender, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

/// Maximum time for a host's answer, connecting included: a user waits at a prompt.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// Maximum number of printed places.
const PLACES_MAX: usize = 4096;

/// Capacity of the queue of places.
const PLACES_QUEUE_LEN: usize = 64;

/// Prints one line for each place.
pub(super) fn run(request: &Places) -> ExitCode {
    let places = match &request.there {
        Some((host, path)) if !request.hosts_only => paths(host, &request.word, path),
        Some(_) => Vec::new(),
        None => hosts(request),
    };
    let lines = places.into_iter().take(PLACES_MAX).map(|place| [&place[..], b"\n"].concat());
    print_answer(&lines.collect::<Vec<_>>().concat())
}

/// The hosts that complete the word. A `user@` in the word is kept.
fn hosts(request: &Places) -> Vec<Vec<u8>> {
    let word = &request.word;
    let start = word.iter().rposition(|byte| *byte == b'@').map_or(0, |at| at + 1);
    let (user, prefix) = word.split_at(start);
    let mut names = haul_net::configured_hosts();
    names.extend(request.hosts.iter().cloned());
    names.extend(servers::hosts().unwrap_or_default());
    let colon: &[u8] = if request.hosts_only { b"" } else { b":" };
    let fits = names.iter().filter(|name| name.as_bytes().starts_with(prefix));
    // Names that haul rejects, or that could mean something to a shell, are skipped.
    let fits = fits.filter(|name| Host::new(None, name).is_ok());
    fits.map(|name| [user, name.as_bytes(), colon].concat()).collect()
}

/// The paths of `host` that begin with `path`, as completions of `word`.
fn paths(host: &Host, word: &[u8], path: &[u8]) -> Vec<Vec<u8>> {
    let start = path.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
    let (dir, prefix) = path.split_at(start);
    let Some(given) = word.strip_suffix(prefix) else { return Vec::new() };
    let timeout = Timeouts { silence_max: Some(ANSWER_MAX), login_max: Some(ANSWER_MAX) };
    let (host, target) = (host.clone(), host.ssh().clone().with_timeouts(timeout));
    let dir = if dir.is_empty() { b"." } else { words::without_tilde(dir) }.to_vec();
    let (prefix, given) = (prefix.to_vec(), given.to_vec());
    collect_within(ANSWER_MAX, move |killers, found| {
        // With a user or a port the path is meant for ssh, not for the server.
        let server = match host.user().is_some() || host.port().is_some() {
            true => None,
            false => servers::find(host.name()).unwrap_or_default(),
        };
        let connect = |sftp| {
            let connection = match &server {
                Some(server) => server.connect(&servers::identity().ok()?, timeout).ok()?,
                None => connect_over_shared(&target, sftp)?,
            };
            // If the caller has stopped waiting, the connection is not used.
            killers.send(connection.closer.killer()).ok()?;
            Some(connection)
        };
        let by_sftp = || connect(true).and_then(|it| Requests::sftp(it).ok());
        let by_haul = connect(false).and_then(|it| Requests::remote(it).ok());
        let answers = if server.is_some() { by_haul } else { by_haul.or_else(by_sftp) };
        if let Some(mut requests) = answers {
            list(&mut requests, &dir, &prefix, &given, found);
        }
    })
}

/// Collects places that `ask` finds within `timeout`, at most [`PLACES_MAX`]. Then it ends the
/// connections whose killers `ask` has sent, because a host may send names without end.
fn collect_within(
    timeout: Duration,
    ask: impl FnOnce(&Sender<Killer>, &SyncSender<Vec<u8>>) + Send + 'static,
) -> Vec<Vec<u8>> {
    let deadline = Instant::now() + timeout;
    let (killer, killers) = mpsc::channel();
    let (place, places) = mpsc::sync_channel(PLACES_QUEUE_LEN);
    let builder = thread::Builder::new().name("places".to_owned());
    if builder.spawn(move || ask(&killer, &place)).is_err() {
        return Vec::new();
    }
    let mut found = Vec::new();
    while found.len() < PLACES_MAX {
        let left = deadline.saturating_duration_since(Instant::now());
        // On a timeout or a failed connection, the places found so far are printed.
        let Ok(place) = places.recv_timeout(left) else { break };
        found.push(place);
    }
    killers.try_iter().for_each(|killer| killer.kill());
    found
}

/// Sends the paths in `dir` that begin with `prefix`, prefixed with `given`.
fn list(
    requests: &mut Requests,
    dir: &[u8],
    prefix: &[u8],
    given: &[u8],
    found: &SyncSender<Vec<u8>>,
) {
    // If the listing fails, the entries before the failure are still used.
    let _ = requests.list(dir, &mut |listed| {
        let Ok(entry) = listed else { return };
        let name = entry.name.as_ref().map_or(&b""[..], Name::as_bytes);
        let is_hidden = name.starts_with(b".") && !prefix.starts_with(b".");
        if !name.starts_with(prefix) || is_hidden || escape_bytes(name).as_bytes() != name {
            return;
        }
        let slash: &[u8] = if entry.kind == Kind::Dir { b"/" } else { b"" };
        // Fails if the caller has stopped waiting.
        let _ = found.send([given, name, slash].concat());
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_never_ends_is_left() {
        let ever = |pause: Duration| {
            move |_: &Sender<Killer>, found: &SyncSender<Vec<u8>>| {
                while found.send(b"name".to_vec()).is_ok() {
                    thread::sleep(pause);
                }
            }
        };
        let minute = Duration::from_secs(60);
        assert_eq!(collect_within(minute, ever(Duration::ZERO)).len(), PLACES_MAX);
        let prefix = Instant::now();
        let found = collect_within(Duration::from_millis(50), ever(Duration::from_millis(5)));
        assert!(!found.is_empty() && prefix.elapsed() < minute, "{}", found.len());
    }
}
