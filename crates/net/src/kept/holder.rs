//! The holder of a kept connection, and its protocol.
//!
//! A client sends one letter. `take` is answered with the streams, or with `busy` if another
//! command has them. `list` is answered with the fields of [`Held`], and `stop` with the end of the
//! stream.

use super::{ANSWER_MAX, Streams, check_private};
use haul_sys::{is_of_user, pass, receive_passed, wait_ready};
use rustix::event::{PollFd, PollFlags};
use rustix::time::{ClockId, clock_gettime};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const TAKE: u8 = b't';
const LIST: u8 = b'l';
const STOP: u8 = b's';
const GIVEN: u8 = b'g';
const BUSY: u8 = b'b';

/// How much longer the clock that counts sleep may run than the one that does not.
const SLEEP_MAX: Duration = Duration::from_secs(1);

/// Most bytes of an answer to `list`.
const ANSWER_LEN_MAX: u64 = 4096;

/// A kept connection, as `list` reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The host as commands name it, safe to show.
    pub host: String,
    /// True if a command is using it.
    pub is_used: bool,
    /// The time when it was made, in seconds since 1970.
    pub since: u64,
    /// The remaining time until it is closed, unless it is used, in seconds.
    pub left: u64,
    /// The process that holds it.
    pub holder: u32,
}

/// Passes streams to a holder, with the time to keep them in seconds.
pub(super) fn give(holder: &UnixStream, seconds: u32, streams: &Streams) -> io::Result<()> {
    let [a, b, c, d] = seconds.to_le_bytes();
    holder.set_read_timeout(Some(ANSWER_MAX))?;
    pass(holder, &[GIVEN, a, b, c, d], &streams.each_ref().map(AsFd::as_fd))?;
    let mut answer = [0];
    (&*holder).read_exact(&mut answer)
}

/// Takes the streams from the holder at `path`; `None` if another command has them.
pub(super) fn take(path: &Path) -> io::Result<Option<(Streams, UnixStream)>> {
    let holder = ask(path, TAKE)?;
    Ok(receive::<1>(&holder)?.map(|(_, streams)| (streams, holder)))
}

/// Receives streams in a message of `N` bytes. `None` if anything else arrives.
fn receive<const N: usize>(from: &UnixStream) -> io::Result<Option<([u8; N], Streams)>> {
    let mut words = [0; N];
    let (len, streams) = receive_passed(from, &mut words)?;
    let is_given = len == N && words[0] == GIVEN;
    Ok(Streams::try_from(streams).ok().filter(|_| is_given).map(|streams| (words, streams)))
}

/// Connects to the holder at `path`, and sends `letter`.
fn ask(path: &Path, letter: u8) -> io::Result<UnixStream> {
    let mut holder = UnixStream::connect(path)?;
    if !is_of_user(&holder)? {
        return Err(ErrorKind::PermissionDenied.into());
    }
    holder.set_read_timeout(Some(ANSWER_MAX))?;
    holder.set_write_timeout(Some(ANSWER_MAX))?;
    holder.write_all(&[letter])?;
    Ok(holder)
}

/// Lists the kept connections whose sockets are in `dir`.
///
/// # Errors
/// When the directory can't be read, or is not the user's alone.
pub fn list(dir: &Path) -> io::Result<Vec<Held>> {
    let mut all: Vec<Held> = sockets(dir)?.iter().filter_map(|path| query_holder(path)).collect();
    all.sort_by(|one, other| one.host.cmp(&other.host));
    Ok(all)
}

/// Closes the unused kept connections to `host`, or to all hosts. Returns them, and the used ones,
/// which stay. A host without a user matches all of its users.
///
/// # Errors
/// See [`list`].
pub fn stop(dir: &Path, host: Option<&str>) -> io::Result<Vec<Held>> {
    let stopped = sockets(dir)?.into_iter().filter_map(|path| {
        let held = query_holder(&path)?;
        if host.is_some_and(|host| !held.is_to(host)) {
            return None;
        }
        if held.is_used {
            return Some(held);
        }
        // The end of the stream confirms it.
        let mut end = ask(&path, STOP).ok()?;
        drop(end.read(&mut [0]));
        Some(held)
    });
    Ok(stopped.collect())
}

/// The connection of the holder at `path`; `None` if none answers there.
fn query_holder(path: &Path) -> Option<Held> {
    let mut answer = String::new();
    ask(path, LIST).ok()?.take(ANSWER_LEN_MAX).read_to_string(&mut answer).ok()?;
    Held::parse(&answer)
}

/// The sockets in `dir`; none if `dir` is missing.
fn sockets(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    check_private(dir)?;
    entries.map(|entry| Ok(entry?.path())).collect()
}

