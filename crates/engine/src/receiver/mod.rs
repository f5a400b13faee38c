//! The Receiver: holds the destination, and so it alone compares, asks for what
//! is missing, and publishes.

mod arrivals;
mod asked;
mod backing;
mod check;
mod deciding;
mod destination;
mod dirs;
mod ending;
mod filling;
mod full;
mod given;
mod hashing;
mod hold;
mod in_place;
mod incoming;
mod linking;
mod listing;
mod live;
mod losing;
mod mirror;
mod modes;
mod naming;
mod own;
mod pending;
mod place;
mod prefetching;
mod proofs;
mod providers;
mod proving;
mod reading;
mod resume;
mod sealing;
mod small;
mod subdir;
mod taking;
mod telling;
mod times;
mod waiting;
mod way;
mod work;

pub(crate) use arrivals::Arrivals;
pub(crate) use asked::Asked;
pub(crate) use destination::{Destination, Made};
pub(crate) use own::Around;
pub(crate) use reading::{PARTS_MAX, decode_lists, read_for_receiver, read_lane};
pub(crate) use small::{run_downloads, run_uploads};
pub(crate) use work::{Tasks, Work, run_worker};

use crate::control::{Control, Reporter};
use crate::dirs::{DirNode, OpenDirs};
use crate::link::{Proof, ReceiverPort, SenderPort, SourceHandle};
use crate::originals::Originals;
use crate::prefetch::{Names, Prefetched};
use crate::{Job, JobError};
use backing::Backing;
use dirs::{DirState, RecvDir};
use ending::Ending;
use given::Numbers;
use hashing::Hashing;
use haul_model::{
    BlockHash, Entry, Fault, FaultKind, FileId, Filter, Kept, Kind, Name, Policy, Side, Summary,
    Task,
};
use haul_plan::Plan;
use haul_proto::{LIST_WINDOW, ListItem};
use haul_sys::Dir;
use haul_tree::{Capabilities, Outstanding, StagedFile};
use hold::Holding;
use incoming::{Direct, Incoming, Piece};
use linking::Groups;
use listing::{Broken, Listing};
use losing::Losing;
use mirror::Deleting;
use naming::Merging;
use parking_lot::Mutex;
pub(crate) use pending::Pending;
use proofs::Proofs;
use providers::{Chunks, Providers};
use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use times::Units;
use waiting::Waiting;

/// Items beyond [`LIST_WINDOW`] that are tolerated: one that is as large as an
/// item can be.
pub(crate) const WINDOW_SLACK: u64 = 128 << 10;

/// The role.
pub(crate) struct Receiver<'a> {
    pub(crate) control: &'a Control<'a>,
    pub(crate) reporter: Reporter<'a>,
    sender: Arc<dyn SenderPort + 'a>,
    task: Task,
    /// The rules of a copy; those of one that changes nothing where the task is another.
    policy: Policy,
    /// The rules by which entries are decided about.
    plan: Plan,
    numbers: Numbers,
    /// See [`Losing`].
    losing: Losing,
    groups: Groups,
    origin: Option<[u8; 16]>,
    /// See [`Destination::path`].
    dest: Vec<u8>,
    /// See [`Destination::may_be_source`].
    may_be_source: bool,
    /// Files whose contents are being compared.
    hashing: Mutex<HashMap<u64, Hashing>>,
    /// The Sender removes its sources, and has it proven that they can go.
    gives_proofs: bool,
    proofs: Mutex<Proofs>,
    rename: Option<Name>,
    around: Around,
    filter: Filter,
    /// The sources of the job, where this side named them.
    asked: Option<Mutex<Asked>>,
    listing: Mutex<Listing>,
    /// See [`Merging`].
    merging: Merging,
    wanted: Mutex<HashMap<u64, Box<Pending>>>,
    /// Where content may come from besides the Sender.
    providers: Providers,
    /// Cost of what was listed and has no outcome yet.
    open_cost: AtomicU64,
    /// See [`Destination::dirs_made`].
    dirs_made: usize,
    /// See [`Destination::holds_sources`].
    holds_sources: HashSet<FileId>,
    deleting: Deleting,
    /// Where what is replaced or removed is kept.
    backing: Option<Backing>,
    /// Files that wait for the end of the job, if they do.
    waiting: Waiting,
    /// Where files are staged, if not where they will appear.
    staging: Option<Arc<Dir>>,
    /// Held while a file with several names is written into.
    updating: Mutex<()>,
    /// The sources, if they are on this machine.
    originals: Option<Originals>,
    /// Files and names that wait to be durable.
    holding: Holding,
    /// Directories that a server gives their mode and time.
    sealing: Mutex<VecDeque<(Arc<RecvDir>, Outstanding)>>,
    /// Everything is settled, and Done is being sent: the Sender may leave.
    done: AtomicBool,
    /// The Sender removes its sources and reports which: the job ends when it says
    /// that those were all.
    awaits_removals: bool,
    /// The figures of a job that waits for that alone.
    settled: Mutex<Option<Summary>>,
    /// See [`Ending`].
    pub(crate) ending: Ending,
    /// Taken out when no more work is to come.
    tasks: Mutex<Option<Tasks>>,
    /// Each operation at the destination takes a round trip, and is left to the workers.
    costs_round_trips: bool,
    /// Ways there that the content of one file can take at the same time.
    lanes: usize,
    /// One of the sides keeps times in whole seconds.
    whole_seconds: bool,
    units: Units,
}

