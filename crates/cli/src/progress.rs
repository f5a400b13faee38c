//! The progress line on a terminal, and its coordination with all other output to the terminal.
//! Also progress on a signal, and as one line per second without a terminal.

mod meter;

pub(crate) use self::meter::{Counts, Meter};
use console::Term;
use haul_model::escape_bytes;
use haul_net::Diagnostics;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use parking_lot::Mutex;
use signal_hook::{consts, flag};
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::{Duration, Instant};

/// Minimum run time of a job to show the progress line. In shorter jobs it would only flicker.
pub(crate) const SHOW_AFTER: Duration = Duration::from_millis(300);

/// The assumed width of a terminal that does not report it.
const COLUMNS_UNKNOWN: usize = 80;

/// Maximum updates of the progress line per second.
const DRAWS_PER_SECOND: u8 = 10;

/// Interval for writing output and drawing the progress line.
const TICK: Duration = Duration::from_millis(100);

/// Does `work`, while a thread calls `tick` in intervals. It writes output and shows progress.
pub(crate) fn while_ticking<T>(tick: impl FnMut() + Send, work: impl FnOnce() -> T) -> T {
    thread::scope(|scope| {
        let (stop, stopped) = mpsc::channel::<()>();
        let mut tick = tick;
        let run = move || {
            while stopped.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                tick();
            }
        };
        // Without the thread there is no progress, and all output is written at the end.
        let _ = thread::Builder::new().name("ticks".to_owned()).spawn_scoped(scope, run);
        let done = work();
        drop(stop);
        done
    })
}

/// Standard error, with the progress line at its bottom. Clones share the line.
#[derive(Clone, Default)]
pub(crate) struct Screen {
    bar: Arc<Mutex<Option<ProgressBar>>>,
}

/// Shows the standard error of ssh, and of agents behind it, on `screen`.
pub(crate) fn diagnostics(screen: &Screen) -> Diagnostics {
    let screen = screen.clone();
    Arc::new(move |line: &[u8]| screen.line(&remote_line(line)))
}

/// Formats a line from a remote program's standard error.
fn remote_line(line: &[u8]) -> String {
    let text = line.strip_suffix(b"\n").unwrap_or(line);
    let text = text.strip_suffix(b"\r").unwrap_or(text);
    format!("ssh: {}", escape_bytes(text))
}

impl Screen {
    /// True if a progress line can be drawn.
    pub(crate) fn is_terminal() -> bool {
        std::io::stderr().is_terminal()
    }

    /// The current width of the terminal, which may change at any time.
    pub(crate) fn columns() -> usize {
        Term::stderr().size_checked().map_or(COLUMNS_UNKNOWN, |(_, columns)| columns.into())
    }

    /// Draws the progress line, which stays until [`Screen::clear`]. Does nothing in a background
    /// process, to keep other programs' output intact.
    pub(crate) fn draw(&self, line: String) {
        if !haul_engine::is_in_foreground(std::io::stderr()) {
            return;
        }
        let mut bar = self.bar.lock();
        let bar = bar.get_or_insert_with(|| {
            let target = ProgressDrawTarget::stderr_with_hz(DRAWS_PER_SECOND);
            let style = ProgressStyle::with_template("{wide_msg}").expect("a template that parses");
            ProgressBar::with_draw_target(None, target).with_style(style)
        });
        bar.set_message(line);
    }

    /// Removes the progress line.
    pub(crate) fn clear(&self) {
        if let Some(bar) = self.bar.lock().take() {
            bar.finish_and_clear();
        }
    }

    /// Runs `write`, which may write to the terminal, with the progress line hidden.
    pub(crate) fn above<R>(&self, write: impl FnOnce() -> R) -> R {
        match &*self.bar.lock() {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    /// Writes a line to standard error. Errors are ignored, since there is no other place to report
    /// them.
    pub(crate) fn line(&self, line: &str) {
        self.above(|| {
            let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
        });
    }
}

/// Interval between two lines, as in rsync.
const INTERVAL: Duration = Duration::from_secs(1);

/// The lines of one job, or of several consecutive jobs. It has no clock.
pub(crate) struct PeriodicProgress {
    meter: Meter,
    /// The bytes moved by earlier jobs.
    moved_before: u64,
    /// When the last line was printed, as time since the start.
    printed: Option<Duration>,
}

impl PeriodicProgress {
    /// Starts the lines; `counts` are the counters so far.
    pub(crate) fn new(counts: &Counts) -> Self {
        let mut meter = Meter::default();
        // The first sample: even a very short job then has a rate.
        meter.line(Duration::ZERO, counts, usize::MAX);
        Self { meter, moved_before: counts.bytes_moved, printed: None }
    }

    /// The line for `counts`, if a second has passed. `now` is the time since the start.
    pub(crate) fn line(&mut self, now: Duration, counts: &Counts) -> Option<String> {
        let line = self.meter.line(now, counts, usize::MAX);
        let is_due = now >= self.printed.unwrap_or_default() + INTERVAL;
        (is_due && counts.has_begun()).then(|| {
            self.printed = Some(now);
            format!("{line}\n")
        })
    }

    /// The last line, unless nothing was copied and no line was printed.
    pub(crate) fn last_line(&mut self, now: Duration, counts: &Counts) -> Option<String> {
        let has_moved = counts.bytes_moved > self.moved_before;
        // No file is in progress.
        let counts = Counts { current: Vec::new(), ..counts.clone() };
        let line = self.meter.line(now, &counts, usize::MAX);
        (has_moved || self.printed.is_some()).then(|| format!("{line}\n"))
    }
}

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
pub(crate) fn answer_signals() {
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
    fn a_remote_line_cannot_move_the_cursor() {
        assert_eq!(remote_line(b"Permission denied\r\n"), "ssh: Permission denied");
        assert_eq!(remote_line(b"\x1b[1Aoops\xff"), "ssh: \\x1b[1Aoops\\xff");
    }

    #[test]
    fn a_line_comes_once_a_second_and_at_the_end() {
        let ms = Duration::from_millis;
        let counts = |files_done, bytes_moved| Counts {
            files_done,
            files_total: 4,
            bytes_moved,
            listed_all: true,
            reached: true,
            current: b"name".to_vec(),
            ..Counts::default()
        };
        let mut paced = PeriodicProgress::new(&counts(0, 0));
        assert_eq!(paced.line(ms(999), &counts(1, 1)), None);
        let line = paced.line(ms(1000), &counts(1, 1)).expect("a line");
        assert!(line.starts_with("25%  1/4 files") && line.ends_with("  name\n"), "{line}");
        assert_eq!(paced.line(ms(1999), &counts(2, 2)), None);
        assert!(paced.line(ms(2000), &counts(2, 2)).is_some());
        let line = paced.last_line(ms(2001), &counts(4, 4)).expect("a line");
        assert!(line.starts_with("100%  4/4 files") && !line.contains("name"), "{line}");
    }

    #[test]
    fn a_job_that_finds_nothing_to_do_prints_none() {
        let counts = Counts { files_done: 4, bytes_moved: 7, ..Counts::default() };
        let mut paced = PeriodicProgress::new(&counts);
        assert_eq!(paced.last_line(Duration::ZERO, &counts), None);
    }

    #[test]
    fn a_signal_has_one_answer() {
        answer_signals();
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
