//! The part of the destination that a mirror leaves alone, since the sources were not
//! walked there, and the sources that are not there at all.

use super::a_source;
use crate::dirs::DirNode;
use crate::receiver::Receiver;
use crate::receiver::check::told_kind;
use crate::receiver::deciding::is_empty;
use crate::receiver::dirs::{DirState, RecvDir};
use crate::receiver::listing::Broken;
use haul_model::{FileId, Missing, Name, Part, Systems, Walking};
use haul_proto::Extra;
use haul_tree::{Meta, MetaKind};
use std::io;

impl Receiver<'_> {
    fn walking(&self) -> Walking {
        self.task.mirrors().map(|mirror| mirror.walking).unwrap_or_default()
    }

    /// Nothing in the directory was looked at: nothing there is an extra.
    pub(in crate::receiver) fn close_dir(&self, dir: u64) -> Result<(), Broken> {
        let dir = self.open_dir_of(dir)?;
        if !self.task.finds_extras() || dir.parent.is_none() {
            return Err(Broken("it closed a directory unexpectedly"));
        }
        *dir.unlisted.lock() = None;
        Ok(())
    }

    /// True if the walk does not go into the directory at this place of the destination,
    /// since another file system is mounted there, or above.
    pub(super) fn is_elsewhere(&self, dir: &RecvDir) -> bool {
        if self.walking().systems == Systems::All {
            return false;
        }
        let system = |dir: &RecvDir| match &dir.state {
            DirState::Open(node) => node.id().map(|id| id.dev),
            _ => None,
        };
        let mut top = dir;
        while let Some(above) = top.parent.as_deref().filter(|above| above.parent.is_some()) {
            top = above;
        }
        system(top).zip(system(dir)).is_some_and(|(first, here)| first != here)
    }

    /// True if an entry of `node` is the root of another file system, where the job takes no
    /// part in such ones.
    pub(super) fn is_left_mounted(&self, node: &DirNode, meta: &Meta) -> bool {
        let is_other = |here: FileId| meta.id.is_some_and(|there| there.dev != here.dev);
        self.walking().systems != Systems::All
            && meta.kind == MetaKind::Dir
            && node.id().is_some_and(is_other)
    }

    /// Removes what has the name of a source that is not there.
    pub(in crate::receiver) fn take_missing(&self, dir: u64, name: &Name) -> Result<(), Broken> {
        let dir = self.open_dir_of(dir)?;
        if self.walking().missing != Missing::Removed {
            return Err(Broken("it reported a missing source unexpectedly"));
        }
        if let Some(asked) = &self.asked {
            asked.lock().take_missing(&dir, name)?;
        }
        let is_own = |part| matches!(part, Part::All | Part::AllElse);
        if self.rename.is_none() && self.plan.is_mirror && is_own(self.plan.part) {
            let mut told = Vec::new();
            let removed = self.remove_missing(&dir, name, &mut told);
            self.tell_deleted(told);
            if let Err(error) = removed {
                self.not_removed(&dir.path_of(Some(name)), &error);
            }
        }
        Ok(())
    }

    fn remove_missing(&self, dir: &RecvDir, name: &Name, told: &mut Vec<Extra>) -> io::Result<()> {
        let DirState::Open(node) = &dir.state else { return Ok(()) };
        let Some(meta) = node.handle()?.stat(name, false)? else { return Ok(()) };
        if self.is_source(&meta) {
            return Err(a_source());
        }
        if self.is_spared(&dir.scope(), &dir.path_of(Some(name)), name, &meta, false) {
            return Ok(());
        }
        if meta.kind != MetaKind::Dir {
            let path = dir.path_of(Some(name));
            return self.remove_one(dir, node, name, path, told_kind(&meta), told).map(drop);
        }
        if !self.makes_way() && !is_empty(node, name)? {
            let message = "keeping the directory: it is not empty";
            self.warn(&dir.path_of(Some(name)), message);
            return Ok(());
        }
        self.remove_tree(dir, node, name, true, told)
    }
}
