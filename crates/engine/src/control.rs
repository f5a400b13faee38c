//! The state of a running job on this side: whether it continues, its end, and its events.

use crate::monitor::{Counter, LinkEvent};
use crate::throttle::{Precedence, Throttle};
use crate::watchdog::{AnswerTimer, Watch, Watchdog};
use crate::{Event, JobError, Monitor, Progress};
use haul_ledger::Position;
use haul_model::{ContentHash, Entry, Fault, Kind, Naming, Outcome, Side, Summary, words};
use haul_net::Killer;
use haul_proto::{Extra, Late, Named, Warning};
use haul_store::RESUME_LEN_MIN_REMOTE;
use parking_lot::{Condvar, Mutex};
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The interval at which a waiting thread checks for the user's interruption.
pub(crate) const CANCEL_POLL: Duration = Duration::from_millis(50);

/// Minimum number of checks whether a peer's last message was read, after writing to it failed.
/// Time is not measured instead, because the process may be stopped meanwhile.
const LINGER_CHECKS: u32 = 250;

/// The interval of these checks. All together take a second.
const LINGER_POLL: Duration = Duration::from_millis(4);

/// The reason not to continue after a lost connection.
const OTHER_SOURCE: &str = "the source is another directory than before, or its host has restarted: not continuing, because a file system may not be mounted; check the source, and run the same command again";

/// The connection of a job, which may end before the job.
pub(crate) trait Lifeline: Send + Sync {
    /// True once it has ended.
    fn is_lost(&self) -> bool;

    /// The reason, if it has ended.
    fn error(&self) -> Option<JobError>;

    /// A number that changes whenever data moves on the connection; `None` while no answer is
    /// awaited.
    fn activity_awaited(&self) -> Option<u64>;
}

/// Shared by all threads of a job.
pub(crate) struct Control<'a> {
    monitor: &'a dyn Monitor,
    stop: AtomicBool,
    lifeline: Option<Arc<dyn Lifeline>>,
    /// The peer at the other end of a wire, which may fall silent, and its name.
    peer: Option<(Arc<Watchdog>, String)>,
    /// The second peer, if two peers exchange frames through this process.
    other_peer: Option<(Arc<Watchdog>, String)>,
    /// Further connections to the peer, and the handles that end them.
    lanes: Mutex<Vec<(Watch, Killer)>>,
    /// See [`Self::finish_reading`].
    finishes_reading: AtomicBool,
    /// See [`Self::limit_rate`].
    throttle: OnceLock<Throttle>,
    end: Mutex<Option<Result<Summary, JobError>>>,
    ended: Condvar,
}

impl<'a> Control<'a> {
    pub(crate) fn new(monitor: &'a dyn Monitor) -> Self {
        Self {
            monitor,
            stop: AtomicBool::new(false),
            lifeline: None,
            peer: None,
            other_peer: None,
            lanes: Mutex::default(),
            finishes_reading: AtomicBool::new(false),
            throttle: OnceLock::new(),
            end: Mutex::new(None),
            ended: Condvar::new(),
        }
    }

    /// A control for a job that ends when its `lifeline` is lost.
    pub(crate) fn over(monitor: &'a dyn Monitor, lifeline: Arc<dyn Lifeline>) -> Self {
        Self { lifeline: Some(lifeline), ..Self::new(monitor) }
    }

    /// A control for a job with a `peer`, which ends when the peer is silent.
    pub(crate) fn with(monitor: &'a dyn Monitor, watchdog: &Arc<Watchdog>, peer: &str) -> Self {
        Self { peer: Some((Arc::clone(watchdog), peer.to_owned())), ..Self::new(monitor) }
    }

    /// A control for a job whose two peers exchange frames through this process. The first peer is
    /// the one that reports the end.
    pub(crate) fn between(monitor: &'a dyn Monitor, peers: [(&Arc<Watchdog>, &str); 2]) -> Self {
        let [(watchdog, name), (other, other_name)] = peers;
        let other_peer = Some((Arc::clone(other), other_name.to_owned()));
        Self { other_peer, ..Self::with(monitor, watchdog, name) }
    }

