//! The Receiver: holds the destination, and so it alone compares, asks for what
//! is missing, and publishes.

mod check;
mod compare;
mod destination;
mod dirs;
mod hold;
mod incoming;
mod place;
mod resume;
mod small;
mod work;

pub(crate) use destination::Destination;
pub(crate) use incoming::{Direct, Incoming, Piece};
pub(crate) use small::{run_gets, run_puts};
pub(crate) use work::{Task, Tasks, run_worker};

use crate::control::{Control, Reporter};
use crate::dirs::{DirNode, OpenDirs, lock};
use crate::link::{ReceiverPort, SenderPort, SourceHandle};
use crate::tree::{Outstanding, StagedFile};
use crate::{Event, JobError, words};
use check::Hashing;
use compare::Decision;
use dirs::{DirState, RecvDir};
use haul_model::{
    BlockHash, Check, Entry, Fault, FaultKind, Kind, MAX_DEPTH, Name, Outcome, Policy, Resume,
    Side, Skip, Summary, escape_bytes,
};
use haul_proto::{LIST_WINDOW, ListItem, OutcomeItem, Removal, Want, Warning};
use haul_store::Placement;
use hold::Holding;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Items beyond [`LIST_WINDOW`] that are tolerated: one that is as large as an
/// item can be.
const WINDOW_SLACK: u64 = 64 << 10;

/// Directories whose mode and time a server is setting, at most.
const SEALING_MAX: usize = 256;

/// What a directory's mode must allow its owner so that others in it can be
/// reached.
const KEEPS_WAY: u32 = 0o100;

/// The role.
pub(crate) struct Receiver<'a> {
    pub(crate) control: &'a Control<'a>,
    pub(crate) reporter: Reporter<'a>,
    sender: Arc<dyn SenderPort + 'a>,
    policy: Policy,
    check: Option<Check>,
    /// See [`Destination::path`].
    dest: Vec<u8>,
    /// See [`Destination::may_be_source`].
    may_be_source: bool,
    /// Files whose contents are being compared.
    hashing: Mutex<HashMap<u64, Hashing>>,
    rename: Option<Name>,
    /// The names that the job asked for, where this side named the sources;
    /// each is taken out when it is listed.
    asked: Option<Mutex<Vec<Option<Name>>>>,
    listing: Mutex<Listing>,
    wanted: Mutex<HashMap<u64, Pending>>,
    /// Cost of what was listed and has no outcome yet.
    open_cost: AtomicU64,
    /// What waits to be durable.
    holding: Holding,
    /// Directories that a server gives their mode and time.
    sealing: Mutex<VecDeque<(Arc<RecvDir>, Outstanding)>>,
    /// Everything is settled, and the Sender is being told so: it may leave.
    done: AtomicBool,
    /// The Sender removes its sources and tells which: the job ends when it says
    /// that those were all.
    awaits_removals: bool,
    /// The figures of a job that waits for that alone.
    settled: Mutex<Option<Summary>>,
    /// Taken out when no more work is to come.
    tasks: Mutex<Option<Tasks>>,
    /// The destination is on a host that is asked for each thing: what takes a
    /// round trip is left to the workers.
    is_far: bool,
    /// Ways there that the content of one file can take at the same time.
    lanes: usize,
    /// One of the sides keeps times in whole seconds.
    whole_seconds: bool,
}

/// Where the listing stands.
struct Listing {
    /// The number that the next entry or fault has.
    next_index: u64,
    /// Directories whose end was not listed yet, with their numbers: the root,
    /// and each in the one before it.
    open: Vec<(u64, Arc<RecvDir>)>,
}

/// A listed file whose content is wanted.
pub(crate) struct Pending {
    pub(crate) index: u64,
    dir: Arc<RecvDir>,
    name: Name,
    entry: Entry,
    placement: Placement,
    cost: u64,
    /// Whole blocks that an earlier job has left of it.
    resumed: u64,
}

