//! The directories that a walk does not read, and those that it leaves out.

use super::{Depth, Layer, Walk, look_up};
use crate::dirs::DirNode;
use haul_model::{FilterSide, Name, Scope, Subject, Systems};
use haul_tree::MetaKind;

impl Walk<'_> {
    /// True if the directory `name` of `layer` is listed.
    pub(super) fn lists_dir(&self, layer: &Layer, name: &Name) -> bool {
        !self.is_mount_skipped(layer, name)
            && (!self.rules.walking.prunes_empty
                || self.is_protected_in(layer, name)
                || self.has_files_in(layer, name))
    }

    fn is_protected_in(&self, layer: &Layer, name: &Name) -> bool {
        let path_prefix = || layer.node.path_prefix();
        !self.rules.filter.is_empty()
            && self.is_protected(&[&*path_prefix(), name.as_bytes()].concat())
    }

    /// True if a rule of the command protects a directory with this path at the destination. Such a
    /// directory is listed although it is empty.
    pub(super) fn is_protected(&self, path: &[u8]) -> bool {
        let side = FilterSide::Receiver;
        let subject = Subject { path, is_dir: true, side, is_being_removed: false };
        self.rules.filter.excludes(&subject, &Scope::default())
    }

    /// True if a directory is left out because another file system is mounted on it.
    fn is_mount_skipped(&self, layer: &Layer, name: &Name) -> bool {
        if self.rules.walking.systems != Systems::OfSourcesAlone {
            return false;
        }
        // If it can't be inspected, opening it reports the reason.
        let inspected = look_up(&layer.node, name, self.rules.follow);
        inspected.is_ok_and(|meta| layer.is_elsewhere(meta.id.map(|id| id.dev)))
    }

    fn has_files_in(&self, layer: &Layer, name: &Name) -> bool {
        match DirNode::open(&layer.node, name.clone(), self.rules.follow) {
            Ok(dir) if self.rules.obstacle(&layer.node, &dir).is_none() => {
                self.has_files(&layer.below(dir, &self.rules))
            }
            _ => true,
        }
    }

    /// True if `layer` contains, at any depth, an entry that is listed and not a directory. An
    /// unreadable entry counts, because its fault is reported.
    pub(crate) fn has_files(&self, layer: &Layer) -> bool {
        let mut next = Some(layer.clone());
        let mut left: Vec<(Layer, Name)> = Vec::new();
        while !self.rules.control.stopped() {
            let Some(dir) = next.take() else {
                let Some((above, name)) = left.pop() else { return false };
                match DirNode::open(&above.node, name, self.rules.follow) {
                    Ok(dir) if self.rules.obstacle(&above.node, &dir).is_none() => {
                        next = Some(above.below(dir, &self.rules));
                    }
                    _ => return true,
                }
                continue;
            };
            if dir.depth != Depth::Open {
                continue;
            }
            let Some(dirs) = self.dirs_alone(&dir) else { return true };
            left.extend(dirs.into_iter().map(|name| (dir.clone(), name)));
        }
        true
    }

    /// The subdirectories of `layer` that are listed. `None` if another entry is listed, or if that
    /// is unknown.
    fn dirs_alone(&self, layer: &Layer) -> Option<Vec<Name>> {
        let (node, follow) = (&layer.node, self.rules.follow);
        let selected = node.select(self.rules.filter).ok();
        let mut selection = selected.filter(|selection| selection.skipped_files().is_none())?;
        let mut dirs = Vec::new();
        for entry in self.entries(node).ok()? {
            let is_known = entry.is_dir.filter(|is_dir| *is_dir || !follow);
            let is_dir = is_known.unwrap_or_else(|| {
                look_up(node, &entry.name, follow).is_ok_and(|meta| meta.kind == MetaKind::Dir)
            });
            if selection.excludes(&entry.name, is_dir) {
                continue;
            }
            if !is_dir {
                return None;
            }
            if self.is_mount_skipped(layer, &entry.name) {
                continue;
            }
            if self.is_protected_in(layer, &entry.name) {
                return None;
            }
            dirs.push(entry.name);
        }
        Some(dirs)
    }
}
