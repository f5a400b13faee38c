//! Blocks of this machine's files that several jobs read at about the same time: whoever
//! comes to a block first reads and hashes it, the others take it from memory.
//!
//! Nobody waits for a slower job: memory is bounded, the oldest blocks make room, and a job
//! that comes too late for one reads it again. A block goes when all jobs have taken it. Once
//! alone, at the first file that is longer than what is kept, those that come first wait a
//! moment for the others: whoever takes blocks from memory is no slower than the one that
//! reads them, so jobs that begin together stay together.
//!
//! A block belongs to one version of a file, as the job that takes it has opened it: object,
//! size, and the times of the last change of content and of anything. A file is shared
//! only where the file system keeps the latter, and when that is so long ago that every later
//! change shows in it. So what a job is given is what it would have read itself.

use crate::local::LocalDir;
use crate::room::with_room;
use crate::{LocalTree, Tree, TreeDir};
use haul_model::{BLOCK_LEN, BlockHasher, FileId, Timestamp};
use haul_sys::{Dir, Stat};
use parking_lot::{Condvar, Mutex};
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::mem;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Bytes of blocks that are kept, at most. What jobs have taken and still send comes on top,
/// within the bounds of their queues.
pub const SHARED_LEN_MAX: usize = 64 << 20;

/// Bytes that a block takes besides its content, about.
const OVERHEAD: usize = mem::size_of::<SharedBlock>() + 512;

/// Bytes that are read and then hashed at once, so that they are in the processor's cache.
const PART_LEN: usize = 128 << 10;

/// Buffers that wait for the next blocks, besides those for which there is room among the blocks
/// that are kept. Fresh memory costs as much as reading into it, and what is given back is had
/// again by the thread alone that took it, so the process grows.
const SPARE_MAX: usize = 4;

/// A change that is less long ago may be followed by one at the same time, as coarse as file
/// systems tell it.
const SETTLED: Duration = Duration::from_secs(2);

/// How long the jobs that come first to a long file wait for the others, once: about as long as
/// the logins of some hosts differ.
const START_WAIT: Duration = Duration::from_millis(400);

/// A version of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Version {
    id: FileId,
    size: u64,
    mtime: Timestamp,
    ctime: Timestamp,
}

impl Version {
    /// That of an open file, of which `stat` was found.
    pub(crate) fn of(stat: &Stat) -> Self {
        let Stat { id, size, mtime, ctime, .. } = *stat;
        Self { id, size, mtime, ctime }
    }
}

type Key = (Version, u64);

/// The blocks that the jobs of one command share.
pub struct SharedBlocks {
    state: Mutex<State>,
    /// A job has come to the first long file, or has left.
    changed: Condvar,
    len_max: usize,
    itself: Weak<Self>,
}

#[derive(Default)]
struct State {
    /// Jobs that read.
    sharers: usize,
    start: Start,
    slots: HashMap<Key, Arc<Slot>>,
    /// Their keys by age.
    ages: BTreeMap<u64, Key>,
    next_age: u64,
    /// Bytes that they take, or will.
    len: usize,
    spare: Vec<Vec<u8>>,
}

/// How far the jobs are with the first file that is longer than what is kept.
#[derive(Default, Clone, Copy)]
enum Start {
    /// None has come to it.
    #[default]
    Awaited,
    /// So many are at its beginning, and wait until then at most.
    Begins { version: Version, come: usize, until: Instant },
    /// Nobody waits any more.
    Over,
}

/// The place of a block. Who fills it holds its lock.
#[derive(Default)]
struct Slot {
    block: Mutex<Option<Arc<SharedBlock>>>,
    age: u64,
    cost: usize,
    /// Jobs that have taken it.
    taken: Mutex<usize>,
}

/// A block of a file, whole but for the last one, with the hasher that has taken it.
pub struct SharedBlock {
    bytes: Vec<u8>,
    hasher: BlockHasher,
    home: Weak<SharedBlocks>,
}

impl SharedBlock {
    /// The content.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The hasher for this place, which has taken the content and nothing else.
    pub fn hasher(&self) -> &BlockHasher {
        &self.hasher
    }
}

impl Drop for SharedBlock {
    fn drop(&mut self) {
        if self.bytes.len() as u64 == BLOCK_LEN
            && let Some(home) = self.home.upgrade()
        {
            let mut state = home.state.lock();
            let spare = state.spare.len() + 1;
            if spare <= SPARE_MAX || state.len + spare * self.bytes.len() <= home.len_max {
                state.spare.push(mem::take(&mut self.bytes));
            }
        }
    }
}

impl SharedBlocks {
    /// Blocks that take at most so many bytes.
    pub fn new(len_max: usize) -> Arc<Self> {
        Arc::new_cyclic(|itself| Self {
            state: Mutex::default(),
            changed: Condvar::new(),
            len_max,
            itself: Weak::clone(itself),
        })
    }

    /// A job that reads with the others, as long as this lives.
    pub fn join(self: &Arc<Self>) -> Sharer {
        self.state.lock().sharers += 1;
        Sharer(Arc::clone(self))
    }

