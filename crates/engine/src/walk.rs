//! Directories of a source, read before the walk comes to them.
//!
//! Helpers read whole directories with the metadata of their entries, in about the
//! order in which the walk needs them; the walk itself takes each in its turn, waits
//! for one that is being read, and reads one that nobody has begun. So it needs no
//! helper, and waits for nothing that does not make progress.

mod bounds;
pub(crate) mod led;
mod made;
mod merged;

pub(crate) use merged::{Depth, Layer, Merged, NamedFile, Spot};

use self::made::{Emptied, Made};
use crate::aside;
use crate::control::{CANCEL_POLL, Control};
use crate::dirs::{DirNode, Selection};
use crate::prefetch::Prefetched;
use haul_model::{Fault, FaultKind, FileId, Filter, Name, Side, Walking};
use haul_tree::{Meta, MetaKind, TreeEntry};
use parking_lot::{Condvar, Mutex};
use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::{Arc, OnceLock};

/// Entries of directories that were read and not needed yet, beyond which none is begun.
const ENTRIES_AHEAD_MAX: usize = 8192;

/// Directories that were read and not needed yet, at most: each may hold a handle.
const DIRS_AHEAD_MAX: usize = 32;

/// Directories that were read and not needed yet, beyond which the walk is behind: helpers
/// then look at the destination too. Builds for tests always do: their trees are small.
const DIRS_AHEAD_ENOUGH: usize = if cfg!(debug_assertions) { 0 } else { DIRS_AHEAD_MAX / 4 };

/// Entries of one directory that a helper looks at. The walk looks at the others, so
/// that a large directory is listed while it is looked at.
const LOOKED_AT_MAX: usize = 2048;

/// How directories are read, and the order in which they are needed.
pub(crate) struct Walk<'w> {
    rules: Rules<'w>,
    state: Mutex<State>,
    /// Something is to be read ahead.
    coming: Condvar,
    /// The directory that the walk waits for was read.
    read_one: Condvar,
}

/// Rules for all directories of a walk.
pub(crate) struct Rules<'w> {
    /// The job's course: nobody waits for others when it ends early.
    pub(crate) control: &'w Control<'w>,
    /// Symbolic links are followed.
    pub(crate) follow: bool,
    /// Entries that a killed move has set aside get their names back.
    pub(crate) restores: bool,
    /// Directories that hold the destination, itself first.
    pub(crate) around_dest: &'w [FileId],
    /// The rules; of a directory that they leave out nothing is read.
    pub(crate) filter: &'w Filter,
    /// The rules about directories.
    pub(crate) walking: Walking,
    /// Directories on the way to a source have their attributes told.
    pub(crate) tells_ways: bool,
    /// Looks at the destination in place of the one who lists, if that can be done.
    pub(crate) prefetch: &'w Prefetch<'w>,
}

/// Looks at the place of a directory at the destination, given its name and its entries; the
/// number is that of the directory above.
pub(crate) type Prefetch<'w> = dyn Fn(u64, &Name, &[Found]) -> Option<Prefetched> + Sync + 'w;

/// The subdirectories of one place, by their names in the order of the walk.
pub(crate) struct Subdirs {
    merged: Merged,
    names: Vec<Name>,
    /// The layers that have each of them; where nothing was merged, that is the only one.
    from: Vec<Vec<usize>>,
    number: u64,
    /// The number under which the directory that they are in was listed.
    listed_as: OnceLock<u64>,
}