impl Held {
    fn text(&self) -> String {
        let Self { host, is_used, since, left, holder } = self;
        format!("{}\t{since}\t{left}\t{holder}\t{host}", u8::from(*is_used))
    }

    /// True if `host` matches the connection's host.
    fn is_to(&self, host: &str) -> bool {
        let without_user = match self.host.split_once('@') {
            Some((before, after)) if before.starts_with("ssh://") => format!("ssh://{after}"),
            Some((_, after)) => after.to_owned(),
            None => self.host.clone(),
        };
        host == self.host || host == without_user
    }

    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(5, '\t');
        let mut number = || parts.next()?.parse::<u64>().ok();
        let [is_used, since, left, holder] = [number()?, number()?, number()?, number()?];
        let (is_used, holder) = (is_used == 1, u32::try_from(holder).ok()?);
        let host = haul_model::escape_controls(parts.next()?);
        Some(Self { host, is_used, since, left, holder })
    }
}

/// Holds a connection to `host`, whose streams arrive over `user`. Listens on the socket `name` in
/// `dir`. Returns when the connection has ended.
///
/// # Errors
/// When another holder has that socket, and those of the system.
pub fn hold(user: UnixStream, dir: &Path, name: &str, host: &str) -> io::Result<()> {
    check_private(dir)?;
    // The holder outlives the terminal of the command that started it. `setsid` fails for a process
    // group leader, which is harmless.
    let _ = rustix::process::setsid();
    let path = dir.join(name);
    let listener = bind(dir, &path)?;
    listener.set_nonblocking(true)?;
    let holder = Holder { listener, host: host.to_owned(), since: unix_seconds() };
    let end = holder.run(user);
    let _ = fs::remove_file(&path);
    end
}

/// Listens at `path` in `dir`. Replaces the stale socket of a dead holder.
fn bind(dir: &Path, path: &Path) -> io::Result<UnixListener> {
    // A lock, so that of two holders that find a stale socket, the second finds the first's.
    let _turn = File::open(dir).and_then(|dir| dir.lock().map(|()| dir))?;
    let bound = match UnixListener::bind(path) {
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            match UnixStream::connect(path) {
                Err(refused) if refused.kind() == ErrorKind::ConnectionRefused => {
                    fs::remove_file(path)?;
                }
                _ => return Err(error),
            }
            UnixListener::bind(path)
        }
        bound => bound,
    }?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    Ok(bound)
}

struct Holder {
    listener: UnixListener,
    host: String,
    since: u64,
}

/// The streams while the holder has them.
struct KeptStreams {
    streams: Streams,
    until: Instant,
    /// See [`time_asleep`]; at the time when they were returned.
    time_asleep: Duration,
}

impl Holder {
    /// Serves the command `user`, which has the streams, and the following ones.
    fn run(&self, mut user: UnixStream) -> io::Result<()> {
        while let Some(kept) = self.wait_for_return(user)? {
            let Some(next) = self.wait_for_user(&kept)? else { break };
            user = next;
        }
        Ok(())
    }

    /// Waits until the command returns the streams; `None` if it ends without doing so.
    fn wait_for_return(&self, user: UnixStream) -> io::Result<Option<KeptStreams>> {
        loop {
            let [returned, asked] = ready([user.as_fd(), self.listener.as_fd()], None)?;
            // A command that asks after this one has ended must not hear that it is running.
            if returned {
                break;
            }
            if asked {
                self.answer(|letter| match letter {
                    LIST => Some(self.status_line(true, Duration::ZERO).into_bytes()),
                    _ => Some(vec![BUSY]),
                });
            }
        }
        let Some(([_, seconds @ ..], streams)) = receive::<5>(&user)? else { return Ok(None) };
        let keep_time = Duration::from_secs(u32::from_le_bytes(seconds).into());
        let until = Instant::now() + keep_time;
        // A command that misses this confirmation has passed its streams all the same.
        let _ = (&user).write_all(&[GIVEN]);
        Ok(Some(KeptStreams { streams, until, time_asleep: time_asleep() }))
    }

    /// Waits until a command takes the streams; `None` when the connection must end.
    fn wait_for_user(&self, kept: &KeptStreams) -> io::Result<Option<UnixStream>> {
        let [input, ..] = &kept.streams;
        loop {
            let left = kept.until.saturating_duration_since(Instant::now());
            let [spoken, asked] = ready([input.as_fd(), self.listener.as_fd()], Some(left))?;
            let has_slept = time_asleep().saturating_sub(kept.time_asleep) > SLEEP_MAX;
            // The only input to expect from an idle host is the end of the stream.
            if spoken || has_slept || left.is_zero() {
                return Ok(None);
            }
            if !asked {
                continue;
            }
            let mut is_stopped = false;
            let user = self.answer(|letter| match letter {
                LIST => Some(self.status_line(false, left).into_bytes()),
                TAKE => None,
                STOP => {
                    is_stopped = true;
                    Some(Vec::new())
                }
                _ => Some(vec![BUSY]),
            });
            if is_stopped {
                return Ok(None);
            }
            let Some(user) = user else { continue };
            if pass(&user, &[GIVEN], &kept.streams.each_ref().map(AsFd::as_fd)).is_ok() {
                return Ok(Some(user));
            }
        }
    }

