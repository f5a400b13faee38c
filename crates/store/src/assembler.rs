//! Assembles a content from blocks, which arrive in any order, from any thread and over any
//! connection. Each block is hashed once, written, and recorded in the order of the journal.
//!
//! 1. At most one thread assembles a block at a time. A block that was given up is overwritten,
//!    including its holes.
//! 2. A block is recorded when it is complete and all blocks before it are recorded.
//! 3. A content without hashes is assembled in the same way. It can't be resumed, and yields a
//!    [`Moved`].
//! 4. A stage may begin with the content of another version of the file. Parts that are kept are
//!    read from the stage itself and hashed like the rest, so the stage is what is verified.
//! 5. Blocks too far ahead of the record are refused. That bounds the memory for them, and the
//!    content that must be copied again if the process dies.

use crate::content::runs;
use crate::{Moved, StagedFile, Written};
use haul_model::{BLOCK_LEN, BlockHash, BlockHasher, BlockTree, ContentHash};
use parking_lot::{Condvar, Mutex};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

/// Zeros to write at once where a hole must replace other content.
const ZEROS: &[u8] = &[0; 64 << 10];

/// The reason why a block or a content is not complete.
#[derive(Debug, thiserror::Error)]
pub enum AssembleError {
    /// The block, or a part of it, has arrived already, or it follows a short block.
    #[error("its pieces arrived out of order")]
    OutOfOrder,
    /// The block begins too far ahead of the record.
    #[error("a block arrived too far ahead")]
    TooFarAhead,
    /// Too many blocks have begun and not ended.
    #[error("too many of its blocks arrived at the same time")]
    TooManyOpen,
    /// The hash of the block is not the expected one.
    #[error("a block arrived corrupted")]
    Differs,
    /// The content is longer than expected.
    #[error("more arrived than was sent")]
    TooLong,
    /// Blocks are missing.
    #[error("not all of its blocks arrived")]
    Incomplete,
    /// The stage can't be written.
    #[error("{0}")]
    Write(#[source] io::Error),
    /// The block can't be recorded.
    #[error("{0}")]
    Record(#[source] io::Error),
}

/// A stage that is assembled from blocks.
#[derive(Debug)]
pub struct Assembler {
    stage: Box<dyn StagedFile>,
    /// Maximum distance of a begun block from the first block that is not recorded.
    ahead_max: u64,
    hashes: bool,
    /// The end of the stage's initial content in bytes; 0 if that was only the recorded blocks.
    initial_end: u64,
    shared: Arc<Recording>,
}

/// The state that changes when a block ends or is given up.
#[derive(Debug)]
struct Recording {
    order: Mutex<Order>,
    changed: Condvar,
}

/// Orders the records of blocks that end in any order.
struct Order {
    /// The hashes of the recorded blocks, if they are hashed.
    recorded: BlockTree,
    /// The length of the recorded blocks in bytes.
    len: u64,
    /// The hash of the content if the first block is all of it.
    single_hash: Option<ContentHash>,
    /// Complete blocks ahead of the record, with their lengths in bytes.
    waiting: BTreeMap<u64, (Option<BlockHash>, u64)>,
    /// Blocks that are being assembled.
    open: BTreeSet<u64>,
    /// Blocks that were given up after a part of them was written.
    stale: BTreeSet<u64>,
    /// The end of the stage in bytes, according to the ended blocks.
    data_end: u64,
}

impl std::fmt::Debug for Order {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Order").field("len", &self.len).finish_non_exhaustive()
    }
}

/// A block that is being assembled, from its start to its end. If it is dropped before it ends, it
/// can be begun again.
#[derive(Debug)]
pub struct Block {
    index: u64,
    len: u64,
    hasher: Option<BlockHasher>,
    /// The end of the block's data in the stage, in bytes; 0 if the block is only a hole so far.
    data_end: u64,
    /// The stage has other content where the block may have holes.
    is_covered: bool,
    has_ended: bool,
    shared: Arc<Recording>,
}

impl Block {
    /// Number of bytes so far.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// True if the block has no bytes yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of bytes that are missing to a full block.
    pub fn remaining(&self) -> u64 {
        BLOCK_LEN - self.len()
    }

    /// The offset of the block's next byte in the content.
    pub fn end(&self) -> u64 {
        self.index * BLOCK_LEN + self.len()
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        let mut order = self.shared.order.lock();
        order.open.remove(&self.index);
        order.data_end = order.data_end.max(self.data_end);
        if self.data_end > 0 {
            order.stale.insert(self.index);
        }
        drop(order);
        self.shared.changed.notify_all();
    }
}

impl Assembler {
    /// Creates an assembler for a content whose blocks `done` are in `stage`, which is as long as
    /// these. `ahead_max` blocks may have begun from the first that is not recorded.
    pub fn new(
        stage: Box<dyn StagedFile>,
        done: impl IntoIterator<Item = BlockHash>,
        ahead_max: u64,
    ) -> Self {
        let recorded = BlockTree::resume(done);
        let len = recorded.len() * BLOCK_LEN;
        let order = Order {
            recorded,
            len,
            single_hash: None,
            waiting: BTreeMap::new(),
            open: BTreeSet::new(),
            stale: BTreeSet::new(),
            data_end: len,
        };
        let shared = Recording { order: Mutex::new(order), changed: Condvar::new() };
        Self { stage, ahead_max, hashes: true, initial_end: 0, shared: Arc::new(shared) }
    }

