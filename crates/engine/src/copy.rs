//! Copies a file's content between two open files, in the kernel if possible, otherwise by reading
//! and writing. Holes are preserved. Also reads content back from its medium.

mod blocks;

use self::blocks::in_several_threads;
use crate::control::{Control, CopyStep};
pub(crate) use blocks::{AHEAD_MAX, Blocks, assembler, blocks, hashed};
use haul_model::{
    BLOCK_LEN, BlockHasher, BlockTree, ContentHash, ContentHasher, Fault, FaultKind, Side,
};
use haul_store::{AssembleError, Mover};
use haul_sys::DIRECT_ALIGN;
use haul_tree::{ContentStream, SealedFile, SourceFile, StagedFile, changed, check_size};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

/// Files up to this size, in bytes, are read and written at once, unless the kernel copies them
/// faster (`StagedFile::copies_small_files`).
pub(crate) const WHOLE_MAX: u64 = 1 << 20;

/// Bytes that the kernel copies per call: enough to make the call's overhead negligible, little
/// enough to show progress and to stop quickly.
const RANGE_LEN: u64 = 16 << 20;

/// Bytes that are read, hashed and written at once within a block. Smaller parts are hashed faster,
/// but written more slowly to a medium without caching.
const PART_LEN: usize = 512 << 10;

/// Bytes that one thread passes between a file and a connection at once: they stay in the
/// processor's nearest cache.
pub(crate) const STEP_LEN: usize = 128 << 10;

/// Bytes of a hole that are hashed between two checks that the job continues.
const HOLE_STEP_LEN: u64 = 64 << 20;

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

/// Copies all of `source`, without hashing.
///
/// # Errors
/// The fault of the side that could not be read or written.
pub(crate) fn content(
    source: &dyn SourceFile,
    into: &mut Mover,
    scratch: &mut Scratch,
    control: &Control<'_>,
    on_step: &mut dyn FnMut(CopyStep),
) -> Result<(), Fault> {
    let size = source.seal().size;
    if size == 0 {
        return check_size(source);
    }
    if let Some(stream) = source.stream(0..size) {
        return streamed(stream, size, control, |piece, _| {
            into.write(piece).map_err(|error| write(&error))?;
            on_step(CopyStep::Moved(piece.len() as u64));
            Ok(())
        });
    }
    // Content that is not inspected need not enter this process.
    let writes_sparse = into.stage().writes_sparse();
    let mut in_kernel = !writes_sparse && (size > WHOLE_MAX || into.stage().copies_small_files());
    while let Some(data) = source.next_data(into.at()).map_err(|error| read(&error))? {
        skip_hole(into, data.start, on_step);
        while into.at() < data.end {
            if control.stopped() {
                return Err(interrupted());
            }
            let end = data.end.min(into.at().saturating_add(control.part()));
            let mut copied = None;
            if in_kernel {
                copied = into.put(|stage, at| move_range(source, stage, at, end).ok_or(())).ok();
                in_kernel = copied.is_some();
            }
            let copied = match copied {
                Some(copied) => copied,
                None if writes_sparse => {
                    let read = read_part(source, scratch, into.at(), end)?;
                    into.write(read).map_err(|error| write(&error))?;
                    read.len() as u64
                }
                None => into.put(|stage, at| read_and_write(source, stage, scratch, at, end))?,
            };
            if copied == 0 {
                // The file ended too early.
                return Err(changed());
            }
            on_step(CopyStep::Moved(copied));
        }
    }
    skip_hole(into, size, on_step);
    Ok(())
}

/// Skips a hole up to `end`. Nothing has to be written.
fn skip_hole(into: &mut Mover, end: u64, on_step: &mut dyn FnMut(CopyStep)) {
    let hole = end.saturating_sub(into.at());
    into.skip_hole(hole);
    on_step(CopyStep::Passed(hole));
}

/// Lets the kernel copy a part of `start..end`. Returns its length; `None` if the kernel can't.
fn move_range(
    source: &dyn SourceFile,
    stage: &dyn StagedFile,
    start: u64,
    end: u64,
) -> Option<u64> {
    let len = (end - start).min(RANGE_LEN) as usize;
    Some(haul_sys::copy_range(source.handle()?, stage.handle()?, start, len)? as u64)
}

/// Passes the pieces of a source up to its end to `each`, with the number of bytes still to come.
fn streamed(
    mut stream: Box<dyn ContentStream + '_>,
    mut left: u64,
    control: &Control<'_>,
    mut each: impl FnMut(&[u8], u64) -> Result<(), Fault>,
) -> Result<(), Fault> {
    while left > 0 {
        if control.stopped() {
            return Err(interrupted());
        }
        let Some(piece) = stream.next().map_err(|error| read(&error))? else {
            return Err(changed());
        };
        each(&piece, left)?;
        left = left.saturating_sub(piece.len() as u64);
    }
    Ok(())
}

