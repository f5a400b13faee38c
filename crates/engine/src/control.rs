//! The course of a running job on this side: whether it continues, how it ended,
//! and its events.

use crate::monitor::{Counter, LinkEvent};
use crate::pace::{Pace, Precedence};
use crate::told::Position;
use crate::vigil::{Awaited, Vigil, Watch};
use crate::{Event, JobError, Monitor, Progress};
use haul_model::Side;
use haul_model::Task;
use haul_model::{ContentHash, Entry, Fault, Kind, Naming, Outcome, Summary, words};
use haul_net::Killer;
use haul_proto::Extra;
use haul_proto::Late;
use haul_proto::Named;
use haul_proto::Warning;
use haul_store::RESUME_LEN_MIN_FAR;
use parking_lot::{Condvar, Mutex};
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How often a waiting thread looks whether the user has interrupted.
pub(crate) const CANCEL_POLL: Duration = Duration::from_millis(50);

/// How often is looked at least whether a peer's last words were read, when writing to it has
/// failed. A process that was stopped meanwhile has looked once.
const LINGER_LOOKS: u32 = 250;

/// How far apart that is, which makes a second in all.
const LINGER_POLL: Duration = Duration::from_millis(4);

/// The connection that a job goes through, which may end before its time.
pub(crate) trait Lifeline: Send + Sync {
    /// True once it has ended.
    fn is_lost(&self) -> bool;

    /// The reason, if it has ended.
    fn error(&self) -> Option<JobError>;

    /// A number that changes whenever something moves on it; `None` while nothing is
    /// waited for.
    fn signs_awaited(&self) -> Option<u64>;
}

/// Shared by all threads of a job.
pub(crate) struct Control<'a> {
    monitor: &'a dyn Monitor,
    stop: AtomicBool,
    lifeline: Option<Arc<dyn Lifeline>>,
    /// The peer at the other end of a wire may fall silent, and what it is called.
    peer: Option<(Arc<Vigil>, String)>,
    /// Another such, where two peers talk to each other through this process.
    other_peer: Option<(Arc<Vigil>, String)>,
    /// Further connections to it, and what ends them.
    lanes: Mutex<Vec<(Watch, Killer)>>,
    /// See [`Self::hear_out`].
    hears_out: AtomicBool,
    /// See [`Self::keep_pace`].
    pace: OnceLock<Pace>,
    end: Mutex<Option<Result<Summary, JobError>>>,
    ended: Condvar,
}

impl<'a> Control<'a> {
    pub(crate) fn new(monitor: &'a dyn Monitor) -> Self {
        let (stop, end, ended) = (AtomicBool::new(false), Mutex::new(None), Condvar::new());
        let (hears_out, pace) = (AtomicBool::new(false), OnceLock::new());
        let lanes = Mutex::default();
        let (lifeline, peer, other_peer) = (None, None, None);
        Self { monitor, stop, lifeline, peer, other_peer, lanes, hears_out, pace, end, ended }
    }

    /// The same for a job that ends when its `lifeline` is lost.
    pub(crate) fn over(monitor: &'a dyn Monitor, lifeline: Arc<dyn Lifeline>) -> Self {
        Self { lifeline: Some(lifeline), ..Self::new(monitor) }
    }

    /// The same for a job with a `peer`, which ends when that is silent.
    pub(crate) fn with(monitor: &'a dyn Monitor, vigil: &Arc<Vigil>, peer: &str) -> Self {
        Self { peer: Some((Arc::clone(vigil), peer.to_owned())), ..Self::new(monitor) }
    }

    /// The same where two peers talk to each other through this process. The first is the
    /// one that is heard of last.
    pub(crate) fn between(monitor: &'a dyn Monitor, peers: [(&Arc<Vigil>, &str); 2]) -> Self {
        let [(vigil, name), (other, other_name)] = peers;
        let other_peer = Some((Arc::clone(other), other_name.to_owned()));
        Self { other_peer, ..Self::with(monitor, vigil, name) }
    }

    /// Bounds the bytes of content, as they travel, that the job moves in a second.
    pub(crate) fn keep_pace(&self, rate: NonZeroU64) {
        // A job has one.
        let _ = self.pace.set(Pace::of(rate));
    }

    /// The most bytes that are to be moved at once.
    pub(crate) fn step(&self) -> usize {
        self.pace.get().map_or(usize::MAX, Pace::step)
    }

    /// The most bytes that are to be moved at once on one machine.
    pub(crate) fn part(&self) -> u64 {
        self.pace.get().map_or(u64::MAX, Pace::part)
    }

    /// Waits until `len` bytes that were moved are within the bound, or the job ends. Of
    /// contents that wait at the same time one of a lower rank was begun earlier.
    pub(crate) fn pace(&self, len: u64, rank: u64) {
        if let Some(pace) = self.pace.get() {
            pace.wait(len, rank, || !self.stopped());
        }
    }

