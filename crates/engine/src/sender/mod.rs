//! The Sender: walks the sources, lists the entries, and sends the contents that the Receiver
//! requests. It never waits for an answer per file.

mod accounts;
mod differences;
mod earlier;
mod empty_dirs;
mod item;
mod leases;
mod ledger;
mod linked;
mod loss;
mod offers;
mod passed;
mod pieces;
mod read;
mod remove;
mod remover;
mod scan;
mod special;
mod stripes;
mod wants;

use crate::control::{Control, Reporter};
use crate::dirs::{DirNode, OpenDirs, local_number, number_if_local};
use crate::link::{ReceiverPort, SenderPort, SourceHandle};
use crate::originals::{Originals, also_a_source};
use crate::sender::remove::Removing;
use crate::{Job, JobError};
pub(crate) use empty_dirs::{Twins, is_not_empty, mounted};
use haul_model::{
    Changes, Fault, FaultKind, Kept, Kind, Name, OrFault, Outcome, Side, Summary, words,
};
use haul_plan::Plan;
use haul_proto::{Extra, How, Known, Late, Named, OutcomeItem, Proven, Signature, Want, Warning};
use haul_store::{RESUME_LEN_MIN, RESUME_LEN_MIN_REMOTE};
use haul_tree::{Meta, MetaKind, SourceFile, Tree, TreeDir};
pub(crate) use item::Item;
use item::Repeat;
use ledger::Ledger;
use offers::Offers;
use parking_lot::Mutex;
pub(crate) use read::{Readers, run_reader};
pub(crate) use remove::{RemoverMessage, run_removers};
pub(crate) use remover::Remover;
pub(crate) use scan::Scan;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use wants::Signatures;

/// The role, for one job.
pub(crate) struct Sender<'a> {
    control: &'a Control<'a>,
    /// Set where the user is on this side and the Receiver is not.
    reporter: Option<&'a Reporter<'a>>,
    receiver: Arc<dyn ReceiverPort + 'a>,
    /// Symbolic links in the sources are followed.
    follow: bool,
    /// The destination as the user calls it.
    dest: Vec<u8>,
    plan: Plan,
    originals: Originals,
    pub(crate) ledger: Ledger<'a>,
    pub(crate) removing: Removing<'a>,
    /// See [`Signatures`].
    signatures: Signatures,
    /// See [`Offers`].
    offers: Offers,
    queue: Queue,
    /// Bytes of content that were requested.
    wanted_len: AtomicU64,
    /// Sends outcomes and proofs to the threads that remove a move's sources. `None` without such
    /// threads.
    messages: Option<crossbeam_channel::Sender<RemoverMessage>>,
    /// The Receiver has reported the end of the job.
    is_done: AtomicBool,
}

/// The way in which wanted files are copied.
enum Queue {
    /// The Receiver gets them as handles.
    Handles,
    /// Workers send them over a wire. `None` once no more are sent.
    Wire(Mutex<Option<crossbeam_channel::Sender<Item>>>),
}

impl Queue {
    fn is_wire(&self) -> bool {
        matches!(self, Self::Wire(_))
    }
}

impl<'a> Sender<'a> {
    pub(crate) fn new(
        control: &'a Control<'a>,
        reporter: Option<&'a Reporter<'a>>,
        receiver: Arc<dyn ReceiverPort + 'a>,
        job: &Job,
        queue: Option<crossbeam_channel::Sender<Item>>,
        messages: Option<crossbeam_channel::Sender<RemoverMessage>>,
    ) -> Arc<Self> {
        let queue = queue.map_or(Queue::Handles, |queue| Queue::Wire(Mutex::new(Some(queue))));
        let min = if queue.is_wire() { RESUME_LEN_MIN_REMOTE } else { RESUME_LEN_MIN };
        let plan = Plan::of(&job.task, job.task.keeps());
        Arc::new(Self {
            control,
            reporter,
            ledger: Ledger::of(&plan, control, reporter, min),
            removing: Removing::of(job, &plan, control, Arc::clone(&receiver)),
            receiver,
            dest: job.dest.path.clone(),
            follow: job.sources.follow,
            plan,
            originals: Originals::of(job),
            signatures: Signatures::default(),
            offers: Offers::default(),
            queue,
            wanted_len: AtomicU64::new(0),
            messages,
            is_done: AtomicBool::new(false),
        })
    }

    /// Ends the job because the Receiver broke a rule.
    fn fail_protocol(&self, rule: &'static str) {
        self.control.fail(JobError::Protocol(format!("the peer broke the protocol: {rule}")));
    }

    /// Ends the workers of a wire and the thread that offers chunks, once they are idle.
    pub(crate) fn close_queue(&self) {
        self.offers.stop();
        if let Queue::Wire(queue) = &self.queue {
            queue.lock().take();
        }
    }