    /// Creates an assembler for a stage of `len` bytes. After the blocks `done` it has content of
    /// another version of the file.
    pub fn begun(
        stage: Box<dyn StagedFile>,
        done: impl IntoIterator<Item = BlockHash>,
        ahead_max: u64,
        len: u64,
    ) -> Self {
        let mut into = Self::new(stage, done, ahead_max);
        let mut order = into.shared.order.lock();
        order.data_end = order.data_end.max(len);
        drop(order);
        into.initial_end = len;
        into
    }

    /// Creates an assembler without hashes, for an empty stage.
    pub fn unhashed(stage: Box<dyn StagedFile>, ahead_max: u64) -> Self {
        Self { hashes: false, ..Self::new(stage, [], ahead_max) }
    }

    /// The stage.
    pub fn stage(&self) -> &dyn StagedFile {
        &*self.stage
    }

    /// Gives up the content, and returns the stage.
    pub fn into_stage(self) -> Box<dyn StagedFile> {
        self.stage
    }

    /// Number of recorded blocks.
    pub fn recorded(&self) -> u64 {
        self.shared.order.lock().blocks()
    }

    /// The length of the recorded blocks in bytes.
    pub fn recorded_len(&self) -> u64 {
        self.shared.order.lock().len
    }

    /// True if block `index` is complete.
    pub fn has(&self, index: u64) -> bool {
        let order = self.shared.order.lock();
        index < order.blocks() || order.waiting.contains_key(&index)
    }

    /// Begins block `index`.
    ///
    /// # Errors
    /// [`AssembleError::OutOfOrder`] if it is complete, or another thread assembles it;
    /// [`AssembleError::TooFarAhead`].
    pub fn begin(&self, index: u64) -> Result<Block, AssembleError> {
        let mut order = self.shared.order.lock();
        let ahead = index.checked_sub(order.blocks()).ok_or(AssembleError::OutOfOrder)?;
        if ahead >= self.ahead_max {
            return Err(AssembleError::TooFarAhead);
        }
        if order.waiting.contains_key(&index) || !order.open.insert(index) {
            return Err(AssembleError::OutOfOrder);
        }
        let is_covered = order.stale.contains(&index) || index * BLOCK_LEN < self.initial_end;
        drop(order);
        let hasher = self.hashes.then(|| BlockHasher::new(index));
        let shared = Arc::clone(&self.shared);
        Ok(Block { index, len: 0, hasher, data_end: 0, is_covered, has_ended: false, shared })
    }

    /// Waits until block `index` is not too far ahead. Calls `should_continue` after each `pause`
    /// at most, and returns `false` if it does. The thread with the next block to record never
    /// waits.
    pub fn wait_until_in_window(
        &self,
        index: u64,
        pause: Duration,
        should_continue: impl Fn() -> bool,
    ) -> bool {
        let mut order = self.shared.order.lock();
        while index >= order.blocks() + self.ahead_max {
            if !should_continue() {
                return false;
            }
            self.shared.changed.wait_for(&mut order, pause);
        }
        true
    }

    /// Writes the next bytes of a block. They must fit into it. See `StagedFile::writes_sparse`.
    ///
    /// # Errors
    /// Errors of writing.
    pub fn write(&self, block: &mut Block, bytes: &[u8]) -> io::Result<()> {
        if !self.stage.writes_sparse() {
            return self.put(block, bytes, |stage, at| stage.write_at(bytes, at));
        }
        runs(bytes, block.end()).try_for_each(|(run, is_zeros)| match is_zeros {
            true => self.skip_hole(block, run.len() as u64),
            false => self.put(block, run, |stage, at| stage.write_at(run, at)),
        })
    }

    /// Adds the next bytes of a block, which `put` writes into the stage at the given offset.
    ///
    /// # Errors
    /// Errors of `put`.
    pub fn put<E>(
        &self,
        block: &mut Block,
        bytes: &[u8],
        put: impl FnOnce(&dyn StagedFile, u64) -> Result<(), E>,
    ) -> Result<(), E> {
        assert!(
            bytes.len() as u64 <= block.remaining(),
            "a block has no room for more than itself"
        );
        let at = block.end();
        // Hash before writing, which evicts the bytes from the cache.
        if let Some(hasher) = &mut block.hasher {
            hasher.update(bytes);
        }
        block.len += bytes.len() as u64;
        block.data_end = block.end();
        put(&*self.stage, at)
    }

    /// Adds the next bytes of a block from the stage itself, and reads them to `part`. They must
    /// fit into the block.
    ///
    /// # Errors
    /// Errors of reading; [`io::ErrorKind::Unsupported`] if the stage can't be read.
    pub fn keep(&self, block: &mut Block, part: &mut [u8]) -> io::Result<()> {
        let file = self.stage.handle().ok_or(io::ErrorKind::Unsupported)?;
        file.read_exact_at(part, block.end())?;
        self.put(block, part, |_, _| Ok(()))
    }

