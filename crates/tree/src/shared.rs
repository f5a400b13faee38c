//! Blocks of this machine's files that several jobs read at about the same time. The first job to
//! need a block reads and hashes it, and the others take it from memory.
//!
//! No job waits for a slower one. Memory is bounded: the oldest blocks make room, and a job that
//! comes too late for a block reads it again. A block is dropped when all jobs have taken it. There
//! is one wait: at the first file longer than the memory bound, the first jobs wait briefly for the
//! others. Jobs that start together stay together, because taking blocks from memory is as fast as
//! reading them.
//!
//! A block belongs to one version of a file, as its job has opened it: object, size, and the times
//! of the last change of content and of anything. A file is shared only if its file system keeps
//! the latter time, and that time is old enough that every later change shows in it. So a job gets
//! the bytes that it would have read itself.

use crate::local::LocalDir;
use crate::spare_handles::retry_open;
use crate::{LocalTree, Tree, TreeDir};
use haul_model::{BLOCK_LEN, BlockHasher, FileId, Name, Timestamp};
use haul_sys::{Dir, Links, Stat};
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

/// Most bytes in kept blocks. Blocks that jobs have taken and are still sending come on top, within
/// the bounds of their queues.
pub const SHARED_LEN_MAX: usize = 64 << 20;

/// Approximate memory of a block besides its content, in bytes.
const OVERHEAD: usize = mem::size_of::<SharedBlock>() + 512;

/// Bytes that are read and then hashed at once, so that they fit the processor's cache.
const PART_LEN: usize = 128 << 10;

/// Spare buffers for the next blocks, beyond those that fit in the memory bound. Fresh memory costs
/// as much as reading into it. Freed memory is reused only by the thread that allocated it, so
/// without spares the process would grow.
const SPARE_MAX: usize = 4;

/// The age from which a change counts as settled. A later change within the resolution of file
/// system times could have the same time.
const SETTLED: Duration = Duration::from_secs(2);

/// How long the first jobs at a long file wait for the others, once. About the difference between
/// the login times of some hosts.
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
    /// The version of an open file with the metadata `stat`.
    pub(crate) fn of(stat: &Stat) -> Self {
        let Stat { id, size, mtime, ctime, .. } = *stat;
        Self { id, size, mtime, ctime }
    }
}

type Key = (Version, u64);

/// The blocks that the jobs of one command share.
pub struct SharedBlocks {
    state: Mutex<SharedState>,
    /// Notified when a job reaches the first long file, or leaves.
    changed: Condvar,
    len_max: usize,
    itself: Weak<Self>,
}

#[derive(Default)]
struct SharedState {
    /// The number of jobs.
    sharers: usize,
    start: Start,
    slots: HashMap<Key, Arc<Slot>>,
    /// The keys of `slots` by age.
    ages: BTreeMap<u64, Key>,
    next_age: u64,
    /// The memory of all slots, in bytes, including those being filled.
    len: usize,
    spare: Vec<Vec<u8>>,
}

/// The progress of the jobs at the first file that is longer than the memory bound.
#[derive(Default, Clone, Copy)]
enum Start {
    /// No job has reached it.
    #[default]
    Awaited,
    /// `arrived` jobs are at its beginning, and wait until `until` at most.
    Begins { version: Version, arrived: usize, until: Instant },
    /// The wait is over.
    Over,
}

/// A block's place. The job that fills it holds its lock.
#[derive(Default)]
struct Slot {
    block: Mutex<Option<Arc<SharedBlock>>>,
    age: u64,
    cost: usize,
    /// The number of jobs that have taken it.
    taken: Mutex<usize>,
}

/// A block of a file, with the hasher that has read it. Only the last block is shorter.
pub struct SharedBlock {
    bytes: Vec<u8>,
    hasher: BlockHasher,
    owner: Weak<SharedBlocks>,
}

impl SharedBlock {
    /// The block's content.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The hasher for this block, which has read its content and nothing else.
    pub fn hasher(&self) -> &BlockHasher {
        &self.hasher
    }
}

impl Drop for SharedBlock {
    fn drop(&mut self) {
        if self.bytes.len() as u64 == BLOCK_LEN
            && let Some(owner) = self.owner.upgrade()
        {
            let mut state = owner.state.lock();
            let spare = state.spare.len() + 1;
            if spare <= SPARE_MAX || state.len + spare * self.bytes.len() <= owner.len_max {
                state.spare.push(mem::take(&mut self.bytes));
            }
        }
    }
}