/// A place that was looked at.
pub(crate) struct PlaceListing {
    /// The directory whose attributes count; `None` where sources have places in one that
    /// is none of them.
    pub(crate) node: Option<Arc<DirNode>>,
    /// It is on the way to a source, and nothing is told of it but its name.
    pub(crate) is_way: bool,
    /// The entries but for the subdirectories.
    pub(crate) entries: Vec<Found>,
    /// The names of sources that are not there, and shall not be at the destination.
    pub(crate) missing: Vec<Name>,
    /// Why it could not be read, or not all of it.
    pub(crate) faults: Vec<Fault>,
    /// By the rules not all that is in it was looked at.
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
    /// Where it points, if it is a link and the listing has told that.
    pub(crate) target: Option<Vec<u8>>,
    /// Its metadata, or why that is not known; `None` where nobody has looked yet.
    pub(crate) looked: Option<Result<Meta, Fault>>,
    /// Links are followed.
    pub(crate) follow: bool,
    /// It is a source itself.
    pub(crate) is_named: bool,
}

/// A directory, or why it can't be walked.
type Read = Result<PlaceListing, Fault>;

#[derive(Default)]
struct State {
    /// Subdirectories that the walk will come to, the next ones last, each with the
    /// number of those that somebody has begun to read.
    coming: Vec<(Arc<Subdirs>, usize)>,
    /// Directories that helpers have begun to read.
    begun: HashSet<Key>,
    /// Directories that they have read.
    read: HashMap<Key, Read>,
    /// Entries in `read`.
    entries: usize,
    /// The directory that the walk waits for.
    awaited: Option<Key>,
    emptied: Emptied,
    /// Helpers that wait for something to do.
    idle: usize,
    /// Numbers for [`Subdirs`].
    next_number: u64,
    is_over: bool,
}

/// Has the helpers of a walk leave, however it ends.
pub(crate) struct EndOnDrop<'e, 'w>(&'e Walk<'w>);

/// A directory's place: the number of its [`Subdirs`], and its own among them.
type Key = (u64, usize);

impl<'w> Walk<'w> {
    pub(crate) fn new(rules: Rules<'w>) -> Self {
        let (coming, read_one) = (Condvar::new(), Condvar::new());
        Self { rules, state: Mutex::default(), coming, read_one }
    }

    /// Looks at the place in which the walk begins.
    pub(crate) fn begin(&self, merged: Merged) -> PlaceListing {
        let listed = self.list(merged);
        self.expect(&mut self.state.lock(), None, &listed.subdirs);
        listed
    }

