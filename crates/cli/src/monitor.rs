//! Receives the events of running jobs, and passes them to the report.

mod entry_lines;
mod fate;
mod job_paths;
mod order;
mod removal;

use self::entry_lines::EntryLines;
use self::fate::{CopyFate, copy_skip_reason, unsafe_link_line};
use self::job_paths::JobPaths;
use crate::args::Copy;
use crate::deadline::Deadline;
use crate::error::{CommandError, ErrorKind};
use crate::interrupt::Interrupt;
use crate::lines::{self, Lines, SyncFate};
use crate::progress::{Counts, PeriodicProgress, SignalProgress, while_ticking};
use crate::report::{HostPath, Lazy, LogFile, Report, Show};
use crate::{hint, json, quantity};
use haul::{JobObserver, Machine, Next};
use haul_engine::{
    Event, FaultLocation, LinkEvent, Monitor, Outcome, Progress, Route, RoutedJob, Skip, Summary,
    Unfinished,
};
use haul_model::{
    Changes, ContentHash, Entry, Fault, FaultKind, Kind, Mirror, Part, Side, Task, escape_bytes,
    escape_octal,
};
use parking_lot::Mutex;
use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// Maximum number of differences that a comparison names without `-v`.
const NAMED_MAX: u64 = 20;

/// The monitor of one command. Its jobs run one after the other.
pub(crate) struct JobMonitor {
    pub(crate) report: Report,
    task: Task,
    interrupt: Interrupt,
    /// The time at which jobs end, even if work is left.
    deadline: Option<Deadline>,
    progress: Progress,
    /// The figures of earlier jobs.
    before: Mutex<Summary>,
    lines: EntryLines,
    /// Entries of the sources that had vanished when they were read. Each counts as failed.
    pub(crate) vanished: AtomicU64,
    /// Entries of the sources that could not be read for other reasons.
    pub(crate) unread: AtomicU64,
    differences: AtomicU64,
    /// The kind of the error that decides the exit code.
    pub(crate) first_error: Mutex<Option<ErrorKind>>,
    /// The sources and the destination of the running job.
    job_paths: Mutex<JobPaths>,
    /// A job is running, so progress may be drawn.
    running: Mutex<bool>,
    /// Further jobs follow, which add to the totals.
    has_more_jobs: AtomicBool,
    /// The work only produces output: it is cancelled when standard output is closed.
    is_for_output: bool,
}

impl JobMonitor {
    /// Creates the monitor of jobs with `task`, which reports to `report`.
    pub(crate) fn new(report: &Report, task: Task, interrupt: Interrupt) -> Self {
        Self {
            report: report.clone(),
            lines: EntryLines::new(report, &task, Lines::default(), None),
            task,
            interrupt,
            deadline: None,
            vanished: AtomicU64::new(0),
            unread: AtomicU64::new(0),
            differences: AtomicU64::new(0),
            first_error: Mutex::default(),
            progress: Progress::default(),
            before: Mutex::default(),
            job_paths: Mutex::default(),
            running: Mutex::new(false),
            has_more_jobs: AtomicBool::new(false),
            is_for_output: false,
        }
    }

    /// Creates the monitor of questions. A signal may end the program at once: a question leaves
    /// nothing to clean up.
    pub(crate) fn of_questions(report: &Report) -> Self {
        let monitor = Self::new(report, Task::default(), Interrupt::default());
        Self { is_for_output: true, ..monitor }
    }

    /// Sets the time at which jobs end, and the format of a mirror's lines about entries. They are
    /// also written to `log`.
    pub(crate) fn of_copy(self, copy: &Copy, log: Option<Arc<LogFile>>) -> Self {
        let lines = EntryLines::new(&self.report, &self.task, copy.lines.clone(), log);
        Self { lines, deadline: copy.deadline, ..self }
    }

    /// True if that time has passed.
    fn is_expired(&self) -> bool {
        self.deadline.is_some_and(Deadline::is_expired)
    }