/// A stage that is continued, and the hashes of the blocks in it.
pub(crate) type Resumed = (Box<dyn StagedFile>, Vec<BlockHash>);

/// The Sender broke a rule of the conversation.
struct Broken(&'static str);

impl<'a> Receiver<'a> {
    /// A receiver that works in `destination`. `asked` are the names that may
    /// be listed, where this side knows them.
    ///
    /// # Errors
    /// When the destination can't be looked at.
    pub(crate) fn new(
        control: &'a Control<'a>,
        sender: Arc<dyn SenderPort + 'a>,
        destination: Destination,
        policy: Policy,
        check: Option<Check>,
        asked: Option<Vec<Option<Name>>>,
        tasks: Tasks,
    ) -> io::Result<Arc<Self>> {
        let is_far = destination.root.remote().is_some();
        let lanes = destination.root.remote().map_or(1, |dir| dir.lanes());
        let whole_seconds = destination.whole_seconds;
        let root = DirNode::root(destination.root, None, &Arc::new(OpenDirs::default()))?;
        let state = if destination.absent { DirState::Absent } else { DirState::Open(root) };
        let root = RecvDir::new(None, None, state, false, None);
        let removes = check.is_some_and(|check| check.remove.is_some());
        let awaits_removals = removes && asked.is_some();
        Ok(Arc::new(Self {
            control,
            reporter: Reporter::new(control.monitor()),
            sender,
            policy: match check {
                // Nothing of the rest means anything where nothing is changed.
                Some(_) => Policy { dry_run: true, sync: policy.sync, ..Policy::default() },
                None => policy,
            },
            check,
            dest: destination.path,
            may_be_source: destination.may_be_source,
            hashing: Mutex::default(),
            rename: destination.rename,
            asked: asked.map(Mutex::new),
            listing: Mutex::new(Listing { next_index: 1, open: vec![(0, root)] }),
            wanted: Mutex::default(),
            open_cost: AtomicU64::new(0),
            holding: Holding::default(),
            sealing: Mutex::default(),
            done: AtomicBool::new(false),
            awaits_removals,
            settled: Mutex::new(None),
            tasks: Mutex::new(Some(tasks)),
            is_far,
            lanes,
            whole_seconds,
        }))
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

    /// Takes the next items of the listing, which were admitted.
    fn take_items(&self, items: Vec<ListItem>) -> Result<(), Broken> {
        let mut wants = Vec::new();
        let mut outcomes = Vec::new();
        for item in items {
            if self.control.stopped() {
                return Ok(());
            }
            let cost = item.cost();
            match item {
                ListItem::DirEnd { dir } => {
                    let ended = lock(&self.listing).open.pop_if(|(number, _)| *number == dir);
                    let (_, ended) =
                        ended.ok_or(Broken("it ended a directory that is not open"))?;
                    if dir == 0 {
                        self.reporter.listed_all();
                    }
                    // What this settles must not be told after the job's end.
                    self.tell(&mut wants, &mut outcomes);
                    self.tell_extras(&ended);
                    self.settle(ended);
                }
                ListItem::Fault { dir, name, fault } => {
                    let (index, parent) = self.number(dir)?;
                    parent.passed_over(&name);
                    let outcome = Outcome::Failed(of_sender(fault));
                    self.reporter.outcome(&name, &Kind::Special, 0, &outcome);
                    self.close(cost);
                    outcomes.push(OutcomeItem { index, outcome });
                }
                ListItem::Entry { dir, entry } => {
                    let (index, parent) = self.number(dir)?;
                    let name = self.check_name(dir, &parent, &entry)?;
                    if let Some(outcome) =
                        self.take_entry(index, parent, name, entry, cost, &mut wants)
                    {
                        outcomes.push(OutcomeItem { index, outcome });
                    }
                }
            }
        }
        self.tell(&mut wants, &mut outcomes);
        Ok(())
    }

    fn tell(&self, wants: &mut Vec<Want>, outcomes: &mut Vec<OutcomeItem>) {
        self.tell_outcomes(std::mem::take(outcomes));
        if !wants.is_empty() {
            self.sender.want(std::mem::take(wants));
        }
    }

    /// The number of the next entry, and the directory that it is in.
    fn number(&self, dir: u64) -> Result<(u64, Arc<RecvDir>), Broken> {
        let mut listing = lock(&self.listing);
        let parent = listing.open.last().filter(|(number, _)| *number == dir);
        let (_, parent) = parent.ok_or(Broken("it listed into a directory that is not open"))?;
        let parent = Arc::clone(parent);
        let index = listing.next_index;
        listing.next_index += 1;
        Ok((index, parent))
    }

    /// The name that an entry gets, if the job covers it and it is in order.
    fn check_name(
        &self,
        dir: u64,
        parent: &RecvDir,
        entry: &Entry,
    ) -> Result<Option<Name>, Broken> {
        if entry.kind == Kind::Dir && lock(&self.listing).open.len() > MAX_DEPTH {
            return Err(Broken("it listed a tree deeper than 2048 directories"));
        }
        if dir != 0 {
            let name = entry.name.clone().ok_or(Broken("it listed an entry without a name"))?;
            let mut last = lock(&parent.last_names);
            let (files, dirs) = &mut *last;
            // What is no directory comes first.
            let late = entry.kind != Kind::Dir && dirs.is_some();
            let last = if entry.kind == Kind::Dir { dirs } else { files };
            if late || last.as_ref().is_some_and(|last| *last >= name) {
                return Err(Broken("it listed a directory out of order, or a name twice"));
            }
            *last = Some(name.clone());
            return Ok(Some(name));
        }
        if entry.name.is_none() && entry.kind != Kind::Dir {
            return Err(Broken("it listed an entry without a name"));
        }
        if let Some(asked) = &self.asked {
            let mut asked = lock(asked);
            let at = asked.iter().position(|name| *name == entry.name);
            asked.swap_remove(at.ok_or(Broken("it listed a name that was not asked for"))?);
        }
        if self.rename.is_none() {
            return Ok(entry.name.clone());
        }
        let mut last = lock(&parent.last_names);
        if last.0.is_some() {
            return Err(Broken("it listed several sources for one name"));
        }
        last.0.clone_from(&self.rename);
        Ok(self.rename.clone())
    }

    /// Decides about one entry; returns its outcome if it has one already.
    fn take_entry(
        &self,
        index: u64,
        dir: Arc<RecvDir>,
        name: Option<Name>,
        entry: Entry,
        cost: u64,
        wants: &mut Vec<Want>,
    ) -> Option<Outcome> {
        self.reporter.listed(&entry);
        if let Some(check) = self.check {
            return self.check_entry(index, dir, name, entry, cost, check, wants);
        }
        let outcome = match &entry.kind {
            Kind::Dir => self.take_dir(index, &dir, name.clone(), &entry, cost)?,
            Kind::Special => Outcome::Skipped(Skip::Special),
            Kind::File { .. } | Kind::Symlink { .. }
                if dir.parent.is_some() && is_stage(name.as_ref()) =>
            {
                Outcome::Skipped(Skip::Special)
            }
            Kind::File { .. } => {
                let name = name.clone().expect("only directories come without a name");
                match self.decide(&dir, &name, &entry) {
                    Decision::Settled(outcome) => outcome,
                    Decision::Copy(_) if self.policy.dry_run => Outcome::WouldCopy,
                    Decision::Copy(placement) => {
                        dir.expect_one();
                        let blocks = match self.find_resumed(&dir, &name, &entry) {
                            Ok(blocks) => blocks,
                            Err(fault) => {
                                dir.settle_one();
                                let outcome = Outcome::Failed(fault);
                                let path = dir.path_of(entry.name.as_ref());
                                self.report(&path, &entry.kind, 0, &outcome);
                                self.close(cost);
                                return Some(outcome);
                            }
                        };
                        let whole_hash = self.policy.resume == Resume::Strict;
                        let resumed = blocks;
                        let pending = Pending { index, dir, name, entry, placement, cost, resumed };
                        lock(&self.wanted).insert(index, pending);
                        wants.push(Want { index, blocks, whole_hash });
                        return None;
                    }
                }
            }
            Kind::Symlink { target } => {
                let name = name.as_ref().expect("only directories come without a name");
                match self.decide(&dir, name, &entry) {
                    Decision::Settled(outcome) => outcome,
                    Decision::Copy(_) if self.policy.dry_run => Outcome::WouldCopy,
                    Decision::Copy(placement) if self.is_far => {
                        dir.expect_one();
                        let name = name.clone();
                        let resumed = 0;
                        let link = Pending { index, dir, name, entry, placement, cost, resumed };
                        self.give(Task::Link(link));
                        return None;
                    }
                    Decision::Copy(placement) => {
                        self.make_symlink(&dir, name, &entry, target, placement)
                    }
                }
            }
        };
        self.report(&dir.path_of(entry.name.as_ref()), &entry.kind, 0, &outcome);
        self.close(cost);
        Some(outcome)
    }

    /// Admits items of a listing that has come over a wire, to be taken with
    /// [`Self::take_list`]; `false` if the job has failed by that.
    pub(crate) fn admit_list(&self, items: &[ListItem]) -> bool {
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
    pub(crate) fn give(&self, task: Task) {
        let tasks = lock(&self.tasks).clone();
        if let Some(tasks) = tasks {
            tasks.give(task);
        }
    }

    /// Whether the job compares, and takes no content.
    pub(crate) fn checks(&self) -> bool {
        self.check.is_some()
    }

    /// Whether the Sender may have been told that all is done.
    pub(crate) fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    /// Whether the Sender tells what it removes.
    pub(crate) fn awaits_removals(&self) -> bool {
        self.awaits_removals
    }

    /// Takes what the Sender tells of its sources.
    pub(crate) fn take_removals(&self, removals: Vec<Removal>) {
        for removal in removals {
            match removal {
                Removal::Source { path, kind, result } => {
                    let result = result.map_err(of_sender);
                    let result = result.as_ref().copied();
                    let monitor = self.control.monitor();
                    monitor.event(Event::Removed { path: &path, kind: &kind, result });
                }
                Removal::End => {
                    let Some(summary) = lock(&self.settled).take() else {
                        return self.refuse("it has removed all before all was compared");
                    };
                    self.done.store(true, Ordering::Release);
                    return self.control.finish(Ok(summary));
                }
            }
        }
    }

    /// Lets the workers end when they have done what is there.
    pub(crate) fn close_tasks(&self) {
        lock(&self.tasks).take();
    }

    /// Takes a wanted file out, to give it its content.
    pub(crate) fn claim(&self, index: u64) -> Option<Pending> {
        lock(&self.wanted).remove(&index)
    }

    /// A wanted file has its outcome; `moved` bytes were counted as done.
    pub(crate) fn finish(&self, pending: Pending, moved: u64, outcome: Outcome) -> OutcomeItem {
        let path = pending.dir.path_of(pending.entry.name.as_ref());
        self.report(&path, &pending.entry.kind, moved, &outcome);
        self.close(pending.cost);
        OutcomeItem { index: pending.index, outcome }
    }

    /// Lets go of a file's directory, after its outcome was told.
    pub(crate) fn release(&self, dir: Arc<RecvDir>) {
        self.settle(dir);
    }

    /// Tells outcomes to the Sender; one that ends the job is told as its end.
    pub(crate) fn tell_outcomes(&self, mut outcomes: Vec<OutcomeItem>) {
        outcomes.retain(|item| match &item.outcome {
            Outcome::Failed(fault) => !fault.ends_the_job(),
            _ => true,
        });
        if !outcomes.is_empty() {
            self.sender.outcomes(outcomes);
        }
    }

    fn report(&self, path: &[u8], kind: &Kind, moved: u64, outcome: &Outcome) {
        match outcome {
            Outcome::Failed(fault) if fault.ends_the_job() => {
                let path = escape_bytes(path);
                self.control.fail(JobError::Destination { path, fault: fault.clone() });
            }
            _ => self.reporter.outcome(path, kind, moved, outcome),
        }
    }

    fn warn(&self, path: &[u8], fault: &Fault) {
        let message = &fault.message;
        self.control.monitor().event(Event::Warning { path, message });
        self.sender
            .warning(Warning { path: words::shown(path.to_vec()), message: message.clone() });
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
        self.seal(dir);
        self.sync_dir(dir);
        if let Some(parent) = &dir.parent {
            return Some(Arc::clone(parent));
        }
        self.end_sealing(0);
        self.sync_names();
        // What ended early is not done, though everything is settled.
        if !self.control.stopped() {
            let summary = self.reporter.summary();
            if self.awaits_removals {
                *lock(&self.settled) = Some(summary);
                self.sender.done(summary);
                return None;
            }
            self.done.store(true, Ordering::Release);
            self.sender.done(summary);
            self.control.finish(Ok(summary));
        }
        None
    }

    fn seal(&self, dir: &Arc<RecvDir>) {
        let (DirState::Open(node), Some((mode, mtime))) = (&dir.state, dir.meta) else { return };
        if self.policy.dry_run || self.control.stopped() {
            return;
        }
        if self.is_far && mode & KEEPS_WAY != KEEPS_WAY {
            // Once it has this mode, nothing below it can be reached.
            self.end_sealing(0);
        }
        let set = node.handle().and_then(|handle| match handle.set_meta_later(mode, mtime) {
            None => handle.set_meta(mode, mtime),
            Some(later) => {
                lock(&self.sealing).push_back((Arc::clone(dir), later));
                Ok(())
            }
        });
        if let Err(error) = set {
            self.not_sealed(dir, &error);
        }
        self.end_sealing(SEALING_MAX);
    }

    /// Waits for what comes of setting directories' modes and times, until no more
    /// than `left` are open.
    fn end_sealing(&self, left: usize) {
        loop {
            let next = {
                let mut sealing = lock(&self.sealing);
                if sealing.len() > left { sealing.pop_front() } else { None }
            };
            let Some((dir, wait)) = next else { return };
            if let Err(error) = wait()
                && !self.control.stopped()
            {
                self.not_sealed(&dir, &error);
            }
        }
    }

    fn not_sealed(&self, dir: &RecvDir, error: &io::Error) {
        let fault = Fault::from_io(Side::Destination, "set the directory's mode and time", error);
        self.warn(&dir.path_of(None), &fault);
    }
}

impl ReceiverPort for Receiver<'_> {
    fn list(&self, items: Vec<ListItem>) {
        if self.admit_list(&items) {
            self.take_list(items);
        }
    }

    fn files(&self, files: Vec<SourceHandle>) {
        let tasks = lock(&self.tasks).clone();
        if let Some(tasks) = tasks {
            tasks.give_files(files, self.checks());
        }
    }
}

/// A fault that the Sender told, as one of its own: the destination is not for
/// it to judge.
pub(crate) fn of_sender(fault: Fault) -> Fault {
    Fault { side: Side::Source, ..fault.clipped() }
}

/// Whether a file or link is a stage or journal of haul's own, left or at work in the
/// source: it is worth nothing in another place.
fn is_stage(name: Option<&Name>) -> bool {
    name.is_some_and(haul_store::is_private)
}

fn parent_fault() -> Fault {
    Fault::new(Side::Destination, FaultKind::Parent, "the directory above it failed")
}