    /// Limits the bytes of content per second that the job transfers.
    pub(crate) fn limit_rate(&self, rate: NonZeroU64) {
        // A job has one limit.
        let _ = self.throttle.set(Throttle::of(rate));
    }

    /// The most bytes to transfer at once.
    pub(crate) fn step(&self) -> usize {
        self.throttle.get().map_or(usize::MAX, Throttle::step)
    }

    /// The most bytes of a file to copy in one part on one machine, or to send in one frame.
    pub(crate) fn part(&self) -> u64 {
        self.throttle.get().map_or(u64::MAX, Throttle::part)
    }

    /// Waits until `len` transferred bytes are within the limit, or the job ends. Contents with
    /// lower ranks were started earlier, and come first.
    pub(crate) fn throttle(&self, len: u64, rank: u64) {
        if let Some(throttle) = self.throttle.get() {
            throttle.wait(len, rank, || !self.stopped());
        }
    }

    /// With a rate limit, waits until no file with a lower number is being copied on this machine,
    /// or the job ends.
    pub(crate) fn precedence(&self, number: u64) -> Option<Precedence<'_>> {
        self.throttle.get().map(|throttle| throttle.precedence(number, || !self.stopped()))
    }

    pub(crate) fn monitor(&self) -> &'a dyn Monitor {
        self.monitor
    }

    /// Records the names that the Receiver on another machine gives to entries. `dest` is the
    /// destination as the user wrote it.
    pub(crate) fn named(&self, named: Named, dest: &[u8]) {
        let progress = self.monitor.progress();
        // The first run of a retried job has already reported it.
        if progress.named().is_none() {
            self.report_created(named, dest);
        }
        progress.set_naming(named.naming);
    }

    /// Reports the directories that were created for the destination `dest`, if any.
    pub(crate) fn report_created(&self, named: Named, dest: &[u8]) {
        let Named { naming, dirs_created: dirs @ 1.. } = named else { return };
        let path = match naming {
            Naming::Given => words::split(dest).parent,
            Naming::Own => dest,
        };
        self.monitor.event(Event::Made { path, dirs });
    }

    /// True if threads should leave their loops.
    pub(crate) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.monitor.cancelled() || self.is_lost()
    }

    fn is_lost(&self) -> bool {
        self.lifeline.as_ref().is_some_and(|lifeline| lifeline.is_lost())
    }

    /// The reason why the connection has ended, if it has.
    pub(crate) fn lost(&self) -> Option<JobError> {
        self.lifeline.as_ref().and_then(|lifeline| lifeline.error())
    }

    /// Ends the job early. The first reason counts.
    pub(crate) fn fail(&self, error: JobError) {
        self.finish(Err(error));
    }

    /// Ends the job. Later ends are ignored.
    pub(crate) fn finish(&self, end: Result<Summary, JobError>) {
        let failed = end.is_err();
        tracing::debug!(?end, "the job ends");
        self.end.lock().get_or_insert(end);
        if failed {
            self.stop.store(true, Ordering::Relaxed);
        }
        self.ended.notify_all();
    }

    /// True if the job has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.end.lock().is_some() || self.stop.load(Ordering::Relaxed)
    }

    /// From now on, readers of a peer wait only for its next message, and for the monitor.
    pub(crate) fn finish_reading(&self) {
        self.finishes_reading.store(true, Ordering::Relaxed);
    }

    /// Waits for the peer's own reason to end, or its Done. It may have arrived but not been read,
    /// and the first reason counts.
    pub(crate) fn linger(&self) {
        self.linger_for(self.peer.as_ref().map(|(watchdog, _)| &**watchdog));
    }

    /// The same for the peer that `watchdog` listens to. After [`Self::finish_reading`], time in
    /// which the reader is busy does not count.
    pub(crate) fn linger_for(&self, watchdog: Option<&Watchdog>) {
        let mut checks = 0;
        while !self.stopped() && checks < LINGER_CHECKS {
            std::thread::sleep(LINGER_POLL);
            let finishes_reading = self.finishes_reading.load(Ordering::Relaxed);
            let is_held_up =
                finishes_reading && watchdog.is_some_and(|watchdog| !watchdog.is_waiting());
            checks += u32::from(!is_held_up);
        }
    }

    /// Watches a further connection to `peer`. `killer` ends it when it is silent.
    pub(crate) fn watch(&self, watchdog: &Arc<Watchdog>, peer: &str, killer: Killer) {
        self.lanes.lock().push((Watch::new(watchdog, peer), killer));
    }

    /// Waits for the end of the job or the user's interruption.
    pub(crate) fn wait(&self) -> Result<Summary, JobError> {
        let watch = |peer: &Option<(Arc<Watchdog>, String)>| {
            peer.as_ref().map(|(watchdog, peer)| Watch::new(watchdog, peer))
        };
        let (mut watch, mut other) = (watch(&self.peer), watch(&self.other_peer));
        let mut awaited = AnswerTimer::new();
        let mut end = self.end.lock();
        let result = loop {
            if let Some(result) = end.take() {
                break result;
            }
            if self.monitor.cancelled() {
                break Err(JobError::Interrupted);
            }
            if let Some(error) = self.lost() {
                break Err(error);
            }
            let silence = |watch: &mut Option<Watch>| watch.as_mut().and_then(Watch::silence);
            if let Some(error) = [&mut watch, &mut other].into_iter().find_map(silence) {
                break Err(error);
            }
            self.lanes.lock().retain_mut(|(watch, killer)| {
                let is_silent = watch.silence().is_some();
                if is_silent {
                    // The first kill only asks a process to end.
                    killer.kill();
                    killer.kill();
                }
                !is_silent
            });
            self.report_peer(watch.as_mut(), &mut awaited);
            self.ended.wait_for(&mut end, CANCEL_POLL);
        };
        self.stop.store(true, Ordering::Relaxed);
        // The peer may have greeted, and the job ended, since the last check.
        self.report_reached(watch.is_some_and(|watch| watch.is_greeted()));
        result
    }

    /// Reports to the monitor that the peer has greeted, if it `is_reached`.
    fn report_reached(&self, is_reached: bool) {
        let progress = self.monitor.progress();
        let is_new = is_reached && !progress.peer.reached.swap(true, Ordering::Relaxed);
        if is_new && progress.report_log.is_rerun() {
            progress.peer.asking.store(false, Ordering::Relaxed);
            self.monitor.event(Event::Link(LinkEvent::Reconnected));
        }
    }

    /// Reports to the monitor whether the peer has greeted, and how long it has been silent.
    fn report_peer(&self, watch: Option<&mut Watch>, awaited: &mut AnswerTimer) {
        let (reached, silent_for) = match (watch, &self.lifeline) {
            (Some(watch), _) => (watch.is_greeted(), watch.silent_for()),
            (None, Some(lifeline)) => (false, awaited.silent_for(lifeline.activity_awaited())),
            (None, None) => (true, Duration::ZERO),
        };
        let progress = self.monitor.progress();
        if !reached {
            progress.peer.reached.store(false, Ordering::Relaxed);
        }
        self.report_reached(reached);
        let silent_for = u64::try_from(silent_for.as_millis()).unwrap_or(u64::MAX);
        progress.peer.silent_ms.store(silent_for, Ordering::Relaxed);
    }
}