    /// Where the bytes in a second are bounded, waits until no file with a lower number moves
    /// its content on this machine, or the job ends.
    pub(crate) fn precedence(&self, number: u64) -> Option<Precedence<'_>> {
        self.pace.get().map(|pace| pace.precedence(number, || !self.stopped()))
    }

    pub(crate) fn monitor(&self) -> &'a dyn Monitor {
        self.monitor
    }

    /// The Receiver on another machine has told to which place entries go; the user calls the
    /// destination `dest`.
    pub(crate) fn named(&self, named: Named, dest: &[u8]) {
        let progress = self.monitor.progress();
        // A job that is run again has reported it.
        if progress.named().is_none() {
            self.tell_made(named, dest);
        }
        progress.set_naming(named.naming);
    }

    /// Reports the directories that were made for the destination `dest`, if any.
    pub(crate) fn tell_made(&self, named: Named, dest: &[u8]) {
        let Named { naming, dirs_made: dirs @ 1.. } = named else { return };
        let path = match naming {
            Naming::Given => words::split(dest).parent,
            Naming::Own => dest,
        };
        self.monitor.event(Event::Made { path, dirs });
    }

    /// True if threads shall leave their loops.
    pub(crate) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.monitor.cancelled() || self.is_lost()
    }

    fn is_lost(&self) -> bool {
        self.lifeline.as_ref().is_some_and(|lifeline| lifeline.is_lost())
    }

    /// Why the connection has ended, if it has.
    pub(crate) fn lost(&self) -> Option<JobError> {
        self.lifeline.as_ref().and_then(|lifeline| lifeline.error())
    }

    /// Ends the job early. The first reason counts.
    pub(crate) fn fail(&self, error: JobError) {
        self.finish(Err(error));
    }

    /// Ends the job; all that comes after it is ignored.
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

    /// From now on whoever reads from a peer waits for nothing but more of its words, and for
    /// the user who is shown them.
    pub(crate) fn hear_out(&self) {
        self.hears_out.store(true, Ordering::Relaxed);
    }

    /// Gives the peer's own reason for an end, or its word that all is done, which may have
    /// arrived and not been read yet, some time to be the first one.
    pub(crate) fn linger(&self) {
        self.linger_for(self.peer.as_ref().map(|(vigil, _)| &**vigil));
    }

    /// The same for the words of the peer that `vigil` listens to. Time in which whoever
    /// [hears it out](Self::hear_out) is held up does not count.
    pub(crate) fn linger_for(&self, vigil: Option<&Vigil>) {
        let mut looks = 0;
        while !self.stopped() && looks < LINGER_LOOKS {
            std::thread::sleep(LINGER_POLL);
            let hears_out = self.hears_out.load(Ordering::Relaxed);
            let is_held_up = hears_out && vigil.is_some_and(|vigil| !vigil.is_waiting());
            looks += u32::from(!is_held_up);
        }
    }

    /// This further connection to the `peer` is ended by `killer` when it is silent.
    pub(crate) fn watch(&self, vigil: &Arc<Vigil>, peer: &str, killer: Killer) {
        self.lanes.lock().push((Watch::new(vigil, peer), killer));
    }

    /// Waits for the end of the job, or for the user's interruption.
    pub(crate) fn wait(&self) -> Result<Summary, JobError> {
        let watch = |peer: &Option<(Arc<Vigil>, String)>| {
            peer.as_ref().map(|(vigil, peer)| Watch::new(vigil, peer))
        };
        let (mut watch, mut other) = (watch(&self.peer), watch(&self.other_peer));
        let mut awaited = Awaited::new();
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
                    // The first time only asks a process to end.
                    killer.kill();
                    killer.kill();
                }
                !is_silent
            });
            self.tell_of_peer(watch.as_mut(), &mut awaited);
            self.ended.wait_for(&mut end, CANCEL_POLL);
        };
        self.stop.store(true, Ordering::Relaxed);
        // The other side may have greeted, and all been done, since the last look.
        self.tell_reached(watch.is_some_and(|watch| watch.is_greeted()));
        result
    }

    /// Tells the monitor that the other side is there, if it `is_reached`.
    fn tell_reached(&self, is_reached: bool) {
        let progress = self.monitor.progress();
        let is_new = is_reached && !progress.reached.swap(true, Ordering::Relaxed);
        if is_new && progress.told.is_again() {
            progress.asking.store(false, Ordering::Relaxed);
            self.monitor.event(Event::Link(LinkEvent::Regained));
        }
    }

    /// Tells the monitor whether the other side is there, and how long it has been silent.
    fn tell_of_peer(&self, watch: Option<&mut Watch>, awaited: &mut Awaited) {
        let (reached, quiet) = match (watch, &self.lifeline) {
            (Some(watch), _) => (watch.is_greeted(), watch.quiet()),
            (None, Some(lifeline)) => (false, awaited.quiet(lifeline.signs_awaited())),
            (None, None) => (true, Duration::ZERO),
        };
        let progress = self.monitor.progress();
        if !reached {
            progress.reached.store(false, Ordering::Relaxed);
        }
        self.tell_reached(reached);
        let quiet = u64::try_from(quiet.as_millis()).unwrap_or(u64::MAX);
        progress.silent_ms.store(quiet, Ordering::Relaxed);
    }
}