    /// Prints the number of differences that were not named.
    pub(crate) fn print_unnamed_count(&self) {
        let found = self.differences.load(Ordering::Relaxed);
        if let more @ 1.. = found.saturating_sub(NAMED_MAX) {
            let more = quantity::count(more);
            self.report.message(&format!("and {more} more; -v lists all\n"));
        }
    }

    /// Reports a difference, or only counts it once [`NAMED_MAX`] are named.
    fn print_difference(&self, path: &[u8], kind: &Kind, found: Option<Changes>) {
        let same = Outcome::Skipped(Skip::Unchanged);
        let names_all =
            !self.report.is_text() || self.report.shows(&self.task, &Kind::File { size: 0 }, &same);
        if names_all || self.differences.fetch_add(1, Ordering::Relaxed) < NAMED_MAX {
            self.report.message(&Lazy {
                level: Show::Quiet,
                text: || difference_line(path, kind, found),
                json: || json::difference(path, kind, found),
            });
        }
    }

    /// Does `work`, while a thread writes output and shows progress.
    pub(crate) fn watch<T>(&self, work: impl FnOnce() -> T) -> T {
        let mut signal_progress = SignalProgress::new();
        let begun = Instant::now();
        let mut periodic = self.prints_progress().then(|| PeriodicProgress::new(&self.counts()));
        let tick = || {
            if self.report.draws_progress() {
                self.lines.tick();
            }
            self.report.output().flush();
            // Held while drawing, so that nothing is drawn after `end`.
            let running = self.running.lock();
            if *running {
                self.report.progress(Some(self.counts()));
            }
            if let Some(periodic) = &mut periodic
                && let Some(line) = periodic.line(begun.elapsed(), &self.counts())
            {
                self.report.message(&line);
            }
            if let Some(line) = signal_progress.line(|| self.counts()) {
                self.report.output().error_line(&line);
            }
        };
        let done = while_ticking(tick, work);
        if let Some(mut periodic) = periodic
            && let Some(line) = periodic.last_line(begun.elapsed(), &self.counts())
        {
            self.report.message(&line);
        }
        done
    }

    /// True if progress lines are printed between the lines about entries.
    fn prints_progress(&self) -> bool {
        let is_wanted = self.lines.format.prints_progress && !self.task.keeps_destination();
        // Without them, a terminal shows the progress line.
        is_wanted && !(self.report.draws_progress() && io::stdout().is_terminal())
    }

    /// The error after an interrupt or the time limit. It mentions the partial content of a large
    /// file.
    pub(crate) fn interrupted(&self) -> CommandError {
        if self.is_expired() && !self.interrupt.is_set() {
            return CommandError::new(
                ErrorKind::OutOfTime,
                "time limit reached (--stop-after, --stop-at)",
            )
            .with_hint("run the same command again to resume");
        }
        let skips = hint::skips_finished(&self.task);
        let Some(Unfinished { path, bytes, .. }) = self.progress.unfinished() else {
            return match skips {
                true => CommandError::interrupted(),
                false => CommandError::new(ErrorKind::Interrupted, "interrupted")
                    .with_hint("the same command copies all files again"),
            };
        };
        let path = escape_bytes(&path);
        let message = match bytes.map(quantity::bytes) {
            Some(bytes) => format!("interrupted: about {bytes} of {path} are kept"),
            None => format!("interrupted: a partial file of {path} is kept"),
        };
        CommandError::new(ErrorKind::Interrupted, message).with_hint(match skips {
            true => "run the same command again to resume it: finished files are skipped",
            false => "run the same command again to resume it: finished files are copied again",
        })
    }

    /// The host and path of a fault on `side`.
    fn fault_location(&self, path: &[u8], at: FaultLocation<'_>, side: Side) -> HostPath {
        match at {
            FaultLocation::Named { host, path } => (host.map(str::to_owned), path.to_vec()),
            FaultLocation::Entry(naming) => {
                let job_paths = self.job_paths.lock();
                job_paths.locate(side, path, naming)
            }
        }
    }

