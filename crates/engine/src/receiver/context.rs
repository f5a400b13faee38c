//! The rules of the job and the ways to report, which all stages of the receiving side share.

use super::durable::may_not_be_opened;
use super::ending::Ending;
use super::work::Tasks;
use super::{Broken, RecvDir, WINDOW_SLACK, Work};
use crate::JobError;
use crate::control::{Control, Reporter};
use crate::dirs::DirNode;
use crate::link::SenderPort;
use haul_model::{
    Attributes, Changes, Delete, Entry, Fault, Filter, Kept, Kind, Name, Outcome, Part, Policy,
    Resume, Skip, Task, links, words,
};
use haul_plan::Plan;
use haul_proto::{Extra, LIST_WINDOW, Late, ListItem, PACK_FILE_MAX, Warning};
use haul_store::{RESUME_LEN_MIN, RESUME_LEN_MIN_FAR, SourceId};
use haul_tree::{Meta, TreeDir, in_whole_seconds};
use parking_lot::Mutex;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The job of a receiver.
pub(crate) struct JobContext<'a> {
    pub(crate) control: &'a Control<'a>,
    pub(crate) reporter: Reporter<'a>,
    pub(super) sender: Arc<dyn SenderPort + 'a>,
    pub(super) task: Task,
    /// The rules of a copy; those of one that changes nothing where the task is another.
    pub(super) policy: Policy,
    /// The rules by which entries are decided about.
    pub(super) plan: Plan,
    pub(super) filter: Filter,
    /// The name that the one source gets.
    pub(super) rename: Option<Name>,
    /// The number that directories of this job are marked with.
    pub(super) origin: Option<[u8; 16]>,
    /// The path of the destination, in the user's words.
    pub(super) dest: Vec<u8>,
    /// Each operation at the destination takes a round trip, and is left to the workers.
    pub(super) costs_round_trips: bool,
    /// One of the sides keeps times in whole seconds.
    pub(super) whole_seconds: bool,
    /// Cost of what was listed and has no outcome yet.
    pub(super) open_cost: AtomicU64,
    /// The queue of the workers; taken out when no more work is to come.
    pub(super) tasks: Mutex<Option<Tasks>>,
    /// See [`Ending`].
    pub(crate) ending: Ending,
}