    /// Block `index` of that version of a file, which `read` reads where nobody has:
    /// it fills the buffer, and tells how far. `None` if the block can't be shared.
    ///
    /// # Errors
    /// Those of `read`; [`io::ErrorKind::UnexpectedEof`] if the file ends early.
    pub(crate) fn block(
        &self,
        version: &Version,
        index: u64,
        read: impl Fn(&mut [u8], u64) -> io::Result<usize>,
    ) -> Option<io::Result<Arc<SharedBlock>>> {
        let start = index.checked_mul(BLOCK_LEN)?;
        let len = version.size.checked_sub(start)?.min(BLOCK_LEN) as usize;
        if len == 0 || !haul_sys::is_past(version.ctime, SETTLED) {
            return None;
        }
        self.begin_together(version, index);
        let key = (*version, index);
        let slot = self.slot(key, len)?;
        let mut found = slot.block.lock();
        let block = match &*found {
            Some(block) => Arc::clone(block),
            None => match self.read(index, len, |bytes, at| read(bytes, start + at)) {
                Ok(block) => Arc::clone(found.insert(Arc::new(block))),
                // Another job may have more luck, or the same.
                Err(error) => return Some(Err(error)),
            },
        };
        drop(found);
        self.take(&key, &slot);
        Some(Ok(block))
    }

    /// Waits a moment for the others, where that is the first file that they can't share
    /// otherwise.
    fn begin_together(&self, version: &Version, index: u64) {
        let mut state = self.state.lock();
        if version.size <= self.len_max as u64 || state.sharers < 2 {
            return;
        }
        if matches!(state.start, Start::Awaited) {
            let (version, until) = (*version, Instant::now() + START_WAIT);
            state.start = Start::Begins { version, come: 0, until };
        }
        if let Start::Begins { version: of, come, .. } = &mut state.start
            && (&*of, index) == (version, 0)
        {
            *come += 1;
            self.changed.notify_all();
        }
        while let Start::Begins { version: of, come, until } = state.start
            && of == *version
        {
            let left = until.saturating_duration_since(Instant::now());
            if come >= state.sharers || left.is_zero() {
                state.start = Start::Over;
                self.changed.notify_all();
                return;
            }
            self.changed.wait_for(&mut state, left);
        }
    }

    /// The place of a block of that length; `None` if nobody else reads.
    fn slot(&self, key: Key, len: usize) -> Option<Arc<Slot>> {
        let (mut state, mut gone) = (self.state.lock(), Vec::new());
        if state.sharers < 2 {
            return None;
        }
        if let Some(slot) = state.slots.get(&key) {
            return Some(Arc::clone(slot));
        }
        let cost = len + OVERHEAD;
        while state.len + cost > self.len_max
            && let Some((_, oldest)) = state.ages.pop_first()
        {
            gone.extend(state.remove(&oldest));
        }
        let slot = Arc::new(Slot { age: state.next_age, cost, ..Slot::default() });
        state.next_age += 1;
        state.len += cost;
        state.ages.insert(slot.age, key);
        state.slots.insert(key, Arc::clone(&slot));
        drop(state);
        // Their buffers come home, which takes the lock.
        drop(gone);
        Some(slot)
    }

    fn read(
        &self,
        index: u64,
        len: usize,
        read: impl Fn(&mut [u8], u64) -> io::Result<usize>,
    ) -> io::Result<SharedBlock> {
        let spare = if len as u64 == BLOCK_LEN { self.state.lock().spare.pop() } else { None };
        let mut bytes = spare.unwrap_or_else(|| vec![0; len]);
        let mut hasher = BlockHasher::new(index);
        for part in bytes.chunks_mut(PART_LEN) {
            if read(part, hasher.len())? < part.len() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            hasher.update(part);
        }
        Ok(SharedBlock { bytes, hasher, home: Weak::clone(&self.itself) })
    }

    /// A job has got the block of that place, which goes if it was the last one.
    fn take(&self, key: &Key, slot: &Arc<Slot>) {
        let taken = {
            let mut taken = slot.taken.lock();
            *taken += 1;
            *taken
        };
        let mut state = self.state.lock();
        let is_there = state.slots.get(key).is_some_and(|there| Arc::ptr_eq(there, slot));
        if taken >= state.sharers && is_there {
            state.ages.remove(&slot.age);
            let gone = state.remove(key);
            drop(state);
            drop(gone);
        }
    }
}

impl State {
    fn remove(&mut self, key: &Key) -> Option<Arc<Slot>> {
        let slot = self.slots.remove(key)?;
        self.len -= slot.cost;
        Some(slot)
    }
}

impl fmt::Debug for SharedBlocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedBlocks").field("len_max", &self.len_max).finish_non_exhaustive()
    }
}

/// The file systems of this machine for a job that shares what it reads with others.
#[derive(Debug)]
pub struct Sharer(Arc<SharedBlocks>);

impl Drop for Sharer {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.sharers -= 1;
        self.0.changed.notify_all();
        if state.sharers < 2 {
            let (sharers, start) = (state.sharers, state.start);
            let alone = State { sharers, start, ..State::default() };
            let left = mem::replace(&mut *state, alone);
            drop(state);
            drop(left);
        }
    }
}

impl Tree for Sharer {
    fn open(&self, path: &[u8]) -> io::Result<Arc<dyn TreeDir>> {
        let dir = with_room(|| Dir::open(Path::new(OsStr::from_bytes(path))))?;
        Ok(Arc::new(LocalDir::sharing(dir, &self.0)))
    }

    fn open_to_enter(&self, path: &[u8]) -> io::Result<Arc<dyn TreeDir>> {
        let dir = with_room(|| Dir::open_to_enter(Path::new(OsStr::from_bytes(path))))?;
        Ok(Arc::new(LocalDir::sharing(dir, &self.0)))
    }

    fn whole_path(&self, path: &[u8]) -> io::Result<Vec<u8>> {
        LocalTree::PLAIN.whole_path(path)
    }
}

#[cfg(test)]
mod tests;
