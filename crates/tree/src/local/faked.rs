//! The same file systems, with attributes that only root can give written down beside the
//! entries.

use super::{LocalDir, LocalTree};
use crate::room::with_room;
use crate::{Tree, TreeDir};
use haul_sys::Dir;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// The file systems of this machine, where `rsync --fake-super` keeps such attributes.
#[derive(Debug)]
struct FakedTree;

impl Tree for FakedTree {
    fn open(&self, path: &[u8]) -> io::Result<Arc<dyn TreeDir>> {
        let dir = with_room(|| Dir::open(Path::new(OsStr::from_bytes(path))))?;
        Ok(Arc::new(LocalDir::new(dir.faking())))
    }

    fn open_to_enter(&self, path: &[u8]) -> io::Result<Arc<dyn TreeDir>> {
        let dir = with_room(|| Dir::open_to_enter(Path::new(OsStr::from_bytes(path))))?;
        Ok(Arc::new(LocalDir::new(dir.faking())))
    }

    fn whole_path(&self, path: &[u8]) -> io::Result<Vec<u8>> {
        LocalTree.whole_path(path)
    }
}

/// The file systems of this machine. If it `fakes`, attributes that only root can give are
/// written down and read as `rsync --fake-super` does it.
pub fn local_tree(fakes: bool) -> &'static dyn Tree {
    if fakes { &FakedTree } else { &LocalTree }
}
