//! The rules of the job, the answers of its two ends, its early end, and the ways to report. All
//! stages of the Receiver share them.

use super::work::Buffers;
use super::{Receiver, RecvDir, Tasks, WINDOW_SLACK};
use crate::control::{Control, Reporter};
use crate::dirs::DirNode;
use crate::link::SenderPort;
use crate::{JobError, copy};
use haul_model::{
    Attributes, Changes, Entry, Fault, Filter, Kept, Kind, Name, Outcome, Part, Resume, Skip,
    escape_bytes, links, words,
};
use haul_plan::Plan;
use haul_proto::{Extra, LIST_WINDOW, Late, ListItem, OutcomeItem, PACK_FILE_MAX, Warning};
use haul_store::{RESUME_LEN_MIN, RESUME_LEN_MIN_REMOTE, SourceId};
use haul_tree::{Capabilities, Meta, TreeDir, in_whole_seconds};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{io, thread};

/// The rules, state and reporters of one job on the Receiver's side.
pub(crate) struct JobContext<'a> {
    pub(crate) control: &'a Control<'a>,
    pub(crate) reporter: Reporter<'a>,
    pub(super) sender: Arc<dyn SenderPort + 'a>,
    pub(super) plan: Plan,
    pub(super) filter: Filter,
    /// The name that the only source gets; `None` if sources keep theirs.
    pub(super) rename: Option<Name>,
    /// The number that marks the directory which becomes the destination.
    pub(super) origin: Option<[u8; 16]>,
    /// The path of the destination, as the user wrote it.
    pub(super) dest: Vec<u8>,
    /// The answers of the destination and the Sender.
    pub(super) ends: Ends,
    /// One of the sides keeps times in whole seconds.
    pub(super) whole_seconds: bool,
    /// Cost of the listed entries that have no outcome yet.
    pub(super) open_cost: AtomicU64,
    /// The queue of the workers; `None` once no more work will come.
    pub(super) tasks: Mutex<Option<Tasks>>,
    /// How the job ends; see [`Ending`].
    pub(crate) ending: Ending,
}