/// The progress of a copy since its last step, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CopyStep {
    /// Content was transferred.
    Moved(u64),
    /// A hole was passed, without a transfer.
    Passed(u64),
    /// Content was taken from an old version of the file, without a transfer.
    Matched(u64),
    /// Content was hashed for a comparison.
    Hashed(u64),
}

impl CopyStep {
    /// Its length in bytes, if it was taken from an old version.
    pub(crate) fn matched(self) -> u64 {
        if let Self::Matched(len) = self { len } else { 0 }
    }

    /// Its length in bytes.
    pub(crate) fn len(self) -> u64 {
        match self {
            Self::Moved(len) | Self::Passed(len) | Self::Matched(len) | Self::Hashed(len) => len,
        }
    }
}

/// Counts the results of a job and reports them to the monitor. A Sender has one only on the
/// user's side, where the Receiver is on another machine.
pub(crate) struct Reporter<'a> {
    monitor: &'a dyn Monitor,
    /// The figures of earlier jobs with this monitor.
    before: Summary,
}

impl<'a> Reporter<'a> {
    pub(crate) fn new(monitor: &'a dyn Monitor) -> Self {
        Self { monitor, before: monitor.progress().summary() }
    }

    /// Records the entry `number`. `place` overwrites the position of the previous entry.
    ///
    /// # Errors
    /// If the job must not continue: see [`ReportLog::is_same_dir`](haul_ledger::ReportLog).
    pub(crate) fn listed(
        &self,
        number: u64,
        entry: &Entry,
        place: impl FnOnce(&mut Position),
    ) -> Result<(), JobError> {
        let progress = self.monitor.progress();
        progress.report_log.listed(number, place);
        progress.entry_counts.found(entry);
        self.monitor.listed(number, entry);
        if let Kind::File { size } = entry.kind {
            progress.count(Counter::FilesTotal, 1);
            progress.count(Counter::BytesTotal, size);
        }
        match entry.kind == Kind::Dir && !progress.report_log.is_same_dir(entry.inode) {
            true => Err(JobError::Protocol(OTHER_SOURCE.to_owned())),
            false => Ok(()),
        }
    }