    /// True if the job compares, and no content is sent.
    pub(crate) fn copies_nothing(&self) -> bool {
        !self.plan.copies
    }

    /// True if the job removes its sources.
    pub(crate) fn removes(&self) -> bool {
        self.plan.removes.is_some()
    }

    /// The number by which the Receiver identifies an entry of `dir`. In a copy over a wire, it
    /// shows whether the existing entry is the same object.
    fn number_of(&self, dir: &Arc<DirNode>, meta: &Meta) -> u64 {
        let must_be_stable = self.removes()
            || matches!(meta.kind, MetaKind::File { size } if size >= self.resume_len_min());
        match (&self.queue, meta.id) {
            (Queue::Wire(_), Some(id)) if !must_be_stable => local_number(id),
            _ => dir.number_of(meta, must_be_stable),
        }
    }

    /// True if sources that a killed move has set aside get their names back: in a move, before it
    /// copies.
    pub(crate) fn restores_sources(&self) -> bool {
        self.plan.moving.is_some()
    }

    /// True if this kind of job can have such an outcome.
    fn can_have_outcome(&self, outcome: &Outcome) -> bool {
        match outcome {
            Outcome::Copied | Outcome::WouldCopy | Outcome::Grew => !self.copies_nothing(),
            Outcome::Differs(_) => self.copies_nothing(),
            Outcome::Synced(found) => {
                let is_update = Changes::OF_ATTRIBUTES.has(*found);
                self.plan.is_mirror || is_update && !self.copies_nothing()
            }
            Outcome::Linked { .. } => !self.copies_nothing() && self.plan.keeps.has(Kept::LINKS),
            Outcome::Skipped(_) | Outcome::Failed(_) => true,
        }
    }

    /// Bytes of content that were requested over a wire so far, and of contents that were sent
    /// again.
    pub(crate) fn wanted_len(&self) -> u64 {
        self.wanted_len.load(Ordering::Relaxed)
    }

    /// True if the Receiver is on another machine, or could be.
    fn is_wire(&self) -> bool {
        self.queue.is_wire()
    }

    /// From this length on, in bytes, a file is listed with the numbers that resuming its copy
    /// needs.
    pub(crate) fn resume_len_min(&self) -> u64 {
        self.ledger.resume_len_min
    }
}

