//! The Sender: walks the sources, lists what it finds, and sends what the
//! Receiver wants. It never waits for an answer per file.

mod accounts;
mod again;
mod counted;
mod differences;
mod earlier;
mod emptied;
mod item;
mod linked;
mod loss;
mod offers;
mod passed;
mod pieces;
mod portions;
mod read;
mod remove;
mod remover;
mod repeats;
mod scan;
mod source;
mod special;
mod stripes;
mod wants;

pub(crate) use emptied::{Twins, is_not_empty, mounted};
pub(crate) use item::Item;
pub(crate) use read::{Readers, run_reader};
pub(crate) use remove::{Heard, run_removers};
pub(crate) use remover::Remover;
pub(crate) use scan::Scan;
pub(crate) use source::Source;

use crate::control::{CANCEL_POLL, Control, Reporter};
use crate::dirs::{DirNode, number_here, number_if_here};
use crate::link::{ReceiverPort, SenderPort, SourceHandle};
use crate::originals::Originals;
use crate::{Event, Job, JobError};
use again::Repeat;
use haul_model::{
    Changes, Fault, FileId, Filter, Kept, Kind, Moving, Outcome, Side, Summary, Task,
};
use haul_proto::{
    Extra, Known, LIST_WINDOW, Late, Named, OutcomeItem, Proven, Signature, Want, Warning,
};
use haul_store::{RESUME_LEN_MIN, RESUME_LEN_MIN_FAR};
use haul_tree::{Meta, MetaKind};
use linked::Linked;
use offers::Offers;
use parking_lot::{Condvar, Mutex};
use portions::portions;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use wants::Signed;

/// The role.
pub(crate) struct Sender<'a> {
    control: &'a Control<'a>,
    /// Set where the user is on this side and the Receiver is not.
    reporter: Option<&'a Reporter<'a>>,
    receiver: Arc<dyn ReceiverPort + 'a>,
    follow: bool,
    /// The destination as the user calls it.
    dest: Vec<u8>,
    task: Task,
    filter: Filter,
    originals: Originals,
    /// Files to be removed that have other names.
    linked: Mutex<Linked>,
    in_flight: Mutex<InFlight>,
    /// See [`Signed`].
    signed: Signed,
    /// See [`Offers`].
    offers: Offers,
    room: Condvar,
    queue: Queue,
    /// Bytes of content that were asked for.
    wanted_len: AtomicU64,
    /// Where what was heard goes in a move whose sources others remove: its user
    /// is at the other end, or its sources are.
    heard: Option<crossbeam_channel::Sender<Heard>>,
    /// The destination does not have all of the directories.
    keeps_dirs: AtomicBool,
    /// Over a wire: all that can be removed was, and the Receiver is being informed.
    has_removed_all: AtomicBool,
    /// Sources about which the Receiver was asked for proof, and has not answered: no
    /// more than are set aside at a time.
    asked: Mutex<HashSet<u64>>,
    /// The Receiver has said that it is done.
    is_done: AtomicBool,
    /// In a move: which objects the sources are that are directories, by their
    /// paths.
    walked: Mutex<HashMap<Vec<u8>, Option<FileId>>>,
}

/// Where wanted files go.
enum Queue {
    /// To the receiver, as handles.
    Handles,
    /// To the workers that send them over a wire; taken out when no more come.
    Wire(Mutex<Option<crossbeam_channel::Sender<Item>>>),
}

#[derive(Default)]
struct InFlight {
    /// There are tens of thousands. They come in sequence and go nearly so: the ends of a
    /// search tree stay in the caches, which the slots of a hash table do not.
    items: BTreeMap<u64, Box<Item>>,
    cost: u64,
    /// Nothing more is to be listed.
    listed_all: bool,
}

