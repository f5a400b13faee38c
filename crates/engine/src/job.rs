//! A job in plain words: what to copy, to where, under which rules, and where
//! the two roles run.

use crate::control::Control;
use crate::link::memory::MemoryLink;
use crate::link::{ReceiverPort, SenderPort};
use crate::receiver::{Destination, Receiver, run_worker};
use crate::remote;
use crate::sender::{Scan, Sender};
use crate::{Monitor, Summary};
use haul_model::{Fault, Policy, Side, escape_bytes};
use haul_net::Connection;
use std::sync::Arc;

/// Fewest and most workers that read or write files on one machine.
const WORKERS_MIN: usize = 2;
const WORKERS_MAX: usize = 8;

/// Tasks that may wait for each worker.
const TASKS_PER_WORKER: usize = 4;

/// Everything that a copy is told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CopyJob {
    /// The sources, as paths of the machine where the sender runs. Relative
    /// ones start in the working directory (here) or home directory (there).
    pub sources: Vec<Vec<u8>>,
    /// The destination, a path of the machine where the receiver runs.
    pub dest: Vec<u8>,
    /// The destination must be a directory: several sources, or a job that is
    /// one of several into the same destination.
    pub into_dir: bool,
    /// Directories may be copied (`-r`).
    pub recursive: bool,
    /// Symbolic links are followed (`-L`).
    pub follow: bool,
    /// What to do with what exists.
    pub policy: Policy,
}

/// Where the roles run.
pub enum Placement {
    /// Both here.
    Local,
    /// The receiver runs in the agent at the other end.
    Upload(Connection),
    /// The sender runs in the agent at the other end.
    Download(Connection),
}

/// Why a job as a whole ended early.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// The words of the job can't be carried out: nothing was done.
    #[error("{0}")]
    Usage(String),
    /// The destination as a whole can't be used.
    #[error("{path}: {fault}")]
    Destination {
        /// The path, escaped.
        path: String,
        /// What is wrong with it.
        fault: Fault,
    },
    /// The connection could not be made, broke, or the peer broke the rules.
    #[error(transparent)]
    Connection(#[from] haul_net::ConnectError),
    /// The peer said what the protocol does not allow, or speaks another version.
    #[error("{0}")]
    Protocol(String),
    /// The user interrupted.
    #[error("interrupted")]
    Interrupted,
}

/// Runs `job` to its end.
///
/// One entry's failure is an [`crate::Event::Entry`] and counts in
/// [`Summary::failed`]; the job goes on.
///
/// # Errors
/// When the job as a whole can't go on. What was published until then stays,
/// and the same job may be run again.
pub fn run(
    job: &CopyJob,
    placement: Placement,
    monitor: &dyn Monitor,
) -> Result<Summary, JobError> {
    haul_sys::raise_open_files();
    match placement {
        Placement::Local => run_local(job, monitor),
        Placement::Upload(connection) => remote::upload(job, connection, monitor),
        Placement::Download(connection) => remote::download(job, connection, monitor),
    }
}

/// Workers that read or write files on this machine.
pub(crate) fn workers() -> usize {
    std::thread::available_parallelism()
        .map_or(WORKERS_MIN, usize::from)
        .clamp(WORKERS_MIN, WORKERS_MAX)
}

/// The destination can't even be looked at.
pub(crate) fn destination_unusable(job: &CopyJob, error: &std::io::Error) -> JobError {
    JobError::Destination {
        path: escape_bytes(&job.dest),
        fault: Fault::from_io(Side::Destination, "look at the directory", error),
    }
}

fn run_local(job: &CopyJob, monitor: &dyn Monitor) -> Result<Summary, JobError> {
    let destination = Destination::find(&job.dest, job.into_dir, job.policy.dry_run)?;
    let around_dest = destination.lineage();
    let control = Control::new(monitor);
    let link = Arc::new(MemoryLink::default());
    let (tasks, work) = crossbeam_channel::bounded(workers() * TASKS_PER_WORKER);
    let receiver = Receiver::new(
        &control,
        Arc::clone(&link) as Arc<dyn SenderPort>,
        destination,
        job.policy,
        None,
        tasks,
    );
    let receiver = receiver.map_err(|error| destination_unusable(job, &error))?;
    let to_receiver = Arc::clone(&link) as Arc<dyn ReceiverPort>;
    let sender = Sender::new(&control, None, to_receiver, job.follow, None);
    link.connect(&sender, &receiver);
    std::thread::scope(|scope| {
        scope.spawn(|| Scan::new(&sender, job.recursive, &around_dest).run(&job.sources));
        for _ in 0..workers() {
            let work = work.clone();
            let receiver = &receiver;
            scope.spawn(move || run_worker(receiver, &work));
        }
        drop(work);
        let result = control.wait();
        receiver.close_tasks();
        result
    })
}
