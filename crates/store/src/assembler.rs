//! Puts a content together from its blocks, which come in any order, from any thread
//! and over any connection: each is hashed once, written, and recorded in the order of
//! the journal.
//!
//! 1. At any time one at most puts a block together. What was written of one that was
//!    given up is written over, holes too.
//! 2. A block is recorded when it is written in full and all before it are recorded.
//! 3. One of which no hash is wanted is put together in the same way, and its blocks are not
//!    hashed: it can't be continued, and yields a [`Moved`].
//! 4. A stage may begin with what another version of the file has. What is kept of that is
//!    read from the stage itself, and hashed like all else: what stands there is what is
//!    proven.
//! 5. Blocks that begin too far ahead of the record are refused: that bounds what is
//!    remembered of them, and what a process that dies leaves to be copied again.

use crate::verified::{Moved, Staged, Written};
use crate::zeros::runs;
use haul_model::{BLOCK_LEN, BlockHash, BlockHasher, BlockTree, ContentHash};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

/// Zeros that are written in one go where a hole is to be but something else is.
const ZEROS: &[u8] = &[0; 64 << 10];

/// Why a block, or the whole, is not what it should be.
#[derive(Debug, thiserror::Error)]
pub enum NotAssembled {
    /// Something of it is there already, or behind it.
    #[error("its pieces arrived out of order")]
    OutOfOrder,
    /// It begins further ahead of the record than is allowed.
    #[error("a block arrived too far ahead")]
    TooFarAhead,
    /// More blocks were begun, and not ended, than are allowed.
    #[error("too many of its blocks arrived at the same time")]
    TooManyOpen,
    /// Its hash is not the one that was expected.
    #[error("a block arrived corrupted")]
    Differs,
    /// There is more than the content's length.
    #[error("more arrived than was sent")]
    TooLong,
    /// Blocks are missing.
    #[error("not all of its blocks arrived")]
    Incomplete,
    /// The stage could not be written.
    #[error("{0}")]
    Write(#[source] io::Error),
    /// The record could not be kept.
    #[error("{0}")]
    Record(#[source] io::Error),
}

/// A stage that is put together from blocks.
#[derive(Debug)]
pub struct Assembler<S> {
    stage: S,
    /// Blocks from the first that is not recorded that may have begun, at most.
    ahead_max: u64,
    hashes: bool,
    /// Where what the stage began with ends, in bytes; 0 if it had nothing but the blocks
    /// that are done.
    begun_end: u64,
    shared: Arc<Recording>,
}

/// State that the end of a block changes, or that of one that is given up.
#[derive(Debug)]
struct Recording {
    order: Mutex<Order>,
    changed: Condvar,
}

/// Puts the records of blocks that come in any order into theirs.
struct Order {
    /// The hashes of the blocks that are recorded, if they are hashed.
    recorded: BlockTree,
    /// The length of the recorded blocks, in bytes.
    len: u64,
    /// The hash of the content, as long as the first block is all of it.
    alone: Option<ContentHash>,
    /// Blocks that are whole, ahead of the record, with their lengths in bytes.
    waiting: BTreeMap<u64, (Option<BlockHash>, u64)>,
    /// Blocks that are being put together.
    open: BTreeSet<u64>,
    /// Blocks that were given up when something of them had been written.
    stale: BTreeSet<u64>,
    /// Where the stage ends, in bytes, as far as blocks have ended.
    data_end: u64,
}

impl std::fmt::Debug for Order {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Order").field("len", &self.len).finish_non_exhaustive()
    }
}

impl Recording {
    fn order(&self) -> MutexGuard<'_, Order> {
        self.order.lock()
    }
}

/// A block that is being put together, from its start to its end. Dropped before it has
/// ended, it can be begun anew.
#[derive(Debug)]
pub struct Block {
    index: u64,
    len: u64,
    hasher: Option<BlockHasher>,
    /// Where its data ends in the stage, in bytes; 0 if all of it is a hole so far.
    data_end: u64,
    /// Something is in the stage where it may have holes.
    is_covered: bool,
    has_ended: bool,
    shared: Arc<Recording>,
}

