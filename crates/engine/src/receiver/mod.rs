//! The Receiver: holds the destination, and so it alone compares, asks for what
//! is missing, and publishes.

mod compare;
mod destination;
mod dirs;
mod incoming;
mod work;

pub(crate) use destination::Destination;
pub(crate) use incoming::{Incoming, Piece};
pub(crate) use work::{Task, changed, check_unchanged, run_worker};

use crate::control::{Control, Reporter};
use crate::dirs::{DirNode, OpenDirs, lock};
use crate::link::{ReceiverPort, SenderPort, SourceHandle};
use crate::tree::{KEPT_MODE, LocalDir, Meta, MetaKind, TreeDir};
use crate::{Event, JobError};
use compare::Decision;
use dirs::{DirState, RecvDir};
use haul_model::{Entry, Fault, FaultKind, Kind, Name, Outcome, Policy, Side, Skip, escape_bytes};
use haul_proto::{LIST_WINDOW, ListItem, OutcomeItem, Want, Warning};
use haul_store::{Placement, Publication};
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Items beyond [`LIST_WINDOW`] that are tolerated: one that is as large as an
/// item can be.
const WINDOW_SLACK: u64 = 64 << 10;

/// The role.
pub(crate) struct Receiver<'a> {
    pub(crate) control: &'a Control<'a>,
    pub(crate) reporter: Reporter<'a>,
    sender: Arc<dyn SenderPort + 'a>,
    policy: Policy,
    rename: Option<Name>,
    /// The names that the job asked for, where this side named the sources;
    /// each is taken out when it is listed.
    asked: Option<Mutex<Vec<Option<Name>>>>,
    listing: Mutex<Listing>,
    wanted: Mutex<HashMap<u64, Pending>>,
    /// Cost of what was listed and has no outcome yet.
    open_cost: AtomicU64,
    /// Taken out when no more work is to come.
    tasks: Mutex<Option<crossbeam_channel::Sender<Task>>>,
}

/// Where the listing stands.
struct Listing {
    /// The number that the next entry or fault has.
    next_index: u64,
    /// Directories whose end was not listed yet.
    dirs: HashMap<u64, Arc<RecvDir>>,
}