    /// Records that the content of file `number` was requested.
    pub(crate) fn wanted(&self, number: u64) {
        self.monitor.progress().report_log.wanted(number);
    }

    /// Records that the listing is complete.
    ///
    /// # Errors
    /// If the job must not end well: see [`ReportLog::listed_all`](haul_ledger::ReportLog).
    pub(crate) fn listed_all(&self) -> Result<(), JobError> {
        match self.monitor.progress().has_listed_all() {
            true => Ok(()),
            false => Err(JobError::Protocol(OTHER_SOURCE.to_owned())),
        }
    }

    /// Counts a step of a file as done.
    pub(crate) fn count_progress(&self, step: CopyStep) {
        self.count_work(step);
        self.is_done(step.len());
    }

    /// Counts the work of a step, which is not done yet.
    pub(crate) fn count_work(&self, step: CopyStep) {
        let progress = self.monitor.progress();
        let (counter, len) = match step {
            CopyStep::Moved(len) => (&progress.bytes_transferred, len),
            CopyStep::Matched(len) => (&progress.tally.bytes_matched, len),
            CopyStep::Hashed(len) => (&progress.bytes_hashed, len),
            CopyStep::Passed(_) => return,
        };
        Progress::add(counter, len);
    }

    /// Counts `len` bytes of content as done.
    pub(crate) fn is_done(&self, len: u64) {
        self.monitor.progress().count(Counter::BytesDone, len);
    }

    /// See [`Progress::keeps`].
    pub(crate) fn keeps(&self, index: u64, bytes: Option<u64>, path: impl FnOnce() -> Vec<u8>) {
        self.monitor.progress().keeps(index, bytes, path);
    }

    /// Records that the file at `path` is being processed.
    pub(crate) fn at(&self, path: impl FnOnce() -> Vec<u8>) {
        self.monitor.progress().at(path);
    }

