//! Notices that the peer is silent. Each side sends a sign of life at least every quarter of the
//! longest silence. `run_writer` does so on a thread that only writes, so that a slow disk is not
//! mistaken for silence. All received bytes count as signs of life.
//!
//! Only waiting counts. While a reader is busy, or blocked by a full disk, the peer's bytes may be
//! waiting in the connection.

use crate::JobError;
use crossbeam_channel::{Receiver, RecvError, RecvTimeoutError};
use haul_net::{ConnectError, Timeouts};
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Checks per longest silence, all of which must see the same waiting read. A process or machine
/// that was suspended makes at most one of them.
const CHECKS: u32 = 8;

/// Signs of life per longest silence, if nothing else is sent.
const KEEPALIVES: u32 = 4;

/// The longest time between two signs of life. A waiting user wants to see a silent peer earlier
/// than the timeout.
const KEEPALIVE_AFTER_MAX: Duration = Duration::from_secs(2);

/// The state of the peer's silence.
pub(crate) struct Watchdog {
    /// Counts the starts and ends of reads: odd while a read waits.
    reads: AtomicU64,
    /// The longest silence, in milliseconds; 0 for no limit.
    max_ms: AtomicU64,
    greeted: AtomicBool,
}

impl Watchdog {
    /// A watchdog for a peer that has not greeted.
    pub(crate) fn new(timeouts: Timeouts) -> Arc<Self> {
        let max_ms = AtomicU64::new(milliseconds(timeouts.login_max));
        Arc::new(Self { reads: AtomicU64::new(0), max_ms, greeted: AtomicBool::new(false) })
    }

    /// Wraps `input`, so that its reads are counted.
    pub(crate) fn watch_reader<R: Read>(self: &Arc<Self>, input: R) -> WatchedReader<R> {
        WatchedReader { input, watchdog: Arc::clone(self) }
    }

    /// Records that the peer has greeted. From now on, `silence_max` is its longest silence.
    pub(crate) fn greeted(&self, silence_max: Option<Duration>) {
        self.max_ms.store(milliseconds(silence_max), Ordering::Relaxed);
        self.greeted.store(true, Ordering::Relaxed);
    }

    /// True while the reader waits for the peer.
    pub(crate) fn is_waiting(&self) -> bool {
        self.reads.load(Ordering::Relaxed) % 2 == 1
    }

    /// The peer's longest silence now.
    pub(crate) fn max(&self) -> Option<Duration> {
        let max_ms = self.max_ms.load(Ordering::Relaxed);
        (max_ms > 0).then(|| Duration::from_millis(max_ms))
    }
}

fn milliseconds(silence: Option<Duration>) -> u64 {
    silence.map_or(0, |silence| u64::try_from(silence.as_millis()).unwrap_or(u64::MAX).max(1))
}

/// The time without frames after which a side sends a sign of life.
pub(crate) fn keepalive_after(silence_max: Option<Duration>) -> Option<Duration> {
    silence_max.map(|silence| (silence / KEEPALIVES).min(KEEPALIVE_AFTER_MAX))
}

/// The longest silence in a greeting, in seconds; [`silence_of`] reads it.
pub(crate) fn silence_seconds(timeouts: Timeouts) -> u32 {
    let seconds = |silence: Duration| silence.as_secs().clamp(1, u32::MAX.into()) as u32;
    timeouts.silence_max.map_or(0, seconds)
}

/// The longest silence from a greeting.
pub(crate) fn silence_of(seconds: u32) -> Option<Duration> {
    (seconds > 0).then(|| Duration::from_secs(seconds.into()))
}

/// A stream from the peer, whose reads are counted.
pub(crate) struct WatchedReader<R> {
    input: R,
    watchdog: Arc<Watchdog>,
}

impl<R: Read> Read for WatchedReader<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.watchdog.reads.fetch_add(1, Ordering::Relaxed);
        let read = self.input.read(buf);
        self.watchdog.reads.fetch_add(1, Ordering::Relaxed);
        read
    }
}

impl<R> WatchedReader<R> {
    /// The stream.
    pub(crate) fn into_inner(self) -> R {
        self.input
    }
}

