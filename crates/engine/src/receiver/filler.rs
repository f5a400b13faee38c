//! Filling: gets the content of wanted files, from this machine or from the Sender.

pub(super) mod filling;
pub(super) mod hashing;
pub(super) mod incoming;
pub(super) mod providers;
pub(super) mod proving;
pub(super) mod resume;
pub(super) mod small;
pub(super) mod staging;

use super::pending::Part;
use super::pending::Settled;
use super::publish::hold::{Filling, Whole};
use super::{
    Completion, Decider, DirState, JobContext, Linker, Pending, Providers, Publisher, Times,
};
use crate::control::CopyStep;
use hashing::Hashing;
use haul_model::{BLOCK_LEN, BlockRanges, Fault, FaultKind, Kind, Outcome, Side};
use haul_proto::{How, Reuse, Want};
use haul_store::{Mover, Written};
use haul_tree::changed;
use parking_lot::Mutex;
use providers::{ProbeResult, Provider};
use small::Fetched;
use std::collections::HashMap;
use std::sync::Arc;

/// Holds the files that wait for content, and asks the providers and the Sender for it.
pub(crate) struct Filler<'a> {
    pub(crate) job: Arc<JobContext<'a>>,
    pub(super) times: Arc<Times<'a>>,
    pub(super) publisher: Arc<Publisher<'a>>,
    pub(super) completion: Arc<Completion<'a>>,
    pub(super) decider: Arc<Decider<'a>>,
    pub(super) linker: Arc<Linker<'a>>,
    /// Files whose content was requested, by index.
    pub(super) wanted: Mutex<HashMap<u64, Box<Pending>>>,
    /// Files whose contents are being compared, by index.
    pub(super) hashing: Mutex<HashMap<u64, Hashing>>,
    /// The sources of content on this machine.
    pub(crate) providers: Providers,
    /// This job created the destination or its parent directory.
    pub(super) is_new: bool,
    /// The number of lanes that the content of one file can use at the same time.
    pub(super) lanes: usize,
}

impl<'a> Filler<'a> {
    /// Creates a filler for a destination that `is_new`. The content of one file can use `lanes`
    /// lanes.
    pub(super) fn of(
        linker: &Arc<Linker<'a>>,
        providers: Providers,
        is_new: bool,
        lanes: usize,
    ) -> Arc<Self> {
        let publisher = Arc::clone(&linker.publisher);
        Arc::new(Self {
            job: Arc::clone(&linker.job),
            times: Arc::clone(&publisher.times),
            publisher,
            completion: Arc::clone(&linker.completion),
            decider: Arc::clone(&linker.decider),
            linker: Arc::clone(linker),
            wanted: Mutex::default(),
            hashing: Mutex::default(),
            providers,
            is_new,
            lanes,
        })
    }
}