/// Hashes a hole up to `end`, and calls `passed` with the length of each part. `None` if the job
/// ends first. A huge hole can take hours.
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

pub(crate) fn interrupted() -> Fault {
    Fault::new(Side::Source, FaultKind::Io, "interrupted")
}

/// Reads and writes a part of `start..end`. Returns its length.
fn read_and_write(
    source: &dyn SourceFile,
    stage: &dyn StagedFile,
    scratch: &mut Scratch,
    start: u64,
    end: u64,
) -> Result<u64, Fault> {
    let end = end.min(start + WHOLE_MAX);
    if let Some(handed) = source.handle().and_then(|file| stage.write_from(file, start..end)) {
        return Ok(handed.map(|()| end - start)?);
    }
    let read = read_part(source, scratch, start, end)?;
    stage.write_at(read, start).map_err(|error| write(&error))?;
    Ok(read.len() as u64)
}

/// Reads the beginning of `start..end`, at most [`WHOLE_MAX`] bytes.
fn read_part<'s>(
    source: &dyn SourceFile,
    scratch: &'s mut Scratch,
    start: u64,
    end: u64,
) -> Result<&'s [u8], Fault> {
    let buffer = scratch.buffer((end - start).min(WHOLE_MAX) as usize);
    let len = source.read_at(buffer, start).map_err(|error| read(&error))?;
    Ok(&buffer[..len])
}

/// The fault of a content that could not be assembled.
pub(crate) fn not_assembled(error: &AssembleError) -> Fault {
    let corrupt = |side| Fault::new(side, FaultKind::Corrupt, error.to_string());
    match error {
        AssembleError::Write(error) => write(error),
        AssembleError::Record(error) => {
            Fault::from_io(Side::Destination, "write the journal", error)
        }
        AssembleError::Differs => corrupt(Side::Destination),
        _ => corrupt(Side::Source),
    }
}

fn read(error: &io::Error) -> Fault {
    Fault::from_io(Side::Source, "read", error)
}

fn write(error: &io::Error) -> Fault {
    Fault::from_io(Side::Destination, "write", error)
}

/// Further threads that read back one file. They wait for the medium, so their number does not
/// depend on the processors.
const READ_BACK_HELPERS: usize = 3;

/// The hash of a durable file of `size` bytes, read from its medium, past the page cache if
/// possible. `at_once` is the number of files that are read back at the same time. Files of more
/// than one block share buffers of 16 MiB.
///
/// # Errors
/// When the file can't be read.
pub(crate) fn read_back(
    file: &dyn SealedFile,
    size: u64,
    at_once: usize,
    control: &Control<'_>,
) -> Result<ContentHash, Fault> {
    file.forget_cached();
    let mut hasher = ContentHasher::new();
    let mut take = |piece: &[u8]| {
        hasher.update(piece);
        !control.stopped()
    };
    if let Some(read) = file.stream(0..size, &mut take) {
        read.map_err(|e| read_back_failed(&e))?;
        if control.stopped() {
            return Err(interrupted());
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
    // Most media are faster with larger reads.
    let part_len = (BLOCK_LEN as usize / at_once.next_power_of_two()).max(PART_LEN);
    in_several_threads(&next, READ_BACK_HELPERS, control, || {
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
            hashes.lock().insert(index, hasher.finish());
        }
    })?;
    let hashes = hashes.into_inner();
    let whole = BlockTree::resume(hashes.into_values()).finish();
    Ok(whole.expect("there are two blocks or more"))
}

fn read_back_failed(error: &io::Error) -> Fault {
    Fault::from_io(Side::Destination, "read back", error)
}

fn read_back_short() -> Fault {
    let message = "the file reads back shorter than it was written";
    Fault::new(Side::Destination, FaultKind::Corrupt, message)
}

/// A buffer with the alignment for reading past the page cache.
pub(crate) struct Aligned {
    bytes: Vec<u8>,
    len: usize,
}

impl Aligned {
    /// A buffer of `len` bytes.
    pub(crate) fn new(len: usize) -> Self {
        Self { bytes: vec![0; len + DIRECT_ALIGN], len }
    }

    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        let start = self.bytes.as_ptr().align_offset(DIRECT_ALIGN);
        &mut self.bytes[start..start + self.len]
    }
}
