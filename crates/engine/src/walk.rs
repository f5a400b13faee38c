//! Reads the directories of a source ahead of the walk.
//!
//! Helpers read whole directories with the metadata of their entries, roughly in the order of the
//! walk. The walk takes each in its turn, waits for one that is being read, and reads one that was
//! not started. So it works without helpers, and never waits without progress.

mod bounds;
mod dir_pool;
mod merged;

use self::dir_pool::{DirPool, ListPool};
use crate::control::{CANCEL_POLL, Control};
use crate::dirs::{DirNode, Selection};
use crate::parked;
use crate::prefetch::Prefetched;
use haul_model::{Fault, FaultKind, FileId, Filter, FollowedLinks, Name, Side, Walking, links};
use haul_tree::{Meta, MetaKind, TreeEntry};
pub(crate) use merged::{Depth, Layer, Merged, NamedFile, NamedPlace};
use parking_lot::{Condvar, Mutex};
use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::{Arc, OnceLock};

/// The most entries in directories read ahead. Beyond this, no further directory is started.
const ENTRIES_AHEAD_MAX: usize = 8192;

/// The most directories read ahead. Each may hold a handle.
const DIRS_AHEAD_MAX: usize = 32;

/// Directories read ahead, beyond which helpers have time to look up the destination too. Builds
/// for tests always do, because their trees are small.
const DIRS_AHEAD_ENOUGH: usize = if cfg!(debug_assertions) { 0 } else { DIRS_AHEAD_MAX / 4 };

/// Entries of one directory that a helper inspects. The walk inspects the others, so that a large
/// directory is listed while it is inspected.
const INSPECTED_MAX: usize = 2048;

/// The directories of a walk, with their rules and order.
pub(crate) struct Walk<'w> {
    rules: Rules<'w>,
    state: Mutex<WalkState>,
    /// Notified when a directory can be read ahead.
    upcoming: Condvar,
    /// Notified when the directory that the walk waits for was read.
    read_one: Condvar,
}

/// The rules for all directories of a walk.
pub(crate) struct Rules<'w> {
    /// Ends all waits when the job ends early.
    pub(crate) control: &'w Control<'w>,
    /// Symbolic links are followed.
    pub(crate) follow: bool,
    /// Entries that a killed move has set aside get their names back.
    pub(crate) restores_sources: bool,
    /// The destination and the directories that contain it.
    pub(crate) dest_lineage: &'w [FileId],
    /// The filter. Excluded directories are not read.
    pub(crate) filter: &'w Filter,
    /// The rules about directories.
    pub(crate) walking: Walking,
    /// Parent directories of sources are listed with their attributes.
    pub(crate) lists_implied_dirs: bool,
    /// Looks up entries at the destination ahead of the listing, if possible.
    pub(crate) prefetch: &'w Prefetch<'w>,
}

/// Looks up a directory at the destination, given the number of its parent, its name and its
/// entries.
pub(crate) type Prefetch<'w> = dyn Fn(u64, &Name, &[Found]) -> Option<Prefetched> + Sync + 'w;

/// The subdirectories of one place, by name in the order of the walk.
pub(crate) struct Subdirs {
    merged: Merged,
    names: Vec<Name>,
    /// The layers that contain each of them. Empty if nothing was merged: then it is the only
    /// layer.
    from: Vec<Vec<usize>>,
    number: u64,
    /// The number under which their parent directory was listed.
    listed_as: OnceLock<u64>,
}

/// A directory that was read.
pub(crate) struct PlaceListing {
    /// The directory whose attributes are used; `None` for a place that is not itself in any
    /// source.
    pub(crate) node: Option<Arc<DirNode>>,
    /// It is a parent directory of a source, and only its name is listed.
    pub(crate) is_implied_dir: bool,
    /// The entries except subdirectories.
    pub(crate) entries: Vec<Found>,
    /// Names of sources that do not exist and must be removed at the destination.
    pub(crate) missing: Vec<Name>,
    /// The reasons why it could not be read completely.
    pub(crate) faults: Vec<Fault>,
    /// By the rules, not all of its entries were read.
    pub(crate) is_closed: bool,
    pub(crate) subdirs: Arc<Subdirs>,
    /// See [`Rules::prefetch`].
    pub(crate) prefetched: Option<Prefetched>,
}

