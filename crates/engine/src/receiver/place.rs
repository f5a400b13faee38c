//! Acts at an entry's place in the destination as soon as it is listed:
//! files are decided about, directories and links are made.

use super::compare::{self, Decision};
use super::dirs::{DirState, RecvDir};
use super::hold::may_not_be_opened;
use super::own::{self, is_own};
use super::work::{self, Making, Work};
use super::{Pending, Receiver, naming, parent_fault};
use crate::dirs::DirNode;
use haul_model::{Entry, Fault, FaultKind, Kind, Name, Outcome, Side, Skip};
use haul_proto::OutcomeItem;
use haul_store::{OnExisting, Publication};
use haul_tree::lock;
use haul_tree::{Meta, MetaKind, PRIVATE_DIR_MODE, TreeDir, in_whole_seconds};
use std::io;
use std::sync::Arc;

impl Receiver<'_> {
    /// Decides about a file or a link.
    pub(super) fn decide(&self, dir: &RecvDir, name: &Name, entry: &Entry) -> Decision {
        let node = match &dir.state {
            DirState::Open(node) => node,
            DirState::Failed => return Decision::Settled(Outcome::Failed(parent_fault())),
            DirState::Absent => return Decision::Settled(Outcome::WouldCopy),
        };
        let looked = (|| {
            let existing = if dir.fresh { None } else { self.look_at(&*node.handle()?, name)? };
            if let Some(existing) = &existing
                && !self.is_free(dir, &*node.handle()?, name, existing)?
            {
                return Ok(Decision::Settled(Outcome::Failed(naming::another())));
            }
            if is_own(entry, existing.as_ref().and_then(|existing| existing.id)) {
                return Ok(Decision::Settled(Outcome::Failed(own::same_file())));
            }
            let entry = &*self.as_kept(entry, node, existing.as_ref());
            Ok(match &entry.kind {
                Kind::Symlink { .. } => {
                    let existing_target = match &existing {
                        Some(Meta { kind: MetaKind::Symlink, .. }) => {
                            Some(node.handle()?.read_link(name)?)
                        }
                        _ => None,
                    };
                    let conflict = self.policy.conflict;
                    let there = existing_target.as_deref();
                    compare::symlink(entry, existing.as_ref(), there, conflict)
                }
                _ => {
                    let decision = compare::file(entry, existing.as_ref(), self.policy.conflict);
                    if decision == Decision::Settled(Outcome::Skipped(Skip::Unchanged)) {
                        if self.was_lost(node, name, entry, existing.as_ref())? {
                            return Ok(Decision::Copy(OnExisting::Replace));
                        }
                        let kept = self.refresh(node, name, entry, existing.as_ref());
                        if let Err(fault) = kept.and_then(|()| self.sync_unchanged(dir, node, name))
                        {
                            return Ok(Decision::Settled(Outcome::Failed(fault)));
                        }
                        if let (Some(source), false) = (self.resumable(entry), self.policy.dry_run)
                            && node.handle()?.remove_leftovers(name, &source)
                        {
                            dir.touch();
                        }
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

    /// True if a file that looks unchanged has lost content to a cut of the power. A file
    /// with holes was durable before it got its name.
    ///
    /// With `sync` each file is looked into: a medium that failed may have lost it a
    /// moment ago, and the system has told that to somebody else.
    fn was_lost(
        &self,
        node: &Arc<DirNode>,
        name: &Name,
        entry: &Entry,
        existing: Option<&Meta>,
    ) -> io::Result<bool> {
        let Some(existing) = existing.filter(|_| !entry.has_holes) else { return Ok(false) };
        let lost = node.handle()?.lacks_content(name, existing, self.policy.sync);
        match lost {
            // What may not be read is not known to have been lost.
            Err(error) if may_not_be_opened(&error) => Ok(false),
            lost => lost,
        }
    }

    /// Gives a file whose content is left as it is those attributes of the source that
    /// it lacks.
    fn refresh(
        &self,
        node: &Arc<DirNode>,
        name: &Name,
        entry: &Entry,
        existing: Option<&Meta>,
    ) -> Result<(), Fault> {
        let Some(existing) = existing else { return Ok(()) };
        let which = compare::changes(entry, existing, None).attributes();
        if which.is_empty() || self.policy.dry_run {
            return Ok(());
        }
        let set = node.handle().and_then(|handle| {
            handle.set_file_attributes(name, existing.id, &entry.attributes, which)
        });
        set.map_err(|error| Fault::from_io(Side::Destination, "set the file's mode", &error))
    }

    pub(super) fn make_symlink(
        &self,
        dir: &RecvDir,
        name: &Name,
        entry: &Entry,
        target: &[u8],
        on_existing: OnExisting,
    ) -> Outcome {
        let DirState::Open(node) = &dir.state else { return Outcome::Failed(parent_fault()) };
        let made = self.give_name("make the link", dir, name, entry, on_existing, |how| {
            let handle = node.handle()?;
            let made = handle.make_symlink(target, name, &entry.attributes, how)?;
            if made == Publication::Published
                && let Some(claims) = dir.claims()
                && let Some(Meta { id: Some(id), .. }) = handle.stat(name, false)?
            {
                claims.bring(id);
            }
            Ok(made)
        });
        match made {
            Ok(Some(outcome)) => {
                if outcome == Outcome::Copied {
                    dir.remove_stale(name);
                }
                outcome
            }
            Ok(None) => Outcome::Failed(naming::another()),
            Err(fault) => Outcome::Failed(fault),
        }
    }

    /// Makes or opens a directory, and opens it for the listing. Its outcome comes
    /// later if it is still on its way.
    pub(super) fn take_dir(
        &self,
        index: u64,
        parent: &Arc<RecvDir>,
        name: Option<Name>,
        entry: &Entry,
        cost: u64,
    ) -> Option<Outcome> {
        let into_itself = self.goes_into_itself(entry, parent.parent.is_none());
        let (outcome, state, fresh) = match (&parent.state, &name, into_itself) {
            (DirState::Failed, ..) => (Outcome::Failed(parent_fault()), DirState::Failed, false),
            (_, _, Some(fault)) => (Outcome::Failed(fault), DirState::Failed, false),
            (DirState::Absent, ..) => (Outcome::WouldCopy, DirState::Absent, false),
            (DirState::Open(node), None, None) => {
                let state = DirState::Open(Arc::clone(node));
                (Outcome::Skipped(Skip::Unchanged), state, false)
            }
            (DirState::Open(node), Some(name), None) => {
                match self.open_dir(parent, node, name, entry) {
                    Ok(opened) => opened,
                    Err(fault) => (Outcome::Failed(fault), DirState::Failed, false),
                }
            }
        };
        // What goes right into a directory that stood before leaves that one's
        // own mode and time alone.
        let attributes = (name.is_some() && matches!(state, DirState::Open(_)))
            .then(|| entry.attributes.clone());
        let shown = entry.name.clone();
        let dir = RecvDir::new(Some(Arc::clone(parent)), shown, state, fresh, attributes);
        if !self.policy.dry_run && !dir.is_searchable() {
            dir.open_up();
        }
        lock(&self.listing).open.push((index, Arc::clone(&dir)));
        let made = match &dir.state {
            DirState::Open(node) if fresh => node.handle().ok().and_then(|dir| dir.making()),
            _ => None,
        };
        if let Some(made) = made {
            dir.expect_one();
            self.give(Work::Made(dir, Making { index, cost, made }));
            return None;
        }
        Some(outcome)
    }

    /// Waits for a directory that is being made, and tells what came of it.
    pub(super) fn end_making(&self, dir: &Arc<RecvDir>, making: Making) {
        let outcome = match (making.made)() {
            Ok(()) => Outcome::Copied,
            Err(_) if self.control.stopped() => return,
            Err(error) => {
                Outcome::Failed(Fault::from_io(Side::Destination, "make the directory", &error))
            }
        };
        self.report(|| dir.path_of(None), &Kind::Dir, 0, &outcome);
        self.close(making.cost);
        self.tell_outcomes(vec![OutcomeItem { index: making.index, outcome }]);
        self.release(Arc::clone(dir));
    }

    /// Makes a symbolic link whose making takes round trips.
    pub(super) fn take_link(&self, link: Pending) {
        if self.control.stopped() {
            return;
        }
        let Kind::Symlink { target } = &link.entry.kind else { return };
        let outcome =
            self.make_symlink(&link.dir, &link.name, &link.entry, target, link.on_existing);
        work::tell(self, vec![(link, 0, outcome)]);
    }

    /// The metadata of `name` in `dir`, with its time as both sides can keep it.
    pub(super) fn look_at(&self, dir: &dyn TreeDir, name: &Name) -> io::Result<Option<Meta>> {
        Ok(dir.stat(name, false)?.map(|meta| self.in_its_seconds(meta)))
    }

    /// `meta` with its time as both sides can keep it.
    pub(super) fn in_its_seconds(&self, mut meta: Meta) -> Meta {
        if self.whole_seconds {
            meta.attributes.mtime = in_whole_seconds(meta.attributes.mtime);
        }
        meta
    }

    fn open_dir(
        &self,
        above: &RecvDir,
        parent: &Arc<DirNode>,
        name: &Name,
        entry: &Entry,
    ) -> Result<(Outcome, DirState, bool), Fault> {
        let is_root = self.rename.is_some() && above.parent.is_none();
        let fault =
            |action: &str, error: io::Error| Fault::from_io(Side::Destination, action, &error);
        let handle = parent.handle().map_err(|e| fault("open the directory above", e))?;
        // What stands there is the rule where others have been; asking first would be
        // one round trip more where each costs one.
        let found = match above.fresh || self.costs_round_trips && above.is_writable() {
            true => None,
            false => match DirNode::open(parent, name.clone(), false) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                found => Some(found),
            },
        };
        let made = if found.is_some() {
            false
        } else if self.policy.dry_run {
            match handle.stat(name, false).map_err(|e| fault("look at the destination", e))? {
                None => return Ok((Outcome::WouldCopy, DirState::Absent, false)),
                Some(_) => false,
            }
        } else {
            above.open_up();
            let made = match self.origin.as_ref().filter(|_| is_root) {
                Some(origin) => handle.make_dir_of(name, PRIVATE_DIR_MODE, origin),
                None => handle.make_dir(name, PRIVATE_DIR_MODE),
            };
            match made {
                Ok(()) => {
                    above.touch();
                    true
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
                Err(error) => return Err(fault("make the directory", error)),
            }
        };
        let opened = found.unwrap_or_else(|| DirNode::open(parent, name.clone(), false));
        let node = match opened {
            Ok(node) => {
                if let (true, true, Some(origin)) = (made, is_root, &self.origin)
                    && let Ok(handle) = node.handle()
                {
                    handle.remember_origin(origin);
                }
                node
            }
            Err(error) if FaultKind::of(&error) == FaultKind::NotDirectory => {
                return Err(in_the_way(&*handle, name));
            }
            Err(error) => return Err(fault("open the directory", error)),
        };
        if above.fresh && !made && !handle.tells_names_apart() {
            return Err(naming::another());
        }
        if (entry.id.is_some() && entry.id == node.id()) || is_own(entry, node.id()) {
            return Err(own::same_directory());
        }
        if !made && !self.is_spelled(&*handle, name).map_err(|e| fault("read the directory", e))? {
            return Err(naming::another());
        }
        if let (Some(claims), Some(id)) = (above.claims(), node.id()) {
            if made {
                claims.bring(id);
            } else if !claims.find(id, &*handle) {
                return Err(naming::another());
            }
        }
        let outcome = if made { Outcome::Copied } else { Outcome::Skipped(Skip::Unchanged) };
        Ok((outcome, DirState::Open(node), made))
    }
}

/// The fault where another entry stands in the place of a directory.
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