impl JobContext<'_> {
    /// True if such an entry may become a further name of another.
    pub(super) fn has_other_names(&self, entry: &Entry) -> bool {
        entry.links != 0 && self.policy.keeps.has(Kept::LINKS)
    }

    /// True if a link with this `target`, in a directory so deep, is left out, since it may
    /// lead out of the destination.
    pub(super) fn is_unsafe(&self, depth: usize, target: &[u8]) -> bool {
        self.plan.safe_links && links::leads_out(target, depth)
    }

    /// True if nothing but `entry` may have its name among the sources of the job.
    pub(super) fn lists_once(&self, entry: &Entry) -> bool {
        self.plan.is_mirror && self.rename.is_none() && entry.name.is_some()
    }

    /// True if the Sender has to leave out what `name` in `dir` is, for all that is known
    /// here: not what rules of its own files say.
    pub(super) fn leaves_out(&self, dir: &RecvDir, name: Option<&Name>, is_dir: bool) -> bool {
        // Its path is made only where somebody needs it.
        let is_out = || self.filter.hides(&dir.path_of(name), is_dir) == Some(true);
        name.is_some() && !self.filter.is_empty() && is_out()
    }

    /// `outcome` as a mirror reports it, of an entry that was found to differ by `found`.
    pub(super) fn as_synced(&self, outcome: Outcome, found: Changes) -> Outcome {
        match outcome {
            Outcome::Copied | Outcome::WouldCopy | Outcome::Grew if self.plan.reports_changes => {
                Outcome::Synced(found)
            }
            outcome => outcome,
        }
    }

    /// True if the job removes what only the destination has, and does nothing else.
    pub(super) fn only_removes(&self) -> bool {
        self.plan.part.only_removes()
    }

    /// The outcome of an entry in a job that only removes.
    pub(super) fn left_alone(&self, is_there: bool) -> Outcome {
        let counts = self.plan.part == Part::Counts;
        Outcome::Skipped(if counts && is_there { Skip::Unchanged } else { Skip::Ruled })
    }

    /// True if nothing is made that the destination has not.
    pub(super) fn makes_nothing(&self) -> bool {
        self.only_removes() || self.plan.only_existing
    }

    /// The attributes that a directory gets when all in it is done. Before all else it
    /// keeps those that it has: another job reports them.
    pub(super) fn sealed_with(&self, entry: &Entry) -> Option<Attributes> {
        let is_first = self.plan.part == Part::RemovesFirst;
        (!is_first).then(|| entry.attributes.clone())
    }

    /// True if this job removes what only the destination has, and leaves it to no other.
    pub(super) fn removes_extras(&self) -> bool {
        self.plan.is_mirror && self.plan.part != Part::AllElse
    }

    pub(super) fn deletes(&self) -> Option<Delete> {
        self.plan.delete
    }

    pub(super) fn tell_deleted(&self, told: Vec<Extra>) {
        if !told.is_empty() {
            self.sender.extras(told);
        }
    }

    /// Counts items that have arrived against the window, before they are kept.
    pub(super) fn admit(&self, items: &[ListItem]) -> Result<(), Broken> {
        let cost: u64 = items.iter().map(ListItem::cost).sum();
        let open = self.open_cost.fetch_add(cost, Ordering::Relaxed) + cost;
        if open > LIST_WINDOW + WINDOW_SLACK {
            return Err(Broken("it listed more than the window allows"));
        }
        Ok(())
    }

    /// Ends the job because the Sender broke a rule.
    pub(crate) fn refuse(&self, rule: &'static str) {
        self.keep_rules(Err(Broken(rule)));
    }

    pub(super) fn keep_rules(&self, result: Result<(), Broken>) -> bool {
        match result {
            Ok(()) => true,
            Err(Broken(rule)) => {
                let message = format!("the peer broke the protocol: {rule}");
                self.control.fail(JobError::Protocol(message));
                false
            }
        }
    }

    /// Hands a task to the workers, as soon as they have room.
    pub(crate) fn give(&self, task: Work) {
        let tasks = self.tasks.lock().clone();
        if let Some(tasks) = tasks {
            tasks.give(task);
        }
    }

    /// True if the job compares, and takes no content.
    pub(crate) fn checks(&self) -> bool {
        self.task.copies().is_none()
    }

    /// True if the Sender removes sources that are reported as the same.
    pub(super) fn removes(&self) -> bool {
        self.task.removes().is_some()
    }

    /// Lets the workers end when they have done what is there.
    pub(crate) fn close_tasks(&self) {
        self.tasks.lock().take();
    }

    /// Of a file so many bytes are on record, which stay for a later job if it is a large
    /// one.
    pub(crate) fn has_come_to(&self, dir: &RecvDir, index: u64, entry: &Entry, bytes: u64) {
        let path = || dir.path_of(entry.name.as_ref());
        self.reporter.at(path);
        if self.resumable(entry).is_some() {
            self.reporter.keeps(index, Some(bytes), path);
        }
    }

    pub(super) fn close(&self, cost: u64) {
        self.open_cost.fetch_sub(cost, Ordering::Relaxed);
    }

    /// True if a file that looks unchanged has lost content to a cut of the power. A file
    /// with holes was durable before it got its name.
    ///
    /// With `sync` each file is looked into: a medium that failed may have lost it a
    /// moment ago, and the system has reported that to another process.
    pub(super) fn was_lost(
        &self,
        node: &Arc<DirNode>,
        name: &Name,
        entry: &Entry,
        existing: Option<&Meta>,
    ) -> io::Result<bool> {
        let Some(existing) = existing.filter(|_| !self.may_have_holes(entry)) else {
            return Ok(false);
        };
        let lost = node.handle()?.lacks_content(name, existing, self.policy.sync);
        match lost {
            // What may not be read is not known to have been lost.
            Err(error) if may_not_be_opened(&error) => Ok(false),
            lost => lost,
        }
    }

    /// True if zeros of a file become holes. Small files are written in one go.
    pub(super) fn leaves_zeros(&self, entry: &Entry) -> bool {
        self.plan.leaves_zeros && entry.size() > PACK_FILE_MAX
    }

    /// True if a file has holes, or gets some.
    pub(super) fn may_have_holes(&self, entry: &Entry) -> bool {
        entry.has_holes || self.leaves_zeros(entry)
    }

    /// True if the job makes such an entry anew, and does not pass it over.
    pub(super) fn makes(&self, entry: &Entry) -> bool {
        entry.special.is_some_and(|special| self.policy.keeps.has(special.kept()))
    }

    /// The metadata of `name` in `dir`, with its time as both sides can keep it.
    pub(super) fn look_at(&self, dir: &dyn TreeDir, name: &Name) -> io::Result<Option<Meta>> {
        let Some(meta) = dir.stat(name, false)? else { return Ok(None) };
        self.with_extended(dir, Some(name), self.in_its_seconds(meta)).map(Some)
    }

    /// `meta` of `name` in `dir`, or of `dir` itself, with the attributes that few entries
    /// have, if they are kept.
    pub(super) fn with_extended(
        &self,
        dir: &dyn TreeDir,
        name: Option<&Name>,
        mut meta: Meta,
    ) -> io::Result<Meta> {
        let keeps = self.policy.keeps;
        if keeps.has_any(Kept::EXTENDED) {
            meta.attributes.extended = dir.extended(name.map(|name| (name, false)), keeps)?;
        }
        Ok(meta)
    }

    /// `meta` with its time as both sides can keep it.
    pub(super) fn in_its_seconds(&self, mut meta: Meta) -> Meta {
        if self.whole_seconds {
            meta.attributes.mtime = in_whole_seconds(meta.attributes.mtime);
        }
        meta
    }

    /// The metadata of the entry `name` in `dir`, whose handle this is.
    pub(super) fn existing_in(
        &self,
        dir: &RecvDir,
        handle: &dyn TreeDir,
        name: &Name,
    ) -> io::Result<Option<Meta>> {
        match dir.prefetched(name) {
            _ if dir.fresh => Ok(None),
            Some(prefetched) => Ok(Some(prefetched)),
            None => self.look_at(handle, name),
        }
    }

    /// The identity by which a file's stage is found, if the file is one that is continued.
    pub(crate) fn resumable(&self, entry: &Entry) -> Option<SourceId> {
        let can_be = self.policy.resume != Resume::Never && self.policy.wants_hashes();
        self.source_id(entry).filter(|_| can_be)
    }

    /// The identity by which a large file's stage is found.
    pub(super) fn source_id(&self, entry: &Entry) -> Option<SourceId> {
        let min = if self.sender.is_far() { RESUME_LEN_MIN_FAR } else { RESUME_LEN_MIN };
        let large = entry.size() >= min && entry.inode != 0;
        let Entry { inode, ctime, ref attributes, .. } = *entry;
        let mtime = attributes.mtime;
        large.then_some(SourceId { size: entry.size(), mtime, inode, ctime })
    }

    /// True if a peer has to read what is there of a file, to prove that it is the
    /// beginning of its source: also where nothing but size and time shows that the
    /// source is still the same.
    pub(super) fn proves(&self, entry: &Entry) -> bool {
        self.policy.proves_resumed() || entry.ctime.is_none()
    }

    /// An entry that has its outcome has failed after all.
    pub(super) fn fail_late(&self, path: &[u8], fault: Fault) {
        let late = Late { path: words::shown(path.to_vec()), fault: fault.clone() };
        match fault.ends_the_job() {
            true => self.report(0, || path.to_vec(), &Kind::Dir, 0, &Outcome::Failed(fault)),
            false => self.reporter.late(path, fault),
        }
        self.sender.late(late);
        self.end_early();
    }

    /// The path of an entry at the destination, in the user's words for that.
    pub(super) fn path_there(&self, entry: &[u8]) -> Vec<u8> {
        let below = match (&self.rename, entry.iter().position(|byte| *byte == b'/')) {
            (None, _) => entry,
            (Some(_), Some(slash)) => &entry[slash + 1..],
            (Some(_), None) => b"",
        };
        words::join(&self.dest, below)
    }

    /// Tells the users of both sides of something that is no failure.
    pub(super) fn warn(&self, path: &[u8], message: &str) {
        let warning = Warning { path: path.to_vec(), message: message.to_owned() };
        self.reporter.warning(&warning);
        self.sender.warning(Warning { path: words::shown(warning.path), ..warning });
    }

    /// True if a link, FIFO, socket or device is given the time of its source.
    pub(super) fn gives_time(&self, entry: &Entry) -> bool {
        let is_link = matches!(entry.kind, Kind::Symlink { .. });
        !is_link || self.plan.new_links_get_times
    }

    /// True if files wait for the end of the job.
    pub(super) fn delays(&self) -> bool {
        // A job that only removes leaves waiting files to the one after it, which copies.
        self.plan.delays && !self.only_removes() && !self.policy.dry_run
    }

    /// True if each content is hashed: it is to be verified, or the user sees the hash.
    pub(super) fn looks_at_bytes(&self) -> bool {
        self.policy.verify || self.reporter.wants_hashes()
    }
}
