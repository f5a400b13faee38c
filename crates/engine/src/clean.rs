//! Removes leftovers of interrupted copies. It needs one tree only, so it is not a job with two
//! roles. It does not use `walk`, which inspects every entry ahead and by a job's rules: only
//! haul's own names and subdirectories matter here.

use crate::dirs::{DirNode, OpenDirs};
use haul_model::{Fault, FaultKind, MAX_DEPTH, Name, Side, words};
use haul_store::{Cleaned, Fate};
use haul_sys::Dir;
use haul_tree::{LocalDir, TreeDir};
use std::io;
use std::ops::AddAssign;
use std::sync::Arc;

/// The rules of cleaning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CleanRules {
    /// Includes all directories below.
    pub recursive: bool,
    /// Includes leftovers that could be resumed.
    pub all: bool,
    /// Nothing is removed, but everything is reported.
    pub dry_run: bool,
}

/// An event of cleaning.
#[derive(Debug)]
#[expect(missing_docs, reason = "the variants describe their fields")]
pub enum CleanEvent<'a> {
    /// A leftover, and its fate.
    ///
    /// - `dir`: the directory that contains it, relative to the named directory, raw; `.` for the
    ///   named directory itself.
    /// - `cleaned`: the leftover.
    Found { dir: &'a [u8], cleaned: &'a Cleaned },
    /// An entry can't be inspected or removed.
    ///
    /// - `path`: its path, relative to the named directory, raw; `.` for the named directory
    ///   itself.
    /// - `fault`: the reason.
    Failed { path: &'a [u8], fault: &'a Fault },
}

/// The figures of cleaning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CleanSummary {
    /// Leftovers that were removed, or would be in a dry run.
    pub removed: LeftoverTotal,
    /// Leftovers that stay because they can be resumed.
    pub kept: LeftoverTotal,
    /// Old files that stay because they are the only copies.
    pub only_copies: LeftoverTotal,
    /// Leftovers that stay because another process uses them.
    pub busy: LeftoverTotal,
    /// Leftovers that stay because another process may be using them.
    pub recent: LeftoverTotal,
}

/// Leftovers with the same fate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LeftoverTotal {
    /// How many there are.
    pub count: u64,
    /// The storage that they use, in bytes.
    pub bytes: u64,
}

impl CleanSummary {
    fn count(&mut self, cleaned: &Cleaned) {
        let stages = match cleaned.fate {
            Fate::Removed | Fate::WouldRemove => &mut self.removed,
            Fate::Kept => &mut self.kept,
            Fate::OnlyCopy => &mut self.only_copies,
            Fate::Busy => &mut self.busy,
            Fate::Recent => &mut self.recent,
        };
        *stages += LeftoverTotal { count: 1, bytes: cleaned.bytes };
    }
}

impl AddAssign for CleanSummary {
    fn add_assign(&mut self, more: Self) {
        self.removed += more.removed;
        self.kept += more.kept;
        self.only_copies += more.only_copies;
        self.busy += more.busy;
        self.recent += more.recent;
    }
}

impl AddAssign for LeftoverTotal {
    fn add_assign(&mut self, more: Self) {
        self.count += more.count;
        self.bytes += more.bytes;
    }
}

/// Cleans the directory at `path`, reports to `each`, and returns the figures. Symbolic links below
/// it are not followed.
pub fn clean(path: &[u8], rules: CleanRules, each: &mut dyn FnMut(CleanEvent<'_>)) -> CleanSummary {
    let mut summary = CleanSummary::default();
    let counted = &mut |event: CleanEvent<'_>| {
        if let CleanEvent::Found { cleaned, .. } = event {
            summary.count(cleaned);
        }
        each(event);
    };
    if let Err(fault) = walk(path, rules, counted) {
        counted(CleanEvent::Failed { path: b".", fault: &fault });
    }
    summary
}

/// # Errors
/// When the directory itself can't be opened.
fn walk(path: &[u8], rules: CleanRules, each: &mut dyn FnMut(CleanEvent<'_>)) -> Result<(), Fault> {
    let whole = words::split(path).whole;
    let root = Dir::open_raw(whole)
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
            // It is a link, or was removed since the directory was read.
            Err(error) if is_no_directory(&error) => {}
            Err(error) => each(CleanEvent::Failed {
                path: &path,
                fault: &fault("open the directory", &error),
            }),
        }
    }
}

/// A directory on the current path, with its subdirectories that are still to visit.
type Level = (Arc<DirNode>, std::vec::IntoIter<Name>);

/// Cleans one directory. Returns its subdirectories if they must be visited.
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

/// The possible subdirectories of `dir`. If the listing does not report an entry's kind, opening it
/// will show it.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leftovers_are_counted_by_their_fate() {
        let mut once = CleanSummary::default();
        use Fate::{Busy, Kept, OnlyCopy, Recent, Removed, WouldRemove};
        let fates = [Removed, WouldRemove, Kept, Busy, Recent, OnlyCopy];
        for (fate, bytes) in fates.into_iter().zip([1, 2, 4, 8, 16, 32]) {
            let name = "x".to_owned();
            once.count(&Cleaned { name, bytes, target: None, progress: None, fate });
        }
        let mut twice = once;
        twice += once;
        let stages = |count, bytes| LeftoverTotal { count, bytes };
        let expected = CleanSummary {
            removed: stages(4, 6),
            kept: stages(2, 8),
            only_copies: stages(2, 64),
            busy: stages(2, 16),
            recent: stages(2, 32),
        };
        assert_eq!(twice, expected);
    }

    #[test]
    fn a_missing_directory_is_reported_as_itself() {
        let mut warnings = Vec::new();
        let summary = clean(b"/no/such/directory", CleanRules::default(), &mut |event| {
            let CleanEvent::Failed { path, fault } = event else { panic!("{event:?}") };
            warnings.push((path.to_vec(), fault.kind));
        });
        assert_eq!(warnings, [(b".".to_vec(), FaultKind::NotFound)]);
        assert_eq!(summary, CleanSummary::default());
    }
}
