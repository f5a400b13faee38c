//! Moving a file's content between two open files: inside the kernel where that
//! is possible, else by reading and writing. Holes stay holes.

use crate::control::{CANCEL_POLL, Control};
use crate::crew::share_out;
use haul_model::{
    BLOCK_LEN, BlockHash, BlockHasher, ContentHash, ContentHasher, Fault, FaultKind, Side,
};
use haul_sys::DIRECT_ALIGN;
use haul_tree::lock;
use haul_tree::{ContentStream, NotMoved, SealedFile, SourceFile, StagedFile, changed, check_size};
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

/// Files up to this size, in bytes, are read and written in one go: for them
/// two calls with a warm buffer are cheaper than asking the kernel how.
pub(crate) const WHOLE_MAX: u64 = 1 << 20;

/// Bytes that the kernel is asked to move in one call: enough to make the call
/// itself free, little enough to show progress and to stop quickly.
const RANGE_LEN: u64 = 16 << 20;

/// Bytes that are read, hashed and written in one go within a block. Less is
/// hashed faster, but a medium that is written to at once takes it more slowly.
const PART_LEN: usize = 512 << 10;

/// Bytes that go through one thread in one go between a file and a connection:
/// they stay in the cache that is nearest to the processor.
pub(crate) const STEP_LEN: usize = 128 << 10;

/// Threads that help to copy one large file, at most: more than this only wait
/// for memory.
const HELPERS_MAX: usize = 3;

/// Threads that read back one file, besides the first: they wait for the medium,
/// however few processors there are.
const READ_BACK_HELPERS: usize = 3;

/// Blocks from the first one that is not on record yet that are worked on, at
/// most: what a process that dies leaves to be copied again. A little more than
/// there are threads, so that one that is held up doesn't stop the others.
const AHEAD_MAX: u64 = 6;

/// What the next block is set to when nothing more is to be done.
const NOTHING_LEFT: u64 = u64::MAX / 2;

/// Bytes of a hole that are hashed between two looks at whether the job goes on.
const HOLE_STEP_LEN: u64 = 64 << 20;

/// How far a copy has come since it told the last step, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step {
    /// So much content was moved.
    Moved(u64),
    /// A hole of this length was passed: it is done, and nothing was moved.
    Passed(u64),
}

impl Step {
    /// Its length in bytes.
    pub(crate) fn len(self) -> u64 {
        match self {
            Self::Moved(len) | Self::Passed(len) => len,
        }
    }
}

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

/// Copies all of `source` into the empty `stage`, and hashes it if `hasher` is
/// given; tells `told` each step. Returns the length of what was copied, holes
/// included.
///
/// # Errors
/// What could not be read or written, by side.
pub(crate) fn content(
    source: &dyn SourceFile,
    stage: &dyn StagedFile,
    scratch: &mut Scratch,
    mut hasher: Option<&mut ContentHasher>,
    control: &Control<'_>,
    told: &mut dyn FnMut(Step),
) -> Result<u64, Fault> {
    let size = source.seal().size;
    if size == 0 {
        check_size(source)?;
        return Ok(0);
    }
    if let Some(stream) = source.stream(0..size) {
        let each = |bytes: &[u8]| {
            if let Some(hasher) = &mut hasher {
                hasher.update(bytes);
            }
            told(Step::Moved(bytes.len() as u64));
            Ok(())
        };
        streamed(stream, 0..size, stage, control, each)?;
        return Ok(size);
    }
    let files = source.local().zip(stage.local());
    // What nobody has to look at need not come into this process.
    let mut in_kernel = size > WHOLE_MAX && hasher.is_none();
    let mut at = 0;
    while let Some(data) = source.next_data(at).map_err(|error| read(&error))? {
        pass_hole(at..data.start, hasher.as_deref_mut(), control, told)?;
        at = data.start;
        while at < data.end {
            if control.stopped() {
                return Err(interrupted());
            }
            let copied = match files {
                Some((from, to)) if in_kernel => {
                    let len = (data.end - at).min(RANGE_LEN) as usize;
                    match haul_sys::copy_range(from, to, at, len) {
                        Some(copied) => copied as u64,
                        None => {
                            in_kernel = false;
                            continue;
                        }
                    }
                }
                _ => by_hand(source, stage, scratch, hasher.as_deref_mut(), at, data.end)?,
            };
            if copied == 0 {
                // The file ends before it should.
                return Err(changed());
            }
            at += copied;
            told(Step::Moved(copied));
        }
    }
    if at < size {
        stage.set_len(size).map_err(|error| write(&error))?;
        pass_hole(at..size, hasher, control, told)?;
    }
    Ok(size)
}

