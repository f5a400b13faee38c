//! The same file systems, where attributes that only root can give are written down beside the
//! entries, or no link of another user leads to a directory that is named.

use super::{LocalDir, LocalTree};
use crate::room::with_room;
use crate::{Tree, TreeDir};
use haul_sys::{Dir, Links};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// The file systems of this machine.
#[derive(Debug)]
struct OtherTree {
    /// Attributes are kept there as `rsync --fake-super` does it.
    fakes: bool,
    /// The links that lead to the directories that users name.
    links: Links,
}

impl OtherTree {
    fn dir(&self, dir: Dir) -> Arc<dyn TreeDir> {
        Arc::new(LocalDir::new(if self.fakes { dir.faking() } else { dir }))
    }
}

impl Tree for OtherTree {
    fn open(&self, path: &[u8]) -> io::Result<Arc<dyn TreeDir>> {
        let path = Path::new(OsStr::from_bytes(path));
        Ok(self.dir(with_room(|| Dir::open_named(path, self.links))?))
    }

    fn open_to_enter(&self, path: &[u8]) -> io::Result<Arc<dyn TreeDir>> {
        let path = Path::new(OsStr::from_bytes(path));
        Ok(self.dir(with_room(|| Dir::open_named_to_enter(path, self.links))?))
    }

    fn whole_path(&self, path: &[u8]) -> io::Result<Vec<u8>> {
        LocalTree.whole_path(path)
    }
}

/// The file systems of this machine, with the `links` that lead to the directories that users
/// name. If it `fakes`, attributes that only root can give are written down and read as
/// `rsync --fake-super` does it.
pub fn local_tree(fakes: bool, links: Links) -> &'static dyn Tree {
    match (fakes, links) {
        (false, Links::All) => &LocalTree,
        (false, Links::Own) => &OtherTree { fakes: false, links: Links::Own },
        (true, Links::All) => &OtherTree { fakes: true, links: Links::All },
        (true, Links::Own) => &OtherTree { fakes: true, links: Links::Own },
    }
}
