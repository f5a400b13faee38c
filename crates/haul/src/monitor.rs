//! Shows what a copy tells while it runs.

use crate::interrupt::Interrupt;
use crate::json::{self, DifferenceLine, FileLine, Line, OutcomeWord, Path};
use crate::progress::{Counts, Meter, SHOW_AFTER, Screen};
use crate::report::{Form, Report};
use haul_engine::{Event, Monitor, Outcome, Progress, Skip, Summary};
use haul_model::{Differences, Kind, escape_bytes};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

mod compared;
mod moved;
pub(crate) use compared::Found;
pub(crate) use moved::MoveMonitor;

/// How often output is written and the progress line drawn.
const TICK: Duration = Duration::from_millis(100);

/// How far apart the progress events of `--json` are, at least.
const JSON_PROGRESS_EVERY: Duration = Duration::from_millis(500);

/// How much of a copy is shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Show {
    /// A line for each file that was copied.
    pub(crate) copied: bool,
    /// A line for each file that would be copied.
    pub(crate) would_copy: bool,
    /// A line for each file that was skipped.
    pub(crate) skipped: bool,
    /// The job compares: a line for each entry that differs.
    pub(crate) differences: bool,
    /// And for each that is the same.
    pub(crate) same: bool,
    /// Warnings.
    pub(crate) warnings: bool,
    /// The progress line, or the progress events of `--json`.
    pub(crate) progress: bool,
}

/// The monitor of one `haul copy`, all of its jobs one after the other.
pub(crate) struct CopyMonitor {
    show: Show,
    form: Form,
    interrupt: Interrupt,
    screen: Screen,
    progress: Progress,
    /// The figures of the jobs before this one.
    before: Mutex<Summary>,
    report: Mutex<Report>,
    /// Whether a job is running, and may draw.
    running: Mutex<bool>,
    /// Whether further jobs will add to the totals.
    more_to_come: AtomicBool,
}

impl CopyMonitor {
    /// A monitor that shows on `report` and `screen`, which belong together.
    pub(crate) fn new(show: Show, interrupt: Interrupt, report: Report, screen: Screen) -> Self {
        Self {
            show,
            form: report.form(),
            interrupt,
            screen,
            progress: Progress::default(),
            before: Mutex::default(),
            report: Mutex::new(report),
            running: Mutex::new(false),
            more_to_come: AtomicBool::new(false),
        }
    }

    /// A job begins; `more` if others follow it.
    pub(crate) fn begin(&self, more: bool) {
        self.more_to_come.store(more, Ordering::Relaxed);
        self.progress.listed_all.store(false, Ordering::Relaxed);
        *self.before() = self.progress.summary();
        *self.running() = true;
    }

    /// The job has ended: the terminal is free for others, such as ssh asking
    /// for a password. Gives the job's figures, those of one that ended early, too.
    pub(crate) fn end(&self) -> Summary {
        *self.running() = false;
        self.screen.clear();
        self.progress.summary().since(*self.before())
    }

    /// Writes output and shows progress until the other end of `stop` is dropped.
    pub(crate) fn tick_until(&self, stop: &Receiver<()>) {
        let mut meter = Meter::default();
        // Since when the running job has something to show. Before that, and while
        // more connections are made, ssh may be asking for a password on the
        // terminal.
        let mut moving_since: Option<Instant> = None;
        let mut last_json: Option<Instant> = None;
        while stop.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
            self.report().flush();
            // Held while drawing, so that nothing is drawn after `end`.
            let running = self.running();
            if !*running {
                moving_since = None;
                continue;
            }
            let counts = self.counts();
            match self.form {
                _ if !self.show.progress => {}
                Form::Json if last_json.is_some_and(|t| t.elapsed() < JSON_PROGRESS_EVERY) => {}
                Form::Json => {
                    last_json = Some(Instant::now());
                    self.report().json(&Line::Progress(counts.into()));
                }
                Form::Plain if counts.files_done == 0 && counts.bytes_done == 0 => {}
                Form::Plain if self.progress.asking.load(Ordering::Relaxed) => {}
                Form::Plain => {
                    let now = moving_since.get_or_insert_with(Instant::now).elapsed();
                    let line = meter.line(now, counts);
                    if now >= SHOW_AFTER {
                        self.screen.draw(line);
                    }
                }
            }
        }
    }

    /// Whether a thread is needed that runs [`CopyMonitor::tick_until`].
    pub(crate) fn needs_ticks(&self) -> bool {
        let Show { copied, would_copy, skipped, differences, progress, .. } = self.show;
        copied || would_copy || skipped || differences || progress
    }

    /// The report, to say something beside events.
    pub(crate) fn report(&self) -> MutexGuard<'_, Report> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the report back.
    pub(crate) fn into_report(self) -> Report {
        self.report.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn before(&self) -> MutexGuard<'_, Summary> {
        self.before.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn running(&self) -> MutexGuard<'_, bool> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn counts(&self) -> Counts {
        let mut counts = Counts::of(&self.progress);
        counts.listed_all &= !self.more_to_come.load(Ordering::Relaxed);
        counts
    }

    fn is_shown(&self, kind: &Kind, outcome: &Outcome) -> bool {
        match outcome {
            Outcome::Failed(_) => true,
            Outcome::Copied => self.show.copied,
            Outcome::WouldCopy => self.show.would_copy,
            Outcome::Skipped(Skip::Special) => self.show.warnings,
            Outcome::Differs(found) => {
                // What is missing with its directory goes without saying.
                self.show.differences
                    && (self.show.same || self.form == Form::Json || !found.has(Differences::ABOVE))
            }
            // That a directory exists is no news.
            Outcome::Skipped(_) => {
                self.show.skipped && (self.form == Form::Json || *kind != Kind::Dir)
                    || self.show.same && *kind != Kind::Dir
            }
        }
    }

    fn entry(&self, path: &[u8], kind: &Kind, outcome: &Outcome) {
        if !self.is_shown(kind, outcome) {
            return;
        }
        match outcome {
            Outcome::Failed(fault) => self.report().fault(path, fault),
            Outcome::Copied => self.fate(path, kind, OutcomeWord::Copied, None),
            Outcome::WouldCopy => self.fate(path, kind, OutcomeWord::WouldCopy, None),
            Outcome::Differs(found) => self.difference(path, kind, Found::Differs(*found)),
            Outcome::Skipped(Skip::Special) if self.show.differences => {
                self.report().warning(path, "not compared: it would not be copied");
            }
            Outcome::Skipped(_) if self.show.same => {
                self.report().print(format!("same      {}\n", escape_bytes(path)).as_bytes());
            }
            Outcome::Skipped(skip) => {
                self.fate(path, kind, OutcomeWord::Skipped, Some(*skip));
                if *skip == Skip::Special {
                    self.report().warning(path, passed_over(kind));
                }
            }
        }
    }

    /// Tells how an entry differs.
    fn difference(&self, path: &[u8], kind: &Kind, found: Found) {
        let line = match self.form {
            Form::Json => Line::Difference(DifferenceLine::of(path, kind, found)).to_bytes(),
            Form::Plain => compared::plain_line(path, kind, found).into_bytes(),
        };
        self.report().print(&line);
    }

    /// Tells the fate of an entry that did not fail.
    fn fate(&self, path: &[u8], kind: &Kind, outcome: OutcomeWord, skip: Option<Skip>) {
        let line = match self.form {
            Form::Json => {
                let (path, size, reason) = (Path::of(path), json::size(kind), skip.map(Into::into));
                Line::File(FileLine { path, kind: kind.into(), size, outcome, reason }).to_bytes()
            }
            // The warning says it.
            Form::Plain if skip == Some(Skip::Special) => return,
            Form::Plain => plain_line(path, kind, outcome, skip).into_bytes(),
        };
        self.report().print(&line);
    }
}

