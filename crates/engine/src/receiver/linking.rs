//! Hard links: names of one file of the sources become names of one file here. The first
//! of them that is listed is dealt with like any other file; those that are listed while
//! its content is on the way wait for that, and are linked to it then.

use super::compare::Decision;
use super::dirs::{DirState, RecvDir};
use super::waiting::WaitingFile;
use super::work::{self, Work};
use super::{Pending, Receiver, naming, parent_fault};
use haul_model::{
    Changes, Entry, Fault, FaultKind, FileId, Kept, LINK_GROUPS_MAX, Name, Outcome, Side, Skip,
    escape_bytes, words,
};
use haul_store::OnExisting;
use haul_tree::lock;
use std::collections::HashMap;
use std::collections::hash_map;
use std::io;
use std::sync::{Arc, Mutex};

/// The files of several names that were listed, by the Sender's number.
#[derive(Default)]
pub(super) struct Groups {
    known: Mutex<HashMap<u64, Group>>,
    /// In a comparison: the object that the first name of each leads to.
    objects: Mutex<HashMap<u64, Option<FileId>>>,
}

/// Names of one file.
enum Group {
    /// The first has no outcome yet; these wait for it.
    Awaited(Vec<Pending>),
    /// The destination has it.
    There(Box<First>),
}

/// The name to which others are linked.
#[derive(Clone)]
pub(crate) struct First {
    dir: Arc<RecvDir>,
    name: Name,
    /// The object, where it can be told, and will not be replaced.
    id: Option<FileId>,
    /// Where it waits, if it does.
    place: Option<WaitingFile>,
}

/// An entry of several names, as it meets those that were listed before.
enum Met {
    /// There are none, or none has come about.
    None(Pending),
    /// One is on its way, and this waits for it.
    Awaited,
    /// One is there.
    Other(First, Pending),
    /// There are too many such files.
    TooMany(Pending),
}