    /// Counts `len` bytes of file `number` that exist from an earlier job, or an earlier run of
    /// this one.
    pub(crate) fn resumed(&self, number: u64, len: u64) {
        let progress = self.monitor.progress();
        progress.count(Counter::BytesDone, len);
        if !progress.report_log.is_doubtful(number) {
            Progress::add(&progress.tally.bytes_resumed, len);
        }
    }

    /// Takes back `len` resumed bytes that do not belong to this file. They will be transferred.
    pub(crate) fn uncount_resumed(&self, len: u64) {
        let progress = self.monitor.progress();
        Progress::subtract(&progress.bytes_done, len);
        Progress::subtract(&progress.tally.bytes_resumed, len);
    }

    /// Takes back `len` bytes from an old version that turned out useless.
    pub(crate) fn uncount_matched(&self, len: u64) {
        self.monitor.progress().tally.bytes_matched.fetch_sub(len, Ordering::Relaxed);
    }

    /// Takes back the counts of a file whose content is transferred again from its start: `counted`
    /// bytes, including the `resumed` ones.
    pub(crate) fn restart_file(&self, counted: u64, resumed: u64) {
        let progress = self.monitor.progress();
        Progress::subtract(&progress.bytes_done, counted);
        Progress::subtract(&progress.tally.bytes_resumed, resumed);
    }

    /// True if the monitor shows the hashes of files.
    pub(crate) fn wants_hashes(&self) -> bool {
        self.monitor.wants_hashes()
    }

    /// Reports the hash of file `number`, if it is known.
    pub(crate) fn hashed(&self, number: u64, hash: Option<ContentHash>) {
        if let Some(hash) = hash.filter(|_| self.wants_hashes()) {
            self.monitor.hashed(number, hash);
        }
    }

    /// Reports the outcome of entry `number`. `counted` bytes of it were already counted as done.
    /// `path` is called only if the monitor shows the path.
    pub(crate) fn outcome(
        &self,
        number: u64,
        path: impl Fn() -> Vec<u8>,
        kind: &Kind,
        counted: u64,
        outcome: &Outcome,
    ) {
        let progress = self.monitor.progress();
        let to_report = progress.report_log.outcome(number, &path, kind, outcome);
        if let Kind::File { size } = kind {
            progress.count(Counter::FilesDone, 1);
            progress.count(Counter::BytesDone, size.saturating_sub(counted));
            if *size >= RESUME_LEN_MIN_REMOTE && !matches!(outcome, Outcome::Failed(_)) {
                progress.forget_kept(&path());
            }
        }
        if let Some(outcome) = to_report {
            self.report_outcome(Some(number), path, kind, &outcome);
        }
    }

    /// Reports a failure of the directory at `path` after its outcome.
    pub(crate) fn late(&self, path: &[u8], fault: Fault) {
        if self.monitor.progress().report_log.late(path) {
            self.report_outcome(None, || path.to_vec(), &Kind::Dir, &Outcome::Failed(fault));
        }
    }

    fn report_outcome(
        &self,
        number: Option<u64>,
        path: impl Fn() -> Vec<u8>,
        kind: &Kind,
        outcome: &Outcome,
    ) {
        let progress = self.monitor.progress();
        progress.tally.count(kind, outcome);
        progress.entry_counts.count_outcome(kind, outcome);
        let shown = if self.monitor.shows(kind, outcome) { path() } else { Vec::new() };
        progress.at(path);
        self.monitor.event(Event::Entry { number, path: &shown, kind, outcome });
    }

    /// In a check: reports an entry that only the destination has.
    pub(crate) fn extra(&self, path: &[u8], kind: &Kind) {
        if !self.monitor.progress().report_log.extra(path) {
            return;
        }
        Progress::add(&self.monitor.progress().tally.extra, 1);
        self.monitor.event(Event::Extra { path, kind });
    }

