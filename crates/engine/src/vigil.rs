//! Notices that the peer is silent. Each side says at least every quarter of the
//! longest silence that it is there (`run_writer`, from a thread that does nothing
//! else but write, so that a slow disk is no silence), and whatever arrives shows
//! that the other one is.
//!
//! Only waiting counts: a reader that is at work, or held up by a full disk, has
//! not listened, and what the peer said meanwhile lies in the connection.

use crate::JobError;
use haul_net::{ConnectError, Patience};
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How many times within the longest silence is looked. All of them must find the
/// same: a process that was stopped meanwhile, or a machine that was, has looked
/// once at most.
const LOOKS: u32 = 8;

/// Signs of life within the longest silence, if there is nothing else to say...
const SIGNS: u32 = 4;

/// ...and how far apart they are at most: a person who waits wants to know sooner
/// than it is given up that a peer says nothing.
const SIGN_AFTER_MAX: Duration = Duration::from_secs(2);

/// The facts about the peer's silence.
pub(crate) struct Vigil {
    /// Counts the beginnings and the ends of reads: odd while one waits.
    reads: AtomicU64,
    /// The longest silence, in milliseconds; 0 is for ever.
    max_ms: AtomicU64,
    greeted: AtomicBool,
}

impl Vigil {
    /// Begins with a peer that has not greeted.
    pub(crate) fn new(patience: Patience) -> Arc<Self> {
        let max_ms = AtomicU64::new(milliseconds(patience.login_max));
        Arc::new(Self { reads: AtomicU64::new(0), max_ms, greeted: AtomicBool::new(false) })
    }

    /// `input`, listened to.
    pub(crate) fn listen<R: Read>(self: &Arc<Self>, input: R) -> Listening<R> {
        Listening { input, vigil: Arc::clone(self) }
    }

    /// The peer has greeted: from now on it may be silent for `silence_max`.
    pub(crate) fn greeted(&self, silence_max: Option<Duration>) {
        self.max_ms.store(milliseconds(silence_max), Ordering::Relaxed);
        self.greeted.store(true, Ordering::Relaxed);
    }

    /// True while whoever reads from the peer waits for it.
    pub(crate) fn is_waiting(&self) -> bool {
        self.reads.load(Ordering::Relaxed) % 2 == 1
    }

    /// How long the peer may be silent now.
    pub(crate) fn max(&self) -> Option<Duration> {
        let max_ms = self.max_ms.load(Ordering::Relaxed);
        (max_ms > 0).then(|| Duration::from_millis(max_ms))
    }
}

fn milliseconds(silence: Option<Duration>) -> u64 {
    silence.map_or(0, |silence| u64::try_from(silence.as_millis()).unwrap_or(u64::MAX).max(1))
}

/// How long a side may have nothing to say before it says that it is there.
pub(crate) fn sign_after(silence_max: Option<Duration>) -> Option<Duration> {
    silence_max.map(|silence| (silence / SIGNS).min(SIGN_AFTER_MAX))
}

/// The longest silence as a greeting tells it; [`silence_of`] reads it.
pub(crate) fn silence_seconds(patience: Patience) -> u32 {
    let seconds = |silence: Duration| silence.as_secs().clamp(1, u32::MAX.into()) as u32;
    patience.silence_max.map_or(0, seconds)
}

/// The longest silence that a greeting speaks of.
pub(crate) fn silence_of(seconds: u32) -> Option<Duration> {
    (seconds > 0).then(|| Duration::from_secs(seconds.into()))
}

/// A stream from the peer, whose reads are counted.
pub(crate) struct Listening<R> {
    input: R,
    vigil: Arc<Vigil>,
}

impl<R: Read> Read for Listening<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.vigil.reads.fetch_add(1, Ordering::Relaxed);
        let read = self.input.read(buf);
        self.vigil.reads.fetch_add(1, Ordering::Relaxed);
        read
    }
}

impl<R> Listening<R> {
    /// The stream.
    pub(crate) fn into_inner(self) -> R {
        self.input
    }
}

