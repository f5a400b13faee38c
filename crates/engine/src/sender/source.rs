//! A source that the user named: where it is, and under which name it travels.

use crate::dirs::{DirNode, OpenDirs};
use crate::tree::{Tree, TreeDir};
use crate::words;
use haul_model::{Fault, FaultKind, Name, Side};
use std::io;
use std::sync::Arc;

/// A source, found.
pub(crate) enum Source {
    /// An entry of a directory, under its own name.
    Named {
        /// The directory that holds it, not shown.
        dir: Arc<DirNode>,
        /// Its name there.
        name: Name,
        /// A symbolic link is followed: the path ended with a slash.
        follow: bool,
    },
    /// A directory without a name of its own: `.`, `..` or `/`. Its content
    /// goes straight into the destination.
    Whole(Arc<DirNode>),
}

impl Source {
    /// Finds the source at `path` of `tree`.
    ///
    /// # Errors
    /// What is wrong with the path.
    pub(crate) fn find(tree: &dyn Tree, path: &[u8], open: &Arc<OpenDirs>) -> Result<Self, Fault> {
        let split = words::split(path);
        let Some(name) = split.name else {
            return Ok(Self::Whole(root(tree.open(split.whole), open)?));
        };
        let name = Name::new(name)
            .map_err(|error| Fault::new(Side::Source, FaultKind::TooLong, error.to_string()))?;
        let dir = root(tree.open_around(split.parent, &name), open)?;
        Ok(Self::Named { dir, name, follow: split.slash })
    }
}

fn root(opened: io::Result<Arc<dyn TreeDir>>, open: &Arc<OpenDirs>) -> Result<Arc<DirNode>, Fault> {
    opened
        .and_then(|dir| DirNode::root(dir, None, open))
        .map_err(|error| Fault::from_io(Side::Source, "open", &error))
}
