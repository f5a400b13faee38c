//! Hands on what jobs tell while they run.

use crate::error::{CommandError, ErrorKind};
use crate::hint;
use crate::interrupt::Interrupt;
use crate::json::{Found, OutcomeWord};
use crate::lines::{self, Itemized, Lines, Listed, ListedLine, SyncFate};
use crate::progress::{Answers, Counts, Paced};
use crate::quantity;
use crate::report::{LogFile, Report, Statement};
use crate::until::Until;
use haul::Machine;
use haul_engine::{
    At, Event, Leg, LinkEvent, Monitor, Outcome, Progress, Route, Skip, Summary, Unfinished,
};
use haul_model::{
    Attributes, Changes, ContentHash, Entry, Fault, FaultKind, Kept, Kind, Side, Special, Task,
    Timestamp, escape_bytes, escape_octal,
};
use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

mod compared;
mod ends;
mod fate;
mod moved;
mod order;
mod removal;

use self::compared::{Difference, Same};
use self::ends::{Ends, Located};
use self::fate::{CopyFate, UnsafeLink, passed_over};
use self::moved::Moved;
use self::order::Order;
pub(crate) use self::removal::SourceRemoval;

/// How often output is written and the progress line drawn.
pub(crate) const TICK: Duration = Duration::from_millis(100);

/// Differences that a comparison names without `-v`, at most.
const NAMED_MAX: u64 = 20;

/// The monitor of one command, for all of its jobs, which run one after the other.
pub(crate) struct JobMonitor<'r> {
    report: &'r dyn Report,
    /// The task of the jobs.
    task: Task,
    interrupt: Interrupt,
    /// The time at which jobs end, whatever is left to do.
    until: Option<Until>,
    progress: Progress,
    /// The figures of the jobs before this one.
    before: Mutex<Summary>,
    /// How a mirror tells of entries.
    lines: Lines,
    /// Listed entries by their numbers, as far as lines show them.
    listed: Mutex<HashMap<u64, Listed>>,
    /// Lines that wait for those of earlier entries.
    order: Mutex<Order>,
    /// Where they are told of, too.
    log: Option<Arc<LogFile>>,
    /// Entries of a mirror go to another machine.
    goes_out: AtomicBool,
    /// Entries that were gone when they were read.
    vanished: AtomicU64,
    /// Others of the sources that could not be read.
    unread: AtomicU64,
    /// Differences that a comparison has found.
    differences: AtomicU64,
    /// The sources and the destination of the job that runs.
    ends: Mutex<Ends>,
    /// True while a job is running, and may draw.
    running: Mutex<bool>,
    /// Further jobs will add to the totals.
    more_to_come: AtomicBool,
}

impl<'r> JobMonitor<'r> {
    /// A monitor of jobs with that task, which tells `report`.
    pub(crate) fn new(report: &'r dyn Report, task: Task, interrupt: Interrupt) -> Self {
        Self {
            report,
            task,
            interrupt,
            until: None,
            lines: Lines::default(),
            listed: Mutex::default(),
            order: Mutex::default(),
            log: None,
            goes_out: AtomicBool::new(false),
            vanished: AtomicU64::new(0),
            unread: AtomicU64::new(0),
            differences: AtomicU64::new(0),
            progress: Progress::default(),
            before: Mutex::default(),
            ends: Mutex::default(),
            running: Mutex::new(false),
            more_to_come: AtomicBool::new(false),
        }
    }

    /// The same, which tells of entries of a mirror by `lines`.
    pub(crate) fn with_lines(self, lines: Lines) -> Self {
        Self { lines, ..self }
    }

    /// The same, which tells of them in `log`, too.
    pub(crate) fn with_log(self, log: Option<Arc<LogFile>>) -> Self {
        Self { log, ..self }
    }

    /// The same, whose jobs end at that time.
    pub(crate) fn until(self, until: Option<Until>) -> Self {
        Self { until, ..self }
    }