impl Block {
    /// Bytes that it has so far.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// True if it has nothing yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that it can still take.
    pub fn room(&self) -> u64 {
        BLOCK_LEN - self.len()
    }

    /// Where it goes on in the content, in bytes.
    pub fn end(&self) -> u64 {
        self.index * BLOCK_LEN + self.len()
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        let mut order = self.shared.order();
        order.open.remove(&self.index);
        order.data_end = order.data_end.max(self.data_end);
        if self.data_end > 0 {
            order.stale.insert(self.index);
        }
        drop(order);
        self.shared.changed.notify_all();
    }
}

impl<S: Staged> Assembler<S> {
    /// An assembler of a content of which the blocks `done` are in `stage`, which is as
    /// long as these. So many blocks, `ahead_max`, may have begun from the first that is
    /// not recorded.
    pub fn new(stage: S, done: impl IntoIterator<Item = BlockHash>, ahead_max: u64) -> Self {
        let recorded = BlockTree::resume(done);
        let len = recorded.len() * BLOCK_LEN;
        let order = Order {
            recorded,
            len,
            alone: None,
            waiting: BTreeMap::new(),
            open: BTreeSet::new(),
            stale: BTreeSet::new(),
            data_end: len,
        };
        let shared = Recording { order: Mutex::new(order), changed: Condvar::new() };
        Self { stage, ahead_max, hashes: true, begun_end: 0, shared: Arc::new(shared) }
    }

    /// The same of a stage that is `len` bytes long: behind the blocks `done` it has what
    /// another version of the file has.
    pub fn begun(
        stage: S,
        done: impl IntoIterator<Item = BlockHash>,
        ahead_max: u64,
        len: u64,
    ) -> Self {
        let mut into = Self::new(stage, done, ahead_max);
        let mut order = into.shared.order();
        order.data_end = order.data_end.max(len);
        drop(order);
        into.begun_end = len;
        into
    }

    /// The same of a content of which no hash is wanted. Nothing of it is in `stage`.
    pub fn unhashed(stage: S, ahead_max: u64) -> Self {
        Self { hashes: false, ..Self::new(stage, [], ahead_max) }
    }

    /// The stage.
    pub fn stage(&self) -> &S {
        &self.stage
    }

    /// Gives up the content, and gives the stage as it is.
    pub fn into_stage(self) -> S {
        self.stage
    }

    /// How many blocks are recorded.
    pub fn recorded(&self) -> u64 {
        self.shared.order().blocks()
    }

    /// The length of the recorded blocks, in bytes.
    pub fn recorded_len(&self) -> u64 {
        self.shared.order().len
    }

    /// True if block `index` is there, whole.
    pub fn has(&self, index: u64) -> bool {
        let order = self.shared.order();
        index < order.blocks() || order.waiting.contains_key(&index)
    }

    /// Begins block `index`.
    ///
    /// # Errors
    /// [`NotAssembled::OutOfOrder`] if it is there, or somebody else is at it;
    /// [`NotAssembled::TooFarAhead`].
    pub fn begin(&self, index: u64) -> Result<Block, NotAssembled> {
        let mut order = self.shared.order();
        let ahead = index.checked_sub(order.blocks()).ok_or(NotAssembled::OutOfOrder)?;
        if ahead >= self.ahead_max {
            return Err(NotAssembled::TooFarAhead);
        }
        if order.waiting.contains_key(&index) || !order.open.insert(index) {
            return Err(NotAssembled::OutOfOrder);
        }
        let is_covered = order.stale.contains(&index) || index * BLOCK_LEN < self.begun_end;
        drop(order);
        let hasher = self.hashes.then(|| BlockHasher::new(index));
        let shared = Arc::clone(&self.shared);
        Ok(Block { index, len: 0, hasher, data_end: 0, is_covered, has_ended: false, shared })
    }