/// Looks at a [`Vigil`] from time to time.
pub(crate) struct Watch {
    vigil: Arc<Vigil>,
    /// The peer's name for messages.
    peer: String,
    seen: u64,
    /// How often the same read was seen to wait.
    looks: u32,
    looked: Instant,
    /// The read that was seen to wait last, and since when.
    waiting: (u64, Instant),
}

impl Watch {
    pub(crate) fn new(vigil: &Arc<Vigil>, peer: &str) -> Self {
        let vigil = Arc::clone(vigil);
        let now = Instant::now();
        Self { vigil, peer: peer.to_owned(), seen: 0, looks: 0, looked: now, waiting: (0, now) }
    }

    /// True if the peer has greeted.
    pub(crate) fn is_greeted(&self) -> bool {
        self.vigil.greeted.load(Ordering::Relaxed)
    }

    /// For how long the same read was seen to wait, for a peer that gives signs of life.
    /// **To be asked often.**
    pub(crate) fn quiet(&mut self) -> Duration {
        let reads = self.vigil.reads.load(Ordering::Relaxed);
        let gives_signs = self.is_greeted() && self.vigil.max().is_some();
        if reads.is_multiple_of(2) || reads != self.waiting.0 || !gives_signs {
            self.waiting = (reads, Instant::now());
        }
        self.waiting.1.elapsed()
    }

    /// Looks, if it is time for that, and tells whether the peer is gone. **To be
    /// asked often**, at least every eighth of the longest silence.
    pub(crate) fn silence(&mut self) -> Option<JobError> {
        let max = self.vigil.max()?;
        if self.looked.elapsed() < max / LOOKS {
            return None;
        }
        self.looked = Instant::now();
        let reads = self.vigil.reads.load(Ordering::Relaxed);
        let waits = reads % 2 == 1;
        self.looks = if waits && reads == self.seen { self.looks + 1 } else { 0 };
        self.seen = reads;
        (self.looks >= LOOKS).then(|| {
            let (host, seconds) = (self.peer.clone(), max.as_secs());
            JobError::Connection(match self.is_greeted() {
                true => ConnectError::Silent { host, seconds },
                false => ConnectError::Unanswered { host, seconds },
            })
        })
    }

    /// Waits for what comes through `channel`, as long as the peer is there.
    ///
    /// # Errors
    /// That of a peer that is silent.
    pub(crate) fn receive<T>(
        &mut self,
        channel: &crossbeam_channel::Receiver<T>,
    ) -> Result<Result<T, crossbeam_channel::RecvError>, JobError> {
        self.receive_unless(channel, None)
    }

    /// The same within `limit`; `None` if nothing came by then, though the peer is there.
    ///
    /// # Errors
    /// That of a peer that is silent.
    pub(crate) fn receive_within<T>(
        &mut self,
        channel: &crossbeam_channel::Receiver<T>,
        limit: Duration,
    ) -> Result<Option<Result<T, crossbeam_channel::RecvError>>, JobError> {
        let begun = Instant::now();
        match self.receive_unless(channel, Some(&|| begun.elapsed() >= limit)) {
            Err(JobError::Interrupted) => Ok(None),
            received => received.map(Some),
        }
    }

    /// As [`Self::receive`], unless the user has `cancelled`, which is asked often.
    ///
    /// # Errors
    /// That of a peer that is silent, or of the user's interruption.
    pub(crate) fn receive_unless<T>(
        &mut self,
        channel: &crossbeam_channel::Receiver<T>,
        cancelled: Option<&dyn Fn() -> bool>,
    ) -> Result<Result<T, crossbeam_channel::RecvError>, JobError> {
        loop {
            if cancelled.is_some_and(|cancelled| cancelled()) {
                return Err(JobError::Interrupted);
            }
            let look_max = if cancelled.is_some() { CANCEL_LOOK } else { LOOK_MAX };
            let look = self.vigil.max().map_or(look_max, |max| (max / LOOKS).min(look_max));
            match channel.recv_timeout(look) {
                Ok(value) => return Ok(Ok(value)),
                Err(crossbeam_channel::RecvTimeoutError::Disconnected) => {
                    return Ok(Err(crossbeam_channel::RecvError));
                }
                Err(crossbeam_channel::RecvTimeoutError::Timeout) => {
                    if let Some(error) = self.silence() {
                        return Err(error);
                    }
                }
            }
        }
    }
}