    /// True if the time of the jobs is over.
    fn is_over(&self) -> bool {
        self.until.is_some_and(Until::is_over)
    }

    /// The entries of the sources that were gone when they were read. They have failed.
    pub(crate) fn vanished(&self) -> u64 {
        self.vanished.load(Ordering::Relaxed)
    }

    /// The entries of the sources that could not be read, but for those that had vanished.
    pub(crate) fn unread(&self) -> u64 {
        self.unread.load(Ordering::Relaxed)
    }

    /// Prints how many differences were not named.
    pub(crate) fn tell_unnamed(&self) {
        let found = self.differences.load(Ordering::Relaxed);
        if let more @ 1.. = found.saturating_sub(NAMED_MAX) {
            let more = quantity::count(more);
            self.report.tell(&format!("and {more} more; -v lists all\n"));
        }
    }

    /// Names a difference, or counts it where enough are named.
    fn tell_difference(&self, difference: &Difference<'_>) {
        let same = Outcome::Skipped(Skip::Unchanged);
        let names_all =
            !self.report.is_text() || self.report.shows(&self.task, &Kind::File { size: 0 }, &same);
        if names_all || self.differences.fetch_add(1, Ordering::Relaxed) < NAMED_MAX {
            self.report.tell(difference);
        }
    }

    /// The job of `leg` begins; `more` if others follow it.
    pub(crate) fn begin(&self, leg: &Leg<Machine>, more: bool) {
        self.more_to_come.store(more, Ordering::Relaxed);
        self.progress.begin();
        self.goes_out
            .store(matches!(leg.route, Route::Upload(_) | Route::Between(..)), Ordering::Relaxed);
        self.locate_by(leg);
        *self.order() = Order::default();
        *self.before() = self.progress.summary();
        *self.running() = true;
    }

    /// The job has ended. Gives its figures, those of one that ended early, too.
    pub(crate) fn end(&self) -> Summary {
        *self.running() = false;
        self.order().give_up(|line| self.lines.print(line, self.report));
        self.report.progress(None);
        self.progress.summary().since(*self.before())
    }