/// Checks a [`Watchdog`] periodically.
pub(crate) struct Watch {
    watchdog: Arc<Watchdog>,
    /// The peer's name in messages.
    peer: String,
    seen: u64,
    /// The number of checks that saw the same waiting read.
    checks: u32,
    checked_at: Instant,
    /// The last waiting read, and the time since which it waits.
    waiting: (u64, Instant),
}

impl Watch {
    pub(crate) fn new(watchdog: &Arc<Watchdog>, peer: &str) -> Self {
        let (watchdog, peer, now) = (Arc::clone(watchdog), peer.to_owned(), Instant::now());
        Self { watchdog, peer, seen: 0, checks: 0, checked_at: now, waiting: (0, now) }
    }

    /// True if the peer has greeted.
    pub(crate) fn is_greeted(&self) -> bool {
        self.watchdog.greeted.load(Ordering::Relaxed)
    }

    /// The time for which the same read has waited, for a peer that sends signs of life. **Call it
    /// often.**
    pub(crate) fn silent_for(&mut self) -> Duration {
        let reads = self.watchdog.reads.load(Ordering::Relaxed);
        let gives_signs = self.is_greeted() && self.watchdog.max().is_some();
        if reads.is_multiple_of(2) || reads != self.waiting.0 || !gives_signs {
            self.waiting = (reads, Instant::now());
        }
        self.waiting.1.elapsed()
    }

    /// Checks if that is due, and returns an error if the peer is gone. **Call it often**, at least
    /// every eighth of the longest silence.
    pub(crate) fn silence(&mut self) -> Option<JobError> {
        let max = self.watchdog.max()?;
        if self.checked_at.elapsed() < max / CHECKS {
            return None;
        }
        self.checked_at = Instant::now();
        let reads = self.watchdog.reads.load(Ordering::Relaxed);
        let waits = reads % 2 == 1;
        self.checks = if waits && reads == self.seen { self.checks + 1 } else { 0 };
        self.seen = reads;
        (self.checks >= CHECKS).then(|| {
            let (host, seconds) = (self.peer.clone(), max.as_secs());
            JobError::Connection(match self.is_greeted() {
                true => ConnectError::Silent { host, seconds },
                false => ConnectError::Unanswered { host, seconds },
            })
        })
    }

    /// Waits for a value from `channel` while the peer is alive.
    ///
    /// # Errors
    /// The error of a silent peer.
    pub(crate) fn receive<T>(
        &mut self,
        channel: &Receiver<T>,
    ) -> Result<Result<T, RecvError>, JobError> {
        self.receive_unless(channel, None)
    }

    /// The same within `limit`; `None` if nothing arrived although the peer is alive.
    ///
    /// # Errors
    /// The error of a silent peer.
    pub(crate) fn receive_within<T>(
        &mut self,
        channel: &Receiver<T>,
        limit: Duration,
    ) -> Result<Option<Result<T, RecvError>>, JobError> {
        let begun = Instant::now();
        match self.receive_unless(channel, Some(&|| begun.elapsed() >= limit)) {
            Err(JobError::Interrupted) => Ok(None),
            received => received.map(Some),
        }
    }

    /// Like [`Self::receive`], unless the user has `cancelled`, which is called often.
    ///
    /// # Errors
    /// The error of a silent peer, or of the user's interruption.
    pub(crate) fn receive_unless<T>(
        &mut self,
        channel: &Receiver<T>,
        cancelled: Option<&dyn Fn() -> bool>,
    ) -> Result<Result<T, RecvError>, JobError> {
        loop {
            if cancelled.is_some_and(|cancelled| cancelled()) {
                return Err(JobError::Interrupted);
            }
            let interval_max = if cancelled.is_some() { CANCEL_POLL } else { CHECK_INTERVAL_MAX };
            let interval =
                self.watchdog.max().map_or(interval_max, |max| (max / CHECKS).min(interval_max));
            match channel.recv_timeout(interval) {
                Ok(value) => return Ok(Ok(value)),
                Err(RecvTimeoutError::Disconnected) => return Ok(Err(RecvError)),
                Err(RecvTimeoutError::Timeout) => self.silence().map_or(Ok(()), Err)?,
            }
        }
    }
}

/// The last change of the signs on a connection while an answer is awaited.
pub(crate) struct AnswerTimer {
    signs: Option<u64>,
    since: Instant,
}

impl AnswerTimer {
    /// No signs yet.
    pub(crate) fn new() -> Self {
        Self { signs: None, since: Instant::now() }
    }

