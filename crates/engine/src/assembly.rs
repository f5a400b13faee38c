//! Puts a job together in this process: its roles on their trees, the link between them or to the
//! peer, and their threads. Waits for the end of the job, and ends threads that still wait.
//!
//! A consumer thread is started before the thread that produces its input.

mod carrier;
mod opening;
mod roster;
mod schedule;
mod side;
mod wire;

pub(crate) use self::carrier::{PeerInput, watch_reader};
pub(crate) use self::opening::Joining;
pub(crate) use self::opening::calling::CallSettings;
pub(crate) use self::opening::further_logins::FurtherLogins;
pub(crate) use self::wire::{Greeting, IdleStreams, Wire};

use self::opening::Joins;
use self::roster::Roster;
use self::side::{ReceiverSide, SenderSide};
use self::wire::Input;
use crate::control::{Control, Reporter};
use crate::job::Reach;
use crate::link::MemoryLink;
use crate::link::wire::{Outbox, RemoteReceiver, RemoteSender};
use crate::link::{ReceiverPort, SenderPort};
use crate::receiver::{CreatedDirs, Destination, RequestedSources};
use crate::sender::{Sender, Twins};
use crate::threads::JobThreads;
use crate::workers::workers;
use crate::{Job, JobError, Summary};
use crossbeam_channel::{Receiver as Left, bounded};
use haul_model::FileId;
use haul_tree::Tree;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A job, before its roles are placed.
pub(crate) struct Assembly<'a> {
    pub(crate) job: &'a Job,
    pub(crate) control: &'a Control<'a>,
    pub(crate) job_connection: &'a dyn JobConnection,
}

/// A job's connection to another machine, if it has one.
pub(crate) trait JobConnection {
    /// Called when the job has ended with `result`. Makes sure that none of its threads still waits
    /// for the peer.
    fn end(&self, result: &Result<Summary, JobError>, leaving: EndingThreads<'_>);
}

/// A job on this machine alone.
impl JobConnection for () {
    fn end(&self, _: &Result<Summary, JobError>, _: EndingThreads<'_>) {}
}

/// The work of a writer.
pub(crate) type WriterWork<'s> = Box<dyn FnOnce() + Send + 's>;

/// The threads of a job that has ended, as far as they may still wait. Each thread holds the other
/// end of a channel through which nothing is sent.
pub(crate) struct EndingThreads<'s> {
    /// The thread that writes to a wire.
    pub(crate) writer: Left<()>,
    /// The thread that reads from a wire. Without a wire, all threads that work on a tree.
    pub(crate) others: Left<()>,
    /// The writer's work, if there was no thread for it.
    pub(crate) write: Option<WriterWork<'s>>,
    /// The lanes of the wire.
    lanes: Arc<Roster>,
}

impl EndingThreads<'_> {
    /// Disconnects all lanes of the wire. If the job `is_done`, logins that are not yet accepted
    /// get a moment first.
    pub(crate) fn hang_up(&self, is_done: bool) {
        self.lanes.hang_up(is_done);
    }

    /// True if all threads leave within `timeout`.
    pub(crate) fn within(&self, timeout: Duration) -> bool {
        let begin = Instant::now();
        wait_until_left(&self.writer, timeout)
            && wait_until_left(&self.others, timeout.saturating_sub(begin.elapsed()))
    }
}

/// True if all holders of the other end of `all_left` drop it within `timeout`.
pub(crate) fn wait_until_left(all_left: &Left<()>, timeout: Duration) -> bool {
    !all_left.recv_timeout(timeout).is_err_and(|error| error.is_timeout())
}

/// The roles that run in this process.
pub(crate) enum Placed<'a> {
    Both(Sending<'a>, Receiving<'a>),
    /// The Receiver is at the other end of a wire.
    Sender(Sending<'a>, Box<Wire>),
    /// The Sender is at the other end of a wire.
    Receiver(Receiving<'a>, Box<Wire>),
}

/// A Sender in this process.
pub(crate) struct Sending<'a> {
    /// The tree of the sources.
    pub(crate) tree: &'a dyn Tree,
    /// See [`crate::sender::Scan::new`].
    pub(crate) dest_lineage: &'a [FileId],
    /// Set where the user is on this side and the Receiver is not.
    pub(crate) reporter: Option<&'a Reporter<'a>>,
    /// The directories that sources were compared with, where both are on this machine.
    pub(crate) twins: Option<&'a Twins>,
    /// The number of threads that remove the sources of a move without a wire. Each waits for its
    /// tree. With 0, sources are removed as their outcomes arrive.
    pub(crate) removers: usize,
}

