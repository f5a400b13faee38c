//! Copies large contents block by block, in several threads.

use super::{CopyStep, PART_LEN, Scratch, interrupted, not_assembled, read, streamed, write};
use crate::control::{CANCEL_POLL, Control};
use crate::threads::run_shared;
use haul_model::{BLOCK_LEN, BlockHash, Fault};
use haul_store::{Assembler, Pieces};
use haul_tree::{ContentStream, SourceFile, StagedFile, changed, check_size};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The most threads that help to copy one large file. More of them only wait for memory.
const HELPERS_MAX: usize = 3;

/// The most blocks in progress beyond the recorded ones. They must be copied again if the process
/// dies. A few more than the threads, so that a slow thread does not stop the others.
pub(crate) const AHEAD_MAX: u64 = 6;

/// The index of the next block when no more work is left.
const NOTHING_LEFT: u64 = u64::MAX / 2;

/// The content of a temporary file, assembled from blocks.
pub(crate) type Blocks = Assembler;

/// The content of `stage`, which already has the blocks `done`.
pub(crate) fn assembler(stage: Box<dyn StagedFile>, done: Vec<BlockHash>) -> Blocks {
    let lanes = stage.lanes().unwrap_or(0) as u64;
    Assembler::new(stage, done, AHEAD_MAX.max(lanes + 2))
}

/// Copies the missing blocks of `source` into `into`, with several threads.
///
/// # Errors
/// The fault of the side that could not be read or written.
pub(crate) fn blocks(
    source: &dyn SourceFile,
    into: &Blocks,
    control: &Control<'_>,
    on_step: &mut (dyn FnMut(CopyStep) + Send),
) -> Result<(), Fault> {
    let (size, first) = (source.seal().size, into.recorded());
    if let Some(stream) = source.stream(first * BLOCK_LEN..size) {
        return streamed_blocks(stream, size, into, control, on_step);
    }
    let next = AtomicU64::new(first);
    let on_step = Mutex::new(on_step);
    let is_running = || !control.stopped() && next.load(Ordering::Relaxed) < NOTHING_LEFT;
    let copy_blocks = || -> Result<(), Fault> {
        let mut buffer = vec![0; PART_LEN];
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index.saturating_mul(BLOCK_LEN) >= size {
                return Ok(());
            }
            let may_begin = into.wait_until_in_window(index, CANCEL_POLL, is_running);
            if control.stopped() {
                return Err(interrupted());
            }
            if !may_begin {
                // Another thread has failed, and reports the reason.
                return Ok(());
            }
            block(source, into, index, &mut buffer, &mut |step| (on_step.lock())(step))?;
        }
    };
    let helpers = match into.stage().lanes() {
        Some(lanes) => lanes - 1,
        None => (crate::workers::workers() - 1).min(HELPERS_MAX),
    };
    in_several_threads(&next, helpers, control, copy_blocks)
}

/// The same in this thread and in order, for a source of any length.
///
/// # Errors
/// As [`blocks`].
pub(crate) fn hashed(
    source: &dyn SourceFile,
    into: &Blocks,
    scratch: &mut Scratch,
    control: &Control<'_>,
    on_step: &mut dyn FnMut(CopyStep),
) -> Result<(), Fault> {
    let size = source.seal().size;
    if size == 0 {
        return check_size(source);
    }
    if let Some(stream) = source.stream(0..size) {
        return streamed_blocks(stream, size, into, control, on_step);
    }
    let buffer = scratch.buffer(PART_LEN.min(size as usize));
    for index in 0..size.div_ceil(BLOCK_LEN) {
        if control.stopped() {
            return Err(interrupted());
        }
        block(source, into, index, buffer, on_step)?;
    }
    Ok(())
}

/// The same as [`blocks`] for content that arrives in order. One thread keeps up with a connection.
fn streamed_blocks(
    stream: Box<dyn ContentStream + '_>,
    size: u64,
    into: &Blocks,
    control: &Control<'_>,
    on_step: &mut dyn FnMut(CopyStep),
) -> Result<(), Fault> {
    let mut pieces = Pieces::default();
    let assembled = |error| not_assembled(&error);
    streamed(stream, size - into.recorded() * BLOCK_LEN, control, |bytes, left| {
        pieces.take(into, bytes, size - left).map_err(assembled)?;
        pieces.end_complete(into).map_err(assembled)?;
        on_step(CopyStep::Moved(bytes.len() as u64));
        Ok(())
    })?;
    pieces.end(into, size).map(drop).map_err(assembled)
}

/// Copies block `index` without its holes.
fn block(
    source: &dyn SourceFile,
    into: &Blocks,
    index: u64,
    buffer: &mut [u8],
    on_step: &mut dyn FnMut(CopyStep),
) -> Result<(), Fault> {
    let start = index * BLOCK_LEN;
    let end = source.seal().size.min(start + BLOCK_LEN);
    let mut block = into.begin(index).map_err(|error| not_assembled(&error))?;
    let mut data_len = 0;
    while block.end() < end {
        let data = source.next_data(block.end()).map_err(|error| read(&error))?;
        let data = data.map_or(end..end, |data| data.start.min(end)..data.end.min(end));
        let hole = data.start - block.end();
        into.skip_hole(&mut block, hole).map_err(|error| write(&error))?;
        while block.end() < data.end {
            let at = block.end();
            let len = buffer.len().min((data.end - at) as usize);
            let part = &mut buffer[..len];
            if source.read_at(part, at).map_err(|error| read(&error))? < part.len() {
                return Err(changed());
            }
            if into.stage().writes_sparse() {
                into.write(&mut block, part).map_err(|error| write(&error))?;
                continue;
            }
            into.put(&mut block, part, |stage, at| {
                let from = source.handle();
                match from.and_then(|file| stage.write_from(file, at..at + part.len() as u64)) {
                    Some(moved) => moved.map_err(Fault::from),
                    None => stage.write_at(part, at).map_err(|error| write(&error)),
                }
            })?;
        }
        data_len += data.end - data.start;
    }
    source.release_up_to(end);
    into.end(block, None).map_err(|error| not_assembled(&error))?;
    on_step(CopyStep::Moved(data_len));
    on_step(CopyStep::Passed(end - start - data_len));
    Ok(())
}

/// Runs `work` in this thread and up to `helpers` others, until all have ended. They take their
/// work from `next`. After an error, `next` has no more work.
pub(super) fn in_several_threads(
    next: &AtomicU64,
    helpers: usize,
    control: &Control<'_>,
    work: impl Fn() -> Result<(), Fault> + Sync,
) -> Result<(), Fault> {
    let failed = Mutex::new(None);
    let work_or_stop = || {
        if let Err(fault) = work() {
            failed.lock().get_or_insert(fault);
            next.store(NOTHING_LEFT, Ordering::Relaxed);
        }
    };
    run_shared(control, "copying", helpers, work_or_stop);
    failed.into_inner().map_or(Ok(()), Err)
}
