//! Hard links: names of one source file become names of one file here. The first listed name is
//! handled like any other file. Names that are listed before it is settled wait, and are linked to
//! it then. The memory for all this has a bound in bytes.

mod cost;

use super::pending::Settled;

use super::publish::waiting::WaitingFile;
use super::{
    Completion, Decider, Decision, DirState, JobContext, Pending, Publisher, RecvDir, parent_fault,
};
use crate::dirs::DirNode;
use crate::memory_budget::MemoryBudget;
use haul_model::{
    Changes, Entry, Fault, FaultKind, FileId, Name, Outcome, Side, Skip, escape_bytes, words,
};
use haul_store::OnExisting;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::collections::btree_map;
use std::io;
use std::num::NonZeroU64;
use std::sync::{Arc, OnceLock};

/// The listed files that have several names.
pub(super) struct Groups {
    known: Mutex<Known>,
    /// The listed name of the only source, if it gets another name here.
    listed: OnceLock<Name>,
}

/// The groups, by the Sender's number. Trees need no copying to grow.
struct Known {
    groups: BTreeMap<u64, Group>,
    /// In a comparison: the object of each group's first name.
    objects: BTreeMap<u64, Option<FileId>>,
    memory_budget: MemoryBudget,
}

/// The names of one file.
enum Group {
    /// The first name has no outcome yet.
    Awaited(Awaiting),
    /// The destination has the first name.
    Existing(Box<First>),
}

/// Names that wait for the outcome of the first one.
#[derive(Default)]
struct Awaiting(Option<Box<Waiters>>);

struct Waiters(Vec<Pending>);

/// The first name of a file. Others are linked to it.
#[derive(Clone)]
pub(crate) struct First {
    place: Place,
    name: Name,
    object: Object,
}

/// The directory of a first name.
#[derive(Clone)]
enum Place {
    Existing(Arc<DirNode>),
    /// A dry run: the directory would be created.
    Absent(Arc<RecvDir>),
}

/// The object of a first name.
#[derive(Clone)]
enum Object {
    /// It is unknown, or will be replaced.
    Unknown,
    Known(FileId),
    /// The file waits for publication.
    Waits(Box<WaitingFile>),
}

/// The state of a group when another of its names is listed.
enum GroupLookup {
    /// No other name was listed before, or none was published.
    None(Pending),
    /// The first name has no outcome yet; the new one waits for it.
    Awaited,
    /// The first name exists.
    Other(First, Pending),
    /// There is no memory to record the group.
    TooMany(Pending, Fault),
}

impl Groups {
    /// Creates an empty set that may use `memory_max` bytes.
    pub(super) fn of(memory_max: Option<NonZeroU64>) -> Self {
        let memory_budget = MemoryBudget::of(memory_max);
        let known = Known { groups: BTreeMap::new(), objects: BTreeMap::new(), memory_budget };
        Self { known: Mutex::new(known), listed: OnceLock::new() }
    }
}

/// Reports the outcomes of files, and links further names of a file to the first.
pub(crate) struct Linker<'a> {
    pub(super) job: Arc<JobContext<'a>>,
    pub(super) decider: Arc<Decider<'a>>,
    pub(super) publisher: Arc<Publisher<'a>>,
    pub(super) completion: Arc<Completion<'a>>,
    pub(super) groups: Groups,
}

impl<'a> Linker<'a> {
    pub(super) fn of(completion: &Arc<Completion<'a>>, groups: Groups) -> Arc<Self> {
        let publisher = Arc::clone(&completion.publisher);
        let (job, decider) = (Arc::clone(&publisher.job), Decider::of(&publisher));
        Arc::new(Self { job, decider, publisher, completion: Arc::clone(completion), groups })
    }
}

