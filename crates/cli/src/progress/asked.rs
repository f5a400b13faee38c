//! Progress that is asked for by a signal, as of dd: SIGUSR1, and SIGINFO (Ctrl-T) where the
//! system has it.

use super::{Counts, Meter};
use signal_hook::consts;
use signal_hook::flag;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

/// The signals that ask.
#[cfg(not(any(target_vendor = "apple", target_os = "freebsd", target_os = "netbsd")))]
const SIGNALS: [i32; 1] = [consts::SIGUSR1];
#[cfg(any(target_vendor = "apple", target_os = "freebsd", target_os = "netbsd"))]
const SIGNALS: [i32; 2] = [consts::SIGUSR1, consts::SIGINFO];

/// How often the counters are sampled, at most, for a rate to answer with.
const SAMPLED_EVERY: Duration = Duration::from_millis(100);

/// Set by a signal until it is answered.
static ASKED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Has the signals ask from now on: by themselves they would end the process. **To be called
/// first.**
pub(crate) fn listen() {
    for signal in SIGNALS {
        // A system that refuses leaves the signal as it is, which is no reason not to copy.
        let _ = flag::register(signal, Arc::clone(&ASKED));
    }
}

/// The answers of one job, or of several that run together.
pub(crate) struct Answers {
    meter: Meter,
    begun: Instant,
    sampled: Option<Instant>,
}

impl Answers {
    /// For what begins now.
    pub(crate) fn new() -> Self {
        Self { meter: Meter::default(), begun: Instant::now(), sampled: None }
    }

    /// The line for whoever has asked since the last one. **To be called often.**
    pub(crate) fn line(&mut self, counts: impl FnOnce() -> Counts) -> Option<String> {
        let is_fresh = self.sampled.is_some_and(|sampled| sampled.elapsed() < SAMPLED_EVERY);
        if is_fresh && !ASKED.load(Ordering::Relaxed) {
            return None;
        }
        self.sampled = Some(Instant::now());
        let line = self.meter.line(self.begun.elapsed(), &counts(), usize::MAX);
        ASKED.swap(false, Ordering::Relaxed).then(|| format!("haul: {line}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_has_one_answer() {
        listen();
        let mut answers = Answers::new();
        let counts =
            || Counts { files_done: 1, files_total: 3, listed_all: true, ..Counts::default() };
        assert_eq!(answers.line(counts), None);
        signal_hook::low_level::raise(consts::SIGUSR1).expect("raised");
        let line = answers.line(counts).expect("an answer");
        assert!(line.starts_with("haul: 33%  1/3 files"), "{line}");
        assert_eq!(answers.line(counts), None);
    }
}
