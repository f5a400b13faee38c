//! Progress as one line per second, for output without a terminal: `haul sync --progress`.

use super::{Counts, Meter};
use std::time::Duration;

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