impl SharedBlocks {
    /// Shared blocks that use at most `len_max` bytes.
    pub fn new(len_max: usize) -> Arc<Self> {
        Arc::new_cyclic(|itself| Self {
            state: Mutex::default(),
            changed: Condvar::new(),
            len_max,
            itself: Weak::clone(itself),
        })
    }

    /// Registers a job until the result is dropped.
    pub fn join(self: &Arc<Self>) -> Sharer {
        self.state.lock().sharers += 1;
        Sharer(Arc::clone(self))
    }

    /// Block `index` of a version of a file. If no job has read it, `read` fills the buffer at an
    /// offset in the block and returns the length. `None` if the block can't be shared.
    ///
    /// # Errors
    /// Errors of `read`; [`io::ErrorKind::UnexpectedEof`] if the file ends early.
    pub(crate) fn block(
        &self,
        version: &Version,
        index: u64,
        read: impl Fn(&mut [u8], u64) -> io::Result<usize>,
    ) -> Option<io::Result<Arc<SharedBlock>>> {
        let start = index.checked_mul(BLOCK_LEN)?;
        let len = version.size.checked_sub(start)?.min(BLOCK_LEN) as usize;
        if len == 0 || !haul_sys::is_older_than(version.ctime, SETTLED) {
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
                // The next job tries again.
                Err(error) => return Some(Err(error)),
            },
        };
        drop(found);
        self.take(&key, &slot);
        Some(Ok(block))
    }

    /// Waits briefly for the other jobs at the first file that is too long to share otherwise.
    fn begin_together(&self, version: &Version, index: u64) {
        let mut state = self.state.lock();
        if version.size <= self.len_max as u64 || state.sharers < 2 {
            return;
        }
        if matches!(state.start, Start::Awaited) {
            let (version, until) = (*version, Instant::now() + START_WAIT);
            state.start = Start::Begins { version, arrived: 0, until };
        }
        if let Start::Begins { version: of, arrived, .. } = &mut state.start
            && (&*of, index) == (version, 0)
        {
            *arrived += 1;
            self.changed.notify_all();
        }
        while let Start::Begins { version: of, arrived, until } = state.start
            && of == *version
        {
            let left = until.saturating_duration_since(Instant::now());
            if arrived >= state.sharers || left.is_zero() {
                state.start = Start::Over;
                self.changed.notify_all();
                return;
            }
            self.changed.wait_for(&mut state, left);
        }
    }

    /// The slot for a block of `len` bytes; `None` if no other job reads.
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
        // Dropping them returns their buffers, which takes the lock.
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
        Ok(SharedBlock { bytes, hasher, owner: Weak::clone(&self.itself) })
    }

    /// Counts a job that has taken the block. The last one removes the slot.
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

impl SharedState {
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

/// The file systems of this machine, for a job that shares its reads with others.
#[derive(Debug)]
pub struct Sharer(Arc<SharedBlocks>);

impl Drop for Sharer {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.sharers -= 1;
        self.0.changed.notify_all();
        if state.sharers < 2 {
            let (sharers, start) = (state.sharers, state.start);
            let alone = SharedState { sharers, start, ..SharedState::default() };
            let left = mem::replace(&mut *state, alone);
            drop(state);
            drop(left);
        }
    }
}

impl Tree for Sharer {
    fn open(&self, path: &[u8]) -> io::Result<Arc<dyn TreeDir>> {
        let dir = retry_open(|| Dir::open(Path::new(OsStr::from_bytes(path))))?;
        Ok(Arc::new(LocalDir::sharing(dir, &self.0)))
    }

    fn open_for_search(&self, path: &[u8], _: Option<&Name>) -> io::Result<Arc<dyn TreeDir>> {
        let dir = retry_open(|| {
            Dir::open_named_for_search(Path::new(OsStr::from_bytes(path)), Links::All)
        })?;
        Ok(Arc::new(LocalDir::sharing(dir, &self.0)))
    }

    fn absolute_path(&self, path: &[u8]) -> io::Result<Vec<u8>> {
        LocalTree::PLAIN.absolute_path(path)
    }
}

#[cfg(test)]
mod tests;
