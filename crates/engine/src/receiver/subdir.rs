//! Finds the place of a directory at the destination: opens the existing directory or creates one.

use super::publish::naming;
use super::self_copy::is_same_object;
use super::{Creator, DirState, RecvDir, metadata, self_copy};
use crate::beneath;
use crate::dirs::DirNode;
use haul_model::{Entry, Fault, FaultKind, Name, OrFault, Outcome, Side, Skip};
use haul_plan::Kinds;
use haul_tree::{Meta, MetaKind, TreeDir};
use std::io;
use std::sync::Arc;

impl Creator<'_> {
    /// Opens or creates the directory `name`, unless it was opened `ahead`. Returns its outcome,
    /// its state, and true if it was created.
    pub(super) fn open_dir(
        &self,
        above: &RecvDir,
        parent: &Arc<DirNode>,
        (name, ahead): (&Name, Option<&Arc<DirNode>>),
        entry: &Entry,
    ) -> Result<(Outcome, DirState, bool), Fault> {
        let fault =
            |action: &str, error: io::Error| Fault::from_io(Side::Destination, action, &error);
        let handle = parent.handle().map_err(|e| fault("open the directory above", e))?;
        let found = match ahead {
            Some(node) => Presence::Found(Ok(Arc::clone(node))),
            None => self.find_or_create_dir(above, parent, &*handle, name, entry)?,
        };
        let (created, opened) = match found {
            Presence::Found(opened) => (false, opened),
            Presence::Created(opened) => (true, opened),
            Presence::Absent => return Ok((Outcome::WouldCopy, DirState::Absent, false)),
            Presence::Ruled => {
                return Ok((Outcome::Skipped(Skip::Ruled), DirState::Ruled, false));
            }
        };
        let node = match opened {
            Ok(node) => {
                if let (true, true, Some(origin)) =
                    (created, self.becomes_dest(above), &self.job.origin)
                    && let Ok(handle) = node.handle()
                {
                    handle.record_origin(origin);
                }
                node
            }
            Err(error) if FaultKind::of(&error) == FaultKind::NotDirectory => {
                return Err(not_a_dir_fault(&*handle, name));
            }
            Err(error) => return Err(fault("open the directory", error)),
        };
        if is_same_object(entry, node.id()) {
            return Err(self_copy::same_directory());
        }
        if self.filler.publisher.backups.is_root(node.id()) {
            return Err(self_copy::is_for_backups());
        }
        let has_exact_spelling =
            || match self.job.plan.finds_extras && !handle.capabilities().has_object_ids {
                true => handle.has_spelling(name),
                false => self.filler.publisher.naming.has_exact_spelling(above, &*handle, name),
            };
        if !created && !has_exact_spelling().map_err(|e| fault("read the directory", e))? {
            return Err(naming::name_taken());
        }
        if let (Some(claims), Some(id)) = (above.claims(), node.id()) {
            if created {
                claims.bring(id);
            } else if !claims.find(id, &*handle) {
                return Err(naming::name_taken());
            }
        }
        let outcome = if created { Outcome::Copied } else { Outcome::Skipped(Skip::Unchanged) };
        Ok((outcome, DirState::Open(node), created))
    }

    /// True if a directory in `above` becomes the destination itself.
    fn becomes_dest(&self, above: &RecvDir) -> bool {
        self.job.rename.is_some() && above.parent.is_none()
    }

    /// Opens the directory `name`, or creates it if it does not exist.
    fn find_or_create_dir(
        &self,
        above: &RecvDir,
        parent: &Arc<DirNode>,
        handle: &dyn TreeDir,
        name: &Name,
        entry: &Entry,
    ) -> Result<Presence, Fault> {
        let open = || self.open_existing(above, parent, name, entry.is_implied_dir);
        // Directories on the way to a source stay as they are.
        let found_or_replaced = |found| match entry.is_implied_dir {
            true => Ok(Presence::Found(found)),
            false => self.found_or_replaced(above, parent, handle, (name, entry), found, open),
        };
        // In directories that existed before, most subdirectories exist, too, so opening comes
        // first unless each operation takes a round trip.
        let found = match above.fresh || self.job.ends.creates_first && above.is_writable() {
            true => None,
            false => match open() {
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                found => Some(found),
            },
        };
        if let Some(found) = found {
            return found_or_replaced(found);
        }
        let creates_nothing = self.job.creates_nothing();
        if self.job.plan.dry_run || creates_nothing {
            let exists = metadata(handle.stat(name, false))?.is_some();
            return match (exists, creates_nothing) {
                (true, _) => found_or_replaced(open()),
                (false, true) => Ok(Presence::Ruled),
                (false, false) => Ok(Presence::Absent),
            };
        }
        above.make_writable();
        let mode = self.job.initial_dir_mode(above, entry);
        let origin = self.job.origin.as_ref().filter(|_| self.becomes_dest(above));
        let created = handle.make_dir(name, mode, origin);
        match created {
            Ok(()) => {
                above.touch();
                Ok(Presence::Created(open()))
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => found_or_replaced(open()),
            Err(error) => Err(Fault::from_io(Side::Destination, "create the directory", &error)),
        }
    }

    /// Opens the directory `name` of `parent`. Follows a symbolic link if the plan keeps links to
    /// directories. Also follows one on the way to a source if the plan leaves the way as it is.
    fn open_existing(
        &self,
        above: &RecvDir,
        parent: &Arc<DirNode>,
        name: &Name,
        is_implied_dir: bool,
    ) -> io::Result<Arc<DirNode>> {
        let opened = DirNode::open(parent, name.clone(), false);
        let follows = self.job.plan.keeps_dir_links
            || is_implied_dir && self.job.plan.keeps_implied_dir_links;
        let Err(error) = opened else { return opened };
        if !follows || FaultKind::of(&error) != FaultKind::NotDirectory {
            return Err(error);
        }
        match parent.handle()?.stat(name, true)? {
            Some(Meta { kind: MetaKind::Dir, .. }) => {
                let [opened, target] = beneath::follow(parent, name, Side::Destination)
                    .map_err(|fault| io::Error::other(fault.message))?;
                match self.filler.publisher.removals.may_mirror(above, &target) {
                    true => Err(io::Error::other(
                        "the symbolic link there leads to a directory that is mirrored by itself",
                    )),
                    false => Ok(opened),
                }
            }
            // The link is replaced like any other entry that is no directory.
            _ => Err(error),
        }
    }

    /// Handles the entry that was `found` at the place. If the plan replaces other kinds, an entry
    /// that is no directory is replaced by one.
    fn found_or_replaced(
        &self,
        above: &RecvDir,
        parent: &Arc<DirNode>,
        handle: &dyn TreeDir,
        (name, entry): (&Name, &Entry),
        found: io::Result<Arc<DirNode>>,
        open: impl Fn() -> io::Result<Arc<DirNode>>,
    ) -> Result<Presence, Fault> {
        let is_none = |error: &io::Error| FaultKind::of(error) == FaultKind::NotDirectory;
        if self.job.plan.replaces == Kinds::Contents || !found.as_ref().is_err_and(is_none) {
            return Ok(Presence::Found(found));
        }
        if self.job.only_removes() || self.job.plan.keeps_existing {
            return Ok(Presence::Ruled);
        }
        // Entries that this job has brought are not replaced.
        if let Some(existing) = metadata(handle.stat(name, false))? {
            self.filler.publisher.naming.check_claim(above, handle, name, &existing)?;
        }
        if self.job.plan.dry_run {
            return Ok(Presence::Absent);
        }
        above.expect_change();
        let cleared = self
            .filler
            .publisher
            .backups
            .back_up((parent, &above.taken), name)
            .and_then(|()| handle.remove_file(name));
        let mode = self.job.initial_dir_mode(above, entry);
        cleared
            .and_then(|()| handle.make_dir(name, mode, None))
            .or_fault(Side::Destination, "remove what blocks the directory")?;
        Ok(Presence::Created(open()))
    }
}

/// The state of a directory's place at the destination.
enum Presence {
    /// The directory existed.
    Found(io::Result<Arc<DirNode>>),
    /// The directory was created.
    Created(io::Result<Arc<DirNode>>),
    /// A dry run: the directory would be created.
    Absent,
    /// The directory does not exist, and the rules forbid to create it.
    Ruled,
}

/// The fault of a directory whose place another entry has.
fn not_a_dir_fault(parent: &dyn TreeDir, name: &Name) -> Fault {
    match parent.stat(name, false) {
        Ok(Some(Meta { kind: MetaKind::Symlink, .. })) => Fault::new(
            Side::Destination,
            FaultKind::Link,
            "the destination has a symbolic link where a directory is needed",
        ),
        _ => Fault::new(
            Side::Destination,
            FaultKind::NotDirectory,
            "the destination has a file where a directory is needed",
        ),
    }
}
