//! Finds directories below one that nothing may lead out of: a list of paths may be another's
//! than the tree, and a link in that may point anywhere.

use crate::dirs::DirNode;
use crate::walk::look_up;
use haul_model::{Fault, FaultKind, Name, Side};
use haul_tree::MetaKind;
use std::collections::VecDeque;
use std::sync::Arc;

/// Links that are followed on one way, at most; as many as Linux does.
const LINKS_MAX: usize = 40;

/// The directory.
pub(super) struct Beneath {
    root: Arc<DirNode>,
    /// Links are followed wherever they lead: that was asked for.
    is_free: bool,
}

impl Beneath {
    pub(super) fn new(root: Arc<DirNode>, is_free: bool) -> Self {
        Self { root, is_free }
    }

    /// The directory `name` of `above`, which is below the first. If that is a link, it may
    /// lead to what is below it, too, where `follow` says so.
    ///
    /// # Errors
    /// Why there is none, [`FaultKind::Link`] where it is elsewhere.
    pub(super) fn open(
        &self,
        above: &Arc<DirNode>,
        name: &Name,
        follow: bool,
    ) -> Result<Arc<DirNode>, Fault> {
        let open = |follow| {
            DirNode::open(above, name.clone(), follow)
                .map_err(|error| Fault::from_io(Side::Source, "open the directory", &error))
        };
        let is_link = || look_up(above, name, false).map(|meta| meta.kind == MetaKind::Symlink);
        if self.is_free || !follow || !is_link()? {
            return open(self.is_free);
        }
        let mut names: Vec<Name> = Vec::new();
        let mut dir = above;
        while let Some((outer, name)) = dir.place() {
            names.push(name.clone());
            dir = outer;
        }
        names.reverse();
        names.push(name.clone());
        let found = self.resolve(dir, &names)?;
        // By its own name, so that it is shown and selected by that; and no other.
        let opened = open(true)?;
        match opened.id().is_some() && opened.id() == found.id() {
            true => Ok(opened),
            false => Err(elsewhere()),
        }
    }

    /// The directory at the end of these `names` below the first.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(super) fn find(&self, names: &[Name]) -> Result<Arc<DirNode>, Fault> {
        if !self.is_free {
            return self.resolve(&self.root, names);
        }
        names.iter().try_fold(Arc::clone(&self.root), |dir, name| {
            DirNode::open(&dir, name.clone(), true)
                .map_err(|error| Fault::from_io(Side::Source, "open the directory", &error))
        })
    }

    /// The same from the directory `first`, which is the first, or was found below it. No
    /// link is left to the system.
    fn resolve(&self, first: &Arc<DirNode>, names: &[Name]) -> Result<Arc<DirNode>, Fault> {
        let mut dirs = vec![Arc::clone(first)];
        let mut left: VecDeque<Vec<u8>> =
            names.iter().map(|name| name.as_bytes().to_vec()).collect();
        let mut links = 0;
        while let Some(part) = left.pop_front() {
            let dir = dirs.last().expect("the first stays");
            match &*part {
                b"" | b"." => continue,
                b".." if dirs.len() > 1 => {
                    dirs.pop();
                    continue;
                }
                b".." => return Err(elsewhere()),
                _ => {}
            }
            let name = Name::new(&part)
                .map_err(|error| Fault::new(Side::Source, FaultKind::TooLong, error.to_string()))?;
            let failed = |error| Fault::from_io(Side::Source, "open the directory", &error);
            if look_up(dir, &name, false)?.kind != MetaKind::Symlink {
                let below = DirNode::open(dir, name, false).map_err(failed)?;
                dirs.push(below);
                continue;
            }
            links += 1;
            let target = dir.handle().and_then(|dir| dir.read_link(&name)).map_err(failed)?;
            if links > LINKS_MAX || target.starts_with(b"/") {
                return Err(elsewhere());
            }
            let parts: Vec<_> = target.split(|byte| *byte == b'/').map(<[u8]>::to_vec).collect();
            parts.into_iter().rev().for_each(|part| left.push_front(part));
        }
        Ok(dirs.pop().expect("the first stays"))
    }
}

fn elsewhere() -> Fault {
    let message = "a symbolic link on the way leads out of the directory that the list is for";
    Fault::new(Side::Source, FaultKind::Link, message)
}
