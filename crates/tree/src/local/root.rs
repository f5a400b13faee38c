//! The directories of this machine that users name.

use super::LocalDir;
use crate::room::with_room;
use crate::{Tree, TreeDir};
use haul_sys::{Dir, Links};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// The file systems of this machine.
#[derive(Debug)]
pub struct LocalTree {
    /// Attributes that only root can give are written down and read as `rsync --fake-super`
    /// does it.
    fakes: bool,
    /// The links that lead to the directories that users name.
    links: Links,
}

impl LocalTree {
    /// With the attributes that the system tells, and all links followed on the way.
    pub const PLAIN: Self = Self { fakes: false, links: Links::All };

    fn dir(&self, dir: Dir) -> Arc<dyn TreeDir> {
        Arc::new(LocalDir::new(if self.fakes { dir.faking() } else { dir }))
    }
}

impl Tree for LocalTree {
    fn open(&self, path: &[u8]) -> io::Result<Arc<dyn TreeDir>> {
        let path = Path::new(OsStr::from_bytes(path));
        Ok(self.dir(with_room(|| Dir::open_named(path, self.links))?))
    }

    fn open_to_enter(&self, path: &[u8]) -> io::Result<Arc<dyn TreeDir>> {
        let path = Path::new(OsStr::from_bytes(path));
        Ok(self.dir(with_room(|| Dir::open_named_to_enter(path, self.links))?))
    }

    fn whole_path(&self, path: &[u8]) -> io::Result<Vec<u8>> {
        let path = if path.is_empty() { b"." } else { path };
        let whole = haul_sys::absolute(Path::new(OsStr::from_bytes(path)))?;
        let mut clean = PathBuf::new();
        for part in whole.components() {
            match part {
                Component::ParentDir => drop(clean.pop()),
                part => clean.push(part),
            }
        }
        Ok(clean.into_os_string().into_vec())
    }
}

/// The file systems of this machine, with the `links` that lead to the directories that users
/// name. If it `fakes`, attributes that only root can give are written down and read as
/// `rsync --fake-super` does it.
pub fn local_tree(fakes: bool, links: Links) -> &'static dyn Tree {
    match (fakes, links) {
        (false, Links::All) => &LocalTree::PLAIN,
        (false, Links::Own) => &LocalTree { fakes: false, links: Links::Own },
        (true, Links::All) => &LocalTree { fakes: true, links: Links::All },
        (true, Links::Own) => &LocalTree { fakes: true, links: Links::Own },
    }
}
