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
    /// Reading leaves the times of the last reading alone.
    keeps_atimes: bool,
    /// The links that lead to the directories that users name.
    links: Links,
}

impl LocalTree {
    /// With the attributes that the system tells, and all links followed on the way.
    pub const PLAIN: Self = Self { fakes: false, keeps_atimes: false, links: Links::All };

    fn dir(&self, dir: Dir) -> Arc<dyn TreeDir> {
        let dir = if self.fakes { dir.faking() } else { dir };
        Arc::new(LocalDir::new(if self.keeps_atimes { dir.keeping_atimes() } else { dir }))
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
/// `rsync --fake-super` does it. If it `keeps_atimes`, reading leaves these alone.
pub fn local_tree(fakes: bool, keeps_atimes: bool, links: Links) -> &'static dyn Tree {
    static TREES: [LocalTree; 8] =
        [tree(0), tree(1), tree(2), tree(3), tree(4), tree(5), tree(6), tree(7)];
    &TREES[usize::from(fakes)
        | usize::from(keeps_atimes) << 1
        | usize::from(links == Links::Own) << 2]
}

/// The tree with these bits.
const fn tree(bits: u8) -> LocalTree {
    let links = if bits & 4 == 0 { Links::All } else { Links::Own };
    LocalTree { fakes: bits & 1 != 0, keeps_atimes: bits & 2 != 0, links }
}