/// A stage that is continued, and the hashes of the blocks in it.
pub(crate) type Resumed = (Box<dyn StagedFile>, Vec<BlockHash>);

impl<'a> Receiver<'a> {
    /// A receiver that works in `destination`. `asked` is what may be listed,
    /// where this side knows that.
    ///
    /// # Errors
    /// When the destination can't be looked at.
    pub(crate) fn new(
        control: &'a Control<'a>,
        sender: Arc<dyn SenderPort + 'a>,
        destination: Destination,
        job: &Job,
        asked: Option<Asked>,
        tasks: Tasks,
    ) -> io::Result<Arc<Self>> {
        destination.report_naming(job, control.monitor(), &*sender);
        let Capabilities { costs_round_trips, lanes, acts_as_root, .. } =
            destination.root.capabilities();
        let (has, keeps) = (destination.root.keeps(), destination.keeps_in(&job.task));
        let chunks = Chunks::of(destination.cache, &*destination.root, job, &*sender);
        let root = DirNode::root(destination.root, None, &Arc::new(OpenDirs::default()))?;
        let state = if destination.absent { DirState::Absent } else { DirState::Open(root) };
        let root = RecvDir::new(None, None, state, false, None);
        root.begin_with(destination.scope);
        root.set_bases(providers::roots(destination.bases)?);
        providers::report_missing(destination.missing_bases, control.monitor(), &*sender);
        let backing = Backing::of(job.backup.as_ref(), destination.backups)?;
        let removes = job.task.removes().is_some();
        if !removes && (job.task.mirrors().is_some() || job.task.moving().is_none()) {
            given::tell_lacks(control.monitor(), &destination.path, job.task.keeps(), has);
        }
        let gives = given::allowed(job.task.keeps(), acts_as_root).and(keeps);
        // A proof is of all that can be looked at, if it can be given here or not.
        let proves = if removes { job.task.keeps() } else { modes::given(&job.task, gives) };
        let (policy, is_far) = (policy_of(job, proves.and(keeps)), sender.is_far());
        let is_beside = is_far || destination.sources_are_here;
        let receiver = Arc::new(Self {
            control,
            reporter: Reporter::new(control.monitor()),
            sender,
            task: job.task,
            policy,
            plan: Plan::of(&job.task, &policy),
            numbers: Numbers::of(job, is_far, acts_as_root),
            losing: Losing::of(&job.task, gives),
            groups: Groups::of(job.links_memory_max),
            origin: job.origin,
            dest: destination.path,
            may_be_source: destination.may_be_source,
            hashing: Mutex::default(),
            gives_proofs: removes && is_beside,
            proofs: Mutex::default(),
            rename: destination.rename,
            around: destination.around,
            filter: job.filter.clone(),
            asked: asked.map(Mutex::new),
            listing: Mutex::new(Listing::of(root)),
            merging: Merging::default(),
            wanted: Mutex::default(),
            providers: Providers::of(job, !costs_round_trips && is_beside, chunks),
            open_cost: AtomicU64::new(0),
            dirs_made: destination.dirs_made,
            holds_sources: destination.holds_sources,
            deleting: Deleting::default(),
            backing,
            waiting: Waiting::default(),
            staging: destination.staging,
            updating: Mutex::default(),
            originals: destination.sources_are_here.then(|| Originals::of(job)),
            holding: Holding::default(),
            sealing: Mutex::default(),
            done: AtomicBool::new(false),
            awaits_removals: removes && is_far,
            settled: Mutex::new(None),
            ending: Ending::default(),
            tasks: Mutex::new(Some(tasks)),
            costs_round_trips,
            lanes,
            whole_seconds: destination.whole_seconds,
            units: Units::default(),
        });
        receiver.take_over_lot();
        receiver.tell_unknown();
        Ok(receiver)
    }

    /// Counts items that have arrived against the window, before they are kept.
    fn admit(&self, items: &[ListItem]) -> Result<(), Broken> {
        let cost: u64 = items.iter().map(ListItem::cost).sum();
        let open = self.open_cost.fetch_add(cost, Ordering::Relaxed) + cost;
        if open > LIST_WINDOW + WINDOW_SLACK {
            return Err(Broken("it listed more than the window allows"));
        }
        Ok(())
    }