impl Linker<'_> {
    /// Reports the outcomes of files in one message, and links the names that wait for them.
    pub(super) fn report_settled(&self, settled: Vec<Settled>) {
        let mut outcomes = Vec::with_capacity(settled.len());
        let mut dirs = Vec::with_capacity(settled.len());
        let mut firsts = Vec::new();
        for (pending, moved, outcome) in settled {
            let dir = pending.dir();
            if pending.entry.size() != pending.listed {
                self.job.sender.sized(pending.index, pending.entry.size());
            }
            let first = self
                .job
                .is_hard_linked(&pending.entry)
                .then(|| (pending.entry.links, Arc::clone(&dir), pending.name.clone()));
            dirs.push(dir);
            let item = self.completion.finish(pending, moved, outcome);
            firsts.extend(first.map(|first| (first, item.outcome.clone())));
            outcomes.push(item);
        }
        self.job.send_outcomes(outcomes);
        // Links must exist before the directories are settled and get their modes.
        for ((group, dir, name), outcome) in firsts {
            self.settle_first(group, dir, name, &outcome);
        }
        for dir in dirs {
            self.completion.settle(dir);
        }
    }

    /// Reports the outcome of one file, of which `moved` bytes were counted as done.
    pub(super) fn report_one(&self, pending: Pending, moved: u64, outcome: Outcome) {
        self.report_settled(vec![(pending, moved, outcome)]);
    }

    /// Takes an entry with several names. Returns its outcome if it is settled at once. `take`
    /// handles the first name.
    pub(super) fn take_name(
        &self,
        pending: Pending,
        take: impl FnOnce(Pending) -> Option<Outcome>,
    ) -> Option<Outcome> {
        match self.look_up_group(pending) {
            GroupLookup::Awaited => None,
            GroupLookup::None(pending) => {
                let (group, dir, name) = (pending.entry.links, pending.dir(), pending.name.clone());
                let outcome = take(pending);
                if let Some(outcome) = &outcome {
                    self.settle_first(group, dir, name, outcome);
                }
                outcome
            }
            GroupLookup::Other(first, pending) if self.job.ends.queues_names => {
                pending.dir.add_pending();
                self.enqueue_name(first, pending);
                None
            }
            GroupLookup::Other(first, mut pending) => {
                let outcome = self.link(&first, &mut pending);
                Some(self.settle_listed(&pending, outcome))
            }
            GroupLookup::TooMany(pending, fault) => {
                Some(self.settle_listed(&pending, Outcome::Failed(fault)))
            }
        }
    }

    fn look_up_group(&self, mut pending: Pending) -> GroupLookup {
        let mut known = self.groups.known.lock();
        let Known { groups, memory_budget, .. } = &mut *known;
        match groups.entry(pending.entry.links) {
            btree_map::Entry::Vacant(group) => {
                if !memory_budget.take(cost::of_first(&pending.name, self.job.delays_updates())) {
                    return GroupLookup::TooMany(pending, memory_budget.fault(Side::Destination));
                }
                memory_budget.take_beyond_limit(cost::of_place(&Place::of(&pending.dir)));
                group.insert(Group::Awaited(Awaiting::default()));
                GroupLookup::None(pending)
            }
            btree_map::Entry::Occupied(mut group) => {
                // The entry is a further name, and never becomes a first one.
                pending.entry.links = 0;
                match group.get_mut() {
                    Group::Awaited(Awaiting(waiting)) => {
                        pending.dir.add_pending();
                        waiting
                            .get_or_insert_with(|| Box::new(Waiters(Vec::new())))
                            .0
                            .push(pending);
                        GroupLookup::Awaited
                    }
                    Group::Existing(first) => GroupLookup::Other(First::clone(first), pending),
                }
            }
        }
    }

    /// Records the outcome of the first name of a file. Waiting names are linked to it, or fail
    /// with it.
    pub(super) fn settle_first(
        &self,
        group: u64,
        dir: Arc<RecvDir>,
        name: Name,
        outcome: &Outcome,
    ) {
        let exists = matches!(
            outcome,
            Outcome::Copied
                | Outcome::WouldCopy
                | Outcome::Grew
                | Outcome::Synced(_)
                | Outcome::Skipped(Skip::Unchanged)
        );
        let first = if exists { self.first(dir, name.clone(), outcome) } else { None };
        let waiting = {
            let Known { groups, memory_budget, .. } = &mut *self.groups.known.lock();
            let Some(Group::Awaited(_)) = groups.get(&group) else { return };
            let ended = match first.clone() {
                Some(first) => groups.insert(group, Group::Existing(Box::new(first))),
                None => {
                    memory_budget.release(cost::of_first(&name, self.job.delays_updates()));
                    groups.remove(&group)
                }
            };
            let Some(Group::Awaited(Awaiting(waiting))) = ended else { return };
            waiting.map_or_else(Vec::new, |names| names.0)
        };
        if waiting.is_empty() || self.job.control.stopped() {
            return;
        }
        let fault = || {
            let name = escape_bytes(name.as_bytes());
            let (side, kind, why) = match outcome {
                Outcome::Failed(Fault { side, kind, message }) => (*side, *kind, &**message),
                _ => (Side::Destination, FaultKind::Busy, "another file has this name"),
            };
            let message = format!("hard link to {name}, which was not copied: {why}");
            Outcome::Failed(Fault::new(side, kind, message))
        };
        let mut settled = Vec::with_capacity(waiting.len());
        for mut pending in waiting {
            match &first {
                Some(first) if self.job.ends.queues_names => {
                    self.enqueue_name(first.clone(), pending);
                }
                Some(first) => {
                    let outcome = self.link(first, &mut pending);
                    settled.push((pending, 0, outcome));
                }
                None => settled.push((pending, 0, fault())),
            }
        }
        self.report_settled(settled);
    }

    /// Compares the object `there` of an entry with that of its group's first name. Unknown objects
    /// count as equal. Before a removal they count as different, since nothing proves that the
    /// names lead to one file.
    ///
    /// # Errors
    /// If there is no memory to record the object.
    pub(super) fn compare_object(
        &self,
        entry: &Entry,
        there: Option<FileId>,
    ) -> Result<Changes, Fault> {
        if entry.links == 0 || there.is_none() && !self.job.plan.proves_links {
            return Ok(Changes::default());
        }
        let Known { objects, memory_budget, .. } = &mut *self.groups.known.lock();
        match objects.entry(entry.links) {
            btree_map::Entry::Vacant(group) => {
                if !memory_budget.take(cost::OF_OBJECT) {
                    return Err(memory_budget.fault(Side::Destination));
                }
                group.insert(there);
                Ok(Changes::default())
            }
            btree_map::Entry::Occupied(first) => {
                Ok(Changes::LINKED.only_if(there.is_none() || *first.get() != there))
            }
        }
    }

    /// The first name of a group, after `outcome`. `None` if it does not exist: a base may have the
    /// file instead.
    fn first(&self, dir: Arc<RecvDir>, name: Name, outcome: &Outcome) -> Option<First> {
        let is_replaced = match outcome {
            Outcome::Skipped(_) => false,
            Outcome::Synced(found) => found.has_any(Changes::SENT.with(Changes::MISSING)),
            _ => true,
        };
        if self.job.rename.is_some()
            && let Some(listed) = dir.names().first()
        {
            self.groups.listed.get_or_init(|| Name::clone(listed));
        }
        let place = Place::of(&dir);
        let Place::Existing(node) = &place else {
            return Some(First { place, name, object: Object::Unknown });
        };
        let handle = node.handle().ok()?;
        // In a dry run, the existing object is not the one that would be published.
        if self.job.plan.dry_run && is_replaced || !handle.capabilities().has_object_ids {
            return Some(First { place, name, object: Object::Unknown });
        }
        // A file that differs from its base only in attributes waits, too.
        let object = match self.publisher.waits(&dir, &name) {
            Some(waits) => Object::Waits(Box::new(waits)),
            None => handle.stat(&name, false).ok()??.id.map_or(Object::Unknown, Object::Known),
        };
        Some(First { place, name, object })
    }

    /// The outcome of a name that was linked to `first`, and differed by `found`.
    fn linked(&self, first: &First, found: Changes) -> Outcome {
        let mut path = match &first.place {
            Place::Existing(node) => node.path_of(Some(&first.name)),
            Place::Absent(dir) => dir.path_of(Some(&first.name)),
        };
        if let (Place::Existing(_), Some(listed)) = (&first.place, self.groups.listed.get()) {
            let top_len = path.iter().position(|byte| *byte == b'/').unwrap_or(path.len());
            path.splice(..top_len, listed.as_bytes().iter().copied());
        }
        let first = words::shown(path).into();
        Outcome::Linked { found: found.without(Changes::SENT), first }
    }

    /// Links an entry to the first name of its file in a worker, where that takes round trips.
    fn enqueue_name(&self, first: First, mut pending: Pending) {
        self.job.enqueue(move |receiver, _| {
            let linker = &receiver.linker;
            if !linker.job.control.stopped() {
                let outcome = linker.link(&first, &mut pending);
                linker.report_one(pending, 0, outcome);
            }
        });
    }

    /// Makes an entry a further name of `first`, unless it is one already.
    fn link(&self, first: &First, pending: &mut Pending) -> Outcome {
        let Pending { dir, name, entry, .. } = pending;
        let has_object_ids = match &dir.state {
            DirState::Open(node) => {
                node.handle().is_ok_and(|handle| handle.capabilities().has_object_ids)
            }
            _ => true,
        };
        let left = Outcome::Skipped(Skip::Unchanged);
        // Without object numbers, an unchanged file counts as the same object.
        let (decision, found) = self.decider.decide_about(dir, name, entry, !has_object_ids);
        let decision = self.publisher.removals.cleared(dir, name, decision, found);
        let on_existing = match decision {
            Decision::Copy(on_existing) | Decision::Base(.., on_existing) => on_existing,
            Decision::Hash => OnExisting::Replace,
            Decision::HashBases(_, otherwise) => match *otherwise {
                Decision::Copy(on_existing) => on_existing,
                _ => OnExisting::Replace,
            },
            Decision::Settled(Outcome::WouldCopy) => return self.linked(first, found),
            Decision::Settled(outcome) if outcome == left && has_object_ids => OnExisting::Replace,
            Decision::Settled(outcome) => return self.job.as_synced(outcome, found),
        };
        if self.job.plan.dry_run && !matches!(dir.state, DirState::Open(_)) {
            // A base has the content, and the directory of the entry would be created.
            return self.linked(first, found);
        }
        let linked = self.link_to(first, dir, name, entry, on_existing);
        match linked {
            Ok(Linked::Already) if self.job.plan.reports_changes => {
                Outcome::Linked { found: Changes::default(), first: Box::default() }
            }
            Ok(Linked::Already) => left,
            Ok(Linked::Now(Outcome::Copied)) => self.linked(first, found),
            Ok(Linked::Now(outcome)) => outcome,
            Err(fault) => Outcome::Failed(fault),
        }
    }

    fn link_to(
        &self,
        first: &First,
        dir: &RecvDir,
        name: &Name,
        entry: &Entry,
        on_existing: OnExisting,
    ) -> Result<Linked, Fault> {
        let action = "hard-link it to another name of the file";
        let failed = |error: io::Error| Fault::from_io(Side::Destination, action, &error);
        let DirState::Open(node) = &dir.state else { return Err(parent_fault()) };
        let handle = node.handle().map_err(failed)?;
        if let Some(id) = first.id() {
            let there = handle.stat(name, false).map_err(failed)?;
            if handle.capabilities().has_object_ids
                && there.is_some_and(|there| there.id == Some(id))
            {
                return Ok(Linked::Already);
            }
        }
        if self.job.plan.dry_run {
            return Ok(Linked::Now(Outcome::Copied));
        }
        let Place::Existing(first_dir) = &first.place else { return Err(parent_fault()) };
        dir.expect_change();
        if let Object::Waits(place) = &first.object
            && self
                .publisher
                .link_waiting((**place, &first.name), dir, name, on_existing)
                .map_err(failed)?
        {
            return Ok(Linked::Now(Outcome::Copied));
        }
        self.publisher.removals.clear_place(dir, name, on_existing)?;
        let from = first_dir.handle().map_err(failed)?;
        let named =
            self.publisher.naming.assign_name(action, dir, name, entry, on_existing, |how| {
                handle.make_hard_link(&*from, &first.name, first.id(), name, how)
            });
        if let (Some(claims), Some(id)) = (dir.claims(), first.id()) {
            claims.find(id, &*handle);
        }
        let outcome = named?;
        dir.remove_stale(name);
        Ok(Linked::Now(outcome))
    }
}

/// The result of linking a name to the first one.
enum Linked {
    /// The name led to the file before.
    Already,
    /// The name was linked now, or the outcome says why not.
    Now(Outcome),
}

impl First {
    /// The object, if it is known and will not be replaced.
    fn id(&self) -> Option<FileId> {
        match &self.object {
            Object::Unknown => None,
            Object::Known(id) => Some(*id),
            Object::Waits(waits) => Some(waits.id),
        }
    }
}

impl Place {
    fn of(dir: &Arc<RecvDir>) -> Self {
        match &dir.state {
            DirState::Open(node) => Self::Existing(Arc::clone(node)),
            _ => Self::Absent(Arc::clone(dir)),
        }
    }
}

impl Linker<'_> {
    /// Reports the outcome of an entry that is settled when it is listed.
    pub(super) fn settle_listed(&self, listed: &Pending, outcome: Outcome) -> Outcome {
        let Pending { index, dir, entry, found, cost, .. } = listed;
        let outcome = self.job.as_synced(outcome, *found);
        self.job.settle_entry(*index, dir, entry, *cost, &outcome);
        outcome
    }
}