/// An entry of a directory.
pub(crate) struct Found {
    /// The directory.
    pub(crate) dir: Arc<DirNode>,
    pub(crate) name: Name,
    /// The target, if it is a link and the listing contained it.
    pub(crate) target: Option<Vec<u8>>,
    /// Its metadata, or the reason why it is unknown; `None` if it was not inspected yet.
    pub(crate) inspected: Option<Result<Meta, Fault>>,
    /// Links are followed.
    pub(crate) follow: bool,
    /// It is a source itself.
    pub(crate) is_named: bool,
}

/// A directory, or the reason why it can't be walked.
type Read = Result<PlaceListing, Fault>;

#[derive(Default)]
struct WalkState {
    /// Subdirectories still to visit, the next ones last. Each has the number of those that were
    /// started.
    upcoming: Vec<(Arc<Subdirs>, usize)>,
    /// Directories that helpers are reading.
    begun: HashSet<Key>,
    /// Directories that helpers have read.
    read: HashMap<Key, Read>,
    /// Entries in `read`.
    entries: usize,
    /// The directory that the walk waits for.
    awaited: Option<Key>,
    emptied: ListPool,
    /// The number of waiting helpers.
    idle: usize,
    /// Numbers for [`Subdirs`].
    next_number: u64,
    is_over: bool,
}

/// Ends the helpers of a walk when it is dropped.
pub(crate) struct EndOnDrop<'e, 'w>(&'e Walk<'w>);

/// A directory: the number of its [`Subdirs`], and its index in them.
type Key = (u64, usize);

impl<'w> Walk<'w> {
    pub(crate) fn new(rules: Rules<'w>) -> Self {
        let (upcoming, read_one) = (Condvar::new(), Condvar::new());
        Self { rules, state: Mutex::default(), upcoming, read_one }
    }

    /// Reads the place in which the walk starts.
    pub(crate) fn begin(&self, merged: Merged) -> PlaceListing {
        let listed = self.list(merged);
        self.expect(&mut self.state.lock(), None, &listed.subdirs);
        listed
    }

    /// The directory number `at` of `subdirs`, which the walk has reached. Earlier ones are not
    /// needed any more.
    ///
    /// # Errors
    /// The reason why it can't be walked.
    pub(crate) fn take(&self, subdirs: &Subdirs, at: usize) -> Read {
        let key = (subdirs.number, at);
        let mut state = self.state.lock();
        loop {
            if let Some(read) = state.read.remove(&key) {
                state.entries -= weight(&read);
                self.wake_helper(&state);
                return read;
            }
            if !state.begun.contains(&key) {
                break;
            }
            if self.rules.control.stopped() {
                break;
            }
            state.awaited = Some(key);
            self.read_one.wait_for(&mut state, CANCEL_POLL);
            state.awaited = None;
        }
        let upcoming =
            state.upcoming.iter_mut().rev().find(|(one, _)| one.number == subdirs.number);
        if let Some((_, begun)) = upcoming {
            *begun = at + 1;
        }
        drop(state);
        let read = self.read(subdirs, at);
        if let Ok(listed) = &read {
            self.expect(&mut self.state.lock(), Some(subdirs.number), &listed.subdirs);
        }
        read
    }

    /// Ends the directory that contains `subdirs`. None of them is needed any more.
    pub(crate) fn leave(&self, subdirs: &Subdirs) {
        let mut state = self.state.lock();
        let mut left = vec![subdirs.number];
        while let Some(number) = left.pop() {
            state.upcoming.retain(|(one, _)| one.number != number);
            let unneeded: Vec<_> =
                state.read.extract_if(|(above, _), _| *above == number).map(|(_, r)| r).collect();
            for read in unneeded {
                state.entries -= weight(&read);
                left.extend(read.map(|listed| listed.subdirs.number));
            }
        }
    }