impl<'a> Sending<'a> {
    /// A Sender for the sources in `tree`.
    pub(crate) fn of(tree: &'a dyn Tree) -> Self {
        Self { tree, dest_lineage: &[], reporter: None, twins: None, removers: 0 }
    }
}

/// A Receiver in this process.
pub(crate) struct Receiving<'a> {
    /// The tree of the destination.
    pub(crate) tree: &'a dyn Tree,
    pub(crate) destination: Destination,
    /// The sources that may be listed, where this side has asked for them.
    pub(crate) asked: Option<RequestedSources>,
    /// Reports the progress of lanes to the Sender's side, where the user is.
    pub(crate) reports_arrivals: bool,
    /// The directories to which all threads but the writer are confined, because a peer can cause
    /// what happens in them.
    pub(crate) confined_to: Option<Reach>,
    /// Threads that work on files.
    pub(crate) workers: usize,
    /// The most tasks that may wait for workers. Bounded only for a tree without round trips and
    /// with the Sender in this process: there, no worker creates tasks.
    pub(crate) tasks_max: Option<usize>,
}

impl<'a> Receiving<'a> {
    /// A Receiver that works in `destination` of `tree`.
    pub(crate) fn of(tree: &'a dyn Tree, destination: Destination) -> Self {
        let (asked, confined_to, tasks_max) = (None, None, None);
        let (reports_arrivals, workers) = (false, workers());
        Self { tree, destination, asked, reports_arrivals, confined_to, workers, tasks_max }
    }
}

impl<'a> Assembly<'a> {
    /// Runs the job with these roles to its end.
    ///
    /// # Errors
    /// The reason why the job ended early.
    pub(crate) fn run(&self, placed: Placed<'a>) -> Result<Summary, JobError> {
        if let Some(rate) = self.job.wire.rate {
            self.control.limit_rate(rate);
        }
        match placed {
            Placed::Both(sending, receiving) => self.run_both(&sending, receiving),
            Placed::Sender(sending, wire) => {
                wire.outbox.compression_control.set_mode(self.job.wire.compression);
                self.control.finish_reading();
                let port = Arc::new(RemoteReceiver { outbox: Arc::clone(&wire.outbox) });
                let sender = SenderSide::new(self, &sending, port, Some(&wire.outbox));
                self.run_threads(Some(sender), None, Some(*wire))
            }
            Placed::Receiver(receiving, wire) => {
                let reports_sizes = receiving.reports_arrivals && wire.joining.is_some();
                let outbox = Arc::clone(&wire.outbox);
                let port = Arc::new(RemoteSender { outbox, reports_sizes });
                let made = receiving.destination.made.clone();
                let receiver = self.receiver(receiving, None, port);
                let ran = self.run_threads(None, receiver, Some(*wire));
                self.end_with(ran, made)
            }
        }
    }

    /// Ends a job whose Receiver was here. If no source was found, the destination that was created
    /// for it is removed.
    fn end_with(
        &self,
        ran: Result<Summary, JobError>,
        made: CreatedDirs,
    ) -> Result<Summary, JobError> {
        let is_made_for_none =
            || self.control.monitor().progress().entry_counts().found.total() == 0;
        if ran.is_ok() && is_made_for_none() {
            made.remove_created();
        }
        ran
    }

    /// Runs both roles with a link in memory. A move removes the directories of its sources at the
    /// end.
    fn run_both(
        &self,
        sending: &Sending<'a>,
        receiving: Receiving<'a>,
    ) -> Result<Summary, JobError> {
        let link = Arc::new(MemoryLink::default());
        let made = receiving.destination.made.clone();
        let to_sender = Arc::clone(&link) as Arc<dyn SenderPort>;
        let Some(receiver) = self.receiver(receiving, Some(sending.tree), to_sender) else {
            return self.run_threads(None, None, None);
        };
        let to_receiver = Arc::clone(&link) as Arc<dyn ReceiverPort>;
        let side = SenderSide::new(self, sending, to_receiver, None);
        let sender = Arc::clone(&side.role);
        link.connect(&sender, &receiver.role);
        let ran = self.run_threads(Some(side), Some(receiver), None);
        let summary = self.end_with(ran, made)?;
        if self.job.task.removes().is_some() && sending.removers > 0 && !sender.ledger.is_empty() {
            // The removers ended before they were done.
            return Err(self.control.lost().unwrap_or(JobError::Interrupted));
        }
        self.remove_dirs(&sender, sending);
        self.control.lost().map_or(Ok(summary), Err)
    }