    /// Reports a moved source, or a file or link inside one.
    fn print_moved(&self, path: &[u8], renamed: bool) {
        self.report.message(&Lazy {
            level: Show::Verbose,
            text: || format!("moved {}\n", escape_bytes(path)),
            json: || json::moved(path, renamed),
        });
    }

    /// The progress of the jobs.
    pub(crate) fn counts(&self) -> Counts {
        let mut counts = Counts::of(&self.progress);
        counts.listed_all &= !self.has_more_jobs.load(Ordering::Relaxed);
        counts
    }

    fn is_check(&self) -> bool {
        matches!(self.task, Task::Check { .. })
    }

    /// The fate that a mirror may print for an outcome.
    fn fate<'o>(&self, outcome: &'o Outcome) -> Option<SyncFate<'o>> {
        self.task.mirrors()?;
        Some(match outcome {
            Outcome::Synced(found) => SyncFate::Synced(*found),
            Outcome::Linked { found, first } => SyncFate::Linked(*found, first),
            Outcome::Skipped(Skip::Unchanged) => SyncFate::Synced(Changes::default()),
            _ => return None,
        })
    }

    /// Reports the fault of an entry, with its location.
    fn report_fault(&self, path: &[u8], fault: &Fault) {
        let naming = FaultLocation::Entry(self.progress.naming());
        self.report.entry_fault(path, &self.fault_location(path, naming, fault.side), fault);
    }

    /// True if an outcome is reported, apart from the log.
    fn includes(&self, kind: &Kind, outcome: &Outcome) -> bool {
        match (self.task.mirrors(), outcome) {
            (Some(_), Outcome::Failed(_)) => true,
            (Some(_), Outcome::Skipped(Skip::Special)) => self.report.shows_warnings(),
            (Some(mirror), Outcome::Skipped(Skip::Ruled)) => {
                let is_link = matches!(kind, Kind::Symlink { .. });
                is_link
                    && mirror.safe_links
                    && self.lines.format.prints_unsafe
                    && self.report.is_text()
            }
            (Some(_), Outcome::Skipped(Skip::Exists | Skip::NotOlder)) => {
                self.lines.format.prints_skipped && self.report.is_text()
            }
            (Some(_), _) => self.fate(outcome).is_some_and(|fate| self.lines.has_line(kind, fate)),
            (None, _) => self.report.shows(&self.task, kind, outcome),
        }
    }

    /// Counts a source entry that could not be read, or that vanished.
    fn count_unread(&self, path: &[u8], kind: FaultKind) {
        if kind != FaultKind::NotFound {
            self.unread.fetch_add(1, Ordering::Relaxed);
        } else if !self.job_paths.lock().is_source(path) {
            // A named source that never existed counts as neither. It must not prevent removals.
            self.vanished.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn entry(&self, number: Option<u64>, path: &[u8], kind: &Kind, outcome: &Outcome) {
        let has_line = self.lines.print_fate(number, path, kind, self.fate(outcome));
        if has_line || !self.includes(kind, outcome) {
            return;
        }
        if let Outcome::Failed(Fault { side: Side::Source, kind, .. }) = outcome {
            self.count_unread(path, *kind);
        }
        match outcome {
            Outcome::Failed(fault) => self.report_fault(path, fault),
            Outcome::Differs(found) => self.print_difference(path, kind, Some(*found)),
            Outcome::Skipped(Skip::Special) if self.is_check() => {
                self.report.warning(path, "not compared: copy skips it");
            }
            Outcome::Skipped(_) if self.is_check() => {
                self.report.message(&format!("same      {}\n", escape_bytes(path)));
            }
            Outcome::Skipped(skip) if self.task.mirrors().is_some() => {
                self.print_mirror_skip(number, path, kind, *skip);
            }
            outcome => {
                let is_dry = self.task.keeps_destination();
                self.report.message(&CopyFate { path, kind, outcome, is_dry });
                if *outcome == Outcome::Skipped(Skip::Special) {
                    self.report.warning(path, copy_skip_reason(kind));
                }
            }
        }
    }

    /// Reports an entry that a mirror skips.
    fn print_mirror_skip(&self, number: Option<u64>, path: &[u8], kind: &Kind, skip: Skip) {
        match skip {
            Skip::Special => self.report.warning(path, lines::mirror_skip_reason(kind)),
            Skip::Ruled => {
                // A part that only removes skips every entry: another part reports the link. A link
                // that is skipped for another reason is not reported.
                let copies = self.task.mirrors().is_some_and(|of| !of.part.only_removes());
                if let Some(line) = unsafe_link_line(path, kind).filter(|_| copies) {
                    self.lines.print_in_order(number, &line);
                }
            }
            Skip::Exists | Skip::NotOlder => {
                let why = if skip == Skip::Exists { "exists" } else { "is newer" };
                self.lines.print_in_order(number, &format!("{} {why}\n", escape_octal(path)));
            }
            // It has a line of rsync.
            Skip::Unchanged => {}
        }
    }
}

impl JobObserver for JobMonitor {
    fn begins(&self, routed_job: &RoutedJob<Machine>, has_more: bool) {
        self.has_more_jobs.store(has_more, Ordering::Relaxed);
        self.progress.begin();
        let is_outgoing = matches!(routed_job.route, Route::Upload(_) | Route::Between(..));
        self.lines.begin(is_outgoing);
        self.removes(routed_job);
        *self.before.lock() = self.progress.summary();
        *self.running.lock() = true;
    }

    fn ends(&self) -> Summary {
        *self.running.lock() = false;
        self.lines.release_all();
        self.report.progress(None);
        self.progress.summary().since(*self.before.lock())
    }

    fn fails(&self, routed_job: &RoutedJob<Machine>, error: haul::Error) -> Next {
        let error = match self.cancelled() {
            // Ctrl-C also interrupts ssh, so the first symptom is a broken connection.
            true => self.interrupted(),
            false => CommandError::from_routed_job(error, routed_job),
        };
        self.report.command_error(&error);
        let mut first_error = self.first_error.lock();
        match error.kind {
            ErrorKind::Interrupted => *first_error = Some(error.kind),
            kind => drop(first_error.get_or_insert(kind)),
        }
        match error.kind {
            // The next host may be reachable.
            ErrorKind::Connection | ErrorKind::Protocol => Next::Continue,
            _ => Next::Stop,
        }
    }

    fn skips_removal(&self, mirror: &Mirror, has_failed: bool) -> bool {
        let ignores = mirror.delete.is_some_and(|delete| delete.ignore_errors);
        let is_unread = self.unread.load(Ordering::Relaxed) > 0 && !ignores;
        let skips_removal = mirror.part == Part::RemovesLast && (has_failed || is_unread);
        if skips_removal && self.report.shows_warnings() {
            let message = "skipping all removals: not all of the source could be read";
            self.report.warning(b".", message);
        }
        skips_removal
    }

    fn removes(&self, routed_job: &RoutedJob<Machine>) {
        // From now on, faults of entries are located by this job.
        *self.job_paths.lock() = JobPaths::of(routed_job);
    }
}

impl Monitor for JobMonitor {
    fn progress(&self) -> &Progress {
        &self.progress
    }

    fn event(&self, event: Event<'_>) {
        match event {
            Event::Entry { number, path, kind, outcome } => {
                self.entry(number, path, kind, outcome);
                self.lines.done(number);
            }
            Event::Extra { path, kind } if self.is_check() && self.report.shows_warnings() => {
                self.print_difference(path, kind, None);
            }
            Event::Deleted { path, kind } => {
                self.lines.print_fate(None, path, kind, Some(SyncFate::Deleted));
            }
            Event::Listed { path, entry } => self.lines.list(path, entry),
            Event::Warning { side, path, message } if self.report.shows_warnings() => {
                let job_paths = self.job_paths.lock();
                let host =
                    job_paths.host_of(path).map(|host| format!("{host}:")).unwrap_or_default();
                let path = [host.as_bytes(), path].concat();
                match side {
                    Some(Side::Destination) => self.report.destination_warning(&path, message),
                    _ => self.report.warning(&path, message),
                }
            }
            Event::Link(notice) => {
                if matches!(notice, LinkEvent::Lost { .. }) {
                    self.lines.release_all();
                }
                self.report.link(notice);
            }
            Event::Moved { path, renamed } => self.print_moved(path, renamed),
            Event::Stays { path, at, fault, is_copied } => {
                let at = self.fault_location(path, at, fault.side);
                match is_copied {
                    true => self.report.not_removed(path, &at, fault),
                    false => self.report.entry_fault(path, &at, fault),
                }
            }
            Event::Made { path, dirs } if self.lines.format.prints_created => {
                let line = lines::created_line(path, dirs, self.task.mirrors());
                self.lines.print(&line);
            }
            // Removals are reported only by a job that removes its sources.
            Event::Extra { .. }
            | Event::Warning { .. }
            | Event::Removed { .. }
            | Event::Made { .. } => {}
        }
    }

    fn listed(&self, number: u64, entry: &Entry) {
        self.lines.listed(number, entry);
    }

    fn shows(&self, kind: &Kind, outcome: &Outcome) -> bool {
        let has_other_line =
            || self.fate(outcome).is_some_and(|fate| self.lines.is_logged_or_backed_up(kind, fate));
        self.includes(kind, outcome) || has_other_line()
    }

    fn wants_hashes(&self) -> bool {
        self.lines.wants_hashes()
    }

    fn hashed(&self, number: u64, hash: ContentHash) {
        self.lines.hashed(number, hash);
    }

    fn cancelled(&self) -> bool {
        let is_unread = || self.is_for_output && self.report.output().is_broken();
        self.interrupt.is_set() || self.is_expired() || is_unread()
    }
}

/// The line about an entry that differs between both sides. `found` is `None` if only the
/// destination has it.
fn difference_line(path: &[u8], kind: &Kind, found: Option<Changes>) -> String {
    let slash = if *kind == Kind::Dir { "/" } else { "" };
    let path = escape_bytes(path);
    match found {
        None => format!("extra     {path}{slash}\n"),
        Some(found) if found.has(Changes::MISSING) => format!("missing   {path}{slash}\n"),
        Some(found) => {
            let words: Vec<_> = found.words().collect();
            format!("differs   {path}{slash} ({})\n", words.join(", "))
        }
    }
}

/// Passes warnings and events of connections on to the monitor of the command, and all other events
/// to a function.
pub(crate) struct SideMonitor<'m, F> {
    monitor: &'m dyn Monitor,
    progress: &'m Progress,
    shows: fn(&Outcome) -> bool,
    on_event: F,
}