impl JobContext<'_> {
    /// True if the entry may be one of several hard links to its file.
    pub(super) fn is_hard_linked(&self, entry: &Entry) -> bool {
        entry.links != 0 && self.plan.keeps.has(Kept::LINKS)
    }

    /// True if a link to `target`, `depth` directories deep, is skipped because it may lead out of
    /// the destination.
    pub(super) fn is_unsafe(&self, depth: usize, target: &[u8]) -> bool {
        self.plan.safe_links && links::leads_out(target, depth)
    }

    /// True if no other source of the job may list the same name as `entry`.
    pub(super) fn lists_once(&self, entry: &Entry) -> bool {
        self.plan.is_mirror && self.rename.is_none() && entry.name.is_some()
    }

    /// True if the Sender must exclude `name` in `dir` by the job's filter. Rules in the sources'
    /// own files are unknown here.
    pub(super) fn excludes(&self, dir: &RecvDir, name: Option<&Name>, is_dir: bool) -> bool {
        // The path is built only if it is needed.
        let is_out = || self.filter.hides(&dir.path_of(name), is_dir) == Some(true);
        name.is_some() && !self.filter.is_empty() && is_out()
    }

    /// Converts `outcome` to the form that a mirror reports, for an entry that differed by `found`.
    pub(super) fn as_synced(&self, outcome: Outcome, found: Changes) -> Outcome {
        match outcome {
            Outcome::Copied | Outcome::WouldCopy | Outcome::Grew if self.plan.reports_changes => {
                Outcome::Synced(found)
            }
            outcome => outcome,
        }
    }

    /// True if the job removes extras and does nothing else.
    pub(super) fn only_removes(&self) -> bool {
        self.plan.part.only_removes()
    }

    /// The outcome of an entry in a job that only removes.
    pub(super) fn removal_only_outcome(&self, exists: bool) -> Outcome {
        let counts = self.plan.part == Part::Counts;
        Outcome::Skipped(if counts && exists { Skip::Unchanged } else { Skip::Ruled })
    }

    /// True if the job creates nothing that the destination lacks.
    pub(super) fn creates_nothing(&self) -> bool {
        self.only_removes() || self.plan.only_existing
    }

    /// The attributes that a directory gets once all its entries are settled. In `RemovesFirst` it
    /// keeps its own: a later job reports them.
    pub(super) fn final_attributes(&self, entry: &Entry) -> Option<Attributes> {
        let is_first = self.plan.part == Part::RemovesFirst;
        (!is_first).then(|| entry.attributes.clone())
    }

    /// True if this job removes extras. In `AllElse` another job does.
    pub(super) fn removes_extras(&self) -> bool {
        self.plan.is_mirror && self.plan.part != Part::AllElse
    }

    pub(super) fn report_deleted(&self, deleted: Vec<Extra>) {
        if !deleted.is_empty() {
            self.sender.extras(deleted);
        }
    }

    /// Counts the cost of new items against the window, before they are stored.
    pub(super) fn admit(&self, items: &[ListItem]) -> Result<(), ProtocolViolation> {
        let cost: u64 = items.iter().map(ListItem::cost).sum();
        let open = self.open_cost.fetch_add(cost, Ordering::Relaxed) + cost;
        if open > LIST_WINDOW + WINDOW_SLACK {
            return Err(ProtocolViolation("it listed more than the window allows"));
        }
        Ok(())
    }

    /// Fails the job because the Sender broke the protocol.
    pub(crate) fn fail_protocol(&self, rule: &'static str) {
        self.check_protocol(Err(ProtocolViolation(rule)));
    }

    pub(super) fn check_protocol(&self, result: Result<(), ProtocolViolation>) -> bool {
        match result {
            Ok(()) => true,
            Err(ProtocolViolation(rule)) => {
                let message = format!("the peer broke the protocol: {rule}");
                self.control.fail(JobError::Protocol(message));
                false
            }
        }
    }

    /// Queues a task for the workers; waits until the queue has room.
    pub(crate) fn enqueue(&self, task: impl FnOnce(&Receiver<'_>, &mut Buffers) + Send + 'static) {
        let tasks = self.tasks.lock().clone();
        if let Some(tasks) = tasks {
            tasks.enqueue(task);
        }
    }

    /// True if the job copies no content, such as a comparison.
    pub(crate) fn copies_nothing(&self) -> bool {
        !self.plan.copies
    }

    /// True if the Sender removes sources that are reported as identical.
    pub(super) fn removes(&self) -> bool {
        self.plan.removes.is_some()
    }

    /// Closes the queue: the workers end after the tasks in it.
    pub(crate) fn close_tasks(&self) {
        self.tasks.lock().take();
    }

    /// Reports how many bytes of a file are recorded. A resumable file keeps them for a later job.
    pub(crate) fn report_recorded(&self, dir: &RecvDir, index: u64, entry: &Entry, bytes: u64) {
        let path = || dir.path_of(entry.name.as_ref());
        self.reporter.at(path);
        if self.resumable(entry).is_some() {
            self.reporter.keeps(index, Some(bytes), path);
        }
    }

    pub(super) fn close(&self, cost: u64) {
        self.open_cost.fetch_sub(cost, Ordering::Relaxed);
    }

    /// True if a file that looks unchanged has lost content in a power cut. Files that may have
    /// holes are not checked: they were durable before they were published.
    ///
    /// With `sync` every file is checked. A medium may have failed a moment ago, and the system
    /// reports that only once, perhaps to another process.
    pub(super) fn has_lost_content(
        &self,
        node: &Arc<DirNode>,
        name: &Name,
        entry: &Entry,
        existing: Option<&Meta>,
    ) -> io::Result<bool> {
        let Some(existing) = existing.filter(|_| !self.may_have_holes(entry)) else {
            return Ok(false);
        };
        let lost = node.handle()?.has_lost_content(name, existing, self.plan.sync);
        match lost {
            // A file that can't be opened is not known to have lost content.
            Err(error) if is_denied_or_missing(&error) => Ok(false),
            lost => lost,
        }
    }

    /// True if runs of zeros in this file become holes. Small files are written in one go.
    pub(super) fn writes_sparse(&self, entry: &Entry) -> bool {
        self.plan.writes_sparse && entry.size() > PACK_FILE_MAX
    }

    /// True if the file has holes or gets some.
    pub(super) fn may_have_holes(&self, entry: &Entry) -> bool {
        entry.has_holes || self.writes_sparse(entry)
    }

    /// True if the job creates such a special file instead of skipping it.
    pub(super) fn creates_special(&self, entry: &Entry) -> bool {
        entry.special.is_some_and(|special| self.plan.keeps.has(special.kept()))
    }

    /// The metadata of `name` in `dir`, with the time at a resolution that both sides keep.
    pub(super) fn stat_entry(&self, dir: &dyn TreeDir, name: &Name) -> io::Result<Option<Meta>> {
        let Some(meta) = dir.stat(name, false)? else { return Ok(None) };
        self.with_extended(dir, Some(name), self.round_mtime(meta)).map(Some)
    }

    /// Adds the extended attributes of `name` in `dir`, or of `dir` itself, to `meta` if the job
    /// keeps them.
    pub(super) fn with_extended(
        &self,
        dir: &dyn TreeDir,
        name: Option<&Name>,
        mut meta: Meta,
    ) -> io::Result<Meta> {
        let keeps = self.plan.keeps;
        if keeps.has_any(Kept::EXTENDED) {
            meta.attributes.extended = dir.extended(name.map(|name| (name, false)), keeps)?;
        }
        Ok(meta)
    }

    /// Rounds the time in `meta` to whole seconds if one side keeps no finer times.
    pub(super) fn round_mtime(&self, mut meta: Meta) -> Meta {
        if self.whole_seconds {
            meta.attributes.mtime = in_whole_seconds(meta.attributes.mtime);
        }
        meta
    }

    /// The metadata of the entry `name` in `dir`. `handle` is an open handle of `dir`.
    pub(super) fn existing_in(
        &self,
        dir: &RecvDir,
        handle: &dyn TreeDir,
        name: &Name,
    ) -> io::Result<Option<Meta>> {
        match dir.prefetched(name) {
            _ if dir.fresh => Ok(None),
            Some(prefetched) => Ok(Some(prefetched)),
            None => self.stat_entry(handle, name),
        }
    }

    /// The identity that finds a file's partial file, if the file can be resumed.
    pub(crate) fn resumable(&self, entry: &Entry) -> Option<SourceId> {
        let can_be = self.plan.resume != Resume::Never && self.plan.wants_hashes;
        self.source_id(entry).filter(|_| can_be)
    }

    /// The identity that finds a large file's partial file.
    pub(super) fn source_id(&self, entry: &Entry) -> Option<SourceId> {
        let large = entry.size() >= self.ends.resume_len_min && entry.inode != 0;
        let Entry { inode, ctime, ref attributes, .. } = *entry;
        let mtime = attributes.mtime;
        large.then_some(SourceId { size: entry.size(), mtime, inode, ctime })
    }

    /// True if the peer must re-read the existing part, to prove that it is the beginning of the
    /// source. Without a change time, size and mtime alone do not prove that the source is
    /// unchanged.
    pub(super) fn requires_proof(&self, entry: &Entry) -> bool {
        self.plan.proves_resumed || entry.ctime.is_none()
    }

    /// Reports that an entry failed after its outcome was reported. Ends the job if the fault
    /// requires that.
    pub(super) fn fail_late(&self, path: &[u8], fault: Fault) {
        let late = Late { path: words::shown(path.to_vec()), fault: fault.clone() };
        match fault.ends_the_job() {
            true => self.report(0, || path.to_vec(), &Kind::Dir, 0, &Outcome::Failed(fault)),
            false => self.reporter.late(path, fault),
        }
        self.sender.late(late);
        self.end_early();
    }

    /// The path of an entry at the destination, below the path that the user wrote.
    pub(super) fn path_at_destination(&self, entry: &[u8]) -> Vec<u8> {
        let below = match (&self.rename, entry.iter().position(|byte| *byte == b'/')) {
            (None, _) => entry,
            (Some(_), Some(slash)) => &entry[slash + 1..],
            (Some(_), None) => b"",
        };
        words::join(&self.dest, below)
    }

    /// Sends a warning to the users of both sides.
    pub(super) fn warn(&self, path: &[u8], message: &str) {
        let warning = Warning { path: path.to_vec(), message: message.to_owned() };
        self.reporter.warning(&warning);
        self.sender.warning(Warning { path: words::shown(warning.path), ..warning });
    }

    /// True if a new link, FIFO, socket or device gets the time of its source.
    pub(super) fn sets_time(&self, entry: &Entry) -> bool {
        let is_link = matches!(entry.kind, Kind::Symlink { .. });
        !is_link || self.plan.new_links_get_times
    }

    /// True if files are published only at the end of the job.
    pub(super) fn delays_updates(&self) -> bool {
        // A job that only removes leaves delayed files to the copy that follows.
        self.plan.delays_updates && !self.only_removes() && !self.plan.dry_run
    }

    /// True if all content is hashed: to verify it, or to report the hashes.
    pub(super) fn hashes_content(&self) -> bool {
        self.plan.verify || self.reporter.wants_hashes()
    }
}

