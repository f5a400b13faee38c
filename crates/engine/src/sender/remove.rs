//! The end of a move: what the destination is known to have is removed from the
//! source, unless it is not what it was when it was listed.

use super::linked::{self, Linked};
use super::{Item, Sender, loss};
use crate::Event;
use crate::aside::Aside;
use crate::control::CANCEL_POLL;
use crate::dirs::DirNode;
use crate::link::wire::{OutFrame, Outbox};
use crate::link::{Proof, may_be_one};
use crate::relocate::{Twins, remove_empty};
use crossbeam_channel::RecvTimeoutError;
use haul_model::words;
use haul_model::{Fault, FaultKind, Kind, Name, Outcome, Remove, Side, Summary};
use haul_proto::{Message, Removal};
use haul_sys::Stat;
use haul_tree::lock;
use haul_tree::{Meta, Tree, TreeDir};
use std::io;
use std::sync::atomic::Ordering;

/// Removals that are told in one frame, at most: with paths as long as they are
/// told, it stays below its bound.
const REMOVALS_PER_FRAME_MAX: usize = 32;

/// What a Sender has heard that leaves it to others to remove its sources. Whoever
/// tells it never waits, and removing, or telling what was removed, may have to.
pub(crate) enum Heard {
    /// What became of an entry, which is in the window until it was dealt with.
    Outcome(Item, Outcome),
    /// All have their outcome.
    Done(Summary),
}

/// Removes what may be removed by what was `heard`, and tells it to the peer.
pub(crate) fn run_remover(
    sender: &Sender<'_>,
    heard: &crossbeam_channel::Receiver<Heard>,
    tree: &dyn Tree,
    sources: &[Vec<u8>],
    outbox: &Outbox,
) {
    let mut told = Vec::new();
    loop {
        // What was removed is told as soon as there is nothing more to remove.
        let next = match heard.try_recv() {
            Ok(next) => next,
            Err(_) => {
                tell(outbox, &mut told);
                match heard.recv() {
                    Ok(next) => next,
                    Err(_) => return,
                }
            }
        };
        if sender.control.stopped() {
            return;
        }
        match next {
            Heard::Outcome(item, outcome) => {
                told.extend(sender.remove_source(&item, &outcome));
                sender.make_room(item.cost);
            }
            Heard::Done(summary) => {
                sender.remove_dirs(tree, sources, None, &mut |removal| {
                    told.push(removal);
                    tell(outbox, &mut told);
                });
                told.push(Removal::End);
                tell(outbox, &mut told);
                sender.control.finish(Ok(summary));
                return;
            }
        }
        if told.len() >= REMOVALS_PER_FRAME_MAX {
            tell(outbox, &mut told);
        }
    }
}

/// The same where the user is on this side and the sources are far away: each
/// removal waits for the host, so several threads do this at the same time.
pub(crate) fn run_removers(sender: &Sender<'_>, heard: &crossbeam_channel::Receiver<Heard>) {
    loop {
        let next = match heard.recv_timeout(CANCEL_POLL) {
            Ok(next) => next,
            Err(RecvTimeoutError::Timeout) if !sender.control.stopped() => continue,
            Err(_) => return,
        };
        if sender.control.stopped() {
            return;
        }
        if let Heard::Outcome(item, outcome) = next {
            if let Some(removal) = sender.remove_source(&item, &outcome) {
                sender.tell_removal(removal);
            }
            sender.make_room(item.cost);
        }
    }
}

fn tell(outbox: &Outbox, told: &mut Vec<Removal>) {
    if !told.is_empty() {
        let removed = Message::Removed(std::mem::take(told));
        // It is gone only when the job has ended.
        let _ = outbox.send(OutFrame::message(&removed));
    }
}

