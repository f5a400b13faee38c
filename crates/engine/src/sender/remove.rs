//! The end of a move: removes sources that the destination has. A source that changed since it was
//! listed is kept.

use super::empty_dirs::{Twins, remove_empty};
use super::linked::Removable;
use super::{Item, Sender, linked};
use crate::control::CANCEL_POLL;
use crate::control::Control;
use crate::dirs::DirNode;
use crate::link::ReceiverPort;
use crate::link::{Proof, may_be_same_object};
use crate::parked::Parked;
use crate::sender::linked::Linked;
use crate::{Event, Job};
use crossbeam_channel::RecvTimeoutError;
use haul_model::{Fault, FaultKind, FileId, Filter, Kind, Name, Outcome, Side, Summary, words};
use haul_plan::Plan;
use haul_proto::{Proven, Removal};
use haul_tree::{Meta, Tree, TreeDir};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;

/// A message for the threads that remove the sources. The thread that sends it never waits, while
/// removals and reports may.
pub(crate) enum RemoverMessage {
    /// An outcome. The entry stays in the window until it is processed.
    Outcome(Box<Item>, Outcome),
    /// Proofs that the destination still has sources that were set aside.
    Proven(Vec<Proven>),
    /// All entries have their outcome.
    Done(Summary),
}

/// The decision about a source, made from its outcome.
pub(super) enum Verdict {
    /// The source stays, as expected.
    Stays,
    /// The source stays, and this is reported.
    Reported(Removal),
    /// The source waits for the other names of its file.
    Waits,
    /// The source is removed, if its proof holds. Only roles on one machine have a proof here.
    Remove(Option<Proof>),
    /// All names of the file are removed.
    RemoveAll(Vec<Removable>),
}

/// Removes sources according to `messages`. Used when the sources are remote and the user is on
/// this side. Each removal waits for the host, so several threads run this.
pub(crate) fn run_removers(
    sender: &Sender<'_>,
    messages: &crossbeam_channel::Receiver<RemoverMessage>,
) {
    loop {
        let next = match messages.recv_timeout(CANCEL_POLL) {
            Ok(next) => next,
            Err(RecvTimeoutError::Timeout) if !sender.control.stopped() => continue,
            Err(_) => return,
        };
        if sender.control.stopped() {
            return;
        }
        if let RemoverMessage::Outcome(item, outcome) = next {
            sender.removing.remove_source(&item, &outcome);
            sender.ledger.release_cost(item.cost);
        }
    }
}

/// The removal of the sources of a job, if it is a move.
pub(crate) struct Removing<'a> {
    control: &'a Control<'a>,
    receiver: Arc<dyn ReceiverPort + 'a>,
    plan: Plan,
    filter: Filter,
    /// Files to be removed that have other names.
    linked: Mutex<Linked>,
    /// Some directories are missing at the destination.
    pub(super) has_missing_dirs: AtomicBool,
    /// Over a wire: all removals are done, and the Receiver is about to be informed.
    pub(super) has_removed_all: AtomicBool,
    /// Sources for which a proof was requested and not received yet. Bounded by the number of
    /// sources that are set aside.
    pub(super) requested: Mutex<HashSet<u64>>,
    /// The objects of source directories, by path.
    walked: Mutex<HashMap<Vec<u8>, Option<FileId>>>,
}

impl<'a> Removing<'a> {
    /// The removal of the sources of `job`, if it removes any.
    pub(super) fn of(
        job: &Job,
        plan: &Plan,
        control: &'a Control<'a>,
        receiver: Arc<dyn ReceiverPort + 'a>,
    ) -> Self {
        Self {
            control,
            receiver,
            plan: plan.clone(),
            filter: job.filter.clone(),
            linked: Mutex::new(Linked::of(job)),
            has_missing_dirs: AtomicBool::new(false),
            has_removed_all: AtomicBool::new(false),
            requested: Mutex::default(),
            walked: Mutex::default(),
        }
    }
}