/// A listed file whose content is wanted.
pub(crate) struct Pending {
    pub(crate) index: u64,
    dir: Arc<RecvDir>,
    name: Name,
    entry: Entry,
    placement: Placement,
    cost: u64,
}

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
        asked: Option<Vec<Option<Name>>>,
        tasks: crossbeam_channel::Sender<Task>,
    ) -> io::Result<Arc<Self>> {
        let root: Arc<dyn TreeDir> = Arc::new(LocalDir::new(destination.root));
        let root = DirNode::root(root, None, &Arc::new(OpenDirs::default()))?;
        let state = if destination.absent { DirState::Absent } else { DirState::Open(root) };
        let root = RecvDir::new(None, None, state, false, None);
        Ok(Arc::new(Self {
            control,
            reporter: Reporter::new(control.monitor()),
            sender,
            policy,
            rename: destination.rename,
            asked: asked.map(Mutex::new),
            listing: Mutex::new(Listing { next_index: 1, dirs: HashMap::from([(0, root)]) }),
            wanted: Mutex::default(),
            open_cost: AtomicU64::new(0),
            tasks: Mutex::new(Some(tasks)),
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
                    let ended = lock(&self.listing).dirs.remove(&dir);
                    let ended = ended.ok_or(Broken("it ended a directory that is not open"))?;
                    if dir == 0 {
                        self.reporter.listed_all();
                    }
                    // What this settles must not be told after the job's end.
                    self.tell(&mut wants, &mut outcomes);
                    self.settle(ended);
                }
                ListItem::Fault { dir, name, fault } => {
                    let (index, parent) = self.number(dir)?;
                    drop(parent);
                    let outcome = Outcome::Failed(fault.clipped());
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
        let parent =
            listing.dirs.get(&dir).ok_or(Broken("it listed into a directory that is not open"))?;
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
        if dir != 0 {
            let name = entry.name.clone().ok_or(Broken("it listed an entry without a name"))?;
            let mut last = lock(&parent.last_names);
            let last = if entry.kind == Kind::Dir { &mut last.1 } else { &mut last.0 };
            if last.as_ref().is_some_and(|last| *last >= name) {
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
        let outcome = match &entry.kind {
            Kind::Dir => self.take_dir(index, &dir, name.clone(), &entry),
            Kind::Special => Outcome::Skipped(Skip::Special),
            Kind::File { .. } => {
                let name = name.clone().expect("only directories come without a name");
                match self.decide(&dir, &name, &entry) {
                    Decision::Settled(outcome) => outcome,
                    Decision::Copy(_) if self.policy.dry_run => Outcome::WouldCopy,
                    Decision::Copy(placement) => {
                        dir.expect_one();
                        let pending = Pending { index, dir, name, entry, placement, cost };
                        lock(&self.wanted).insert(index, pending);
                        wants.push(Want { index });
                        return None;
                    }
                }
            }
            Kind::Symlink { target } => {
                let name = name.as_ref().expect("only directories come without a name");
                match self.decide(&dir, name, &entry) {
                    Decision::Settled(outcome) => outcome,
                    Decision::Copy(_) if self.policy.dry_run => Outcome::WouldCopy,
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

    /// What to do with a file or a link.
    fn decide(&self, dir: &RecvDir, name: &Name, entry: &Entry) -> Decision {
        let node = match &dir.state {
            DirState::Open(node) => node,
            DirState::Failed => return Decision::Settled(Outcome::Failed(parent_fault())),
            DirState::Absent => return Decision::Settled(Outcome::WouldCopy),
        };
        let looked = (|| {
            let existing = if dir.fresh { None } else { node.handle()?.stat(name, false)? };
            Ok(match &entry.kind {
                Kind::Symlink { target } => {
                    let existing_target = match &existing {
                        Some(Meta { kind: MetaKind::Symlink, .. }) => {
                            Some(node.handle()?.read_link(name)?)
                        }
                        _ => None,
                    };
                    let conflict = self.policy.conflict;
                    let there = existing_target.as_deref();
                    compare::symlink(entry, target, existing.as_ref(), there, conflict)
                }
                _ => {
                    let decision = compare::file(entry, existing.as_ref(), self.policy.conflict);
                    if decision == Decision::Settled(Outcome::Skipped(Skip::Unchanged)) {
                        self.refresh_mode(dir, node, name, entry, existing.as_ref());
                    }
                    decision
                }
            })
        })();
        looked.unwrap_or_else(|error: io::Error| {
            let fault = Fault::from_io(Side::Destination, "look at the destination", &error);
            Decision::Settled(Outcome::Failed(fault))
        })
    }

    /// Gives a file whose content is left as it is the source's mode.
    fn refresh_mode(
        &self,
        dir: &RecvDir,
        node: &Arc<DirNode>,
        name: &Name,
        entry: &Entry,
        existing: Option<&Meta>,
    ) {
        let differs = |meta: &Meta| (meta.mode ^ entry.mode) & KEPT_MODE != 0;
        if self.policy.dry_run || !existing.is_some_and(differs) {
            return;
        }
        let set = node.handle().and_then(|handle| handle.set_file_mode(name, entry.mode));
        if let Err(error) = set {
            let fault = Fault::from_io(Side::Destination, "set the file's mode", &error);
            self.warn(&dir.path_of(entry.name.as_ref()), &fault);
        }
    }

    fn warn(&self, path: &[u8], fault: &Fault) {
        let message = &fault.message;
        self.control.monitor().event(Event::Warning { path, message });
        self.sender.warning(Warning { path: path.to_vec(), message: message.clone() });
    }

    fn make_symlink(
        &self,
        dir: &RecvDir,
        name: &Name,
        entry: &Entry,
        target: &[u8],
        placement: Placement,
    ) -> Outcome {
        let DirState::Open(node) = &dir.state else { return Outcome::Failed(parent_fault()) };
        let made = node
            .handle()
            .and_then(|handle| handle.make_symlink(target, name, entry.mtime, placement));
        match made {
            Ok(Publication::Published) => Outcome::Copied,
            Ok(Publication::Kept) => Outcome::Skipped(Skip::Exists),
            Err(error) => {
                Outcome::Failed(Fault::from_io(Side::Destination, "make the link", &error))
            }
        }
    }

    /// Makes or opens a directory, and opens it for the listing.
    fn take_dir(
        &self,
        index: u64,
        parent: &Arc<RecvDir>,
        name: Option<Name>,
        entry: &Entry,
    ) -> Outcome {
        let (outcome, state, fresh) = match (&parent.state, &name) {
            (DirState::Failed, _) => (Outcome::Failed(parent_fault()), DirState::Failed, false),
            (DirState::Absent, _) => (Outcome::WouldCopy, DirState::Absent, false),
            (DirState::Open(node), None) => {
                let state = DirState::Open(Arc::clone(node));
                (Outcome::Skipped(Skip::Unchanged), state, false)
            }
            (DirState::Open(node), Some(name)) => match self.open_dir(node, name, entry) {
                Ok(opened) => opened,
                Err(fault) => (Outcome::Failed(fault), DirState::Failed, false),
            },
        };
        // What goes right into a directory that stood before leaves that one's
        // own mode and time alone.
        let meta = (name.is_some() && matches!(state, DirState::Open(_)))
            .then_some((entry.mode, entry.mtime));
        let shown = entry.name.clone();
        let dir = RecvDir::new(Some(Arc::clone(parent)), shown, state, fresh, meta);
        lock(&self.listing).dirs.insert(index, dir);
        outcome
    }

    fn open_dir(
        &self,
        parent: &Arc<DirNode>,
        name: &Name,
        entry: &Entry,
    ) -> Result<(Outcome, DirState, bool), Fault> {
        let fault =
            |action: &str, error: io::Error| Fault::from_io(Side::Destination, action, &error);
        let handle = parent.handle().map_err(|e| fault("open the directory above", e))?;
        let made = if self.policy.dry_run {
            match handle.stat(name, false).map_err(|e| fault("look at the destination", e))? {
                None => return Ok((Outcome::WouldCopy, DirState::Absent, false)),
                Some(_) => false,
            }
        } else {
            match handle.make_dir(name) {
                Ok(()) => true,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
                Err(error) => return Err(fault("make the directory", error)),
            }
        };
        let node = match DirNode::open(parent, name.clone(), false) {
            Ok(node) => node,
            Err(error) if FaultKind::of(&error) == FaultKind::NotDirectory => {
                return Err(in_the_way(&*handle, name));
            }
            Err(error) => return Err(fault("open the directory", error)),
        };
        if entry.id.is_some() && entry.id == node.id() {
            let message = "source and destination are the same directory";
            return Err(Fault::new(Side::Destination, FaultKind::SameFile, message));
        }
        if !made && !self.policy.dry_run {
            // A refusal shows itself as soon as something is written.
            let _ = node.handle().and_then(|handle| handle.make_writable());
        }
        let outcome = if made { Outcome::Copied } else { Outcome::Skipped(Skip::Unchanged) };
        Ok((outcome, DirState::Open(node), made))
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
            // Refused only when the workers are gone, because the job has ended.
            let _ = tasks.send(task);
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

    fn close(&self, cost: u64) {
        self.open_cost.fetch_sub(cost, Ordering::Relaxed);
    }

    /// One entry of `dir` is settled; with the last one the directory gets its
    /// mode and time, and is itself settled in the one above it.
    fn settle(&self, dir: Arc<RecvDir>) {
        let mut dir = dir;
        while dir.settle_one() {
            self.seal(&dir);
            match &dir.parent {
                Some(parent) => dir = Arc::clone(parent),
                // What ended early is not done, though everything is settled.
                None if self.control.stopped() => return,
                None => {
                    let summary = self.reporter.summary();
                    self.sender.done(summary);
                    self.control.finish(Ok(summary));
                    return;
                }
            }
        }
    }

    fn seal(&self, dir: &RecvDir) {
        let (DirState::Open(node), Some((mode, mtime))) = (&dir.state, dir.meta) else { return };
        if self.policy.dry_run || self.control.stopped() {
            return;
        }
        let set = node.handle().and_then(|handle| handle.set_meta(mode, mtime));
        if let Err(error) = set {
            let fault =
                Fault::from_io(Side::Destination, "set the directory's mode and time", &error);
            self.warn(&dir.path_of(None), &fault);
        }
    }
}

impl ReceiverPort for Receiver<'_> {
    fn list(&self, items: Vec<ListItem>) {
        if self.admit_list(&items) {
            self.take_list(items);
        }
    }

    fn files(&self, files: Vec<SourceHandle>) {
        self.give(Task::Files(files));
    }
}

fn parent_fault() -> Fault {
    Fault::new(Side::Destination, FaultKind::Parent, "the directory above it failed")
}

/// What stands where a directory is needed.
fn in_the_way(parent: &dyn TreeDir, name: &Name) -> Fault {
    match parent.stat(name, false) {
        Ok(Some(Meta { kind: MetaKind::Symlink, .. })) => Fault::new(
            Side::Destination,
            FaultKind::Link,
            "a symbolic link stands there at the destination, where a directory is needed",
        ),
        _ => Fault::new(
            Side::Destination,
            FaultKind::NotDirectory,
            "a file stands there at the destination, where a directory is needed",
        ),
    }
}