/// The progress of a copy since its last step, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step {
    /// So much content was moved.
    Moved(u64),
    /// A hole of this length was passed: it is done, and nothing was moved.
    Passed(u64),
    /// So much content was taken from an old version of the file: it is done, and nothing
    /// was moved.
    Matched(u64),
    /// So much content was hashed, to be compared.
    Hashed(u64),
}

impl Step {
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

/// Counts what a job comes to, and informs the monitor. One of the two roles has
/// one: the one on the side where the user is.
pub(crate) struct Reporter<'a> {
    monitor: &'a dyn Monitor,
    /// The figures of the jobs that this monitor has watched before.
    before: Summary,
}

impl<'a> Reporter<'a> {
    pub(crate) fn new(monitor: &'a dyn Monitor) -> Self {
        Self { monitor, before: monitor.progress().summary() }
    }

    /// The entry of that number was found; `place` overwrites the position of the last one.
    pub(crate) fn listed(&self, number: u64, entry: &Entry, place: impl FnOnce(&mut Position)) {
        let progress = self.monitor.progress();
        progress.told.listed(number, place);
        progress.census.found(entry);
        self.monitor.listed(number, entry);
        if let Kind::File { size } = entry.kind {
            progress.count(Counter::FilesTotal, 1);
            progress.count(Counter::BytesTotal, size);
        }
    }

    /// The content of the file of that number was asked for.
    pub(crate) fn wanted(&self, number: u64) {
        self.monitor.progress().told.wanted(number);
    }

    /// All entries were found.
    pub(crate) fn listed_all(&self) {
        self.monitor.progress().has_listed_all();
    }

    /// A file's content has come further.
    pub(crate) fn came_by(&self, step: Step) {
        self.took(step);
        self.is_done(step.len());
    }

    /// Counts the work of a step, by which nothing is done yet.
    pub(crate) fn took(&self, step: Step) {
        let progress = self.monitor.progress();
        let (counter, len) = match step {
            Step::Moved(len) => (&progress.bytes_transferred, len),
            Step::Matched(len) => (&progress.tally.bytes_matched, len),
            Step::Hashed(len) => (&progress.bytes_hashed, len),
            Step::Passed(_) => return,
        };
        Progress::add(counter, len);
    }

    /// So many bytes of content are done.
    pub(crate) fn is_done(&self, len: u64) {
        self.monitor.progress().count(Counter::BytesDone, len);
    }

    /// See [`Progress::keeps`].
    pub(crate) fn keeps(&self, index: u64, bytes: Option<u64>, path: impl FnOnce() -> Vec<u8>) {
        self.monitor.progress().keeps(index, bytes, path);
    }

    /// The file at `path` is at work.
    pub(crate) fn at(&self, path: impl FnOnce() -> Vec<u8>) {
        self.monitor.progress().at(path);
    }

    /// `len` bytes of the content of the file of that number are there from an earlier job,
    /// or from an earlier run of this one.
    pub(crate) fn resumed(&self, number: u64, len: u64) {
        let progress = self.monitor.progress();
        progress.count(Counter::BytesDone, len);
        if !progress.told.is_doubtful(number) {
            Progress::add(&progress.tally.bytes_resumed, len);
        }
    }

    /// `len` bytes that were told to be there are not of this file, and will be
    /// transferred.
    pub(crate) fn not_resumed(&self, len: u64) {
        let progress = self.monitor.progress();
        Progress::take_off(&progress.bytes_done, len);
        Progress::take_off(&progress.tally.bytes_resumed, len);
    }

    /// `len` bytes that were taken from an old version are of no use.
    pub(crate) fn not_matched(&self, len: u64) {
        self.monitor.progress().tally.bytes_matched.fetch_sub(len, Ordering::Relaxed);
    }

    /// A file's content is transferred from its start once more: of the first time,
    /// `counted` bytes were counted as done, with those that were `resumed`.
    pub(crate) fn begins_again(&self, counted: u64, resumed: u64) {
        let progress = self.monitor.progress();
        Progress::take_off(&progress.bytes_done, counted);
        Progress::take_off(&progress.tally.bytes_resumed, resumed);
    }