impl Removing<'_> {
    /// True if this outcome allows the removal of the file or link. Directories are excluded.
    pub(super) fn may_remove(&self, item: &Item, outcome: &Outcome) -> bool {
        item.kind != Kind::Dir && self.plan.removes.is_some_and(|rule| rule.allows(outcome))
    }

    /// Decides about an entry with this outcome. A file with content must have been hashed.
    /// Directories stay: they are removed at the end, when they are empty.
    pub(super) fn decide(&self, item: &Item, outcome: &Outcome) -> Verdict {
        let proof = self.receiver.proof(item.index);
        let is_proven = item.hashed || !matches!(item.kind, Kind::File { size: 1.. });
        if !is_proven || !self.may_remove(item, outcome) {
            if let Some((id, _)) = self.other_names(item) {
                self.linked.lock().keep(id);
            }
            return Verdict::Stays;
        }
        let Some((id, links)) = self.other_names(item) else { return Verdict::Remove(proof) };
        match self.linked.lock().add(id, links, (item.clone(), proof)) {
            Ok(None) => Verdict::Waits,
            Ok(Some(all)) => Verdict::RemoveAll(all),
            Err(fault) => linked::told(item, Err(fault)).map_or(Verdict::Stays, Verdict::Reported),
        }
    }

    /// Removes a file or link whose outcome allows it, and reports the result to the user on this
    /// side.
    pub(super) fn remove_source(&self, item: &Item, outcome: &Outcome) {
        let report = |removal| self.report_removal(removal);
        let remove = |item: &Item, proof| {
            let result = remove_file(item, proof);
            // An error at the end of the job is not the file's fault.
            if result.is_ok() || !self.control.stopped() {
                linked::told(item, result).into_iter().for_each(report);
            }
        };
        match self.decide(item, outcome) {
            Verdict::Stays | Verdict::Waits => {}
            Verdict::Reported(removal) => report(removal),
            Verdict::Remove(proof) => remove(item, proof),
            Verdict::RemoveAll(all) => {
                all.into_iter().for_each(|(item, proof)| remove(&item, proof))
            }
        }
    }

    /// The object of a source and its number of names, if it has several and a move must not lose
    /// anything.
    fn other_names(&self, item: &Item) -> Option<(FileId, u64)> {
        if !self.plan.lossless || item.kind == Kind::Dir {
            return None;
        }
        let (dir, name) = (item.dir.as_ref()?.handle().ok()?, item.name.as_ref()?);
        let meta = dir.stat(name, false).ok()??;
        Some((meta.id?, meta.links)).filter(|_| meta.links != 1)
    }

    /// Records that the source at `path` is the directory `node`, which will be listed.
    pub(super) fn record_walked(&self, path: &[u8], node: &DirNode) {
        if self.plan.removes.is_some() && !self.plan.is_mirror {
            self.walked.lock().insert(path.to_vec(), node.id());
        }
    }

    /// Removes the files that waited for their other names. Then, except in a mirror, removes the
    /// empty directories at and below `sources` that the destination has. On one machine, `twins`
    /// are their copies. Reports each source that stays.
    pub(crate) fn remove_dirs(
        &self,
        tree: &dyn Tree,
        sources: &[Vec<u8>],
        twins: Option<&Twins>,
        report: &mut dyn FnMut(Removal),
    ) {
        if self.plan.removes.is_none() {
            return;
        }
        for (item, proof) in self.take_linked(report) {
            let removed = remove_file(&item, proof);
            linked::told(&item, removed).into_iter().for_each(&mut *report);
        }
        if self.has_missing_dirs.load(Ordering::Relaxed) || self.plan.is_mirror {
            return;
        }
        for source in sources {
            if self.control.monitor().cancelled() {
                return;
            }
            let Some(&walked) = self.walked.lock().get(source) else { continue };
            let twin = twins.map_or(Ok(None), |twins| twins.of(source));
            let removed =
                twin.and_then(|twin| remove_empty(tree, source, walked, twin, &self.filter));
            let fault = match removed {
                Ok(true) => continue,
                Ok(false) => {
                    let message = "not removed: it has entries that were not moved";
                    Fault::new(Side::Source, FaultKind::Changed, message)
                }
                Err(fault) => fault.clipped(),
            };
            let path = words::shown(words::without_dot(source).to_vec());
            report(Removal::Source { path, kind: Kind::Dir, result: Err(fault) });
        }
    }

    /// The sources that waited for other names and are now removed. Reports the others.
    pub(super) fn take_linked(&self, report: &mut dyn FnMut(Removal)) -> Vec<Removable> {
        self.linked.lock().take_removable(report)
    }

    /// Reports a removal to the user on this side.
    pub(crate) fn report_removal(&self, removal: Removal) {
        if let Removal::Source { path, kind, result } = removal {
            let (result, monitor) = (result.as_ref().copied(), self.control.monitor());
            monitor.progress().report_log.removed(&path);
            monitor.event(Event::Removed { path: &path, kind: &kind, result });
        }
    }
}

