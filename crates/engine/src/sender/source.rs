//! A source that the user named: its location, and its name at the destination.

use crate::dirs::{DirNode, OpenDirs};
use haul_model::{Fault, FaultKind, Name, OrFault, Side, words};
use haul_tree::{Tree, TreeDir};
use std::io;
use std::sync::Arc;

/// A source that was found.
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
    /// A directory without a name of its own: `.`, `..` or `/`. Its entries are copied directly
    /// into the destination.
    Whole(Arc<DirNode>),
}

impl Source {
    /// Finds the source at `path` of `tree`. If the job `removes` sources, `dir/` and `dir/.` name
    /// the directory `dir` and never follow a link: a link may have replaced it since it was
    /// copied.
    ///
    /// # Errors
    /// When the path can't be opened, or a name in it is too long.
    pub(crate) fn find(
        tree: &dyn Tree,
        path: &[u8],
        removes: bool,
        open: &Arc<OpenDirs>,
    ) -> Result<Self, Fault> {
        let named = if removes { words::without_dot(path) } else { path };
        let split = words::split(named);
        let Some(name) = split.name else {
            return Ok(Self::Whole(root(tree.open(split.whole), open)?));
        };
        let name = Name::new(name)
            .map_err(|error| Fault::new(Side::Source, FaultKind::TooLong, error.to_string()))?;
        let dir = root(tree.open_for_search(split.parent, Some(&name)), open)?;
        if named.len() < path.len() {
            let whole = dir.handle().and_then(|dir| dir.open_dir(&name, false));
            return Ok(Self::Whole(root(whole, open)?));
        }
        Ok(Self::Named { dir, name, follow: split.slash && !removes })
    }
}

fn root(opened: io::Result<Arc<dyn TreeDir>>, open: &Arc<OpenDirs>) -> Result<Arc<DirNode>, Fault> {
    opened.and_then(|dir| DirNode::root(dir, None, open)).or_fault(Side::Source, "open")
}