impl SenderPort for Sender<'_> {
    fn want(&self, wants: Vec<Want>) {
        let mut items = Vec::with_capacity(wants.len());
        {
            let mut in_flight = self.ledger.in_flight.lock();
            for want in wants {
                let item = in_flight.get_mut(want.index);
                let hashes = want.blocks.is_empty();
                // Only a file has content. It is hashed once and sent once.
                let fits = |item: &Item| {
                    let is_new = match hashes {
                        true => !item.hashed && !item.wanted,
                        false => !item.wanted || item.repeat == Repeat::Offered,
                    };
                    matches!(item.kind, Kind::File { .. }) && is_new
                };
                let Some(item) = item.filter(|item| fits(item)) else {
                    return self.fail_protocol("it requested an unlisted file, or a file twice");
                };
                if let Some(rule) = self.broken_rule(item, &want) {
                    return self.fail_protocol(rule);
                }
                if !want.how.has(How::DELTA) {
                    self.signatures.forget(want.index);
                }
                if item.wanted || item.hashed {
                    self.ledger.restart_item(item);
                }
                item.is_repeated = false;
                item.hashed |= hashes;
                item.wanted |= !hashes;
                item.want = want;
                let there = if hashes { 0 } else { item.unwanted_len() };
                if let (Some(reporter), 1..) = (self.reporter, there) {
                    reporter.resumed(item.index, there);
                    item.counted += there;
                }
                if let (Some(reporter), false) = (self.reporter, hashes) {
                    reporter.wanted(item.index);
                }
                items.push(Item::clone(item));
            }
        }
        if self.is_wire() {
            return self.send_wanted(items);
        }
        for batch in batches(items) {
            self.receiver.files(batch.into_iter().filter_map(|i| self.handle(i)).collect());
        }
    }

    fn known(&self, known: Known) {
        self.take_known(&known);
    }

    fn signature(&self, signature: Signature) {
        self.take_sums(signature);
    }

    fn outcomes(&self, outcomes: Vec<OutcomeItem>) {
        let mut settled = Vec::with_capacity(outcomes.len());
        {
            let mut in_flight = self.ledger.in_flight.lock();
            for outcome in outcomes {
                if !self.can_have_outcome(&outcome.outcome) {
                    return self.fail_protocol("it reported an outcome that this job can't have");
                }
                let item = in_flight.take(outcome.index);
                if item.as_ref().is_some_and(|item| item.may_have_signature()) {
                    self.signatures.forget(outcome.index);
                    self.offers.forget(outcome.index);
                }
                // A file can't be copied without a request.
                let fits = |item: &Item| {
                    let is_file = matches!(item.kind, Kind::File { .. });
                    match outcome.outcome {
                        Outcome::Copied => item.wanted || !is_file,
                        Outcome::Synced(found) if found.has(Changes::SENT) => {
                            // An earlier job may have left the complete file under a temporary
                            // name.
                            let may_wait = self.plan.delays_updates;
                            let has_it = self.plan.dry_run
                                || item.hashed && self.plan.finds_renamed
                                || may_wait;
                            item.wanted || !is_file || has_it
                        }
                        Outcome::Grew => item.wanted,
                        Outcome::Linked { .. } => item.kind != Kind::Dir,
                        _ => true,
                    }
                };
                let Some(item) = item.filter(|item| fits(item)) else {
                    return self.fail_protocol(
                        "it reported an outcome of an entry that was not listed or not sent",
                    );
                };
                // An entry that could not be inspected may be a directory.
                let is_fault = matches!(outcome.outcome, Outcome::Failed(_));
                let may_be_dir = item.kind == Kind::Dir || item.kind == Kind::Special && is_fault;
                if may_be_dir && !outcome.outcome.is_there() {
                    self.removing.has_missing_dirs.store(true, Ordering::Relaxed);
                }
                if self.messages.is_none() {
                    in_flight.cost -= item.cost;
                }
                settled.push((item, outcome.outcome));
            }
        }
        let report = |item: &Item, outcome: &Outcome| {
            if let Some(reporter) = self.reporter {
                reporter.outcome(item.index, || item.path(), &item.kind, item.counted, outcome);
            }
        };
        if let Some(messages) = &self.messages {
            for (item, outcome) in settled {
                report(&item, &outcome);
                // The receiving end is dropped only when the job has ended.
                let _ = messages.send(RemoverMessage::Outcome(item, outcome));
            }
            return;
        }
        self.ledger.released.notify_all();
        if self.removes() {
            for (item, outcome) in &settled {
                self.removing.remove_source(item, outcome);
            }
        }
        settled.iter().for_each(|(item, outcome)| report(item, outcome));
    }

    fn extras(&self, extras: Vec<Extra>) {
        if !self.plan.finds_extras && !self.plan.is_mirror {
            return self.fail_protocol("it reported extras where none are expected");
        }
        if let Some(reporter) = self.reporter {
            reporter.extras(self.plan.is_mirror, &extras);
        }
    }

    fn naming(&self, named: Named) {
        self.control.named(named, &self.dest);
    }

    fn warning(&self, warning: Warning) {
        if let Some(reporter) = self.reporter {
            reporter.warning(&warning);
        }
    }

    fn late(&self, late: Late) {
        if self.copies_nothing() {
            return self.fail_protocol("it reported a failure that this job can't have");
        }
        self.removing.has_missing_dirs.store(true, Ordering::Relaxed);
        if let Some(reporter) = self.reporter {
            reporter.report_late_at_dest(late);
        }
    }

    fn done(&self, summary: Summary) {
        if !self.ledger.in_flight.lock().is_over() {
            return self.fail_protocol("it ended the job before all outcomes");
        }
        if self.is_done.swap(true, Ordering::Relaxed) {
            return self.fail_protocol("it ended the job twice");
        }
        let summary = self.reporter.map_or(summary, |reporter| reporter.with_failures(summary));
        match (&self.messages, &self.queue) {
            // The reader of a wire never waits.
            (Some(messages), Queue::Wire(_)) => {
                let _ = messages.send(RemoverMessage::Done(summary));
            }
            // The Receiver ends the job after this message.
            (Some(_), Queue::Handles) => {
                self.ledger.wait_while(|in_flight| in_flight.cost > 0);
            }
            (None, _) => self.control.finish(Ok(summary)),
        }
    }

    fn proven(&self, mut proven: Vec<Proven>) {
        {
            let mut requested = self.removing.requested.lock();
            for one in &mut proven {
                if !requested.remove(&one.index) {
                    return self.fail_protocol("it sent a proof that was not requested");
                }
                one.result = std::mem::replace(&mut one.result, Ok(())).map_err(Fault::clipped);
            }
        }
        if let Some(messages) = &self.messages {
            // As above.
            let _ = messages.send(RemoverMessage::Proven(proven));
        }
    }

    fn asks_for_proof(&self) -> bool {
        self.messages.is_some() && self.queue.is_wire()
    }

    fn has_removed_all(&self) -> bool {
        self.removing.has_removed_all.load(Ordering::Acquire)
    }
}

