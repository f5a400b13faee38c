//! Removes a directory with its content, and defines the order of removals.

use super::{reported_kind, source_error};
use crate::dirs::DirNode;
use crate::receiver::{RecvDir, Removals};
use haul_model::{Attributes, Kept, Kind, Name, Scope};
use haul_proto::Extra;
use haul_tree::{MetaKind, PRIVATE_DIR_MODE, TreeEntry};
use std::cmp::Ordering;
use std::io;
use std::sync::Arc;

impl Removals<'_> {
    /// Removes the directory `name` of `parent` with its content, deepest entries first. An extra
    /// is itself reported and counted.
    ///
    /// # Errors
    /// If the directory can't be read or removed. If it is no extra, also if something in it stays.
    /// Failures inside it are reported by themselves.
    pub(super) fn remove_tree(
        &self,
        dir: &RecvDir,
        parent: &Arc<DirNode>,
        name: &Name,
        is_extra: bool,
        deleted: &mut Vec<Extra>,
    ) -> io::Result<()> {
        let first = self.enter_extra(parent, &dir.scope(), name, dir.path_of(Some(name)))?;
        let mut levels = Levels(vec![first]);
        let mut names = vec![name.clone()];
        let mut has_failed = false;
        loop {
            if self.job.control.stopped() || (is_extra && self.check_withheld(dir)) {
                return Ok(());
            }
            let level = levels.0.last_mut().expect("one at least until it returns");
            if let Some(TreeEntry { name, .. }) = level.left.pop() {
                match self.remove_in(dir, level, &name, deleted) {
                    Ok(None) => {}
                    Ok(Some(below)) => {
                        levels.0.push(below);
                        names.push(name);
                    }
                    Err(error) => {
                        (level.stays, has_failed) = (true, true);
                        self.not_removed(&level.path_of(&name), &error);
                    }
                }
                continue;
            }
            let (Some(mut done), Some(name)) = (levels.0.pop(), names.pop()) else {
                return Ok(());
            };
            let above = levels.0.last_mut();
            let node = above.as_ref().map_or(parent, |above| &above.node);
            let removed = match done.stays {
                true => Ok(false),
                false if above.is_none() && !is_extra => {
                    if !self.job.plan.dry_run {
                        dir.expect_change();
                        node.handle()?.remove_dir(&name)?;
                    }
                    done.saved_attributes = None;
                    return Ok(());
                }
                false => self.remove_one(dir, node, &name, done.path.clone(), Kind::Dir, deleted),
            };
            let stays = !matches!(removed, Ok(true));
            done.saved_attributes.take_if(|_| !stays);
            match (above, removed) {
                (Some(above), removed) => {
                    above.stays |= stays;
                    if let Err(error) = removed {
                        has_failed = true;
                        self.not_removed(&done.path, &error);
                    }
                }
                (None, Err(error)) => return Err(error),
                // The failure was already reported.
                (None, Ok(_)) if done.stays && !(is_extra && has_failed) => {
                    return self.report_kept_dir(&done, is_extra);
                }
                (None, Ok(_)) => return Ok(()),
            }
        }
    }

    /// Removes the entry `name` of `level`, or enters it if it is a directory. An entry that stays
    /// keeps its directory.
    fn remove_in(
        &self,
        dir: &RecvDir,
        level: &mut Level,
        name: &Name,
        deleted: &mut Vec<Extra>,
    ) -> io::Result<Option<Level>> {
        let path = level.path_of(name);
        let Some(meta) = level.node.handle()?.stat(name, false)? else { return Ok(None) };
        if self.is_source(&meta) {
            return Err(source_error());
        }
        if self.is_protected(&level.scope, &path, name, &meta, true)
            || self.is_skipped_mount(&level.node, &meta)
        {
            level.stays = true;
            return Ok(None);
        }
        if meta.kind == MetaKind::Dir {
            return self.enter_extra(&level.node, &level.scope, name, path).map(Some);
        }
        let leaves_backup = self.backups.leaves_backup_in_dir(&level.node, name);
        let is_removed =
            self.remove_one(dir, &level.node, name, path, reported_kind(&meta), deleted)?;
        level.stays |= !is_removed || leaves_backup;
        Ok(None)
    }

    /// Handles a directory that stays because the rules keep some of its entries. That is a failure
    /// only if another entry needs its place.
    fn report_kept_dir(&self, level: &Level, is_extra: bool) -> io::Result<()> {
        if !is_extra {
            let message = "some entries of the directory there stay";
            return Err(io::Error::new(io::ErrorKind::DirectoryNotEmpty, message));
        }
        self.job.warn(&level.path, "keeping the directory: some of its entries stay");
        Ok(())
    }

    /// Opens and reads the directory `name` of `parent`, which will be removed.
    fn enter_extra(
        &self,
        parent: &Arc<DirNode>,
        above: &Scope,
        name: &Name,
        path: Vec<u8>,
    ) -> io::Result<Level> {
        let node = DirNode::open(parent, name.clone(), false)?;
        let (outer, here) = (parent.id(), node.id());
        let is_mounted = node.handle()?.local_dir().is_ok_and(|dir| haul_sys::is_mount_point(&dir));
        if is_mounted || outer.zip(here).is_some_and(|(outer, here)| outer.dev != here.dev) {
            return Err(io::Error::other("another file system is mounted there"));
        }
        if self.is_source(node.meta()) {
            return Err(source_error());
        }
        let handle = node.handle()?;
        let mut saved_attributes = None;
        if !self.job.plan.dry_run && handle.make_writable().is_ok() {
            // If that is refused, the first removal reports it.
            let before = &node.meta().attributes;
            saved_attributes =
                (before.mode & PRIVATE_DIR_MODE != PRIVATE_DIR_MODE).then(|| before.clone());
        }
        let mut left = handle.entries()?;
        let order = |entry: &TreeEntry| entry.is_dir == Some(true);
        left.sort_by(|one, other| {
            removal_order((order(one), &one.name), (order(other), &other.name))
        });
        let scope = self.scope_of(&*handle, above, &[&*path, b"/"].concat())?;
        Ok(Level { node, path, left, scope, stays: false, saved_attributes })
    }
}