/// Passes `hole`, of which nothing has to be written, and hashes it if `hasher`
/// is given.
fn pass_hole(
    hole: Range<u64>,
    hasher: Option<&mut ContentHasher>,
    control: &Control<'_>,
    told: &mut dyn FnMut(Step),
) -> Result<(), Fault> {
    match hasher {
        Some(hasher) => {
            let mut passed = |len| told(Step::Passed(len));
            hash_hole(hasher, hole.end, control, &mut passed).ok_or_else(interrupted)
        }
        None => {
            told(Step::Passed(hole.end.saturating_sub(hole.start)));
            Ok(())
        }
    }
}

/// Copies `range` of a source as it arrives, and tells `each` every piece once it
/// is written.
fn streamed(
    mut stream: Box<dyn ContentStream + '_>,
    range: Range<u64>,
    stage: &dyn StagedFile,
    control: &Control<'_>,
    mut each: impl FnMut(&[u8]) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let mut at = range.start;
    while at < range.end {
        if control.stopped() {
            return Err(interrupted());
        }
        let Some(piece) = stream.next().map_err(|error| read(&error))? else {
            return Err(changed());
        };
        stage.write_at(&piece, at).map_err(|error| write(&error))?;
        at += piece.len() as u64;
        each(&piece)?;
    }
    Ok(())
}