/// The signs of a connection through which something is waited for, when they changed
/// last.
pub(crate) struct Awaited {
    signs: Option<u64>,
    since: Instant,
}

impl Awaited {
    /// None yet.
    pub(crate) fn new() -> Self {
        Self { signs: None, since: Instant::now() }
    }

    /// For how long these `signs` have been the same. **To be asked often.**
    pub(crate) fn quiet(&mut self, signs: Option<u64>) -> Duration {
        if signs.is_none() || signs != self.signs {
            *self = Self { signs, since: Instant::now() };
        }
        self.since.elapsed()
    }
}

/// How often is looked at least: the longest silence can change.
const LOOK_MAX: Duration = Duration::from_secs(1);

/// How often is looked whether the user has interrupted.
const CANCEL_LOOK: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;
    use std::thread;

    const SILENCE: Duration = Duration::from_millis(200);

    fn patience(silence: Duration) -> Patience {
        Patience { silence_max: Some(silence), login_max: Some(silence * 3) }
    }

    /// When the watch has noticed it, after the beginning.
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
        let vigil = Vigil::new(patience(SILENCE));
        let mut input = vigil.listen(here);
        thread::spawn(move || input.read(&mut [0]));
        let mut watch = Watch::new(&vigil, "box");
        let (after, error) = noticed(&mut watch, SILENCE * 30).expect("it is noticed");
        assert!(after >= SILENCE * 3, "a login has more time: {after:?}");
        assert!(error.to_string().contains("no answer from"), "{error}");
        vigil.greeted(Some(SILENCE));
        let mut watch = Watch::new(&vigil, "box");
        let (after, error) = noticed(&mut watch, SILENCE * 30).expect("it is noticed");
        assert!(after >= SILENCE, "{after:?}");
        assert!(error.to_string().contains("no data from box"), "{error}");
        drop(there);
    }

    #[test]
    fn one_who_does_not_listen_hears_no_silence() {
        let vigil = Vigil::new(patience(SILENCE));
        vigil.greeted(Some(SILENCE));
        let mut watch = Watch::new(&vigil, "box");
        assert!(noticed(&mut watch, SILENCE * 3).is_none());
    }

    #[test]
    fn every_byte_is_a_sign_of_life() {
        let (here, mut there) = UnixStream::pair().expect("a socket pair");
        let vigil = Vigil::new(patience(SILENCE));
        vigil.greeted(Some(SILENCE));
        let mut input = vigil.listen(here);
        thread::spawn(move || while input.read(&mut [0]).is_ok_and(|len| len == 1) {});
        thread::spawn(move || {
            for _ in 0..20 {
                thread::sleep(SILENCE / 8);
                io::Write::write_all(&mut there, b"x").expect("written");
            }
        });
        assert!(noticed(&mut Watch::new(&vigil, "box"), SILENCE * 2).is_none());
    }

    #[test]
    fn a_watch_that_was_itself_stopped_has_not_looked() {
        let (here, there) = UnixStream::pair().expect("a socket pair");
        let vigil = Vigil::new(patience(SILENCE));
        vigil.greeted(Some(SILENCE));
        let mut input = vigil.listen(here);
        thread::spawn(move || input.read(&mut [0]));
        let mut watch = Watch::new(&vigil, "box");
        for _ in 0..LOOKS {
            assert!(watch.silence().is_none());
            thread::sleep(SILENCE * 2);
        }
        assert!(noticed(&mut watch, SILENCE).is_some(), "it looks on from there");
        drop(there);
    }

    #[test]
    fn for_ever_is_for_ever() {
        let (here, there) = UnixStream::pair().expect("a socket pair");
        let vigil = Vigil::new(Patience::of_seconds(0));
        let mut input = vigil.listen(here);
        thread::spawn(move || input.read(&mut [0]));
        assert!(noticed(&mut Watch::new(&vigil, "box"), SILENCE).is_none());
        drop(there);
    }
}