impl Monitor for CopyMonitor {
    fn progress(&self) -> &Progress {
        &self.progress
    }

    fn event(&self, event: Event<'_>) {
        match event {
            Event::Entry { path, kind, outcome } => self.entry(path, kind, outcome),
            Event::Extra { path, kind } => {
                if self.show.differences {
                    self.difference(path, kind, Found::Extra);
                }
            }
            // Only a job that removes its sources tells it.
            Event::Removed { .. } => {}
            Event::Warning { path, message } if self.show.warnings => {
                self.report().warning(path, message);
            }
            Event::Warning { .. } => {}
        }
    }

    fn shows(&self, kind: &Kind, outcome: &Outcome) -> bool {
        self.is_shown(kind, outcome)
    }

    fn cancelled(&self) -> bool {
        self.interrupt.happened()
    }
}

/// Why an entry of that kind is passed over.
fn passed_over(kind: &Kind) -> &'static str {
    match kind {
        Kind::File { .. } | Kind::Symlink { .. } => "an unfinished copy of haul's own: not copied",
        _ => "a FIFO, socket or device: not copied",
    }
}

/// The fate of an entry that did not fail, for people.
fn plain_line(path: &[u8], kind: &Kind, outcome: OutcomeWord, skip: Option<Skip>) -> String {
    let word = match outcome {
        OutcomeWord::Copied => "copied",
        OutcomeWord::Skipped => "skipped",
        OutcomeWord::WouldCopy => "would copy",
    };
    let slash = if *kind == Kind::Dir { "/" } else { "" };
    let reason = match skip {
        None | Some(Skip::Special) => "",
        Some(Skip::Unchanged) => " (unchanged)",
        Some(Skip::Exists) => " (exists)",
        Some(Skip::NotOlder) => " (not older than the source)",
    };
    format!("{word} {}{slash}{reason}\n", escape_bytes(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: Kind = Kind::File { size: 3 };

    #[test]
    fn lines_for_people_are_escaped() {
        let lines = [
            plain_line(b"a/b\n", &FILE, OutcomeWord::Copied, None),
            plain_line(b"d", &Kind::Dir, OutcomeWord::WouldCopy, None),
            plain_line(b"\xff", &FILE, OutcomeWord::Skipped, Some(Skip::Unchanged)),
            plain_line(b"x", &FILE, OutcomeWord::Skipped, Some(Skip::NotOlder)),
        ];
        insta::assert_snapshot!(lines.concat(), @r"
        copied a/b\n
        would copy d/
        skipped \xff (unchanged)
        skipped x (not older than the source)
        ");
    }

    #[test]
    fn totals_are_not_final_while_jobs_are_to_come() {
        let report = Report::new(Form::Plain, Screen::default());
        let monitor =
            CopyMonitor::new(Show::default(), Interrupt::default(), report, Screen::default());
        monitor.begin(true);
        monitor.progress.listed_all.store(true, Ordering::Relaxed);
        assert!(!monitor.counts().listed_all);
        monitor.begin(false);
        assert!(!monitor.counts().listed_all);
        monitor.progress.listed_all.store(true, Ordering::Relaxed);
        assert!(monitor.counts().listed_all);
    }
}