    /// Admits items of a listing that has come over a wire, to be taken with
    /// [`Self::take_list`]; `false` if the job has failed by that.
    fn admit_list(&self, items: &[ListItem]) -> bool {
        self.keep_rules(self.admit(items))
    }

    /// Takes the next items of a listing that has come over a wire.
    pub(crate) fn take_list(&self, items: Vec<ListItem>) {
        self.keep_rules(self.take_items(items));
    }

    /// Ends the job because the Sender broke a rule.
    pub(crate) fn refuse(&self, rule: &'static str) {
        self.keep_rules(Err(Broken(rule)));
    }

    fn keep_rules(&self, result: Result<(), Broken>) -> bool {
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
    fn removes(&self) -> bool {
        self.task.removes().is_some()
    }

    /// True if Done may have been sent.
    pub(crate) fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    /// True if nothing more is expected from the Sender.
    pub(crate) fn is_over(&self) -> bool {
        self.is_done() && (!self.awaits_removals || self.control.has_ended())
    }

    /// True if the Sender reports what it removes.
    pub(crate) fn awaits_removals(&self) -> bool {
        self.awaits_removals
    }

    /// Lets the workers end when they have done what is there.
    pub(crate) fn close_tasks(&self) {
        self.tasks.lock().take();
    }

    /// Takes a wanted file out, to give it its content.
    pub(crate) fn claim(&self, index: u64) -> Option<Pending> {
        self.wanted.lock().remove(&index).map(|pending| *pending)
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

    /// Releases a file's directory, after its outcome was reported.
    pub(crate) fn release(&self, dir: Arc<RecvDir>) {
        self.settle(dir);
    }

    fn close(&self, cost: u64) {
        self.open_cost.fetch_sub(cost, Ordering::Relaxed);
    }

    /// One entry of `dir` is settled; with the last one the directory gets its
    /// mode and time, and is itself settled in the one above it.
    fn settle(&self, dir: Arc<RecvDir>) {
        let mut dir = dir;
        while dir.settle_one() {
            match self.end_dir(&dir) {
                Some(parent) => dir = parent,
                None => return,
            }
        }
    }

    /// Everything in `dir` has its outcome: gives it its mode and time, and tells
    /// the job's end if it is the root. Returns the directory above.
    fn end_dir(&self, dir: &Arc<RecvDir>) -> Option<Arc<RecvDir>> {
        if !self.puts_off(dir) {
            self.seal(dir);
            self.sync_dir(dir);
        }
        if let Some(parent) = &dir.parent {
            return Some(Arc::clone(parent));
        }
        self.publish_waiting();
        self.end_sealing(0);
        self.sync_names();
        // What ended early is not done, though everything is settled.
        if !self.control.stopped() {
            let summary = self.reporter.summary();
            self.control.hear_out();
            if self.awaits_removals {
                *self.settled.lock() = Some(summary);
                self.sender.done(summary);
                return None;
            }
            self.done.store(true, Ordering::Release);
            self.sender.done(summary);
            self.control.finish(Ok(summary));
        }
        None
    }
}

impl ReceiverPort for Receiver<'_> {
    fn list(&self, items: Vec<ListItem>) {
        if self.admit_list(&items) {
            self.take_list(items);
        }
    }

    fn files(&self, files: Vec<SourceHandle>) {
        let tasks = self.tasks.lock().clone();
        if let Some(tasks) = tasks {
            tasks.give_files(files);
        }
    }

    fn prefetch(&self, above: u64, name: &Name, entries: &mut Names<'_>) -> Option<Prefetched> {
        self.look_ahead(above, name, entries)
    }

    fn take_prefetched(&self, index: u64, prefetched: Prefetched) {
        self.listing.lock().prefetching.keep(index, prefetched);
    }

    fn proof(&self, index: u64) -> Option<Proof> {
        self.proofs.lock().remove(&index).flatten()
    }
}

/// The rules by which a job copies, or compares, and keeps what is in `keeps`.
fn policy_of(job: &Job, keeps: Kept) -> Policy {
    let compares = Policy { dry_run: true, ..Policy::default() };
    Policy { keeps, ..job.task.copies().copied().unwrap_or(compares) }
}

/// A fault that the Sender reported, as one of its own: the destination is not for
/// it to judge.
pub(crate) fn of_sender(fault: Fault) -> Fault {
    Fault { side: Side::Source, ..fault.clipped() }
}

/// True if it is a stage or journal of haul's own, left or at work in a tree: it
/// is worth nothing in another place.
fn is_stage(kind: &Kind, name: Option<&Name>) -> bool {
    match kind {
        Kind::Dir => name.is_some_and(haul_store::is_lot),
        _ => name.is_some_and(haul_store::is_private),
    }
}

fn parent_fault() -> Fault {
    Fault::new(Side::Destination, FaultKind::Parent, "the directory above it failed")
}
