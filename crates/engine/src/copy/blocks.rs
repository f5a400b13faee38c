//! Large contents, block by block, by several threads.

use super::{PART_LEN, Step, interrupted, not_moved, read, streamed, write};
use crate::control::{CANCEL_POLL, Control};
use crate::crew::share_out;
use haul_model::{BLOCK_LEN, BlockHash, BlockHasher, ContentHash, ContentHasher, Fault, Side};
use haul_tree::{ContentStream, SourceFile, StagedFile, changed, lock};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

/// Threads that help to copy one large file, at most: more than this only wait
/// for memory.
const HELPERS_MAX: usize = 3;

/// Blocks from the first one that is not on record yet that are worked on, at
/// most: what a process that dies leaves to be copied again. A little more than
/// there are threads, so that one that is held up doesn't stop the others.
const AHEAD_MAX: u64 = 6;

/// What the next block is set to when nothing more is to be done.
const NOTHING_LEFT: u64 = u64::MAX / 2;

/// Copies `source`, which has more than one block, into a stage that can be
/// continued and is as long as what is there, with several threads, and records each
/// block's hash in its turn. `done` are the hashes of the blocks that are there already.
/// Returns the length and the hash of the whole.
///
/// # Errors
/// What could not be read or written, by side.
pub(crate) fn blocks(
    source: &dyn SourceFile,
    stage: &dyn StagedFile,
    done: Vec<BlockHash>,
    control: &Control<'_>,
    told: &mut (dyn FnMut(Step) + Send),
) -> Result<(u64, ContentHash), Fault> {
    let size = source.seal().size;
    if let Some(stream) = source.stream(done.len() as u64 * BLOCK_LEN..size) {
        return streamed_blocks(stream, size, stage, done, control, told);
    }
    let next = AtomicU64::new(done.len() as u64);
    let len = done.len() as u64 * BLOCK_LEN;
    let order = Mutex::new(Order { done, len, waiting: BTreeMap::new(), told });
    let recorded = Condvar::new();
    let written = AtomicU64::new(0);
    let ahead_max = AHEAD_MAX.max(stage.lanes().unwrap_or(0) as u64 + 2);
    // Waits until block `index` is not too far ahead; `false` if the copy ends.
    // Whoever has the block that is recorded next never waits.
    let may_begin = |index: u64| {
        let mut order = lock(&order);
        while index >= order.done.len() as u64 + ahead_max {
            if control.stopped() || next.load(Ordering::Relaxed) >= NOTHING_LEFT {
                return false;
            }
            order = match recorded.wait_timeout(order, CANCEL_POLL) {
                Ok((order, _)) => order,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
        true
    };
    let copy_blocks = || -> Result<(), Fault> {
        let mut buffer = vec![0; PART_LEN];
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let start = index.saturating_mul(BLOCK_LEN);
            if start >= size {
                return Ok(());
            }
            let goes_on = may_begin(index);
            if control.stopped() {
                return Err(interrupted());
            }
            if !goes_on {
                // Another thread has failed, and says why.
                return Ok(());
            }
            let end = size.min(start + BLOCK_LEN);
            let block = block(source, stage, index, start..end, &mut buffer)?;
            written.fetch_max(block.data_end, Ordering::Relaxed);
            source.release(start);
            lock(&order).add(stage, index, block)?;
            recorded.notify_all();
        }
    };
    let helpers = match stage.lanes() {
        Some(lanes) => lanes - 1,
        None => (crate::workers::workers() - 1).min(HELPERS_MAX),
    };
    in_several_threads(&next, helpers, control, copy_blocks)?;
    if written.into_inner() < size {
        // It ends with a hole, by all that was written here.
        stage.set_len(size).map_err(|error| write(&error))?;
    }
    let order = order.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok((order.len, ContentHash::of_blocks(&order.done, size)))
}

/// Does what [`blocks`] does with content that arrives in order: one thread keeps
/// up with a connection.
fn streamed_blocks(
    stream: Box<dyn ContentStream + '_>,
    size: u64,
    stage: &dyn StagedFile,
    done: Vec<BlockHash>,
    control: &Control<'_>,
    told: &mut (dyn FnMut(Step) + Send),
) -> Result<(u64, ContentHash), Fault> {
    let mut recorded = done.len() as u64;
    let start = recorded * BLOCK_LEN;
    let mut hasher = ContentHasher::resume(done);
    streamed(stream, start..size, stage, control, |bytes| {
        hasher.update(bytes);
        while let Some(hash) = hasher.block(recorded) {
            let kept = stage.record(hash);
            kept.map_err(|e| Fault::from_io(Side::Destination, "keep the journal", &e))?;
            recorded += 1;
        }
        told(Step::Moved(bytes.len() as u64));
        Ok(())
    })?;
    Ok((size, hasher.finish()))
}

/// Copies block `index`, which is `range`, and leaves its holes out.
fn block(
    source: &dyn SourceFile,
    stage: &dyn StagedFile,
    index: u64,
    range: Range<u64>,
    buffer: &mut [u8],
) -> Result<Copied, Fault> {
    let (mut at, end) = (range.start, range.end);
    let mut hasher = BlockHasher::new(index);
    let (mut data_len, mut data_end) = (0, 0);
    while at < end {
        let data = source.next_data(at).map_err(|error| read(&error))?;
        let data = data.map_or(end..end, |data| data.start.min(end)..data.end.min(end));
        hasher.update_zeros(data.start - at);
        at = data.start;
        while at < data.end {
            let part = &mut buffer[..(data.end - at).min(PART_LEN as u64) as usize];
            let len = source.read_at(part, at).map_err(|error| read(&error))?;
            if len < part.len() {
                return Err(changed());
            }
            hasher.update(part);
            match source.handle().and_then(|file| stage.write_from(file, at..at + len as u64)) {
                Some(moved) => moved.map_err(|error| not_moved(&error))?,
                None => stage.write_at(part, at).map_err(|error| write(&error))?,
            }
            at += len as u64;
        }
        data_len += data.end - data.start;
        if !data.is_empty() {
            data_end = data.end;
        }
    }
    Ok(Copied { hash: hasher.finish(), len: end - range.start, data_len, data_end })
}

/// Runs `work` in this thread and up to as many `helpers`, until all have ended;
/// after an error `next`, from which they take what to do, has nothing more for the
/// others.
pub(super) fn in_several_threads(
    next: &AtomicU64,
    helpers: usize,
    control: &Control<'_>,
    work: impl Fn() -> Result<(), Fault> + Sync,
) -> Result<(), Fault> {
    let failed = Mutex::new(None);
    let work_or_stop = || {
        if let Err(fault) = work() {
            lock(&failed).get_or_insert(fault);
            next.store(NOTHING_LEFT, Ordering::Relaxed);
        }
    };
    share_out(control, "copying", helpers, work_or_stop);
    failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

/// Puts the records of blocks that are done in any order into theirs.
struct Order<'m> {
    /// The hashes of the blocks that are recorded.
    done: Vec<BlockHash>,
    /// The length of these blocks, in bytes.
    len: u64,
    waiting: BTreeMap<u64, Copied>,
    told: &'m mut (dyn FnMut(Step) + Send),
}

/// A block that was copied.
struct Copied {
    hash: BlockHash,
    /// Its length in bytes; only the last can be short.
    len: u64,
    /// How much of it is no hole.
    data_len: u64,
    /// Where the last of that ends in the file; 0 if all of it is a hole.
    data_end: u64,
}

impl Order<'_> {
    fn add(&mut self, stage: &dyn StagedFile, index: u64, copied: Copied) -> Result<(), Fault> {
        (self.told)(Step::Moved(copied.data_len));
        (self.told)(Step::Passed(copied.len - copied.data_len));
        self.waiting.insert(index, copied);
        while let Some(Copied { hash, len, .. }) = self.waiting.remove(&(self.done.len() as u64)) {
            if len == BLOCK_LEN {
                let recorded = stage.record(hash);
                recorded.map_err(|e| Fault::from_io(Side::Destination, "keep the journal", &e))?;
            }
            self.done.push(hash);
            self.len += len;
        }
        Ok(())
    }
}
