//! Moving a file's content between two open files: shared by the file system
//! where it can, moved inside the kernel where that is possible, else read and
//! written. Holes stay holes.

use crate::control::Control;
use crate::dirs::lock;
use crate::tree::{SourceFile, StagedFile, changed, check_size};
use haul_model::{BLOCK_LEN, BlockHash, BlockHasher, Fault, FaultKind, Side};
use std::collections::BTreeMap;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Files up to this size, in bytes, are read and written in one go: for them
/// two calls with a warm buffer are cheaper than asking the kernel how.
const WHOLE_MAX: u64 = 1 << 20;

/// Bytes that the kernel is asked to move in one call: enough to make the call
/// itself free, little enough to show progress and to stop quickly.
const RANGE_LEN: u64 = 16 << 20;

/// Bytes that are read, hashed and written in one go within a block: they stay
/// in the processor's cache.
const PART_LEN: usize = 512 << 10;

/// Threads that help to copy one large file, at most: more than this only wait
/// for memory.
const HELPERS_MAX: usize = 3;

/// A worker's buffer, kept from file to file.
#[derive(Default)]
pub(crate) struct Scratch(Vec<u8>);

impl Scratch {
    fn buffer(&mut self, len: usize) -> &mut [u8] {
        if self.0.len() < len {
            self.0.resize(len, 0);
        }
        &mut self.0[..len]
    }
}

/// Copies all of `source` into the empty `stage`; tells `moved` each part's
/// length. Returns the length of what was copied, holes included.
///
/// # Errors
/// What could not be read or written, by side.
pub(crate) fn content(
    source: &dyn SourceFile,
    stage: &dyn StagedFile,
    scratch: &mut Scratch,
    control: &Control<'_>,
    moved: &mut dyn FnMut(u64),
) -> Result<u64, Fault> {
    let size = source.seal().size;
    if size == 0 {
        check_size(source)?;
        return Ok(0);
    }
    let files = source.local().zip(stage.local());
    if size > WHOLE_MAX && files.is_some_and(|(from, to)| haul_sys::clone_file(from, to)) {
        moved(size);
        return Ok(size);
    }
    let mut at = 0;
    let mut in_kernel = size > WHOLE_MAX;
    while let Some(data) = source.next_data(at).map_err(|error| read(&error))? {
        at = data.start;
        while at < data.end {
            if control.stopped() {
                return Err(interrupted());
            }
            let copied = match files {
                Some((from, to)) if in_kernel => {
                    let len = (data.end - at).min(RANGE_LEN) as usize;
                    let copied = haul_sys::copy_range(from, to, at, len);
                    match copied
                        .map_err(|error| Fault::from_io(Side::Destination, "copy", &error))?
                    {
                        Some(copied) => copied as u64,
                        None => {
                            in_kernel = false;
                            continue;
                        }
                    }
                }
                _ => by_hand(source, stage, scratch, at, data.end)?,
            };
            if copied == 0 {
                // The file ends before it should.
                return Err(changed());
            }
            at += copied;
            moved(copied);
        }
    }
    if at < size {
        stage.set_len(size).map_err(|error| write(&error))?;
    }
    Ok(size)
}

/// Makes the empty `stage` share the content of `source`, where the file system
/// can do that; nothing is moved then.
pub(crate) fn shared(source: &dyn SourceFile, stage: &dyn StagedFile) -> bool {
    let files = source.local().zip(stage.local());
    files.is_some_and(|(from, to)| haul_sys::clone_file(from, to))
}

/// Copies `source`, which has no holes, from block `first` on into a stage that can be continued,
/// with several threads, and records each block's hash in its turn. Returns the
/// length of the whole.
///
/// # Errors
/// What could not be read or written, by side.
pub(crate) fn blocks(
    source: &dyn SourceFile,
    stage: &dyn StagedFile,
    first: u64,
    control: &Control<'_>,
    moved: &mut (dyn FnMut(u64) + Send),
) -> Result<u64, Fault> {
    let size = source.seal().size;
    let next = AtomicU64::new(first);
    let order = Mutex::new(Order { next: first, waiting: BTreeMap::new(), moved });
    let copy_blocks = || -> Result<(), Fault> {
        let mut buffer = vec![0; PART_LEN];
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let start = index.saturating_mul(BLOCK_LEN);
            if start >= size {
                return Ok(());
            }
            if control.stopped() {
                return Err(interrupted());
            }
            let end = size.min(start + BLOCK_LEN);
            let mut hasher = BlockHasher::new(index);
            for at in (start..end).step_by(PART_LEN) {
                let part = &mut buffer[..(end - at).min(PART_LEN as u64) as usize];
                let len = source.read_at(part, at).map_err(|error| read(&error))?;
                if len < part.len() {
                    return Err(changed());
                }
                hasher.update(part);
                stage.write_at(part, at).map_err(|error| write(&error))?;
            }
            lock(&order).done(stage, index, end - start, &hasher)?;
        }
    };
    let copy_or_stop = || {
        let copied = copy_blocks();
        if copied.is_err() {
            // The others find nothing more to do.
            next.store(u64::MAX / 2, Ordering::Relaxed);
        }
        copied
    };
    let helpers = (crate::workers::workers() - 1).min(HELPERS_MAX);
    std::thread::scope(|scope| {
        let helpers: Vec<_> = (0..helpers).map(|_| scope.spawn(copy_or_stop)).collect();
        let mut result = copy_or_stop();
        for helper in helpers {
            result = result.and(helper.join().expect("a panic here is a bug and ends the job"));
        }
        result
    })?;
    Ok(size)
}

/// Puts the records of blocks that are done in any order into theirs.
struct Order<'m> {
    /// The block that is recorded next.
    next: u64,
    waiting: BTreeMap<u64, BlockHash>,
    moved: &'m mut (dyn FnMut(u64) + Send),
}

impl Order<'_> {
    fn done(
        &mut self,
        stage: &dyn StagedFile,
        index: u64,
        len: u64,
        hasher: &BlockHasher,
    ) -> Result<(), Fault> {
        (self.moved)(len);
        if len == BLOCK_LEN {
            self.waiting.insert(index, hasher.finish());
        }
        while let Some(block) = self.waiting.remove(&self.next) {
            let recorded = stage.record(block);
            recorded.map_err(|e| Fault::from_io(Side::Destination, "keep the journal", &e))?;
            self.next += 1;
        }
        Ok(())
    }
}

fn interrupted() -> Fault {
    Fault::new(Side::Source, FaultKind::Io, "interrupted")
}

/// Reads and writes a part of `start..end`; returns its length.
fn by_hand(
    source: &dyn SourceFile,
    stage: &dyn StagedFile,
    scratch: &mut Scratch,
    start: u64,
    end: u64,
) -> Result<u64, Fault> {
    let buffer = scratch.buffer((end - start).min(WHOLE_MAX) as usize);
    let len = source.read_at(buffer, start).map_err(|error| read(&error))?;
    stage.write_at(&buffer[..len], start).map_err(|error| write(&error))?;
    Ok(len as u64)
}

fn read(error: &io::Error) -> Fault {
    Fault::from_io(Side::Source, "read", error)
}

fn write(error: &io::Error) -> Fault {
    Fault::from_io(Side::Destination, "write", error)
}
