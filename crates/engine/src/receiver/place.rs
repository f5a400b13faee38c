//! Acts at an entry's place in the destination as soon as it is listed:
//! files are decided about, directories and links are made.

use super::compare::{self, Decision, Rules};
use super::dirs::{DirState, RecvDir};
use super::hold::may_not_be_opened;
use super::own::{self, is_own};
use super::work::{self, Making, Work};
use super::{Pending, Receiver, naming, parent_fault};
use crate::dirs::DirNode;
use haul_model::{Changes, Entry, Fault, FaultKind, Kept, Kind, Name, Outcome, Side, Skip};
use haul_proto::OutcomeItem;
use haul_store::{OnExisting, Publication};
use haul_tree::lock;
use haul_tree::{Meta, MetaKind, PRIVATE_DIR_MODE, TreeDir, in_whole_seconds};
use std::io;
use std::sync::Arc;

impl Receiver<'_> {
    /// Decides about a file or a link. In a mirror, gives also how what stands in its place
    /// differs.
    pub(super) fn decide(&self, dir: &RecvDir, name: &Name, entry: &Entry) -> (Decision, Changes) {
        let settled = |outcome, found| (Decision::Settled(outcome), found);
        let node = match &dir.state {
            DirState::Open(node) => node,
            DirState::Failed => {
                return settled(Outcome::Failed(parent_fault()), Changes::default());
            }
            DirState::Absent => {
                return settled(Outcome::WouldCopy, Changes::MISSING.with(Changes::SENT));
            }
            DirState::Ruled => return settled(Outcome::Skipped(Skip::Ruled), Changes::default()),
        };
        let looked = (|| {
            let existing = if dir.fresh { None } else { self.look_at(&*node.handle()?, name)? };
            if let Some(existing) = &existing
                && !self.is_free(dir, &*node.handle()?, name, existing)?
            {
                return Ok(settled(Outcome::Failed(naming::another()), Changes::default()));
            }
            if is_own(entry, existing.as_ref().and_then(|existing| existing.id)) {
                return Ok(settled(Outcome::Failed(own::same_file()), Changes::default()));
            }
            let entry = &*self.as_kept(entry, node, existing.as_ref());
            if let Some(mirror) = self.task.mirrors() {
                let (decision, found) =
                    self.decide_mirrored(mirror, node, name, entry, existing.as_ref())?;
                let left = Decision::Settled(Outcome::Skipped(Skip::Unchanged));
                return Ok(match decision == left {
                    true => (self.leave(dir, node, name, entry, existing.as_ref(), found)?, found),
                    false => (decision, found),
                });
            }
            let decision = match &entry.kind {
                Kind::Symlink { .. } => {
                    let existing_target = match &existing {
                        Some(Meta { kind: MetaKind::Symlink, .. }) => {
                            Some(node.handle()?.read_link(name)?)
                        }
                        _ => None,
                    };
                    let rules = Rules { conflict: self.policy.conflict, keeps: self.policy.keeps };
                    let there = existing_target.as_deref();
                    compare::symlink(entry, existing.as_ref(), there, rules)
                }
                Kind::Special => {
                    let rules = Rules { conflict: self.policy.conflict, keeps: self.policy.keeps };
                    compare::special(entry, existing.as_ref(), rules)
                }
                _ => {
                    let decision = compare::file(entry, existing.as_ref(), self.policy.conflict);
                    if decision != Decision::Settled(Outcome::Skipped(Skip::Unchanged)) {
                        self.keep(dir, node, name, existing.as_ref(), decision)
                    } else if self.was_lost(node, name, entry, existing.as_ref())? {
                        Decision::Copy(OnExisting::Replace)
                    } else {
                        let there = existing.as_ref();
                        self.leave(dir, node, name, entry, there, Changes::default())?
                    }
                }
            };
            Ok((decision, Changes::default()))
        })();
        looked.unwrap_or_else(|error: io::Error| {
            let fault = Fault::from_io(Side::Destination, "look at the destination", &error);
            settled(Outcome::Failed(fault), Changes::default())
        })
    }

    /// The decision about a file, but for a failure to make durable what is kept: a move
    /// may find that it is the same, and remove its source.
    fn keep(
        &self,
        dir: &RecvDir,
        node: &Arc<DirNode>,
        name: &Name,
        existing: Option<&Meta>,
        decision: Decision,
    ) -> Decision {
        let is_file = existing.is_some_and(|meta| matches!(meta.kind, MetaKind::File { .. }));
        let is_kept = matches!(decision, Decision::Settled(Outcome::Skipped(_)));
        if !(self.policy.moving.is_some() && is_file && is_kept) {
            return decision;
        }
        match self.sync_left(dir, node, name) {
            Ok(()) => decision,
            Err(fault) => Decision::Settled(Outcome::Failed(fault)),
        }
    }

    /// Leaves the content of a file, or a link, as it is: gives it the attributes of the
    /// source that it lacks, and ends what an earlier job has begun.
    fn leave(
        &self,
        dir: &RecvDir,
        node: &Arc<DirNode>,
        name: &Name,
        entry: &Entry,
        existing: Option<&Meta>,
        found: Changes,
    ) -> io::Result<Decision> {
        let left = self.left_or_adjusted(found);
        if !matches!(entry.kind, Kind::File { .. }) {
            return Ok(Decision::Settled(left));
        }
        let kept = self.refresh(node, name, entry, existing);
        if let Err(fault) = kept.and_then(|()| self.sync_left(dir, node, name)) {
            return Ok(Decision::Settled(Outcome::Failed(fault)));
        }
        if let (Some(source), false) = (self.resumable(entry), self.policy.dry_run)
            && node.handle()?.remove_leftovers(name, &source)
        {
            dir.touch();
        }
        Ok(Decision::Settled(left))
    }

    /// True if a file that looks unchanged has lost content to a cut of the power. A file
    /// with holes was durable before it got its name.
    ///
    /// With `sync` each file is looked into: a medium that failed may have lost it a
    /// moment ago, and the system has told that to somebody else.
    pub(super) fn was_lost(
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
        let keeps = self.policy.keeps;
        let which = compare::changes(entry, existing, None, keeps).attributes(keeps);
        if which.is_empty() || self.policy.dry_run {
            return Ok(());
        }
        let set = node.handle().and_then(|handle| {
            handle.set_file_attributes(name, existing.id, &entry.attributes, which)
        });
        set.map_err(|error| Fault::from_io(Side::Destination, "set the file's attributes", &error))
    }

    /// True if the job makes such an entry anew, and does not pass it over.
    pub(super) fn makes(&self, entry: &Entry) -> bool {
        entry.special.is_some_and(|special| self.policy.keeps.has(special.kept()))
    }

    /// Makes a link, FIFO, socket or device.
    pub(super) fn make(
        &self,
        dir: &RecvDir,
        name: &Name,
        entry: &Entry,
        on_existing: OnExisting,
    ) -> Outcome {
        let DirState::Open(node) = &dir.state else { return Outcome::Failed(parent_fault()) };
        if let Err(fault) = self.make_way(dir, name, on_existing) {
            return Outcome::Failed(fault);
        }
        let action = match entry.kind {
            Kind::Symlink { .. } => "make the link",
            _ => "make the FIFO, socket or device",
        };
        let (attributes, keeps) = (&entry.attributes, self.policy.keeps);
        let made = self.give_name(action, dir, name, entry, on_existing, |how| {
            let handle = node.handle()?;
            let made = match (&entry.kind, entry.special) {
                (Kind::Symlink { target }, _) => {
                    handle.make_symlink(target, name, attributes, keeps, how)?
                }
                (_, Some(special)) => handle.make_special(special, name, attributes, keeps, how)?,
                (_, None) => return Err(io::ErrorKind::Unsupported.into()),
            };
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
            (DirState::Ruled, ..) => (Outcome::Skipped(Skip::Ruled), DirState::Ruled, false),
            (DirState::Open(node), None, None) => {
                let state = DirState::Open(Arc::clone(node));
                let made = self.is_made && self.task.mirrors().is_some();
                let outcome =
                    if made { Outcome::Copied } else { Outcome::Skipped(Skip::Unchanged) };
                (outcome, state, false)
            }
            (DirState::Open(node), Some(name), None) => {
                match self.open_dir(parent, node, name, entry) {
                    Ok(opened) => opened,
                    Err(fault) => (Outcome::Failed(fault), DirState::Failed, false),
                }
            }
        };
        let outcome = self.dir_outcome(entry, &state, outcome);
        // What goes right into a directory that stood before leaves that one's
        // own mode and time alone, unless that is to be a mirror.
        let is_to_be_same = name.is_some() || self.task.mirrors().is_some();
        let is_open = is_to_be_same && matches!(state, DirState::Open(_));
        let attributes = if is_open { self.sealed_with(entry) } else { None };
        let shown = entry.name.clone();
        let dir = RecvDir::new(Some(Arc::clone(parent)), shown, state, fresh, attributes);
        if !self.policy.dry_run && !dir.is_searchable() {
            dir.open_up();
        }
        self.expect_extras(&dir);
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
            Ok(()) => self.as_synced(Outcome::Copied, Changes::MISSING),
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
        let outcome = self.make(&link.dir, &link.name, &link.entry, link.on_existing);
        work::tell(self, vec![(link, 0, outcome)]);
    }

    /// The metadata of `name` in `dir`, with its time as both sides can keep it.
    pub(super) fn look_at(&self, dir: &dyn TreeDir, name: &Name) -> io::Result<Option<Meta>> {
        let Some(meta) = dir.stat(name, false)? else { return Ok(None) };
        self.with_extended(dir, Some(name), self.in_its_seconds(meta)).map(Some)
    }

    /// `meta` of `name` in `dir`, or of `dir` itself, with the attributes that few entries
    /// have, if they are kept.
    pub(super) fn with_extended(
        &self,
        dir: &dyn TreeDir,
        name: Option<&Name>,
        mut meta: Meta,
    ) -> io::Result<Meta> {
        let keeps = self.policy.keeps;
        let has_them = matches!(meta.kind, MetaKind::File { .. } | MetaKind::Dir);
        if has_them && keeps.has_any(Kept::EXTENDED) {
            meta.attributes.extended = dir.extended(name.map(|name| (name, false)), keeps)?;
        }
        Ok(meta)
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
        let fault =
            |action: &str, error: io::Error| Fault::from_io(Side::Destination, action, &error);
        let handle = parent.handle().map_err(|e| fault("open the directory above", e))?;
        let (made, opened) = match self.find_or_make_dir(above, parent, &*handle, name)? {
            Place::Found(opened) => (false, opened),
            Place::Made(opened) => (true, opened),
            Place::Absent => return Ok((Outcome::WouldCopy, DirState::Absent, false)),
            Place::Ruled => return Ok((Outcome::Skipped(Skip::Ruled), DirState::Ruled, false)),
        };
        let node = match opened {
            Ok(node) => {
                if let (true, true, Some(origin)) = (made, self.becomes_dest(above), &self.origin)
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

    /// True if a directory in `above` becomes the destination itself.
    fn becomes_dest(&self, above: &RecvDir) -> bool {
        self.rename.is_some() && above.parent.is_none()
    }

    /// Opens the directory `name`, or makes it where there is none.
    fn find_or_make_dir(
        &self,
        above: &RecvDir,
        parent: &Arc<DirNode>,
        handle: &dyn TreeDir,
        name: &Name,
    ) -> Result<Place, Fault> {
        let fault =
            |action: &str, error: io::Error| Fault::from_io(Side::Destination, action, &error);
        let open = || DirNode::open(parent, name.clone(), false);
        // What stands there is the rule where others have been; asking first would be
        // one round trip more where each costs one.
        let found = match above.fresh || self.costs_round_trips && above.is_writable() {
            true => None,
            false => match open() {
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                found => Some(found),
            },
        };
        if let Some(found) = found {
            return self.or_cleared(above, handle, name, found, open);
        }
        let is_ruled = self.makes_nothing();
        if self.policy.dry_run || is_ruled {
            let there = handle.stat(name, false);
            let is_there = there.map_err(|e| fault("look at the destination", e))?.is_some();
            return match (is_there, is_ruled) {
                (true, _) => self.or_cleared(above, handle, name, open(), open),
                (false, true) => Ok(Place::Ruled),
                (false, false) => Ok(Place::Absent),
            };
        }
        above.open_up();
        let made = match self.origin.as_ref().filter(|_| self.becomes_dest(above)) {
            Some(origin) => handle.make_dir_of(name, PRIVATE_DIR_MODE, origin),
            None => handle.make_dir(name, PRIVATE_DIR_MODE),
        };
        match made {
            Ok(()) => {
                above.touch();
                Ok(Place::Made(open()))
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.or_cleared(above, handle, name, open(), open)
            }
            Err(error) => Err(fault("make the directory", error)),
        }
    }

    /// The place that was `found`. In a mirror what is no directory makes way for one.
    fn or_cleared(
        &self,
        above: &RecvDir,
        handle: &dyn TreeDir,
        name: &Name,
        found: io::Result<Arc<DirNode>>,
        open: impl Fn() -> io::Result<Arc<DirNode>>,
    ) -> Result<Place, Fault> {
        let is_none = |error: &io::Error| FaultKind::of(error) == FaultKind::NotDirectory;
        if self.task.mirrors().is_none() || !found.as_ref().is_err_and(is_none) {
            return Ok(Place::Found(found));
        }
        if self.only_removes() {
            return Ok(Place::Ruled);
        }
        if self.policy.dry_run {
            return Ok(Place::Absent);
        }
        above.expect_change();
        let cleared = handle.remove_file(name);
        let made = cleared.and_then(|()| handle.make_dir(name, PRIVATE_DIR_MODE));
        made.map_err(|error| {
            Fault::from_io(Side::Destination, "make way for the directory", &error)
        })?;
        Ok(Place::Made(open()))
    }
}

/// The place of a directory at the destination.
enum Place {
    /// It was there.
    Found(io::Result<Arc<DirNode>>),
    /// It is there now.
    Made(io::Result<Arc<DirNode>>),
    /// It would be made, if this were no dry run.
    Absent,
    /// It is not there, and rules leave it at that.
    Ruled,
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