impl Sender<'_> {
    /// Adds the wanted bytes of `items` to the total.
    fn count_wanted(&self, items: &[Item]) {
        let with = |len| items.iter().map(Item::len_wanted).fold(len, u64::saturating_add);
        // The update never fails.
        let relaxed = Ordering::Relaxed;
        let _ = self.wanted_len.fetch_update(relaxed, relaxed, |len| Some(with(len)));
    }

    /// Queues `items` for the workers of a wire.
    fn queue_up(&self, items: Vec<Item>) {
        let Queue::Wire(queue) = &self.queue else { return };
        let Some(queue) = queue.lock().clone() else { return };
        for item in items {
            // The receiving end is dropped only when the job has ended.
            let _ = queue.send(item);
        }
    }

    fn handle(&self, item: Item) -> Option<SourceHandle> {
        let Kind::File { size } = item.kind else { return None };
        Some(SourceHandle {
            size,
            index: item.index,
            hashes: item.want.blocks.is_empty(),
            dir: item.dir?,
            name: item.name?,
            follow: item.follow,
        })
    }

    /// Opens a wanted file, unless the Receiver would write its content into a source.
    pub(super) fn open(&self, item: &Item) -> Result<Box<dyn SourceFile>, Fault> {
        let into = item.want.into.and_then(number_if_local);
        if into.is_some_and(|number| self.originals.may_have(number, self.control)) {
            return Err(also_a_source(Side::Source));
        }
        let missing = || Fault::missing(Side::Source);
        let dir = item.dir.as_ref().ok_or_else(missing)?;
        let name = item.name.as_ref().ok_or_else(missing)?;
        dir.handle().and_then(|dir| dir.open_file(name, item.follow)).or_fault(Side::Source, "open")
    }

    /// Sends these files again, unless they have their outcome.
    pub(super) fn send_again(&self, files: &[u64]) {
        let items: Vec<Item> = {
            let mut in_flight = self.ledger.in_flight.lock();
            let mut repeated = |index: &u64| {
                let item = in_flight.get_mut(*index)?;
                item.is_repeated = true;
                Some(Item::clone(item))
            };
            files.iter().filter_map(&mut repeated).collect()
        };
        self.count_wanted(&items);
        self.queue_up(items);
    }
}

/// The most files in one portion, so that several workers share the files.
const BATCH_FILES_MAX: usize = 32;

/// The approximate bytes in one portion.
const BATCH_BYTES_MAX: u64 = 4 << 20;

/// Splits `items` into portions.
fn batches(items: Vec<Item>) -> Vec<Vec<Item>> {
    let mut batches: Vec<Vec<Item>> = Vec::new();
    let mut bytes = u64::MAX;
    for item in items {
        let Kind::File { size } = item.kind else { continue };
        match batches.last_mut() {
            Some(last) if last.len() < BATCH_FILES_MAX && bytes < BATCH_BYTES_MAX => {
                last.push(item);
                bytes = bytes.saturating_add(size);
            }
            _ => {
                bytes = size;
                batches.push(vec![item]);
            }
        }
    }
    batches
}

/// A source that was found.
pub(crate) enum Source {
    /// An entry of a directory, under its own name.
    Named {
        /// The directory that holds it, not shown.
        dir: Arc<DirNode>,
        /// Its name there.
        name: Name,
        /// A symbolic link is followed: the path ended with a slash.
        follow: bool,
    },
    /// A directory without a name of its own: `.`, `..` or `/`. Its entries are copied directly
    /// into the destination.
    Whole(Arc<DirNode>),
}

impl Source {
    /// Finds the source at `path` of `tree`. If the job `removes` sources, `dir/` and `dir/.` name
    /// the directory `dir` and never follow a link: a link may have replaced it since it was
    /// copied.
    ///
    /// # Errors
    /// When the path can't be opened, or a name in it is too long.
    pub(crate) fn find(
        tree: &dyn Tree,
        path: &[u8],
        removes: bool,
        open: &Arc<OpenDirs>,
    ) -> Result<Self, Fault> {
        let named = if removes { words::without_dot(path) } else { path };
        let split = words::split(named);
        let Some(name) = split.name else {
            return Ok(Self::Whole(root(tree.open(split.whole), open)?));
        };
        let name = Name::new(name)
            .map_err(|error| Fault::new(Side::Source, FaultKind::TooLong, error.to_string()))?;
        let dir = root(tree.open_for_search(split.parent, Some(&name)), open)?;
        if named.len() < path.len() {
            let whole = dir.handle().and_then(|dir| dir.open_dir(&name, false));
            return Ok(Self::Whole(root(whole, open)?));
        }
        Ok(Self::Named { dir, name, follow: split.slash && !removes })
    }
}

fn root(opened: io::Result<Arc<dyn TreeDir>>, open: &Arc<OpenDirs>) -> Result<Arc<DirNode>, Fault> {
    opened.and_then(|dir| DirNode::root(dir, None, open)).or_fault(Side::Source, "open")
}
