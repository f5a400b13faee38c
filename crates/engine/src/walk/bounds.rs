//! The directories that a walk does not go into, and those that it leaves out.

use super::{Listed, Walk, look_up};
use crate::dirs::DirNode;
use haul_model::{Name, Systems};
use haul_tree::MetaKind;
use std::sync::Arc;

impl Walk<'_> {
    /// The directory `node`, of which nothing is looked at.
    pub(crate) fn closed(&self, node: Arc<DirNode>) -> Listed {
        self.listed(node, Vec::new(), true)
    }

    /// True if nothing in the directory is looked at, which is below the first.
    pub(super) fn is_closed(&self, node: &DirNode) -> bool {
        self.rules.walking.only_dirs
            || self.rules.walking.systems != Systems::All
                && self.is_elsewhere(node.id().map(|id| id.dev))
    }

    /// True if that is another file system than the one in which the walk has begun.
    fn is_elsewhere(&self, system: Option<u64>) -> bool {
        let first = self.system.get().copied().flatten();
        first.zip(system).is_some_and(|(first, system)| first != system)
    }

    /// True if the directory `name` of `node` takes part.
    pub(super) fn takes_dir(&self, node: &Arc<DirNode>, name: &Name) -> bool {
        !self.is_left_out(node, name)
            && (!self.rules.walking.prunes_empty || self.has_files_in(node, name))
    }

    /// True if a directory is left out, since another file system is mounted there.
    fn is_left_out(&self, node: &Arc<DirNode>, name: &Name) -> bool {
        if self.rules.walking.systems != Systems::OfSourcesAlone {
            return false;
        }
        // What can't be looked at shows itself when it is opened.
        let looked = look_up(node, name, self.rules.follow);
        looked.is_ok_and(|meta| self.is_elsewhere(meta.id.map(|id| id.dev)))
    }

    fn has_files_in(&self, node: &Arc<DirNode>, name: &Name) -> bool {
        match DirNode::open(node, name.clone(), self.rules.follow) {
            Ok(dir) if self.rules.obstacle(node, &dir).is_none() => self.has_files(&dir),
            _ => true,
        }
    }

    /// True if in `node`, or below, something is listed that is no directory. What can't be
    /// read is told, and so is what it is in.
    pub(crate) fn has_files(&self, node: &Arc<DirNode>) -> bool {
        let mut next = Some(Arc::clone(node));
        let mut left: Vec<(Arc<DirNode>, Name)> = Vec::new();
        while !self.rules.control.stopped() {
            let Some(dir) = next.take() else {
                let Some((above, name)) = left.pop() else { return false };
                match DirNode::open(&above, name, self.rules.follow) {
                    Ok(dir) if self.rules.obstacle(&above, &dir).is_none() => next = Some(dir),
                    _ => return true,
                }
                continue;
            };
            if self.is_closed(&dir) {
                continue;
            }
            let Some(dirs) = self.dirs_alone(&dir) else { return true };
            left.extend(dirs.into_iter().map(|name| (Arc::clone(&dir), name)));
        }
        true
    }

    /// The directories in `node` that take part; `None` if something else does, or nobody
    /// knows.
    fn dirs_alone(&self, node: &Arc<DirNode>) -> Option<Vec<Name>> {
        let follow = self.rules.follow;
        let mut selection = node.select(self.rules.filter).ok()?;
        let mut dirs = Vec::new();
        for entry in self.entries(node).ok()? {
            let is_known = entry.is_dir.filter(|is_dir| *is_dir || !follow);
            let is_dir = is_known.unwrap_or_else(|| {
                look_up(node, &entry.name, follow).is_ok_and(|meta| meta.kind == MetaKind::Dir)
            });
            if selection.leaves_out(&entry.name, is_dir) {
                continue;
            }
            if !is_dir {
                return None;
            }
            if !self.is_left_out(node, &entry.name) {
                dirs.push(entry.name);
            }
        }
        Some(dirs)
    }
}