/// The Sender broke this rule of the protocol.
pub(super) struct ProtocolViolation(pub(super) &'static str);

/// True if a file could not be opened because of its permissions or because it was removed. Whether
/// its content was lost is unknown.
pub(super) fn is_denied_or_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound)
}

/// How long the end waits for busy threads: one may hang in a file system.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// The pause between two checks.
const POLL: Duration = Duration::from_millis(2);

/// The early end of a job, caused by a fault of the destination: the reason, and the batches that
/// it waits for. All finished entries report their outcomes first, so that the Sender counts them.
/// The end is sent after the outcomes of its batch, and other threads get a moment to report
/// theirs.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    /// The reason, until it is reported.
    reason: Mutex<Option<JobError>>,
    /// The number of open batches: entries that threads work on, with outcomes to report.
    batches: AtomicUsize,
}

/// A batch of one thread. Its outcomes are reported before it is dropped.
pub(crate) struct Batch<'e>(&'e Ending);

impl Ending {
    /// Opens a batch.
    pub(crate) fn begin_batch(&self) -> Batch<'_> {
        self.batches.fetch_add(1, Ordering::SeqCst);
        Batch(self)
    }

    /// Waits until all batches are reported, or [`WAIT_MAX`] has passed. No new ones may begin.
    pub(crate) fn wait_for_batches(&self) {
        let begin = Instant::now();
        while self.batches.load(Ordering::SeqCst) > 0 && begin.elapsed() < WAIT_MAX {
            thread::sleep(POLL);
        }
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        self.0.batches.fetch_sub(1, Ordering::SeqCst);
    }
}