    fn remove_dirs(&self, sender: &Sender<'_>, sending: &Sending<'_>) {
        let mut report_removal = |removal| sender.removing.report_removal(removal);
        sender.removing.remove_dirs(
            sending.tree,
            &self.job.sources.paths,
            sending.twins,
            &mut report_removal,
        );
    }

    /// Creates the Receiver; `source` is the tree of a Sender in this process. Returns `None` and
    /// ends the job if the destination can't be opened.
    fn receiver(
        &self,
        receiving: Receiving<'a>,
        source: Option<&'a dyn Tree>,
        port: Arc<dyn SenderPort + 'a>,
    ) -> Option<ReceiverSide<'a>> {
        ReceiverSide::new(self, receiving, source, port)
            .map_err(|error| {
                let error = JobError::unusable(&self.job.dest.path, &error);
                self.control.fail(self.control.lost().unwrap_or(error));
            })
            .ok()
    }

    /// Runs the threads of these sides, and returns when all have ended.
    fn run_threads(
        &self,
        sender: Option<SenderSide<'a>>,
        mut receiver: Option<ReceiverSide<'a>>,
        mut wire: Option<Wire>,
    ) -> Result<Summary, JobError> {
        let (job, control) = (self.job, self.control);
        job.preload_accounts()?;
        let roster = Arc::new(Roster::default());
        let mut joins = wire.as_mut().map(|wire| wire.joins(&roster));
        let (writes, writer) = bounded(0);
        let (works, others) = bounded(0);
        let roles = (
            sender.as_ref().map(|side| Arc::clone(&side.role)),
            receiver.as_ref().map(|side| Arc::clone(&side.role)),
        );
        let confined_to = receiver.as_mut().and_then(|side| side.confined_to.take());
        std::thread::scope(|scope| {
            let threads = JobThreads::new(scope, control);
            if let Some(joining) = joins.as_mut().and_then(|joins| joins.joining.as_mut()) {
                joining.begin_unconfined(threads);
            }
            let sending = roles.0.clone();
            let (wire, write) =
                wire.map(|wire| wire.begin_writer(threads, sending, writes)).unzip();
            let begin =
                move || begin_roles(threads, job, sender, receiver, wire.zip(joins), &works);
            match confined_to {
                Some(dirs) => threads.spawn("confined", move || {
                    job.confine_receiver(&dirs);
                    begin();
                }),
                None => begin(),
            }
            let result = control.wait();
            if let Some(sender) = &roles.0 {
                sender.close_queue();
            }
            if let Some(receiver) = &roles.1 {
                receiver.job.close_tasks();
                if let Some(chunks) = &receiver.filler.providers.chunks {
                    chunks.flush();
                }
                if let Err(error) = &result {
                    receiver.publisher.leave_waiting(error);
                }
                // The connection still works, so the other side can receive the outcomes.
                if matches!(result, Err(JobError::Destination { .. })) {
                    receiver.job.ending.wait_for_batches();
                }
            }
            let (write, lanes) = (write.flatten(), Arc::clone(&roster));
            self.job_connection.end(&result, EndingThreads { writer, others, write, lanes });
            roster.hang_up(false);
            result
        })
    }
}

/// Starts the threads of these sides. They read from the wire, if there is one.
fn begin_roles<'scope, 'a: 'scope>(
    threads: JobThreads<'scope, '_>,
    job: &'a Job,
    sender: Option<SenderSide<'a>>,
    receiver: Option<ReceiverSide<'a>>,
    wire: Option<((Input, Arc<Outbox>), Joins)>,
    at_work: &crossbeam_channel::Sender<()>,
) {
    match (sender, receiver, wire) {
        (Some(sender), None, Some((wire, joins))) => {
            let lanes = (joins.joining.is_some(), joins.by_wire);
            let part = sender.begin_over_wire(threads, job, wire, lanes, at_work.clone());
            joins.begin(threads, part, at_work);
        }
        (None, Some(receiver), Some(((input, _), joins))) => {
            let expects_lanes = joins.joining.is_some();
            let part = receiver.begin_over_wire(threads, input, expects_lanes, at_work.clone());
            joins.begin(threads, part, at_work);
        }
        (Some(sender), Some(receiver), None) => {
            receiver.begin_small_files(threads, at_work);
            sender.begin_scan(threads, job, Some(at_work));
            receiver.begin_workers(threads, Some(at_work));
            sender.begin_removers(threads, at_work);
        }
        // The job has ended already.
        _ => {}
    }
}
