//! Finds directories below a root that no link may lead out of. The links may be untrusted: a list
//! of paths may come from someone else, and anyone may have made links at a destination.

use crate::dirs::DirNode;
use haul_model::{Fault, FaultKind, Name, Side};
use haul_tree::{Meta, MetaKind};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

/// The most links that are followed on one path, as in Linux.
const LINKS_MAX: usize = 40;

/// A root directory.
pub(crate) struct Beneath {
    root: Arc<DirNode>,
    /// Links are followed anywhere, because the user asked for that.
    is_free: bool,
}

/// Opens the target of the symbolic link `name` of `above`, under the link's own name. The target
/// must be a directory below the root of `above`. Returns it also under its own name.
///
/// # Errors
/// The reason why there is none; [`FaultKind::Link`] if it is outside the root.
pub(crate) fn follow(
    above: &Arc<DirNode>,
    name: &Name,
    side: Side,
) -> Result<[Arc<DirNode>; 2], Fault> {
    let mut names: Vec<Name> = Vec::new();
    let mut dir = above;
    while let Some((outer, name)) = dir.place() {
        names.push(name.clone());
        dir = outer;
    }
    names.reverse();
    names.push(name.clone());
    let found = resolve(dir, &names, side)?;
    // Opened by its own name, which is shown and filtered. It must be the same directory.
    let opened = open(above, name, true, side)?;
    match opened.id().is_some() && opened.id() == found.id() {
        true => Ok([opened, found]),
        false => Err(elsewhere(side)),
    }
}

impl Beneath {
    pub(crate) fn new(root: Arc<DirNode>, is_free: bool) -> Self {
        Self { root, is_free }
    }

    /// The directory `name` of `above`, which is below the root. If it is a link and `follow` is
    /// set, its target must be below the root too.
    ///
    /// # Errors
    /// The reason why there is none; [`FaultKind::Link`] if it is outside the root.
    pub(crate) fn open(
        &self,
        above: &Arc<DirNode>,
        name: &Name,
        follow: bool,
    ) -> Result<Arc<DirNode>, Fault> {
        if self.is_free || !follow || look_up(above, name, Side::Source)? != MetaKind::Symlink {
            return open(above, name, self.is_free, Side::Source);
        }
        self::follow(above, name, Side::Source).map(|[opened, _]| opened)
    }

    /// The directory at the path `names` below the root.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(crate) fn find(&self, names: &[Name]) -> Result<Arc<DirNode>, Fault> {
        if !self.is_free {
            return resolve(&self.root, names, Side::Source);
        }
        let below = |dir: Arc<DirNode>, name| open(&dir, name, true, Side::Source);
        names.iter().try_fold(Arc::clone(&self.root), below)
    }
}

/// The directory at the path `names` below `first`. Links are resolved here, not by the system.
fn resolve(first: &Arc<DirNode>, names: &[Name], side: Side) -> Result<Arc<DirNode>, Fault> {
    let mut dirs = vec![Arc::clone(first)];
    let mut left: VecDeque<Vec<u8>> = names.iter().map(|name| name.as_bytes().to_vec()).collect();
    let mut links = 0;
    while let Some(part) = left.pop_front() {
        let dir = dirs.last().expect("the first stays");
        match &*part {
            b"" | b"." => continue,
            b".." if dirs.len() > 1 => {
                dirs.pop();
                continue;
            }
            b".." => return Err(elsewhere(side)),
            _ => {}
        }
        let name = Name::new(&part)
            .map_err(|error| Fault::new(side, FaultKind::TooLong, error.to_string()))?;
        if look_up(dir, &name, side)? != MetaKind::Symlink {
            let below = open(dir, &name, false, side)?;
            dirs.push(below);
            continue;
        }
        links += 1;
        let target = dir.handle().and_then(|dir| dir.read_link(&name));
        let target = target.map_err(|error| not_opened(&error, side))?;
        if links > LINKS_MAX || target.starts_with(b"/") {
            return Err(elsewhere(side));
        }
        let parts: Vec<_> = target.split(|byte| *byte == b'/').map(<[u8]>::to_vec).collect();
        parts.into_iter().rev().for_each(|part| left.push_front(part));
    }
    Ok(dirs.pop().expect("the first stays"))
}

fn open(
    above: &Arc<DirNode>,
    name: &Name,
    follow: bool,
    side: Side,
) -> Result<Arc<DirNode>, Fault> {
    DirNode::open(above, name.clone(), follow).map_err(|error| not_opened(&error, side))
}

fn look_up(dir: &Arc<DirNode>, name: &Name, side: Side) -> Result<MetaKind, Fault> {
    match dir.handle().and_then(|handle| handle.stat(name, false)) {
        Ok(Some(Meta { kind, .. })) => Ok(kind),
        Ok(None) => Err(Fault::missing(side)),
        Err(error) => Err(Fault::from_io(side, "read its metadata", &error)),
    }
}

fn not_opened(error: &io::Error, side: Side) -> Fault {
    Fault::from_io(side, "open the directory", error)
}

fn elsewhere(side: Side) -> Fault {
    let message = match side {
        Side::Source => "a symbolic link on its path points outside the directory of the list",
        Side::Destination => {
            "a symbolic link there points outside the destination, or has an absolute target"
        }
    };
    Fault::new(side, FaultKind::Link, message)
}