impl JobContext<'_> {
    /// True if no new work may begin: the job ends, or is about to.
    pub(crate) fn is_ending(&self) -> bool {
        self.control.stopped() || self.ending.reason.lock().is_some()
    }

    /// Reports the outcome of entry `index` (0: none) to the user, before [`Self::send_outcomes`].
    /// An outcome that ends the job is kept as the reason. `path` is called only if it is needed.
    pub(crate) fn report(
        &self,
        index: u64,
        path: impl Fn() -> Vec<u8>,
        kind: &Kind,
        moved: u64,
        outcome: &Outcome,
    ) {
        match outcome {
            Outcome::Failed(fault) if fault.ends_the_job() => {
                let path = escape_bytes(&self.path_at_destination(&path()));
                let error = JobError::Destination { path, fault: fault.clone() };
                self.ending.reason.lock().get_or_insert(error);
            }
            _ => self.reporter.outcome(index, path, kind, moved, outcome),
        }
    }

    /// Reports the outcome of an entry of `dir` that was settled when it was listed, and gives its
    /// cost back to the window.
    pub(crate) fn settle_entry(
        &self,
        index: u64,
        dir: &RecvDir,
        entry: &Entry,
        cost: u64,
        outcome: &Outcome,
    ) {
        self.report(index, || dir.path_of(entry.name.as_ref()), &entry.kind, 0, outcome);
        self.close(cost);
    }

    /// Sends outcomes to the Sender. An outcome that ends the job follows as the job's end.
    pub(crate) fn send_outcomes(&self, mut outcomes: Vec<OutcomeItem>) {
        let ends = |item: &OutcomeItem| match &item.outcome {
            Outcome::Failed(fault) => fault.ends_the_job(),
            _ => false,
        };
        let count = outcomes.len();
        outcomes.retain(|item| !ends(item));
        let has_end = outcomes.len() < count;
        if !outcomes.is_empty() {
            self.sender.outcomes(outcomes);
        }
        if has_end {
            self.end_early();
        }
    }

    /// Ends the job, if a reason was recorded.
    pub(crate) fn end_early(&self) {
        if let Some(error) = self.ending.reason.lock().take() {
            self.control.fail(error);
        }
    }
}