/// Removes a file or link if it is unchanged since the listing and its proof, if any, holds.
fn remove_file(item: &Item, proof: Option<Proof>) -> Result<(), Fault> {
    let Some(proof) = proof else {
        let (dir, name) = place_of(item)?;
        return dir.remove_file(name).map_err(failed);
    };
    let parked = set_aside(item)?;
    let held = proof.holds(parked.name());
    end_aside(item, parked, held)
}

/// The directory of a file or link, if the entry is unchanged since the listing.
fn place_of(item: &Item) -> Result<(Arc<dyn TreeDir>, &Name), Fault> {
    let (Some(dir), Some(name)) = (&item.dir, &item.name) else { return Err(changed()) };
    if dir.is_via_link().map_err(failed)? {
        let message = "not removed: a symbolic link points to it";
        return Err(Fault::new(Side::Source, FaultKind::Link, message));
    }
    let dir = dir.handle().map_err(failed)?;
    check_unchanged(item, &*dir, name, false)?;
    Ok((dir, name))
}

/// Sets a file or link aside, if it is unchanged since the listing.
pub(super) fn set_aside(item: &Item) -> Result<Parked, Fault> {
    let (dir, name) = place_of(item)?;
    let parked = Parked::set(&*dir, name).map_err(failed)?;
    match check_unchanged(item, &*dir, parked.name(), true) {
        Ok(()) => Ok(parked),
        Err(fault) => Err(parked.restore_name(&*dir).err().unwrap_or(fault)),
    }
}

/// Removes a source that was set aside, or restores its name if it must stay.
pub(super) fn end_aside(item: &Item, parked: Parked, held: Result<(), Fault>) -> Result<(), Fault> {
    let dir = item.dir.as_ref().ok_or_else(changed)?;
    let dir = dir.handle().map_err(|error| parked.name_not_restored(&error))?;
    let remove = || match dir.remove_file(parked.name()) {
        // Another move has taken it for a leftover and restored its name.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(changed()),
        removed => removed.map_err(failed),
    };
    // A process that has the file open may have written to it meanwhile.
    let held = held.and_then(|()| check_unchanged(item, &*dir, parked.name(), true));
    let removed = held.and_then(|()| remove());
    removed.map_err(|fault| parked.restore_name(&*dir).err().unwrap_or(fault))
}

/// Fails if the source has changed since the listing.
fn check_unchanged(
    item: &Item,
    dir: &dyn TreeDir,
    name: &Name,
    is_aside: bool,
) -> Result<(), Fault> {
    match is_unchanged(item, dir, name, is_aside).map_err(failed)? {
        true => Ok(()),
        false => Err(changed()),
    }
}

/// True if the source is unchanged: the same object, size and mtime. For a tree without object
/// numbers, the link target is compared. An entry that is set aside may have got another number.
fn is_unchanged(item: &Item, dir: &dyn TreeDir, name: &Name, is_aside: bool) -> io::Result<bool> {
    // A followed link is itself removed, if it still leads to the listed object.
    let Some(now) = dir.stat(name, item.follow)? else { return Ok(false) };
    let Meta { ref attributes, id, .. } = now;
    let is_same_kind = match (&item.kind, now.listed_kind(|| Ok(Vec::new()))?) {
        (Kind::Symlink { target }, Kind::Symlink { .. }) => {
            dir.capabilities().has_object_ids || dir.read_link(name)? == **target
        }
        (listed, now) => *listed == now,
    };
    let is_same = item.listed.id.is_some()
        && (item.listed.id == id || is_aside && may_be_same_object(dir, item.listed.id, id));
    Ok(is_same_kind && is_same && item.listed.mtime == Some(attributes.mtime))
}

fn changed() -> Fault {
    let message = "not removed: it changed after it was copied";
    Fault::new(Side::Source, FaultKind::Changed, message)
}

fn failed(error: io::Error) -> Fault {
    Fault::from_io(Side::Source, "remove it", &error)
}