    /// Waits until block `index` is not too far ahead, and looks again with this
    /// `pause` at most if that `goes_on`; `false` if it does not. Whoever has the block
    /// that is recorded next never waits.
    pub fn wait_for_room(&self, index: u64, pause: Duration, goes_on: impl Fn() -> bool) -> bool {
        let mut order = self.shared.order();
        while index >= order.blocks() + self.ahead_max {
            if !goes_on() {
                return false;
            }
            self.shared.changed.wait_for(&mut order, pause);
        }
        true
    }

    /// Writes the next bytes of a block, no more than it has room for; see
    /// [`Staged::leaves_zeros`].
    ///
    /// # Errors
    /// Those of writing.
    pub fn write(&self, block: &mut Block, bytes: &[u8]) -> io::Result<()> {
        if !self.stage.leaves_zeros() {
            return self.put(block, bytes, |stage, at| stage.write_at(bytes, at));
        }
        runs(bytes, block.end()).try_for_each(|(run, is_zeros)| match is_zeros {
            true => self.pass(block, run.len() as u64),
            false => self.put(block, run, |stage, at| stage.write_at(run, at)),
        })
    }

    /// The same where `put` writes them into the stage at the offset that it is given.
    ///
    /// # Errors
    /// Those of `put`.
    pub fn put<E>(
        &self,
        block: &mut Block,
        bytes: &[u8],
        put: impl FnOnce(&S, u64) -> Result<(), E>,
    ) -> Result<(), E> {
        assert!(bytes.len() as u64 <= block.room(), "a block has no room for more than itself");
        let at = block.end();
        // While it is in the cache: writing makes other bytes of it.
        if let Some(hasher) = &mut block.hasher {
            hasher.update(bytes);
        }
        block.len += bytes.len() as u64;
        block.data_end = block.end();
        put(&self.stage, at)
    }

    /// Takes the next bytes of a block as they stand in the stage, and reads them to `part`,
    /// which is no longer than the block has room for.
    ///
    /// # Errors
    /// Those of reading; [`io::ErrorKind::Unsupported`] where that can't be done.
    pub fn keep(&self, block: &mut Block, part: &mut [u8]) -> io::Result<()> {
        let file = self.stage.handle().ok_or(io::ErrorKind::Unsupported)?;
        file.read_exact_at(part, block.end())?;
        self.put(block, part, |_, _| Ok(()))
    }

    /// Passes a hole of `len` bytes in a block, no more than it has room for.
    ///
    /// # Errors
    /// Those of writing, where something is there that has to be written over.
    pub fn pass(&self, block: &mut Block, len: u64) -> io::Result<()> {
        assert!(len <= block.room(), "a block has no room for more than itself");
        if !block.is_covered || self.stage.clear(block.end()..block.end() + len) {
            if let Some(hasher) = &mut block.hasher {
                hasher.update_zeros(len);
            }
            block.len += len;
            return Ok(());
        }
        let mut left = len;
        while left > 0 {
            let zeros = &ZEROS[..left.min(ZEROS.len() as u64) as usize];
            self.put(block, zeros, |stage, at| stage.write_at(zeros, at))?;
            left -= zeros.len() as u64;
        }
        Ok(())
    }

    /// Ends a block that is whole, or the last of the content, and puts it on record in
    /// its turn. If it is not the one that is `expected`, it can be begun anew.
    ///
    /// # Errors
    /// [`NotAssembled::Differs`], also if one is expected that is not hashed;
    /// [`NotAssembled::Incomplete`] if it is empty;
    /// [`NotAssembled::OutOfOrder`] if it is behind a short one;
    /// [`NotAssembled::Write`]; [`NotAssembled::Record`].
    pub fn end(&self, mut block: Block, expected: Option<BlockHash>) -> Result<(), NotAssembled> {
        if block.is_empty() {
            return Err(NotAssembled::Incomplete);
        }
        let hash = block.hasher.as_ref().map(BlockHasher::finish);
        if expected.is_some() && expected != hash {
            return Err(NotAssembled::Differs);
        }
        block.has_ended = true;
        let mut order = self.shared.order();
        if block.index == 0 {
            order.alone = block.hasher.as_ref().map(BlockHasher::finish_alone);
        }
        order.open.remove(&block.index);
        order.stale.remove(&block.index);
        order.data_end = order.data_end.max(block.data_end);
        order.waiting.insert(block.index, (hash, block.len()));
        let recorded = order.record_waiting(&self.stage);
        drop(order);
        self.shared.changed.notify_all();
        recorded
    }