    /// Takes back an empty list for reuse.
    pub(crate) fn recycle(&self, emptied: Vec<Found>) {
        self.state.lock().emptied.keep(emptied);
    }

    /// Ends the walk and its helpers when the result is dropped.
    pub(crate) fn end_on_drop(&self) -> EndOnDrop<'_, 'w> {
        EndOnDrop(self)
    }

    /// Reads ahead until the walk has ended.
    pub(crate) fn help(&self) {
        let mut dir_pool = DirPool::default();
        let mut state = self.state.lock();
        while !state.is_over {
            let Some((subdirs, at)) = state.next() else {
                state.idle += 1;
                self.upcoming.wait(&mut state);
                state.idle -= 1;
                continue;
            };
            let key = (subdirs.number, at);
            state.begun.insert(key);
            let has_time = state.ahead() > DIRS_AHEAD_ENOUGH;
            drop(state);
            let mut read = self.read(&subdirs, at);
            if let (true, Ok(listed)) = (has_time, &mut read) {
                self.prefetch(&subdirs, at, listed);
            }
            if let Ok(listed) = &read {
                dir_pool.keep(listed);
            }
            state = self.state.lock();
            state.begun.remove(&key);
            if !state.upcoming.iter().any(|(one, _)| one.number == subdirs.number) {
                // The walk has left the directory meanwhile.
                continue;
            }
            if let Ok(listed) = &read {
                self.expect(&mut state, Some(subdirs.number), &listed.subdirs);
            }
            state.entries += weight(&read);
            state.read.insert(key, read);
            if state.awaited == Some(key) {
                self.read_one.notify_all();
            }
        }
    }

    /// Adds `subdirs` to the coming directories, immediately before the remaining ones of number
    /// `before`.
    fn expect(&self, state: &mut WalkState, before: Option<u64>, subdirs: &Arc<Subdirs>) {
        if subdirs.names.is_empty() {
            return;
        }
        let of_above = |(one, _): &(Arc<Subdirs>, usize)| Some(one.number) == before;
        let at = state.upcoming.iter().rposition(of_above).map_or(0, |at| at + 1);
        state.upcoming.insert(at, (Arc::clone(subdirs), 0));
        self.wake_helper(state);
    }

    /// Wakes an idle helper if there is enough room, so that it is not woken for each directory.
    fn wake_helper(&self, state: &WalkState) {
        if state.idle > 0 && state.ahead() <= DIRS_AHEAD_MAX / 2 {
            self.upcoming.notify_one();
        }
    }

    fn read(&self, subdirs: &Subdirs, at: usize) -> Read {
        let (merged, mut faults) = self.enter(subdirs, at)?;
        let mut listed = self.list(merged);
        listed.faults.append(&mut faults);
        Ok(listed)
    }

    fn prefetch(&self, subdirs: &Subdirs, at: usize, listed: &mut PlaceListing) {
        if let Some(above) = subdirs.listed_as.get() {
            listed.prefetched = (self.rules.prefetch)(*above, &subdirs.names[at], &listed.entries);
        }
    }

    fn next_number(&self) -> u64 {
        let mut state = self.state.lock();
        state.next_number += 1;
        state.next_number
    }