/// The order of the entries of a directory, each with whether it is a directory itself. The last
/// are removed first. As in rsync, directories come last, and sort as if their names ended in a
/// slash.
pub(super) fn removal_order(one: (bool, &Name), other: (bool, &Name)) -> Ordering {
    fn spelled((is_dir, name): (bool, &Name)) -> impl Iterator<Item = &u8> {
        let slash: &[u8] = if is_dir { b"/" } else { b"" };
        name.as_bytes().iter().chain(slash)
    }
    one.0.cmp(&other.0).then_with(|| spelled(one).cmp(spelled(other)))
}

/// A directory that is being removed, with the entries that are left in it.
struct Level {
    node: Arc<DirNode>,
    path: Vec<u8>,
    left: Vec<TreeEntry>,
    /// The rules for its entries.
    scope: Scope,
    /// The directory stays, because an entry in it does.
    stays: bool,
    /// The attributes before its owner was given the rights to remove entries. A directory that
    /// stays gets its mode back.
    saved_attributes: Option<Attributes>,
}

impl Level {
    fn path_of(&self, name: &Name) -> Vec<u8> {
        [&*self.path, b"/", name.as_bytes()].concat()
    }
}

impl Drop for Level {
    fn drop(&mut self) {
        let Some(before) = &self.saved_attributes else { return };
        let which = Kept::MODE;
        let _ = self.node.handle().and_then(|handle| handle.set_attributes(before, which));
    }
}

/// The open directories from the removed one downwards. The last is dropped first, since the others
/// lead to it.
struct Levels(Vec<Level>);

impl Drop for Levels {
    fn drop(&mut self) {
        while self.0.pop().is_some() {}
    }
}