impl Sender<'_> {
    /// Which outcomes have a source removed, if any have.
    pub(super) fn rule(&self) -> Option<Remove> {
        self.check.filter(|check| check.content)?.remove
    }

    /// Removes a file or link whose outcome allows it, and tells what came of it.
    /// Directories are left: they are removed when all in them is gone.
    pub(super) fn remove_source(&self, item: &Item, outcome: &Outcome) -> Option<Removal> {
        let proof = self.receiver.proof(item.index);
        // Of a file with content, the hash was asked for and told.
        let is_proven = item.wanted || !matches!(item.kind, Kind::File { size: 1.. });
        if item.kind == Kind::Dir || !is_proven || !self.rule()?.allows(outcome) {
            return None;
        }
        if let Some(stat) = self.stat_of_whole(item) {
            if let Some(fault) = loss::other_owner(&stat, proof.as_ref()) {
                return linked::told(item, Err(fault));
            }
            if stat.links > 1 {
                return lock(&self.linked).add(stat.id, item, proof);
            }
        }
        let result = remove_file(item, proof);
        if result.is_err() && self.control.stopped() {
            // The job ends; that is no fault of the file.
            return None;
        }
        linked::told(item, result)
    }

    /// What the system tells of it, if it is here and must not lose anything.
    fn stat_of_whole(&self, item: &Item) -> Option<Stat> {
        self.keeps_whole_for()?;
        let (dir, name) = (item.dir.as_ref()?.handle().ok()?, item.name.as_ref()?);
        dir.local()?.stat(name).ok()
    }

    /// The source at `path` is the directory `node`, and will be listed.
    pub(super) fn walks(&self, path: &[u8], node: &DirNode) {
        if self.removes() {
            lock(&self.walked).insert(path.to_vec(), node.id());
        }
    }

    /// Removes the files that have waited, then the directories that `sources` are and those below them, as far as
    /// they are empty, if the destination has all of them: those of `twins`, where
    /// both are on this machine. Tells of each source that stays.
    pub(crate) fn remove_dirs(
        &self,
        tree: &dyn Tree,
        sources: &[Vec<u8>],
        twins: Option<&Twins>,
        tell: &mut dyn FnMut(Removal),
    ) {
        if self.rule().is_none() {
            return;
        }
        Linked::remove_all(&self.linked, tell);
        if self.keeps_dirs.load(Ordering::Relaxed) {
            return;
        }
        for source in sources {
            if self.control.monitor().cancelled() {
                return;
            }
            let Some(&walked) = lock(&self.walked).get(source) else { continue };
            let twin = twins.map_or(Ok(None), |twins| twins.of(source));
            let fault = match twin.and_then(|twin| remove_empty(tree, source, walked, twin)) {
                Ok(true) => continue,
                Ok(false) => {
                    let message = "something is in it that was not moved; it stays";
                    Fault::new(Side::Source, FaultKind::Changed, message)
                }
                Err(fault) => fault.clipped(),
            };
            let path = words::shown(words::without_dot(source).to_vec());
            tell(Removal::Source { path, kind: Kind::Dir, result: Err(fault) });
        }
    }

    /// Tells the user, who is on this side.
    pub(crate) fn tell_removal(&self, removal: Removal) {
        if let Removal::Source { path, kind, result } = removal {
            let result = result.as_ref().copied();
            self.control.monitor().event(Event::Removed { path: &path, kind: &kind, result });
        }
    }

    /// An entry was dealt with: another can be listed.
    fn make_room(&self, cost: u64) {
        lock(&self.in_flight).cost -= cost;
        self.room.notify_all();
    }
}

/// Whether the destination has a directory, though perhaps with another mode.
pub(super) fn is_there(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Skipped(_) => true,
        Outcome::Differs(found) => found.is_minor(),
        _ => false,
    }
}

/// Removes a file or link if it is what was listed, and if the proof holds where there
/// is one.
pub(super) fn remove_file(item: &Item, proof: Option<Proof>) -> Result<(), Fault> {
    let (Some(dir), Some(name)) = (&item.dir, &item.name) else { return Err(changed()) };
    let dir = &*dir.handle().map_err(|error| failed(&error))?;
    if !is_still(item, dir, name, false).map_err(|error| failed(&error))? {
        return Err(changed());
    }
    let Some(proof) = proof else {
        return dir.remove_file(name).map_err(|error| failed(&error));
    };
    let aside = Aside::set(dir, name).map_err(|error| failed(&error))?;
    let remove = || match dir.remove_file(aside.name()) {
        // Another move has taken it for a leftover, and put it back.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(changed()),
        removed => removed.map_err(|error| failed(&error)),
    };
    let removed = match is_still(item, dir, aside.name(), true) {
        Ok(true) => proof.holds(name, aside.name()).and_then(|()| remove()),
        Ok(false) => Err(changed()),
        Err(error) => Err(failed(&error)),
    };
    removed.map_err(|fault| aside.put_back().err().unwrap_or(fault))
}

/// Whether the source is what was listed: the same object, size and time. A host
/// that knows no objects is asked where a link points. Under another name than that
/// it may have got another number.
fn is_still(item: &Item, dir: &dyn TreeDir, name: &Name, is_aside: bool) -> io::Result<bool> {
    let Some(now) = dir.stat(name, false)? else { return Ok(false) };
    let Meta { mtime, id, .. } = now;
    let is_same_kind = match (&item.kind, now.listed_kind(|| Ok(Vec::new()))?) {
        (Kind::Symlink { target }, Kind::Symlink { .. }) => {
            dir.remote().is_none() || dir.read_link(name)? == **target
        }
        (listed, now) => *listed == now,
    };
    let is_same = item.id.is_some() && (item.id == id || is_aside && may_be_one(dir, item.id, id));
    Ok(is_same_kind && is_same && item.mtime == Some(mtime))
}

fn changed() -> Fault {
    let message = "it changed after it was copied, and stays";
    Fault::new(Side::Source, FaultKind::Changed, message)
}

fn failed(error: &io::Error) -> Fault {
    Fault::from_io(Side::Source, "remove it", error)
}