impl<'a> Sender<'a> {
    pub(crate) fn new(
        control: &'a Control<'a>,
        reporter: Option<&'a Reporter<'a>>,
        receiver: Arc<dyn ReceiverPort + 'a>,
        job: &Job,
        queue: Option<crossbeam_channel::Sender<Item>>,
        heard: Option<crossbeam_channel::Sender<Heard>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            control,
            reporter,
            receiver,
            dest: job.dest.clone(),
            follow: job.follow,
            task: job.task,
            filter: job.filter.clone(),
            originals: Originals::of(job),
            linked: Mutex::new(Linked::of(job)),
            in_flight: Mutex::default(),
            signed: Signed::default(),
            offers: Offers::default(),
            room: Condvar::new(),
            queue: queue.map_or(Queue::Handles, |queue| Queue::Wire(Mutex::new(Some(queue)))),
            wanted_len: AtomicU64::new(0),
            heard,
            keeps_dirs: AtomicBool::new(false),
            has_removed_all: AtomicBool::new(false),
            asked: Mutex::default(),
            is_done: AtomicBool::new(false),
            walked: Mutex::default(),
        })
    }

    /// True if an item of `cost` can be listed now.
    fn has_room(&self, cost: u64) -> bool {
        self.in_flight.lock().cost + cost <= LIST_WINDOW
    }

    /// Waits until an item of `cost` can be listed; `false` if the job ends.
    fn wait_for_room(&self, cost: u64) -> bool {
        self.wait_while(|in_flight| in_flight.cost + cost > LIST_WINDOW)
    }

    /// Waits until all that was listed was dealt with, or the job ends.
    fn wait_until_empty(&self) {
        self.wait_while(|in_flight| in_flight.cost > 0);
    }

    /// True if all that was listed was dealt with.
    pub(crate) fn is_empty(&self) -> bool {
        self.in_flight.lock().cost == 0
    }

    fn wait_while(&self, shall_wait: impl Fn(&InFlight) -> bool) -> bool {
        let mut in_flight = self.in_flight.lock();
        while shall_wait(&in_flight) {
            if self.control.stopped() {
                return false;
            }
            self.room.wait_for(&mut in_flight, CANCEL_POLL);
        }
        true
    }

    /// Remembers an item that is about to be listed.
    fn remember(&self, item: Item) {
        let mut in_flight = self.in_flight.lock();
        in_flight.cost += item.cost;
        in_flight.items.insert(item.index, Box::new(item));
    }

    /// True if nothing more is to be listed.
    fn has_listed_all(&self) -> bool {
        self.in_flight.lock().listed_all
    }

    /// Everything was listed, but for the end of the listing itself.
    fn listed_all(&self) {
        self.in_flight.lock().listed_all = true;
    }

    /// Ends the job because the Receiver broke a rule.
    fn refuse(&self, rule: &'static str) {
        self.control.fail(JobError::Protocol(format!("the peer broke the protocol: {rule}")));
    }

    /// Lets the workers of a wire and the thread that offers chunks end.
    pub(crate) fn close_queue(&self) {
        self.offers.turn_off();
        if let Queue::Wire(queue) = &self.queue {
            queue.lock().take();
        }
    }

    /// True if the receiver still waits for a file.
    pub(crate) fn is_awaited(&self, index: u64) -> bool {
        self.in_flight.lock().items.contains_key(&index)
    }

    /// True if the job compares, and no content is sent.
    pub(crate) fn checks(&self) -> bool {
        self.task.copies().is_none()
    }

    /// True if the job removes its sources.
    pub(crate) fn removes(&self) -> bool {
        self.task.removes().is_some()
    }

    /// The number by which the receiver tells an entry of `dir` from others. In a copy
    /// over a wire it knows by that if what is in its place is the very object.
    fn number_of(&self, dir: &Arc<DirNode>, meta: &Meta) -> u64 {
        let lasts = self.removes()
            || matches!(meta.kind, MetaKind::File { size } if size >= self.resume_len_min());
        match (&self.queue, meta.id) {
            (Queue::Wire(_), Some(id)) if !lasts => number_here(id),
            _ => dir.number_of(meta, lasts),
        }
    }

    /// True if what would lose something by being moved is to stay.
    fn keeps_whole(&self) -> bool {
        self.task.moving() == Some(Moving::Whole)
    }

    /// True if it puts back what a killed move has set aside: before a move copies
    /// anything.
    pub(crate) fn restores(&self) -> bool {
        self.task.copies().is_some_and(|policy| policy.moving.is_some())
    }

    /// True if a job of this kind has such outcomes.
    fn can_come_to(&self, outcome: &Outcome) -> bool {
        match outcome {
            Outcome::Copied | Outcome::WouldCopy | Outcome::Grew => !self.checks(),
            Outcome::Differs(_) => self.checks(),
            Outcome::Synced(found) => {
                let is_update = Changes::OF_ATTRIBUTES.has(*found);
                self.task.mirrors().is_some() || is_update && !self.checks()
            }
            Outcome::Linked { .. } => !self.checks() && self.task.keeps().has(Kept::LINKS),
            Outcome::Skipped(_) | Outcome::Failed(_) => true,
        }
    }

    /// Bytes of content that the Receiver has asked for so far, over a wire, and of what was sent
    /// again.
    pub(crate) fn wanted_len(&self) -> u64 {
        self.wanted_len.load(Ordering::Relaxed)
    }

    /// True if the Receiver is on another machine, or could be.
    fn is_far(&self) -> bool {
        matches!(self.queue, Queue::Wire(_))
    }

    /// Files from this length on, in bytes, are told so that their copies can be resumed.
    pub(crate) fn resume_len_min(&self) -> u64 {
        if self.is_far() { RESUME_LEN_MIN_FAR } else { RESUME_LEN_MIN }
    }

    /// True if symbolic links in the source are followed.
    pub(crate) fn follows(&self) -> bool {
        self.follow
    }
}