impl Receiver<'_> {
    /// True if such an entry may become a further name of another.
    pub(super) fn has_other_names(&self, entry: &Entry) -> bool {
        entry.links != 0 && self.policy.keeps.has(Kept::LINKS)
    }

    /// Takes an entry of several names; returns its outcome if it has one already. The first
    /// is left to `take`.
    pub(super) fn take_name(
        &self,
        one: Pending,
        take: impl FnOnce(Pending) -> Option<Outcome>,
    ) -> Option<Outcome> {
        match self.meet_others(one) {
            Met::Awaited => None,
            Met::None(one) => {
                let (group, dir, name) = (one.entry.links, one.dir(), one.name.clone());
                let outcome = take(one);
                if let Some(outcome) = &outcome {
                    self.end_first(group, dir, name, outcome);
                }
                outcome
            }
            Met::Other(first, one) if self.costs_round_trips => {
                one.dir.expect_one();
                self.give(Work::Name(Box::new((first, one))));
                None
            }
            Met::Other(first, mut one) => {
                let outcome = self.link(&first, &mut one);
                self.settle_listed(&one, outcome)
            }
            Met::TooMany(one) => {
                let message =
                    format!("there are more than {LINK_GROUPS_MAX} files of several names");
                let fault = Fault::new(Side::Source, FaultKind::TooLong, message);
                self.settle_listed(&one, Outcome::Failed(fault))
            }
        }
    }

    fn meet_others(&self, mut one: Pending) -> Met {
        let mut groups = lock(&self.groups.known);
        let is_full = groups.len() >= LINK_GROUPS_MAX;
        match groups.entry(one.entry.links) {
            hash_map::Entry::Vacant(_) if is_full => Met::TooMany(one),
            hash_map::Entry::Vacant(place) => {
                place.insert(Group::Awaited(Vec::new()));
                Met::None(one)
            }
            hash_map::Entry::Occupied(mut group) => {
                // It is no first one any more.
                one.entry.links = 0;
                match group.get_mut() {
                    Group::Awaited(waiting) => {
                        one.dir.expect_one();
                        waiting.push(one);
                        Met::Awaited
                    }
                    Group::There(first) => Met::Other(First::clone(first), one),
                }
            }
        }
    }

    /// The first name of a file has that outcome: links those that wait for it, or has them
    /// fail with it.
    pub(super) fn end_first(&self, group: u64, dir: Arc<RecvDir>, name: Name, outcome: &Outcome) {
        let is_there = matches!(
            outcome,
            Outcome::Copied
                | Outcome::WouldCopy
                | Outcome::Grew
                | Outcome::Synced(_)
                | Outcome::Skipped(Skip::Unchanged)
        );
        let first = if is_there { self.first(dir, name.clone(), outcome) } else { None };
        let waiting = {
            let mut groups = lock(&self.groups.known);
            let Some(Group::Awaited(waiting)) = groups.remove(&group) else { return };
            if let Some(first) = first.clone() {
                groups.insert(group, Group::There(Box::new(first)));
            }
            waiting
        };
        if waiting.is_empty() || self.control.stopped() {
            return;
        }
        let fault = || {
            let name = escape_bytes(name.as_bytes());
            let (side, kind, why) = match outcome {
                Outcome::Failed(Fault { side, kind, message }) => (*side, *kind, &**message),
                _ => (Side::Destination, FaultKind::Busy, "another file stands there"),
            };
            let message = format!("it is the same file as {name}, which was not copied: {why}");
            Outcome::Failed(Fault::new(side, kind, message))
        };
        let mut settled = Vec::with_capacity(waiting.len());
        for mut one in waiting {
            match &first {
                Some(first) if self.costs_round_trips => {
                    self.give(Work::Name(Box::new((first.clone(), one))));
                }
                Some(first) => {
                    let outcome = self.link(first, &mut one);
                    settled.push((one, 0, outcome));
                }
                None => settled.push((one, 0, fault())),
            }
        }
        work::tell(self, settled);
    }

    /// The difference of an entry of several names whose name leads to the object `there`,
    /// if it is not what its first name leads to. Where that can't be told, nothing is found
    /// to differ, but that further names are not proven to be one file where they are to be
    /// removed.
    pub(super) fn compare_object(&self, entry: &Entry, there: Option<FileId>) -> Changes {
        let needs_proof = self.removes() && self.task.keeps().has(Kept::LINKS);
        if entry.links == 0 || there.is_none() && !needs_proof {
            return Changes::default();
        }
        let mut objects = lock(&self.groups.objects);
        let is_full = objects.len() >= LINK_GROUPS_MAX;
        match objects.entry(entry.links) {
            // The Sender keeps to the bound.
            hash_map::Entry::Vacant(_) if is_full => Changes::LINKED.only_if(needs_proof),
            hash_map::Entry::Vacant(group) => {
                group.insert(there);
                Changes::default()
            }
            hash_map::Entry::Occupied(first) => {
                Changes::LINKED.only_if(there.is_none() || *first.get() != there)
            }
        }
    }

    /// The name that has come about by `outcome`. One may be the same as in a base, and not
    /// be there.
    fn first(&self, dir: Arc<RecvDir>, name: Name, outcome: &Outcome) -> Option<First> {
        let is_replaced = match outcome {
            Outcome::Skipped(_) => false,
            Outcome::Synced(found) => found.has_any(Changes::SENT.with(Changes::MISSING)),
            _ => true,
        };
        let DirState::Open(node) = &dir.state else {
            return Some(First { dir, name, id: None, place: None });
        };
        let handle = node.handle().ok()?;
        // In a dry run it is another one then.
        if self.policy.dry_run && is_replaced || !handle.tells_objects() {
            return Some(First { dir, name, id: None, place: None });
        }
        let place = if is_replaced { self.waits(&dir, &name) } else { None };
        let id = match &place {
            Some(place) => Some(place.id),
            None => handle.stat(&name, false).ok()??.id,
        };
        Some(First { dir, name, id, place })
    }

    /// Links an entry to the first name of its file, by round trips.
    pub(super) fn take_other_name(&self, first: &First, mut one: Pending) {
        if self.control.stopped() {
            return;
        }
        let outcome = self.link(first, &mut one);
        work::tell(self, vec![(one, 0, outcome)]);
    }

    /// Makes an entry a further name of `first`, if it is none yet.
    fn link(&self, first: &First, one: &mut Pending) -> Outcome {
        let Pending { dir, name, entry, .. } = one;
        let tells_objects = match &dir.state {
            DirState::Open(node) => node.handle().is_ok_and(|handle| handle.tells_objects()),
            _ => true,
        };
        let left = Outcome::Skipped(Skip::Unchanged);
        // Where no objects can be told, what is unchanged is taken for it.
        let (decision, found) = self.decide_about(dir, name, entry, !tells_objects);
        let decision = self.cleared(dir, name, decision, found);
        let on_existing = match decision {
            Decision::Copy(on_existing) | Decision::Linked(_, on_existing) => on_existing,
            Decision::Based(_) => OnExisting::Keep,
            Decision::Hash => OnExisting::Replace,
            Decision::HashBases(_, otherwise) => match *otherwise {
                Decision::Copy(on_existing) => on_existing,
                _ => OnExisting::Replace,
            },
            Decision::Settled(Outcome::WouldCopy) => return first.linked(found),
            Decision::Settled(outcome) if outcome == left && tells_objects => OnExisting::Replace,
            Decision::Settled(outcome) => return self.as_synced(outcome, found),
        };
        if self.policy.dry_run && !matches!(dir.state, DirState::Open(_)) {
            // A base has it, and its directory would be made.
            return first.linked(found);
        }
        let linked = self.link_to(first, dir, name, entry, on_existing);
        match linked {
            Ok(Linked::Before) if self.task.mirrors().is_some() => {
                Outcome::Linked { found: Changes::default(), first: Box::default() }
            }
            Ok(Linked::Before) => left,
            Ok(Linked::Now(Outcome::Copied)) => first.linked(found),
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
        let action = "link it to another name of the same file";
        let failed = |error: io::Error| Fault::from_io(Side::Destination, action, &error);
        let (DirState::Open(node), first_dir) = (&dir.state, &first.dir.state) else {
            return Err(parent_fault());
        };
        let handle = node.handle().map_err(failed)?;
        if let Some(id) = first.id {
            let there = handle.stat(name, false).map_err(failed)?;
            if handle.tells_objects() && there.is_some_and(|there| there.id == Some(id)) {
                return Ok(Linked::Before);
            }
        }
        if self.policy.dry_run {
            return Ok(Linked::Now(Outcome::Copied));
        }
        let DirState::Open(first_dir) = first_dir else { return Err(parent_fault()) };
        dir.expect_change();
        if let Some(place) = first.place
            && self.wait_with((place, &first.name), dir, name, on_existing).map_err(failed)?
        {
            return Ok(Linked::Now(Outcome::Copied));
        }
        self.make_way(dir, name, on_existing)?;
        let from = first_dir.handle().map_err(failed)?;
        let named = self.give_name(action, dir, name, entry, on_existing, |how| {
            handle.make_hard_link(&*from, &first.name, first.id, name, how)
        });
        if let (Some(claims), Some(id)) = (dir.claims(), first.id) {
            claims.find(id, &*handle);
        }
        match named? {
            Some(outcome) => {
                dir.remove_stale(name);
                Ok(Linked::Now(outcome))
            }
            None => Err(naming::another()),
        }
    }
}

/// A name that leads to the first one's file.
enum Linked {
    /// It did so before.
    Before,
    /// It does now, or the outcome says why not.
    Now(Outcome),
}

impl First {
    /// The outcome of a name that was linked to it, where something differed by `found`.
    fn linked(&self, found: Changes) -> Outcome {
        let first = words::shown(self.dir.path_of(Some(&self.name))).into();
        Outcome::Linked { found: found.without(Changes::SENT), first }
    }
}