    /// Inspects the entries `found` in `layer`. Returns the names of directories separately.
    ///
    /// # Errors
    /// When the directory can be read but not searched.
    fn inspect_entries(
        &self,
        layer: &Layer,
        found: Vec<TreeEntry>,
        selection: &mut Selection<'_>,
    ) -> io::Result<(Vec<Found>, Vec<Name>)> {
        let (node, follow) = (&layer.node, self.rules.follow);
        let followed_links = self.rules.walking.followed_links;
        let emptied = self.state.lock().emptied.take();
        let (mut entries, mut names) = (emptied.unwrap_or_default(), Vec::new());
        entries.reserve(found.len());
        let of = |TreeEntry { name, target, .. }, inspected, follow| {
            let dir = Arc::clone(node);
            Found { dir, name, target, inspected, follow, is_named: false }
        };
        let handle = node.handle()?;
        for (at, mut entry) in found.into_iter().enumerate() {
            // The target of a link is known only after inspecting it.
            let may_lead = follow || followed_links.follows_any();
            let is_known = entry.is_dir.filter(|is_dir| *is_dir || !may_lead);
            if is_known.is_some_and(|is_dir| selection.excludes(&entry.name, is_dir)) {
                continue;
            }
            if entry.is_dir == Some(true) {
                if self.lists_dir(layer, &entry.name) {
                    names.push(entry.name);
                }
                continue;
            }
            let is_told = |meta: &Meta| !(follow && meta.kind == MetaKind::Symlink);
            let told = entry.meta.take().map(|meta| *meta).filter(is_told);
            if told.is_none() && at >= INSPECTED_MAX && entry.is_dir == Some(false) && !may_lead {
                entries.push(of(entry, None, follow));
                continue;
            }
            let inspected = match told {
                Some(meta) => Ok(Some(meta)),
                None => handle.stat(&entry.name, follow),
            };
            let (inspected, follow) = match &inspected {
                Ok(Some(meta))
                    if meta.kind == MetaKind::Symlink
                        && !follow
                        && followed_links.follows_any() =>
                {
                    match inspect_followed(
                        followed_links,
                        node,
                        &entry.name,
                        entry.target.as_deref(),
                    ) {
                        Ok(None) => (inspected, false),
                        Ok(there) => (Ok(there), true),
                        Err(fault) => {
                            entries.push(of(entry, Some(Err(fault)), true));
                            continue;
                        }
                    }
                }
                _ => (inspected, follow),
            };
            let is_dir = matches!(inspected, Ok(Some(Meta { kind: MetaKind::Dir, .. })));
            if is_known.is_none() && selection.excludes(&entry.name, is_dir) {
                continue;
            }
            match inspected {
                Ok(_) if is_dir && !self.lists_dir(layer, &entry.name) => {}
                Ok(_) if is_dir => names.push(entry.name),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied && !follow => {
                    return Err(error);
                }
                // A dangling link is inspected again when it is listed.
                Ok(None) => entries.push(of(entry, None, follow)),
                inspected => entries.push(of(entry, Some(found_or_fault(inspected)), follow)),
            }
        }
        Ok((entries, names))
    }

    fn entries(&self, node: &Arc<DirNode>) -> io::Result<Vec<TreeEntry>> {
        let handle = node.handle()?;
        let mut entries = handle.entries()?;
        entries.retain(|entry| !haul_store::is_batch(&entry.name));
        if self.rules.restores_sources {
            parked::restore(&*handle, &mut entries);
        }
        Ok(entries)
    }
}

impl Drop for EndOnDrop<'_, '_> {
    fn drop(&mut self) {
        self.0.state.lock().is_over = true;
        self.0.upcoming.notify_all();
    }
}

impl Rules<'_> {
    /// True if a symbolic link may lead to a directory of the walk.
    fn follows_to_dirs(&self) -> bool {
        self.follow || self.walking.followed_links.follows_any()
    }

    /// The reason why the directory `node`, found in `above`, can't be walked.
    fn obstacle(&self, above: &DirNode, node: &Arc<DirNode>) -> Option<Fault> {
        let id = node.id()?;
        if self.dest_lineage.first() == Some(&id) {
            return Some(into_itself());
        }
        (self.follows_to_dirs() && above.is_or_is_below(id)).then(|| {
            Fault::new(
                Side::Source,
                FaultKind::Link,
                "the symbolic link points to a directory above it",
            )
        })
    }
}

