//! Removing a directory with all that is in it, and the order in which entries go.

use super::{a_source, told_kind};
use crate::dirs::DirNode;
use crate::receiver::{RecvDir, Removals};
use haul_model::{Attributes, Kept, Kind, Name, Scope};
use haul_proto::Extra;
use haul_tree::{MetaKind, PRIVATE_DIR_MODE, TreeEntry};
use std::cmp::Ordering;
use std::io;
use std::sync::Arc;

impl Removals<'_> {
    /// Removes the directory `name` of `parent`, with what is in it, deepest first. It is
    /// reported and counted itself if it is an extra.
    ///
    /// # Errors
    /// Why it stays. What had to stay by the rules is no error, and keeps it, and so does what
    /// is in it and can't be removed, which is reported by itself.
    pub(super) fn remove_tree(
        &self,
        dir: &RecvDir,
        parent: &Arc<DirNode>,
        name: &Name,
        is_extra: bool,
        told: &mut Vec<Extra>,
    ) -> io::Result<()> {
        let first = self.enter_extra(parent, &dir.scope(), name, dir.path_of(Some(name)))?;
        let mut levels = Levels(vec![first]);
        let mut names = vec![name.clone()];
        let mut has_failed = false;
        loop {
            if self.job.control.stopped() || (is_extra && self.is_withheld(dir)) {
                return Ok(());
            }
            let level = levels.0.last_mut().expect("one at least until it returns");
            if let Some(TreeEntry { name, .. }) = level.left.pop() {
                match self.remove_in(dir, level, &name, told) {
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
                    if !self.job.policy.dry_run {
                        node.handle()?.remove_dir(&name)?;
                    }
                    done.lent = None;
                    return Ok(());
                }
                false => self.remove_one(dir, node, &name, done.path.clone(), Kind::Dir, told),
            };
            let stays = !matches!(removed, Ok(true));
            done.lent.take_if(|_| !stays);
            match (above, removed) {
                (Some(above), removed) => {
                    above.stays |= stays;
                    if let Err(error) = removed {
                        has_failed = true;
                        self.not_removed(&done.path, &error);
                    }
                }
                (None, Err(error)) => return Err(error),
                // The failure was reported already.
                (None, Ok(_)) if done.stays && !(is_extra && has_failed) => {
                    return self.has_left(&done, is_extra);
                }
                (None, Ok(_)) => return Ok(()),
            }
        }
    }

    /// Removes the entry `name` of `level`, or enters it if it is a directory. What stays keeps
    /// the directory that it is in.
    fn remove_in(
        &self,
        dir: &RecvDir,
        level: &mut Level,
        name: &Name,
        told: &mut Vec<Extra>,
    ) -> io::Result<Option<Level>> {
        let path = level.path_of(name);
        let Some(meta) = level.node.handle()?.stat(name, false)? else { return Ok(None) };
        if self.is_source(&meta) {
            return Err(a_source());
        }
        if self.is_spared(&level.scope, &path, name, &meta, true)
            || self.is_left_mounted(&level.node, &meta)
        {
            level.stays = true;
            return Ok(None);
        }
        if meta.kind == MetaKind::Dir {
            return self.enter_extra(&level.node, &level.scope, name, path).map(Some);
        }
        let leaves_backup = self.backups.leaves_backup_beside(&level.node, name);
        let is_gone = self.remove_one(dir, &level.node, name, path, told_kind(&meta), told)?;
        level.stays |= !is_gone || leaves_backup;
        Ok(None)
    }

    /// A directory stays, since something in it does by the rules. That is a failure only
    /// where something else was to take its place.
    fn has_left(&self, level: &Level, is_extra: bool) -> io::Result<()> {
        if !is_extra {
            let message = "some entries of the directory there stay";
            return Err(io::Error::new(io::ErrorKind::DirectoryNotEmpty, message));
        }
        self.job.warn(&level.path, "keeping the directory: some of its entries stay");
        Ok(())
    }

    /// Reads the directory `name` of `parent`, which is to be removed.
    fn enter_extra(
        &self,
        parent: &Arc<DirNode>,
        above: &Scope,
        name: &Name,
        path: Vec<u8>,
    ) -> io::Result<Level> {
        let node = DirNode::open(parent, name.clone(), false)?;
        let (outer, here) = (parent.id(), node.id());
        let is_mounted =
            node.handle()?.system_handle().is_ok_and(|dir| haul_sys::is_mount_point(&dir));
        if is_mounted || outer.zip(here).is_some_and(|(outer, here)| outer.dev != here.dev) {
            return Err(io::Error::other("another file system is mounted there"));
        }
        if self.is_source(node.meta()) {
            return Err(a_source());
        }
        let handle = node.handle()?;
        let mut lent = None;
        if !self.job.policy.dry_run && handle.make_writable().is_ok() {
            // A refusal shows itself as soon as something is removed.
            let before = &node.meta().attributes;
            lent = (before.mode & PRIVATE_DIR_MODE != PRIVATE_DIR_MODE).then(|| before.clone());
        }
        let mut left = handle.entries()?;
        let order = |entry: &TreeEntry| entry.is_dir == Some(true);
        left.sort_by(|one, other| in_order((order(one), &one.name), (order(other), &other.name)));
        let scope = self.scope_of(&*handle, above, &[&*path, b"/"].concat())?;
        Ok(Level { node, path, left, scope, stays: false, lent })
    }
}

/// The order of the entries of a directory, each told to be one itself or not, of which the
/// last are removed first: that of rsync, with directories behind all else, and sorted as if
/// their names ended in a slash.
pub(super) fn in_order(one: (bool, &Name), other: (bool, &Name)) -> Ordering {
    fn spelled((is_dir, name): (bool, &Name)) -> impl Iterator<Item = &u8> {
        let slash: &[u8] = if is_dir { b"/" } else { b"" };
        name.as_bytes().iter().chain(slash)
    }
    one.0.cmp(&other.0).then_with(|| spelled(one).cmp(spelled(other)))
}

/// A directory on the way down to what is removed, with what is left to look at in it.
struct Level {
    node: Arc<DirNode>,
    path: Vec<u8>,
    left: Vec<TreeEntry>,
    /// The rules of files for what is in it.
    scope: Scope,
    /// Something in it stays, and so does it.
    stays: bool,
    /// The attributes that it had before its owner was given rights to remove what is in it;
    /// it gets its mode back where it stays.
    lent: Option<Attributes>,
}

impl Level {
    fn path_of(&self, name: &Name) -> Vec<u8> {
        [&*self.path, b"/", name.as_bytes()].concat()
    }
}

impl Drop for Level {
    fn drop(&mut self) {
        let Some(before) = &self.lent else { return };
        let which = Kept::MODE;
        let _ = self.node.handle().and_then(|handle| handle.set_attributes(before, which));
    }
}

/// The directories on that way, of which the last is done with first: the others lead to it.
struct Levels(Vec<Level>);

impl Drop for Levels {
    fn drop(&mut self) {
        while self.0.pop().is_some() {}
    }
}