    /// Ends the content, which is `size` bytes long: all of its blocks have ended, and were
    /// hashed.
    ///
    /// # Errors
    /// The stage, and [`NotAssembled::Incomplete`], [`NotAssembled::TooLong`], or
    /// [`NotAssembled::Write`].
    pub fn finish(self, size: u64) -> Result<Written<S>, (S, NotAssembled)> {
        let order = self.shared.order();
        let hash = order.end(&self.stage, size).and_then(|()| {
            let hash = match order.recorded.len() {
                0 if size == 0 => Some(ContentHash::of(&[])),
                // Of one that an earlier process has put there the hash is not known.
                1 => order.alone,
                _ => order.recorded.finish(),
            };
            hash.ok_or(NotAssembled::Incomplete)
        });
        let tail = order.recorded.finish_tail();
        drop(order);
        match hash {
            Ok(hash) => Ok(Written::new(self.stage, size, hash, tail)),
            Err(error) => Err((self.stage, error)),
        }
    }

    /// The same where nobody asks for a hash.
    ///
    /// # Errors
    /// As [`Self::finish`].
    pub fn finish_unhashed(self, size: u64) -> Result<Moved<S>, (S, NotAssembled)> {
        let ended = self.shared.order().end(&self.stage, size);
        match ended {
            Ok(()) => Ok(Moved::new(self.stage, size)),
            Err(error) => Err((self.stage, error)),
        }
    }
}

impl Order {
    /// How many blocks are recorded.
    fn blocks(&self) -> u64 {
        self.len.div_ceil(BLOCK_LEN)
    }

    /// Ends `stage`, if the content is there, `size` bytes long.
    fn end(&self, stage: &impl Staged, size: u64) -> Result<(), NotAssembled> {
        if self.len > size {
            return Err(NotAssembled::TooLong);
        }
        if self.len < size || !self.open.is_empty() || !self.waiting.is_empty() {
            return Err(NotAssembled::Incomplete);
        }
        if self.data_end != size {
            // It ends with a hole, or with what was given up.
            stage.set_len(size).map_err(NotAssembled::Write)?;
        }
        Ok(())
    }

    /// Records the blocks that are next. One that can't be recorded is not there: it can be
    /// begun anew, over what was written of it.
    fn record_waiting(&mut self, stage: &impl Staged) -> Result<(), NotAssembled> {
        while let Some((hash, len)) = self.waiting.remove(&self.blocks()) {
            if let Err(error) = self.record(stage, hash, len) {
                self.stale.insert(self.blocks());
                return Err(error);
            }
            self.len += len;
            if let Some(hash) = hash {
                self.recorded.push(hash);
            }
        }
        Ok(())
    }

    /// Puts the next block on record, `len` bytes long.
    fn record(
        &mut self,
        stage: &impl Staged,
        hash: Option<BlockHash>,
        len: u64,
    ) -> Result<(), NotAssembled> {
        if !self.len.is_multiple_of(BLOCK_LEN) {
            return Err(NotAssembled::OutOfOrder);
        }
        if len < BLOCK_LEN {
            return Ok(());
        }
        self.extend(stage, self.len + len).map_err(NotAssembled::Write)?;
        hash.map_or(Ok(()), |hash| stage.record(hash).map_err(NotAssembled::Record))
    }

    /// Makes the stage as long as what is on record then, `len` bytes, which may end with a
    /// hole, so that all of it is there to be read. If anybody writes behind that, the stage
    /// is longer anyway, or will be.
    fn extend(&mut self, stage: &impl Staged, len: u64) -> io::Result<()> {
        if self.data_end < len && self.open.is_empty() && self.waiting.is_empty() {
            stage.set_len(len)?;
            self.data_end = len;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "assembler_tests.rs"]
mod tests;
