//! A role in this process, with its threads and their queues.

use super::opening::lane::LaneRole;
use super::wire::Input;
use super::{Assembly, Receiving, Sending};
use crate::Job;
use crate::job::Reach;
use crate::link::wire::{ByWire, Lanes, Outbox, lists, read_for_sender};
use crate::link::{ReceiverPort, SenderPort, SourceHandle};
use crate::pool::Pool;
use crate::receiver::{
    Arrivals, Filler, PARTS_MAX, Receiver, Tasks, Work, decode_lists, read_for_receiver,
    run_downloads, run_uploads,
};
use crate::sender::{
    Item, Readers, Remover, RemoverMessage, Scan, Sender, run_reader, run_removers,
};
use crate::threads::JobThreads;
use crate::workers::workers;
use crossbeam_channel::{Receiver as Queue, Sender as Giver, bounded, unbounded};
use haul_model::FileId;
use haul_proto::{Message, Removal};
use haul_tree::{Lane, Tree};
use std::io;
use std::sync::Arc;

/// The most removals in one frame. With the longest paths, the frame stays below its bound.
const REMOVALS_PER_FRAME_MAX: usize = 32;

/// Returns `work`, which keeps a clone of `at_work` until it ends.
fn holding<F: FnOnce()>(at_work: Option<&Giver<()>>, work: F) -> impl FnOnce() + use<F> {
    let at_work = at_work.cloned();
    move || {
        work();
        drop(at_work);
    }
}

/// Reused buffers of one side of a job.
fn pool() -> Pool {
    Pool::new((workers() * 2 + 2).min(8))
}

/// The Sender.
pub(super) struct SenderSide<'a> {
    pub(super) role: Arc<Sender<'a>>,
    tree: &'a dyn Tree,
    dest_lineage: &'a [FileId],
    /// The user is on this side of a wire.
    has_user: bool,
    /// Files whose contents are sent over a wire.
    wanted: Queue<Item>,
    /// The messages by which removers decide about the sources.
    heard: Queue<RemoverMessage>,
    removers: usize,
}

impl<'scope, 'a: 'scope> SenderSide<'a> {
    /// A Sender that lists to `receiver`. `outbox` is set if the Receiver is at the other end of a
    /// wire.
    pub(super) fn new(
        assembly: &Assembly<'a>,
        sending: &Sending<'a>,
        receiver: Arc<dyn ReceiverPort + 'a>,
        outbox: Option<&Arc<Outbox>>,
    ) -> Self {
        let Assembly { job, control, .. } = *assembly;
        let Sending { tree, dest_lineage, reporter, removers, .. } = *sending;
        let (queue, wanted) = unbounded();
        let (removed_sender, heard) = unbounded();
        let queue = outbox.map(|_| queue);
        let removed_by_others = job.task.removes().is_some() && (outbox.is_some() || removers > 0);
        let removed_sender = removed_by_others.then_some(removed_sender);
        let role = Sender::new(control, reporter, receiver, job, queue, removed_sender);
        let has_user = reporter.is_some();
        Self { role, tree, dest_lineage, has_user, wanted, heard, removers }
    }

    /// Starts the listing of the sources. `at_work` is set if it may wait for a remote tree.
    pub(super) fn begin_scan(
        &self,
        threads: JobThreads<'scope, '_>,
        job: &'a Job,
        at_work: Option<&Giver<()>>,
    ) {
        let (role, tree, dest_lineage) = (Arc::clone(&self.role), self.tree, self.dest_lineage);
        let work = move || Scan::new(&role, tree, job, dest_lineage).run(job);
        threads.spawn("scan", holding(at_work, work));
    }

    /// Starts the removers for a move between trees of this process.
    pub(super) fn begin_removers(self, threads: JobThreads<'scope, '_>, at_work: &Giver<()>) {
        let Self { role, heard, removers, .. } = self;
        let at_work = at_work.clone();
        if role.removes() && removers > 0 {
            threads.spawn_several("remover", removers, move || {
                let _at_work = at_work;
                run_removers(&role, &heard);
            });
        }
    }

    /// Starts all threads of a Sender whose Receiver is at the other end of a wire. Returns the
    /// readers, which lanes may join.
    pub(super) fn begin_over_wire(
        self,
        threads: JobThreads<'scope, '_>,
        job: &'a Job,
        (input, outbox): (Input, Arc<Outbox>),
        (expects_lanes, by_wire): (bool, ByWire),
        at_work: Giver<()>,
    ) -> LaneRole<'a> {
        let role = Arc::clone(&self.role);
        let control = threads.control();
        let lanes = Lanes::new(Arc::clone(&outbox), by_wire);
        let (wanted, pool) = (self.wanted.clone(), pool());
        let readers = Arc::new(Readers::new(Arc::clone(&role), wanted, lanes, pool, expects_lanes));
        let lanes = expects_lanes.then(|| Arc::clone(&readers));
        let answered = Arc::clone(&outbox);
        threads.spawn("reader", move || {
            let _at_work = at_work;
            let lanes = lanes.as_ref().map(|readers| &readers.lanes);
            let rests = || answered.rests();
            input.read(control, |input, offers| {
                read_for_sender(input, &*role, offers, lanes, &rests)
            });
        });
        self.begin_scan(threads, job, None);
        if !self.role.copies_nothing() {
            let (role, outbox) = (Arc::clone(&self.role), Arc::clone(&outbox));
            threads.spawn("offers", move || role.run_offers(&outbox));
        }
        let Self { role, tree, has_user, heard, .. } = self;
        if role.removes() {
            let (role, outbox) = (Arc::clone(&role), Arc::clone(&outbox));
            threads.spawn("remover", move || {
                let send_message = |removals: Vec<Removal>| {
                    if !has_user {
                        let max = REMOVALS_PER_FRAME_MAX;
                        return outbox.send_parts(&removals, max, Message::Removed);
                    }
                    // The user here gets the removals, and the agent their end.
                    removals.into_iter().for_each(|removal| match removal {
                        Removal::End => outbox.send_message(&Message::Removed(vec![removal])),
                        removal => role.removing.report_removal(removal),
                    });
                };
                Remover::new(&role, tree, &job.sources.paths, &send_message).run(&heard);
            });
        }
        let part = LaneRole::Sends(Arc::clone(&readers));
        threads.spawn_several("file reader", workers(), move || run_reader(&readers, control));
        part
    }
}

