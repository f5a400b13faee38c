//! Removes what copies have left behind: walks one tree, for which nobody else
//! is needed, and so is no job of two roles.

use crate::dirs::{DirNode, OpenDirs};
use haul_model::words;
use haul_model::{Fault, FaultKind, MAX_DEPTH, Name, Side};
use haul_store::Cleaned;
use haul_sys::Dir;
use haul_tree::{LocalDir, TreeDir};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// What is removed, and where.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CleanRules {
    /// Also in all directories below.
    pub recursive: bool,
    /// Also what could be continued.
    pub all: bool,
    /// Nothing is removed, all is told.
    pub dry_run: bool,
}

/// What is found while cleaning.
#[derive(Debug)]
pub enum CleanEvent<'a> {
    /// A leftover, and what became of it.
    Found {
        /// The directory that it is in, relative to the one that was named, raw;
        /// `.` for that one itself.
        dir: &'a [u8],
        /// The leftover.
        cleaned: &'a Cleaned,
    },
    /// Something can't be looked at or removed.
    Failed {
        /// Its path, relative to the directory that was named, raw.
        path: &'a [u8],
        /// Why.
        fault: &'a Fault,
    },
}

/// Cleans the directory at `path`, and tells `each` what it finds. Symbolic
/// links below it are not followed.
///
/// # Errors
/// When the directory itself can't be opened.
pub fn clean(
    path: &[u8],
    rules: CleanRules,
    each: &mut dyn FnMut(CleanEvent<'_>),
) -> Result<(), Fault> {
    let whole = words::split(path).whole;
    let root = Dir::open(Path::new(OsStr::from_bytes(whole)))
        .and_then(|dir| {
            DirNode::root(Arc::new(LocalDir::new(dir)), None, &Arc::<OpenDirs>::default())
        })
        .map_err(|error| fault("open the directory", &error))?;
    let mut levels = vec![visit(root, rules, each)];
    loop {
        let is_deepest = levels.len() > MAX_DEPTH;
        let Some((node, subdirs)) = levels.last_mut() else { return Ok(()) };
        let Some(name) = subdirs.next() else {
            levels.pop();
            continue;
        };
        let path = node.path_of(Some(&name));
        if is_deepest {
            let message = format!("the tree is deeper than {MAX_DEPTH} directories");
            let fault = Fault::new(Side::Source, FaultKind::TooLong, message);
            each(CleanEvent::Failed { path: &path, fault: &fault });
            continue;
        }
        let node = Arc::clone(node);
        match DirNode::open(&node, name, false) {
            Ok(node) => levels.push(visit(node, rules, each)),
            // A link, or gone since the directory was read: nothing to look into.
            Err(error) if is_no_directory(&error) => {}
            Err(error) => each(CleanEvent::Failed {
                path: &path,
                fault: &fault("open the directory", &error),
            }),
        }
    }
}

/// A directory on the way down, with those in it still to visit.
type Level = (Arc<DirNode>, std::vec::IntoIter<Name>);

/// Cleans one directory, and gives those in it if they are to be visited.
fn visit(node: Arc<DirNode>, rules: CleanRules, each: &mut dyn FnMut(CleanEvent<'_>)) -> Level {
    let path = node.path_of(None);
    let looked = node.handle().and_then(|handle| {
        handle.clean(rules.all, rules.dry_run, &mut |name, cleaned| match cleaned {
            Ok(cleaned) => each(CleanEvent::Found { dir: &path, cleaned: &cleaned }),
            Err(error) => {
                let fault = Fault::from_io(Side::Destination, "remove it", &error);
                each(CleanEvent::Failed { path: &join(&path, name), fault: &fault });
            }
        })?;
        if rules.recursive { subdirs(&*handle) } else { Ok(Vec::new()) }
    });
    let subdirs = looked.unwrap_or_else(|error| {
        each(CleanEvent::Failed { path: &path, fault: &fault("read the directory", &error) });
        Vec::new()
    });
    (node, subdirs.into_iter())
}

/// The directories in `dir`; where the listing doesn't tell what an entry is,
/// opening it will.
fn subdirs(dir: &dyn TreeDir) -> io::Result<Vec<Name>> {
    let entries = dir.entries()?.into_iter();
    Ok(entries.filter(|entry| entry.is_dir != Some(false)).map(|entry| entry.name).collect())
}

/// `name` in the directory at `path`.
fn join(path: &[u8], name: &[u8]) -> Vec<u8> {
    if path == b"." { name.to_vec() } else { [path, b"/", name].concat() }
}

fn is_no_directory(error: &io::Error) -> bool {
    matches!(FaultKind::of(error), FaultKind::NotDirectory | FaultKind::NotFound | FaultKind::Link)
}

fn fault(action: &str, error: &io::Error) -> Fault {
    Fault::from_io(Side::Source, action, error)
}
