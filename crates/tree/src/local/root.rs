//! The directories of this machine that users name.

use super::LocalDir;
use crate::spare_handles::retry_open;
use crate::{Tree, TreeDir};
use haul_model::Name;
use haul_sys::{Dir, Links};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// The file systems of this machine.
#[derive(Debug)]
pub struct LocalTree {
    /// Attributes that only root can set are recorded as `rsync --fake-super` does.
    fakes: bool,
    /// Reading does not change access times.
    keeps_atimes: bool,
    /// Which links on the way to a directory that the user names are followed.
    links: Links,
}

impl LocalTree {
    /// Without faked attributes, and with all links on the way followed.
    pub const PLAIN: Self = Self { fakes: false, keeps_atimes: false, links: Links::All };

    fn dir(&self, dir: Dir) -> Arc<dyn TreeDir> {
        let dir = if self.fakes { dir.faking() } else { dir };
        Arc::new(LocalDir::new(if self.keeps_atimes { dir.keeping_atimes() } else { dir }))
    }
}

impl Tree for LocalTree {
    fn open(&self, path: &[u8]) -> io::Result<Arc<dyn TreeDir>> {
        let path = Path::new(OsStr::from_bytes(path));
        Ok(self.dir(retry_open(|| Dir::open_named(path, self.links))?))
    }

    fn open_for_search(&self, path: &[u8], _: Option<&Name>) -> io::Result<Arc<dyn TreeDir>> {
        let path = Path::new(OsStr::from_bytes(path));
        Ok(self.dir(retry_open(|| Dir::open_named_for_search(path, self.links))?))
    }

    fn absolute_path(&self, path: &[u8]) -> io::Result<Vec<u8>> {
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

/// The file systems of this machine. `links` are the links that are followed on the way to
/// directories that the user names. With `fakes`, attributes that only root can set are recorded as
/// `rsync --fake-super` does. With `keeps_atimes`, reading does not change access times.
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