    /// True if the monitor shows hashes of files.
    pub(crate) fn wants_hashes(&self) -> bool {
        self.monitor.wants_hashes()
    }

    /// The content of the file of that number has this hash, if it is known.
    pub(crate) fn hashed(&self, number: u64, hash: Option<ContentHash>) {
        if let Some(hash) = hash.filter(|_| self.wants_hashes()) {
            self.monitor.hashed(number, hash);
        }
    }

    /// The fate of the entry of that number is known; `counted` bytes of it were counted as
    /// done already. Its `path` is made if the monitor shows it.
    pub(crate) fn outcome(
        &self,
        number: u64,
        path: impl Fn() -> Vec<u8>,
        kind: &Kind,
        counted: u64,
        outcome: &Outcome,
    ) {
        let progress = self.monitor.progress();
        let to_tell = progress.told.outcome(number, &path, kind, outcome);
        if let Kind::File { size } = kind {
            progress.count(Counter::FilesDone, 1);
            progress.count(Counter::BytesDone, size.saturating_sub(counted));
            if *size >= RESUME_LEN_MIN_FAR && !matches!(outcome, Outcome::Failed(_)) {
                progress.keeps_none(&path());
            }
        }
        if let Some(outcome) = to_tell {
            self.tell(Some(number), path, kind, &outcome);
        }
    }

    /// The failure of what is at `path`, which has an outcome besides.
    pub(crate) fn late(&self, path: &[u8], fault: Fault) {
        if self.monitor.progress().told.late(path) {
            self.tell(None, || path.to_vec(), &Kind::Dir, &Outcome::Failed(fault));
        }
    }

    fn tell(
        &self,
        number: Option<u64>,
        path: impl Fn() -> Vec<u8>,
        kind: &Kind,
        outcome: &Outcome,
    ) {
        let progress = self.monitor.progress();
        progress.tally.count(kind, outcome);
        progress.census.came_to(kind, outcome);
        let shown = if self.monitor.shows(kind, outcome) { path() } else { Vec::new() };
        progress.at(path);
        self.monitor.event(Event::Entry { number, path: &shown, kind, outcome });
    }

    /// In a check: only the destination has what is at `path`.
    pub(crate) fn extra(&self, path: &[u8], kind: &Kind) {
        if !self.monitor.progress().told.extra(path) {
            return;
        }
        Progress::add(&self.monitor.progress().tally.extra, 1);
        self.monitor.event(Event::Extra { path, kind });
    }

    /// In a mirror: an extra of the destination at `path` was removed, or would be.
    pub(crate) fn deleted(&self, path: &[u8], kind: &Kind) {
        if !self.monitor.progress().told.extra(path) {
            return;
        }
        Progress::add(&self.monitor.progress().tally.deleted, 1);
        self.monitor.progress().census.removed(kind);
        self.monitor.event(Event::Deleted { path, kind });
    }

    /// The peer has found, or removed, entries that only the destination has.
    pub(crate) fn extras(&self, task: &Task, extras: &[Extra]) {
        for Extra { path, kind } in extras {
            match task.mirrors() {
                Some(_) => self.deleted(path, kind),
                None => self.extra(path, kind),
            }
        }
    }

    /// Reports a warning about the destination.
    pub(crate) fn warning(&self, Warning { path, message }: &Warning) {
        self.monitor.event(Event::Warning { side: Some(Side::Destination), path, message });
    }

    /// An entry has failed after its outcome, as the peer at the destination says.
    pub(crate) fn late_there(&self, Late { path, fault }: Late) {
        self.late(&path, Fault { side: Side::Destination, ..fault.clipped() });
    }

    /// The figures of the peer. A reported failure counts, whatever they say.
    pub(crate) fn with_failures(&self, summary: Summary) -> Summary {
        Summary { failed: summary.failed.max(self.summary().failed), ..summary }
    }

    /// In a mirror: what only the destination has stays, since enough was removed.
    pub(crate) fn spared(&self) {
        Progress::add(&self.monitor.progress().tally.spared, 1);
    }

    /// In a mirror: a file was there under another name, and was not transferred.
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
    fn a_job_that_ends_early_has_its_own_figures() {
        let monitor = Silent::default();
        let fault = Fault::new(Side::Source, FaultKind::Io, "can't read");
        let missing = Changes::MISSING.with(Changes::ABOVE);
        let expected = Summary {
            copied: 2,
            dirs_made: 1,
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
            reporter.not_resumed(1);
            reporter.came_by(Step::Moved(2));
            reporter.resumed(0, 1);
            reporter.came_by(Step::Moved(2));
            reporter.begins_again(3, 1);
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