    /// Writes output and shows progress until the other end of `stop` is dropped.
    pub(crate) fn tick_until(&self, stop: &Receiver<()>) {
        let mut answers = Answers::new();
        let begun = Instant::now();
        let mut paced = self.prints_progress().then(|| Paced::new(&self.counts()));
        while stop.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
            if self.report.draws() {
                self.order().tick(|line| self.lines.print(line, self.report));
            }
            self.report.flush();
            // Held while drawing, so that nothing is drawn after `end`.
            let running = self.running();
            if *running {
                self.report.progress(Some(self.counts()));
            }
            if let Some(line) =
                paced.as_mut().and_then(|paced| paced.line(begun.elapsed(), &self.counts()))
            {
                self.report.tell(&line);
            }
            if let Some(line) = answers.line(|| self.counts()) {
                self.report.answer(&line);
            }
        }
        if let Some(line) =
            paced.and_then(|mut paced| paced.last_line(begun.elapsed(), &self.counts()))
        {
            self.report.tell(&line);
        }
    }

    /// True if lines of progress are printed beside what is told of entries.
    fn prints_progress(&self) -> bool {
        let is_wanted = self.lines.tells_progress() && !self.task.keeps_destination();
        is_wanted && Paced::is_needed(self.report.draws())
    }

    /// The error of a user's interruption, or of the end of the time, with what is kept of a
    /// large file.
    pub(crate) fn interrupted(&self) -> CommandError {
        if self.is_over() && !self.interrupt.happened() {
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

    /// The report, to say something beside events.
    pub(crate) fn report(&self) -> &'r dyn Report {
        self.report
    }

    /// Faults of entries are those of the job of `leg` from now on.
    pub(crate) fn locate_by(&self, leg: &Leg<Machine>) {
        *self.ends.lock() = Ends::of(leg);
    }

    /// Where the thing is that a fault on that side is about.
    fn place_of(&self, path: &[u8], at: At<'_>, side: Side) -> Located {
        match at {
            At::Named { host, path } => (host.map(str::to_owned), path.to_vec()),
            At::Entry(naming) => {
                let ends = self.ends.lock();
                ends.locate(side, path, naming)
            }
        }
    }

    fn before(&self) -> MutexGuard<'_, Summary> {
        self.before.lock()
    }

    fn order(&self) -> MutexGuard<'_, Order> {
        self.order.lock()
    }

    /// True if lines about entries come in the order of the listing.
    fn is_ordered(&self) -> bool {
        self.task.mirrors().is_some() && self.report.is_text() && self.lines.has_any()
    }

    /// Prints a line about the entry of that number, in its turn.
    fn tell_in_order(&self, number: Option<u64>, line: &dyn Statement) {
        match number.filter(|_| self.is_ordered()) {
            Some(number) => self.order().hold(number, line),
            None => self.lines.print(line, self.report),
        }
    }

    fn running(&self) -> MutexGuard<'_, bool> {
        self.running.lock()
    }

    /// How far the jobs are.
    pub(crate) fn counts(&self) -> Counts {
        let mut counts = Counts::of(&self.progress);
        counts.listed_all &= !self.more_to_come.load(Ordering::Relaxed);
        counts
    }

    fn checks(&self) -> bool {
        matches!(self.task, Task::Check { .. })
    }

    /// The listed entry with this number, which is no longer needed after that. As with rsync, what
    /// is removed has no attributes.
    fn take_listed(&self, number: Option<u64>) -> Listed {
        let mut of = self.listed.lock();
        let kept = self.task.keeps();
        let none = || Listed {
            attributes: Attributes::new(0, Timestamp { secs: 0, nanos: 0 }),
            is_device: false,
            hash: None,
        };
        let listed = number.and_then(|number| of.remove(&number)).unwrap_or_else(none);
        let attributes = Attributes {
            user: listed.attributes.user.filter(|_| kept.has(Kept::USER)),
            group: kept.has(Kept::GROUP).then(|| listed.attributes.group.unwrap_or_default()),
            ..listed.attributes
        };
        Listed { attributes, ..listed }
    }

    /// True if a line has attributes of its entry.
    fn wants_attributes(&self) -> bool {
        self.lines.wants_attributes() || self.log.as_ref().is_some_and(|log| log.wants_attributes())
    }

    /// True if a line has the hash of its entry.
    fn shows_hashes(&self) -> bool {
        self.lines.wants_hashes() || self.log.as_ref().is_some_and(|log| log.wants_hashes())
    }

    /// Tells of an entry of a mirror.
    fn line(
        &self,
        number: Option<u64>,
        path: &[u8],
        kind: &Kind,
        listed: &Listed,
        fate: SyncFate<'_>,
    ) {
        let goes_out = self.goes_out.load(Ordering::Relaxed);
        let line = Itemized { lines: &self.lines, path, kind, listed, fate, goes_out };
        self.tell_in_order(number, &line);
    }

    /// Reports the backup of an entry, if it got one and lines report those.
    fn tell_backup(&self, number: Option<u64>, path: &[u8], kind: &Kind, fate: SyncFate<'_>) {
        if self.lines.tell_backup(kind, fate) {
            self.tell_in_order(number, &self.lines.backup_line(path));
        }
    }

    /// Tells of an entry in the log, if there is one.
    fn log(&self, path: &[u8], kind: &Kind, listed: &Listed, fate: SyncFate<'_>) {
        if let Some(log) = self.log.as_ref().filter(|log| log.tells(kind, fate)) {
            log.entry(path, kind, listed, fate, self.goes_out.load(Ordering::Relaxed));
        }
    }

    /// The fate by which a mirror tells of an outcome, if it may.
    fn fate<'o>(&self, outcome: &'o Outcome) -> Option<SyncFate<'o>> {
        self.task.mirrors()?;
        Some(match outcome {
            Outcome::Synced(found) => SyncFate::Synced(*found),
            Outcome::Linked { found, first } => SyncFate::Linked(*found, first),
            Outcome::Skipped(Skip::Unchanged) => SyncFate::Synced(Changes::default()),
            _ => return None,
        })
    }

    /// The same, if it does.
    fn synced<'o>(&self, kind: &Kind, outcome: &'o Outcome) -> Option<SyncFate<'o>> {
        let fate = self.fate(outcome)?;
        (!self.report.is_text() || self.lines.tell(kind, fate)).then_some(fate)
    }

    /// Tells that an entry has failed, and where it is.
    fn fails(&self, path: &[u8], fault: &Fault) {
        let naming = At::Entry(self.progress.naming());
        let (host, there) = self.place_of(path, naming, fault.side);
        self.report.entry_fault(path, host, &there, fault);
    }

    /// True if an outcome is told of beside the log.
    fn tells(&self, kind: &Kind, outcome: &Outcome) -> bool {
        match (self.task.mirrors(), outcome) {
            (Some(_), Outcome::Failed(_)) => true,
            (Some(_), Outcome::Skipped(Skip::Special)) => self.report.warns(),
            (Some(mirror), Outcome::Skipped(Skip::Ruled)) => {
                let is_link = matches!(kind, Kind::Symlink { .. });
                is_link && mirror.safe_links && self.lines.tells_unsafe() && self.report.is_text()
            }
            (Some(_), Outcome::Skipped(Skip::Exists | Skip::NotOlder)) => {
                self.lines.tells_skipped() && self.report.is_text()
            }
            (Some(_), _) => self.synced(kind, outcome).is_some(),
            (None, _) => self.report.shows(&self.task, kind, outcome),
        }
    }

    /// Counts a source that could not be read, or vanished.
    fn count_unread(&self, path: &[u8], kind: FaultKind) {
        if kind != FaultKind::NotFound {
            self.unread.fetch_add(1, Ordering::Relaxed);
        } else if !self.ends.lock().is_source(path) {
            // A source that was never there is no reason to hold anything back, either.
            self.vanished.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn entry(&self, number: Option<u64>, path: &[u8], kind: &Kind, outcome: &Outcome) {
        let listed = &self.take_listed(number);
        if let Some(fate) = self.fate(outcome) {
            self.log(path, kind, listed, fate);
            self.tell_backup(number, path, kind, fate);
        }
        if let Some(fate) = self.synced(kind, outcome) {
            return self.line(number, path, kind, listed, fate);
        }
        if !self.tells(kind, outcome) {
            return;
        }
        if let Outcome::Failed(Fault { side: Side::Source, kind, .. }) = outcome {
            self.count_unread(path, *kind);
        }
        let grew = *outcome == Outcome::Grew;
        let linked_to = match outcome {
            Outcome::Linked { first, .. } => Some(&**first),
            _ => None,
        };
        let differed = match outcome {
            Outcome::Synced(found) => *found,
            _ => Changes::default(),
        };
        let is_dry = self.task.keeps_destination();
        let fate = |outcome, skip| {
            self.report.tell(&CopyFate { path, kind, outcome, skip, grew, differed, linked_to });
        };
        match outcome {
            Outcome::Failed(fault) => {
                self.fails(path, fault);
            }
            Outcome::Copied | Outcome::Grew => fate(OutcomeWord::Copied, None),
            // What was linked before is as it was.
            Outcome::Linked { first, .. } if first.is_empty() => {
                fate(OutcomeWord::Skipped, Some(Skip::Unchanged));
            }
            Outcome::Linked { .. } if is_dry => fate(OutcomeWord::WouldLink, None),
            Outcome::Linked { .. } => fate(OutcomeWord::Linked, None),
            Outcome::WouldCopy => fate(OutcomeWord::WouldCopy, None),
            Outcome::Differs(found) => {
                self.tell_difference(&Difference { path, kind, found: Found::Differs(*found) });
            }
            Outcome::Skipped(Skip::Special) if self.checks() => {
                self.report.warning(path, "not compared: copy skips it");
            }
            Outcome::Skipped(_) if self.checks() => self.report.tell(&Same { path }),
            // Lines of rsync tell of it, or none do.
            Outcome::Synced(_) if self.task.mirrors().is_some() => {}
            Outcome::Synced(_) if is_dry => fate(OutcomeWord::WouldUpdate, None),
            Outcome::Synced(_) => fate(OutcomeWord::Updated, None),
            Outcome::Skipped(Skip::Special) if self.task.mirrors().is_some() => {
                self.report.warning(path, lines::left_out(kind));
            }
            Outcome::Skipped(Skip::Ruled) if self.task.mirrors().is_some() => {
                // A part that only removes skips every entry: another part reports the link. A link
                // that is skipped for another reason is not reported.
                let copies = self.task.mirrors().is_some_and(|of| !of.part.only_removes());
                if let Some(link) = UnsafeLink::of(path, kind).filter(|_| copies) {
                    self.tell_in_order(number, &link);
                }
            }
            Outcome::Skipped(skip @ (Skip::Exists | Skip::NotOlder))
                if self.task.mirrors().is_some() =>
            {
                let why = if *skip == Skip::Exists { "exists" } else { "is newer" };
                self.tell_in_order(number, &format!("{} {why}\n", escape_octal(path)));
            }
            Outcome::Skipped(skip) => {
                fate(OutcomeWord::Skipped, Some(*skip));
                if *skip == Skip::Special {
                    self.report.warning(path, passed_over(kind));
                }
            }
        }
    }
}

impl Monitor for JobMonitor<'_> {
    fn progress(&self) -> &Progress {
        &self.progress
    }

    fn event(&self, event: Event<'_>) {
        match event {
            Event::Entry { number, path, kind, outcome } => {
                self.entry(number, path, kind, outcome);
                if let Some(number) = number.filter(|_| self.is_ordered()) {
                    self.order().done(number, |line| self.lines.print(line, self.report));
                }
            }
            Event::Extra { path, kind } if self.checks() && self.report.warns() => {
                self.tell_difference(&Difference { path, kind, found: Found::Extra });
            }
            Event::Deleted { path, kind } => {
                let listed = &self.take_listed(None);
                self.log(path, kind, listed, SyncFate::Deleted);
                self.tell_backup(None, path, kind, SyncFate::Deleted);
                if !self.report.is_text() || self.lines.tell(kind, SyncFate::Deleted) {
                    self.line(None, path, kind, listed, SyncFate::Deleted);
                }
            }
            Event::Listed { path, entry } => {
                let listed = ListedLine { columns: self.lines.columns(), path, entry };
                if let Some(log) = &self.log {
                    log.lines(&String::from_utf8_lossy(&listed.text()));
                }
                self.lines.print(&listed, self.report);
            }
            Event::Warning { side, path, message } if self.report.warns() => {
                let ends = self.ends.lock();
                let host = ends.host_of(path).map(|host| format!("{host}:")).unwrap_or_default();
                let path = [host.as_bytes(), path].concat();
                match side {
                    Some(Side::Destination) => self.report.warning_there(&path, message),
                    _ => self.report.warning(&path, message),
                }
            }
            Event::Link(news) => {
                if matches!(news, LinkEvent::Lost { .. }) {
                    self.order().give_up(|line| self.lines.print(line, self.report));
                }
                self.report.link(news);
            }
            Event::Moved { path, renamed } => self.report.tell(&Moved { path, renamed }),
            Event::Stays { path, at, fault, is_copied } => {
                let (host, there) = self.place_of(path, at, fault.side);
                match is_copied {
                    true => self.report.not_removed(path, host, &there, fault),
                    false => self.report.entry_fault(path, host, &there, fault),
                }
            }
            Event::Made { path, dirs } if self.lines.tells_made() => {
                let line = lines::made(path, dirs, self.task.mirrors());
                self.lines.print(&line, self.report);
            }
            // Only a job that removes its sources tells of what was removed.
            Event::Extra { .. }
            | Event::Warning { .. }
            | Event::Removed { .. }
            | Event::Made { .. } => {}
        }
    }

    fn listed(&self, number: u64, entry: &Entry) {
        if self.is_ordered() {
            self.order().listed(number);
        }
        let is_device = matches!(entry.special, Some(Special::Block(_) | Special::Char(_)));
        if is_device || self.wants_attributes() || self.shows_hashes() {
            let Attributes { mode, mtime, user, group, .. } = entry.attributes;
            let attributes = Attributes { user, group, ..Attributes::new(mode, mtime) };
            let mut listed = self.listed.lock();
            listed.insert(number, Listed { attributes, is_device, hash: None });
        }
    }

    fn shows(&self, kind: &Kind, outcome: &Outcome) -> bool {
        let is_backed_up =
            || self.fate(outcome).is_some_and(|fate| self.lines.tell_backup(kind, fate));
        let is_logged = || {
            let fate = self.log.as_ref().and_then(|log| Some((log, self.fate(outcome)?)));
            fate.is_some_and(|(log, fate)| log.tells(kind, fate))
        };
        self.tells(kind, outcome) || is_logged() || is_backed_up()
    }

    fn wants_hashes(&self) -> bool {
        self.shows_hashes()
    }

    fn hashed(&self, number: u64, hash: ContentHash) {
        let mut listed = self.listed.lock();
        if let Some(listed) = listed.get_mut(&number) {
            listed.hash = Some(hash);
        }
    }

    fn cancelled(&self) -> bool {
        self.interrupt.happened() || self.is_over()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::Screen;
    use crate::report::{Detail, Show};
    use haul_engine::{Job, Route};
    use haul_model::{Conflict, Mirror, Policy, Sameness};
    use std::time::SystemTime;

    #[test]
    fn finished_files_are_skipped_only_where_they_are_found_unchanged() {
        let policy = |conflict, keeps| Policy { conflict, keeps, ..Policy::default() };
        let times = Kept::OF_COPIES;
        let timeless = times.without(Kept::TIMES);
        let mirror = |sameness| Mirror { sameness, ..Mirror::default() };
        let report = Detail::Text(Show::Quiet).report(&Screen::default());
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
            let monitor = JobMonitor::new(&*report, task, Interrupt::default());
            let hints = monitor.interrupted().hints.concat();
            assert_eq!(hints.contains("files are skipped"), skips, "{task:?}");
        }
    }

    #[test]
    fn jobs_end_when_their_time_is_over() {
        let report = Detail::Text(Show::Quiet).report(&Screen::default());
        let monitor = |until| {
            JobMonitor::new(&*report, Task::default(), Interrupt::default()).until(Some(until))
        };
        let (now, hour) = (Instant::now(), Duration::from_secs(3600));
        let clock = SystemTime::now();
        assert!(!Monitor::cancelled(&monitor(Until::Passed(now + hour))));
        assert!(!Monitor::cancelled(&monitor(Until::Clock(clock + hour))));
        assert!(Monitor::cancelled(&monitor(Until::Clock(clock))));
        let over = monitor(Until::Passed(now));
        assert!(Monitor::cancelled(&over));
        assert_eq!(over.interrupted().kind, ErrorKind::OutOfTime);
        assert_eq!(ErrorKind::OutOfTime.exit_code().number(), 30);
    }

    #[test]
    fn totals_are_not_final_while_jobs_are_to_come() {
        let report = Detail::Text(Show::Quiet).report(&Screen::default());
        let monitor = JobMonitor::new(&*report, Task::default(), Interrupt::default());
        let leg = Leg { job: Job::default(), route: Route::Local };
        monitor.begin(&leg, true);
        monitor.progress.listed_all.store(true, Ordering::Relaxed);
        assert!(!monitor.counts().listed_all);
        monitor.begin(&leg, false);
        assert!(!monitor.counts().listed_all);
        monitor.progress.listed_all.store(true, Ordering::Relaxed);
        assert!(monitor.counts().listed_all);
    }
}