impl Filler<'_> {
    /// Removes a wanted file from the list, to write its content.
    pub(crate) fn claim(&self, index: u64) -> Option<Pending> {
        self.wanted.lock().remove(&index).map(|pending| *pending)
    }

    /// Gets a file's content from the cheapest source. Returns its outcome if it is settled at
    /// once.
    pub(crate) fn provide(&self, file: Pending, wants: &mut Vec<Want>) -> Option<Outcome> {
        match self.offer_to(
            self.providers.whole_file_providers().into_iter(),
            Box::new(file),
            wants,
        ) {
            ProbeResult::PassedOn(file) => self.want_file(file, wants),
            ProbeResult::Kept => None,
            ProbeResult::Settled(outcome) => Some(outcome),
        }
    }

    /// Publishes a file, or holds it. Its outcome joins `settled`, for the end of the worker's
    /// batch. Files that were held may be of other batches, and are reported at once.
    pub(super) fn conclude(
        &self,
        pending: Pending,
        moved: u64,
        whole: Result<Whole, Fault>,
        settled: &mut Vec<Settled>,
    ) {
        let concluded = self.publisher.conclude(pending, moved, whole);
        match self.publisher.durability.is_required() {
            true => self.linker.report_settled(concluded),
            false => settled.extend(concluded),
        }
    }

    /// Requests the missing parts of a file that no provider has whole. Returns its outcome if it
    /// is settled at once.
    pub(crate) fn want_file(
        &self,
        mut file: Box<Pending>,
        wants: &mut Vec<Want>,
    ) -> Option<Outcome> {
        file.dir.expect_change();
        if let DirState::Open(node) = &file.dir.state {
            self.publisher.durability.register_file_system(node);
        }
        file.dir.add_pending();
        file.target.preallocates = self.job.plan.preallocates;
        file.target.writes_sparse = self.job.writes_sparse(&file.entry);
        self.want_parts(self.providers.part_providers(), file, wants)
    }

    /// Like [`Self::want_file`], for a file that `Versions` passes on: asks
    /// only the providers behind it.
    pub(super) fn want_after_versions(&self, file: Box<Pending>, wants: &mut Vec<Want>) {
        let outcome = self.want_parts(self.providers.after_versions(), file, wants);
        debug_assert!(outcome.is_none(), "later providers pass each file on");
    }

    /// Asks `providers` for parts of a file, and the Sender for the rest.
    fn want_parts<'p>(
        &'p self,
        providers: impl Iterator<Item = &'p dyn Provider>,
        file: Box<Pending>,
        wants: &mut Vec<Want>,
    ) -> Option<Outcome> {
        let mut file = match self.offer_to(providers, file, wants) {
            ProbeResult::PassedOn(file) => file,
            ProbeResult::Kept => return None,
            ProbeResult::Settled(outcome) => return Some(outcome),
        };
        let hashes_all = file.resumed > 0 && self.job.requires_proof(&file.entry);
        let how = How::WHOLE_HASH
            .only_if(hashes_all)
            .with(How::DELTA.only_if(file.reused.old.is_some()))
            .with(How::IN_ORDER.only_if(file.needs_order()))
            .with(How::CHUNKS.only_if(file.reused.is_chunked))
            .with(How::UNHASHED.only_if(file.is_unhashed(self)));
        let into = self.publisher.naming.resolve_update_target(&mut file);
        wants.push(Want { index: file.index, how, blocks: BlockRanges::from(file.resumed), into });
        self.wanted.lock().insert(file.index, file);
        None
    }

    /// Offers a file to each of `providers`, until one takes it.
    fn offer_to<'p>(
        &self,
        providers: impl Iterator<Item = &'p dyn Provider>,
        mut file: Box<Pending>,
        wants: &mut Vec<Want>,
    ) -> ProbeResult {
        for provider in providers {
            if !provider.may_have(self, &file) {
                continue;
            }
            match provider.probe(self, file, wants) {
                ProbeResult::PassedOn(passed) => file = passed,
                looked => return looked,
            }
        }
        ProbeResult::PassedOn(file)
    }

    /// Finds the local copy of a part that the Sender left out.
    pub(crate) fn parts_of(&self, file: &mut Pending, reuse: &Reuse) -> Option<Vec<Part>> {
        self.providers.part_providers().find_map(|provider| provider.parts(self, file, reuse))
    }

    /// Forgets the parts that providers have of a file, which is sent whole after all.
    pub(crate) fn forget_parts(&self, file: &mut Pending) {
        file.reused.has_parts = false;
        self.providers.part_providers().for_each(|provider| provider.forget(file));
    }

    /// True if a file is requested again because its source changed while it was read. That happens
    /// once, unless the policy requires that sources do not change. See [`Self::start_over`].
    pub(super) fn restart_file(
        &self,
        pending: &mut Pending,
        fault: &Fault,
        counted: (u64, u64),
    ) -> bool {
        let has_changed = (fault.side, fault.kind) == (Side::Source, FaultKind::Changed);
        let is_over = self.job.plan.strict_source || self.job.control.stopped();
        if !has_changed || is_over || pending.reading.is_retry {
            return false;
        }
        self.start_over(pending, counted);
        true
    }

    /// Prepares a file for another attempt. `counted` bytes of the first were counted as done,
    /// `matched` of them from local content.
    fn start_over(&self, pending: &mut Pending, (counted, matched): (u64, u64)) {
        self.job.reporter.restart_file(counted, pending.resumed * BLOCK_LEN);
        self.job.reporter.uncount_matched(matched);
        pending.reading.is_retry = true;
        pending.resumed = 0;
        self.forget_parts(pending);
    }

    /// True if a file is requested again, whole, because local content did not match. The old
    /// version or a file with its chunks has changed, or the sums are of other blocks. See
    /// [`Self::start_over`].
    pub(super) fn retry_whole(&self, pending: &mut Pending, counted: (u64, u64)) -> bool {
        let is_whole = !pending.reused.has_parts && pending.reused.old.is_none();
        if is_whole || self.job.control.stopped() {
            return false;
        }
        self.start_over(pending, counted);
        true
    }

    /// Requests the whole content of a file once more.
    pub(super) fn want_again(&self, mut pending: Pending) {
        let how = How::IN_ORDER.only_if(pending.needs_order());
        let into = self.publisher.naming.resolve_update_target(&mut pending);
        let want = Want { index: pending.index, how, blocks: BlockRanges::all(), into };
        self.wanted.lock().insert(pending.index, Box::new(pending));
        self.job.sender.want(vec![want]);
    }

    /// Publishes a small file that has arrived.
    pub(super) fn take_fetched(&self, fetched: Fetched) {
        if self.job.control.stopped() {
            return;
        }
        let Fetched { index, size, file } = fetched;
        let Some(mut pending) = self.claim(index) else { return };
        let len = file.content.len() as u64;
        let written = (|| {
            let write = |error| Fault::from_io(Side::Destination, "write", &error);
            let stage = pending.stage()?;
            let whole = if self.job.plan.verify {
                Written::of(stage, &file.content).map_err(write)?.verify_len(size)
            } else {
                let mut into = Mover::new(stage);
                into.write(&file.content).map_err(write)?;
                into.finish().map_err(write)?.verify_len(size)
            };
            let verified = whole.map_err(|_| changed())?;
            pending.entry.kind = Kind::File { size: len };
            pending.seal(&self.job.plan, verified, file.mtime, Filling::Dense)
        })();
        if written.is_ok() {
            self.job.reporter.count_progress(CopyStep::Moved(len));
        }
        let moved = if written.is_ok() { len } else { 0 };
        self.linker.report_settled(self.publisher.conclude(pending, moved, written));
    }

    /// Returns a claimed file to the list, for another worker.
    pub(super) fn put_back(&self, pending: Pending) {
        self.wanted.lock().insert(pending.index, Box::new(pending));
    }
}
