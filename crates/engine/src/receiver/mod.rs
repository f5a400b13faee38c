//! The Receiver: the role that holds the destination. It alone compares entries, requests missing
//! content and publishes files.

mod arrivals;
mod check;
mod chunks;
mod completion;
mod context;
mod creator;
mod deciding;
mod decision;
mod destination;
mod dirs;
mod disk_space;
mod filler;
mod linking;
mod listing;
mod modes;
mod owners;
mod pending;
mod prefetching;
mod publish;
mod reading;
mod requested;
mod self_copy;
mod subdir;
#[cfg(test)]
mod tests;
mod times;
mod work;

use crate::receiver::filler::filling;
use crate::receiver::publish::hold::HOLD_MAX;
pub(crate) use arrivals::Arrivals;
use chunks::Chunks;
use context::Ending;
pub(crate) use context::JobContext;
use context::ProtocolViolation;
use crossbeam_channel::RecvTimeoutError;
use destination::OtherDirs;
pub(crate) use destination::{CreatedDirs, Destination};
pub(crate) use filler::Filler;
pub(crate) use filler::small::{run_downloads, run_uploads};
pub(crate) use reading::{PARTS_MAX, decode_lists, read_for_receiver, read_lane};
pub(crate) use requested::RequestedSources;
pub(crate) use self_copy::DestLineage;
use work::Buffers;
pub(crate) use work::{Tasks, Work};

use crate::Job;
use crate::control::{Control, Reporter};
use crate::dirs::{DirNode, OpenDirs};
use crate::link::{Proof, ReceiverPort, SenderPort, SourceHandle};
use crate::originals::Originals;
use crate::prefetch::{Names, Prefetched};
use check::Checker;
use completion::Completion;
pub(crate) use context::Ends;
use creator::Creator;
use deciding::Decider;
use decision::{BaseMethod, Decision};
use dirs::{DirState, RecvDir};
use filler::incoming::{DirectWriter, Incoming, Piece};
use filler::providers::{self, Providers};
use haul_model::{BlockHash, Fault, FaultKind, Kind, Name, OrFault, Side};
use haul_plan::Plan;
use haul_proto::ListItem;
use haul_sys::Dir;
use haul_tree::{Capabilities, StagedFile};
use linking::{Groups, Linker};
use listing::Listing;
use owners::{IdMap, Owners};
use parking_lot::Mutex;
use pending::Listed;
pub(crate) use pending::Pending;
use publish::Publisher;
use publish::backup::{BackupLocation, Backups};
use publish::durable::Durability;
use publish::naming::Naming;
use publish::removals::Removals;
use publish::sealing::Sealing;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use times::Times;

/// Tolerated excess over [`haul_proto::LIST_WINDOW`]: the cost of the largest possible item.
pub(crate) const WINDOW_SLACK: u64 = 128 << 10;

/// The Receiver of a job: its stages and the state of the listing.
pub(crate) struct Receiver<'a> {
    pub(crate) job: Arc<JobContext<'a>>,
    owners: Arc<Owners<'a>>,
    times: Arc<Times<'a>>,
    pub(crate) publisher: Arc<Publisher<'a>>,
    pub(crate) completion: Arc<Completion<'a>>,
    linker: Arc<Linker<'a>>,
    pub(crate) filler: Arc<Filler<'a>>,
    creator: Creator<'a>,
    checker: Checker<'a>,
    listing: Mutex<Listing>,
    /// The sources of the job, if this side named them.
    requested: Option<Mutex<RequestedSources>>,
    /// The directory of the staged files, if they are not staged beside their final names.
    staging: Option<Arc<Dir>>,
}

/// A partial file that is resumed, and the hashes of the blocks in it.
pub(crate) type Resumed = (Box<dyn StagedFile>, Vec<BlockHash>);

