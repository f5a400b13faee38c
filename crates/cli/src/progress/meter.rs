//! The text of the progress line, and the choice of the parts that fit.

use crate::quantity;
use console::measure_text_width as width;
use haul_engine::Progress;
use haul_model::escape_bytes;
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The period over which the rate is averaged: long enough to be steady, short enough to be
/// current.
const RATE_WINDOW: Duration = Duration::from_secs(5);

/// Minimum duration of a standstill, or of a peer's silence, that is shown.
const STALL_MIN: Duration = Duration::from_secs(5);

/// Minimum columns for a name. With fewer it is omitted.
const NAME_COLUMNS_MIN: usize = 12;

/// The space between two parts of the line.
const GAP: &str = "  ";

/// Replaces the middle of a long name.
const ELLIPSIS: &str = "...";

/// The counters of a job at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) files_done: u64,
    pub(crate) files_total: u64,
    pub(crate) bytes_done: u64,
    pub(crate) bytes_total: u64,
    /// Bytes that were transferred or hashed, without holes.
    pub(crate) bytes_moved: u64,
    pub(crate) listed_all: bool,
    /// ssh may be asking for a password on the terminal.
    pub(crate) asking: bool,
    /// The other side is connected.
    pub(crate) reached: bool,
    /// The time since the last data from the other side.
    pub(crate) silent: Duration,
    /// The path of a file in progress, unescaped.
    pub(crate) current: Vec<u8>,
}

impl Counts {
    /// Reads the counters. They are not from exactly the same instant.
    pub(crate) fn of(progress: &Progress) -> Self {
        let transferred = progress.bytes_transferred.load(Ordering::Relaxed);
        Self {
            files_done: progress.files_done.load(Ordering::Relaxed),
            files_total: progress.files_total.load(Ordering::Relaxed),
            bytes_done: progress.bytes_done.load(Ordering::Relaxed),
            bytes_total: progress.bytes_total.load(Ordering::Relaxed),
            bytes_moved: transferred + progress.bytes_hashed.load(Ordering::Relaxed),
            listed_all: progress.listed_all.load(Ordering::Relaxed),
            asking: progress.peer.asking.load(Ordering::Relaxed),
            reached: progress.peer.reached.load(Ordering::Relaxed),
            silent: Duration::from_millis(progress.peer.silent_ms.load(Ordering::Relaxed)),
            current: progress.current(),
        }
    }

    /// Adds the counters of another job that runs at the same time.
    pub(crate) fn merge(self, other: Self) -> Self {
        Self {
            files_done: self.files_done + other.files_done,
            files_total: self.files_total + other.files_total,
            bytes_done: self.bytes_done + other.bytes_done,
            bytes_total: self.bytes_total + other.bytes_total,
            bytes_moved: self.bytes_moved + other.bytes_moved,
            listed_all: self.listed_all && other.listed_all,
            asking: self.asking || other.asking,
            reached: self.reached || other.reached,
            silent: self.silent.min(other.silent),
            current: if self.current.is_empty() { other.current } else { self.current },
        }
    }

    /// The counters of an ended job, as if complete, even if it ended early.
    pub(crate) fn completed(self) -> Self {
        Self {
            files_total: self.files_done,
            bytes_total: self.bytes_done,
            listed_all: true,
            asking: false,
            silent: Duration::MAX,
            current: Vec::new(),
            ..self
        }
    }

    /// True once ssh can no longer ask for a password on the terminal.
    pub(crate) fn has_begun(&self) -> bool {
        let listed = self.reached && self.files_total > 0;
        !self.asking && (listed || self.files_done > 0 || self.bytes_done > 0)
    }

    /// The progress in percent, if the totals are known.
    fn percent(&self) -> Option<u64> {
        let of = |done: u64, total: u64| match u128::from(done) * 100 / u128::from(total) {
            100.. if self.files_done < self.files_total => 99,
            percent => percent.min(100) as u64,
        };
        match (self.bytes_total, self.files_total) {
            _ if !self.listed_all => None,
            (0, 0) => None,
            (0, files) => Some(of(self.files_done, files)),
            (bytes, _) => Some(of(self.bytes_done, bytes)),
        }
    }
}

/// The counters at an earlier time.
#[derive(Debug, Clone, Copy)]
struct Sample {
    at: Duration,
    moved: u64,
    done: u64,
}

/// Formats counters as the progress line. It has no clock; the caller passes the time.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    /// Oldest first.
    samples: VecDeque<Sample>,
    /// The counters of done and found work when one last grew, and the time of that.
    grown: ([u64; 3], Duration),
}