    /// The time for which `signs` have not changed. **Call it often.**
    pub(crate) fn silent_for(&mut self, signs: Option<u64>) -> Duration {
        if signs.is_none() || signs != self.signs {
            *self = Self { signs, since: Instant::now() };
        }
        self.since.elapsed()
    }
}

/// The longest interval of checks, because the longest silence can change.
const CHECK_INTERVAL_MAX: Duration = Duration::from_secs(1);

/// The interval at which it checks for the user's interruption.
const CANCEL_POLL: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;
    use std::thread;

    const SILENCE: Duration = Duration::from_millis(200);

    fn timeouts(silence: Duration) -> Timeouts {
        Timeouts { silence_max: Some(silence), login_max: Some(silence * 3) }
    }

    /// The time until the watch has noticed the silence.
    fn noticed(watch: &mut Watch, within: Duration) -> Option<(Duration, JobError)> {
        let begin = Instant::now();
        while begin.elapsed() < within {
            if let Some(error) = watch.silence() {
                return Some((begin.elapsed(), error));
            }
            thread::sleep(Duration::from_millis(2));
        }
        None
    }

    #[test]
    fn a_read_that_waits_too_long_is_noticed_and_not_before() {
        let (here, there) = UnixStream::pair().expect("a socket pair");
        let watchdog = Watchdog::new(timeouts(SILENCE));
        let mut input = watchdog.watch_reader(here);
        thread::spawn(move || input.read(&mut [0]));
        let mut watch = Watch::new(&watchdog, "box");
        let (after, error) = noticed(&mut watch, SILENCE * 30).expect("it is noticed");
        assert!(after >= SILENCE * 3, "a login has more time: {after:?}");
        assert!(error.to_string().contains("no answer from"), "{error}");
        watchdog.greeted(Some(SILENCE));
        let mut watch = Watch::new(&watchdog, "box");
        let (after, error) = noticed(&mut watch, SILENCE * 30).expect("it is noticed");
        assert!(after >= SILENCE, "{after:?}");
        assert!(error.to_string().contains("no data from box"), "{error}");
        drop(there);
    }

    #[test]
    fn a_peer_that_is_not_read_is_not_silent() {
        let watchdog = Watchdog::new(timeouts(SILENCE));
        watchdog.greeted(Some(SILENCE));
        let mut watch = Watch::new(&watchdog, "box");
        assert!(noticed(&mut watch, SILENCE * 3).is_none());
    }

    #[test]
    fn every_byte_is_a_sign_of_life() {
        let (here, mut there) = UnixStream::pair().expect("a socket pair");
        let watchdog = Watchdog::new(timeouts(SILENCE));
        watchdog.greeted(Some(SILENCE));
        let mut input = watchdog.watch_reader(here);
        thread::spawn(move || while input.read(&mut [0]).is_ok_and(|len| len == 1) {});
        thread::spawn(move || {
            for _ in 0..20 {
                thread::sleep(SILENCE / 8);
                io::Write::write_all(&mut there, b"x").expect("written");
            }
        });
        assert!(noticed(&mut Watch::new(&watchdog, "box"), SILENCE * 2).is_none());
    }

    #[test]
    fn a_suspended_watch_counts_few_checks() {
        let (here, there) = UnixStream::pair().expect("a socket pair");
        let watchdog = Watchdog::new(timeouts(SILENCE));
        watchdog.greeted(Some(SILENCE));
        let mut input = watchdog.watch_reader(here);
        thread::spawn(move || input.read(&mut [0]));
        let mut watch = Watch::new(&watchdog, "box");
        for _ in 0..CHECKS {
            assert!(watch.silence().is_none());
            thread::sleep(SILENCE * 2);
        }
        assert!(noticed(&mut watch, SILENCE).is_some(), "it looks on from there");
        drop(there);
    }

    #[test]
    fn without_a_limit_silence_is_never_noticed() {
        let (here, there) = UnixStream::pair().expect("a socket pair");
        let watchdog = Watchdog::new(Timeouts::from_seconds(0));
        let mut input = watchdog.watch_reader(here);
        thread::spawn(move || input.read(&mut [0]));
        assert!(noticed(&mut Watch::new(&watchdog, "box"), SILENCE).is_none());
        drop(there);
    }
}