    /// Reads a client's letter and sends the result of `answer`. If that is `None`, returns the
    /// client's stream.
    fn answer(&self, answer: impl FnOnce(u8) -> Option<Vec<u8>>) -> Option<UnixStream> {
        let (mut stream, _) = self.listener.accept().ok()?;
        if !is_of_user(&stream).unwrap_or(false) {
            return None;
        }
        stream.set_nonblocking(false).ok()?;
        stream.set_read_timeout(Some(ANSWER_MAX)).ok()?;
        stream.set_write_timeout(Some(ANSWER_MAX)).ok()?;
        let mut letter = [0];
        stream.read_exact(&mut letter).ok()?;
        match answer(letter[0]) {
            Some(words) => {
                // The client may have left.
                let _ = stream.write_all(&words);
                None
            }
            None => {
                stream.set_read_timeout(None).ok()?;
                Some(stream)
            }
        }
    }

    fn status_line(&self, is_used: bool, left: Duration) -> String {
        let (host, since, left) = (self.host.clone(), self.since, left.as_secs());
        Held { host, is_used, since, left, holder: std::process::id() }.text()
    }
}

/// Waits up to `timeout` until a stream is readable or has ended. Reports each.
fn ready(streams: [BorrowedFd<'_>; 2], timeout: Option<Duration>) -> io::Result<[bool; 2]> {
    let mut polled = streams.map(|stream| PollFd::from_borrowed_fd(stream, PollFlags::IN));
    wait_ready(&mut polled, timeout)?;
    Ok(polled.map(|one| !one.revents().is_empty()))
}

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Time that this machine has slept since boot.
#[cfg(target_os = "linux")]
fn time_asleep() -> Duration {
    let of = |clock| Duration::try_from(clock_gettime(clock)).unwrap_or_default();
    of(ClockId::Boottime).saturating_sub(of(ClockId::Monotonic))
}

/// Not known here. A kept connection is checked before its use, which has to do.
#[cfg(not(target_os = "linux"))]
fn time_asleep() -> Duration {
    Duration::ZERO
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_several_holders_replaces_a_stale_socket() {
        let dir = tempfile::tempdir().expect("a directory");
        for nth in 0..50 {
            let path = dir.path().join(nth.to_string());
            drop(UnixListener::bind(&path).expect("bound"));
            let start = std::sync::Barrier::new(4);
            let bound: Vec<_> = std::thread::scope(|scope| {
                let bind = || {
                    start.wait();
                    bind(dir.path(), &path)
                };
                let threads = [(); 4].map(|()| scope.spawn(bind));
                threads.into_iter().filter_map(|it| it.join().expect("no panic").ok()).collect()
            });
            assert_eq!(bound.len(), 1);
            UnixStream::connect(&path).expect("it listens there");
        }
    }

    #[test]
    fn a_command_that_has_ended_is_not_reported_as_running() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("socket");
        let listener = bind(dir.path(), &path).expect("bound");
        let holder = Holder { listener, host: "nas".to_owned(), since: 1 };
        let (command, user) = UnixStream::pair().expect("a pair");
        let mut asking = ask(&path, LIST).expect("asked");
        drop(command);
        assert!(holder.wait_for_return(user).expect("it ends in order").is_none());
        drop(holder);
        let mut answer = String::new();
        let _ = asking.read_to_string(&mut answer);
        assert_eq!(answer, "");
    }

    #[test]
    fn a_kept_connection_round_trips_as_text_and_matches_its_host() {
        let held = |host: &str| Held {
            host: host.to_owned(),
            is_used: true,
            since: 1,
            left: 2,
            holder: 3,
        };
        let one = held("ann@nas");
        assert_eq!(Held::parse(&one.text()), Some(one.clone()));
        assert!(one.is_to("nas") && one.is_to("ann@nas"));
        assert!(!one.is_to("bob@nas") && !one.is_to("other") && !held("nas").is_to("ann@nas"));
        let one = held("ssh://ann@nas:7");
        assert!(one.is_to("ssh://nas:7") && !one.is_to("nas"));
        assert_eq!(Held::parse("1\t2\t3"), None);
    }
}