    /// The directory number `at` of `subdirs`, which the walk has come to. Those
    /// before it are not needed any more.
    ///
    /// # Errors
    /// Why it can't be walked.
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
        let coming = state.coming.iter_mut().rev().find(|(one, _)| one.number == subdirs.number);
        if let Some((_, begun)) = coming {
            *begun = at + 1;
        }
        drop(state);
        let read = self.read(subdirs, at);
        if let Ok(listed) = &read {
            self.expect(&mut self.state.lock(), Some(subdirs.number), &listed.subdirs);
        }
        read
    }

    /// The walk has left the directory that `subdirs` are in, and needs none of them.
    pub(crate) fn leave(&self, subdirs: &Subdirs) {
        let mut state = self.state.lock();
        let mut left = vec![subdirs.number];
        while let Some(number) = left.pop() {
            state.coming.retain(|(one, _)| one.number != number);
            let unneeded: Vec<_> =
                state.read.extract_if(|(above, _), _| *above == number).map(|(_, r)| r).collect();
            for read in unneeded {
                state.entries -= weight(&read);
                left.extend(read.map(|listed| listed.subdirs.number));
            }
        }
    }

    /// Takes a list back whose entries were listed.
    pub(crate) fn take_back(&self, emptied: Vec<Found>) {
        self.state.lock().emptied.keep(emptied);
    }

    /// Ends the walk, and the helpers with it, when it is dropped.
    pub(crate) fn end_on_drop(&self) -> EndOnDrop<'_, 'w> {
        EndOnDrop(self)
    }

    /// Reads ahead until the walk has ended.
    pub(crate) fn help(&self) {
        let mut made = Made::default();
        let mut state = self.state.lock();
        while !state.is_over {
            let Some((subdirs, at)) = state.next() else {
                state.idle += 1;
                self.coming.wait(&mut state);
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
                made.keep(listed);
            }
            state = self.state.lock();
            state.begun.remove(&key);
            if !state.coming.iter().any(|(one, _)| one.number == subdirs.number) {
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

    /// The walk will come to `subdirs`, right before it goes on with those numbered
    /// `before`.
    fn expect(&self, state: &mut State, before: Option<u64>, subdirs: &Arc<Subdirs>) {
        if subdirs.names.is_empty() {
            return;
        }
        let of_above = |(one, _): &(Arc<Subdirs>, usize)| Some(one.number) == before;
        let at = state.coming.iter().rposition(of_above).map_or(0, |at| at + 1);
        state.coming.insert(at, (Arc::clone(subdirs), 0));
        self.wake_helper(state);
    }

    /// Has a helper look for something to do if one is idle, and there is room for
    /// enough: one is not woken for each directory.
    fn wake_helper(&self, state: &State) {
        if state.idle > 0 && state.ahead() <= DIRS_AHEAD_MAX / 2 {
            self.coming.notify_one();
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

    /// Looks at the entries `found` in `layer`; gives the names of its directories apart.
    ///
    /// # Errors
    /// When the directory may be read and not be searched.
    fn look_at(
        &self,
        layer: &Layer,
        found: Vec<TreeEntry>,
        selection: &mut Selection<'_>,
    ) -> io::Result<(Vec<Found>, Vec<Name>)> {
        let (node, follow) = (&layer.node, self.rules.follow);
        let led = self.rules.walking.led;
        let emptied = self.state.lock().emptied.take();
        let (mut entries, mut names) = (emptied.unwrap_or_default(), Vec::new());
        entries.reserve(found.len());
        let of = |TreeEntry { name, target, .. }, looked, follow| {
            let dir = Arc::clone(node);
            Found { dir, name, target, looked, follow, is_named: false }
        };
        let handle = node.handle()?;
        for (at, mut entry) in found.into_iter().enumerate() {
            // What a link leads to shows when it is looked at.
            let may_lead = follow || led.may_be();
            let is_known = entry.is_dir.filter(|is_dir| *is_dir || !may_lead);
            if is_known.is_some_and(|is_dir| selection.leaves_out(&entry.name, is_dir)) {
                continue;
            }
            if entry.is_dir == Some(true) {
                if self.takes_dir(layer, &entry.name) {
                    names.push(entry.name);
                }
                continue;
            }
            let is_told = |meta: &Meta| !(follow && meta.kind == MetaKind::Symlink);
            let told = entry.meta.take().map(|meta| *meta).filter(is_told);
            if told.is_none() && at >= LOOKED_AT_MAX && entry.is_dir == Some(false) && !may_lead {
                entries.push(of(entry, None, follow));
                continue;
            }
            let looked = match told {
                Some(meta) => Ok(Some(meta)),
                None => handle.stat(&entry.name, follow),
            };
            let (looked, follow) = match &looked {
                Ok(Some(meta)) if meta.kind == MetaKind::Symlink && !follow && led.may_be() => {
                    match led::look(led, node, &entry.name, entry.target.as_deref()) {
                        Ok(None) => (looked, false),
                        Ok(there) => (Ok(there), true),
                        Err(fault) => {
                            entries.push(of(entry, Some(Err(fault)), true));
                            continue;
                        }
                    }
                }
                _ => (looked, follow),
            };
            let is_dir = matches!(looked, Ok(Some(Meta { kind: MetaKind::Dir, .. })));
            if is_known.is_none() && selection.leaves_out(&entry.name, is_dir) {
                continue;
            }
            match looked {
                Ok(_) if is_dir && !self.takes_dir(layer, &entry.name) => {}
                Ok(_) if is_dir => names.push(entry.name),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied && !follow => {
                    return Err(error);
                }
                // What it is if it leads nowhere is found out when it is listed.
                Ok(None) => entries.push(of(entry, None, follow)),
                looked => entries.push(of(entry, Some(found_or_fault(looked)), follow)),
            }
        }
        Ok((entries, names))
    }

    fn entries(&self, node: &Arc<DirNode>) -> io::Result<Vec<TreeEntry>> {
        let handle = node.handle()?;
        let mut entries = handle.entries()?;
        entries.retain(|entry| !haul_store::is_lot(&entry.name));
        if self.rules.restores {
            aside::restore(&*handle, &mut entries);
        }
        Ok(entries)
    }
}

impl Drop for EndOnDrop<'_, '_> {
    fn drop(&mut self) {
        self.0.state.lock().is_over = true;
        self.0.coming.notify_all();
    }
}

impl Rules<'_> {
    /// True if a directory may be what a symbolic link leads to.
    fn follows_to_dirs(&self) -> bool {
        self.follow || self.walking.led.may_be()
    }

    /// Why the directory `node`, found in `above`, can't be walked.
    fn obstacle(&self, above: &DirNode, node: &Arc<DirNode>) -> Option<Fault> {
        let id = node.id()?;
        if self.around_dest.first() == Some(&id) {
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

impl State {
    /// Directories that were read, or are being read, and not needed yet.
    fn ahead(&self) -> usize {
        self.read.len() + self.begun.len()
    }

    /// The next directory to read ahead, if there is one, and room for it.
    fn next(&mut self) -> Option<(Arc<Subdirs>, usize)> {
        if self.entries >= ENTRIES_AHEAD_MAX || self.ahead() >= DIRS_AHEAD_MAX {
            return None;
        }
        let is_left = |(subdirs, begun): &&mut (Arc<Subdirs>, usize)| *begun < subdirs.names.len();
        let (subdirs, begun) = self.coming.iter_mut().rev().find(is_left)?;
        *begun += 1;
        Some((Arc::clone(subdirs), *begun - 1))
    }
}

impl Subdirs {
    /// The directory that they are in, as far as there is one.
    pub(crate) fn above(&self) -> Option<&Arc<DirNode>> {
        self.merged.layers.first().map(|layer| &layer.node)
    }

    /// The directory that they are in was listed under this number.
    pub(crate) fn listed_as(&self, index: u64) {
        let _ = self.listed_as.set(index);
    }

    /// Their names.
    pub(crate) fn names(&self) -> &[Name] {
        &self.names
    }
}

/// The weight of a directory that was read, among the entries ahead.
fn weight(read: &Read) -> usize {
    read.as_ref().map_or(0, |listed| listed.entries.len())
}

/// Finds out what `name` in `dir` is.
///
/// # Errors
/// Why that is not known; [`FaultKind::NotFound`] if nothing is there, [`FaultKind::Link`] if
/// it is a link that leads nowhere.
pub(crate) fn look_up(dir: &Arc<DirNode>, name: &Name, follow: bool) -> Result<Meta, Fault> {
    let looked = found_or_fault(dir.handle().and_then(|handle| handle.stat(name, follow)));
    match looked {
        Err(Fault { kind: FaultKind::NotFound, .. }) if follow => {
            let message = "it is a dangling symbolic link";
            look_up(dir, name, false)?;
            Err(Fault::new(Side::Source, FaultKind::Link, message))
        }
        looked => looked,
    }
}

fn found_or_fault(looked: io::Result<Option<Meta>>) -> Result<Meta, Fault> {
    match looked {
        Ok(Some(meta)) => Ok(meta),
        Ok(None) => Err(Fault::missing(Side::Source)),
        Err(error) => Err(Fault::from_io(Side::Source, "read its metadata", &error)),
    }
}

/// The fault of a directory that holds the destination.
pub(crate) fn into_itself() -> Fault {
    Fault::new(Side::Source, FaultKind::IntoItself, "the directory would be copied into itself")
}

#[cfg(test)]
mod tests;