    /// In a mirror: reports an extra that was removed, or would be in a dry run.
    pub(crate) fn deleted(&self, path: &[u8], kind: &Kind) {
        if !self.monitor.progress().report_log.extra(path) {
            return;
        }
        Progress::add(&self.monitor.progress().tally.deleted, 1);
        self.monitor.progress().entry_counts.removed(kind);
        self.monitor.event(Event::Deleted { path, kind });
    }

    /// Reports extras that the peer has found or removed.
    pub(crate) fn extras(&self, is_mirror: bool, extras: &[Extra]) {
        for Extra { path, kind } in extras {
            match is_mirror {
                true => self.deleted(path, kind),
                false => self.extra(path, kind),
            }
        }
    }

    /// Reports a warning about the destination.
    pub(crate) fn warning(&self, Warning { path, message }: &Warning) {
        self.monitor.event(Event::Warning { side: Some(Side::Destination), path, message });
    }

    /// Reports a failure after its outcome at the destination.
    pub(crate) fn report_late_at_dest(&self, Late { path, fault }: Late) {
        self.late(&path, Fault { side: Side::Destination, ..fault.clipped() });
    }

    /// The peer's figures, with at least the number of failures that were reported.
    pub(crate) fn with_failures(&self, summary: Summary) -> Summary {
        Summary { failed: summary.failed.max(self.summary().failed), ..summary }
    }

    /// In a mirror: counts an extra that stays because the limit of removals is reached.
    pub(crate) fn spared(&self) {
        Progress::add(&self.monitor.progress().tally.spared, 1);
    }

    /// In a mirror: counts a file that existed under another name and was not transferred.
    pub(crate) fn renamed(&self) {
        Progress::add(&self.monitor.progress().tally.renamed, 1);
    }

    /// The figures so far.
    pub(crate) fn summary(&self) -> Summary {
        self.monitor.progress().summary().since(self.before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::Silent;
    use haul_model::{Changes, FaultKind, Side, Skip};

    const FILE: Kind = Kind::File { size: 3 };

    #[test]
    fn each_job_has_its_own_figures() {
        let monitor = Silent::default();
        let fault = Fault::new(Side::Source, FaultKind::Io, "can't read");
        let missing = Changes::MISSING.with(Changes::ABOVE);
        let expected = Summary {
            copied: 2,
            dirs_created: 1,
            bytes: 6,
            bytes_transferred: 4,
            bytes_resumed: 1,
            skipped: 1,
            special: 1,
            failed: 1,
            different: 2,
            missing: 1,
            extra: 1,
            grown: 1,
            ..Summary::default()
        };
        for _ in 0..2 {
            let reporter = Reporter::new(&monitor);
            assert_eq!(reporter.summary(), Summary::default());
            let entry = |kind: &Kind, outcome| reporter.outcome(0, Vec::new, kind, 0, &outcome);
            reporter.resumed(0, 2);
            reporter.uncount_resumed(1);
            reporter.count_progress(CopyStep::Moved(2));
            reporter.resumed(0, 1);
            reporter.count_progress(CopyStep::Moved(2));
            reporter.restart_file(3, 1);
            entry(&FILE, Outcome::Copied);
            entry(&FILE, Outcome::Grew);
            entry(&Kind::Dir, Outcome::Copied);
            entry(&FILE, Outcome::Skipped(Skip::Unchanged));
            entry(&Kind::Dir, Outcome::Skipped(Skip::Unchanged));
            entry(&Kind::Special, Outcome::Skipped(Skip::Special));
            entry(&FILE, Outcome::Failed(fault.clone()));
            entry(&Kind::Dir, Outcome::Differs(missing));
            entry(&FILE, Outcome::Differs(Changes::SIZE.with(Changes::TIME)));
            entry(&FILE, Outcome::Differs(Changes::CONTENT));
            reporter.extra(b"x", &Kind::Dir);
            assert_eq!(reporter.summary(), expected);
        }
        let mut both = expected;
        both += expected;
        assert_eq!(monitor.progress().summary(), both);
    }
}