impl WalkState {
    /// Directories that were or are being read ahead.
    fn ahead(&self) -> usize {
        self.read.len() + self.begun.len()
    }

    /// The next directory to read ahead, if there is one and room for it.
    fn next(&mut self) -> Option<(Arc<Subdirs>, usize)> {
        if self.entries >= ENTRIES_AHEAD_MAX || self.ahead() >= DIRS_AHEAD_MAX {
            return None;
        }
        let is_left = |(subdirs, begun): &&mut (Arc<Subdirs>, usize)| *begun < subdirs.names.len();
        let (subdirs, begun) = self.upcoming.iter_mut().rev().find(is_left)?;
        *begun += 1;
        Some((Arc::clone(subdirs), *begun - 1))
    }
}

impl Subdirs {
    /// The directory that contains them, if there is one.
    pub(crate) fn above(&self) -> Option<&Arc<DirNode>> {
        self.merged.layers.first().map(|layer| &layer.node)
    }

    /// Records the number under which that directory was listed.
    pub(crate) fn listed_as(&self, index: u64) {
        let _ = self.listed_as.set(index);
    }

    /// Their names.
    pub(crate) fn names(&self) -> &[Name] {
        &self.names
    }
}

/// The number of entries of a directory read ahead.
fn weight(read: &Read) -> usize {
    read.as_ref().map_or(0, |listed| listed.entries.len())
}

/// Inspects `name` in `dir`.
///
/// # Errors
/// The reason why that fails: [`FaultKind::NotFound`] if no entry exists, [`FaultKind::Link`] for a
/// dangling link.
pub(crate) fn look_up(dir: &Arc<DirNode>, name: &Name, follow: bool) -> Result<Meta, Fault> {
    let inspected = found_or_fault(dir.handle().and_then(|handle| handle.stat(name, follow)));
    match inspected {
        Err(Fault { kind: FaultKind::NotFound, .. }) if follow => {
            let message = "it is a dangling symbolic link";
            look_up(dir, name, false)?;
            Err(Fault::new(Side::Source, FaultKind::Link, message))
        }
        inspected => inspected,
    }
}

fn found_or_fault(inspected: io::Result<Option<Meta>>) -> Result<Meta, Fault> {
    match inspected {
        Ok(Some(meta)) => Ok(meta),
        Ok(None) => Err(Fault::missing(Side::Source)),
        Err(error) => Err(Fault::from_io(Side::Source, "read its metadata", &error)),
    }
}

/// The fault of a directory that contains the destination.
pub(crate) fn into_itself() -> Fault {
    Fault::new(Side::Source, FaultKind::IntoItself, "the directory would be copied into itself")
}

#[cfg(test)]
mod tests;

/// The metadata of the target of the symbolic link `name` of `dir`, if the link is followed.
/// `target` is its target path, if known.
///
/// # Errors
/// The reason why its target can't be inspected.
pub(crate) fn inspect_followed(
    followed_links: FollowedLinks,
    dir: &Arc<DirNode>,
    name: &Name,
    target: Option<&[u8]>,
) -> Result<Option<Meta>, Fault> {
    let failed = |error: io::Error| Fault::from_io(Side::Source, "read its metadata", &error);
    let handle = dir.handle().map_err(failed)?;
    if followed_links.to_dirs
        && let Ok(Some(there)) = handle.stat(name, true)
        && there.kind == MetaKind::Dir
    {
        return Ok(Some(there));
    }
    if !followed_links.out {
        return Ok(None);
    }
    let read;
    let target = match target {
        Some(target) => target,
        None => {
            read = handle.read_link(name).map_err(failed)?;
            &*read
        }
    };
    if !links::leads_out(target, dir.depth()) {
        return Ok(None);
    }
    match handle.stat(name, true).map_err(failed)? {
        Some(there) => Ok(Some(there)),
        None => Err(Fault::new(Side::Source, FaultKind::Link, "the symbolic link is dangling")),
    }
}