    /// Adds a hole of `len` bytes to a block. It must fit into the block.
    ///
    /// # Errors
    /// Errors of writing, if other content must be overwritten.
    pub fn skip_hole(&self, block: &mut Block, len: u64) -> io::Result<()> {
        assert!(len <= block.remaining(), "a block has no room for more than itself");
        if !block.is_covered || self.stage.punch_hole(block.end()..block.end() + len) {
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

    /// Ends a full block, or the last of the content, and records it in its turn. A block with
    /// another hash than `expected` can be begun again.
    ///
    /// # Errors
    /// [`AssembleError::Differs`], also if a hash is expected and blocks are not hashed;
    /// [`AssembleError::Incomplete`] if it is empty; [`AssembleError::OutOfOrder`] if it follows a
    /// short block; [`AssembleError::Write`]; [`AssembleError::Record`].
    pub fn end(&self, mut block: Block, expected: Option<BlockHash>) -> Result<(), AssembleError> {
        if block.is_empty() {
            return Err(AssembleError::Incomplete);
        }
        let hash = block.hasher.as_ref().map(BlockHasher::finish);
        if expected.is_some() && expected != hash {
            return Err(AssembleError::Differs);
        }
        block.has_ended = true;
        let mut order = self.shared.order.lock();
        if block.index == 0 {
            order.single_hash = block.hasher.as_ref().map(BlockHasher::finish_alone);
        }
        order.open.remove(&block.index);
        order.stale.remove(&block.index);
        order.data_end = order.data_end.max(block.data_end);
        order.waiting.insert(block.index, (hash, block.len()));
        let recorded = order.record_waiting(&*self.stage);
        drop(order);
        self.shared.changed.notify_all();
        recorded
    }

    /// Ends a content of `size` bytes. All its blocks must have ended, and were hashed.
    ///
    /// # Errors
    /// The stage, with [`AssembleError::Incomplete`], [`AssembleError::TooLong`] or
    /// [`AssembleError::Write`].
    pub fn finish(self, size: u64) -> Result<Written, (Box<dyn StagedFile>, AssembleError)> {
        let order = self.shared.order.lock();
        let hash = order.end(&*self.stage, size).and_then(|()| {
            let hash = match order.recorded.len() {
                0 if size == 0 => Some(ContentHash::of(&[])),
                // Unknown for a block that an earlier process wrote.
                1 => order.single_hash,
                _ => order.recorded.finish(),
            };
            hash.ok_or(AssembleError::Incomplete)
        });
        let tail = order.recorded.finish_tail();
        drop(order);
        match hash {
            Ok(hash) => Ok(Written::new(self.stage, size, hash, tail)),
            Err(error) => Err((self.stage, error)),
        }
    }

    /// Ends a content without hashes.
    ///
    /// # Errors
    /// See [`Self::finish`].
    pub fn finish_unhashed(self, size: u64) -> Result<Moved, (Box<dyn StagedFile>, AssembleError)> {
        let ended = self.shared.order.lock().end(&*self.stage, size);
        match ended {
            Ok(()) => Ok(Moved::new(self.stage, size)),
            Err(error) => Err((self.stage, error)),
        }
    }
}

impl Order {
    /// Number of recorded blocks.
    fn blocks(&self) -> u64 {
        self.len.div_ceil(BLOCK_LEN)
    }

    /// Ends `stage` if the content is complete and `size` bytes long.
    fn end(&self, stage: &dyn StagedFile, size: u64) -> Result<(), AssembleError> {
        if self.len > size {
            return Err(AssembleError::TooLong);
        }
        if self.len < size || !self.open.is_empty() || !self.waiting.is_empty() {
            return Err(AssembleError::Incomplete);
        }
        if self.data_end != size {
            // The content ends with a hole, or something behind it was given up.
            stage.set_len(size).map_err(AssembleError::Write)?;
        }
        Ok(())
    }

    /// Records the next blocks. A block that can't be recorded is not complete: it can be begun
    /// again.
    fn record_waiting(&mut self, stage: &dyn StagedFile) -> Result<(), AssembleError> {
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

    /// Records the next block, which is `len` bytes long.
    fn record(
        &mut self,
        stage: &dyn StagedFile,
        hash: Option<BlockHash>,
        len: u64,
    ) -> Result<(), AssembleError> {
        if !self.len.is_multiple_of(BLOCK_LEN) {
            return Err(AssembleError::OutOfOrder);
        }
        if len < BLOCK_LEN {
            return Ok(());
        }
        self.extend(stage, self.len + len).map_err(AssembleError::Write)?;
        hash.map_or(Ok(()), |hash| stage.record(hash).map_err(AssembleError::Record))
    }

    /// Extends the stage to `len` bytes, the length of the recorded blocks, which may end with a
    /// hole. Then all of it can be read. If another thread writes behind that, the stage becomes
    /// longer anyway.
    fn extend(&mut self, stage: &dyn StagedFile, len: u64) -> io::Result<()> {
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