impl Meter {
    /// The line for `counts` at `now`, the time since the job started, within `columns`. An earlier
    /// time than at the last call starts another job.
    pub(crate) fn line(&mut self, now: Duration, counts: &Counts, columns: usize) -> String {
        if self.samples.back().is_some_and(|last| now < last.at) {
            *self = Self::default();
        }
        let sample = Sample { at: now, moved: counts.bytes_moved, done: counts.bytes_done };
        self.samples.push_back(sample);
        while self.samples.len() > 2 && now.saturating_sub(self.samples[1].at) >= RATE_WINDOW {
            self.samples.pop_front();
        }
        let grown = [counts.bytes_done, counts.files_done, counts.files_total];
        if grown != self.grown.0 {
            self.grown = (grown, now);
        }
        let parts = self.parts(now, counts);
        layout(&parts, &escape_bytes(&counts.current), columns)
    }

    /// The parts of the line in order, without the name. The number is the rank: high ranks are
    /// omitted first.
    fn parts(&self, now: Duration, counts: &Counts) -> Vec<(u8, String)> {
        let first = self.samples[0];
        let seconds = now.saturating_sub(first.at).as_secs_f64();
        let per_second = |from: u64, to: u64| match seconds > 0.0 {
            true => to.saturating_sub(from) as f64 / seconds,
            false => 0.0,
        };
        let mut parts = Vec::with_capacity(5);
        let more = if counts.listed_all { "" } else { "+" };
        let percent = counts.percent();
        parts.extend(percent.map(|percent| (0, format!("{percent}%"))));
        let (done, total) =
            (quantity::count(counts.files_done), quantity::count(counts.files_total));
        let rank = if percent.is_some() { 5 } else { 0 };
        parts.push((rank, format!("{done}/{total}{more} files")));
        let bytes = quantity::bytes(counts.bytes_done);
        parts.push(match counts.bytes_total {
            0 => (4, bytes),
            total => (4, format!("{bytes}/{}{more}", quantity::bytes(total))),
        });
        let left = counts.bytes_total.saturating_sub(counts.bytes_done) as f64;
        let time = Duration::try_from_secs_f64(left / per_second(first.done, counts.bytes_done));
        let stalled = now.saturating_sub(self.grown.1);
        parts.push((2, quantity::rate(per_second(first.moved, counts.bytes_moved))));
        if counts.silent >= STALL_MIN {
            parts.push((1, format!("host silent for {} s", counts.silent.as_secs())));
        } else if stalled >= STALL_MIN {
            parts.push((1, format!("nothing for {} s", stalled.as_secs())));
        } else if let (true, Ok(time)) = (counts.listed_all, time) {
            parts.push((1, format!("ETA {}", quantity::remaining(time))));
        }
        parts
    }
}

/// The rank of the name among the parts.
const NAME_RANK: u8 = 3;

/// Formats `parts` and `name` within `columns`.
fn layout(parts: &[(u8, String)], name: &str, columns: usize) -> String {
    let mut ranks: Vec<u8> = parts.iter().map(|(rank, _)| *rank).collect();
    if !name.is_empty() {
        ranks.push(NAME_RANK);
    }
    ranks.sort_unstable();
    // Low ranks first, until one does not fit. All later ones are omitted.
    let (mut kept, mut used) = (Vec::new(), 0);
    for rank in ranks {
        let part = parts.iter().find(|(of, _)| *of == rank);
        let least = part.map_or(width(name).min(NAME_COLUMNS_MIN), |(_, text)| width(text));
        let gap = if kept.is_empty() { 0 } else { GAP.len() };
        if used + gap + least > columns {
            break;
        }
        used += gap + least;
        kept.push(rank);
    }
    let shown = parts.iter().filter(|(rank, _)| kept.contains(rank));
    let mut shown: Vec<&str> = shown.map(|(_, text)| text.as_str()).collect();
    let available = columns.saturating_sub(used) + width(name).min(NAME_COLUMNS_MIN);
    let name = shorten(name, available);
    if kept.contains(&NAME_RANK) {
        shown.push(&name);
    }
    shown.join(GAP)
}

/// Shortens `name` to `columns` by cutting its middle.
fn shorten(name: &str, columns: usize) -> String {
    if width(name) <= columns {
        return name.to_owned();
    }
    let available = columns.saturating_sub(ELLIPSIS.len());
    let front = prefix_within(name.chars(), available / 2);
    let mut back: Vec<char> =
        prefix_within(name.chars().rev(), available - available / 2).chars().collect();
    back.reverse();
    format!("{front}{ELLIPSIS}{}", back.into_iter().collect::<String>())
}

/// The first `chars` that fit into `columns`.
fn prefix_within(chars: impl Iterator<Item = char>, columns: usize) -> String {
    let mut used = 0;
    let fits = |char: &char| {
        used += width(char.encode_utf8(&mut [0; 4]));
        used <= columns
    };
    chars.take_while(fits).collect()
}

#[cfg(test)]
mod tests;
