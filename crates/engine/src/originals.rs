//! The files of a job's sources. A source file may also be at the destination, under another name
//! or through another mount. Content written to it there would overwrite the source.

use crate::Job;
use crate::control::Control;
use crate::dirs::{DirNode, OpenDirs, local_number};
use haul_model::{Fault, FaultKind, FileId, Name, Side, words};
use haul_tree::{Meta, MetaKind, Tree};
use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

/// The most files with one name that are stored, about 40 MiB. As many more are stored if they have
/// several names. Beyond that, every file counts as a source.
const ORIGINALS_MAX: usize = 1 << 21;

/// The sources on this machine, and their files after the first query.
pub(crate) struct Originals {
    tree: &'static dyn Tree,
    sources: Vec<Vec<u8>>,
    /// Links may be followed to their targets.
    follows: bool,
    found: OnceLock<Option<HashSet<u64>>>,
}

impl Originals {
    /// The sources of `job`, which are on this machine.
    pub(crate) fn of(job: &Job) -> Self {
        Self {
            tree: job.local_tree(Side::Source),
            sources: job.source_paths().map(|path| path.into_owned()).collect(),
            follows: job.sources.follow
                || job.task.mirrors().is_some_and(|it| it.walking.followed_links.follows_any()),
            found: OnceLock::new(),
        }
    }

    /// True if the object with this [`local_number`] may be a source file.
    pub(crate) fn may_have(&self, number: u64, control: &Control<'_>) -> bool {
        let found = self.found.get_or_init(|| self.find(control));
        found.as_ref().is_none_or(|found| found.contains(&number))
    }

    fn find(&self, control: &Control<'_>) -> Option<HashSet<u64>> {
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
                && let Ok(Some(Meta { id: Some(id), .. })) = dir.stat(&name, self.follows)
            {
                found.insert(local_number(id));
            }
        }
        Some(found)
    }

    /// Adds the files below a directory; `None` if there are too many. An unreadable directory
    /// can't be copied either.
    fn find_below(
        &self,
        dir: Arc<DirNode>,
        found: &mut HashSet<u64>,
        control: &Control<'_>,
    ) -> Option<()> {
        let mut dirs = vec![dir];
        let mut left: Vec<(Arc<DirNode>, Name, bool)> = Vec::new();
        // Directories that links lead to, each once, because links may form a cycle.
        let mut followed_links: HashSet<FileId> = HashSet::new();
        while !control.stopped() && found.len() <= 2 * ORIGINALS_MAX {
            let Some(dir) = dirs.pop() else {
                let Some((above, name, follows)) = left.pop() else { return Some(()) };
                dirs.extend(DirNode::open(&above, name, follows));
                continue;
            };
            let Ok(handle) = dir.handle() else { continue };
            for entry in handle.entries().unwrap_or_default() {
                let Ok(Some(mut meta)) = handle.stat(&entry.name, false) else { continue };
                let is_via_link = self.follows && meta.kind == MetaKind::Symlink;
                if is_via_link {
                    let Ok(Some(target)) = handle.stat(&entry.name, true) else { continue };
                    meta = target;
                }
                let Some(id) = meta.id else { continue };
                if meta.kind != MetaKind::Dir {
                    if meta.links > 1 || found.len() < ORIGINALS_MAX {
                        found.insert(local_number(id));
                    }
                } else if !is_via_link || followed_links.insert(id) {
                    left.push((Arc::clone(&dir), entry.name, is_via_link));
                }
            }
        }
        None
    }
}

/// The fault of a file whose content would be written into a source.
pub(crate) fn also_a_source(side: Side) -> Fault {
    Fault::new(side, FaultKind::SameFile, "the file at the destination is a source, too")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::Silent;
    use haul_proto::NamedSources;
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn files_with_one_name_are_found_too() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = |name: &str| dir.path().join(name);
        fs::create_dir_all(path("src/d")).expect("made");
        for name in ["src/d/one", "src/several", "elsewhere"] {
            fs::write(path(name), name).expect("written");
        }
        fs::hard_link(path("src/several"), path("another")).expect("linked");
        let number = |name: &str| {
            let meta = fs::metadata(path(name)).expect("there");
            local_number(FileId { dev: meta.dev(), ino: meta.ino() })
        };
        let sources = vec![path("src").into_os_string().into_encoded_bytes()];
        let sources = NamedSources::at(sources);
        let originals = Originals::of(&Job { sources, ..Job::default() });
        let silent = Silent::default();
        let control = Control::new(&silent);
        let has = |name: &str| originals.may_have(number(name), &control);
        let found = ["src/d/one", "another", "elsewhere", "src/d"].map(has);
        assert_eq!(found, [true, true, false, false]);
    }
}