/// The Receiver.
pub(super) struct ReceiverSide<'a> {
    pub(super) role: Arc<Receiver<'a>>,
    pub(super) confined_to: Option<Reach>,
    reports_arrivals: bool,
    tree: &'a dyn Tree,
    /// The tree of a Sender in this process.
    source: Option<&'a dyn Tree>,
    workers: usize,
    work: Queue<Work>,
    /// Small files that are copied by their own threads.
    small: Queue<SourceHandle>,
}

impl<'scope, 'a: 'scope> ReceiverSide<'a> {
    /// A Receiver that reports its decisions to `sender`.
    ///
    /// # Errors
    /// When the destination can't be opened.
    pub(super) fn new(
        assembly: &Assembly<'a>,
        receiving: Receiving<'a>,
        source: Option<&'a dyn Tree>,
        sender: Arc<dyn SenderPort + 'a>,
    ) -> io::Result<Self> {
        let Receiving { tree, destination, asked, confined_to, workers, tasks_max, .. } = receiving;
        let reports_arrivals = receiving.reports_arrivals;
        let (tasks, work) = tasks_max.map_or_else(unbounded, bounded);
        let (small_tasks, small) = unbounded();
        let has_lanes = source.is_some_and(|source| {
            source.capabilities().small_lanes + tree.capabilities().small_lanes > 0
        });
        let tasks = match has_lanes {
            true => Tasks::with_small(tasks, small_tasks),
            false => Tasks::to_all(tasks),
        };
        let Assembly { job, control, .. } = *assembly;
        let role = Receiver::new(control, sender, destination, job, asked, tasks)?;
        Ok(Self { role, confined_to, reports_arrivals, tree, source, workers, work, small })
    }

    /// Starts a thread for the small files on each lane of both trees.
    pub(super) fn begin_small_files(&self, threads: JobThreads<'scope, '_>, at_work: &Giver<()>) {
        type Run = fn(&Filler<'_>, &Queue<SourceHandle>, Lane<'_>);
        let Some(source) = self.source else { return };
        for (tree, run) in [(source, run_downloads as Run), (self.tree, run_uploads)] {
            for lane in 0..tree.capabilities().small_lanes {
                let (role, files) = (Arc::clone(&self.role), self.small.clone());
                let work = move || {
                    if let Some(lane) = tree.lane(lane) {
                        run(&role.filler, &files, lane);
                    }
                };
                threads.spawn("small files", holding(Some(at_work), work));
            }
        }
    }

    /// Starts the worker threads.
    pub(super) fn begin_workers(
        self,
        threads: JobThreads<'scope, '_>,
        at_work: Option<&Giver<()>>,
    ) {
        let Self { role, work, workers, .. } = self;
        let at_work = at_work.cloned();
        threads.spawn_several("worker", workers, move || {
            let _at_work = at_work;
            role.run_worker(&work);
        });
    }

    /// Starts all threads of a Receiver whose Sender is at the other end of a wire. Returns the
    /// receiving part, which lanes may join.
    pub(super) fn begin_over_wire(
        self,
        threads: JobThreads<'scope, '_>,
        input: Input,
        expects_lanes: bool,
        at_work: Giver<()>,
    ) -> LaneRole<'a> {
        let (lists, listed) = lists();
        let (parts, decoded) = bounded(PARTS_MAX);
        let role = Arc::clone(&self.role);
        threads.spawn("decoder", move || decode_lists(&role, &listed, &parts));
        let role = Arc::clone(&self.role);
        threads.spawn("lister", move || decoded.iter().for_each(|items| role.take_list(items)));
        let arrivals = Arrivals::new(pool(), expects_lanes, self.reports_arrivals);
        let (role, arrivals) = (Arc::clone(&self.role), Arc::new(arrivals));
        let part = LaneRole::Receives(Arc::clone(&role), Arc::clone(&arrivals));
        threads.spawn("reader", move || {
            let _at_work = at_work;
            input.read(role.job.control, |input, offers| {
                read_for_receiver(input, &role, &lists, offers, &arrivals)
            });
        });
        self.begin_workers(threads, None);
        part
    }
}