/// Hashes a hole up to `end`, and tells `passed` the length of each part of it;
/// `None` if the job ends before. A hole can be so large that it takes hours.
pub(crate) fn hash_hole(
    hasher: &mut ContentHasher,
    end: u64,
    control: &Control<'_>,
    passed: &mut dyn FnMut(u64),
) -> Option<()> {
    while hasher.len() < end {
        if control.stopped() {
            return None;
        }
        let len = (end - hasher.len()).min(HOLE_STEP_LEN);
        hasher.update_zeros(len);
        passed(len);
    }
    Some(())
}

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
    with_helpers(&next, helpers, control, copy_blocks)?;
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
            match source.local().and_then(|file| stage.write_from(file, at..at + len as u64)) {
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
fn with_helpers(
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

/// The hash of what the medium holds of a file of `size` bytes, which is
/// durable: read past the page cache where that is possible. So many files,
/// `at_once`, are read back at the same time: those of more than one block share
/// 16 MiB for it.
///
/// # Errors
/// What could not be read.
pub(crate) fn read_back(
    file: &dyn SealedFile,
    size: u64,
    at_once: usize,
    control: &Control<'_>,
) -> Result<ContentHash, Fault> {
    file.forget_cached();
    if let Some(mut stream) = file.stream(0..size) {
        let mut hasher = ContentHasher::new();
        while let Some(piece) = stream.next().map_err(|e| read_back_failed(&e))? {
            if control.stopped() {
                return Err(interrupted());
            }
            hasher.update(&piece);
        }
        return if hasher.len() == size { Ok(hasher.finish()) } else { Err(read_back_short()) };
    }
    let fill = |buffer: &mut [u8], at: u64, len: u64| -> Result<(), Fault> {
        let read = file.read_at(buffer, at);
        let read = read.map_err(|e| read_back_failed(&e))?;
        if (read as u64) < len {
            return Err(read_back_short());
        }
        Ok(())
    };
    if size <= BLOCK_LEN {
        let mut buffer = Aligned::new(size.next_multiple_of(DIRECT_ALIGN as u64) as usize);
        fill(buffer.bytes(), 0, size)?;
        return Ok(ContentHash::of(&buffer.bytes()[..size as usize]));
    }
    let next = AtomicU64::new(0);
    let hashes = Mutex::new(BTreeMap::new());
    // The more is asked for at a time, the faster most media are.
    let part_len = (BLOCK_LEN as usize / at_once.next_power_of_two()).max(PART_LEN);
    with_helpers(&next, READ_BACK_HELPERS, control, || {
        let mut buffer = Aligned::new(part_len);
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let start = index.saturating_mul(BLOCK_LEN);
            if start >= size {
                return Ok(());
            }
            let end = size.min(start + BLOCK_LEN);
            let mut hasher = BlockHasher::new(index);
            for at in (start..end).step_by(part_len) {
                if control.stopped() {
                    return Err(interrupted());
                }
                let len = (end - at).min(part_len as u64);
                fill(buffer.bytes(), at, len)?;
                hasher.update(&buffer.bytes()[..len as usize]);
            }
            lock(&hashes).insert(index, hasher.finish());
        }
    })?;
    let hashes = hashes.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(ContentHash::of_blocks(&hashes.into_values().collect::<Vec<_>>(), size))
}

fn read_back_failed(error: &io::Error) -> Fault {
    Fault::from_io(Side::Destination, "read back", error)
}

fn read_back_short() -> Fault {
    let message = "the file that is read back is shorter than what was written";
    Fault::new(Side::Destination, FaultKind::Corrupt, message)
}

/// A buffer for reading past the page cache.
struct Aligned {
    bytes: Vec<u8>,
    len: usize,
}

impl Aligned {
    /// A buffer of `len` bytes.
    fn new(len: usize) -> Self {
        Self { bytes: vec![0; len + DIRECT_ALIGN], len }
    }

    fn bytes(&mut self) -> &mut [u8] {
        let start = self.bytes.as_ptr().align_offset(DIRECT_ALIGN);
        &mut self.bytes[start..start + self.len]
    }
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

pub(crate) fn interrupted() -> Fault {
    Fault::new(Side::Source, FaultKind::Io, "interrupted")
}

/// Reads and writes a part of `start..end`, and hashes it if `hasher` is given;
/// returns its length.
fn by_hand(
    source: &dyn SourceFile,
    stage: &dyn StagedFile,
    scratch: &mut Scratch,
    hasher: Option<&mut ContentHasher>,
    start: u64,
    end: u64,
) -> Result<u64, Fault> {
    let end = end.min(start + WHOLE_MAX);
    if hasher.is_none()
        && let Some(handed) = source.local().and_then(|file| stage.write_from(file, start..end))
    {
        return handed.map(|()| end - start).map_err(|error| not_moved(&error));
    }
    let buffer = scratch.buffer((end - start) as usize);
    let len = source.read_at(buffer, start).map_err(|error| read(&error))?;
    stage.write_at(&buffer[..len], start).map_err(|error| write(&error))?;
    if let Some(hasher) = hasher {
        hasher.update(&buffer[..len]);
    }
    Ok(len as u64)
}

fn not_moved(error: &NotMoved) -> Fault {
    match error {
        NotMoved::Read(error) if error.kind() == io::ErrorKind::UnexpectedEof => changed(),
        NotMoved::Read(error) => read(error),
        NotMoved::Written(error) => write(error),
    }
}

fn read(error: &io::Error) -> Fault {
    Fault::from_io(Side::Source, "read", error)
}

fn write(error: &io::Error) -> Fault {
    Fault::from_io(Side::Destination, "write", error)
}
