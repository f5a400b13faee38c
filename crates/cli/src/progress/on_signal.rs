//! Progress on a signal, as in dd: SIGUSR1, and SIGINFO (Ctrl-T) on systems that have it.

use super::{Counts, Meter};
use signal_hook::consts;
use signal_hook::flag;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

/// The signals that request progress.
#[cfg(not(any(target_vendor = "apple", target_os = "freebsd", target_os = "netbsd")))]
const SIGNALS: [i32; 1] = [consts::SIGUSR1];
#[cfg(any(target_vendor = "apple", target_os = "freebsd", target_os = "netbsd"))]
const SIGNALS: [i32; 2] = [consts::SIGUSR1, consts::SIGINFO];

/// Minimum time between two samples of the counters, from which the rate is computed.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);

/// Set by a signal, cleared by the answer.
static REQUESTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Handles the signals from now on. By default they would end the process, so **call this first.**
pub(crate) fn listen() {
    for signal in SIGNALS {
        // If the system refuses, the signal keeps its default. That must not prevent a copy.
        let _ = flag::register(signal, Arc::clone(&REQUESTED));
    }
}

/// Answers to signals, for one job or several simultaneous jobs.
pub(crate) struct SignalProgress {
    meter: Meter,
    begun: Instant,
    sampled: Option<Instant>,
}

impl SignalProgress {
    /// Creates the answers for a job that starts now.
    pub(crate) fn new() -> Self {
        Self { meter: Meter::default(), begun: Instant::now(), sampled: None }
    }

    /// Returns a line if a signal has arrived since the last call. **Must be called often.**
    pub(crate) fn line(&mut self, counts: impl FnOnce() -> Counts) -> Option<String> {
        let is_fresh = self.sampled.is_some_and(|sampled| sampled.elapsed() < SAMPLE_INTERVAL);
        if is_fresh && !REQUESTED.load(Ordering::Relaxed) {
            return None;
        }
        self.sampled = Some(Instant::now());
        let line = self.meter.line(self.begun.elapsed(), &counts(), usize::MAX);
        REQUESTED.swap(false, Ordering::Relaxed).then(|| format!("haul: {line}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_has_one_answer() {
        listen();
        let mut answers = SignalProgress::new();
        let counts =
            || Counts { files_done: 1, files_total: 3, listed_all: true, ..Counts::default() };
        assert_eq!(answers.line(counts), None);
        signal_hook::low_level::raise(consts::SIGUSR1).expect("raised");
        let line = answers.line(counts).expect("an answer");
        assert!(line.starts_with("haul: 33%  1/3 files"), "{line}");
        assert_eq!(answers.line(counts), None);
    }
}