impl<'a> Receiver<'a> {
    /// Creates a Receiver for `destination`. `requested` limits what the Sender may list, if this
    /// side knows the sources.
    ///
    /// # Errors
    /// If the destination's metadata or the base directories can't be read.
    pub(crate) fn new(
        control: &'a Control<'a>,
        sender: Arc<dyn SenderPort + 'a>,
        destination: Destination,
        job: &Job,
        requested: Option<RequestedSources>,
        tasks: Tasks,
    ) -> io::Result<Arc<Self>> {
        destination.report_naming(job, control.monitor(), &*sender);
        let capabilities = destination.root.capabilities();
        let Capabilities { lanes, acts_as_root, .. } = capabilities;
        let (has, keeps) =
            (destination.root.capabilities().keeps, destination.supported_attributes(&job.task));
        let removes = job.task.removes().is_some();
        let settable = owners::allowed(job.task.keeps(), acts_as_root).and(keeps);
        // A proof covers all attributes that can be compared, even those that can't be set here.
        let proves = if removes { job.task.keeps() } else { modes::given(&job.task, settable) };
        let plan = Plan::of(&job.task, proves.and(keeps));
        let ends = Ends::of(capabilities, &*sender, &plan);
        let OtherDirs { bases, missing_bases, backups, staging, cache } = destination.others;
        let chunks = Chunks::of(cache, &*destination.root, job, &ends).map(Arc::new);
        let root = DirNode::root(destination.root, None, &Arc::new(OpenDirs::default()))?;
        let state = if destination.absent { DirState::Absent } else { DirState::Open(root) };
        let root = RecvDir::new(None, None, state, false, None);
        root.set_rules(destination.scope);
        root.set_bases(providers::roots(bases)?);
        providers::report_missing(missing_bases, control.monitor(), &*sender);
        let backup = BackupLocation::of(job.dest.backup.as_ref(), backups)?;
        if !removes && (job.task.mirrors().is_some() || job.task.moving().is_none()) {
            owners::warn_unsupported(control.monitor(), &destination.path, job.task.keeps(), has);
        }
        let roles_are_local = ends.sender_knows_sources || destination.sources_are_local;
        let job_context = JobContext {
            control,
            reporter: Reporter::new(control.monitor()),
            sender,
            plan,
            filter: job.filter.clone(),
            rename: destination.rename,
            origin: job.dest.origin,
            dest: destination.path,
            ends,
            whole_seconds: destination.whole_seconds,
            open_cost: AtomicU64::new(0),
            tasks: Mutex::new(Some(tasks)),
            ending: Ending::default(),
        };
        let context = Arc::new(job_context);
        let numbers = IdMap::of(job, ends.sender_names_accounts, acts_as_root);
        let owners = Owners::of(&context, numbers, settable);
        let times = Times::of(&owners);
        let backups = Backups::of(&owners, chunks.clone(), backup);
        let originals = destination.sources_are_local.then(|| Originals::of(job));
        let publisher = Publisher::of(&times, backups, originals, destination.source_lineage);
        let completion = Completion::of(&publisher, chunks.clone(), roles_are_local);
        let linker = Linker::of(&completion, Groups::of(job.links_memory_max));
        let providers = Providers::of(job, ends.reads_cheaply && roles_are_local, chunks);
        let filler = Filler::of(&linker, providers, destination.dirs_created > 0, lanes);
        let checker = Checker::of(&owners, &filler, destination.may_be_source);
        let creator = Creator::of(&filler, destination.dest_lineage, destination.dirs_created);
        publisher.take_over_lot_in(&root);
        owners.warn_unknown();
        let listing = Mutex::new(Listing::of(root));
        let (requested, job) = (requested.map(Mutex::new), context);
        Ok(Arc::new(Self {
            job,
            owners,
            times,
            publisher,
            completion,
            linker,
            filler,
            creator,
            checker,
            listing,
            requested,
            staging,
        }))
    }

    /// Admits items of a listing from a wire, for [`Self::take_list`]. Returns `false` if they made
    /// the job fail.
    fn admit_list(&self, items: &[ListItem]) -> bool {
        self.job.check_protocol(self.job.admit(items))
    }

    /// Runs tasks until the queue is closed or the job ends.
    pub(crate) fn run_worker(&self, tasks: &crossbeam_channel::Receiver<Work>) {
        let (job, publisher) = (&self.job, &self.publisher);
        let mut buffers = Buffers::default();
        loop {
            // While files are held, the wait has a limit, so that no file is held for ever.
            let task = if publisher.holding.is_empty() {
                tasks.recv().map_err(RecvTimeoutError::from)
            } else {
                tasks.recv_timeout(HOLD_MAX)
            };
            let _batch = job.ending.begin_batch();
            if job.control.stopped() {
                return;
            }
            match task {
                Ok(task) => task(self, &mut buffers),
                Err(RecvTimeoutError::Timeout) => {
                    self.linker.report_settled(publisher.publish_held())
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Takes the next items of a listing from a wire.
    pub(crate) fn take_list(&self, items: Vec<ListItem>) {
        self.job.check_protocol(self.take_items(items));
    }
}

impl ReceiverPort for Receiver<'_> {
    fn list(&self, items: Vec<ListItem>) {
        if self.admit_list(&items) {
            self.take_list(items);
        }
    }

    fn files(&self, files: Vec<SourceHandle>) {
        let tasks = self.job.tasks.lock().clone();
        if let Some(tasks) = tasks {
            filling::enqueue_files(&tasks, files);
        }
    }

    fn prefetch(&self, above: u64, name: &Name, entries: &mut Names<'_>) -> Option<Prefetched> {
        self.prefetch_dir(above, name, entries)
    }

    fn take_prefetched(&self, index: u64, prefetched: Prefetched) {
        self.listing.lock().prefetching.keep(index, prefetched);
    }

    fn proof(&self, index: u64) -> Option<Proof> {
        self.completion.take_proof(index)
    }
}

/// A fault that the Sender reported, marked as the source's: it can't judge the destination.
pub(crate) fn as_source_fault(fault: Fault) -> Fault {
    Fault { side: Side::Source, ..fault.clipped() }
}

/// True if the entry is a temporary file, journal or temporary directory of haul. Such entries are
/// useless in another place.
fn is_stage(kind: &Kind, name: Option<&Name>) -> bool {
    match kind {
        Kind::Dir => name.is_some_and(haul_store::is_batch),
        _ => name.is_some_and(haul_store::is_private),
    }
}

fn parent_fault() -> Fault {
    Fault::new(Side::Destination, FaultKind::Parent, "the directory above it failed")
}

/// Turns a failure to read metadata into a fault of the destination.
///
/// # Errors
/// That fault.
fn metadata<T>(found: io::Result<T>) -> Result<T, Fault> {
    found.or_fault(Side::Destination, "read the metadata of the destination")
}