impl SenderPort for Sender<'_> {
    fn want(&self, wants: Vec<Want>) {
        let mut items = Vec::with_capacity(wants.len());
        {
            let mut in_flight = self.in_flight.lock();
            for want in wants {
                let item = in_flight.items.get_mut(&want.index);
                let hashes = want.blocks.is_empty();
                // Only a file has content, which is hashed once, and sent once.
                let fits = |item: &Item| {
                    let is_new = match hashes {
                        true => !item.hashed && !item.wanted,
                        false => !item.wanted || item.repeat == Repeat::Offered,
                    };
                    matches!(item.kind, Kind::File { .. }) && is_new
                };
                let Some(item) = item.filter(|item| fits(item)) else {
                    return self.refuse("it requested an unlisted file, or a file twice");
                };
                if let Some(rule) = self.rule_against(item, &want) {
                    return self.refuse(rule);
                }
                if !want.how.wants_delta() {
                    self.signed.forget(want.index);
                }
                if item.wanted || item.hashed {
                    self.begin_again(item);
                }
                item.is_repeated = false;
                item.hashed |= hashes;
                item.wanted |= !hashes;
                item.blocks = want.blocks;
                item.how = want.how;
                item.into = want.into.and_then(number_if_here);
                let there = if hashes { 0 } else { item.left_out() };
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
        if self.is_far() {
            return self.send_wanted(items);
        }
        for portion in portions(items) {
            self.receiver.files(portion.into_iter().filter_map(|i| self.handle(i)).collect());
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
            let mut in_flight = self.in_flight.lock();
            for outcome in outcomes {
                if !self.can_come_to(&outcome.outcome) {
                    return self.refuse("it reported an outcome that this job can't have");
                }
                let item = in_flight.items.remove(&outcome.index);
                if item.as_ref().is_some_and(|item| item.may_be_signed()) {
                    self.signed.forget(outcome.index);
                    self.offers.forget(outcome.index);
                }
                // A file can't be there that was not even asked for.
                let fits = |item: &Item| {
                    let is_file = matches!(item.kind, Kind::File { .. });
                    match outcome.outcome {
                        Outcome::Copied => item.wanted || !is_file,
                        Outcome::Synced(found) if found.has(Changes::SENT) => {
                            // An earlier job may have left it, waiting for its name.
                            let may_wait = self.task.mirrors().is_some_and(|of| of.delays);
                            let has_it = self.task.keeps_destination()
                                || item.hashed && self.task.finds_renamed()
                                || may_wait;
                            item.wanted || !is_file || has_it
                        }
                        Outcome::Grew => item.wanted,
                        Outcome::Linked { .. } => item.kind != Kind::Dir,
                        _ => true,
                    }
                };
                let Some(item) = item.filter(|item| fits(item)) else {
                    return self.refuse(
                        "it reported an outcome of an entry that was not listed or not sent",
                    );
                };
                // What could not be looked at may be a directory, too.
                let is_fault = matches!(outcome.outcome, Outcome::Failed(_));
                let may_be_dir = item.kind == Kind::Dir || item.kind == Kind::Special && is_fault;
                if may_be_dir && !outcome.outcome.is_there() {
                    self.keeps_dirs.store(true, Ordering::Relaxed);
                }
                if self.heard.is_none() {
                    in_flight.cost -= item.cost;
                }
                settled.push((item, outcome.outcome));
            }
        }
        let tell = |item: &Item, outcome: &Outcome| {
            if let Some(reporter) = self.reporter {
                reporter.outcome(item.index, || item.path(), &item.kind, item.counted, outcome);
            }
        };
        if let Some(heard) = &self.heard {
            for (item, outcome) in settled {
                tell(&item, &outcome);
                // Its other end is dropped only when the job has ended.
                let _ = heard.send(Heard::Outcome(item, outcome));
            }
            return;
        }
        self.room.notify_all();
        if self.rule().is_some() {
            for (item, outcome) in &settled {
                self.remove_source(item, outcome, &mut |removal| self.tell_removal(removal));
            }
        }
        settled.iter().for_each(|(item, outcome)| tell(item, outcome));
    }

    fn extras(&self, extras: Vec<Extra>) {
        if !self.task.finds_extras() && self.task.mirrors().is_none() {
            return self.refuse("it reported extras where none are expected");
        }
        if let Some(reporter) = self.reporter {
            for Extra { path, kind } in &extras {
                match self.task.mirrors() {
                    Some(_) => reporter.deleted(path, kind),
                    None => reporter.extra(path, kind),
                }
            }
        }
    }

    fn naming(&self, named: Named) {
        self.control.named(named, &self.dest);
    }

    fn warning(&self, warning: Warning) {
        if self.reporter.is_some() {
            let Warning { path, message } = warning;
            self.control.monitor().event(Event::Warning {
                side: Some(Side::Destination),
                path: &path,
                message: &message,
            });
        }
    }

    fn late(&self, Late { path, fault }: Late) {
        if self.checks() {
            return self.refuse("it reported a failure that this job can't have");
        }
        self.keeps_dirs.store(true, Ordering::Relaxed);
        if let Some(reporter) = self.reporter {
            let fault = Fault { side: Side::Destination, ..fault.clipped() };
            reporter.late(&path, fault);
        }
    }

    fn done(&self, summary: Summary) {
        {
            let in_flight = self.in_flight.lock();
            if !in_flight.listed_all || !in_flight.items.is_empty() {
                return self.refuse("it ended the job before all outcomes");
            }
        }
        if self.is_done.swap(true, Ordering::Relaxed) {
            return self.refuse("it ended the job twice");
        }
        // A reported failure counts, whatever the figures say.
        let failed = self.reporter.map_or(0, |reporter| reporter.summary().failed);
        let summary = Summary { failed: summary.failed.max(failed), ..summary };
        match (&self.heard, &self.queue) {
            // The reader of a wire never waits.
            (Some(heard), Queue::Wire(_)) => {
                let _ = heard.send(Heard::Done(summary));
            }
            // The Receiver ends the job when it has sent this.
            (Some(_), Queue::Handles) => self.wait_until_empty(),
            (None, _) => self.control.finish(Ok(summary)),
        }
    }

    fn proven(&self, mut proven: Vec<Proven>) {
        {
            let mut asked = self.asked.lock();
            for one in &mut proven {
                if !asked.remove(&one.index) {
                    return self.refuse("it sent a proof that was not requested");
                }
                one.result = std::mem::replace(&mut one.result, Ok(())).map_err(Fault::clipped);
            }
        }
        if let Some(heard) = &self.heard {
            // As above.
            let _ = heard.send(Heard::Proven(proven));
        }
    }

    fn asks_for_proof(&self) -> bool {
        self.heard.is_some() && matches!(self.queue, Queue::Wire(_))
    }

    fn has_removed_all(&self) -> bool {
        self.has_removed_all.load(Ordering::Acquire)
    }
}

impl Sender<'_> {
    /// Counts what was wanted of these.
    fn count_wanted(&self, items: &[Item]) {
        let with = |len| items.iter().map(Item::len_wanted).fold(len, u64::saturating_add);
        // It never fails.
        let relaxed = Ordering::Relaxed;
        let _ = self.wanted_len.fetch_update(relaxed, relaxed, |len| Some(with(len)));
    }

    /// Has the workers of a wire send these.
    fn queue_up(&self, items: Vec<Item>) {
        let Queue::Wire(queue) = &self.queue else { return };
        let Some(queue) = queue.lock().clone() else { return };
        for item in items {
            // Its other end is dropped only when the job has ended.
            let _ = queue.send(item);
        }
    }

    fn handle(&self, item: Item) -> Option<SourceHandle> {
        let Kind::File { size } = item.kind else { return None };
        Some(SourceHandle {
            size,
            index: item.index,
            hashes: item.blocks.is_empty(),
            dir: item.dir?,
            name: item.name?,
            follow: item.follow,
        })
    }
}
