//! Files of the sources that have several names. One of these names can be at the destination:
//! what is written into that file would be written into the source.

use super::Receiver;
use crate::Job;
use crate::control::Control;
use crate::dirs::{DirNode, OpenDirs};
use haul_model::words;
use haul_model::{FileId, Name, Side};
use haul_tree::{Meta, MetaKind, Tree};
use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

/// Files that are remembered, at most. If there are more, each is taken for a source's.
const FILES_MAX: usize = 1 << 20;

/// The sources on this machine, and their files of several names once somebody has asked.
pub(super) struct Others {
    tree: &'static dyn Tree,
    sources: Vec<Vec<u8>>,
    /// Links may stand for what they lead to.
    follows: bool,
    found: OnceLock<Option<HashSet<FileId>>>,
}

impl Others {
    /// The sources of `job`, which are on this machine.
    pub(super) fn of(job: &Job) -> Self {
        Self {
            tree: job.local_tree(Side::Source),
            sources: job.source_paths().map(|path| path.into_owned()).collect(),
            follows: job.follow || job.task.mirrors().is_some_and(|it| it.walking.led.may_be()),
            found: OnceLock::new(),
        }
    }

    fn find(&self, control: &Control<'_>) -> Option<HashSet<FileId>> {
        let open = Arc::new(OpenDirs::default());
        let mut found = HashSet::new();
        for source in &self.sources {
            if let Ok(dir) = self.tree.open(source)
                && let Ok(dir) = DirNode::root(dir, None, &open)
            {
                self.find_below(dir, &mut found, control)?;
                continue;
            }
            let split = words::split(source);
            if let Some(Ok(name)) = split.name.map(Name::new)
                && let Ok(dir) = self.tree.open(split.parent)
                && let Ok(Some(file)) = dir.stat(&name, self.follows)
            {
                found.extend(file.id);
            }
        }
        Some(found)
    }

    /// Adds the files below a directory; `None` if there are too many. One that can't be read
    /// can't be copied either.
    fn find_below(
        &self,
        dir: Arc<DirNode>,
        found: &mut HashSet<FileId>,
        control: &Control<'_>,
    ) -> Option<()> {
        let mut dirs = vec![dir];
        let mut left: Vec<(Arc<DirNode>, Name, bool)> = Vec::new();
        // Directories that links lead to, each once: they may lead in a circle.
        let mut led = HashSet::new();
        while !control.stopped() && found.len() <= FILES_MAX {
            let Some(dir) = dirs.pop() else {
                let Some((above, name, follows)) = left.pop() else { return Some(()) };
                dirs.extend(DirNode::open(&above, name, follows));
                continue;
            };
            let Ok(handle) = dir.handle() else { continue };
            for entry in handle.entries().unwrap_or_default() {
                match handle.stat(&entry.name, false) {
                    Ok(Some(Meta { kind: MetaKind::Dir, .. })) => {
                        left.push((Arc::clone(&dir), entry.name, false));
                    }
                    Ok(Some(Meta { kind: MetaKind::Symlink, .. })) if self.follows => {
                        match handle.stat(&entry.name, true) {
                            Ok(Some(Meta { kind: MetaKind::Dir, id: Some(id), .. }))
                                if led.insert(id) =>
                            {
                                left.push((Arc::clone(&dir), entry.name, true));
                            }
                            Ok(Some(Meta { id: Some(id), links: 2.., .. })) => found.extend([id]),
                            _ => {}
                        }
                    }
                    Ok(Some(Meta { id: Some(id), links: 2.., .. })) => found.extend([id]),
                    _ => {}
                }
            }
        }
        None
    }
}

impl Receiver<'_> {
    /// True if the file `there`, which is at the destination, may be one of the sources, too.
    pub(super) fn is_of_sources(&self, there: &Meta) -> bool {
        let Some(others) = self.others.as_ref().filter(|_| there.links != 1) else { return false };
        let found = others.found.get_or_init(|| others.find(self.control));
        found.as_ref().zip(there.id).is_none_or(|(found, id)| found.contains(&id))
    }
}