/// The answers that a job gets from its two ends, compiled once when it starts: what the
/// destination can do, and whether the Sender is at the other end of a wire. The stages ask only
/// these questions, and do not know where an end is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ends {
    /// Workers create links and special files, many at a time, because each takes a round trip.
    pub(crate) queues_names: bool,
    /// In an existing directory, a subdirectory is created before it is looked up.
    pub(crate) creates_first: bool,
    /// Metadata and contents here are read at no cost worth saving. So entries are looked up
    /// ahead, and a file is hashed to find out if it is the new name of another.
    pub(crate) reads_cheaply: bool,
    /// An existing entry that blocks a new one is removed when that is decided, not when it is
    /// made.
    pub(crate) clears_early: bool,
    /// The times of a directory are set once before its outcome is reported, as a test.
    pub(crate) tests_dir_times: bool,
    /// A backup replaces an empty directory of its name.
    pub(crate) backups_replace_dirs: bool,
    /// Before a file is resumed, its blocks are read back and compared with their record.
    pub(crate) reads_back: bool,
    /// How many counted blocks of a file may not be on record yet.
    pub(crate) record_lag_max: u64,
    /// Content that already exists here saves sending it.
    pub(crate) saves_sending: bool,
    /// Content is accepted without a hash.
    pub(crate) accepts_unhashed: bool,
    /// Only the Sender knows whether a file here is also a source.
    pub(crate) sender_knows_sources: bool,
    /// The Sender reports each removal of a source.
    pub(crate) sender_reports_removals: bool,
    /// The Sender sends the names of its accounts.
    pub(crate) sender_names_accounts: bool,
    /// The minimum length of a file that can be resumed, in bytes.
    pub(crate) resume_len_min: u64,
}

impl Ends {
    /// The ends of a job with this `plan`.
    pub(crate) fn of(destination: Capabilities, sender: &dyn SenderPort, plan: &Plan) -> Self {
        let (near, wire) = (!destination.costs_round_trips, sender.is_wire());
        Self {
            queues_names: !near,
            creates_first: !near,
            reads_cheaply: near,
            clears_early: !near,
            tests_dir_times: near,
            backups_replace_dirs: near,
            // Where reading takes round trips, the file is read only once, when it is whole.
            reads_back: near || plan.resume == Resume::Strict,
            // A far tree keeps its own record, in order.
            record_lag_max: if near { copy::AHEAD_MAX } else { 0 },
            saves_sending: wire,
            accepts_unhashed: wire && !plan.wants_hashes,
            sender_knows_sources: wire,
            sender_reports_removals: wire,
            sender_names_accounts: wire,
            resume_len_min: if wire { RESUME_LEN_MIN_REMOTE } else { RESUME_LEN_MIN },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_waits_for_open_batches_but_not_for_ever() {
        let ending = Ending::default();
        ending.wait_for_batches();
        let open = ending.begin_batch();
        thread::scope(|scope| {
            let ends = scope.spawn(|| ending.wait_for_batches());
            thread::sleep(POLL * 5);
            assert!(!ends.is_finished());
            drop(open);
        });
        let _stuck = ending.begin_batch();
        let begin = Instant::now();
        ending.wait_for_batches();
        assert!(begin.elapsed() >= WAIT_MAX);
    }
}
