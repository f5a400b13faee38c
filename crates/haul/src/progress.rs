//! The progress line on a terminal, and the screen that it shares with
//! everything else that is shown there.

use crate::quantity;
use haul_engine::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::collections::VecDeque;
use std::io::{IsTerminal, Write};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Jobs shorter than this show no progress line: it would only flicker.
pub(crate) const SHOW_AFTER: Duration = Duration::from_millis(300);

/// How often the progress line is drawn at most, per second.
const DRAWS_PER_SECOND: u8 = 10;

/// How far back the rate looks: long enough to be calm, short enough to be true.
const RATE_WINDOW: Duration = Duration::from_secs(5);

/// Standard error, and the progress line at its bottom while there is one.
/// Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Screen {
    bar: Arc<Mutex<Option<ProgressBar>>>,
}

impl Screen {
    /// True if a progress line can be drawn at all.
    pub(crate) fn is_terminal() -> bool {
        std::io::stderr().is_terminal()
    }

    /// Draws the progress line, from its first call on until [`Screen::clear`].
    pub(crate) fn draw(&self, line: String) {
        let mut bar = self.bar();
        let bar = bar.get_or_insert_with(|| {
            let target = ProgressDrawTarget::stderr_with_hz(DRAWS_PER_SECOND);
            let style = ProgressStyle::with_template("{wide_msg}").expect("a template that parses");
            ProgressBar::with_draw_target(None, target).with_style(style)
        });
        bar.set_message(line);
    }

    /// Takes the progress line off the screen.
    pub(crate) fn clear(&self) {
        if let Some(bar) = self.bar().take() {
            bar.finish_and_clear();
        }
    }

    /// Runs `write`, which may write to the terminal, with the progress line
    /// out of its way.
    pub(crate) fn above<R>(&self, write: impl FnOnce() -> R) -> R {
        match &*self.bar() {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    /// Writes a line to standard error. One that can't be written is lost:
    /// there is no other place to say so.
    pub(crate) fn line(&self, line: &str) {
        self.above(|| {
            let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
        });
    }

    fn bar(&self) -> MutexGuard<'_, Option<ProgressBar>> {
        self.bar.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The counters of a job at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) files_done: u64,
    pub(crate) files_total: u64,
    pub(crate) bytes_done: u64,
    pub(crate) bytes_total: u64,
    pub(crate) bytes_transferred: u64,
    pub(crate) listed_all: bool,
    /// ssh may be asking for a password on the terminal.
    pub(crate) asking: bool,
}

impl Counts {
    /// Reads the counters; each is true, though not all of the same instant.
    pub(crate) fn of(progress: &Progress) -> Self {
        Self {
            files_done: progress.files_done.load(Ordering::Relaxed),
            files_total: progress.files_total.load(Ordering::Relaxed),
            bytes_done: progress.bytes_done.load(Ordering::Relaxed),
            bytes_total: progress.bytes_total.load(Ordering::Relaxed),
            bytes_transferred: progress.bytes_transferred.load(Ordering::Relaxed),
            listed_all: progress.listed_all.load(Ordering::Relaxed),
            asking: progress.asking.load(Ordering::Relaxed),
        }
    }
}

/// Turns counters into the progress line. Knows no clock: it is told the time.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    /// When, bytes moved, bytes done; the oldest first.
    samples: VecDeque<(Duration, u64, u64)>,
}

impl Meter {
    /// The line for `counts` at `now`, the time since the job began. A time
    /// before the last one's is that of another job.
    pub(crate) fn line(&mut self, now: Duration, counts: Counts) -> String {
        if self.samples.back().is_some_and(|last| now < last.0) {
            self.samples.clear();
        }
        self.samples.push_back((now, counts.bytes_transferred, counts.bytes_done));
        while self.samples.len() > 2 && now.saturating_sub(self.samples[1].0) >= RATE_WINDOW {
            self.samples.pop_front();
        }
        let (start, moved, done) = self.samples[0];
        let seconds = now.saturating_sub(start).as_secs_f64();
        let per_second = |from: u64, to: u64| match seconds > 0.0 {
            true => to.saturating_sub(from) as f64 / seconds,
            false => 0.0,
        };

        let more = if counts.listed_all { "" } else { "+" };
        let mut line = format!(
            "files {}/{}{more}  bytes {}/{}{more}",
            quantity::count(counts.files_done),
            quantity::count(counts.files_total),
            quantity::bytes(counts.bytes_done),
            quantity::bytes(counts.bytes_total),
        );
        line.push_str("  ");
        line.push_str(&quantity::rate(per_second(moved, counts.bytes_transferred)));
        let left = counts.bytes_total.saturating_sub(counts.bytes_done) as f64;
        let time = Duration::try_from_secs_f64(left / per_second(done, counts.bytes_done));
        if let (true, Ok(time)) = (counts.listed_all, time) {
            line.push_str("  ETA ");
            line.push_str(&quantity::remaining(time));
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn counts(done: u64, listed_all: bool) -> Counts {
        Counts {
            files_done: done,
            files_total: 1200,
            bytes_done: done * MIB,
            bytes_total: 1200 * MIB,
            bytes_transferred: done * MIB,
            listed_all,
            asking: false,
        }
    }

    #[test]
    fn totals_have_a_plus_while_listing_goes_on_and_the_end_is_told_afterwards() {
        let mut meter = Meter::default();
        meter.line(Duration::ZERO, counts(0, false));
        insta::assert_snapshot!(
            meter.line(Duration::from_secs(1), counts(100, false)),
            @"files 100/1,200+  bytes 100.0 MiB/1.2 GiB+  100.0 MiB/s"
        );
        insta::assert_snapshot!(
            meter.line(Duration::from_secs(2), counts(200, true)),
            @"files 200/1,200  bytes 200.0 MiB/1.2 GiB  100.0 MiB/s  ETA 0:10"
        );
    }

    #[test]
    fn the_rate_is_that_of_the_last_seconds() {
        let mut meter = Meter::default();
        for second in 0..=20 {
            meter.line(Duration::from_secs(second), counts(0, true));
        }
        let mut line = String::new();
        for second in 21..=30 {
            line = meter.line(Duration::from_secs(second), counts(10 * (second - 20), true));
        }
        assert!(line.contains("  10.0 MiB/s"), "{line}");
        assert!(meter.samples.len() < 8, "old samples are dropped");
    }

    #[test]
    fn a_standstill_has_no_end() {
        let mut meter = Meter::default();
        meter.line(Duration::ZERO, counts(5, true));
        let line = meter.line(Duration::from_secs(1), counts(5, true));
        assert!(!line.contains("ETA"), "{line}");
    }
}