impl<'m, F: Fn(Event<'_>) + Sync> SideMonitor<'m, F> {
    /// Creates the monitor of a job that counts in `progress`. `shows` selects the outcomes that are
    /// events.
    pub(crate) fn new(
        monitor: &'m dyn Monitor,
        progress: &'m Progress,
        shows: fn(&Outcome) -> bool,
        on_event: F,
    ) -> Self {
        Self { monitor, progress, shows, on_event }
    }
}

impl<F: Fn(Event<'_>) + Sync> Monitor for SideMonitor<'_, F> {
    fn progress(&self) -> &Progress {
        self.progress
    }

    fn event(&self, event: Event<'_>) {
        match event {
            Event::Warning { .. } | Event::Link(_) => self.monitor.event(event),
            event => (self.on_event)(event),
        }
    }

    fn shows(&self, _: &Kind, outcome: &Outcome) -> bool {
        (self.shows)(outcome)
    }

    fn cancelled(&self) -> bool {
        self.monitor.cancelled()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::Screen;
    use crate::report::Detail;
    use haul::JobObserver;
    use haul_engine::{Job, Route, RoutedJob};
    use haul_model::{Conflict, Kept, Mirror, Policy, Sameness};
    use std::time::{Duration, SystemTime};

    #[test]
    fn finished_files_are_skipped_only_where_they_are_found_unchanged() {
        let policy = |conflict, keeps| Policy { conflict, keeps, ..Policy::default() };
        let times = Kept::OF_COPIES;
        let timeless = times.without(Kept::TIMES);
        let mirror = |sameness| Mirror { sameness, ..Mirror::default() };
        let report = Report::new(Detail::Text(Show::Quiet), &Screen::default());
        for (task, skips) in [
            (Task::Copy(policy(Conflict::ReplaceChanged, times)), true),
            (Task::Copy(policy(Conflict::ReplaceAll, times)), false),
            (
                Task::Sync(policy(Conflict::ReplaceChanged, times), mirror(Sameness::SizeAndTime)),
                true,
            ),
            (Task::Sync(policy(Conflict::ReplaceAll, times), mirror(Sameness::SizeAndTime)), false),
            (
                Task::Sync(
                    policy(Conflict::ReplaceChanged, timeless),
                    mirror(Sameness::SizeAndTime),
                ),
                false,
            ),
            (Task::Sync(policy(Conflict::Keep, timeless), mirror(Sameness::SizeAndTime)), true),
            (Task::Sync(policy(Conflict::ReplaceChanged, timeless), mirror(Sameness::Size)), true),
        ] {
            let monitor = JobMonitor::new(&report, task, Interrupt::default());
            let hints = monitor.interrupted().hints.concat();
            assert_eq!(hints.contains("files are skipped"), skips, "{task:?}");
        }
    }

    #[test]
    fn jobs_end_when_their_time_is_over() {
        let report = Report::new(Detail::Text(Show::Quiet), &Screen::default());
        let monitor = |deadline| {
            let monitor = JobMonitor::new(&report, Task::default(), Interrupt::default());
            JobMonitor { deadline: Some(deadline), ..monitor }
        };
        let (now, hour) = (Instant::now(), Duration::from_secs(3600));
        let clock = SystemTime::now();
        assert!(!Monitor::cancelled(&monitor(Deadline::Passed(now + hour))));
        assert!(!Monitor::cancelled(&monitor(Deadline::Clock(clock + hour))));
        assert!(Monitor::cancelled(&monitor(Deadline::Clock(clock))));
        let over = monitor(Deadline::Passed(now));
        assert!(Monitor::cancelled(&over));
        assert_eq!(over.interrupted().kind, ErrorKind::OutOfTime);
        assert_eq!(ErrorKind::OutOfTime.exit_code().number(), 30);
    }

    #[test]
    fn totals_are_not_final_while_jobs_are_to_come() {
        let report = Report::new(Detail::Text(Show::Quiet), &Screen::default());
        let monitor = JobMonitor::new(&report, Task::default(), Interrupt::default());
        let routed_job = RoutedJob { job: Job::default(), route: Route::Local };
        monitor.begins(&routed_job, true);
        monitor.progress.listed_all.store(true, Ordering::Relaxed);
        assert!(!monitor.counts().listed_all);
        monitor.begins(&routed_job, false);
        assert!(!monitor.counts().listed_all);
        monitor.progress.listed_all.store(true, Ordering::Relaxed);
        assert!(monitor.counts().listed_all);
    }

    #[test]
    fn lines_say_how_it_differs() {
        let file = Kind::File { size: 3 };
        let missing = Changes::MISSING.with(Changes::ABOVE);
        let other = Changes::SIZE.with(Changes::TIME).with(Changes::CONTENT);
        let lines = [
            difference_line(b"a\n", &file, Some(other)),
            difference_line(b"d", &Kind::Dir, Some(missing)),
            difference_line(b"\xff", &Kind::Dir, None),
        ];
        insta::assert_snapshot!(lines.concat(), @r"
        differs   a\n (size, time, content)
        missing   d/
        extra     \xff/
        ");
    }
}
